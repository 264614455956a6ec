"""The totals of one model that is compared: its sizes, parameters, FLOPs and bytes, each by its quantity."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tfcalc.analysis.facts import facts
from tfcalc.analysis.numbers import Unknown, known, per_token, serving_and_cache
from tfcalc.answers.flops import flops
from tfcalc.answers.memory import memory
from tfcalc.answers.params import params
from tfcalc.model import default_run
from tfcalc.plans import Serving
from tfcalc.serving.memory import at_work, kv_bytes_per_token, serving_context, weights_bytes

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.workload import Workload

KINDS = {"ffn": "feed-forward", "ssm": "state-space", "output": "output head", "norm": "norms"}
EMBEDDINGS = ("embedding", "position")
"""The kinds that embedding_params are, together."""

Value = int | float | str | Unknown | None
Groups = tuple[dict["Quantity", Value], ...]
"""What there is of a model, in three groups: sizes; parameters; FLOPs and bytes."""


class Operand(NamedTuple):
    """One of those that are compared: a model, and how it is run, trained and served; ``name`` heads its column.

    ``workload`` None is that of the comparison. Without a ``training`` or a ``serving`` plan there is no such row.
    """

    name: str
    model: Model
    workload: Workload | None = None
    training: Training | None = None
    serving: Serving | None = None


class Quantity(NamedTuple):
    """Its key in the JSON, what it is called, and its unit: params, flops, bytes, or "" of sizes and names.

    A ``part`` is one of what stands above it.
    """

    key: str
    called: str
    unit: str = ""
    part: bool = False


FACTS = {
    "family": "family",
    "layers": "layers",
    "encoder_layers": "encoder layers",
    "decoder_layers": "decoder layers",
    "hidden_size": "hidden size",
    "heads": "heads",
    "kv_heads": "KV heads",
    "head_dim": "head size",
    "ffn_size": "FFN size",
    "experts": "experts",
    "active_experts": "active experts",
    "expert_size": "expert FFN size",
    "vocab_size": "vocabulary",
    "context": "context",
    "dtype": "number format",
}
"""What the sizes are called, in the order of the table."""
PARAMS = 1
TOTAL = Quantity("total_params", "parameters", "params")
ACTIVE = Quantity("active_params", "active parameters", "params")
EMBEDDING = Quantity("embedding_params", "embedding", "params", part=True)
FORWARD = Quantity("forward_flops_per_token", "forward FLOPs/token", "flops")
WEIGHTS = Quantity("weights_bytes", "weights", "bytes")
KV = Quantity("kv_cache_bytes_per_token", "KV cache per token", "bytes")
CACHE = Quantity("kv_cache_bytes", "KV cache at context", "bytes")
PEAK = Quantity("training_peak_bytes", "training memory", "bytes")
SERVED = Quantity("serving_peak_bytes", "serving memory", "bytes")


def totals(operand: Operand, workload: Workload) -> Groups:
    """In three groups: sizes; parameters; FLOPs and bytes."""
    model, once = operand.model, workload.replaced(phase="forward", recompute="none", kernel="auto", dropout=True)
    model.check(once)
    serving = Serving(context=serving_context(model, once))
    kv = known(lambda: kv_bytes_per_token(model, default_run(model), serving), "none")
    its = facts(model, model.tree(at_work(default_run(model), serving) if isinstance(kv, int) else once))
    counted = params(model)
    kinds = {kind: count for kind, count in counted.by_kind().items() if kind not in EMBEDDINGS}
    whole = {each: counted.totals[each.key] for each in (TOTAL, ACTIVE, EMBEDDING)}
    return (
        {Quantity(key, called): getattr(its, key) for key, called in FACTS.items()},
        {
            **whole,
            **{Quantity(f"{kind}_params", KINDS.get(kind, kind), "params", part=True): kinds[kind] for kind in kinds},
        },
        {
            FORWARD: per_token(flops(model, once)),
            Quantity("training_flops_per_token", "training FLOPs/token", "flops"): per_token(
                flops(model, once.replaced(phase="train"))
            ),
            WEIGHTS: weights_bytes(model, model.tree(once)),
            KV: kv,
            CACHE: serving_and_cache(model, serving)[1],
            **_memory(operand, workload),
        },
    )


def _memory(operand: Operand, workload: Workload) -> dict[Quantity, Value]:
    """The peaks of training and of serving, where there are plans of them."""
    model, training, serving = operand.model, operand.training, operand.serving
    found: dict[Quantity, Value] = {}
    if training is not None:
        found[PEAK] = known(lambda: memory(model, workload, training=training).answer, "not known")
    if serving is not None:
        found[SERVED] = known(lambda: memory(model, serving=serving).answer, "not known")
    return found
