"""Which function builds which ``model_type``; a family says so above its function, and nowhere else.

>>> find("llama").architecture
'LlamaForCausalLM'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from tfcalc.blocks.training import with_loss
from tfcalc.configs.config import Config
from tfcalc.configs.tops import Top
from tfcalc.core.component import Component
from tfcalc.errors import InvalidModel, UnknownModel, nearest
from tfcalc.nn.counted import counted
from tfcalc.nn.module import Module
from tfcalc.printable import quoted
from tfcalc.workload import Workload

Runs = Callable[[Config], Module]
Tree = Callable[[Config, Workload], Component]
Head = Callable[[Config, Workload, Component], Iterable[Component]]
Build = TypeVar("Build", Runs, Tree)

FOLDER = Path(__file__).parents[1] / "families"
MARK = "@family("


class Family(NamedTuple):
    """A ``model_type`` of Hugging Face.

    ``base`` builds the model without a head, ``heads`` by the end of the class name what is put around it;
    ``architecture`` is the class where a config names none. ``defaults`` are the fields that a config may leave out,
    ``aliases`` other names of fields (``hidden_size`` for ``n_embd``).
    """

    model_type: str
    architecture: str
    base: Runs | Tree
    heads: Mapping[str, Head] | Mapping[str, Top]
    defaults: Mapping[str, Any]
    aliases: Mapping[str, str]

    @property
    def runs(self) -> bool:
        """Whether it is a module that runs, which is built of the config alone; the others are trees of costs."""
        return self.base.__code__.co_argcount == 1

    def module(self, config: Config, head: str) -> Module:
        """The whole model, of a family that runs."""
        return cast(Top, self.heads[head])(config, cast(Runs, self.base)(config))

    def tree(self, config: Config, run: Workload) -> Component:
        """The model without a head, as a tree of costs."""
        if self.runs:
            return counted(cast(Runs, self.base)(config), run)
        return cast(Tree, self.base)(config, run)

    def whole(self, config: Config, run: Workload, head: str, *, loss: bool = True) -> tuple[Component, ...]:
        """The parts of the model with this head, as trees of costs; in training with its loss."""
        if self.runs:
            made = counted(self.module(config, head), run).parts
            return made if loss else tuple(part for part in made if part.kind != "loss")
        top = cast(Head, self.heads[head])
        parts = top(config, run, self.tree(config, run))
        return tuple(with_loss(parts) if run.training and loss else parts)

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
    heads: Mapping[str, Head] | Mapping[str, Top],
    aliases: Mapping[str, str] | None = None,
    **defaults: Any,
) -> Callable[[Build], Build]:
    """Register a function as the builder of these model types: their class, heads, and fields that may be left out."""

    def register(base: Build) -> Build:
        for model_type in model_types:
            FAMILIES[model_type] = Family(model_type, architecture, base, heads, defaults, aliases or {})
        return base

    return register


def find(model_type: object) -> Family:
    """The family of this model type. Raises UnknownModel with the nearest known ones."""
    if model_type is None:
        raise InvalidModel("model_type is missing", "add it, or pass --as FAMILY")
    if not isinstance(model_type, str) or not model_type:
        raise InvalidModel(f"model_type {quoted(model_type)} is not a word", "add it, or pass --as FAMILY")
    if model_type not in FAMILIES:
        for path in sorted(FOLDER.glob("*.py"), key=lambda path: _far(path.stem, model_type)):
            if model_type in _named(path.read_text(encoding="utf-8"), f'"{model_type}"'):
                import_module(f"tfcalc.families.{path.stem}")
                break
    if model_type not in FAMILIES:
        known = [name for names in modules().values() for name in names]
        hint = f"{nearest(model_type, known) if _close(model_type, known) else 'see tfcalc models --supported'}"
        raise UnknownModel(f"model_type {quoted(model_type)} is not known", f"{hint}; or --as FAMILY, or --via torch")
    return FAMILIES[model_type]


def nested(config: Config, run: Workload, name: str) -> Component:
    """The base model of a nested config (see :meth:`Config.sub`), under the name that the whole gives it."""
    return find(config.model_type).tree(config, run)._replace(name=name)


def modules() -> dict[str, list[str]]:
    """The model types that each module of this folder builds, found in its text: none is imported for it."""
    found = {path.stem: _named(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.py"))}
    return {module: names for module, names in found.items() if names}


def _named(text: str, looked_for: str = MARK) -> list[str]:
    """The model types that stand in a module's marks; none where what is looked for does not stand in it at all."""
    if looked_for not in text:
        return []
    marks = [piece.split("architecture", 1)[0] for piece in text.split(f"\n{MARK}")[1:]]
    return [name for mark in marks for name in re.findall(r'"([^"]+)"', mark)]


def _far(module: str, model_type: str) -> int:
    """How unlike the names are: a family mostly stands in the file that is called like it, which is opened first."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(module, model_type, strict=False))
    return -len(list(alike))


def wanted() -> list[str]:
    """The text model types of transformers 5.23 (and vision and speech ones that share their blocks)."""
    return (Path(__file__).with_name("wanted.txt")).read_text(encoding="utf-8").split()


def _close(word: str, known: list[str]) -> bool:
    return "mean" in nearest(word, known)
