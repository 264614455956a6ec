"""The controls of the page: the questions that it offers, and the options that each has in front."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from tfcalc.cli.commands import COMMANDS, GROUPS
from tfcalc.cli.completion import words as offered
from tfcalc.cli.options import Option
from tfcalc.named_tuple import NamedTuple
from tfcalc.page.links import INSTEAD, PASTED, Asked, Typed, changes, in_full, link_of, options_of, parts
from tfcalc.units import parse_count, parse_length, short_tokens


class Tab(NamedTuple):
    """A question that the page offers.

    Attributes:
        label: what people call it.
        command: the command that answers it.
        always: the words that make the command this question.
        front: the options in front, by name.
        first: values of options that it begins with, where nothing is known yet.
    """

    label: str
    command: str
    always: tuple[str, ...] = ()
    front: tuple[str, ...] = ()
    first: tuple[tuple[str, str], ...] = ()


SHAPE = ("n_layers", "d_model", "n_heads", "n_kv_heads", "d_ff", "vocab_size")
TRAINED = ("lora", "qlora", "seq_len", "batch_size", "recompute", "precision", "optimizer", "grad_accum")
SERVED = ("context", "concurrency", "weights", "kv")

TABS = (
    Tab("Overview", "overview", (), ("seq_len", "batch_size", "recompute", "gpu", "n_layers")),
    Tab("Parameters", "params", (), ("lora", *SHAPE)),
    Tab("FLOPs", "flops", (), ("train", "seq_len", "batch_size", "attention", "recompute", "lora", "n_layers")),
    Tab("Training memory", "memory", ("--train",), (*TRAINED, "gpu", "gpus", "fsdp", "timeline", "n_layers")),
    Tab("Serving memory", "memory", ("--serve",), (*SERVED, "gpu", "engine", "n_layers")),
    Tab("Does it fit?", "fit", (), ("gpu", *TRAINED, "serve", *SERVED), (("gpu", "rtx-4090"),)),
    Tab(
        "Training time", "train", (), ("tokens", "gpu", "price", "mfu", *TRAINED), (("tokens", "100M"), ("gpu", "h100"))
    ),
    Tab(
        "Serving speed",
        "serve",
        (),
        ("gpu", "input_tokens", "output_tokens", "concurrency", "weights", "kv", "engine", "tensor_parallel", "price"),
    ),
    Tab("Formula", "formula", (), ("target", "of", "seq_len", "train", "serve", "latex", "big_o")),
    Tab("Explain", "explain", (), ("target", "of", "seq_len", "train", "steps")),
)
"""The questions, in their order."""
SWITCHED = (("serve", SERVED, True), ("serve", TRAINED, False), ("train", ("recompute",), True))
"""Options that have an effect only where a switch is on, or only where it is off; in the questions that have both."""
SWITCHES = ("train", "serve")
TARGETS = {"formula": "complete", "explain": "attention"}
"""The part that is asked about where none is named yet."""
LABELS = {
    "model": "Model",
    "target": "Part",
    "seq_len": "Sequence length",
    "batch_size": "Batch size",
    "recompute": "Gradient checkpointing",
    "precision": "Precision",
    "optimizer": "Optimizer",
    "grad_accum": "Gradient accumulation",
    "lora": "LoRA",
    "qlora": "QLoRA",
    "gpu": "GPU",
    "gpus": "Number of GPUs",
    "fsdp": "Fully sharded",
    "timeline": "Phase by phase",
    "train": "Training",
    "serve": "Serving",
    "context": "Context of a request",
    "concurrency": "Requests at once",
    "weights": "Format of the weights",
    "kv": "Format of the KV cache",
    "engine": "Engine",
    "tokens": "Tokens of the run",
    "price": "Price of a GPU hour",
    "mfu": "Share of the peak (MFU)",
    "input_tokens": "Tokens of a prompt",
    "output_tokens": "Tokens of an answer",
    "tensor_parallel": "Tensor parallel",
    "n_layers": "Layers",
    "d_model": "Hidden size",
    "n_heads": "Heads",
    "n_kv_heads": "Key and value heads",
    "d_ff": "Feed-forward size",
    "vocab_size": "Vocabulary",
    "attention": "Causal attention",
    "of": "Quantity",
    "latex": "LaTeX",
    "big_o": "Growth alone",
    "steps": "Each product by itself",
}
"""What the options in front are called; others by their flag."""
RANKS = {"lora": "LoRA rank", "qlora": "QLoRA rank"}
"""Options that are switched, and what the number is called that they may have beside."""


def powers(first: int, last: int) -> tuple[int, ...]:
    """The powers of two from the first to the last."""
    return tuple(2**place for place in range(first.bit_length() - 1, last.bit_length()))


STOPS = {
    "seq_len": powers(128, 2**20),
    "context": powers(128, 2**20),
    "input_tokens": powers(16, 2**17),
    "output_tokens": (0, *powers(1, 2**15)),
    "batch_size": powers(1, 1024),
    "concurrency": powers(1, 1024),
    "grad_accum": powers(1, 256),
    "gpus": powers(1, 4096),
    "tensor_parallel": powers(1, 16),
    "n_layers": (*range(1, 17), *range(18, 65, 2), *range(68, 129, 4)),
}
"""Where the sliders stop."""


def tabs(words: Sequence[str], said: Remembered) -> list[dict[str, object]]:
    """The questions with their links, which keep of the words what the other question can use, and which is asked.

    What cannot be said in these words is as it was ``said`` last of this model.
    """
    asked = parts(in_full(words))
    here = current(asked)
    return [
        {
            "label": tab.label,
            "link": link_of(asked.words if tab is here else moved(asked, tab, said)),
            "current": tab is here,
            "title": COMMANDS[tab.command],
        }
        for tab in TABS
    ]


def current(asked: Asked) -> Tab | None:
    """The question of the page that the words are; None of what is only typed.

    Where several are of one command, it is the one whose words are typed, or an option that only this one has in front.
    """
    flags = {one.flag for one in asked.typed}
    names = {one.option.name for one in asked.typed if one.option is not None}
    of = [tab for tab in TABS if tab.command == asked.first]
    own = {tab: set(tab.front).difference(*(other.front for other in of if other is not tab)) for tab in of}
    typed = next((tab for tab in of if flags.issuperset(tab.always)), None)
    return typed or next((tab for tab in of if len(of) == 1 or names & own[tab]), None)


class Saying(NamedTuple):
    """An option as it was said last: how it was typed, if it was, and whether of training, of serving or of neither."""

    typed: tuple[Typed, ...]
    mode: str


class Remembered:
    """The options that were said of a model, each by the last question that could say it.

    A switch between training and serving is that of its question alone.
    """

    def __init__(self) -> None:
        self.options: dict[str, Saying] = {}
        self.switches: dict[tuple[str, str], tuple[Typed, ...]] = {}

    def add(self, asked: Asked) -> None:
        """Remember what a question says, and what it could say and does not."""
        tab, typed = current(asked), by_name(asked)
        if tab is None:
            return
        mode, idle = mode_of(tab, typed), without_effect(tab, typed)
        known = {option.name for option in options_of([tab.command])} if mode else set()
        again = (name for name, saying in self.options.items() if saying.mode == mode and name in known)
        chosen = typed.keys() - set(SWITCHES)
        left = {each for group in INSTEAD for each in group if not chosen.isdisjoint(group)}
        instead = (name for name in self.options if name in left)
        for name in dict.fromkeys((*_sayable(tab), *again, *typed, *instead)):
            if name in SWITCHES:
                self.switches[tab.label, name] = typed.get(name, ())
            elif name not in idle and (mode or name in tab.front):
                self.options[name] = Saying(typed.get(name, ()), mode)


def by_name(asked: Asked) -> dict[str, tuple[Typed, ...]]:
    """The options of a question, as they were typed, by name."""
    found: dict[str, tuple[Typed, ...]] = {}
    for one in asked.typed:
        if one.option is not None:
            found[one.option.name] = (*found.get(one.option.name, ()), one)
    return found


def mode_of(tab: Tab, given: Collection[str]) -> str:
    """Return whether a question is of training or of serving, with these options; "" of neither."""
    if tab.command == "serve" or "serve" in given or "--serve" in tab.always:
        return "serve"
    return "train" if tab.command in ("fit", "train") or "--train" in tab.always else ""


def moved(asked: Asked, tab: Tab, said: Remembered) -> list[str]:
    """The words of this question about the same model, with the options that are in front there, too.

    What cannot be said where one comes from is as it was ``said`` last. Options that are not in front go along from one
    question of training to another, and of serving.
    """
    here, typed = current(asked), by_name(asked)
    options = {option.name: option for option in options_of([tab.command])}
    front = tab.front if tab.command not in TARGETS or asked.first in TARGETS else ()
    turned = {name: _turned(asked, tab, name, said) for name in SWITCHES if name in front}
    on = {name for name, typed in turned.items() if typed}
    mode, mode_here = mode_of(tab, on), mode_of(here, typed) if here else ""
    kept = [one for names in turned.values() for one in names]
    alike = options if mode and mode == mode_here else ()
    kept += [
        one
        for one in asked.typed
        if one.option and one.option.name in {*front, *alike, *SHAPE, "treat_as"}.difference(SWITCHES) & options.keys()
    ]
    given = {one.option.name for one in kept if one.option}
    sayable = set(_sayable(here)) - without_effect(here, typed) if here else set()
    others = given.union(sayable, *(group for group in INSTEAD if given & set(group)))
    for name, saying in said.options.items():
        if name in options and name not in others and (name in front or (mode and saying.mode == mode)):
            kept += saying.typed
    flags = {one.option.name for one in kept if one.option}
    idle = without_effect(tab, flags)
    kept = [one for one in kept if one.option and one.option.name not in idle and one.flag not in tab.always]
    instead = {each for group in INSTEAD for each in group if flags & set(group)}
    first = [
        Typed(options[name].flags[0], value or None, options[name])
        for name, value in tab.first
        if name not in flags | instead
    ]
    fixed = [Typed(word, None, None) for word in tab.always]
    named = [TARGETS[tab.command]] if tab.command in TARGETS else []
    return Asked(tab.command, (*named, *model_of(asked)), (*fixed, *kept, *first)).words


def _sayable(tab: Tab) -> tuple[str, ...]:
    """The options that a question does not leave open where it does not say them: those about a part take few along."""
    return () if tab.command in TARGETS else tab.front


def _turned(asked: Asked, tab: Tab, name: str, said: Remembered) -> tuple[Typed, ...]:
    """A switch of a question: as it was there last, or first as where one comes from."""
    before, here = said.switches.get((tab.label, name)), current(asked)
    if before is None and here is not None and mode_of(here, by_name(asked)) == name:
        option = next(option for option in options_of([tab.command]) if option.name == name)
        return (Typed(option.flags[0].split("/")[0], None, option),)
    return by_name(asked).get(name, ()) if before is None else before


def without_effect(tab: Tab | None, given: Collection[str]) -> set[str]:
    """Options in front of a question that have no effect beside the switches that are ``given``, by name."""
    ways = [(names, on == (switch in given)) for switch, names, on in SWITCHED if tab and switch in tab.front]
    return {name for names, has in ways if not has for name in names}


def with_change(asked: Asked, name: str, value: str | bool, said: Remembered) -> Asked:
    """The question with one option changed.

    Who turns a switch leaves the options that have no effect any more, and finds those that were ``said`` before.
    """
    changed = asked._replace(typed=tuple(changes(asked, name, value)))
    tab = current(asked)
    if tab is None or not any(name == switch for switch, _, _ in SWITCHED):
        return changed
    idle = without_effect(tab, by_name(changed))
    kept = tuple(one for one in changed.typed if one.option is None or one.option.name not in idle)
    given = by_name(changed._replace(typed=kept)).keys()
    others = given | idle | set(SWITCHES) | {each for group in INSTEAD for each in group if given & set(group)}
    before = (saying.typed for each, saying in said.options.items() if each in tab.front and each not in others)
    return changed._replace(typed=(*kept, *(one for typed in before for one in typed)))


def along(asked: Asked, words: Sequence[str]) -> list[str]:
    """The words of another question, with the options of this one that are in front there and are not said."""
    there = parts(in_full(words))
    tab, said = current(there), by_name(there)
    if tab is None:
        return list(words)
    more = [one for one in asked.typed if one.option and one.option.name in tab.front and one.option.name not in said]
    return there._replace(typed=(*there.typed, *more)).words


def model_of(asked: Asked) -> tuple[str, ...]:
    """The word that names the model, if one does."""
    places = [option.name for option in options_of(asked.words) if option.argument]
    if not places:
        return asked.named[:1]
    place = next((index for index, name in enumerate(places) if name in ("model", "models")), len(places) - 1)
    return asked.named[place : place + 1]


def with_argument(asked: Asked, name: str, value: str) -> Asked:
    """The question with another model, or about another part."""
    places = [option.name for option in options_of(asked.words) if option.argument]
    named = list(asked.named)
    place = places.index(name)
    named += [TARGETS.get(asked.first, "")] * (place - len(named))
    named[place : place + 1] = [value] if value.strip() else []
    return asked._replace(named=tuple(named))


# --- as HTML


def form(words: Sequence[str], in_effect: Mapping[str, Any]) -> str:
    """The controls of a question: those in front, and all others of its command, by their groups.

    ``in_effect`` has the values that the answer was made with, by the options' names.
    """
    asked = parts(in_full(words))
    tab = current(asked) or next((tab for tab in TABS if tab.command == asked.first), None)
    options = {option.name: option for option in options_of(asked.words)}
    given = {one.option.name: one for one in asked.typed if one.option is not None}
    idle = without_effect(tab, given)
    front = [options[name] for name in (tab.front if tab else ()) if name in options and name not in idle]
    named = list(zip((one for one in options.values() if one.argument), [*asked.named, "", "", ""], strict=False))
    lines = [_argument(option, value) for option, value in named if option.name in ("target",) and not option.several]
    lines += [_control(option, given.get(option.name), in_effect) for option in front if option.flags]
    hidden = {"json", "format", "quiet", "output", "color", "debug", "ascii", "offline", "model_name", "rates"}
    always = {one.option.name for one in asked.typed if tab and one.flag in tab.always and one.option}
    rest = [
        option
        for option in options.values()
        if option.flags and option not in front and option.name not in hidden | always | idle
    ]
    return f'<div class="front">{"".join(lines)}</div>{"".join(_groups(rest, given, in_effect))}'


def shape(words: Sequence[str]) -> str:
    """Names of all that decides on the controls of a question: a form of another shape is drawn anew."""
    asked = parts(in_full(words))
    given = {one.option.name for one in asked.typed if one.option is not None}
    names = (option.name for option in options_of(asked.words))
    return " ".join((*names, *sorted(without_effect(current(asked), given)), *sorted(given & RANKS.keys())))


def _groups(rest: Sequence[Option], given: Mapping[str, Typed], in_effect: Mapping[str, Any]) -> Iterator[str]:
    if not rest:
        return
    yield f'<details class="more"><summary>{len(rest)} more options</summary>'
    for group, heading in GROUPS.items():
        own = [option for option in rest if option.group == group]
        if own:
            controls = "".join(_control(option, given.get(option.name), in_effect) for option in own)
            yield f"<fieldset><legend>{escape(heading)}</legend>{controls}</fieldset>"
    yield "</details>"


def _argument(option: Option, value: str) -> str:
    return (
        f'<div class="control"><label for="c-{option.name}">{escape(_label(option))}</label>'
        f"{_text(option, value, '')}{_help(option)}</div>"
    )


def _label(option: Option) -> str:
    return LABELS.get(option.name) or option.flags[0].split("/")[0]


def _help(option: Option) -> str:
    flag = option.flags[0].split("/")[0] if option.flags else ""
    text = f"{flag} {option.help}".strip()
    return f'<p class="help" id="h-{option.name}">{escape(text)}</p>'


def _control(option: Option, typed: Typed | None, in_effect: Mapping[str, Any]) -> str:
    """A label and what is typed, chosen, switched or slid; its help is what the program says of the option."""
    name = option.name
    value = "" if typed is None else (typed.value if typed.value is not None else option.alone)
    default = str(in_effect.get(name, ""))
    label = f'<label for="c-{name}">{escape(_label(option))}</label>'
    described = f'id="c-{name}" name="{name}" aria-describedby="h-{name}"'
    checked = " checked" if typed is not None else ""
    if option.switch:
        return f'<div class="control switch"><input type="checkbox" {described}{checked}>{label}{_help(option)}</div>'
    if name in RANKS:
        rank = f'<label for="c-{name}">{RANKS[name]}</label>{_text(option, value, "")}' if checked else ""
        return (
            f'<div class="control switch"><input type="checkbox" id="o-{name}" name="{name}" '
            f'aria-describedby="h-{name}"{checked}><label for="o-{name}">{escape(_label(option))}</label>{rank}'
            f"{_help(option)}</div>"
        )
    if option.known:
        shown = "" if typed is None else value
        words = [word for word in option.known if not word.endswith(":N")]
        words += [shown] if shown and shown not in words else []
        empty = f"as usual: {default}" if default and default != "None" else "as usual"
        choices = f'<option value="">{escape(empty)}</option>' + "".join(
            f"<option{' selected' if word == shown else ''}>{escape(word)}</option>" for word in words
        )
        return f'<div class="control">{label}<select {described}>{choices}</select>{_help(option)}</div>'
    if name in STOPS:
        return f'<div class="control slides">{label}{_slider(option, value, default)}{_help(option)}</div>'
    return f'<div class="control">{label}{_text(option, value, default)}{_help(option)}</div>'


def _text(option: Option, value: str, default: str) -> str:
    offers = f' list="offers-{option.offers}"' if option.offers else ""
    shown = default if default != "None" else ""
    return (
        f'<input id="c-{option.name}" name="{option.name}" aria-describedby="h-{option.name}" value="{escape(value)}"'
        f' placeholder="{escape(shown)}"{offers} autocomplete="off" spellcheck="false">'
    )


def _slider(option: Option, value: str, default: str) -> str:
    """A slider over the stops of an option, beside the number itself, which may be any other one."""
    name, stops = option.name, STOPS[option.name]
    written = [short_tokens(stop) if option.length else str(stop) for stop in stops]
    at = _number(option, value) or _number(option, default) or stops[0]
    place = min(range(len(stops)), key=lambda index: abs(stops[index] - at))
    return (
        f'<span class="slider"><input type="range" id="s-{name}" data-for="{name}" min="0" max="{len(stops) - 1}"'
        f' value="{place}" data-stops="{escape(" ".join(written))}" aria-label="{escape(_label(option))}"'
        f' aria-valuetext="{escape(value or default or written[place])}">{_text(option, value, default)}</span>'
    )


def _number(option: Option, text: str) -> int | None:
    try:
        return parse_length(text) if option.length else parse_count(text)
    except ValueError:
        return None


def offers() -> dict[str, list[str]]:
    """The words that the program offers for a text, by what they are: presets, cards, formats."""
    options = {option.offers: option for tab in TABS for option in options_of([tab.command]) if option.offers}
    return {name: list(offered(option)) for name, option in options.items()}


def name_of_model(words: Sequence[str]) -> str:
    """The model as it is named; empty where the sizes describe it."""
    return next(iter(model_of(parts(in_full(words)))), "")


def is_pasted(words: Sequence[str]) -> bool:
    """Return whether the pasted config is asked about."""
    return PASTED in parts(words).named
