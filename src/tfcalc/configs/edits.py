"""Edits of a config that are more than one size: windows of its layers, how many experts, another kind of attention.

An edit writes fields of the model's own family, so that all that is counted follows as it does from a published config.
Whether it did what was asked is read off the module that the family builds of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from tfcalc.configs.config import FULL, MOST_LAYERS, SLIDING, class_of, declared, model_types
from tfcalc.configs.family import FAMILIES
from tfcalc.configs.published import LAYER_TYPES, SAME_AS, HFModel
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.attention import Attention
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.printable import quoted
from tfcalc.units import parse_length

EXPERTS = ("n_experts", "experts_per_token")
NO_WINDOW = ("none", "full")
WIDTHS = ("sliding_window", "sliding_window_size")
"""Fields with the width of windows."""
ASKED = "use_sliding_window"
"""Field of Qwen's: whether there are windows."""
FORM = re.compile(r"([^:]+)(?::([1-9]\d{0,3})/([1-9]\d{0,3}))?", re.ASCII)

LATENT_RANK = "kv_lora_rank"
LATENT: dict[str, object] = {
    LATENT_RANK: 512,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "head_dim": 64,
}
"""Latent attention as DeepSeek-V2-Lite has it (arXiv 2405.04434, appendix B): queries are not compressed."""
LATENT_KIN = "deepseek_v3"
DENSE_ALIKE = ("llama", "mistral", "qwen2", "qwen3")
"""Families that are, but for their attention, what DeepSeek-V3 is without experts."""


class Windows(NamedTuple):
    """Windows of this ``width`` (None: none) in the first ``some`` of every ``of`` layers; of all, if none are said."""

    width: int | None
    some: int = 0
    of: int = 0

    @classmethod
    def read(cls, text: str) -> Windows:
        """Read ``4096``, ``4k:5/6`` or ``none``. Raises UsageError.

        >>> Windows.read("4k:5/6"), Windows.read("none")
        (Windows(width=4096, some=5, of=6), Windows(width=None, some=0, of=0))
        """
        found = FORM.fullmatch(text.strip())
        some, of = (int(found[2] or 0), int(found[3] or 0)) if found else (1, 0)
        if found is None or some > of or (found[1] in NO_WINDOW and of):
            raise UsageError(f"windows {quoted(text)} are not known", "write 4096, 4096:5/6 of the layers, or none")
        return cls(None if found[1] in NO_WINDOW else parse_length(found[1]), some, of)

    def kinds(self, layers: int) -> list[str]:
        """Return the kind of each of this many layers; all have windows where no part of them is said."""
        if self.width is None:
            return [FULL] * layers
        return [SLIDING if place % (self.of or 1) < (self.some or 1) else FULL for place in range(layers)]


def edited(model: HFModel, edits: Mapping[str, Any]) -> HFModel:
    """Return the model with edits: ``n_experts``, ``experts_per_token``, ``windows``, ``attention_kind``.

    Raises UsageError for one that its family has no field for, or that does not do what was asked.

    >>> edited(HFModel({"model_type": "mixtral"}), {"n_experts": 64}).changed
    {'num_local_experts': 64}
    >>> edited(HFModel({"model_type": "gemma2"}), {"windows": "1k:2/2"}).summary
    'config with sliding_window 1024, layer_types (26 sliding_attention): Gemma2ForCausalLM (gemma2)'
    """
    if sizes := {name: edits[name] for name in EXPERTS if name in edits}:
        model = with_experts(model, sizes)
    if "attention_kind" in edits:
        model = with_attention(model, edits["attention_kind"])
    if "windows" in edits:
        model = with_windows(model, Windows.read(edits["windows"]))
    return model


def with_windows(model: HFModel, asked: Windows) -> HFModel:
    """Return the model with windows in its layers, or without.

    Where it is not said which layers, those that have windows keep them; if none has, all get one. Raises UsageError
    where the family has no field for it.
    """
    paths = model.places("n_layers")
    scope, name = paths[0].rpartition(".")[0], model.family.model_type
    declares, reads = _declared(model, scope), _given(model, scope)
    width = next((one for one in WIDTHS if one in declares | reads), None)
    if width is None or len(paths) > 1:
        fact = f"a {name} config has no window"
        raise UsageError(fact, _others(WIDTHS, ("ministral" if asked.of else "mistral") if name == "llama" else ""))
    layers = _layers(model)
    if asked.width is None and not any(layers):
        raise UsageError("no layer has a window that could be left out", "leave --window out")
    kinds = asked.kinds(len(layers))
    switch: dict[str, object] = {ASKED: asked.width is not None} if ASKED in declares | reads else {}
    lists = LAYER_TYPES in declares or model.data_at(scope).get(LAYER_TYPES) is not None
    listed: dict[str, object] = {LAYER_TYPES: kinds}
    sized: dict[str, object] = switch | {width: asked.width}
    if asked.width is None:
        tried = [switch] * bool(switch) + [listed] * lists + [sized]
    else:
        tried = [sized] * (not asked.of) + [sized | listed] * lists
    for fields in tried:
        made = model.edited({f"{scope}.{name}".lstrip("."): value for name, value in fields.items()})
        with suppress(InvalidModel):
            seen = _layers(made)
            wanted = [asked.width if kind == SLIDING else None for kind in kinds]
            as_before = fields == sized and not asked.of and set(seen) - {None} == {asked.width}
            if (seen == wanted or as_before) and _classes(made) == _classes(model):
                return made
    fact = f"a {name} config cannot say that {'some' if asked.of else 'all'} layers have this window"
    raise UsageError(fact, _others((LAYER_TYPES,), "ministral" if name in ("llama", "mistral") else ""))


