"""A model as its config.json describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.dimensions import Dimension, check_sizes
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.families.config import Config, Reading
from tfcalc.families.family import find
from tfcalc.workload import Workload

SAME_AS = {
    "d_model": ("hidden_size", "n_embd", "d_model", "dim"),
    "n_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "n_kv_heads": ("num_key_value_heads",),
    "n_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "encoder_layers": ("encoder_layers",),
    "decoder_layers": ("decoder_layers", "num_decoder_layers"),
    "d_ff": ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim"),
    "head_dim": ("head_dim", "d_kv"),
    "value_dim": ("v_head_dim",),
    "vocab_size": ("vocab_size",),
    "max_len": ("max_position_embeddings", "n_positions"),
}
"""The config's names for what the command line and the library call a size."""


class Published:
    """The fields of a config.json, and the family that knows what they mean.

    ``instead`` puts other numbers (symbols, arrays) in the place of sizes, by the field's path. Raises UnknownModel for
    a ``model_type`` that no family has, InvalidModel for fields that fit no model.

    >>> from tfcalc.core.measure import params
    >>> Published({"model_type": "gpt2"}).tree(Workload()).total(params)
    124439808
    """

    __slots__ = ("_read", "data", "family", "instead", "name", "treated_as")

    def __init__(
        self,
        data: Mapping[str, Any],
        *,
        name: str = "",
        treated_as: str = "",
        instead: Mapping[str, Num] | None = None,
    ) -> None:
        self.data = data
        self.name = name
        self.treated_as = treated_as
        self.instead = dict(instead or {})
        self.family = find(treated_as or data.get("model_type"))
        self._read: Reading | None = None

    @property
    def config(self) -> dict[str, Any]:
        """The fields, with the model_type that they are read by."""
        return {**self.data, "model_type": self.family.model_type}

    @property
    def architecture(self) -> str:
        """The class it is built as: the first of ``architectures``, or the family's own."""
        given = self.data.get("architectures")
        if given is None or given == []:
            return self.family.architecture
        if not isinstance(given, list) or not isinstance(given[0], str):
            raise InvalidModel(f"architectures {given!r:.80} is not a list of names", 'write ["LlamaForCausalLM"]')
        if self.treated_as and not any(given[0].endswith(head) for head in self.family.heads):
            return self.family.architecture
        return given[0]

    def tree(self, run: Workload) -> Component:
        """The component tree, named as the published checkpoint names its modules."""
        return self._build(run, Reading(self.instead))

    def _build(self, run: Workload, reading: Reading) -> Component:
        family, architecture = self.family, self.architecture
        head = family.head_of(architecture)
        config = Config(self.data, family.model_type, family.defaults, family.aliases, head, reading)
        base = family.base(config, run)
        return Component(architecture, "model", parts=tuple(family.heads[head](config, run, base)))

    @property
    def reading(self) -> Reading:
        """What its family reads of it: the sizes with their letters, and what it left to defaults."""
        if self._read is None:
            self._read = Reading()
            self._build(Workload(), self._read)
        return self._read

    def check(self, run: Workload) -> None:
        """Raise InvalidModel where these fields fit no model, or no such model can run ``run``."""
        check_sizes(run)
        _ = self.reading

    @property
    def longest(self) -> Num | None:
        """As many tokens as its config says it can read."""
        for name in SAME_AS["max_len"]:
            value = self.data.get(name, self.family.defaults.get(name))
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        return None

    @property
    def summary(self) -> str:
        """``llama-3-8b: LlamaForCausalLM (llama)``."""
        called = f"{self.name}: " if self.name else ""
        treated = f", treated as {self.treated_as}" if self.treated_as else ""
        return f"{called}{self.architecture} ({self.data.get('model_type')}{treated})"

    def dimensions(self) -> dict[str, Dimension]:
        """The sizes that were read, by the field's path."""
        return {path: Dimension(known.letter, known.meaning, ()) for path, known in self.reading.fields.items()}

    def values(self) -> dict[str, Num]:
        """What each letter stands for."""
        read = self.reading
        return {read.fields[path].letter: self.instead.get(path, value) for path, value in read.sizes.items()}

    def replaced(self, **sizes: Num) -> Published:
        """The same model with these sizes, by their path or by tfcalc's name. Raises UsageError for others."""
        if not sizes:
            return self
        paths = {self._path_of(name): size for name, size in sizes.items()}
        if all(isinstance(size, int) for size in paths.values()):
            return Published(_put(self.data, paths), name=self.name, treated_as=self.treated_as, instead=self.instead)
        return Published(self.data, name=self.name, treated_as=self.treated_as, instead=self.instead | paths)

    def described(self) -> dict[str, Any]:
        """As it stands in the JSON: the config, and what was left to defaults."""
        return {"name": self.name, "architecture": self.architecture, "config": dict(self.data)} | {
            "defaults": dict(self.reading.assumed)
        }

    def also_called(self, name: str, /) -> tuple[str, ...]:
        """What tfcalc calls the size at this path: ``d_model`` for ``hidden_size``."""
        return tuple(ours for ours, theirs in SAME_AS.items() if name.removeprefix("text_config.") in theirs)

    def with_present(self, *names: str) -> Published:
        """Itself: every size of a config is given."""
        return self

    def with_vocabulary(self, vocabulary: Num) -> Published:
        """Itself: a config has the vocabulary that it has."""
        return self

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The fields that the config leaves out and that have a value by default; the family it is treated as."""
        left = {path: value for path, value in self.reading.assumed.items() if value not in (None, False)}
        found = []
        if self.treated_as:
            found.append(f"model_type {self.data.get('model_type')!r} treated as {self.treated_as}, as asked")
        if left:
            fields = ", ".join(f"{path} {_brief(value)}" for path, value in left.items())
            found.append(f"left out by the config, so as transformers has it: {fields}")
        return tuple(found)

    def _path_of(self, name: str) -> str:
        if name in self.reading.sizes:
            return name
        read = {**self.reading.sizes, **self.reading.assumed}
        for known in SAME_AS.get(name, (name,)):
            for path in (known, f"text_config.{known}"):
                if path in read or path in self.data:
                    return path
        raise UsageError(f"{name} is no size of a {self.family.model_type} config", "edit the config.json instead")


def _brief(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 40 else "…"


def _put(data: Mapping[str, Any], sizes: Mapping[str, Num]) -> dict[str, Any]:
    """The config with these sizes written into it."""
    changed = dict(data)
    for path, size in sizes.items():
        scope, _, name = path.rpartition(".")
        if scope:
            changed[scope] = {**(changed.get(scope) or {}), name: size}
        else:
            changed[name] = size
    return changed
