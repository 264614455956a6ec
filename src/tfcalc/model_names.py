"""Resolution of model names as people type them to presets: spelling, suffixes, families, versions, sizes.

``llama3-8b``, ``Llama 3 8B`` and ``meta-llama/Meta-Llama-3-8B-Instruct`` all mean llama-3-8b. ``llama3`` is ambiguous,
and answered with a list. Names are compared by family, version and size, and only then by letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

SAME_SIZES = frozenset({"instruct", "chat", "it", "pt", "sft", "dpo", "hf"})
"""Words for fine-tuning or conversion, which does not change sizes."""

MAKERS = frozenset({"meta", "nvidia", "ai21", "c4ai"})
"""First words that name the maker, which people leave out."""

BASE = "base"
"""Word that does not change sizes beside a number of parameters: gemma-7b-base is gemma-7b, but bert-base is a size."""

ALIASES = {
    "deepseek-r1-distill-llama-8b": "llama-3.1-8b",
    "deepseek-r1-distill-llama-70b": "llama-3.3-70b-instruct",
    "deepseek-r1-distill-qwen-7b": "qwen2.5-7b",
    "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
}
"""Models fine-tuned from another one, with its sizes, under a name of their own.

Source: model card of DeepSeek-R1, table of the distilled models (the one of 1.5B is left out: its head is not tied).
"""

MOST = 6
"""Largest number of names in a list of alternatives."""

CLOSE = 0.75
"""Similarity (difflib's ratio) from which a family's name may be a misspelling of another."""

_SIZE = re.compile(r"[ae]?\d+(?:\.\d+)?(?:x\d+(?:\.\d+)?)?[bm]|\d+b\d", re.ASCII)
_VERSION = re.compile(r"[a-z]?\d+(?:\.\d+)*[a-z]?", re.ASCII)
_GLUED = re.compile(r"([a-z]{2,})(\d[\d.]*)", re.ASCII)
_UNITS = {"m": 1e6, "b": 1e9}


class NameParts(NamedTuple):
    """The parts of a name: ``Qwen2.5-7B-Instruct`` is family qwen, version 2.5, size 7b, and all its words.

    >>> parts("Qwen2.5-7B-Instruct")
    NameParts(family='qwen', version='2.5', size='7b', words=('qwen', '2.5', '7b', 'instruct'))
    """

    family: str
    version: str
    size: str
    words: tuple[str, ...]


def spelled(name: str) -> str:
    """Return a name in the presets' spelling: ``Llama 3_8B`` is ``llama-3-8b``."""
    return re.sub(r"[\s_:]+", "-", name.strip().lower())


def parts(name: str) -> NameParts:
    """Return family, version, size and all words of a name, each empty if it has none."""
    words: list[str] = []
    for word in _without_maker(spelled(name)):
        glued = _GLUED.fullmatch(word)
        words += glued.groups() if glued else [word]
    numbered = [word for word in words[1:] if word[-1:].isalnum() and any(character.isdigit() for character in word)]
    size = next((word for word in numbered if _SIZE.fullmatch(word)), "")
    first = numbered[0] if numbered else ""
    version = first if first != size and _VERSION.fullmatch(first) else ""
    return NameParts(words[0], version, size, tuple(words))


def resolve(name: str, repositories: Mapping[str, str]) -> str | None:
    """Return the preset that a name means unambiguously; None if there is none.

    Args:
        name: as typed: a preset's name in another spelling, the id of its repository in any case, or either with or
            without a suffix that never changes sizes.
        repositories: the id of each preset's repository, or "" if it has none.

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
    for key in (_letters, _sizes):
        matches = [preset for preset, its in ours if key(its) == key(asked)]
        if matches:
            return min(matches, key=len)
    return None


def meant(name: str, known: Iterable[str]) -> list[str]:
    """Return the presets that an incomplete name may mean: those with all its words, and its version or one within it.

    >>> meant("llama3", ["llama-30b", "llama-3.1-8b", "llama-3-8b", "llama-2-7b"])
    ['llama-3-8b', 'llama-3.1-8b']
    """
    asked = parts(name.rpartition("/")[2])
    found = [(other, parts(other)) for other in known]
    return [other for other, its in sorted(found, key=_order) if _covers(asked, its)]


def alike(name: str, known: Iterable[str]) -> list[str]:
    """Return the presets nearest to a name: of the same or a similarly spelled family, then by version, size and words.

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
    """Join names to a list of at most ``MOST``, and the number of further ones.

    >>> listed(["a", "b"]), listed(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    left = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {left} more" if left > 0 else "")


def _letters(name: str) -> str:
    """Drop hyphens, except between two digits."""
    return re.sub(r"(?<!\d)-|-(?!\d)", "", spelled(name))


def _without_maker(name: str) -> list[str]:
    """Return the words of a name, without its maker's."""
    words = name.split("-")
    return words[1:] if words[0] in MAKERS and len(words) > 1 else words


def _sizes(name: str) -> str:
    """Drop words that do not change sizes, and hyphens."""
    words = _without_maker(spelled(name))
    idle = SAME_SIZES | {BASE} if any(_SIZE.fullmatch(word) for word in words) else SAME_SIZES
    return _letters("-".join(word for word in words if word not in idle))


def _covers(asked: NameParts, its: NameParts) -> bool:
    same_version = not asked.version or its.version == asked.version or its.version.startswith(f"{asked.version}.")
    return same_version and {*asked.words} - {asked.version} - SAME_SIZES <= {*its.words}


_Score = tuple[float, float, float, float]
_FAR: _Score = (0.0, 0.0, 0.0, 0.0)


def _likeness(asked: NameParts, its: NameParts) -> _Score:
    """Score the likeness of two names by family, version, size and common words; parts not asked for count as equal."""
    from difflib import SequenceMatcher

    family = 1.0 if asked.family == its.family else SequenceMatcher(None, asked.family, its.family).ratio()
    if family < CLOSE:
        return _FAR
    version = 1.0 if asked.version in ("", its.version) else 0.5 if _same_line(asked.version, its.version) else 0.0
    size = 1.0 if asked.size in ("", its.size) else 0.0
    common = len({*asked.words} & {*its.words}) / max(len(asked.words), len(its.words))
    return family, version, size, common


def _same_line(version: str, other: str) -> bool:
    return bool(version) and bool(other) and (version.startswith(f"{other}.") or other.startswith(f"{version}."))


def _order(named: tuple[str, NameParts]) -> tuple[tuple[float, ...], float, str]:
    """Sort key: version, then size, then name."""
    name, its = named
    version = tuple(float(number) for number in re.findall(r"\d+", its.version))
    return version, _parameters(its.size), name


def _parameters(size: str) -> float:
    """Return the approximate number of parameters of a size: ``8x7b`` is 56e9."""
    numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", size)]
    count = 1.0
    for number in numbers[:2] if "x" in size else numbers[:1]:
        count *= number
    return count * next((times for unit, times in _UNITS.items() if unit in size), 1.0) if numbers else 0.0