def with_attention(model: HFModel, kind: str) -> HFModel:
    """Return the model with another kind of attention: ``mha``, ``mqa``, ``mla``, ``mla:256`` (its key-value rank).

    A dense decoder with latent attention is read as DeepSeek-V3 without experts. Raises UsageError where the family
    has no fields for it.
    """
    name, _, rank = kind.partition(":")
    latent = LATENT_RANK in model.reading.sizes
    if name != "mla":
        if latent:
            fact = f"a {model.family.model_type} config has latent attention alone"
            raise UsageError(fact, "name a model with heads of keys and values")
        heads = model.reading.sizes.get(model.places("n_heads")[0])
        if heads is None:
            fact = f"a {model.family.model_type} config has no one number of heads"
            raise UsageError(fact, "name a model whose layers have the same number")
        return model.replaced(n_kv_heads=heads if name == "mha" else 1)
    if latent:
        if not rank:
            raise UsageError(f"a {model.family.model_type} config has latent attention as it is", "leave it out")
        return model.replaced(**{LATENT_RANK: int(rank)})
    if model.family.model_type not in DENSE_ALIKE or any(_layers(model)):
        fact = f"a {model.family.model_type} config has no field for latent attention"
        if model.family.model_type in DENSE_ALIKE:
            fact = "latent attention has no window"
        kin = f"{', '.join(DENSE_ALIKE)} configs without windows become a {LATENT_KIN} config without experts"
        raise UsageError(fact, kin)
    changed = LATENT | {
        "model_type": LATENT_KIN,
        "architectures": [class_of(LATENT_KIN)],
        "num_key_value_heads": model.reading.sizes[model.places("n_heads")[0]],
        "attention_bias": False,
        "first_k_dense_replace": MOST_LAYERS,  # however many layers the model is given next
    }
    return model.edited(changed | ({LATENT_RANK: int(rank)} if rank else {}))


def with_experts(model: HFModel, sizes: Mapping[str, int]) -> HFModel:
    """Return the model with these sizes of EXPERTS: how many there are, and how many each token goes through.

    Raises UsageError where it has none, or would have fewer than a token goes through, or unequal groups of them:
    transformers' routers choose as many as are asked for, among groups of equal size.
    """
    try:
        made = model.replaced(**sizes)
    except UsageError:
        kin = "mixtral" if model.family.model_type in ("llama", "mistral") else ""
        fact = f"a {model.family.model_type} config has no experts"
        raise UsageError(fact, _others(SAME_AS["n_experts"], kin)) from None
    for name in sizes:
        if field := made.unread(name):
            raise UsageError(f"this model has no experts: it does not read {field}", "leave it out")
    many, active, groups = _number(made, "n_experts"), _number(made, "experts_per_token"), _number(made, "n_group")
    if active > many:
        raise UsageError(f"{active} experts per token are more than the {many} that there are", "give --active N, too")
    if groups and many % groups:
        raise UsageError(f"{many} experts are not divisible by n_group {groups}", f"give a multiple of {groups}")
    return made


def _number(model: HFModel, name: str) -> int:
    """The size of this name as its config says it, or leaves to its family; 0 where it has none, or null."""
    for path in (f"{scope}{one}" for one in SAME_AS.get(name, (name,)) for scope in ("", "text_config.")):
        field = path.rpartition(".")[2]
        found = model.data_at(path.rpartition(".")[0]).get(field, model.reading.assumed.get(path))
        if isinstance(found, int):
            return found
    return 0


def _others(fields: Iterable[str], kin: str = "") -> str:
    """Remedy that names the family that this one can be read as, or a few that have one of these fields."""
    if kin:
        return f"read it as a family that has: --as {kin}"
    some = [one for one in model_types() if any(field in declared(one) for field in fields)]
    named = [one for one in ("mistral", "mixtral", "qwen3_moe", "gemma3_text", "gpt_oss", "deepseek_v3") if one in some]
    return f"families that have: {', '.join(named)} and {len(some) - len(named)} more"


def _declared(model: HFModel, scope: str) -> set[str]:
    """The names of the fields that the family of a config declares, or that of a nested one."""
    kind = str(model.data_at(scope).get("model_type", "")) if scope else model.family.model_type
    return set(FAMILIES[kind].defaults if kind in FAMILIES else declared(kind))


def _given(model: HFModel, scope: str) -> set[str]:
    """The names of the fields that were looked for in a config, and that it gives with a value."""
    seen = {path.rpartition(".")[2] for path in model.reading.seen if path.rpartition(".")[0] == scope}
    return {name for name in seen if name in model.data_at(scope)}


def _classes(model: HFModel) -> set[type[Module]]:
    """The classes of its modules: a window changes none."""
    return {type(module) for module in model.module().all_of()}


def _layers(model: HFModel) -> list[int | None]:
    """The window of each layer of the largest stack; None where it sees everything, or has no attention."""
    stacks = (one for one in model.module().all_of() if isinstance(one, Stack))
    return max(([_window(layer) for layer in stack.layers] for stack in stacks), key=len, default=[])


def _window(layer: Module) -> int | None:
    """The window of a layer's attention."""
    found = next((part.window for part in layer.all_of() if isinstance(part, Attention)), None)
    return found if isinstance(found, int) else None
