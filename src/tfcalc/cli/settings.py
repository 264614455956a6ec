"""Sources of a value: flag > TFCALC_* variable > tfcalc.toml (or pyproject's [tool.tfcalc]) > default."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tfcalc.cli.commands import every
from tfcalc.cli.messages import tell
from tfcalc.cli.options import CONVENTIONS, EDITS, MODEL, MODEL_FIELDS, TUNING, Option, keyed
from tfcalc.dimensions import check_size
from tfcalc.errors import BadFile, InvalidModel, Unavailable, UsageError, nearest, one_of
from tfcalc.model import default_run
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import QUOTED, quoted
from tfcalc.settings_file import RESERVED, SettingsFile, find, section, text_of, working_folder
from tfcalc.units import parse_amount, parse_count, parse_length
from tfcalc.workload import Conventions, Workload
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.configs.published import HFModel
    from tfcalc.model import Model
    from tfcalc.plans import Training


Value = int | float | str | bool | tuple[str, ...] | tuple[int, ...] | range

LONGEST, LONGEST_LIST, MOST = 10_000, 1_000_000, 1_000
"""Characters of a text and of a list of numbers, and texts of an option that takes several: more than anybody types,
and few enough for whatever compares them with names."""

TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def read(option: Option, raw: Any, called: str) -> Value:
    """One value of an option, which is ``called`` so where it was given. Raises UsageError."""
    for text in raw if option.several else (raw,):
        if isinstance(text, str) and len(text) > (LONGEST_LIST if option.spreads else LONGEST):
            fact = f"{called} {quoted(text)} has {len(text):,} characters"
            raise UsageError(fact, f"give at most {LONGEST_LIST if option.spreads else LONGEST:,}")
    if option.several:
        if len(raw) > MOST:
            raise UsageError(f"{called} is given {len(raw):,} times", f"give it at most {MOST:,} times")
        return tuple(raw)
    if option.switch:
        return _switch(raw, called)
    if option.number:
        return _spread(option, raw, called) if option.spreads else _number(option, raw, called)
    if option.amount:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise UsageError(f"{called} {quoted(raw)} is not a number", "give a number above 0")
        try:
            if not isinstance(raw, str):
                return parse_amount(raw)
            if option.timed and (of_seconds := re.fullmatch(SECONDS, raw, re.ASCII)):
                return parse_amount(of_seconds[1]) / (1000 if of_seconds[2] else 1)
            return parse_amount(_dollars(raw) if option.hourly else raw)
        except UsageError as error:
            raise UsageError(f"{called} {error.message}", error.hint) from None
    if not isinstance(raw, str):
        raise UsageError(f"{called} {quoted(raw)} is not text", "put it in quotes")
    if option.flags and not raw.strip() and option.name != MODEL.name:  # a model without a name is not known: 3
        raise UsageError(f"{called} {quoted(raw)} is empty", "give it a value, or leave it out")
    if not option.known:
        return raw
    return one_of(called, option.spellings.get(raw.lower(), raw), option.known)


SECONDS = r"([\d.]{1,20}) ?(m?)s(?:ec)?"
"""Seconds or milliseconds with their unit."""


def _dollars(text: str) -> str:
    """Return the number of a price: ``$2.50/hr`` and ``2.50/h`` are ``2.50``; any other text stays.

    >>> _dollars("$2.50/hr"), _dollars("2/h"), _dollars("2/day")
    ('2.50', '2', '2/day')
    """
    amount, slash, unit = text.strip().removeprefix("$").partition("/")
    return amount if slash and unit.strip().lower() in ("h", "hr", "hour") else text.strip().removeprefix("$")


def readable(option: Option, raw: object) -> bool:
    """Return whether an option takes this value."""
    try:
        read(option, raw, "")
    except UsageError:
        return False
    return True


def _spread(option: Option, raw: Any, called: str) -> Value:
    """One number, or several: of a TOML list, too."""
    from tfcalc.cli.ranges import spread  # few commands take them

    text = ",".join(map(str, raw)) if isinstance(raw, list) else raw
    if not isinstance(text, str):
        return _number(option, text, called)
    values = spread(text, called, lambda each: _number(option, each, called))
    return values if isinstance(values, int | range) else tuple(values)


def _number(option: Option, raw: object, called: str) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        hint = f"give an integer of at least {option.least}"
        raise UsageError(f"{called} {quoted(raw)} is not a whole number", hint)
    try:
        number = parse_length(raw) if option.length else parse_count(raw)
    except UsageError as error:
        raise UsageError(f"{called} {error.message}", error.hint) from None
    try:
        check_size(called, number, option.least, option.most)
    except InvalidModel as error:
        raise UsageError(error.message, error.hint) from None
    return number


def _switch(raw: object, called: str) -> bool:
    if isinstance(raw, bool):
        return raw
    word = str(raw).lower()
    if word not in (*TRUE, *FALSE):
        raise UsageError(f"{called} {quoted(raw)} is neither true nor false", "write true or false")
    return word in TRUE


VERSION = 1


class FileValue(NamedTuple):
    """A value as written in a settings file, and its key there: ``d-model``, ``conventions.units``."""

    key: str
    value: object


def filed(options: Iterable[Option]) -> tuple[Mapping[str, FileValue], Path | None]:
    """Values of these options in the nearest settings file, by the options' names; and the file, if there is one.

    Keys of other commands' options are passed over, unread. Raises BadFile for a key that no command has or that is
    only typed, and where two keys say different things of one option.
    """
    folder = working_folder()
    file = find(folder) if folder else None
    return (_by_option(file, options), file.path) if file else ({}, None)


def _by_option(file: SettingsFile, options: Iterable[Option]) -> dict[str, FileValue]:
    version = file.table.get("version", VERSION)
    if version != VERSION or isinstance(version, bool | float):
        raise BadFile(f"{file.path}: version {quoted(version)} is not known", f"write version = {VERSION}")
    known, found = keyed((*CONVENTIONS, *options)), dict[str, FileValue]()
    others: dict[str, str] = {}
    for key, written in _entries(file):
        option = known.get(key)
        if option is None:
            others[key] = written.key
            continue
        _check_not_typed(option, written, file)
        before = found.setdefault(option.name, written)
        if not _same(before.value, written.value):
            fact = f"{written.key} {quoted(written.value)} contradicts {before.key} {quoted(before.value)}"
            raise BadFile(f"{file.path}: {fact}", "leave one of them out")
    for key, option in of_others(others).items():
        if option is None:
            hint = nearest(key, [*keys_of_all(), *RESERVED])
            raise BadFile(f"{file.path}: key {quoted(others[key])} is not known", hint)
        _check_not_typed(option, FileValue(others[key], file.options[others[key]]), file)
    return found


def _check_not_typed(option: Option, written: FileValue, file: SettingsFile) -> None:
    """Raise BadFile, with the line, for an option that decides on what is written or run."""
    if not option.typed:
        return
    from tfcalc.toml_lines import line_of_key

    line = line_of_key(text_of(file.path), (*section(file.path.name), written.key))
    flag = option.flags[0]
    raise BadFile(
        f"{file.path}:{line}: {written.key} {quoted(written.value)} cannot be set in a file: {flag} is taken from the "
        f"command line alone, as it decides on {option.changes}",
        f"remove it, and type it: {option.typed}",
    )


def _entries(file: SettingsFile) -> Iterator[tuple[str, FileValue]]:
    """The keys of options, with ``_``: the pinned conventions first, then those at the top."""
    pinned = file.table.get("conventions", {})
    if not isinstance(pinned, dict):
        raise BadFile(f"{file.path}: conventions is no table", "write [conventions] and a line per definition")
    known = keyed(CONVENTIONS)
    for key, value in pinned.items():
        name = key.replace("-", "_")
        if name not in known:
            raise BadFile(f"{file.path}: conventions: key {quoted(key)} is not known", nearest(name, known))
        yield name, FileValue(f"conventions.{key}", value)
    for key, value in file.options.items():
        yield key.replace("-", "_"), FileValue(key, value)


def _same(value: object, other: object) -> bool:
    return value == other or str(value).lower() == str(other).lower()


def of_others(keys: Iterable[str]) -> dict[str, Option | None]:
    """The options that have these keys, of any command, or None. Commands are imported until all are found."""
    found: dict[str, Option | None] = dict.fromkeys(keys)
    left = set(found)
    for option in every() if left else ():
        for key in left.intersection(option.keys if option.flags else ()):
            found[key] = option
            left.remove(key)
        if not left:
            break
    return found


def keys_of_all() -> list[str]:
    """The keys of all options of all commands."""
    return list(keyed(every()))


T = TypeVar("T")

FILE, VARIABLE, FLAG = 1, 2, 3
"""Where a value was given; the higher one wins."""


class Given(NamedTuple):
    """A value, where it was given, and by which name; ``short`` are the words that are short for it, if some are."""

    value: Value
    source: int
    called: str
    short: str = ""

    @property
    def words(self) -> str:
        """Words of the option as it was given: ``--seq 128``, ``--no-dropout``, ``--train``."""
        if not isinstance(self.value, bool):
            text = str(self.value)
            return self.short or f"{self.called} {text if len(text) <= QUOTED else quoted(text)}"
        switch, _, off = self.called.partition("/")
        return self.short or (switch if self.value else off or switch)


class Settings:
    """The values that one command was given, from wherever, read and checked; those not given are absent."""

    def __init__(
        self, given: Mapping[str, Given], named: Transformer | HFModel | None = None, path: Path | None = None
    ) -> None:
        self.given = dict(given)
        self.path = path
        """The settings file, if there is one."""
        self.named = named
        """The model that is meant, where it was loaded already."""

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or ``default`` where none was given."""
        return self.given[name].value if name in self.given else default

    def fill(self, described: T) -> T:
        """A model, workload or set of conventions with the values that were given in the place of its own."""
        values = {item.name: self.get(item.name) for item in fields(described) if item.name in self.given}  # type: ignore[arg-type]  # T is a dataclass
        return replace(described, **values)  # type: ignore[type-var]

    def refuse(
        self, names: Iterable[str], where: str, remedies: Mapping[str, str], remedy: str = "leave it out"
    ) -> None:
        """Raise UsageError for an option of these ``names`` that was typed, for it has no effect ``where`` it is.

        Those that a variable or a file set are forgotten: it sets them for other questions.
        """
        idle = list(names)
        for name in idle:
            given = self.given.get(name)
            if given and given.source == FLAG:
                raise UsageError(f"{given.words} has no effect {where}", remedies.get(name, remedy))
        self.forget(idle)

    def forget(self, names: Iterable[str]) -> None:
        """Forget what was not typed of these options, with what they are short for."""
        for name in names:
            given = self.given.get(name)
            if given and given.source != FLAG:
                self._drop(given)

    def choose(self, *names: str) -> list[str]:
        """Return those of these alternatives that are given: one from a place that counts for more ends the others."""
        chosen = [name for name in names if self.get(name)]
        highest = max((self.given[name].source for name in chosen), default=FILE)
        for given in [self.given[name] for name in chosen]:
            if given.source < highest:
                self._drop(given)
        return [name for name in chosen if name in self.given]

    def _drop(self, lost: Given) -> None:
        """Forget what was given by this name: the option itself, and what it is short for."""
        self.given = {
            name: given
            for name, given in self.given.items()
            if (given.source, given.called) != (lost.source, lost.called)
        }

    @property
    def model_name(self) -> str | None:
        """The model that was named, by argument or by --model."""
        named, flagged = self.given.get("model"), self.given.get("model_name")
        if named and flagged and flagged.source == FLAG and named.value != flagged.value:
            raise UsageError(
                f"two models are named: {quoted(named.value)} and {quoted(flagged.value)}", "name one of them"
            )
        found = named or flagged
        return None if found is None else str(found.value)

    @property
    def _found_in_file(self) -> bool:
        """True if a settings file names the model, and not the user."""
        named = self.given.get("model") or self.given.get("model_name")
        return named is not None and named.source == FILE

    @property
    def offline(self) -> bool:
        """True if the network must not be reached: as asked; or because a file, which was found, names the id."""
        return bool(self.get("offline", False)) or self._found_in_file

    def with_values(self, **values: Value) -> Settings:
        """Return these settings with ``values`` as if they had been typed."""
        typed = {name: Given(value, FLAG, name) for name, value in values.items()}
        return Settings({**self.given, **typed}, self.named)

    def without(self, name: str) -> Settings:
        """Return these settings as if this one had not been given, nor what it is short for."""
        rest = Settings(self.given, self.named)
        rest._drop(self.given[name])
        return rest

    @property
    def wants_json(self) -> bool:
        """True if the answer is to be JSON."""
        return bool(self.get("format") == "json")

    def model(self) -> Model:
        """The named model with the given sizes in the place of its own, or the classic one with them."""
        named = self.named = self.named or self._load()
        if isinstance(named, Transformer):
            self.refuse((option.name for option in EDITS), "on the classic model", OF_CLASSIC, "name a model")
            return self.fill(named)
        # Settings files and variables describe the classic model; what overrides a config is typed.
        typed = [name for name in MODEL_NAMES if name in self.given and self.given[name].source == FLAG]
        model = named.replaced(**{name: self.get(name) for name in typed})
        if edits := {option.name: self.get(option.name) for option in EDITS if option.name in self.given}:
            from tfcalc.configs.edits import edited  # few questions have any

            model = edited(model, edits)
        with suppress(InvalidModel):  # which is told where the model is asked about
            for name in typed:
                if field := model.unread(name):
                    fact = f"{self.given[name].called} {self.get(name)} has no effect: this model does not read {field}"
                    raise UsageError(fact, "leave it out")
        return model

    def _load(self) -> Transformer | HFModel:
        """The model of the name, and its warnings told; the classic one where there is none."""
        if self.model_name is None:
            self.refuse(("treat_as",), "without a config", {}, "name one: a config.json, a preset, or a Hub id")
            return Transformer()
        from tfcalc.catalog import load

        try:
            named = load(self.model_name, treat_as=self.get("treat_as", ""), offline=self.offline)
            warnings = () if isinstance(named, Transformer) else named.warnings  # for which the config is read
        except InvalidModel as error:
            error.of_file = True
            raise
        except Unavailable:
            if not self._found_in_file:
                raise
            fact = (
                f"{self.path}: model {quoted(self.model_name)} is not in the cache, and no file makes tfcalc fetch it"
            )
            raise Unavailable(fact, "name it on the command line") from None
        for warning in warnings:
            tell(f"tfcalc: {warning}", ascii_only=self.get("ascii", False))
        return named

    def workload(self, model: Model) -> Workload:
        """Workload that is run, at most as long as the model can read where nothing else is given.

        What a variable or a file sets for another phase is passed over.
        """
        phase = self.get("phase", "forward")
        for its, names in OF_PHASE.items():
            if its != phase:
                self.forget(names)
        return self.fill(default_run(model))

    def conventions(self) -> Conventions:
        """Conventions by which operations and bytes are counted."""
        return self.fill(Conventions())

    def tuning(self) -> Training | None:
        """Return the plan of what is trained of the model, where something was given about it."""
        given = {option.name: self.get(option.name) for option in TUNING if option.name in self.given}
        if not given:
            return None
        from tfcalc.plans import Training  # few commands need it

        return replace(Training(), **given)


