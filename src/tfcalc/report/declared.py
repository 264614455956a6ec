"""An answer declares its keys, each once: its type, its meaning, and the rule that makes it.

    class Params(Answer):
        total_params = integer("parameters: a tied matrix once", Fold("params", stored, params))
        embedding_params = integer("parameters of the tables of tokens and positions", ...)
        non_embedding_params = integer("all other parameters", total("total_params", less="embedding_params"))

From this line follow the attribute (``answer.total_params``: found when it is read, once), the JSON, its JSON Schema,
what ``explain`` says of the number, and the metrics that budgets know.

In a dataclass a key that is annotated is handed in, as any field is: ``given: Key[str] = text("as it was written")``.
A key that Python has another use for ends with an underscore there, and without one in the JSON: ``for_``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar, overload

from tfcalc.core.notation import write
from tfcalc.core.polynomial import Polynomial
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.opening import Constant, Named, Rule, Same, Stated
from tfcalc.report.style import Style

if TYPE_CHECKING:
    from tfcalc.report.chart import Picture
    from tfcalc.report.opening import Elsewhere, Way
    from tfcalc.report.paths import Step
    from tfcalc.report.sheet import Sheet

T = TypeVar("T")
R = TypeVar("R", bound="Keyed")

SCHEMA_VERSION = 1
"""Of the JSON: within it keys are added, and none is removed, renamed or retyped."""

HEAD, FIRST, FORMULA, TOGETHER, LAST = range(5)
"""Places of keys in the JSON: what was asked about, most numbers, the formula, what an option adds, the components."""


class Sum(Protocol):
    """A number that is a sum over the tree of components, which can be opened item by item."""

    def __call__(self, answer: Any, /) -> Any:
        """The number."""
        ...

    def of(self, answer: Any, /) -> Elsewhere:
        """The items that it is the sum of, in this answer."""
        ...


class Bound(Protocol):
    """An origin that depends on the answer."""

    def of(self, answer: Any, /) -> Elsewhere:
        """Return the origin in this answer."""
        ...


class Told(NamedTuple):
    """An origin that a function tells of the answer, or of the record, and of the steps that lead on from the key."""

    tell: Callable[..., Way | None]


class ByForm(NamedTuple):
    """Rule of a number that each form of an answer makes in its own way: by this ``name`` in its ``own_rules``.

    A form without one has nothing of it: 0.
    """

    name: str

    def __call__(self, answer: Any) -> Any:
        """The number."""
        make, *_ = answer.own_rules.get(self.name, (None,))
        if make is None:
            return 0
        return answer.evaluate(make) if isinstance(make, Rule) else make(answer)

    def origins(self, answer: Any) -> Iterator[Any]:
        """Yield what the form's own rule, and what is told beside it, say of the number."""
        for each in answer.own_rules.get(self.name, ()):
            if isinstance(each, Rule | Stated) or hasattr(each, "of"):
                yield _with_constants(each)


Make = Callable[[Any], Any] | Rule | Sum | ByForm
"""What makes a value: a function of the answer (in a record: of what that is about), or a rule over other keys."""
Origin = Rule | Same | Stated | Sum | Bound | Told
"""Where a number comes from."""


def handed_in(answer: Any) -> Any:
    """Raise AttributeError, for a key whose value is given when its answer is made."""
    raise AttributeError(f"{type(answer).__name__} was made without one of its keys")


class Unknown(NamedTuple):
    """A number that is not known of a model, null in the JSON: ``short`` in a few words, ``reason`` in full."""

    short: str
    reason: str


class Compared(NamedTuple):
    """Form of a number where models are compared: what it is ``called``, and whether it is a ``part`` of another.

    ``meaning`` is that in the schema of the comparison.
    """

    called: str
    part: bool
    meaning: str


class When(NamedTuple):
    """Condition under which an answer has a key: where this ``holds`` of it.

    Keys with one ``anchor`` come together with that key. If that is ``mutual``, the anchor comes together with each of
    them, too.
    ``form`` is the form of the answer that has it, in words for its schema.
    """

    holds: Callable[[Any], object]
    anchor: str = ""
    mutual: bool = False
    form: str = ""


