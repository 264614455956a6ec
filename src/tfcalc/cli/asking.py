"""A command asked about a model of a budget: by the options of its scenario, as if they had been typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tfcalc.budgets import metric
from tfcalc.catalog import from_config, preset
from tfcalc.cli.budget_options import of_model, of_scenario
from tfcalc.cli.commands import command
from tfcalc.cli.messages import tell
from tfcalc.cli.settings import FILE, FLAG, Given, Settings, completed, read, readable
from tfcalc.errors import BadFile
from tfcalc.printable import quoted
from tfcalc.report.number import entries_of
from tfcalc.report.paths import ABOUT_ONE_MODEL
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.budgets.file import BudgetFile
    from tfcalc.budgets.sources import Fields, Source
    from tfcalc.cli.options import Option
    from tfcalc.configs.published import HFModel
    from tfcalc.report.number import Openable

MODEL = "model"


class Asker:
    """Asks commands. A model is built once, and its warnings are told once, whatever is asked of it.

    Where a model is ``loaded`` already, it is the one that is asked about.
    """

    def __init__(self, *, ascii_only: bool = False, loaded: Transformer | HFModel | None = None) -> None:
        self.ascii_only, self.loaded = ascii_only, loaded
        self._models: dict[tuple[int, str | None, object], tuple[Source, Transformer | HFModel]] = {}

    def __call__(self, name: str, source: Source, options: Fields, conventions: Fields) -> Mapping[str, Any]:
        """The JSON object of the command's answer, whose entries may be found as they are read.

        Options that another command has, and words that are another's, are not of this one.

        Raises what the command raises; UsageError for a value that an option does not take.
        """
        asked, settings = command(name), self._settings(name, source, options, conventions)
        if asked.entries:
            return asked.entries(settings)
        answer = asked.answer(settings)
        return entries_of(answer)

    def answer(self, name: str, source: Source, options: Fields, conventions: Fields, depth: int | None) -> Openable:
        """The answer itself, whose numbers can be opened; to ``depth`` levels, unless None."""
        settings = self._settings(name, source, options, conventions)
        settings = settings if depth is None else settings.with_values(depth=depth)
        return cast("Openable", command(name).answer(settings))

    def _settings(self, name: str, source: Source, options: Fields, conventions: Fields) -> Settings:
        asked = command(name)
        known = {option.name: option for option in (*of_model(), *asked.options)}
        where = ((source.entry.options, FLAG), (options, FLAG), (conventions, FILE))
        given = {
            name: Given(read(known[name], value, known[name].keys[0]), place, known[name].keys[0])
            for values, place in where
            for name, value in values.items()
            if name in known and not (values is options and _is_of_another(known[name], value))
        }
        model = self.loaded or self._model(source)
        given[MODEL] = Given(source.path or source.entry.preset or "", FLAG, MODEL)
        settings = completed(given, asked.options)
        settings.named = model
        return settings

    def _model(self, source: Source) -> Transformer | HFModel:
        entry, read_as = source.entry, str(source.entry.options.get("treat_as", ""))
        key = (id(source.fields), entry.preset, read_as)
        if key not in self._models:
            self._models[key] = source, self._built(source, read_as)
        return self._models[key][1]

    def _built(self, source: Source, read_as: str) -> Transformer | HFModel:
        if source.fields is None:
            named = source.entry.preset
            return preset(named).model(treat_as=read_as) if named else Transformer()
        model = from_config(source.fields, treat_as=read_as)
        for warning in model.warnings:
            tell(f"tfcalc: {source.path}: {warning}", ascii_only=self.ascii_only)
        return model


def _is_of_another(option: Option, value: object) -> bool:
    """Return whether this word of an option is taken only by other commands that budgets ask.

    An example is ``bf16-mixed`` of --precision.
    """
    return (
        bool(option.known)
        and not readable(option, value)
        and any(
            readable(another, value)
            for name in ABOUT_ONE_MODEL
            for another in command(name).options
            if another.name == option.name
        )
    )


def refuse_idle(file: BudgetFile) -> None:
    """Raise BadFile for an option of a scenario that none of the commands takes which its budgets ask."""
    for name, scenario in file.scenarios.items():
        asked = sorted({metric.read(budget.metric).command for budget in file.budgets if budget.scenario == name})
        known = [option for each in asked for option in command(each).options if option.name in scenario.options]
        for option in of_scenario() if asked else ():
            if option.name not in scenario.options:
                continue
            value, called = scenario.options[option.name], option.keys[0]
            taken = [one for one in known if one.name == option.name]
            if not taken or all(_is_of_another(one, value) for one in taken):
                said = f"{called} {quoted(value)}" if taken else called
                fact = f"{file.path}: scenarios.{name}: {said} has no effect on {' and '.join(asked)}"
                raise BadFile(fact, "leave it out, or limit what it has an effect on")
