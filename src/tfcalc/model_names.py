"""From a model's name as people type it to the preset that is meant: spelling, suffixes, families, versions, sizes.

``llama3-8b``, ``Llama 3 8B`` and ``meta-llama/Meta-Llama-3-8B-Instruct`` all mean llama-3-8b. ``llama3`` means several,
and is answered with their names: nearest names are compared by family, version and size, and only then by letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

SAME_SIZES = frozenset({"instruct", "chat", "it", "pt", "sft", "dpo", "hf"})
"""Words that tell how a model was trained further or converted, and never how large it is."""

MAKERS = frozenset({"meta", "nvidia", "ai21", "c4ai"})
"""First words that tell who made a model, which people leave out."""

BASE = "base"
"""The same, beside a number of parameters: gemma-7b-base is gemma-7b, while bert-base is a size."""

ALIASES = {
    "deepseek-r1-distill-llama-8b": "llama-3.1-8b",
    "deepseek-r1-distill-llama-70b": "llama-3.3-70b-instruct",
    "deepseek-r1-distill-qwen-7b": "qwen2.5-7b",
    "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
}
"""Models that were trained further from another one, with its sizes, under a name of their own.

Source: model card of DeepSeek-R1, table of the distilled models (the one of 1.5B is left out: its head is not tied).
"""

MOST = 6
"""Names that an answer gives."""

CLOSE = 0.75
"""How alike two names of families are that may be the same, mistyped."""

_SIZE = re.compile(r"[ae]?\d+(?:\.\d+)?(?:x\d+(?:\.\d+)?)?[bm]|\d+b\d", re.ASCII)
_VERSION = re.compile(r"[a-z]?\d+(?:\.\d+)*[a-z]?", re.ASCII)
_GLUED = re.compile(r"([a-z]{2,})(\d[\d.]*)", re.ASCII)
_UNITS = {"m": 1e6, "b": 1e9}


class Parts(NamedTuple):
    """What a name is made of: ``Qwen2.5-7B-Instruct`` is family qwen, version 2.5, size 7b, words of all of it.

    >>> parts("Qwen2.5-7B-Instruct")
    Parts(family='qwen', version='2.5', size='7b', words=('qwen', '2.5', '7b', 'instruct'))
    """

    family: str
    version: str
    size: str
    words: tuple[str, ...]


def spelled(name: str) -> str:
    """A name as the presets spell theirs: ``Llama 3_8B`` is ``llama-3-8b``."""
    return re.sub(r"[\s_:]+", "-", name.strip().lower())


def parts(name: str) -> Parts:
    """The family, the version, the size and all words of a name, each empty where it has none."""
    words: list[str] = []
    for word in _unsigned(spelled(name)):
        glued = _GLUED.fullmatch(word)
        words += glued.groups() if glued else [word]
    numbered = [word for word in words[1:] if word[-1:].isalnum() and any(one.isdigit() for one in word)]
    size = next((word for word in numbered if _SIZE.fullmatch(word)), "")
    first = numbered[0] if numbered else ""
    version = first if first != size and _VERSION.fullmatch(first) else ""
    return Parts(words[0], version, size, tuple(words))


def resolve(name: str, repositories: Mapping[str, str]) -> str | None:
    """The preset that a name means without doubt; None where there is none.

    Args:
        name: as typed: a preset's name in another spelling, the id of its repository in any case, or either with or
            without a suffix that never changes sizes.
        repositories: of each preset the id of its repository, or "" where it has none.

    >>> resolve("Meta-Llama/meta-llama-3-8b-instruct", {"llama-3-8b": "meta-llama/Meta-Llama-3-8B"})
    'llama-3-8b'
    >>> resolve("someone/Meta-Llama-3-8B", {"llama-3-8b": "meta-llama/Meta-Llama-3-8B"}) is None
    True
    """
    owner, _, bare = name.strip().lower().rpartition("/")
    asked = spelled(bare)
    asked = ALIASES.get(asked, asked) if owner in ("", "deepseek-ai") else asked
    if asked in repositories and not owner:
        return asked
    candidates = [(preset, *id.lower().split("/")) for preset, id in repositories.items() if id]
    ours = [(preset, its) for preset, its_owner, its in candidates if owner in ("", its_owner)]
    if not owner or asked != spelled(bare):
        ours += [(preset, preset) for preset in repositories]
    for same in (_letters, _sizes):
        found = [preset for preset, its in ours if same(its) == same(asked)]
        if found:
            return min(found, key=len)
    return None


def meant(name: str, known: Iterable[str]) -> list[str]:
    """The presets that a name leaves open: those with all its words, of its version or one within it (3 and 3.1).

    >>> meant("llama3", ["llama-30b", "llama-3.1-8b", "llama-3-8b", "llama-2-7b"])
    ['llama-3-8b', 'llama-3.1-8b']
    """
    asked = parts(name.rpartition("/")[2])
    found = [(other, parts(other)) for other in known]
    return [other for other, its in sorted(found, key=_order) if _covers(asked, its)]


def alike(name: str, known: Iterable[str]) -> list[str]:
    """The presets nearest to a name: of the same family or one spelled like it, then by version, size and words.

    >>> alike("lama-3-8b", ["llama-30b", "llama-3-8b", "gemma-2b"]), alike("zzz", ["llama-3-8b"])
    (['llama-3-8b'], [])
    """
    asked = parts(name.rpartition("/")[2])
    scored = [(_likeness(asked, its), other, its) for other in known if (its := parts(other))]
    best = max((score for score, _, _ in scored), default=_FAR)
    if best[0] < CLOSE:
        return []
    ties = [(other, its) for score, other, its in scored if score[:3] == best[:3]]
    if len(ties) > MOST:
        ties = [(other, its) for score, other, its in scored if score == best]
    return [other for other, _ in sorted(ties, key=_order)]


def listed(names: list[str]) -> str:
    """At most so many names as fit into a line, and how many more there are.

    >>> listed(["a", "b"]), listed(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    left = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {left} more" if left > 0 else "")


def _letters(name: str) -> str:
    """Without the hyphens that nobody misses: those that do not part two numbers."""
    return re.sub(r"(?<!\d)-|-(?!\d)", "", spelled(name))


def _unsigned(name: str) -> list[str]:
    """The words of a name, without that of its maker."""
    words = name.split("-")
    return words[1:] if words[0] in MAKERS and len(words) > 1 else words


def _sizes(name: str) -> str:
    """Without the words that never change sizes, too."""
    words = _unsigned(spelled(name))
    idle = SAME_SIZES | {BASE} if any(_SIZE.fullmatch(word) for word in words) else SAME_SIZES
    return _letters("-".join(word for word in words if word not in idle))


def _covers(asked: Parts, its: Parts) -> bool:
    same_version = not asked.version or its.version == asked.version or its.version.startswith(f"{asked.version}.")
    return same_version and {*asked.words} - {asked.version} - SAME_SIZES <= {*its.words}


_Score = tuple[float, float, float, float]
_FAR: _Score = (0.0, 0.0, 0.0, 0.0)


def _likeness(asked: Parts, its: Parts) -> _Score:
    """How alike two names are: the family, the version, the size, the words in common; what is not asked is no miss."""
    from difflib import SequenceMatcher

    family = 1.0 if asked.family == its.family else SequenceMatcher(None, asked.family, its.family).ratio()
    if family < CLOSE:
        return _FAR
    version = 1.0 if asked.version in ("", its.version) else 0.5 if _same_line(asked.version, its.version) else 0.0
    size = 1.0 if asked.size in ("", its.size) else 0.0
    common = len({*asked.words} & {*its.words}) / max(len(asked.words), len(its.words))
    return family, version, size, common


def _same_line(one: str, other: str) -> bool:
    return bool(one) and bool(other) and (one.startswith(f"{other}.") or other.startswith(f"{one}."))


def _order(named: tuple[str, Parts]) -> tuple[tuple[float, ...], float, str]:
    """By version, then by size, then by name."""
    name, its = named
    version = tuple(float(number) for number in re.findall(r"\d+", its.version))
    return version, _parameters(its.size), name


def _parameters(size: str) -> float:
    """About how many a size means: ``8x7b`` are 56e9."""
    numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", size)]
    count = 1.0
    for number in numbers[:2] if "x" in size else numbers[:1]:
        count *= number
    return count * next((times for unit, times in _UNITS.items() if unit in size), 1.0) if numbers else 0.0