class Key(Generic[T]):
    """A key of an answer. Read of the answer it is the value, which is found once.

    Args:
        schema: type and meaning, as in JSON Schema.
        make: the rule, or what finds the value.
        origins: what ``explain`` says where the rule does not say it: the first that makes the number is told.
        when: when an answer has it, if not always.
        record: what kind of objects it holds.
        place: its place in the JSON.
        label: what people call it, if they are told it in a line below the table.

    Its ``name`` is that in the JSON, ``attribute`` that in Python.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        make: Make,
        *origins: Origin,
        when: When | None = None,
        record: type[Keyed] | None = None,
        place: int | None = None,
        label: str = "",
    ) -> None:
        self.label = label
        self.schema, self.make, self.when, self.record = schema, make, when, record
        comes_with = when is not None and when.anchor
        self.place = place if place is not None else TOGETHER if comes_with else FIRST
        ruled = isinstance(make, Rule) or hasattr(make, "of")
        self.origins: tuple[Any, ...] = tuple(map(_with_constants, (*((make,) if ruled else ()), *origins)))
        self.comparison: Compared | None = None
        self.before = self.name = self.attribute = ""

    def __set_name__(self, owner: type[Keyed], name: str) -> None:
        self.name, self.attribute = name.removesuffix("_"), name

    if TYPE_CHECKING:  # there is none: a value that is handed in stands in the place of the key from then on

        def __set__(self, of: Keyed, value: T) -> None: ...

    @overload
    def __get__(self, of: None, owner: type[Keyed]) -> Self: ...

    @overload
    def __get__(self, of: Keyed, owner: type[Keyed]) -> T: ...

    def __get__(self, of: Keyed | None, owner: type[Keyed]) -> Self | T:
        if of is None:
            if self.make is handed_in:  # so that dataclasses see a field without a default
                raise AttributeError(self.attribute)
            return self
        found: Any = of.evaluate(self.make) if isinstance(self.make, Rule) else self.make(of.source)
        if self.record is not None and found is not None and issubclass(self.record, Record):
            several = self.schema["type"] == "array"
            kind: Any = self.record
            found = tuple(kind(each, of.within) for each in found) if several else kind(found, of.within)
        of.__dict__[self.attribute] = found  # from now on this is read
        return found  # type: ignore[no-any-return]

    def compared(self, called: str, *, part: bool = False, meaning: str = "") -> Self:
        """Set the name under which ``compare`` shows the key of each model, and return the key."""
        self.comparison = Compared(called, part, meaning or str(self.schema["description"]))
        return self

    def behind(self, key: Key[Any]) -> Self:
        """Set the base's key before it, with those that follow it in its class; return the key itself."""
        self.before = key.name
        return self

    def only(self, when: When) -> Key[T]:
        """Return a copy of the key, which a subclass has under a condition."""
        found = copy(self)
        found.when = when
        return found

    def made(self, make: Make, *origins: Origin) -> Key[T]:
        """Return a copy of the key, made in another way: that of a subclass."""
        return Key(self.schema, make, *origins, when=self.when, record=self.record, place=self.place, label=self.label)

    def holds(self, of: Keyed) -> bool:
        """Return whether this answer has it."""
        return self.when is None or bool(self.when.holds(of.source))

    @property
    def scalar(self) -> bool:
        """Return whether it is one value: a number, a word."""
        types = self.schema.get("type", "object")
        return not {"array", "object"} & set([types] if isinstance(types, str) else types)


class FurtherKeys(Key[Mapping[str, Any]]):
    """Keys that are listed elsewhere, or known by a ``pattern`` alone, beside those that a class declares.

    Args:
        listed: schemas by key.
        required: which of the keys there always are.
        make: what finds the values, by key.
        pattern: regular expressions of further keys, with their schemas.
    """

    def __init__(
        self,
        listed: Mapping[str, Mapping[str, Any]],
        required: Sequence[str],
        make: Callable[[Any], Mapping[str, Any]],
        pattern: Mapping[str, Mapping[str, Any]],
    ) -> None:
        super().__init__({"type": "object", "properties": listed}, make)
        self.required, self.pattern = required, pattern


NO_KEYS: Mapping[str, Key[Any]] = MappingProxyType({})


