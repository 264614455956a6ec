"""Errors: the fact, the value that was given, and the remedy.

An error is part of the answer. Its text is one line, ``fact; remedy``; its ``exit_code`` is what the
command line returns; its ``code`` is the stable word that scripts read under ``--json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tfcalc.printable import bounded, printable, quoted

LONGEST, LONGEST_HINT = 480, 320
"""Largest numbers of characters of an error, and of its hint, with escapes: longer ones are cut in the middle."""


class TfcalcError(Exception):
    """A question that cannot be answered as asked.

    ``message`` states the fact and repeats the value that was given; ``hint`` is the remedy. Both are one line of
    bounded length and safe to print, whatever they repeat.
    """

    code = "error"
    exit_code = 1
    as_json = False
    """True if the answer would have been JSON, so that the error is printed as JSON, too."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.hint = bounded(printable(hint), LONGEST_HINT)
        self.message = bounded(printable(message), LONGEST - len(self.hint))
        super().__init__(self.message, self.hint)

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class UsageError(TfcalcError, ValueError):
    """An option, argument or value that cannot be read (exit 2)."""

    code = "usage"
    exit_code = 2


class UnknownTarget(UsageError):
    """A part that the model does not have (exit 2)."""


class InvalidModel(TfcalcError, ValueError):
    """A description that no transformer fits: a bad size, heads that do not divide, a contradiction (exit 3)."""

    code = "invalid-model"
    exit_code = 3
    of_file = False
    """True if no model could be read, so that other arguments are not at fault."""
    of_model = False
    """True if the model itself is at fault, and no other argument."""


class TooMany(InvalidModel):
    """A number of layers above the supported maximum (exit 3)."""


class UnknownModel(InvalidModel):
    """A name that no model has (exit 3)."""

    code = "unknown-model"
    near = False
    """True if the hint names models that may be meant."""
    several: Sequence[str] = ()
    """Names of the models that are meant alike."""
    words = ""
    """Words of a question that it is about, where it is asked in words."""


class BadFile(TfcalcError):
    """A settings file that cannot be read or has a value that cannot be (exit 3)."""

    code = "bad-file"
    exit_code = 3


class Bug(TfcalcError):
    """A fault of tfcalc itself (exit 70)."""

    code = "bug"
    exit_code = 70


class Unavailable(TfcalcError):
    """A reference that cannot be reached, such as PyTorch where it is not installed (exit 4)."""

    code = "unavailable"
    exit_code = 4


MOST = 24
"""Largest number of known words that a hint lists."""


def nearest(word: str, known: Iterable[str], alike: float = 0.6, otherwise: str | None = None) -> str:
    """Return ``did you mean x?`` for the closest known word, else a list of all; ``x:N`` stands for x with a number.

    ``otherwise`` takes the place of that list.

    Words are as ``alike`` as difflib's ratio, 1 for equal ones.

    >>> nearest("fp31", ["fp32", "bf16"])
    'did you mean fp32?'
    >>> nearest("zzz", ["fp32", "bf16"])
    'known: fp32, bf16'
    >>> nearest("every", ["none", "every:N"])
    'give it a number from 1 to 999999: every:4'
    """
    from difflib import get_close_matches

    words = list(known)
    close = get_close_matches(word, words, n=1, cutoff=alike)
    if close:
        name, _, number = close[0].partition(":")
        return f"give it a number from 1 to 999999: {name}:4" if number == "N" else f"did you mean {close[0]}?"
    if otherwise is not None:
        return otherwise
    more = f" and {len(words) - MOST} more" if len(words) > MOST + 1 else ""
    return "known: " + ", ".join(words[:MOST] if more else words) + more


def one_of(what: str, word: str, known: Iterable[str]) -> str:
    """Return ``word`` in the known spelling, whatever its case. Raises UsageError with the nearest known word.

    >>> one_of("norm", "RMSNorm", ["layernorm", "rmsnorm"])
    'rmsnorm'
    """
    words = list(known)
    if not isinstance(word, str):
        raise UsageError(f"{what} {word!r:.80} is not text", nearest("", words))
    if not is_one_of(word.lower(), words):
        raise UsageError(f"{what} {quoted(word)} is not known", nearest(word.lower(), words))
    return word.lower()


def is_one_of(word: str, known: Iterable[str]) -> bool:
    """Return whether a word is known; a known ``every:N`` matches any number from 1.

    >>> is_one_of("every:4", ["none", "every:N"]), is_one_of("every:0", ["every:N"]), is_one_of("none", ["every:N"])
    (True, False, False)
    """
    name, _, number = word.partition(":")
    counted = number.isascii() and number.isdigit() and int(number[:6]) > 0 and len(number) < 7
    return f"{name}:N" in known if counted else word in known and not word.endswith(":N")
