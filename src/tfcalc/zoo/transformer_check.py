"""What no classic Transformer can be: each contradiction with the values that were given, and what would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfcalc.dimensions import check_sizes
from tfcalc.errors import InvalidModel
from tfcalc.workload import Workload, check_phase
from tfcalc.zoo.transformer import TABLES

if TYPE_CHECKING:
    from tfcalc.zoo.transformer import Transformer


def check(model: Transformer, workload: Workload) -> None:
    """Raise InvalidModel for the first thing that is wrong with ``model``, or with ``model`` on ``workload``."""
    check_sizes(model)
    check_sizes(workload)
    check_phase(workload)
    if workload.phase in ("prefill", "decode") and model.kind == "encoder":
        raise InvalidModel(f"an encoder does not generate text, so it has no {workload.phase}", "use phase forward")
    _check_heads(model.d_model, model.n_heads, model.n_kv_heads, model.head_dim)
    _check_stacks(model, workload)
    _check_vocabulary(model)
    _check_positions(model)
    _check_distances(model)
    _check_reach(model)
    _check_lengths(model.longest, workload.seq_len, workload.source_len)


def _check_heads(width: Any, heads: Any, groups: Any, head_dim: Any) -> None:
    if head_dim is None and width % heads:
        below = width // heads * heads
        nearest = ", ".join(str(size) for size in (below, below + heads) if size)
        raise InvalidModel(
            f"d_model {width} is not divisible by heads {heads}", f"nearest: {nearest}; or give head_dim"
        )
    if groups is not None and heads % groups:
        fits = ", ".join(str(size) for size in range(1, min(heads, 128) + 1) if heads % size == 0)
        raise InvalidModel(f"heads {heads} is not divisible by kv_heads {groups}", f"divisors of {heads}: {fits}")


def _check_stacks(model: Transformer, run: Workload) -> None:
    if model.kind == "encoder-decoder":
        return
    only_of_both = {
        "source_len": run.source_len,
        "target_vocab_size": model.target_vocab_size,
        "encoder_layers": None if model.kind == "encoder" else model.encoder_layers,
        "decoder_layers": None if model.kind == "decoder" else model.decoder_layers,
    }
    for name, value in only_of_both.items():
        if value is not None:
            raise InvalidModel(
                f"{name} {value} contradicts kind {model.kind!r}", "leave it out, or choose kind encoder-decoder"
            )


def _check_vocabulary(model: Transformer) -> None:
    if model.vocab_size is not None:
        return
    need_one = {
        f"target_vocab_size {model.target_vocab_size}": model.target_vocab_size is not None,
        f"max_len {model.max_len}": model.max_len is not None,
        "a tied output head": model.output_head == "tied",
        "an output bias": model.output_bias,
        "a table of learned positions": model.positions == "learned",
        "a recurrent network for positions": model.positions == "recurrent",
    }
    for what, asked in need_one.items():
        if asked:
            raise InvalidModel(f"{what} needs a vocabulary", "give vocab_size")


def _check_positions(model: Transformer) -> None:
    if model.positions == "learned" and model.max_len is None:
        raise InvalidModel("learned positions without max_len", "give max_len (BERT has 512, GPT-2 1024)")
    if model.positions not in TABLES and model.max_len is not None:
        kind = "no" if model.positions == "none" else model.positions
        raise InvalidModel(f"max_len {model.max_len} with {kind} positions", "choose positions learned or sinusoidal")
    if model.output_head == "none" and model.output_bias:
        raise InvalidModel("an output bias without an output head", "choose output_head untied or tied")


FOR_DISTANCES = ("multiplicative", "relative", "deberta")


def _check_distances(model: Transformer) -> None:
    if model.positions in FOR_DISTANCES and model.max_distance is None:
        raise InvalidModel(
            f"{model.positions} positions without max_distance", "give max_distance (Shaw et al. have 16, DeBERTa 512)"
        )
    if model.positions not in FOR_DISTANCES and model.max_distance is not None:
        raise InvalidModel(
            f"max_distance {model.max_distance} with positions {model.positions}",
            f"choose positions {', '.join(FOR_DISTANCES)}",
        )
    if model.positions != "t5" and model.buckets is not None:
        raise InvalidModel(f"buckets {model.buckets} with positions {model.positions}", "choose positions t5")
    width: Any = model.size("head_dim")
    if model.positions == "rotary" and width % 2:
        raise InvalidModel(f"head_dim {width} is odd, but rotary positions rotate pairs", f"nearest: {width + 1}")


def _check_reach(model: Transformer) -> None:
    if model.reach is not None and (model.pattern == "dense" or str(model.reach) != model.pattern.partition(":")[2]):
        raise InvalidModel(
            f"reach {model.reach} contradicts pattern {model.pattern!r}", f"give only pattern 'local:{model.reach}'"
        )


def _check_lengths(longest: Any, *lengths: Any) -> None:
    for length in lengths:
        if longest is not None and length is not None and length > longest:
            raise InvalidModel(f"seq {length} is longer than max_len {longest}", f"use at most {longest}")
