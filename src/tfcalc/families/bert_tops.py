"""What BERT and its kin put on top where they are modules: predictions of words, classes of sequences and of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.tops import Top, bare, labels
from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm, parameter
from tfcalc.nn.heads import FIRST, POOLED, TOKENS, Classifier, PreTraining, Transform, WithTransform
from tfcalc.nn.model import Predictions, WithHead
from tfcalc.nn.module import Module

Make = Callable[[Config], Predictions]

TRANSFORM = ("transform.dense", "transform.LayerNorm", "decoder")
MASKED: dict[str, Any] = {"shifted": False, "upcasts": False}
"""Of a loss that asks for the tokens themselves."""


def predictions(
    name: str, names: Sequence[str] = TRANSFORM, *, width: str = "hidden_size", act: str = "", alone: bool = False
) -> Make:
    """A map, an activation and a norm (unless logits are ``alone``), then logits by the words' own vectors."""
    return lambda c: predicted(name, c, c.size(width), names, act, alone=alone)


def predicted(
    name: str, c: Config, width: Num, names: Sequence[str] = TRANSFORM, act: str = "", *, alone: bool = False
) -> Predictions:
    """The same for vectors of any width.

    The bias stands beside the ``decoder``: it is the decoder's own too where its matrix is tied, but not where it is
    untied. That is how transformers builds it.
    """
    h, vocabulary, tied = c.size("hidden_size"), c.size("vocab_size"), c.flag("tie_word_embeddings")
    dense = None if alone else Linear(names[0], h, width, "", True)
    normed = None if alone else Norm(names[1], "layernorm", width)
    table, bias = ("embedding", "bias") if tied else (None, None)
    decoder = Linear(names[2], width, vocabulary, "vocab", True, table, "output", bias)
    beside = parameter("bias", vocabulary, minor=True)
    kind = "" if alone else act or c.word("hidden_act")
    return Predictions(name, dense, normed, decoder, beside, kind)


def masked(make: Make) -> Top:
    """A model that predicts the tokens that it reads, some of which are masked."""
    return lambda c, base: WithHead("", base, make(c), **MASKED)


def masked_upcast(make: Make) -> Top:
    """The same with a loss of logits in fp32 (transformers' ``loss_function``)."""
    return lambda c, base: WithHead("", base, make(c), shifted=False)


def causal(make: Make) -> Top:
    """A model that predicts the next tokens."""
    return lambda c, base: WithHead("", base, make(c))


def lm(make: Make) -> dict[str, Top]:
    """The classes that predict words."""
    return {"ForMaskedLM": masked(make), "ForCausalLM": causal(make), "LMHeadModel": causal(make)}


def apart(names: Sequence[str], *, width: str = "hidden_size", act: str = "") -> dict[str, Top]:
    """The same with the three side by side in the model, and one bias."""

    def top(c: Config, base: Module, **loss: Any) -> WithTransform:
        e, tied = c.size(width), "embedding" if c.flag("tie_word_embeddings") else None
        return WithTransform(
            "",
            base,
            Linear(names[2], e, c.size("vocab_size"), "vocab", True, tied, "output"),
            transform=Transform(
                "",
                Linear(names[0], c.size("hidden_size"), e, "", True),
                Norm(names[1], "layernorm", e),
                act or c.word("hidden_act"),
            ),
            **loss,
        )

    return {"ForMaskedLM": lambda c, base: top(c, base, **MASKED), "ForCausalLM": top, "LMHeadModel": top}


def classes(name: str, count: int | None = None, *, reads: str = TOKENS, dropped: str = "hidden_dropout_prob") -> Top:
    """``count`` logits (else ``num_labels``), of every token, or of what it ``reads``."""
    return dense_classes((name,), count, reads=reads, dropped=dropped)


def dense_classes(
    names: Sequence[str] = ("classifier.dense", "classifier.out_proj"),
    count: int | None = None,
    *,
    reads: str = FIRST,
    dropped: str = "hidden_dropout_prob",
    undropped: tuple[str, ...] = (),
    act: str = "tanh",
) -> Top:
    """Maps of the first token's vector, or of what it ``reads``, the last of which makes logits.

    What they read is dropped as the field ``dropped`` says. An activation that is not named is the config's.
    """

    def top(c: Config, base: Module) -> Module:
        *before, last = names
        h, drops, kind = c.size("hidden_size"), bool(dropped and c.get(dropped)), act or c.word("hidden_act")
        maps = (*(Linear(one, h, h, "", True) for one in before), Linear(last, h, count or labels(c), "", True))
        return Classifier("", base, None, maps, reads, kind, drops, undropped)

    return top


def pretraining(make: Make, name: str, count: int | None = 2) -> Top:
    """A model that predicts masked tokens, and two classes of the pooled first one, or as many as there are labels."""

    def top(c: Config, base: Module) -> Module:
        beside = Linear(name, c.size("hidden_size"), count or labels(c), "", True)
        return PreTraining("", base, make(c), beside=beside, **MASKED)

    return top


TASKS: dict[str, Top] = {
    "Model": bare,
    "ForSequenceClassification": classes("classifier", reads=POOLED),
    "ForMultipleChoice": classes("classifier", 1, reads=POOLED),
    "ForTokenClassification": classes("classifier"),
    "ForQuestionAnswering": classes("qa_outputs", dropped=""),
}
ANSWER = classes("qa_outputs", 2, dropped="")
"""Where the answer begins and ends, in those that do not ask for ``num_labels``."""
PREDICTIONS = predictions("cls.predictions")
BERT_TOPS: dict[str, Top] = {
    **TASKS,
    **lm(PREDICTIONS),
    "ForPreTraining": pretraining(PREDICTIONS, "cls.seq_relationship"),
    "ForNextSentencePrediction": classes("cls.seq_relationship", 2, reads=POOLED, dropped=""),
}
LM_HEAD = predictions("lm_head", ("dense", "layer_norm", "decoder"), act="gelu")
ROBERTA_TOPS: dict[str, Top] = {**TASKS, **lm(LM_HEAD), "ForSequenceClassification": dense_classes()}
