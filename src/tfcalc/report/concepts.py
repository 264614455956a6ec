"""Concepts: words of the field that are no part of a model, each with the number that stands for it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from tfcalc.named_tuple import NamedTuple

DATA = Path(__file__).with_name("concepts.toml")
COURSE = "formulas.md"
LONGEST = 80
"""Characters of a question that is looked up."""
LONGEST_SENTENCE, LONGEST_NAME = 300, 5
"""Characters of a sentence that are searched for a concept, and words of a name that are looked up together."""
AROUND = re.compile(
    r"^(?:(?:what(?:'?s|\s+is|\s+are|\s+does)?|how\s+(?:big|large|much)(?:\s+is|\s+are)?|define|explain|the|an?|is)\s+)*"
    r"|(?:\s+(?:works?|means?|costs?|formula|memory))?\s*[?!.]*$"
)
"""What stands around a concept in a question."""
BESIDE = (
    "a an the my your our its this that it is are was be do does did doing can could should would will to of for on in "
    "at with by from into take takes taken account need needs needed have has get i you we me people all"
)
FILLERS = frozenset(BESIDE.split())
"""Words that a question has beside the name of its concept, left out of both before a second look."""
NEAREST = 3
POWERS = str.maketrans("²³", "23")
MARKS = ",.;:?!()'\""
"""Marks around a word of a sentence."""


class Concept(NamedTuple):
    """A concept: what ``opens`` its number of a model, and its ``meaning`` in two sentences.

    Attributes:
        name: as the field writes it.
        also: other names.
        opens: the words behind ``tfcalc explain``, without the model.
        model: which is taken where none is named.
        needs: a row, or a part of a formula, without which a model has nothing of it.
        formula: of the number, where what is opened has none of its own.
        meaning: two sentences.
        course: the heading of formulas.md that derives it.
        further: commands that show more; ``{}`` is the model.
        times: how often it is the number that is opened.
        of_run: what ``opens`` the number of a whole run, where its tokens are said.
        row: a pattern of the rows of what is opened that are the concept itself, whose sum is told first.
        whole: words for the number where it is that of more than the concept, or of another thing.
        refused: of what has no cost, why.
        instead: then the command to ask.
    """

    name: str
    also: tuple[str, ...] = ()
    opens: str = ""
    model: str = "llama-3-8b"
    needs: str = ""
    formula: str = ""
    meaning: str = ""
    course: str = ""
    further: tuple[str, ...] = ()
    times: int = 1
    of_run: str = ""
    row: str = ""
    whole: str = ""
    refused: str = ""
    instead: str = ""

    @property
    def link(self) -> str:
        """Place in the course: the page, and the anchor of its heading.

        >>> known()["6nd"].link
        'formulas.md#8-the-training-step'
        """
        return f"{COURSE}#{anchor(self.course)}"


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it.

    >>> anchor("8. The training step")
    '8-the-training-step'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def spelled(text: str) -> str:
    """Return a name without case, spaces and marks, and powers as figures.

    >>> spelled("Q K^T"), spelled("kv_cache"), spelled("5as²b")
    ('qkt', 'kvcache', '5as2b')
    """
    return "".join(character for character in text.lower().translate(POWERS) if character.isalnum())


@cache
def known() -> Mapping[str, Concept]:
    """The concepts by each of their names, :func:`spelled`."""
    found: dict[str, Concept] = {}
    for name, entry in tomllib.loads(DATA.read_text(encoding="utf-8")).items():
        lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
        concept = Concept(name, **(entry | lists))
        for each in (name, *concept.also):
            found.setdefault(spelled(each), concept)
    return found


def concept_of(text: str) -> Concept | None:
    """The concept that a text names, or asks about; None where it is none.

    >>> concept_of("What is MFU?").name, concept_of("flash-attention").name, concept_of("ffn")
    ('MFU', 'flash attention', None)
    """
    if len(text) > LONGEST:
        return None
    asked = text.lower().strip()
    for words in (asked, AROUND.sub("", asked)):
        name = spelled(words)
        if found := known().get(name) or known().get(name.removesuffix("s")):
            return found
    return None


def concept_in(text: str) -> Concept | None:
    """The concept that a sentence names, the longest name of several; None where it names none.

    >>> concept_in("Shouldn't we use 6ND instead of 2N?").name, concept_in("why is my causal mask free?").name
    ('6ND', 'causal mask')
    >>> concept_in("Why is the backward twice the forward?").name, concept_in("why is MLA's cache small").name
    ('backward pass', 'MLA')
    """
    found = named_among(text[:LONGEST_SENTENCE].split())
    return found.concept if found else None


class Named(NamedTuple):
    """A ``concept`` that a sentence names, and the ``places`` of the words of its name."""

    concept: Concept
    places: tuple[int, ...]


def named_among(sentence: Sequence[str]) -> Named | None:
    """The concept that the words of a sentence name, the longest name of several; None where they name none.

    >>> named_among("how large is a KV cache of gpt2".split()).places
    (4, 5)
    """
    words = [(place, spelled(re.sub(r"['’]s$", "", word.lower()))) for place, word in enumerate(sentence) if word]
    bare = [(place, word) for place, word in words if word not in FILLERS]
    names = _names_in(words) + _names_in(bare)
    if not names:
        return None
    name, places = max(names, key=lambda named: len(named[0]))
    return Named(known()[name], places)


def _names_in(words: Sequence[tuple[int, str]]) -> list[tuple[str, tuple[int, ...]]]:
    """Names of concepts among neighbouring words, each with the places of its words."""
    firsts = range(len(words))
    runs = (words[first:last] for first in firsts for last in range(first + 1, first + 1 + LONGEST_NAME))
    named = (("".join(word for _, word in run), tuple(place for place, _ in run)) for run in runs)
    return [(name, places) for name, places in named if name in known()]


def near(text: str, alike: float = 0.75) -> list[str]:
    """The names of the concepts that are spelled most like a text; ``alike`` is 1 for equal ones."""
    close = get_close_matches(spelled(text[:LONGEST]), known(), n=NEAREST, cutoff=alike)
    return list(dict.fromkeys(known()[name].name for name in close))
