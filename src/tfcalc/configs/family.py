"""Which function builds which ``model_type``; a family says so above its function.

>>> find("llama").architecture
'LlamaForCausalLM'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tfcalc.configs.config import Config
from tfcalc.configs.declared import declared, model_types, module_of
from tfcalc.errors import InvalidModel, UnknownModel, nearest
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from tfcalc.configs.tops import Top
    from tfcalc.nn.module import Module

Build = TypeVar("Build", bound=Callable[[Config], "Module"])


class Family(NamedTuple):
    """A ``model_type`` of Hugging Face.

    ``base`` builds the model without a head, ``heads`` by the end of the class name what is put around it;
    ``architecture`` is the class where a config names none, ``aliases`` are other names of fields (``hidden_size`` for
    ``n_embd``). ``own`` are the defaults that differ from those that transformers declares, for this model type or for
    the one that it is ``like``.
    """

    model_type: str
    architecture: str
    base: Callable[[Config], Module]
    heads: Mapping[str, Top]
    aliases: Mapping[str, str]
    like: str
    own: Mapping[str, object]

    @property
    def defaults(self) -> dict[str, object]:
        """The fields that a config may leave out, with their values then."""
        return {**declared(self.like or self.model_type), **self.own}

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
"""Those whose module has been imported."""


def family(
    *model_types: str,
    architecture: str,
    heads: Mapping[str, Top],
    aliases: Mapping[str, str] | None = None,
    like: str = "",
    **own: object,
) -> Callable[[Build], Build]:
    """Register a function as the builder of these model types: their class, heads, and what a config may leave out.

    That is what transformers' config class declares, and the ``own`` defaults given here: those that its
    ``__post_init__`` derives, or that it lacks. A model type that transformers does not have is ``like`` another.
    """

    def register(base: Build) -> Build:
        for model_type in model_types:
            FAMILIES[model_type] = Family(model_type, architecture, base, heads, aliases or {}, like, own)
        return base

    return register


def find(model_type: object) -> Family:
    """The family of this model type. Raises UnknownModel with the nearest known ones."""
    if model_type is None:
        raise InvalidModel("model_type is missing", "add it, or pass --as FAMILY")
    if not isinstance(model_type, str) or not model_type:
        raise InvalidModel(f"model_type {quoted(model_type)} is not a word", "add it, or pass --as FAMILY")
    if model_type not in FAMILIES and (module := module_of(model_type)):
        import_module(f"tfcalc.families.{module}")
    if model_type not in FAMILIES:
        known = model_types()
        hint = f"{nearest(model_type, known) if _close(model_type, known) else 'see tfcalc models --supported'}"
        raise UnknownModel(f"model_type {quoted(model_type)} is not known", f"{hint}; or --as FAMILY, or --via torch")
    return FAMILIES[model_type]


def wanted() -> list[str]:
    """The text model types of transformers 5.23 (and vision and speech ones that share their blocks)."""
    return (Path(__file__).with_name("wanted.txt")).read_text(encoding="utf-8").split()


def _close(word: str, known: list[str]) -> bool:
    return "mean" in nearest(word, known)
