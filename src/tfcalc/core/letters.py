"""Letters of formulas: their order in a product, and the notations that print other letters for them."""

from __future__ import annotations

from functools import cache

COUNTS = ("n", "n_0", "n_e", "n_d")
"""Letters that count equal parts, such as layers: always first in a product."""

ORDER = (*COUNTS, "l", "s", "c", "b", "h", "a", "g", "d", "d_v", "f", "T", "V")
"""Order of letters in a product, from left to right."""

TABLES = ("T", "V")
"""Rows of a table: first in the size of a table (Vh), last in a matrix product (2lbhV)."""

WORKLOAD = ("l", "s", "c", "b")

SCOPES = ("vis", "aud", "enc", "dec")
"""Suffixes of a nested model's letters: ``h_vis`` is the ``h`` of the vision model."""

NOTATIONS: dict[str, dict[str, str]] = {
    "lbhn": {},
    "bsld": {
        "b": "bs",
        "l": "L",
        "h": "d",
        "n": "N_l",
        "n_0": "N_0",
        "n_e": "N_e",
        "n_d": "N_d",
        "a": "h",
        "a_e": "h_e",
        "a_d": "h_d",
        "d": "d_h",
        "f": "d_ff",
    },
    "names": {
        "b": "batch_size",
        "l": "seq_len",
        "s": "source_len",
        "c": "cached_tokens",
        "h": "d_model",
        "n": "n_layers",
        "n_0": "dense_layers",
        "n_e": "encoder_layers",
        "n_d": "decoder_layers",
        "a": "n_heads",
        "a_e": "encoder_heads",
        "a_d": "decoder_heads",
        "g": "n_kv_heads",
        "d": "head_dim",
        "d_v": "value_dim",
        "d_n": "qk_nope_dim",
        "d_r": "qk_rope_dim",
        "r": "kv_rank",
        "r_q": "query_rank",
        "f": "d_ff",
        "f_e": "encoder_d_ff",
        "f_d": "decoder_d_ff",
        "f_x": "expert_d_ff",
        "f_s": "shared_expert_d_ff",
        "E": "n_experts",
        "E_s": "n_shared_experts",
        "k": "experts_per_token",
        "V": "vocab_size",
        "V_t": "target_vocab_size",
        "T": "max_len",
        "D": "max_distance",
        "B": "buckets",
    },
}
"""Other letters for the same sizes; those not named keep their own."""


def within(letter: str) -> tuple[str, str]:
    """Return the letter without its suffix, and the nested model that it belongs to (``""`` for none).

    >>> within("h_vis"), within("d_v"), within("h")
    (('h', 'vis'), ('d_v', ''), ('h', ''))
    """
    own, _, scope = letter.rpartition("_")
    return (own, scope) if scope in SCOPES and own else (letter, "")


def spelled(letter: str, notation: str) -> str:
    """Return the letter as a notation prints it, that of a nested model included.

    >>> spelled("h", "bsld"), spelled("h_vis", "bsld"), spelled("r_q", "bsld")
    ('d', 'd_vis', 'r_q')
    """
    others = NOTATIONS[notation]
    own, scope = within(letter)
    return others.get(letter) or (f"{others.get(own, own)}_{scope}" if scope else letter)


@cache
def counts(letter: str) -> bool:
    """Return whether a letter counts equal parts.

    >>> counts("n_e"), counts("n_vis"), counts("n_positions")
    (True, True, False)
    """
    return within(letter)[0] in COUNTS


@cache
def is_table(letter: str) -> bool:
    """Return whether a letter is a table's number of rows: ``V``, ``T_t``."""
    return _base(letter) in TABLES


@cache
def place(letter: str) -> int:
    """Return a letter's position in a product, by ``ORDER``; an indexed letter (``d_n``) goes with its base.

    >>> place("h") < place("h_vis") + 1 <= place("a_e") < place("d_n") < place("E")
    True
    """
    for known in (letter, within(letter)[0], _base(letter)):
        if known in ORDER:
            return ORDER.index(known)
    return len(ORDER)


def _base(letter: str) -> str:
    """Return a letter without its index (``d`` of ``d_n``); a whole word is returned as it is."""
    head, _, index = within(letter)[0].partition("_")
    return head if len(head) == 1 and len(index) <= 1 else letter