class Keyed:
    """Object that has keys: an answer, or a record in one."""

    keys: ClassVar[Mapping[str, Key[Any]]] = {}
    """By name, in the order of the JSON: those of its bases first, unless a class is ``in_order``.

    ``further`` are keys of which a list has the names.
    """
    definition: ClassVar[tuple[str, str]] = ("", "")
    """The name and the meaning of its definition in the schema, where several keys have such objects."""

    @property
    def source(self) -> Any:
        """Object that its keys are made of."""
        return self

    @property
    def within(self) -> Any:
        """The answer that it is, or that contains it."""
        return self

    def __init_subclass__(cls, *, in_order: bool = False, further: Mapping[str, Key[Any]] = NO_KEYS) -> None:
        for name, key in further.items():  # as if they stood in its body, behind the others
            key.__set_name__(cls, name)
            setattr(cls, name, key)
        own = {key.name: key for key in vars(cls).values() if isinstance(key, Key)}
        inherited: dict[str, Key[Any]] = {}
        for base in reversed(cls.__bases__):
            inherited |= getattr(base, "keys", {})
        found = own | {name: key for name, key in inherited.items() if name not in own} if in_order else inherited | own
        cls.keys = dict(sorted(_in_their_places(found, own).items(), key=lambda item: item[1].place))

    def present(self) -> Iterator[Key[Any]]:
        """The keys that it has."""
        return (key for key in self.keys.values() if key.holds(self))

    def read(self, name: Named) -> Any:
        """The value of a key of the answer; of a name that begins with a dot, of a key beside it."""
        if isinstance(name, Constant):
            return name.value
        of, name = (self, name[1:]) if name.startswith(".") else (self.within, name)
        return getattr(of, of.keys[name].attribute if name in of.keys else name)

    def evaluate(self, rule: Rule) -> Any:
        """Return the result of the rule for the values that it names."""
        return rule.at([self.read(name) for name in rule.terms], [self.read(name) for name in rule.others])

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object, as in ``--json``."""
        found: dict[str, object] = {}
        for key in self.present():
            value = getattr(self, key.attribute)
            entries = value if isinstance(key, FurtherKeys) else {key.name: value}
            found |= {name: plain(each) for name, each in entries.items()}
        return found

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """Yield where the number at these steps comes from: ways of which the first that makes it is told."""
        key = self.keys.get(str(steps[0]))
        if key is None:
            return
        rest = steps[1:]
        if key.record is not None and rest:
            held = getattr(self, key.attribute)
            if isinstance(rest[0], int):
                held, rest = held[rest[0]], rest[1:]
            yield from held.origins(rest)
        by_form = key.make.origins(self.within) if isinstance(key.make, ByForm) else ()
        for origin in (*by_form, *key.origins):
            if isinstance(origin, Told):
                if (way := origin.tell(self, *rest)) is not None:
                    yield way
            elif not rest or not isinstance(origin, Rule):
                yield origin.of(self.within) if hasattr(origin, "of") else origin


def _in_their_places(keys: Mapping[str, Key[Any]], own: Mapping[str, Key[Any]]) -> dict[str, Key[Any]]:
    """Return the keys, with those of a class's own where they come behind another one, and what follows each."""
    order, before = list(keys), ""
    for name, key in own.items():
        before = key.before or before
        if before:
            order.remove(name)
            order.insert(order.index(before) + 1, name)
            before = name
    return {name: keys[name] for name in order}


class Record(Keyed):
    """An object in an answer: its keys are made of what it is about. Rules name them with a dot in front."""

    def __init__(self, source: Any, within: Answer) -> None:
        self._source, self._within = source, within

    @property
    def source(self) -> Any:
        """Object that it is about."""
        return self._source

    @property
    def within(self) -> Any:
        """The answer that contains it."""
        return self._within


class WithSheet:
    """Sheet in several forms: text, HTML for a notebook, and a frame."""

    def sheet(self) -> Sheet:
        """The answer for people."""
        raise NotImplementedError

    def pictures(self) -> Sequence[Picture]:
        """Pictures above the table on a page and in a notebook: curves, bars, a whole divided into its parts."""
        return ()

    def to_frame(self, library: str = "") -> Any:
        """The rows that are printed, as a ``DataFrame`` of pandas or polars: numbers in full, in units of JSON.

        Args:
            library: ``"pandas"`` or ``"polars"``; by default the first of them that is installed.

        Raises:
            Unavailable: it is not installed.
            UsageError: the answer has no rows, or the library is neither.
        """
        return _render().framed(self.sheet(), library)

    def _repr_html_(self) -> str:
        found: str = _render().in_notebook(self.sheet(), self.pictures(), Style())
        return found

    def __str__(self) -> str:
        return self._rendered("plain")

    def __repr__(self) -> str:
        """The first line: ``<Params: 124M parameters (124,439,808)>``."""
        return f"<{type(self).__name__}: {self.sheet().title}>"

    def _rendered(self, form: str) -> str:
        text: str = _render().rendered(self.sheet(), form, Style())
        return text


def pictures_of(answer: object) -> Sequence[Picture]:
    """Pictures of an answer; none of one without any."""
    return answer.pictures() if isinstance(answer, WithSheet) else ()


def _render() -> ModuleType:
    """The formats, which few programs need."""
    from tfcalc import render

    return render


