"""Where a value comes from: flag > TFCALC_* variable > tfcalc.toml (or pyproject's [tool.tfcalc]) > default."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from tfcalc.cli.options import EVERY, Option
from tfcalc.conventions import Definitions
from tfcalc.dimensions import check_size
from tfcalc.errors import InvalidModel, TfcalcError, UsageError, nearest, one_of
from tfcalc.families.transformer import Transformer
from tfcalc.questions.common import default_run
from tfcalc.units import parse_count
from tfcalc.workload import Workload

T = TypeVar("T")
Value = int | str | bool

TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
LARGEST_FILE = 1 << 20


class BadFile(TfcalcError):
    """A settings file that cannot be read or has a value that cannot be (exit 3)."""

    code = "bad-file"
    exit_code = 3


class Settings:
    """The values that one command was given, from wherever, read and checked; those not given are absent."""

    def __init__(self, values: Mapping[str, Value], *, from_file: bool) -> None:
        self.values = dict(values)
        self.from_file = from_file

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or ``default`` where none was given."""
        return self.values.get(name, default)

    def fill(self, described: T) -> T:
        """A model, workload or set of definitions with the values that were given in the place of its own."""
        names = {item.name for item in fields(described)}  # type: ignore[arg-type]  # T is a dataclass
        return replace(described, **{n: v for n, v in self.values.items() if n in names})  # type: ignore[type-var]

    @property
    def model_name(self) -> str | None:
        """The model that was named, by argument or by --model."""
        named: str | None = self.get("model")
        flagged: str | None = self.get("model_name")
        if named and flagged and named != flagged:
            raise UsageError(f"two models are named: {named!r} and {flagged!r}", "name one of them")
        return named or flagged

    def model(self) -> Transformer:
        """The named model with the given fields in the place of its own, or the classic one with them."""
        if not self.model_name:
            return self.fill(Transformer())
        from tfcalc.catalog import load

        return self.fill(load(self.model_name))

    def workload(self, model: Transformer) -> Workload:
        """What is run, at most as long as the model can read; ``--train`` is short for ``--phase train``."""
        if self.get("train"):
            if self.get("phase", "train") != "train":
                raise UsageError(f"--train contradicts --phase {self.get('phase')}", "leave one of them out")
            self.values["phase"] = "train"
        return self.fill(default_run(model))

    def definitions(self) -> Definitions:
        """How operations and bytes are counted."""
        return self.fill(Definitions())

    def blame(self, error: InvalidModel) -> TfcalcError:
        """Sizes typed as options are a matter of usage (exit 2); those of a named model or a file are not (exit 3)."""
        return error if self.model_name or self.from_file else UsageError(error.message, error.hint)


def settle(options: Iterable[Option], flags: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Settings:
    """Read every option's value from the first place that has one. Raises UsageError or BadFile."""
    filed, path = _filed(Path.cwd())
    values: dict[str, Value] = {}
    from_file = False
    for option in options:
        flag = flags.get(option.name)
        variable = environ.get(f"TFCALC_{option.name.upper()}")
        if flag is not None:
            values[option.name] = _read(option, flag, option.flags[0] if option.flags else option.name.upper())
        elif variable:
            values[option.name] = _read(option, variable, f"TFCALC_{option.name.upper()}")
        elif option.name in filed:
            try:
                values[option.name] = _read(option, filed[option.name], option.name)
            except UsageError as error:
                raise BadFile(f"{path}: {error.message}", error.hint) from None
            from_file = True
    return Settings(values, from_file=from_file)


def _read(option: Option, raw: Any, called: str) -> Value:
    """One value, whether it came as text or as a TOML value."""
    if option.switch:
        return _switch(raw, called)
    if option.number:
        if isinstance(raw, bool | float):
            raise UsageError(f"{called} {raw!r} is not a whole number", f"give an integer of at least {option.least}")
        try:
            number = parse_count(raw)
        except UsageError as error:
            raise UsageError(f"{called} {error.message}", error.hint) from None
        try:
            check_size(called, number, option.least)
        except InvalidModel as error:
            raise UsageError(error.message, error.hint) from None
        return number
    if not isinstance(raw, str):
        raise UsageError(f"{called} {raw!r} is not text", "put it in quotes")
    return one_of(called, raw, option.known) if option.known else raw


def _switch(raw: Any, called: str) -> bool:
    if isinstance(raw, bool):
        return raw
    word = str(raw).lower()
    if word not in (*TRUE, *FALSE):
        raise UsageError(f"{called} {raw!r} is neither true nor false", "write true or false")
    return word in TRUE


def _filed(folder: Path) -> tuple[dict[str, Any], Path | None]:
    """The settings file that is nearest above ``folder``, its keys as option names."""
    for place in (folder, *folder.parents):
        for path, section in ((place / "tfcalc.toml", ()), (place / "pyproject.toml", ("tool", "tfcalc"))):
            if path.is_file() and (found := _table(path, section)) is not None:
                known = [option.name for option in EVERY]
                values = {key.replace("-", "_"): value for key, value in found.items()}
                for key in values:
                    if key not in known:
                        raise BadFile(f"{path}: key {key!r} is not known", nearest(key, known))
                return values, path
    return {}, None


def _table(path: Path, section: tuple[str, ...]) -> dict[str, Any] | None:
    """The table under ``section`` of a TOML file; None where it has none."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}") from None
    if section and ".".join(section).encode() not in raw:
        return None
    if len(raw) > LARGEST_FILE:
        raise BadFile(f"{path} is larger than 1 MiB", "a settings file is a few lines")
    import tomllib

    try:
        table: Any = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFile(f"{path} is not TOML: {str(error).splitlines()[0]}") from None
    for name in section:
        table = table.get(name) if isinstance(table, dict) else None
    if table is not None and not isinstance(table, dict):
        raise BadFile(f"{path}: {'.'.join(section)} is not a table", "write [tool.tfcalc] and a line per option")
    return table
