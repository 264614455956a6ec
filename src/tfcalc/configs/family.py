"""Register of the functions that build each ``model_type``; a family's decorator adds to it.

>>> find("llama").architecture
'LlamaForCausalLM'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tfcalc.configs.config import Config, class_of, declared, model_types, module_of, other_names
from tfcalc.errors import InvalidModel, UnknownModel, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from tfcalc.configs.tops import Top
    from tfcalc.nn.module import Module

Build = TypeVar("Build", bound=Callable[[Config], "Module"])


class Family(NamedTuple):
    """A ``model_type`` of Hugging Face.

    ``base`` builds the model without a head, ``heads`` by the end of the class name what is put around it. What is
    ``own`` differs from what transformers declares for this model type, or for the one that it is ``like``. Other
    ``libraries`` have modules of their own for it.
    """

    model_type: str
    base: Callable[[Config], Module]
    heads: Mapping[str, Top]
    like: str
    own_architecture: str
    own_aliases: Mapping[str, str]
    own: Mapping[str, object]
    libraries: tuple[str, ...]

    @property
    def architecture(self) -> str:
        """The class where a config names none."""
        return self.own_architecture or class_of(self._kin)

    @property
    def aliases(self) -> dict[str, str]:
        """Other names of fields: ``n_embd`` for ``hidden_size``."""
        return {**other_names(self._kin), **self.own_aliases}

    @property
    def defaults(self) -> dict[str, object]:
        """The fields that a config may leave out, with their values then."""
        return {**declared(self._kin), **self.own}

    @property
    def _kin(self) -> str:
        return self.like or self.model_type

    def module(self, config: Config, head: str) -> Module:
        """The whole model."""
        return self.heads[head](config, self.base(config))

    def head_of(self, architecture: str) -> str:
        """The end of a class name that says which head it has. Raises InvalidModel for one that is not known."""
        fits = [head for head in self.heads if architecture.endswith(head)]
        if not fits:
            known = f"known heads of {self.model_type}: {', '.join(self.heads)}"
            raise InvalidModel(f"architecture {quoted(architecture)} is not known", known)
        return max(fits, key=len)


FAMILIES: dict[str, Family] = {}
"""Families whose module has been imported."""


def family(
    *model_types: str,
    heads: Mapping[str, Top] | None = None,
    architecture: str = "",
    aliases: Mapping[str, str] | None = None,
    like: str = "",
    libraries: tuple[str, ...] = (),
    **own: object,
) -> Callable[[Build], Build]:
    """Register a function as the builder of these model types, with their heads (else those of language models).

    The class where a config names none, other names of fields, and defaults are those that transformers declares, and
    those given here: what ``__post_init__`` derives, or it lacks. A model type that is not in it is ``like`` another.
    Other ``libraries`` are those whose modules for it are known (torchtune).
    """
    from tfcalc.configs import tops  # which imports modules, as families do

    def register(base: Build) -> Build:
        for name in model_types:
            told = like, architecture, aliases or {}, own, libraries
            FAMILIES[name] = Family(name, base, heads or tops.CAUSAL_LM, *told)
        return base

    return register


def find(model_type: object) -> Family:
    """The family of this model type. Raises UnknownModel with the nearest known ones."""
    if model_type is None:
        raise InvalidModel("model_type is missing", "add it, or pass --as FAMILY")
    if not isinstance(model_type, str) or not model_type:
        raise InvalidModel(f"model_type {quoted(model_type)} is not a word", "add it, or pass --as FAMILY")
    if model_type not in FAMILIES and (module := module_of(model_type)):
        import_module(f"tfcalc.zoo.{module}")
    if model_type not in FAMILIES:
        known = model_types()
        hint = f"{nearest(model_type, known) if _close(model_type, known) else 'see tfcalc models --supported'}"
        raise UnknownModel(f"model_type {quoted(model_type)} is not known", f"{hint}; or --as FAMILY, or --via torch")
    return FAMILIES[model_type]


def subconfig(
    c: Config, field: str, model_type: str, *, over: Mapping[str, object] | None = None, free: bool = False
) -> Config:
    """The config of a model within another, as it is without a head (with its own pooler, if it has one).

    It is of this ``model_type``, whatever its file says; where the whole leaves it ``free``, of the one that it names.
    ``over`` are the fields of a config that is left out altogether.
    """
    config = c.sub(field, defaults={})
    family = find((config.data.get("model_type") or model_type) if free else model_type)
    missing = dict(over or {}) if c.get(field) is None else {}
    config.model_type, config.head = family.model_type, "Model"
    config.defaults, config.aliases = {**family.defaults, **missing}, family.aliases
    return config


def wanted() -> list[str]:
    """The text model types of transformers 5.23 (and vision and speech ones that share their blocks)."""
    return (Path(__file__).with_name("wanted.txt")).read_text(encoding="utf-8").split()


def _close(word: str, known: list[str]) -> bool:
    return bool(nearest(word, known, otherwise=""))
