"""Rules of llama-quantize: the block type of each matrix in a file type such as Q4_K_M, which mixes them.

Source: llama.cpp, src/llama-quant.cpp, ``llama_tensor_get_type_impl`` (of 2026). An importance matrix is taken to be
there for the types that llama-quantize refuses without one (``iq1_…``, ``iq2_…``, ``iq3_xxs``), and for no others.
"""

from __future__ import annotations

from typing import NamedTuple

DEFAULTS = {
    **{name: name for name in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q6_k", "tq1_0", "tq2_0")},
    **{name: name for name in ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs")},
    "q2_k_s": "q2_k",
    **dict.fromkeys(("q3_k_s", "q3_k_m", "q3_k_l"), "q3_k"),
    **dict.fromkeys(("q4_k_s", "q4_k_m"), "q4_k"),
    **dict.fromkeys(("q5_k_s", "q5_k_m"), "q5_k"),
    "iq2_s": "iq2_xs",
    "iq2_m": "iq2_s",
    **dict.fromkeys(("iq3_xs", "iq3_m"), "iq3_s"),
}
"""The type of most matrices in each file type."""

ALSO = {"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m"}
"""llama-quantize's short names."""

LOWEST = ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m")
OUTPUT, EMBEDDING = "output", "embedding"
LETTERS = {"W_V": "v", "W_QKV": "qkv", "W_UKV": "kv_b", "W_K": "k", "W_Q": "q", "W_O": "o", "W_2": "down"}
"""llama.cpp's categories of tfcalc's matrices; all others take the default, or are known by their layer."""
GATES = ("W_1", "W_g")
ONLY_THREE = ("q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m")
ONLY_THREE_I = ("iq3_xs", "iq3_xxs", "iq3_s", "iq3_m", "iq4_nl", "iq4_xs")


class ModelTraits(NamedTuple):
    """Properties of a model that the rules depend on: grouped queries, experts, tied embeddings, layers."""

    grouped: bool = False
    experts: int = 0
    tied: bool = False
    layers: int = 0


def type_of(file: str, what: str, layer: int, facts: ModelTraits) -> str:
    """The block type of the matrix that ``what`` names, in this layer.

    >>> [type_of("q4_k_m", "W_V", layer, ModelTraits(layers=32)) for layer in (3, 4, 6, 31)]
    ['q6_k', 'q4_k', 'q6_k', 'q6_k']
    """
    default = DEFAULTS[file]
    if what == OUTPUT or (what == EMBEDDING and facts.tied):
        return "q5_k" if file in (*LOWEST, "iq3_xxs") else default if default == "q8_0" else "q6_k"
    if what == EMBEDDING:
        return _embedding(file) or default
    category = "gate" if what in GATES else LETTERS.get(what, "")
    if file in LOWEST:
        return _lowest(file, category, layer, facts) or default
    if category in ("v", "qkv", "kv_b"):
        return _values(file, default, layer, facts)
    if category == "down":
        return _down(file, layer, facts) or default
    if category == "o":
        return _attention_output(file, facts) or default
    if category == "k" and facts.experts == 8:
        return "q8_0"
    if category in ("k", "q"):
        return {"iq3_xs": "iq3_xxs", "iq3_xxs": "iq2_s"}.get(file, default)
    middle = facts.layers // 8 <= layer < 7 * facts.layers // 8
    return "iq3_xxs" if category == "gate" and file == "iq3_xs" and middle else default


def more_bits(layer: int, layers: int) -> bool:
    """The first and the last eighth of the layers, and every third between them (``use_more_bits``)."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def _embedding(file: str) -> str:
    if file in ("iq2_s", "iq2_m", "iq3_xxs"):
        return "iq3_s"
    if file in LOWEST:
        return "q2_k"
    return "q4_k" if file in ("tq1_0", "tq2_0") else ""


def _lowest(file: str, category: str, layer: int, facts: ModelTraits) -> str:
    two = "iq3_s" if file in ("iq2_s", "iq2_m") else "q2_k"
    if category in ("v", "qkv", "kv_b"):
        return "q4_k" if facts.grouped or facts.experts >= 4 else two
    if category == "k" and facts.experts == 8:
        return "q4_k"
    if category == "down" and layer < facts.layers // 8:
        return two
    if category == "o" and facts.experts == 8:
        return "q5_k"
    one = {"iq1_s": "iq2_xxs", "iq1_m": "iq2_xxs", "iq2_s": "iq3_s", "iq2_m": "iq3_s"}
    return one.get(file, "") if category == "o" else ""


def _values(file: str, default: str, layer: int, facts: ModelTraits) -> str:
    found = default
    if file == "q2_k":
        found = "q4_k" if facts.grouped else "q3_k"
    elif file in ("q2_k_s", "iq3_xxs", "iq3_xs", "iq3_s") and facts.grouped:
        found = "q4_k"
    elif file in ("iq4_nl", "iq4_xs") and facts.grouped:
        found = "q5_k"
    elif file == "iq3_m":
        found = "q4_k"
    elif file == "q3_k_m":
        found = "q5_k" if layer < 2 else "q4_k"
    elif file == "q3_k_l" or (file == "q4_k_s" and layer < 4):
        found = "q5_k"
    elif file in ("q4_k_m", "q5_k_m") and more_bits(layer, facts.layers):
        found = "q6_k"
    if facts.layers == 80 and found in ("q3_k", "q4_k"):
        found = "q5_k"
    return "q8_0" if facts.experts == 8 else found


def _down(file: str, layer: int, facts: ModelTraits) -> str:
    first = layer < facts.layers // 8
    more = more_bits(layer, facts.layers)
    if file == "q2_k":
        return "q3_k"
    if file == "q3_k_m":
        return "q5_k" if layer < facts.layers // 16 else "q4_k"
    if file == "q3_k_l" or (file in ("q4_k_s", "iq4_nl", "iq4_xs") and first):
        return "q5_k"
    if (file == "q2_k_s" and first) or (file == "iq3_m" and (first or (facts.experts == 8 and more))):
        return "q4_k"
    return "q6_k" if file in ("q4_k_m", "q5_k_m") and more else ""


def _attention_output(file: str, facts: ModelTraits) -> str:
    if facts.experts == 8:
        return "q5_k" if file in (*ONLY_THREE, *ONLY_THREE_I) else ""
    chosen = {"q2_k": "q3_k", "iq3_xxs": "iq3_s", "q3_k_m": "q4_k", "q3_k_l": "q5_k", "iq3_m": "q4_k"}
    return chosen.get(file, "")