class Answer(WithSheet, Keyed):
    """Answer to a question: values by their keys, and a sheet for people.

    Attributes:
        command: the command that gives the same answer.
        about: the answer in a sentence, for its schema.
        form: in which form of the command's answer a class has its keys: ``--train``; empty for all.
        own_rules: how a form makes the numbers that all forms have (:class:`ByForm`), and what else is told of them.
        stated: the definitions in ``conventions`` that this form always has; ``constants`` those of one value.
        exclusive: whether an answer has the keys of exactly one form.
        record_keys: by a list of records, the keys that these always have in this form.
        lacks: the keys that this form is distinguished by, as it never has them.
        heading: the model, with what was asked of it.
    """

    command: ClassVar[str] = ""
    about: ClassVar[str] = ""
    form: ClassVar[str] = ""
    stated: ClassVar[Sequence[str]] = ()
    own_rules: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    constants: ClassVar[Mapping[str, object]] = {}
    exclusive: ClassVar[bool] = False
    record_keys: ClassVar[Mapping[str, Sequence[str]]] = {}
    lacks: ClassVar[Sequence[str]] = ()

    @property
    def heading(self) -> str:
        """The model that it is about, or other text that is printed under a title."""
        return ""

    @property
    def subject(self) -> str:
        """Subject of its numbers: the model, without what was asked of it."""
        return self.heading

    def head(self) -> dict[str, object]:
        """Return the beginning of its JSON: the version that it promises, and the command whose answer it is."""
        return {"schema_version": SCHEMA_VERSION, "command": self.command}

    def to_dict(self) -> dict[str, object]:
        """The JSON object that ``--json`` prints: exact integers, the unit of each in its key."""
        self.find_breakdown()
        return {**self.head(), **super().to_dict()}

    def entries(self) -> Mapping[str, Any]:
        """Return the object of ``to_dict``, of which each entry is found when it is read."""
        return Entries(self)

    @property
    def declared(self) -> Self:
        """Answer itself: where its numbers come from is said by :meth:`origins`."""
        return self

    def find_breakdown(self) -> None:
        """Find first what most of its numbers come out of, where they are all read or one of them is opened."""

    def to_json(self) -> str:
        """``to_dict`` as text."""
        from tfcalc.render.as_json import dump

        return dump(self.to_dict())


class Entries(Mapping[str, Any]):
    """Entries of an answer's JSON object, or those whose keys pass the filter: each is found when it is read."""

    def __init__(self, answer: Answer, kept: Callable[[Key[Any]], bool] | None = None) -> None:
        self.answer, self.kept = answer, kept
        self.head = answer.head() if kept is None else {}
        self.found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self.head:
            return self.head[name]
        if name not in self:
            raise KeyError(name)
        if name not in self.found:
            self.found[name] = plain(getattr(self.answer, self.answer.keys[name].attribute))
        return self.found[name]

    def __contains__(self, name: object) -> bool:
        key = self.answer.keys.get(str(name))
        return name in self.head or (key is not None and self._has(key))

    def __iter__(self) -> Iterator[str]:
        yield from self.head
        yield from (key.name for key in self.answer.keys.values() if self._has(key))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _has(self, key: Key[Any]) -> bool:
        return (self.kept is None or self.kept(key)) and key.holds(self.answer)


def _with_constants(origin: Any) -> Any:
    """A rule says in its note what its constants are."""
    if not isinstance(origin, Rule):
        return origin
    return origin._replace(note="; ".join(filter(None, (origin.constants, origin.note))))


SIMPLE = (int, float, str, type(None))
"""What JSON has as it is."""


def plain(value: Any) -> Any:
    """A value as JSON has it: records as objects, tuples as lists, closed forms as text, null for what is not known."""
    if isinstance(value, Keyed):
        return value.to_dict()
    if isinstance(value, Unknown):
        return None
    if isinstance(value, tuple | list):
        return [each if isinstance(each, SIMPLE) else plain(each) for each in value]  # a column may be long
    if isinstance(value, Polynomial):
        return write(value)
    return dict(value) if isinstance(value, Mapping) else value


# --- kinds of keys


def integer(
    meaning: str,
    make: Make = handed_in,
    *origins: Origin,
    when: When | None = None,
    place: int | None = None,
    label: str = "",
) -> Key[int]:
    """An exact whole number; its unit is the end of its key."""
    return Key({"type": "integer", "description": meaning}, make, *origins, when=when, place=place, label=label)


def optional(
    meaning: str, make: Make = handed_in, *origins: Origin, when: When | None = None, place: int | None = None
) -> Key[int | None]:
    """A whole number, or null."""
    return Key({"type": ["integer", "null"], "description": meaning}, make, *origins, when=when, place=place)


