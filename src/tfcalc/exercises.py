"""Exercises in counting transformers: drawn by a seed, answered by tfcalc itself, and graded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import count as count_from
from itertools import product
from random import Random
from typing import Any

from tfcalc.analysis.check import check
from tfcalc.analysis.design.optimum import compute_optimal
from tfcalc.answers.explain import explain_part
from tfcalc.answers.formula import formula
from tfcalc.answers.memory_in_words import memory
from tfcalc.answers.params import params
from tfcalc.answers.utilisation import machines_of, utilisation
from tfcalc.catalog import load
from tfcalc.core.notation import spelled, write
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.core.traced import value_of
from tfcalc.errors import UsageError, one_of
from tfcalc.expressions import evaluate, read_formula
from tfcalc.hardware import named
from tfcalc.model import values
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Serving, Training
from tfcalc.printable import quoted
from tfcalc.report import polynomial
from tfcalc.report.declared import Answer, Key, Record, Told, When, boolean, choice, integer, records, text
from tfcalc.report.opening import Stated, count, given
from tfcalc.report.sheet import Column, Sheet
from tfcalc.solving.solve import solve
from tfcalc.workload import Workload
from tfcalc.zoo.transformer import Transformer

LBHN = "lbhn"
MOST = 100
"""Exercises of one quiz."""
TOPICS = (
    "params",
    "approximations",
    "flops",
    "crossover",
    "memory",
    "moe",
    "roofline",
    "mfu",
    "lora",
    "zero",
    "scaling",
)
"""In the order of the course (formulas.md): its sections 3 to 5, 6, 7 and 8, 10, 11, 12, 13, 14, 15, 16 and 17."""
PARTS = {
    "mha": "the multi-head attention",
    "ffn": "the feed-forward network",
    "encoder-layer": "an encoder layer",
    "decoder-layer": "a decoder layer",
}
WIDTHS = ((256, 4), (384, 6), (512, 8), (640, 10), (768, 12), (1024, 16), (1280, 20), (1600, 25), (2048, 16))
LLAMAS = ("llama-2-7b", "llama-2-13b", "llama-3-8b", "llama-3-70b", "mistral-7b")
MIXTURES = ("mixtral-8x7b", "qwen3-30b-a3b", "qwen3-235b-a22b")
CARDS = ("h100", "a100-80", "h200", "b200", "l40s", "rtx-4090", "l4", "t4", "h20", "a10", "mi300x", "rtx-3090")
SPEEDS = {"llama-2-7b": 9_000, "llama-2-13b": 4_800, "llama-3-8b": 8_000, "llama-3-70b": 950, "mistral-7b": 8_600}
"""Tokens per second of one H100, as trained models reach them."""
CLASSIC = "of the classic Transformer (biases, LayerNorm, {f} = {4h})"
SLIPS = {
    Fraction(1, 2): "it is half of it",
    Fraction(2): "it is twice as much",
    Fraction(1, 3): "it is a third of it: backward costs twice as much as forward",
    Fraction(3): "it is three times as much",
    Fraction(1, 4): "it is a quarter of it",
    Fraction(4): "it is four times as much",
}
HALVES = {
    "flops": "a multiply-add is 2 FLOPs",
    "memory": "keys and values are 2 tensors, 16 bits are 2 bytes",
    "moe": "16 bits are 2 bytes",
    "lora": "an adapter is 2 matrices",
    "zero": "16 bits are 2 bytes",
}
"""What half of the right answer forgets, by topic."""


class Drawn(NamedTuple):
    """An exercise without its number: the question, its right answer, and the command that prints it.

    ``text`` has its letters in braces; ``right`` is a formula or a whole number; of a formula ``of`` and ``target`` are
    what it counts, and ``approx`` says that it leaves out biases and norms.
    """

    text: str
    right: Polynomial | int
    command: str
    of: str = ""
    target: str = ""
    approx: bool = False

    def question(self, notation: str) -> str:
        """The question in the letters of a notation."""
        letters = _letters(notation)
        return self.text.format_map({**letters, "4h": write(4 * symbol("h"), letters=letters)})

    def answer(self, notation: str) -> str:
        """The right answer in text."""
        formula = isinstance(self.right, Polynomial)
        return write(self.right, letters=_letters(notation)) if formula else f"{self.right:,}"


def _letters(notation: str) -> dict[str, str]:
    """The letters that questions have, as a notation prints them."""
    return {letter: spelled(letter, notation) for letter in "lbhf"}


class PlacedExercise(NamedTuple):
    """An exercise at its place in the quiz."""

    number: int
    topic: str
    drawn: Drawn


class Grade(NamedTuple):
    """An answer that was given, whether it is right, and the verdict in one line."""

    given: str
    correct: bool
    verdict: str


class Exercise(Record):
    """A question with its answer, and the command that prints it."""

    number = integer("its place in the quiz, from 1", lambda one: one.number, count("its place in the quiz, from 1"))
    topic = choice(TOPICS, "its topic", lambda one: one.topic)
    question = text("the question, in the letters of lbhn", lambda one: one.drawn.question(LBHN))
    answer: Key[int | str] = Key(
        {
            "type": ["integer", "string"],
            "description": "the right answer: a number, or a formula in the letters of lbhn",
        },
        lambda one: one.drawn.right if isinstance(one.drawn.right, int) else one.drawn.answer(LBHN),
        Told(lambda one: Stated("answer", f"the answer of: {one.answered_by}")),
    )
    answered_by = text("a command that prints the answer", lambda one: one.drawn.command)


GRADED = When(lambda quiz: quiz.grade, "given", mutual=True)


class Quiz(Answer):
    """The exercises of a seed, or one of them with a ``grade``; ``shown`` says whether the answers are printed.

    They are printed in the letters of its ``notation``.
    """

    command, about = "quiz", "Exercises with their answers; or one exercise with the grade of an answer."

    seed = integer("which quiz", lambda quiz: quiz.of[0], given("--seed, or 1"))
    topic = choice(("", *TOPICS), "the topic that was asked for; empty for all", lambda quiz: quiz.of[1])
    exercises = records(Exercise, "the exercises", lambda quiz: quiz.placed)
    given = text("the answer that was graded", lambda quiz: quiz.grade.given, when=GRADED)
    correct = boolean("whether it is right", lambda quiz: quiz.grade is None or quiz.grade.correct, when=GRADED)
    verdict = text("the grade in one line", lambda quiz: quiz.grade.verdict, when=GRADED)

    def __init__(self, seed: int, topic: str, placed: tuple[PlacedExercise, ...], grade: Grade | None = None) -> None:
        self.of, self.placed, self.grade = (seed, topic), placed, grade
        self.shown, self.notation = False, LBHN

    @property
    def heading(self) -> str:
        """Name of the quiz."""
        return f"Quiz {self.seed}"

    def sheet(self) -> Sheet:
        """A row per question, the answers at the end."""
        topic = f" on {self.topic}" if self.topic else ""
        first = self.exercises[0].number
        named = f"exercise {first}" if len(self.exercises) == 1 else f"{len(self.exercises)} exercises"
        rows = [(one.number, one.drawn.question(self.notation)) for one in self.placed]
        own = f" --notation {self.notation}" * (self.notation != LBHN)
        answers = [
            f"{one.number}. {one.drawn.answer(self.notation)} ({one.drawn.command}{own * bool(one.drawn.target)})"
            for one in self.placed
        ]
        questions = "\n".join(f"{number}. {question}" for number, question in rows)
        how = f"tfcalc quiz {first} ANSWER --seed {self.seed}" + (f" --topic {self.topic}" if self.topic else "") + own
        return Sheet(
            title=self.verdict if self.grade else f"{self.heading}{topic}: {named}",
            columns=[Column("no."), Column("exercise", numeric=False, folds=True)],
            rows=rows,
            quiet=self.verdict if self.grade else questions,
            notes=["Answers:", *answers] if self.shown else [],
            see_also=[] if self.grade else [how, *([] if self.shown else ["--answers"])],
        )


def quiz(seed: int = 1, number: int = 5, topic: str = "") -> Quiz:
    """Draw exercises; the same seed and topic always give the same ones, however many.

    Args:
        seed: any whole number from 0.
        number: how many exercises.
        topic: one of :data:`TOPICS`; by default all of them.

    Returns:
        A quiz: ``exercises`` with question, answer and the command that prints it.

    Raises:
        UsageError: no such topic, or too many exercises.

    >>> [exercise.answer for exercise in quiz(3, 1, "params").exercises]
    ['12h² + 13h']
    """
    if not 0 < number <= MOST:
        raise UsageError(f"{number} exercises cannot be drawn", f"choose 1 to {MOST}")
    return Quiz(seed, topic, tuple(_exercise(seed, place, topic) for place in range(1, number + 1)))


def drawn(seed: int, place: int, topic: str = "") -> Quiz:
    """The one exercise at this ``place`` of the quiz with this seed and topic. Raises UsageError as :func:`quiz`."""
    return Quiz(seed, topic, (_exercise(seed, place, topic),))


def grade(seed: int, place: int, given: str, topic: str = "", notation: str = LBHN) -> Quiz:
    """Grade an answer to the exercise at this ``place`` of the quiz with this seed and topic.

    A formula, in the letters of ``notation``, may be written in any way that is equal to the right one; a number as
    ``1,050,624``, ``4*512^2`` or ``1.5GiB``. Raises UsageError for what is neither.

    >>> grade(3, 1, "12h^2 + 9h", "params").verdict
    'no: 12h² + 13h is 4h more; 4h is the norms'
    """
    exercise = _exercise(seed, place, topic)
    found = exercise.drawn
    if isinstance(found.right, Polynomial):
        checked = check(found.target, given, found.of, approx=found.approx, notation=notation)
        return Quiz(seed, topic, (exercise,), Grade(given, checked.correct, checked.verdict()))
    number = _number(given)
    correct = number == found.right
    verdict = f"yes: {found.right:,}"
    if not correct:
        share = Fraction(number) / found.right if found.right else Fraction()
        slip = SLIPS.get(share, "")
        if share == Fraction(1, 2) and exercise.topic in HALVES:
            slip = f"{slip}: {HALVES[exercise.topic]}"
        explained = f"{found.command} shows why"
        verdict = "; ".join([f"no: it is {found.right:,}", *([slip] if slip else []), explained])
    return Quiz(seed, topic, (exercise,), Grade(given, correct, verdict))


def _number(given: str) -> int | Fraction:
    """Return what was given for a number: ``400 MiB``, ``39 %``. Raises UsageError where it is none."""
    written = re.sub(r"(?<=\d) +(?=[A-Za-z]+$)", "", given.strip().removesuffix("%").rstrip())
    try:
        return evaluate(read_formula(written, (), quantities=True), {})
    except UsageError:
        raise UsageError(f"{quoted(given)} is no number", "write 1050624, 4*512^2 or 1.5GiB") from None


def _exercise(seed: int, place: int, topic: str) -> PlacedExercise:
    """The exercise at a place: its kind by the seed, every kind once before one comes again.

    Each kind has its cases in an order of the seed. One whose cases have all been asked drops out, so that no exercise
    repeats another, until there is none left; then all begin anew.
    """
    if topic:
        one_of("topic", topic, KINDS)
    if place > MOST:
        raise UsageError(f"exercise {quoted(place)} is not drawn", f"choose 1 to {MOST}")
    kinds = [
        (name, number, kind)
        for name, of_topic in KINDS.items()
        for number, kind in enumerate(of_topic)
        if topic in ("", name)
    ]
    again, left = divmod(place - 1, sum(len(kind.cases) for _, _, kind in kinds))
    for turn in count_from(0):
        asked = [each for each in kinds if turn < len(each[-1].cases)]
        if left < len(asked):
            break
        left -= len(asked)
    Random(f"{seed}/{topic}/{turn}" + f"/{again}" * bool(again)).shuffle(asked)
    name, number, kind = asked[left]
    cases = list(kind.cases)
    Random(f"{seed}/{topic}/{name}/{number}/{again}").shuffle(cases)
    return PlacedExercise(place, name, kind.ask(*cases[turn]))


def _closed(target: str, of: str, *, approx: bool = False) -> Polynomial:
    """The formula of a part of the classic Transformer."""
    return polynomial(formula(target, of, approx=approx).closed)


def _formula_of_params(target: str) -> Drawn:
    text = f"How many parameters does {PARTS[target]} {CLASSIC} have? A formula in {{h}}, the hidden size."
    return Drawn(text, _closed(target, "params"), f"tfcalc formula {target}", "params", target)


def _params(target: str, sizes: tuple[int, int]) -> Drawn:
    width, heads = sizes
    model = Transformer(d_model=width, n_heads=heads)
    text = f"How many parameters does {PARTS[target]} {CLASSIC} have with {{h}} = {width} and {heads} heads?"
    command = f"tfcalc explain {target} --d-model {width} --heads {heads}"
    return Drawn(text, explain_part(target, model).answer, command)


def _params_of_llama(name: str) -> Drawn:
    model = load(name)
    size = {letter: value_of(number) for letter, number in values(model, Workload()).items()}
    size |= {"g": size.get("g", size["a"]), "d": size.get("d", size["h"] // size["a"])}
    text = (
        f"How many parameters does one layer of {name} have: {{h}} = {size['h']}, {size['a']} heads and {size['g']} "
        f"key-value heads of {size['d']}, a gated FFN of {size['f']}, two RMSNorms, no biases?"
    )
    return Drawn(text, explain_part("layer", model).answer, f"tfcalc explain layer --model {name}")


def _formula_of_flops(target: str) -> Drawn:
    text = (
        f"How many FLOPs are the matrix products of {PARTS[target]} {CLASSIC} in a forward pass? A formula in {{b}} "
        "(sequences), {l} (tokens each) and {h}; a multiply-add is 2 FLOPs."
    )
    return Drawn(text, _closed(target, "flops"), f"tfcalc formula {target} --of flops", "flops", target)


def _macs(target: str, sizes: tuple[int, int], length: int) -> Drawn:
    width, heads = sizes
    run, model = Workload(seq_len=length), Transformer(d_model=width, n_heads=heads)
    flops = explain_part(target, model, "flops", run).answer
    text = (
        f"A profiler counts {flops // 2:,} multiply-adds (MACs) for {PARTS[target]} on {length} tokens with {{h}} = "
        f"{width}. How many FLOPs is that?"
    )
    return Drawn(text, flops, f"tfcalc explain {target} --of flops --d-model {width} --heads {heads} --seq {length}")


def _training(target: str, of_model: tuple[int, int], batch: int, length: int) -> Drawn:
    width, heads = of_model
    run = Workload(batch_size=batch, seq_len=length, phase="train")
    text = (
        f"How many FLOPs are the matrix products of {PARTS[target]} {CLASSIC} in a training step (forward and "
        f"backward) with {{h}} = {width}, {heads} heads, {batch} sequences of {length} tokens?"
    )
    sizes = f"--d-model {width} --heads {heads} --batch {batch} --seq {length}"
    right = explain_part(target, Transformer(d_model=width, n_heads=heads), "flops", run).answer
    return Drawn(text, right, f"tfcalc explain {target} --of flops --train {sizes}")


def _cache(name: str, context: int) -> Drawn:
    model = load(name)
    size = {letter: value_of(number) for letter, number in values(model, Workload()).items()}
    groups, width = size.get("g", size["a"]), size.get("d", size["h"] // size["a"])
    text = (
        f"How many bytes is the KV cache of one sequence of {context:,} tokens in {name}, with 2 bytes a number: "
        f"{size['n']} layers, {groups} key-value heads of {width}?"
    )
    right = explain_part("cache", model, "memory", serving=Serving(context=context)).answer
    return Drawn(text, right, f"tfcalc explain cache --model {name} --of memory --serve --context {context}")


def _weights(of_model: tuple[int, int], layers: int) -> Drawn:
    width, heads = of_model
    model = Transformer(d_model=width, n_heads=heads, n_layers=layers, kind="encoder", final_norm="never")
    text = (
        f"How many bytes are the weights of {layers} encoder layers {CLASSIC} with {{h}} = {width}, in fp32? No "
        "embedding, no final norm."
    )
    sizes = f"--kind encoder --d-model {width} --heads {heads} --layers {layers} --final-norm never"
    return Drawn(text, explain_part("core", model, "memory").answer, f"tfcalc explain core --of memory {sizes}")


def _approximate(target: str) -> Drawn:
    text = (
        f"How many parameters does {PARTS[target]} {CLASSIC} have, leaving out biases and norms? A formula in {{h}}, "
        "the hidden size."
    )
    right = _closed(target, "params", approx=True)
    return Drawn(text, right, f"tfcalc formula {target} --approx", "params", target, approx=True)


def _crossover(width: int, heads: int) -> Drawn:
    model = Transformer(kind="encoder", d_model=width, n_heads=heads)
    text = (
        f"An encoder {CLASSIC} has {{h}} = {width}. At which length do attention and the feed-forward networks have "
        "equally many FLOPs in a forward pass?"
    )
    found = solve("attention = ffn", "seq", model, of="flops").find_value()
    sizes = f"--of flops --for seq --kind encoder --d-model {width} --heads {heads}"
    return Drawn(text, value_of(found), f"tfcalc solve 'attention = ffn' {sizes}")


def _activations(of_model: tuple[int, int], batch: int, length: int) -> Drawn:
    width, heads = of_model
    model = Transformer(kind="encoder", n_layers=1, d_model=width, n_heads=heads)
    text = (
        f"How many bytes does a feed-forward network {CLASSIC} with ReLU store for backward in fp32, with {{h}} = "
        f"{width} and {batch} sequences of {length} tokens, without dropout?"
    )
    run = Workload(batch_size=batch, seq_len=length, phase="train", dropout=False)
    target = "activations.encoder.layer.ffn"
    sizes = f"--kind encoder --layers 1 --d-model {width} --heads {heads} --batch {batch} --seq {length}"
    right = explain_part(target, model, "memory", run, training=Training()).answer
    return Drawn(text, right, f"tfcalc explain {target} --of memory --train --no-dropout {sizes}")


def _active(name: str) -> Drawn:
    model = load(name)
    size = {letter: value_of(number) for letter, number in values(model, Workload()).items()}
    width = size["f_x"] if "f_x" in size else size["f"]
    text = (
        f"{name} stores {params(model).answer:,} parameters. Each of its {size['n']} layers has {size['E']} experts of "
        f"three matrices of {size['h']} × {width}, and a token uses {size['k']} of them. How many parameters are "
        "active per token, embedding and head among them?"
    )
    return Drawn(text, params(model).active_params, f"tfcalc explain active_params {name}")


def _latent_cache(context: int) -> Drawn:
    name = "deepseek-v3"
    size = {letter: value_of(number) for letter, number in values(load(name), Workload()).items()}
    text = (
        f"{name} has {size['n']} layers with latent attention: a vector of {size['r']} numbers and a rotated key of "
        f"{size['d_r']} are cached once for all heads. How many bytes is the cache of {context:,} tokens, with 2 "
        "bytes a number?"
    )
    right = explain_part("cache", load(name), "memory", serving=Serving(context=context, kv="bf16")).answer
    return Drawn(text, right, f"tfcalc explain cache --model {name} --of memory --serve --context {context} --kv bf16")


def _ridge(card: str) -> Drawn:
    (found, *_) = named(card)
    peak, speed = found.peak("fp16"), found.bandwidth
    text = (
        f"A GPU has a dense peak of {peak / 10**12:g} TFLOP/s in 16 bits, and reads {speed / 10**9:,g} GB/s from its "
        "memory. How many FLOPs per byte is the ridge of its roofline, in whole FLOPs?"
    )
    return Drawn(text, round(Fraction(peak) / Fraction(speed)), f"tfcalc explain roofline --gpu {card}")


def _utilisation(name: str, length: int) -> Drawn:
    card, speed = machines_of("h100"), SPEEDS[name]
    run = Workload(seq_len=length, phase="train")
    used = utilisation(load(name), speed, card, run)
    text = (
        f"An H100 with a peak of {card.peak / 10**12:g} TFLOP/s trains {name} on sequences of {length:,} tokens at "
        f"{speed:,} tokens per second; a token takes {int(used.model_flops_of_token):,} FLOPs. What is the MFU, in "
        "whole percent?"
    )
    words = f"tfcalc flops {name} --mfu --gpu h100 --seq {length} --tokens-per-second {speed}"
    return Drawn(text, round(100 * used.model_share), words)


def _adapters(name: str, rank: int) -> Drawn:
    model = load(name)
    size = {letter: value_of(number) for letter, number in values(model, Workload()).items()}
    groups, width = size.get("g", size["a"]), size.get("d", size["h"] // size["a"])
    text = (
        f"LoRA of rank {rank} adapts W_Q and W_V of {name}: {size['n']} layers, {{h}} = {size['h']}, {size['a']} heads "
        f"and {groups} key-value heads of {width}. How many parameters are trained?"
    )
    right = params(model, training=Training(lora=rank, lora_targets="q_proj,v_proj")).answer
    return Drawn(text, right, f"tfcalc params {name} --lora {rank} --lora-targets q_proj,v_proj")


def _sharded(name: str, stored: str, stage: str, gpus: int) -> Drawn:
    model = load(name)
    text = (
        f"{name} has {params(model).answer:,} parameters, and is trained in bf16 with fp32 master weights by "
        f"ZeRO-{stage} on {gpus} GPUs. How many bytes of {stored} has each GPU, while nothing is gathered?"
    )
    plan = Training(precision="bf16-master", zero=stage, gpus=gpus)
    key = f"{stored.replace(' ', '_')}_bytes"
    right = memory(model, Workload(seq_len=512, phase="train"), training=plan).totals[key]
    words = f"--train --precision bf16-master --zero {stage} --gpus {gpus} --seq 512"
    return Drawn(text, right, f"tfcalc explain memory.{key} {name} {words}")


def _optimum(billions: int) -> Drawn:
    compute = 120 * billions**2 * 10**18
    text = f"A training may take {compute:.3g} FLOPs, by 6ND. How many parameters has the model if each gets 20 tokens?"
    return Drawn(text, round(compute_optimal(compute).answer), f"tfcalc design --compute {compute:.4g}")


class Kind(NamedTuple):
    """A kind of exercise, and its cases: what it asks for each of."""

    ask: Callable[..., Drawn]
    cases: Sequence[tuple[Any, ...]]


def _of_each(ask: Callable[..., Drawn], *choices: Iterable[object]) -> Kind:
    return Kind(ask, list(product(*choices)))


SUBLAYERS = ("mha", "ffn")
KINDS: dict[str, tuple[Kind, ...]] = {
    "params": (
        _of_each(_formula_of_params, PARTS),
        _of_each(_params, PARTS, WIDTHS),
        _of_each(_params_of_llama, LLAMAS),
    ),
    "approximations": (_of_each(_approximate, PARTS),),
    "flops": (
        _of_each(_formula_of_flops, (*SUBLAYERS, "encoder-layer")),
        _of_each(_macs, SUBLAYERS, WIDTHS, (16, 64, 100, 128)),
        _of_each(_training, SUBLAYERS, WIDTHS, (2, 4, 8), (32, 64, 128, 512)),
    ),
    "crossover": (Kind(_crossover, WIDTHS),),
    "memory": (
        _of_each(_cache, LLAMAS, (512, 1024, 2048, 4096)),
        _of_each(_weights, WIDTHS, (2, 4, 6, 12)),
        _of_each(_activations, WIDTHS, (2, 4, 8), (64, 128, 512)),
    ),
    "moe": (_of_each(_active, MIXTURES), _of_each(_latent_cache, (512, 1024, 4096, 8192, 32_768))),
    "roofline": (_of_each(_ridge, CARDS),),
    "mfu": (_of_each(_utilisation, SPEEDS, (2048, 4096)),),
    "lora": (_of_each(_adapters, LLAMAS, (8, 16, 32, 64)),),
    "zero": (_of_each(_sharded, LLAMAS, ("weights", "master weights"), ("1", "3"), (2, 4, 8)),),
    "scaling": (Kind(_optimum, [(billions,) for billions in (1, 2, 3, 5, 7, 10, 20, 70)]),),
}
"""The exercises of each topic."""