OF_PHASE = {"train": ("recompute", "recompute_modules", "early_stop"), "decode": ("cached",)}
"""Fields of a workload that no other phase can have."""
MODEL_NAMES = tuple(option.name for option in MODEL_FIELDS)
OF_CLASSIC = {"windows": "give --pattern local:N", "attention_kind": "give --kv-heads N"}
"""What the classic model has in the place of edits of a config."""


def settle(options: Sequence[Option], flags: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Settings:
    """Read every option's value from the first place that has one. Raises UsageError or BadFile."""
    replaced = any(option.replaces_file and flags.get(option.name) for option in options)
    written, path = ({}, None) if replaced else filed(options)
    variables = _variables(options, environ)
    given: dict[str, Given] = {}
    for option in options:
        called = option.flags[0] if option.flags else option.name.upper()
        raw, variable = flags.get(option.name), variables.get(option.name)
        if raw is not None:
            given[option.name] = Given(read(option, raw, called), FLAG, called)
        elif variable:
            if not option.variable:
                why = f"{called} is taken from the command line alone, as it decides on {option.changes}"
                raise UsageError(f"{variable} has no effect: {why}", f"unset it, and type {option.typed}")
            with _unless_of_another(option, environ[variable], variable):
                given[option.name] = Given(read(option, environ[variable], variable), VARIABLE, variable)
        elif option.name in written and option.flags:
            key, value = written[option.name]
            unread = Given(False, FILE, key)
            with _of_file(unread, path), _unless_of_another(option, value, key):
                given[option.name] = unread._replace(value=read(option, value, key))
    return completed(given, options, path)


def completed(given: dict[str, Given], options: Iterable[Option], path: Path | None = None) -> Settings:
    """Return settings with these values, and those that options among them are short for.

    Raises UsageError where they contradict, or BadFile where those of the settings file at ``path`` do.
    """
    for option in options:
        if option.short_for and option.name in given and given[option.name].value:
            for name, meant in option.short_for:
                with _of_file(given[option.name], path):
                    _lengthen(given, option.name, name, given[option.name].value if meant is None else meant)
    if "preset" in given:
        with _of_file(given["preset"], path):
            _by_preset(given, {option.name for option in options})
    return Settings(given, path=path)


@contextmanager
def _unless_of_another(option: Option, value: object, called: str) -> Iterator[None]:
    """A word of a variable or a file is passed over where another command that has this option, too, takes it."""
    try:
        yield
    except UsageError:
        if not (option.known and isinstance(value, str)):
            raise
        alike = [another for another in every() if another.name == option.name]
        if not any(readable(another, value) for another in alike):
            one_of(called, value, dict.fromkeys(word for another in alike for word in another.known))
            raise


@contextmanager
def _of_file(given: Given, path: Path | None) -> Iterator[None]:
    """Raise what is wrong with a value that a settings file gives as the file's mistake."""
    try:
        yield
    except UsageError as error:
        if given.source != FILE or path is None:
            raise
        raise BadFile(f"{path}: {error.message}", error.hint) from None


def _by_preset(given: dict[str, Given], known: Collection[str]) -> None:
    """Add a trainer's preset's values, where nothing else was given beside it, or in a place that counts for more."""
    from tfcalc.plans import training_preset

    named = given["preset"]
    for name, value in {"phase": "train", **training_preset(str(named.value)).options}.items():
        if name in known and (name not in given or given[name].source < named.source):
            given[name] = Given(value, named.source, f"{named.called} {named.value}:")


def _lengthen(given: dict[str, Given], short: str, name: str, value: Value) -> None:
    """``--train`` is ``--phase train``; from the same source it cannot contradict it, from another the higher wins."""
    switch, other = given[short], given.get(name)
    if other and other.source == switch.source and other.value != value:
        raise UsageError(f"{switch.called} contradicts {other.called} {other.value}", "leave one of them out")
    if not other or other.source < switch.source:
        given[name] = Given(value, switch.source, switch.called, switch.words)


def _variables(options: Iterable[Option], environ: Mapping[str, str]) -> dict[str, str]:
    """The TFCALC_ variables that are set, by the names of these options; those of other commands are passed over."""
    ours = sorted(variable for variable, value in environ.items() if variable.startswith("TFCALC_") and value)
    if not ours:
        return {}
    known, found = keyed(options), dict[str, str]()
    others = {_key(variable): variable for variable in ours}
    for key in [key for key in others if key in known]:
        variable = others.pop(key)
        before = found.setdefault(known[key].name, variable)
        if environ[before].lower() != environ[variable].lower():
            fact = f"{variable} {quoted(environ[variable])} contradicts {before} {quoted(environ[before])}"
            raise UsageError(fact, "unset one of them")
    for key in [key for key, option in of_others(others).items() if option is None]:
        all_known = [f"TFCALC_{one.upper()}" for one in keys_of_all()]
        raise UsageError(f"variable {others[key]} is not known", nearest(others[key], all_known))
    return found


def _key(variable: str) -> str:
    """The key that a variable sets: ``d_model`` of ``TFCALC_D_MODEL``; what is not in capitals sets none."""
    rest = variable.removeprefix("TFCALC_")
    return rest.lower() if rest == rest.upper() else rest
