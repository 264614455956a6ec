"""What XLNet and XLM put on top: one vector of each sequence, and answers."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.tops import Top, labels
from tfcalc.core.number import Num
from tfcalc.families import bert_kit as kit
from tfcalc.nn.basic import Linear
from tfcalc.nn.heads import Summary
from tfcalc.nn.module import Module
from tfcalc.nn.summary import Answers


def summary(name: str, c: Config, classes: Num | None = None) -> Summary | None:
    """What makes one vector of a sequence's: of the ``classes``, of the hidden size, or no map at all."""
    if not c.flag("summary_use_proj"):
        return None
    h = c.size("hidden_size")
    classes = labels(c) if classes is None else classes
    return Summary(name, Linear("summary", h, classes if c.flag("summary_proj_to_labels") else h, "", True))


def of_answers(prefix: str = "") -> Top:
    """Where an answer starts, where it ends, whether there is any."""

    def top(c: Config, base: Module) -> Module:
        h = c.size("hidden_size")
        return Answers(
            "",
            base,
            Linear(f"{prefix}start_logits.dense", h, 1, "", True),
            (
                Linear(f"{prefix}end_logits.dense_0", 2 * h, h, "", True),
                kit.norm(c, f"{prefix}end_logits.LayerNorm"),
                Linear(f"{prefix}end_logits.dense_1", h, 1, "", True),
            ),
            (
                Linear(f"{prefix}answer_class.dense_0", 2 * h, h, "", True),
                Linear(f"{prefix}answer_class.dense_1", h, 1),
            ),
            c.size("start_n_top"),
        )

    return top
