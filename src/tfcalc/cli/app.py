"""The typer application, made of the commands: each with all its options, or only named until it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from tfcalc.cli.commands import COMMANDS, command
from tfcalc.cli.options import Option
from tfcalc.cli.settings import settle
from tfcalc.errors import InvalidModel

ABOUT = """\b
Examples:
  tfcalc params --d-model 512 --layers 6
  tfcalc flops --seq 1024 --batch 8
  tfcalc formula mha --latex

What a transformer costs, exactly: parameters, FLOPs, memory.

\b
Exit codes:
  0   success
  1   a negative answer: verification differs
  2   usage
  3   a bad model or settings file
  4   a reference that cannot be reached
  70  a bug of tfcalc
  130 interrupted

\b
A value comes from the option, else from the variable TFCALC_<OPTION>
(TFCALC_D_MODEL), else from tfcalc.toml or [tool.tfcalc] in pyproject.toml.
"""


def application(called: str | None) -> typer.Typer:
    """The application; only the command that is ``called`` has its options (all of them, if it is None)."""
    app = typer.Typer(
        name="tfcalc",
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        add_completion=True,
    )
    app.callback(help=ABOUT)(_about)
    for name, help in COMMANDS.items():
        if called in (name, None):
            run, options, examples = command(name)
            text = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples), "", help])
            app.command(name, help=text, short_help=help)(_typed(run, options))
        else:
            app.command(name, short_help=help)(lambda: None)
    return app


def _about(
    version: Annotated[bool, typer.Option("--version", "-V", help="Show the version.", is_eager=True)] = False,
) -> None:
    """``--version`` is answered before typer is imported; it stands here for the help."""


def _typed(run: Callable[..., int], options: tuple[Option, ...]) -> Callable[..., int]:
    """The function that typer sees: a parameter per option, each optional, so that settings can fill the gaps."""

    def called(**flags: Any) -> int:
        settings = settle(options, flags)
        try:
            return run(settings)
        except InvalidModel as error:
            raise settings.blame(error) from None

    parameters = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if option.required else None,
            annotation=_annotation(option),
        )
        for option in options
    ]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # how inspect lets one state it
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _annotation(option: Option) -> Any:
    if option.argument:
        return Annotated[str if option.required else str | None, typer.Argument(help=option.help, show_default=False)]
    metavar = None if option.switch else "|".join(option.known) if option.known else "N" if option.count else "TEXT"
    return Annotated[
        (bool if option.switch else str) | None,
        typer.Option(*option.flags, help=option.help, metavar=metavar, show_default=False),
    ]
