"""Random classic Transformers, over every structural alternative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from tfcalc import Transformer, Workload
from tfcalc.ops.work import ACTIVATIONS, NORMS
from tfcalc.workload import KERNELS, PAIRS, PHASES
from tfcalc.zoo.transformer import (
    FINAL_NORMS,
    FOR_DISTANCES,
    INSIDE_ATTENTION,
    KINDS,
    OUTPUT_HEADS,
    PATTERNS,
    POSITIONS,
    TABLES,
)


def sizes(largest: int = 64) -> st.SearchStrategy[int]:
    return st.integers(1, largest)


@st.composite
def models(draw: st.DrawFn, positions: Sequence[str] = POSITIONS, patterns: Sequence[str] = PATTERNS) -> Transformer:
    """A model whose sizes are unlikely to coincide by accident."""
    groups, per_group, width = draw(sizes(4)), draw(sizes(4)), draw(sizes(16))
    heads = groups * per_group
    model = Transformer(
        d_model=heads * width,
        n_heads=heads,
        n_kv_heads=draw(st.sampled_from([None, groups])),
        n_layers=draw(sizes(9)),
        d_ff=draw(st.none() | sizes(300)),
        head_dim=draw(st.none() | sizes(40)),
        value_dim=draw(st.none() | sizes(40)),
        kind=draw(st.sampled_from(KINDS)),
        attention_bias=draw(st.booleans()),
        ffn_bias=draw(st.booleans()),
        pre_norm=draw(st.booleans()),
        norm=draw(st.sampled_from(sorted(NORMS))),
        final_norm=draw(st.sampled_from(FINAL_NORMS)),
        activation=draw(st.sampled_from(sorted(ACTIVATIONS))),
        pattern=draw(st.sampled_from(patterns)).replace("N", str(draw(sizes(70)))),
    )
    if model.kind == "encoder-decoder":
        model = replace(model, encoder_layers=draw(st.none() | sizes(9)), decoder_layers=draw(st.none() | sizes(9)))
    inside = draw(st.sampled_from([None, *(kind for kind in positions if kind in INSIDE_ATTENTION)]))
    if inside:
        model = replace(
            model,
            positions=inside,
            head_dim=2 * draw(sizes(20)) if inside == "rotary" else model.head_dim,
            max_distance=draw(sizes(70)) if inside in FOR_DISTANCES else None,
            buckets=draw(st.none() | sizes(40)) if inside == "t5" else None,
        )
    if draw(st.booleans()):
        apart = model.kind == "encoder-decoder" and draw(st.booleans())
        before = [kind for kind in positions if kind not in INSIDE_ATTENTION]
        chosen = inside or draw(st.sampled_from(before))
        head = draw(st.sampled_from(OUTPUT_HEADS))
        model = replace(
            model,
            vocab_size=draw(sizes(1000)),
            target_vocab_size=draw(sizes(1000)) if apart else None,
            positions=chosen,
            max_len=draw(st.integers(64, 128)) if chosen in TABLES else None,
            output_head=head,
            output_bias=head != "none" and draw(st.booleans()),
        )
    return model


@st.composite
def runs(draw: st.DrawFn, model: Transformer) -> Workload:
    """A workload that the model can run."""
    phase = draw(st.sampled_from(("forward", "train") if model.kind == "encoder" else PHASES))
    recompute = draw(st.sampled_from(("none", "selective", "full", "every:2"))) if phase == "train" else "none"
    return Workload(
        batch_size=draw(sizes(9)),
        seq_len=draw(sizes(64)),
        source_len=draw(st.none() | sizes(64)) if model.kind == "encoder-decoder" else None,
        cached=draw(sizes(64)) if phase == "decode" else None,
        phase=phase,
        logits=draw(st.sampled_from(("all", "last"))),
        attention=draw(st.sampled_from(PAIRS)),
        kernel=draw(st.sampled_from(KERNELS)),
        recompute=recompute,
        early_stop=recompute in ("full", "every:2") and draw(st.booleans()),
        dropout=draw(st.booleans()),
        input_gradient=draw(st.booleans()),
    )


models_and_runs = models().flatmap(lambda model: st.tuples(st.just(model), runs(model)))
