"""Weights of a model as a tree of stored tensors, in a number format or quantized.

A config says by patterns of module names which matrices are left as they are: plain names, ``*``, and the simple
regular expressions that are in use. None is ever run as the regular expression that it is: it is translated to ``*``
and ``?``, which Python's fnmatch matches without going back, or refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate

from tfcalc.configs.config import MOST_LAYERS
from tfcalc.core.component import Component, Cost, Held, Weight
from tfcalc.core.number import Num, divide
from tfcalc.core.traced import EFFORT, known
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.serving.weight_formats import PLAIN, Format, MixedFormat, ModelTraits, facts_of, fitting, single
from tfcalc.tape.groups import span

LONGEST, MOST, MOST_CHOICES, MOST_GLOBS = 300, 200_000, 64, 2_000
MOST_CHARACTERS = 100_000
"""Characters of all patterns together: each costs some microseconds to compile, and as many for every module."""
OUTER = ("model", "language_model")
"""Prefixes of a text model's modules in some versions of a library and not in others."""

_TOKEN = re.compile(r"\\d\+|\[0-9\]\+|\.\*\??|\.\+\??|\\[.\-_]|[\w\-]|\.|\(\?:|[()|^$]|\\d|\[0-9\]", re.ASCII)
_GLOBS = {r"\d+": "[0-9]*", "[0-9]+": "[0-9]*", r"\d": "[0-9]", "[0-9]": "[0-9]", ".": "?", "^": "", "(?:": "("}


def names_layers(patterns: Sequence[str]) -> bool:
    """Return whether any of them depends on the layer's number."""
    return any(character.isdigit() for pattern in patterns for character in pattern)


def checked(patterns: object, field: str) -> tuple[str, ...]:
    """A config's list of names. Raises InvalidModel for what is none."""
    if patterns is None:
        return ()
    if not isinstance(patterns, list) or len(patterns) > MOST or not all(isinstance(one, str) for one in patterns):
        raise InvalidModel(f"{field} {quoted(patterns)} is not a list of names", 'write ["lm_head"]')
    special = [len(pattern) for pattern in patterns if pattern.startswith("re:") or "*" in pattern or "?" in pattern]
    if len(special) > MOST_GLOBS:
        raise _too_many()
    if sum(special) > MOST_CHARACTERS:
        raise _too_long(sum(special))
    for pattern in patterns:
        if len(pattern) > LONGEST:
            raise InvalidModel(f"{field} has a name of {len(pattern)} characters", f"write at most {LONGEST}")
        if pattern.startswith("re:"):
            globs(pattern)
    return tuple(patterns)


def _too_many() -> InvalidModel:
    return InvalidModel(
        f"over {MOST_GLOBS:,} patterns are too many", f"write names, or {MOST_GLOBS:,} patterns at most"
    )


def _too_long(characters: int) -> InvalidModel:
    fact = f"patterns of {characters:,} characters are too long together"
    return InvalidModel(fact, f"write names, or patterns of {MOST_CHARACTERS:,} characters at most")


