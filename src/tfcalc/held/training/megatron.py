"""Activation memory as Korthikanti et al. 2022 (arXiv 2205.05198) state it: a list of tensors, each named once.

The rows of the paper's table 2 stand nowhere here: they come out of the list, by what the devices share and by what is
computed again. "We only consider the main contributors and ignore small buffers" (section 4): no mean and variance of a
norm, nothing of the embeddings but their dropout; 16-bit numbers, dropout masks of one byte, logits of four.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Held
from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.errors import one_of
from tfcalc.held.training.megatron_sizes import Placement, Sizes, check, sizes_of
from tfcalc.model import Model

NUMBER, MASK, LOGIT = 16, 8, 32
"""Bits of an activation, of a dropout mask's element, of a logit."""

KINDS = {"attention": "attention", "mlp": "ffn"}
RECOMPUTED = ("none", "selective", "full")


def activations(
    model: Model | Sizes,
    *,
    batch: Num,
    seq: Num,
    tensor: Num = 1,
    sequence_parallel: bool = False,
    recompute: str = "none",
    pipeline: Num = 1,
    interleave: Num = 1,
    stage: Num = 0,
    dropout: bool = True,
    scattered: bool = False,
) -> Component:
    """What one device holds for the backward pass; its bytes are ``.total(bytes_held)``.

    ``batch`` is the size of a micro-batch, ``stage`` counts from 0, which holds most. ``dropout`` is that of the paper:
    on attention's probabilities, after attention, after the MLP and after the embedding. With full recomputation each
    device keeps the whole input of each layer, ``2sbh``, as in table 2; ``scattered``, only its share of it,
    ``2sbh/t``, which "requires an extra all-gather per layer" (section 5).

    >>> from tfcalc.core.measure import bytes_held
    >>> gpt_3 = Sizes(d_model=12288, n_heads=96, n_layers=96)
    >>> first = activations(gpt_3, batch=1, seq=2048, tensor=8, recompute="full", pipeline=8, interleave=3)
    >>> first.parts[1].total(bytes_held) / 2**30
    5.8125
    """
    recompute = one_of("recompute", recompute, RECOMPUTED)
    sizes = model if isinstance(model, Sizes) else sizes_of(model, seq)
    at = Placement(tensor, sequence_parallel, pipeline, interleave, stage)
    check(sizes, batch, seq, at, splits_sequence=sequence_parallel or scattered)
    parts = (
        *_embedding(sizes, batch, seq, at, dropout),
        _layers(sizes, batch, seq, at, recompute, dropout, scattered),
        *_output(sizes, batch, seq, at),
    )
    return _part("activations", *parts)


def layer(
    sizes: Sizes,
    batch: Num,
    seq: Num,
    at: Placement | None = None,
    *,
    recompute: str = "none",
    dropout: bool = True,
    scattered: bool = False,
) -> Component:
    """One layer, for one micro-batch (section 4.1, table 2).

    ====================================  ======================================
    tensor parallel                       ``sbh(10 + 24/t + 5as/ht)``
    and sequence parallel                 ``sbh(34/t + 5as/ht)``
    selective recomputation               these without ``5as/ht``
    full recomputation                    ``2sbh``
    ====================================  ======================================

    >>> from tfcalc.core.measure import bytes_held
    >>> from tfcalc.core.polynomial import symbols
    >>> a, b, h, s = symbols("a b h s")
    >>> layer(Sizes(h, a, 1), b, s).total(bytes_held)
    34*b*h*s + 5*a*b*s^2
    """
    at = at or Placement()
    if recompute == "full":
        kept = at.share(seq) if scattered else seq
        return _part("layer", _tensor("input", batch, kept, sizes.d_model))
    tokens = (batch, at.along(seq), sizes.d_model)
    return _part(
        "layer",
        _tensor("attention_norm.input", *tokens),
        _attention(sizes, batch, seq, at, recompute, dropout),
        _tensor("mlp_norm.input", *tokens),
        _mlp(sizes, batch, seq, at, dropout),
    )


