"""Heads on top of a base model that is a module, by the end of its class's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tfcalc.configs.config import Config
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Linear
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Module
from tfcalc.printable import quoted

Top = Callable[[Config, Module], Module]
Width = str | Callable[[Config], Num]
"""The field that says how wide the vectors are which a head reads, or a function of the config."""


def bare(c: Config, base: Module) -> Module:
    """The base model by itself."""
    return base


def logits(name: str, h: Num, words: Num, *, bias: bool = False, tied: bool = False) -> Linear:
    """Output projection to logits over ``words`` words: a matrix of its own, or, ``tied``, the embedding's."""
    return Linear(name, h, words, "vocab", bias, "embedding" if tied else None, "output")


def lm_head(
    name: str = "lm_head",
    *,
    width: Width = "hidden_size",
    bias: bool = False,
    bias_flag: str = "",
    scales: bool = False,
    cap: str = "",
    shifted: bool = True,
    ties: tuple[str, ...] = ("tie_word_embeddings",),
    upcasts: bool = True,
) -> Callable[[Config, Module], ModelWithHead]:
    """Logits over the vocabulary, by a matrix that may be the embedding's.

    The first of the fields ``ties`` that the file gives, or the last, says so; without any it never is.

    A ``bias_flag`` is the field that says whether there is a bias. The logits may be multiplied by a number
    (``scales``), or have a ``cap``, which is the field that gives it. They are those of the next tokens (``shifted``),
    or of the tokens themselves, and the loss may read a copy of the logits in fp32 (``upcasts``).
    """

    def top(c: Config, base: Module) -> ModelWithHead:
        field = next((each for each in ties if c.has(each)), ties[-1] if ties else "")
        tied, biased = bool(field) and c.flag(field), bias or bool(bias_flag and c.flag(bias_flag))
        head = logits(name, wide(c, width), c.size("vocab_size"), bias=biased, tied=tied)
        return ModelWithHead("", base, head, scales, bool(cap) and c.get(cap) is not None, shifted, upcasts)

    return top


def never_tied(c: Config, base: Module) -> ModelWithHead:
    """Logits by a matrix of its own, whatever ``tie_word_embeddings`` says."""
    return ModelWithHead("", base, logits("lm_head", c.size("hidden_size"), c.size("vocab_size")))


def renamed(name: str, top: Top) -> Top:
    """Head over a base module of this name."""
    return lambda c, base: top(c, base.replace(name=name))


def scaled_lm() -> dict[str, Top]:
    """A language model whose logits are multiplied by a number."""
    return {"ForCausalLM": lm_head(scales=True)}


def capped_lm() -> dict[str, Top]:
    """A language model whose logits a tanh keeps under a cap, where there is one."""
    return {"ForCausalLM": lm_head(cap="final_logit_softcapping")}


def classifier(
    name: str = "score", *, width: Width = "hidden_size", bias: bool = False, classes: int | None = None, base: str = ""
) -> Top:
    """Logits over ``classes``, or ``num_labels`` of them; the base may go by another name there."""
    other = base

    def top(c: Config, base: Module) -> Module:
        head = Linear(name, wide(c, width), classes or labels(c), "", bias)
        return ModelWithHead("", base.replace(name=other) if other else base, head)

    return top


def wide(c: Config, width: Width) -> Num:
    """Width of the vectors that a head reads."""
    return c.size(width) if isinstance(width, str) else width(c)


def labels(c: Config) -> Num:
    """``num_labels``, or as many as ``id2label`` names; two where neither is given."""
    names = c.get("id2label")
    if names and not c.has("num_labels"):
        if not isinstance(names, Mapping):
            raise InvalidModel(f"{c.path('id2label')} {quoted(names)} is not an object", "write { … }")
        return len(names)
    return c.size("num_labels") if c.has("num_labels") else 2


CAUSAL_LM: dict[str, Top] = {
    "Model": bare,
    "ForCausalLM": lm_head(),
    "LMHeadModel": lm_head(),
    "ForSequenceClassification": classifier(),
    "ForTokenClassification": classifier(bias=True),
    "ForQuestionAnswering": classifier("qa_outputs", bias=True, classes=2, base="transformer"),
}
"""Heads of decoder-only language models (transformers' Generic… classes)."""
