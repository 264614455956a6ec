"""Log-probabilities of tokens that were written already, and the losses of preference and policy training."""

from __future__ import annotations

from typing import Protocol

from tfcalc.core.number import Num, divide, minimum
from tfcalc.core.traced import value_of
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context
from tfcalc.number_formats import WIDTHS
from tfcalc.ops.elementwise import add, mul, pointwise, scaled, shifted
from tfcalc.ops.rows import whole_sum
from tfcalc.ops.shapes import contiguous, part, split, stack
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.tensor import Call, Tensor, Trace

TOKENS, WORDS = 4096, 32768
"""TRL's ``TOKEN_CHUNK_SIZE`` and ``_CHUNKED_LOGPROB_CHUNK_SIZE``: the tokens and the words of a tile of logits."""
ROWS, COPIES = 128, 3
"""Tokens whose entropy is computed at once: their log-softmax, its exponential, and the product of both."""
STATISTICS = 7
"""Numbers in fp32 that the tiles of a token are folded into."""


class ScoringCode(Protocol):
    """The part of a backend that log-probabilities need."""

    def begin_loss(self, trace: Trace) -> None:
        """Begin the phase of the loss."""
        ...

    def logits(self, model: ModelWithHead, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits in the model's format."""
        ...


class Scoring(NamedTuple):
    """Rules by which the tokens of a sequence are scored.

    Attributes:
        tokens: scored tokens of each sequence, the last ones; None: all but the first.
        pairs: the first half of the sequences is chosen, the other rejected (DPO); else each token has its advantage.
        in_tiles: logits are made in tiles, and made again in backward (TRL 1.16); else all of them at once.
        entropy: whether the entropy of each token is made, too.
        diverges: whether the loss has a divergence from the reference model's log-probabilities of the same tokens.
        corrected: whether it has the ratio to the log-probabilities that an engine told.
        values: the model is a critic, which makes one number of each token, and that is all that is read.
        keeps: the caller has all logits until the step is done (PPO).
        alone: nothing but the log-probabilities is made: of a model that is not trained.
        beside: bytes that the reference model's own pass takes, which runs before the loss is computed.
    """

    tokens: Num | None = None
    pairs: bool = False
    in_tiles: bool = True
    entropy: bool = True
    diverges: bool = False
    corrected: bool = False
    values: bool = False
    keeps: bool = False
    alone: bool = False
    beside: int = 0


def loss_of_scores(code: ScoringCode, scoring: Scoring, model: ModelWithHead, x: Tensor, ctx: Context) -> Tensor:
    """Compute the log-probability of each scored token, and the loss of these.

    Source: TRL's ``DPOTrainer._compute_loss`` and ``GRPOTrainer._compute_loss``, for their default losses.
    """
    length = x.shape[1] - 1
    tokens = length if scoring.tokens is None else scoring.tokens
    if scoring.values:
        return _of_values(code, scoring, model, x, tokens, ctx)
    scores = (_of_tiles if scoring.in_tiles else _of_logits)(code, scoring, model, x, tokens, ctx)
    if scoring.alone:
        return scores
    return _of_pairs(scores) if scoring.pairs else _of_policy(scoring, scores)


def _of_tiles(
    code: ScoringCode, scoring: Scoring, model: ModelWithHead, x: Tensor, tokens: Num, ctx: Context
) -> Tensor:
    """Pick the vectors of scored tokens, and compute their log-probabilities without all logits.

    Saves these vectors, the tokens, and two numbers of each.

    Source: TRL 1.16's ``add_fused_lm_head`` (trl/trainer/utils.py) and ``ChunkedLogProbFunction``
    (trl/kernels/chunked_logprob.py), with Triton.
    """
    trace = x.trace
    code.begin_loss(trace)
    batch, length = x.shape[0], x.shape[1] - 1
    x, (weight, *bias) = model.opened(x, ctx)
    labels = trace.new((batch, length + 1), "int64", "labels")
    mask = trace.new((batch, length), "bool", "mask of scored tokens")
    count = batch * tokens
    before = part(x, 1, length)
    rows = trace.call(Call("index", (before,), (count, x.width), x.dtype, saves=(mask,)))
    targets = trace.new((count,), "int64", "scored tokens")
    per_token = [trace.new((count,), "float32", name) for name in ("log Z", *["entropy"] * scoring.entropy)]
    _tile(rows, weight)
    inputs = (rows, weight, *bias)
    scores = trace.call(
        Call(
            "log_probs",
            inputs,
            (count,),
            "float32",
            saves=(rows, targets, *per_token),
            scratch=_in_backward(rows, weight),
        )
    )
    del rows, targets, per_token, inputs, weight, bias, before
    told = trace.call(Call("masked_scatter", (scores,), (batch, length), "float32", saves=(mask,)))
    del labels, mask
    return told if scoring.pairs else part(told, 1, tokens)


def _tile(rows: Tensor, weight: Tensor) -> None:
    """Allocate and free what the tiles take in forward: a tile of logits, and the statistics of each token."""
    trace = rows.trace
    kind = trace.compute
    tokens = minimum(rows.shape[0], TOKENS)
    buffers = [
        trace.new((STATISTICS, rows.shape[0]), "float32", "statistics"),
        trace.new((tokens, WORDS), kind, "tile of logits"),  # as wide where there are fewer words
    ]
    if weight.dtype != kind:
        buffers.append(trace.new((2, minimum(weight.shape[1], WORDS), rows.width), kind, "words in autocast"))
    if rows.dtype != kind:
        buffers.append(trace.new((tokens, rows.width), kind, "tokens in autocast"))
    del buffers  # all live at once, until here


def _in_backward(rows: Tensor, weight: Tensor) -> Num:
    """Bytes that its backward takes beside the gradients: sums in fp32, where these have another format; and a tile."""
    kind = rows.trace.compute
    tokens, width = minimum(rows.shape[0], TOKENS), WIDTHS[kind]
    scratch: Num = tokens * WORDS * width
    if weight.dtype != kind:
        scratch += 2 * minimum(weight.shape[1], WORDS) * rows.width * width
    if rows.dtype != kind:
        scratch += tokens * rows.width * width
    for each in (rows, weight):
        if each.dtype != "float32" and each.needs_gradient:
            scratch += each.elements * WIDTHS["float32"]
    return scratch


def _of_logits(
    code: ScoringCode, scoring: Scoring, model: ModelWithHead, x: Tensor, tokens: Num, ctx: Context
) -> Tensor:
    """Compute all logits of scored tokens, and of each sequence the log-probabilities.

    Of logits in fp32, as those are that accelerate returns under autocast, by their log-sum-exp; of others by a
    log-softmax, which is saved.

    Source: TRL's ``selective_log_softmax`` until 1.8 (trl/trainer/utils.py); ``DPOTrainer._compute_loss``, which has
    the logits of all tokens; ``GRPOTrainer._get_per_token_logps``, which divides them by a temperature; ``PPOTrainer``,
    which does so in place.
    """
    trace = x.trace
    assert isinstance(trace, Interpreter)
    batch = value_of(x.shape[0])
    if not (scoring.pairs or scoring.keeps):
        x = part(x, 1, tokens + 1)
    logits = code.logits(model, x, ctx)
    logits = trace.upper(logits)
    code.begin_loss(trace)
    scored = part(logits, 1, logits.shape[1] - 1 if scoring.pairs else tokens)
    if scoring.keeps and not scoring.alone:
        trace.outputs.append(logits)
    elif not scoring.pairs:
        del logits
        scored = scaled(scored, "div")
    length = scored.shape[1]
    rows = split(scored, [1] * int(batch), 0)
    if scored.dtype == "float32":
        picked = trace.call(Call("gather", (scored,), (batch, length), "float32"))
        sums = stack([_log_sum_exp(row) for row in rows], (batch, length))
        scores = add(picked, sums)
        del picked, sums
    else:
        scores = stack([_picked(pointwise("log_softmax", row)) for row in rows], (batch, length))
    if scoring.pairs:
        trace.outputs.append(scored)
    return scores


def _of_values(
    code: ScoringCode, scoring: Scoring, model: ModelWithHead, x: Tensor, tokens: Num, ctx: Context
) -> Tensor:
    """``max((V − R)², (clip(V) − R)²)`` of a critic's value of each completion's token, averaged (TRL's PPOTrainer)."""
    trace = x.trace
    code.begin_loss(trace)
    values = part(code.logits(model, x, ctx), 1, tokens)
    if scoring.alone:
        return values
    values = trace.to(values, "float32")
    both = [pointwise("square", _copied(each)) for each in (values, pointwise("clamp", values))]
    worse = trace.call(Call("maximum", tuple(both), values.shape, values.dtype, saves=tuple(both)))
    return whole_sum(worse, worse.dtype)


def _log_sum_exp(row: Tensor) -> Tensor:
    """Compute the log-sum-exp of each token: saves the logits and the result; its backward has two further copies."""
    scratch = 2 * row.elements * WIDTHS[row.dtype]
    call = Call("logsumexp", (row,), row.shape[:-1], row.dtype, saves=(row,), saves_result=True, scratch=scratch)
    return row.trace.call(call)


def _picked(row: Tensor) -> Tensor:
    return row.trace.call(Call("gather", (row,), row.shape[:-1], row.dtype))


def after_scores(scoring: Scoring, trace: Interpreter) -> None:
    """Run the reference model over the pairs, where all logits were made while the caller has them.

    It runs when the trained model's pass has ended, before the loss, which takes two numbers of each pair. Of all
    logits the entropy is told, of a copy and a few rows at a time, while the caller has those of the reference, too.

    Source: ``DPOTrainer._compute_loss`` and ``entropy_from_logits`` of TRL 1.8.
    """
    tracker = trace.tape.tracker
    if scoring.beside:
        tracker.begin("reference")
        tracker.needed(scoring.beside)
    if trace.outputs:
        tracker.begin("entropy")
        (logits,) = trace.outputs
        trace.outputs.clear()
        shape = logits.shape[0], logits.shape[1] + 1, logits.width
        others = trace.new(shape, logits.dtype, "reference's logits") if scoring.beside else None
        with trace.without_gradients():
            copy = contiguous(logits)
        tracker.needed(COPIES * ROWS * logits.width * WIDTHS[logits.dtype])
        del logits, copy, others


def _of_pairs(scores: Tensor) -> Tensor:
    """``−log σ(β (Δ_chosen − Δ_rejected))``, where Δ is what the reference model's log-probability is above by."""
    trace, batch = scores.trace, scores.shape[0]
    sums = trace.call(Call("sum", (scores,), (batch,), scores.dtype))
    chosen, rejected = split(sums, [divide(batch, 2)] * 2, 0)
    margin = scaled(add(chosen, rejected))
    return whole_sum(pointwise("log_sigmoid", margin), margin.dtype)


def _of_policy(scoring: Scoring, scores: Tensor) -> Tensor:
    """``−min(r A, clip(r) A)`` of each token, where r is the ratio to the policy that has written it; averaged."""
    trace = scores.trace
    ratio = pointwise("exp", _copied(scores))
    advantages = trace.new((scores.shape[0], 1), "float32", "advantages")
    clipped = trace.call(Call("clamp", (ratio,), ratio.shape, ratio.dtype, saves=(ratio,)))
    both = [trace.call(Call("mul", (one,), one.shape, one.dtype, saves=(advantages,))) for one in (ratio, clipped)]
    loss = trace.call(Call("minimum", tuple(both), ratio.shape, ratio.dtype, saves=tuple(both)))
    del clipped, both
    if scoring.diverges:
        divergence = shifted(pointwise("exp", _copied(scores)), "- 1")
        loss = add(loss, scaled(mul(divergence, ratio)))
        del divergence
    if scoring.corrected:
        told = trace.new(scores.shape, "float32", "ratio to the engine's")
        loss = trace.call(Call("mul", (loss,), loss.shape, loss.dtype, saves=(told,)))
        del told
    mask = trace.new(scores.shape, "int64", "mask of completions")
    loss = trace.call(Call("mul", (loss,), loss.shape, loss.dtype, saves=(mask,)))
    return whole_sum(loss, loss.dtype)


def _copied(scores: Tensor) -> Tensor:
    """Subtract what is given: saves nothing."""
    return scores.trace.call(Call("sub", (scores,), scores.shape, scores.dtype))