class ModulePatterns:
    r"""The modules that a list names, and all within them.

    >>> module = ("model", "layers", "0", "mlp", "gate_proj")
    >>> plain = ("lm_head", "mlp", "mlp.gate", "layers.0.mlp", "model.layers.*.mlp")
    >>> [module in ModulePatterns([pattern]) for pattern in plain]
    [False, True, False, True, True]
    >>> others = (r"re:.*mlp\.(gate|up)_proj", r"re:.*mlp\.gate$", "model.gate_proj")
    >>> [module in ModulePatterns([pattern]) for pattern in others]
    [True, False, False]
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.anywhere: set[str] = set()  # plain names of one module or more, wherever they stand
        self.outermost: set[str] = set()  # plain names from the model's root on
        found: list[str] = []
        for pattern in patterns:
            inner = _without_outer(pattern)
            if pattern.startswith("re:"):
                found += globs(pattern)
            elif "*" in inner or "?" in inner:
                found.append(("" if inner != pattern else "*.") + f"{inner}.*")
            else:
                (self.outermost if inner != pattern else self.anywhere).add(inner)
            if len(found) > MOST_GLOBS:
                raise _too_many()
        self.characters = sum(map(len, found))
        """Length of all patterns: the cost of a look-up is proportional to it."""
        if self.characters > MOST_CHARACTERS:
            raise _too_long(self.characters)
        self.globs = re.compile("|".join(map(translate, found))) if found else None

    def __contains__(self, module: Sequence[str]) -> bool:
        """Return whether the list names this module, or one that contains it."""
        name = _without_outer(".".join(module))
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            if ".".join(parts[:end]) in self.outermost:
                return True
            if any(".".join(parts[start:end]) in self.anywhere for start in range(end)):
                return True
        return self.globs is not None and any(map(self.globs.match, _spelled(name)))


def _without_outer(name: str) -> str:
    while name.partition(".")[0] in OUTER and "." in name:
        name = name.partition(".")[2]
    return name


def _spelled(name: str) -> Iterator[str]:
    """Spellings of a name: for globs, from any module on, closed by a dot; for regular expressions, from the root."""
    yield f".{name}."
    yield f"{name}."
    for before in ("", "model.", "language_model.model.", "model.language_model.", "language_model."):
        yield before + name


def globs(pattern: str) -> list[str]:
    r"""A ``re:`` pattern, matched from the start as ``re.match`` does, with ``*`` and ``?`` instead.

    >>> globs(r"re:.*mlp\.(gate|up)_proj$")
    ['*mlp.gate_proj', '*mlp.up_proj']
    """
    text, tokens, place = pattern.removeprefix("re:"), [], 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            raise _unreadable(pattern)
        tokens.append(token[0])
        place = token.end()
    ends = tokens[-1:] == ["$"]
    made = [glob + ("" if ends else "*") for glob in _choices(tokens[:-1] if ends else tokens, pattern)]
    return [re.sub(r"\*+", "*", glob) for glob in made]


def _choices(tokens: list[str], pattern: str) -> list[str]:
    """Return all strings that a sequence of tokens with plain groups of alternatives can stand for."""
    done: list[str] = []
    current, outer = [""], None
    for token in tokens:
        known = _GLOBS.get(token, token)
        if known == "(":
            if outer is not None:
                raise _unreadable(pattern)
            outer, inside, current = current, [""], [""]
        elif known == ")" and outer is not None:
            inside = [*inside[1:], *current]
            current, outer = [before + after for before in outer for after in inside], None
        elif known == "|":
            if outer is None:
                done, current = done + current, [""]
            else:
                inside, current = [*inside, *current], [""]
        elif known in (")", "$"):
            raise _unreadable(pattern)
        else:
            piece = "*" if known.startswith((".*", ".+")) else known.removeprefix("\\")
            current = [before + piece for before in current]
        if len(done) + len(current) > MOST_CHOICES:
            raise _unreadable(pattern)
    if outer is not None:
        raise _unreadable(pattern)
    return done + current


def _unreadable(pattern: str) -> InvalidModel:
    return InvalidModel(f"pattern {quoted(pattern)} is not supported", "write names of modules, with * for what varies")


TYPES_OF_TOKENS = "token_type"
JOINED = "gate_up"
MOST_LOOKED = 10_000_000
"""Characters of patterns times layers that they are tried at; 300 patterns for each of 200 layers are 2,400,000."""


class WeightStorage(NamedTuple):
    """Storage of a model's weights.

    ``format`` is that of what it quantizes, but for the modules that ``keep`` names, and only inside components of this
    kind or name where ``inside`` is given. Modules that ``others`` name have another format; all else is in ``dtype``.
    """

    format: Format | MixedFormat
    dtype: str = "bf16"
    keep: tuple[str, ...] = ()
    inside: str = ""
    others: tuple[tuple[tuple[str, ...], Format], ...] = ()

    @property
    def by_layer(self) -> bool:
        """Return whether layers of one kind can differ."""
        patterns = (*self.keep, *(name for names, _ in self.others for name in names))
        return names_layers(patterns) or (isinstance(self.format, MixedFormat) and self.format.by_layer)


def weights(
    tree: Component,
    format: Format | MixedFormat,
    *,
    dtype: str = "bf16",
    keep: Sequence[str] = (),
    inside: str = "",
    others: Sequence[tuple[tuple[str, ...], Format]] = (),
) -> Component:
    """Tree of the tensors that the weights of ``tree`` are stored as, without empty components.

    A plain format stores every tensor; any other those that its library quantizes: the matrices of linear maps (of
    experts, one each), and with llama.cpp's those of the vocabulary. Embeddings, the output head, routers, norms,
    biases, convolutions and frozen tensors stay in ``dtype`` (llama.cpp's: fp32), like the modules that ``keep`` names.
    A tied matrix is stored once, and buffers are counted apart. Layers that differ are listed (``layers[0-3,6]``).

    Source: bitsandbytes' replacement in transformers (``get_keys_to_not_convert``: the head and what is tied to it);
    vLLM, Fp8Config; AutoAWQ and GPTQModel (linear maps of the layers); llama.cpp, ``tensor_allows_quantization``.
    """
    return hold(tree, WeightStorage(format, dtype, tuple(keep), inside, tuple(others)))


def hold(tree: Component, recipe: WeightStorage, of: Component | None = None, *, beside: bool = False) -> Component:
    """Return the tree of stored tensors for this :class:`WeightStorage`; ``beside`` all that the operations do.

    It may be a part ``of`` a model's tree.
    """
    facts = facts_of(of or tree, recipe.format.name) if isinstance(recipe.format, MixedFormat) else ModelTraits()
    return _Holding(recipe, facts, beside=beside).component(tree, _Place())


class _Place(NamedTuple):
    """Position of a component: the names of its modules, the kinds around it, the layer."""

    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    layer: int = 0

    def inside(self, part: Component, layer: int) -> _Place:
        stem = part.name.partition("[")[0]
        names = [name for name in stem.split(".") if not name.startswith("(")]
        index = (str(layer),) if part.kind == "layer" else ("0",) if part.kind == "experts" else ()
        return _Place((*self.names, *names, *index), (*self.kinds, part.kind), layer)

    def spellings(self) -> Iterator[tuple[str, ...]]:
        """Its names, and those that a checkpoint has that keeps the matrices of experts apart, or all together."""
        yield self.names
        if "experts" in self.kinds:
            for one in ("gate_proj", "up_proj"):
                yield tuple(one if name.startswith(JOINED) else name for name in self.names)
            at = self.names.index("experts") if "experts" in self.names else len(self.names)
            yield (*self.names[: at + 1], *self.names[at + 2 :])


class _Holding:
    def __init__(self, recipe: WeightStorage, facts: ModelTraits, *, beside: bool) -> None:
        self.recipe, self.format, self.facts = recipe, recipe.format, facts
        self.beside = beside
        self.by_layer = recipe.by_layer
        self.keep = ModulePatterns(recipe.keep)
        self.others = [(ModulePatterns(patterns), other) for patterns, other in recipe.others]
        self.characters = self.keep.characters + sum(modules.characters for modules, _ in self.others)
        self.looked = 0
        self.formats: list[Format] = []  # of each matrix so far: layers whose matrices have the same are alike
        rest = recipe.format.rest or recipe.dtype
        self.rest = recipe.format if isinstance(recipe.format, Format) and recipe.format.plain else _plain(rest)

    def component(self, component: Component, place: _Place) -> Component:
        parts = tuple(
            held
            for part in component.parts
            for held in self.parts(part, place)
            if self.beside or held.parts or held.own.held
        )
        own = component.own if self.beside else Cost()
        return component._replace(own=own._replace(held=tuple(self.own(component, place))), parts=parts)

    def parts(self, part: Component, place: _Place) -> Iterator[Component]:
        first = part.places[0] if part.places else part.under
        if part.kind != "layer" or not self.by_layer:
            yield self.component(part, place.inside(part, first if part.kind == "layer" else place.layer))
            return
        groups: dict[tuple[Format, ...], tuple[Component, list[int]]] = {}
        layers_of = places_of(part)
        self.looked += len(layers_of) * self.characters
        if self.looked > MOST_LOOKED:
            fact = f"patterns of {self.characters:,} characters are too many for {len(layers_of):,} layers"
            raise InvalidModel(fact, "write names, or fewer patterns")
        for layer in layers_of:
            before = len(self.formats)
            held = self.component(part, place.inside(part, layer))
            groups.setdefault(tuple(self.formats[before:]), (held, []))[1].append(layer)
        for held, layers in groups.values():
            if len(groups) == 1:
                yield held
            else:
                name = f"{part.name.partition('[')[0]}[{span(layers)}]"
                yield held._replace(name=name, copies=len(layers), places=tuple(layers))

    def own(self, component: Component, place: _Place) -> Iterator[Held]:
        for tensor in component.own.weights:
            if tensor.tied_to is None:
                yield from self.tensor(component, tensor, place)

    def tensor(self, component: Component, tensor: Weight, place: _Place) -> Iterator[Held]:
        EFFORT.spend()
        if self.stays(component, tensor, place):
            self.formats.append(self.rest)
            yield Held(tensor.name, tensor.shape, self.rest.bits)
            return
        rows, columns = matrix(tensor)
        # a quantized checkpoint keeps the gate and the up matrix of an expert apart, each with scales of its own
        apart = 2 if "experts" in place.kinds and component.name.startswith(JOINED) else 1
        found = self.chosen(component, tensor, place, columns)
        self.formats.append(found)
        yield from found.held(tensor.name, rows if apart == 1 else divide(rows, apart), columns, apart)

    def stays(self, component: Component, tensor: Weight, place: _Place) -> bool:
        if self.format.plain or tensor.minor or tensor.frozen or len(tensor.shape) != 2:
            return True
        if component.kind not in self.format.kinds or "router" in place.kinds or TYPES_OF_TOKENS in component.name:
            return True
        if self.recipe.inside and self.recipe.inside not in (*place.kinds, *place.names):
            return True
        return any(names in self.keep for names in place.spellings())

    def chosen(self, component: Component, tensor: Weight, place: _Place, columns: Num) -> Format:
        for modules, other in self.others:
            if any(names in modules for names in place.spellings()):
                return other
        if isinstance(self.format, MixedFormat):
            return self.format.of(component.kind, tensor.name, place.layer, columns, self.facts)
        if self.format.block > 1:
            return fitting(self.format.name.removesuffix("-pure"), columns)
        return self.format


def matrix(tensor: Weight) -> tuple[Num, Num]:
    """Rows (outputs) and columns (inputs): the mathematics writes ``W`` the other way round."""
    first, second = tensor.shape
    return (second, first) if tensor.turned else (first, second)


def places_of(part: Component) -> Sequence[int]:
    """Return the places of these layers in their stack. Raises InvalidModel where their number is none."""
    if part.places:
        return part.places
    copies, under = known(part.copies), known(part.under)
    if copies is None or under is None:
        raise InvalidModel(
            f"the format of a weight depends on its layer, and the number of layers is {part.copies}",
            "give the number of layers, or a format that is the same in all",
        )
    if copies > MOST_LAYERS:
        raise InvalidModel(
            f"{copies:,} layers are too many to list one by one", "take a format that is the same in all"
        )
    return range(under, under + copies)


def _plain(dtype: str) -> Format:
    found = single(dtype)
    if found.name not in PLAIN:
        raise InvalidModel(f"{dtype!r} is not a number format", "write fp32, bf16 or fp16")
    return found
