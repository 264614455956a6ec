"""Links that are questions: ``memory/llama-3-8b?train&seq=8k`` is ``tfcalc memory llama-3-8b --train --seq 8k``.

The first part is the first word, the others are the words without a flag, and what follows ``?`` are the options. What
a config pasted into the page says may follow as ``@config``; it is the file that the words name.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator, Sequence
from urllib.parse import quote, unquote

from tfcalc.cli.app import is_value
from tfcalc.cli.commands import COMMANDS, OVERVIEW, as_meant, command, compared
from tfcalc.cli.options import VERSUS, Option
from tfcalc.errors import TfcalcError, UsageError
from tfcalc.named_tuple import NamedTuple

PASTED = "config.json"
"""The file that a pasted config is written to, which is the name of its model."""
CONFIG = "@config"
"""What comes with a link that asks about that file: its bytes, compressed, in base64 for URLs."""
MOST_BYTES = 1_000_000
"""Of a config in a link, as a link may come from anyone and a few of its bytes may say thousands."""


class Typed(NamedTuple):
    """An option as it was typed: its ``flag``, its ``value`` (None of a switch), the ``option``, if it is known."""

    flag: str
    value: str | None
    option: Option | None

    @property
    def words(self) -> list[str]:
        """The words of a command line."""
        return [self.flag] if self.value is None else [self.flag, self.value]


class Asked(NamedTuple):
    """A command line in parts: its ``first`` word, the ``named`` ones without a flag, and the options."""

    first: str
    named: tuple[str, ...]
    typed: tuple[Typed, ...]

    @property
    def words(self) -> list[str]:
        """The words of the command line; those that begin with a dash and are no options come last."""
        plain = [word for word in self.named if not _is_flag(word)]
        dashed = [word for word in self.named if _is_flag(word)]
        return [
            *([self.first] if self.first else []),
            *plain,
            *(word for one in self.typed for word in one.words),
            *(["--", *dashed] if dashed else []),
        ]


def in_full(words: Sequence[str]) -> list[str]:
    """The words with the command that they mean in front, where they begin with a model or another word.

    >>> in_full(["llama-3-8b", "--seq", "8k"]), in_full(["gpt2", "gpt2-xl"]), in_full(["params", "gpt2"])
    (['overview', 'llama-3-8b', '--seq', '8k'], ['compare', 'gpt2', 'gpt2-xl'], ['params', 'gpt2'])
    """
    meant = as_meant(words)
    if not meant or meant[0] in COMMANDS or meant[0].startswith("-"):
        return meant
    return compared(meant) or [OVERVIEW, *meant]


def parts(words: Sequence[str]) -> Asked:
    """The parts of a command line: which word is an option, and which its value, is what its command says.

    >>> parts(["memory", "--train", "gpt2", "--seq", "8k"])[:2]
    ('memory', ('gpt2',))
    """
    first, *rest = words or [""]
    if first.startswith("-") and first != "-":
        first, rest = "", list(words)
    known = known_options(words)
    named, typed = list[str](), list[Typed]()
    while rest:
        word = rest.pop(0)
        if word == "--":
            named += rest
            break
        if not _is_flag(word):
            named.append(word)
            continue
        flag, equals, value = word.partition("=")
        option = known.get(flag)
        if equals:
            typed.append(Typed(flag, value, option))
        elif _takes(option, rest):
            value = rest.pop(0)
            if option is not None and option.pair and VERSUS not in value and rest and not _is_flag(rest[0]):
                value += VERSUS + rest.pop(0)
            typed.append(Typed(flag, value, option))
        else:
            typed.append(Typed(flag, None, option))
    return Asked(first, tuple(named), tuple(typed))


def known_options(words: Sequence[str]) -> dict[str, Option]:
    """The options of the command that the words mean, by each flag; none of a line that means no command."""
    return {part: option for option in options_of(words) for flag in option.flags for part in flag.split("/")}


def options_of(words: Sequence[str]) -> tuple[Option, ...]:
    """The options of the command that the words mean."""
    name, *rest = in_full(words) or [""]
    if name not in COMMANDS:
        return ()
    asked = command(name)
    try:
        return asked.meant(rest).options
    except TfcalcError:  # of a path or a concept that is not known, which the program tells
        return asked.options


def _takes(option: Option | None, rest: Sequence[str]) -> bool:
    """Return whether the next word is the value of an option."""
    if option is not None and option.switch:
        return False
    if option is not None and option.alone:
        return is_value(next(iter(rest), None), option)
    return bool(rest) and (option is not None or not _is_flag(rest[0]))


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word != "-"


def link_of(words: Sequence[str], config: bytes | None = None) -> str:
    """The link that asks this; with the bytes of a pasted ``config`` where the words name that file.

    >>> link_of(["memory", "llama-3-8b", "--train", "--seq", "8k"])
    'memory/llama-3-8b?train&seq=8k'
    >>> link_of(["explain", "memory.components.buffers and inputs.bytes", "gpt2", "--train"])
    'explain/memory.components.buffers%20and%20inputs.bytes/gpt2?train'
    """
    return link_to(parts(words), config)


def link_to(asked: Asked, config: bytes | None = None) -> str:
    """The link that asks this, of words whose parts are known."""
    path = "/".join(quote(word, safe="@:,") for word in (asked.first, *asked.named))
    options = [
        _key(one.flag) if one.value is None else f"{_key(one.flag)}={quote(one.value, safe='@:,/')}"
        for one in asked.typed
    ]
    if config is not None and PASTED in asked.named:
        options.append(f"{CONFIG}={_packed(config)}")
    return f"{path}?{'&'.join(options)}" if options else path


def words_of(link: str) -> list[str]:
    """The words of the command line that a link asks.

    >>> words_of("memory/llama-3-8b?train&seq=8k")
    ['memory', 'llama-3-8b', '--train', '--seq', '8k']
    """
    path, _, options = link.partition("?")
    first, *named = (unquote(part) for part in path.split("/"))
    typed = [
        Typed(_flag(unquote(key)), unquote(value) if equals else None, None)
        for key, equals, value in (each.partition("=") for each in options.split("&") if each)
        if unquote(key) != CONFIG
    ]
    return Asked(first, tuple(named), tuple(typed)).words


def config_of(link: str) -> bytes | None:
    """The bytes of the config that comes with a link, or None. Raises UsageError where they cannot be read."""
    for each in link.partition("?")[2].split("&"):
        key, _, value = each.partition("=")
        if unquote(key) == CONFIG:
            return _unpacked(unquote(value))
    return None


def _key(flag: str) -> str:
    """``seq`` of ``--seq``; ``-q`` stays."""
    return quote(flag.removeprefix("--"), safe="")


def _flag(key: str) -> str:
    return key if key.startswith("-") else f"--{key}"


def _packed(config: bytes) -> str:
    return base64.urlsafe_b64encode(zlib.compress(config, 9)).decode().rstrip("=")


def _unpacked(text: str) -> bytes:
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        reader = zlib.decompressobj()
        found = reader.decompress(packed, MOST_BYTES)
    except (ValueError, binascii.Error, zlib.error):
        found, reader = b"", None
    if reader is None or not reader.eof:
        raise UsageError("the config in this link cannot be read", "ask for the link once more, or paste the config")
    return found


def changes(asked: Asked, name: str, value: str | bool) -> Iterator[Typed]:
    """The options with one of them changed: left out where its value is empty or false, else at its place or last."""
    options = options_of(asked.words)
    option = next((one for one in options if one.name == name and one.flags), None)
    new = None if option is None else _typed(option, value)
    others = {name, *(each for group in INSTEAD if name in group and new is not None for each in group)}
    for one in asked.typed:
        if one.option is not None and one.option.name in others:
            if one.option.name == name and new is not None:
                yield new
                new = None
        else:
            yield one
    if new is not None:
        yield new


INSTEAD = (("lora", "qlora"), ("train", "serve"), ("lora", "serve"), ("qlora", "serve"), ("budget", "gpu"))
"""Options of which one is meant: who chooses one of them leaves the others."""


def with_options(asked: Asked, words: Sequence[str]) -> list[str]:
    """The words of a question with these options in the place of those that they replace.

    >>> with_options(parts(["fit", "gpt2", "--lora", "--seq", "8k"]), ["--qlora", "16"])
    ['fit', 'gpt2', '--seq', '8k', '--qlora', '16']
    """
    for new in parts([asked.first, *words]).typed:
        if new.option is None or new.flag != new.option.flags[0].split("/")[0]:
            return [*asked.words, *words]
        asked = asked._replace(typed=tuple(changes(asked, new.option.name, new.value or True)))
    return asked.words


def _typed(option: Option, value: str | bool) -> Typed | None:
    """The option as it is typed with this value; None where it is left out."""
    flag = option.flags[0].split("/")[0]
    if isinstance(value, bool):
        return Typed(flag, None, option) if value else None
    return Typed(flag, value, option) if value.strip() else None
