"""Patterns of module names in a config: plain names, ``*``, and the simple regular expressions that are in use.

No pattern of a config is ever run as the regular expression that it is: it is translated to ``*`` and ``?``, which
Python's fnmatch matches without going back, or refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate

from tfcalc.errors import InvalidModel
from tfcalc.printable import quoted

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
    """All that a sequence of tokens with plain groups of alternatives can stand for."""
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
