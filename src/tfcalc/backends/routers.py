"""Routers in transformers' code: every token is routed to the same number of experts."""

from __future__ import annotations

from tfcalc.backends.elementwise import activation
from tfcalc.nn.mixture import Router, SparseMixer
from tfcalc.nn.module import Routing
from tfcalc.ops.elementwise import add, pointwise, scaled, widest
from tfcalc.ops.products import linear
from tfcalc.ops.rows import log_sum_exp, softmax
from tfcalc.ops.select import gather, masked_fill, row_sums, topk
from tfcalc.ops.shapes import cat, part
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.tensor import Call, Tensor
from tfcalc.zoo.blocks.experts import RouterOfAll
from tfcalc.zoo.inkling import RouterOfShared


def routed(router: Router, x: Tensor) -> Routing:
    """Return the weights and the indices of each token's experts."""
    trace = x.trace
    assert isinstance(trace, Interpreter)
    if isinstance(router, SparseMixer):
        return _drawn_twice(router, x)
    if isinstance(router, RouterOfAll):
        return _of_all(router, x)
    if isinstance(router, RouterOfShared):
        with trace.no_autocast():
            return _with_shared(router, x)
    if router.code.exact:
        with trace.no_autocast():
            routing = _of_best(router, x) if router.best_first else _of_scores(router, x)
    else:
        routing = _of_best(router, x) if router.best_first else _of_scores(router, x)
    assert routing.logits is not None
    formats = {"": routing.weights.dtype, "logits": routing.logits.dtype, "stream": x.dtype}
    return routing._replace(weights=trace.to(routing.weights, formats[router.code.result]))


def _of_scores(router: Router, x: Tensor) -> Routing:
    """Take the largest of all scores, or, with a correction bias, gather those of the experts that it chose."""
    logits = _logits(router, x)
    scores = softmax(logits, "float32") if router.scores == "softmax" else activation(router.scores, logits)
    if router.grouped:
        scores = masked_fill(scores)
    weights, chosen = (gather if router.corrected else topk)(scores, router.chosen)
    if router.normalized:
        weights = _normalized(router, weights)
    return Routing(scaled(weights) if router.scales else weights, chosen, logits)


def _of_best(router: Router, x: Tensor) -> Routing:
    """Take the largest logits, then their softmax or sigmoid."""
    logits = _logits(router, x)
    best, chosen = (gather if router.corrected else topk)(logits, router.chosen)
    formats = {"": None, "own": best.dtype, "float32": "float32"}
    weights = (
        softmax(best, formats[router.code.softmax_in]) if router.scores == "softmax" else pointwise("sigmoid", best)
    )
    return Routing(_normalized(router, weights) if router.normalized else weights, chosen, logits)


def _logits(router: Router, x: Tensor) -> Tensor:
    """Compute the logits, in the format of the family's code."""
    trace = x.trace
    if router.code.logits != "copies":
        logits = router.forward(x)
        logits = trace.to(logits, "float32") if router.code.logits == "float32" else logits
        return scaled(pointwise("tanh", scaled(logits, "div"))) if router.code.capped else logits
    weights = [
        trace.to(trace.weight(tensor, dtype=router.code.format), "float32") for tensor in router.own_params().weights
    ]
    return linear(trace.to(x, "float32"), *weights)


def _normalized(router: Router, x: Tensor) -> Tensor:
    """Divide weights by their sum: saves both; in place, with a copy of ``x`` before."""
    trace, total = x.trace, row_sums(x)
    if router.code.least:
        return _divided(x, pointwise("clamp", total))
    if not router.code.in_place:
        return _divided(x, scaled(total))
    before = trace.new(x.shape, x.dtype, "before div_")
    return trace.call(Call("div_", (x, total), x.shape, x.dtype, saves=(before, total), shares=x.storage))


def _divided(x: Tensor, total: Tensor) -> Tensor:
    """``x / total``: saves both."""
    return x.trace.call(Call("div", (x, total), x.shape, widest(x.dtype, total.dtype), saves=(x, total)))


def _of_all(router: RouterOfAll, x: Tensor) -> Routing:
    """Llama 4's router: scores that are not among the largest are 0."""
    trace, logits = x.trace, router.forward(x)
    best, chosen = topk(logits, router.chosen)
    scores = trace.call(Call("scatter_", (best,), logits.shape, logits.dtype, saves=(chosen,)))
    return Routing(trace.to(pointwise("sigmoid", trace.to(scores, "float32")), logits.dtype), chosen, logits)


def _with_shared(router: RouterOfShared, x: Tensor) -> Routing:
    """Inkling's router: selects without a gradient; the logarithms of scores are normalized by their sum."""
    logits = _logits(router, x)
    with x.trace.without_gradients():
        pointwise("sigmoid", logits)
    weights, chosen = gather(part(logits, 1, router.fan_out - router.shared), router.chosen)
    best = pointwise("logsigmoid", cat([weights, part(logits, 1, router.shared)]))
    return Routing(pointwise("exp", add(best, log_sum_exp(best))), chosen, logits)


def _drawn_twice(router: SparseMixer, x: Tensor) -> Routing:
    """Route by transformers' ``sparsemixer`` (Phi-3.5-MoE)."""
    trace, logits = x.trace, router.forward(x)
    first, place = _drawn(logits)
    others = trace.call(Call("scatter", (logits,), logits.shape, logits.dtype, saves=(place,)))
    second, _ = _drawn(others)
    chosen = trace.new((*logits.shape[:-1], router.chosen), "int64", "experts chosen")
    return Routing(cat([first, second]), chosen, logits)


def _drawn(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one expert per token among the good ones; a torch.autograd.Function saves weights, index and gates."""
    gates = softmax(masked_fill(scores))
    weights, place = gather(gates, 1)
    saves = (weights, place, gates)
    return scores.trace.call(
        Call("multiplier", (scores, weights, gates), weights.shape, gates.dtype, saves=saves)
    ), place