def _attention(sizes: Sizes, batch: Num, seq: Num, at: Placement, recompute: str, dropout: bool) -> Component:
    """``11sbh + 5as²b``: 3sbh of it outside of what tensor parallelism splits; grouped keys and values are narrower.

    Selective recomputation does without the tensors between Q Kᵀ and the product with the values (figure 3).
    """
    tokens = (batch, at.along(seq), sizes.d_model)
    of_queries = (batch, seq, at.share(sizes.n_heads), sizes.width)
    of_keys = (batch, seq, at.share(sizes.groups), sizes.width)
    scores = (batch, at.share(sizes.n_heads), seq, seq)
    return _part(
        "attention",
        _tensor("input", *tokens),
        _tensor("queries", *of_queries),
        _tensor("keys", *of_keys),
        *(() if recompute == "selective" else _probabilities(scores, dropout)),
        _tensor("values", *of_keys),
        _tensor("projection.input", *of_queries),
        *_mask(tokens, dropout),
    )


def _probabilities(scores: tuple[Num, ...], dropout: bool) -> Iterator[Component]:
    """``5as²b``: without dropout it is the softmax's output itself that weighs the values."""
    yield _tensor("softmax.output", *scores)
    if dropout:
        yield _tensor("softmax_dropout.mask", *scores, bits=MASK)
        yield _tensor("softmax_dropout.output", *scores)


def _mlp(sizes: Sizes, batch: Num, seq: Num, at: Placement, dropout: bool) -> Component:
    """``19sbh``: ``3sbh + 4sbf``, and the first 3sbh outside of what tensor parallelism splits.

    The activation keeps its input. That of a gated network has two, the gate and what it gates, and keeps nothing
    between them, for Megatron-LM computes it as one operation (``SwiGLUFunction``): ``3sbh + 6sbf``.
    """
    tokens = (batch, at.along(seq), sizes.d_model)
    inner = (batch, seq, at.share(sizes.inner))
    return _part(
        "mlp",
        _tensor("input", *tokens),
        *([_tensor("activation.gate", *inner)] if sizes.gated else []),
        _tensor("activation.input", *inner),
        _tensor("projection.input", *inner),
        *_mask(tokens, dropout),
    )


def _layers(
    sizes: Sizes, batch: Num, seq: Num, at: Placement, recompute: str, dropout: bool, scattered: bool
) -> Component:
    """The layers of a chunk, once for each micro-batch whose backward pass is still to come (section 4.2.3)."""
    one = layer(sizes, batch, seq, at, recompute=recompute, dropout=dropout, scattered=scattered)
    of_a_chunk = one._replace(copies=divide(sizes.n_layers, at.chunks))
    return _part("chunk", of_a_chunk)._replace(copies=at.chunks_in_flight)


def _embedding(sizes: Sizes, batch: Num, seq: Num, at: Placement, dropout: bool) -> Iterator[Component]:
    """``sbhp/t`` on the first stage: a mask for each of p micro-batches, interleaved or not (section 4.3)."""
    if at.first and dropout:
        mask = _tensor("embedding_dropout.mask", batch, at.along(seq), sizes.d_model, bits=MASK)
        yield mask._replace(copies=at.pipeline)


def _output(sizes: Sizes, batch: Num, seq: Num, at: Placement) -> Iterator[Component]:
    """``4sbh/t (1 + v/h)`` on the last stage, where one micro-batch is at this point at a time (section 4.3).

    The devices share the vocabulary; where it does not divide, this is the one with the largest share.
    """
    if not at.last:
        return
    tokens = (batch, at.along(seq), sizes.d_model)
    if sizes.final_norm:
        yield _tensor("final_norm.input", *tokens)
    if sizes.vocab_size is not None:
        yield _tensor("output.input", *tokens)
        yield _tensor("logits", batch, seq, _largest_share(sizes.vocab_size, at.tensor), bits=LOGIT)


def _largest_share(whole: Num, parts: Num) -> Num:
    """``⌈v/t⌉``; by a symbol it divides, as in the paper."""
    share: Num = divide(whole, parts) if hasattr(parts, "free_symbols") else ceil_div(whole, parts)
    return share


def _mask(tokens: tuple[Num, ...], dropout: bool) -> Iterator[Component]:
    if dropout:
        yield _tensor("dropout.mask", *tokens, bits=MASK)


def _tensor(name: str, *factors: Num, bits: int = NUMBER) -> Component:
    return Component(name, "memory", Cost(held=(Held(name, factors, bits),)))


def _part(name: str, *parts: Component) -> Component:
    return Component(name, KINDS.get(name, "memory"), parts=parts)
