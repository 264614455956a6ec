"""Attribution of an error: to what was typed (exit code 2), or to a file (3), which is then named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.cli.commands.plans import sound
from tfcalc.cli.options import EDITS, MODEL_FIELDS, RUN, plans
from tfcalc.cli.settings import FILE, FLAG
from tfcalc.errors import BadFile, InvalidModel, TfcalcError, UnknownModel, UsageError
from tfcalc.printable import quoted
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.cli.settings import Given, Settings

SIZES = frozenset(option.name for option in (*MODEL_FIELDS, *EDITS, *RUN))


def blamed(settings: Settings, error: TfcalcError) -> TfcalcError:
    """The error with the exit code of whose mistake it is, told of a settings file where a value of that is wrong."""
    found = _of_model(settings, error) if isinstance(error, InvalidModel) else error
    return _of_settings(settings, found) if isinstance(found, UsageError | InvalidModel) else found


def _of_model(settings: Settings, error: InvalidModel) -> TfcalcError:
    """Sizes that were typed are a matter of usage; a named model's, or a settings file's, are not."""
    asked = SIZES if error.of_model else SIZES | {option.name for option in plans()}
    sizes = [given.source for name, given in settings.given.items() if name in asked]
    typed = any(source != FILE for source in sizes)
    not_typed = settings.model_name is not None or sizes
    if error.of_file or isinstance(error, UnknownModel) or (not_typed and not typed) or _is_broken(settings):
        return error
    return UsageError(error.message, error.hint)


def _is_broken(settings: Settings) -> bool:
    """Return whether a config makes no sense by itself, without any option."""
    if settings.named is None or isinstance(settings.named, Transformer):
        return False
    try:
        sound(settings.named)
    except InvalidModel:
        return True
    return False


def _of_settings(settings: Settings, error: TfcalcError) -> TfcalcError:
    """Return the error, naming the settings file if it repeats a value of that, and none that was typed."""
    for given in settings.given.values():
        if given.source == FLAG and _repeats(error, given):
            return error
    for given in settings.given.values():
        if given.source == FILE and _repeats(error, given):
            flag = f"--{given.called.replace('_', '-')} "
            said = error.message.removeprefix(flag)
            colon = "" if said != error.message else ":"
            return BadFile(f"{settings.path}: {given.called}{colon} {said}", error.hint)
    return error


def _repeats(error: TfcalcError, given: Given) -> bool:
    """Return whether an error is about a value: a text in quotes, a number behind the option."""
    if isinstance(given.value, str):
        return quoted(given.value) in error.message
    flag = f"--{given.called.removeprefix('--').replace('_', '-')}"
    return not isinstance(given.value, bool) and f"{flag} {given.value} " in f"{error.message} "
