"""I-BERT: RoBERTa with what it needs to run on integers."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.component import Component
from tfcalc.core.cost import Tensor
from tfcalc.families.bert import FIRST_TOKEN, attention, embeddings, layers, pooler, stacked, with_tables
from tfcalc.families.bert_heads import ROBERTA_HEADS
from tfcalc.leaves import buffer
from tfcalc.workload import Workload

RANGE = ("x_min", "x_max", "act_scaling_factor")
"""What is kept of the activations at a place: from where to where they go, and the size of a step."""
IN_EMBEDDINGS = ("embeddings_act1", "embeddings_act2", "output_activation")
IN_LAYER = (
    *(f"attention.self.{part}_activation" for part in ("query", "key", "value", "output")),
    "attention.self.softmax.act",
    "attention.output.ln_input_act",
    "attention.output.output_activation",
    "intermediate.output_activation",
    "output.ln_input_act",
    "output.output_activation",
    "pre_intermediate_act",
    "pre_output_act",
)
STEPS = {"linear": "fc_scaling_factor", "embedding": "weight_scaling_factor", "position": "weight_scaling_factor"}


@family("ibert", architecture="IBertForMaskedLM", heads=ROBERTA_HEADS)
def ibert(c: Config, run: Workload) -> Component:
    """Kim et al. 2021 (arXiv 2101.01321): each weight is stored a second time, as an integer, whether used or not."""
    words = quantised(embeddings(c, run, *with_tables(c, run)))
    stack = quantised(layers(c, run, attention(c, run)))
    words = words._replace(parts=(*words.parts, *ranges(IN_EMBEDDINGS)))
    stack = stack._replace(parts=(*stack.parts, *ranges(IN_LAYER)))
    return Component("ibert", "encoder", parts=(words, stacked(stack), *pooler(c, run, FIRST_TOKEN)))


def quantised(part: Component) -> Component:
    """The same with an integer for each weight, and the size of a step: for each row of a map, for all of a table."""
    weights = part.own.weights
    if part.kind == "norm":
        shift = Tensor("shift", (1,), key="shift")
        kept = (shift, *(Tensor(name, (1,), key=f"activation.{name}") for name in RANGE))
    elif weights:
        steps = weights[0].shape[1] if part.kind == "linear" else 1
        integers = (Tensor(weight.name, weight.shape, key=f"{weight.key}_integer") for weight in weights)
        kept = (*integers, Tensor("steps", (steps,), key=STEPS[part.kind]))
    else:
        kept = ()
    return part._replace(own=part.own._replace(buffers=kept), parts=tuple(map(quantised, part.parts)))


def ranges(places: tuple[str, ...]) -> Iterator[Component]:
    """Those of the activations at these places."""
    for place in places:
        for name in RANGE:
            yield buffer(f"{place}.{name}", 1)