def number(
    meaning: str, make: Make = handed_in, *origins: Origin, when: When | None = None, place: int | None = None
) -> Key[float]:
    """A number that is divided or measured."""
    return Key({"type": "number", "description": meaning}, make, *origins, when=when, place=place)


def text(meaning: str, make: Make = handed_in, *, when: When | None = None, place: int | None = None) -> Key[str]:
    """Words."""
    return Key({"type": "string", "description": meaning}, make, when=when, place=place)


def texts(
    meaning: str, make: Make = handed_in, *, when: When | None = None, place: int | None = None
) -> Key[Sequence[str]]:
    """Several lines of words."""
    return Key({"type": "array", "items": {"type": "string"}, "description": meaning}, make, when=when, place=place)


def boolean(meaning: str, make: Make = handed_in, *, when: When | None = None, place: int | None = None) -> Key[bool]:
    """Yes or no."""
    return Key({"type": "boolean", "description": meaning}, make, when=when, place=place)


def optional_boolean(meaning: str, make: Make, *, when: When | None = None) -> Key[bool | None]:
    """Yes or no, or null where nobody knows."""
    return Key({"type": ["boolean", "null"], "description": meaning}, make, when=when)


def records(
    kind: type[R],
    meaning: str,
    make: Make = handed_in,
    *origins: Origin,
    when: When | None = None,
    place: int | None = None,
) -> Key[tuple[R, ...]]:
    """A list of objects with keys of their own."""
    return Key({"type": "array", "description": meaning}, make, *origins, when=when, record=kind, place=place)


def record(
    kind: type[R],
    meaning: str,
    make: Make = handed_in,
    *origins: Origin,
    when: When | None = None,
    place: int | None = None,
) -> Key[R]:
    """An object with keys of its own."""
    return Key({"type": "object", "description": meaning}, make, *origins, when=when, record=kind, place=place)


def shared(name: str, make: Make = handed_in, *, place: int | None = None) -> Key[Any]:
    """Return a key that several answers have by one definition of schemas/shared.json: the model, the conventions."""
    return Key({"$ref": f"shared.json#/$defs/{name}"}, make, place=place)


def integers(meaning: str, make: Make = handed_in, *origins: Origin, when: When | None = None) -> Key[tuple[int, ...]]:
    """Several whole numbers."""
    return Key({"type": "array", "items": {"type": "integer"}, "description": meaning}, make, *origins, when=when)


def numbers(meaning: str, make: Make, *origins: Origin, when: When | None = None) -> Key[Sequence[float]]:
    """Several numbers that are divided or measured."""
    return Key({"type": "array", "items": {"type": "number"}, "description": meaning}, make, *origins, when=when)


def choice(
    values: Sequence[str | None],
    meaning: str,
    make: Make = handed_in,
    *,
    typed: bool = False,
    when: When | None = None,
) -> Key[Any]:
    """One of these words, or null if that is among them; ``typed`` where its schema says the type, too."""
    kind = {"type": "string"} if typed else {}
    return Key({"enum": list(values), **kind, "description": meaning}, make, when=when)


def by_name(
    kind: str | Sequence[str],
    meaning: str,
    make: Make = handed_in,
    *origins: Origin,
    when: When | None = None,
    place: int | None = None,
) -> Key[Mapping[str, Any]]:
    """Values by names, of one or several types of JSON."""
    types = kind if isinstance(kind, str) else list(kind)
    schema = {"type": "object", "additionalProperties": {"type": types}, "description": meaning}
    return Key(schema, make, *origins, when=when, place=place)


def optional_record(
    kind: type[R], meaning: str, make: Make, *origins: Origin, when: When | None = None
) -> Key[R | None]:
    """An object with keys of its own, or null."""
    return Key({"type": ["object", "null"], "description": meaning}, make, *origins, when=when, record=kind)


def optional_number(meaning: str, make: Make, *origins: Origin, when: When | None = None) -> Key[int | float | None]:
    """A number, or null."""
    return Key({"type": ["integer", "number", "null"], "description": meaning}, make, *origins, when=when)


def some_conventions(make: Make = handed_in, *, place: int | None = None) -> Key[Mapping[str, object]]:
    """The definitions that bear on a question, of which none is always among them."""
    return Key({"$ref": "shared.json#/$defs/conventions", "required": []}, make, place=place)


def either(types: Sequence[str], meaning: str, make: Make = handed_in, *origins: Origin) -> Key[Any]:
    """A value of one of these types: a number or null, a whole number or another."""
    return Key({"type": list(types), "description": meaning}, make, *origins)


def as_field(key: Key[T]) -> Key[T]:
    """Return a copy of the key, handed in: that of a subclass."""
    return key.made(handed_in)
