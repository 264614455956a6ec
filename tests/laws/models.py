"""Random classic Transformers, over every structural alternative."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from tfcalc import Transformer, Workload
from tfcalc.families.transformer import FINAL_NORMS, KINDS, OUTPUT_HEADS, POSITIONS
from tfcalc.leaves import ACTIVATIONS, NORMS
from tfcalc.workload import KERNELS, PAIRS, PHASES


def sizes(largest: int = 64) -> st.SearchStrategy[int]:
    return st.integers(1, largest)


@st.composite
def models(draw: st.DrawFn) -> Transformer:
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
    )
    if model.kind == "encoder-decoder":
        model = replace(model, encoder_layers=draw(st.none() | sizes(9)), decoder_layers=draw(st.none() | sizes(9)))
    if draw(st.booleans()):
        apart = model.kind == "encoder-decoder" and draw(st.booleans())
        positions = draw(st.sampled_from(POSITIONS))
        head = draw(st.sampled_from(OUTPUT_HEADS))
        model = replace(
            model,
            vocab_size=draw(sizes(1000)),
            target_vocab_size=draw(sizes(1000)) if apart else None,
            positions=positions,
            max_len=None if positions == "none" else draw(st.integers(64, 128)),
            output_head=head,
            output_bias=head != "none" and draw(st.booleans()),
        )
    return model


@st.composite
def runs(draw: st.DrawFn, model: Transformer) -> Workload:
    """A workload that the model can run."""
    return Workload(
        batch_size=draw(sizes(9)),
        seq_len=draw(sizes(64)),
        source_len=draw(st.none() | sizes(64)) if model.kind == "encoder-decoder" else None,
        phase=draw(st.sampled_from(PHASES)),
        attention=draw(st.sampled_from(PAIRS)),
        kernel=draw(st.sampled_from(KERNELS)),
    )


models_and_runs = models().flatmap(lambda model: st.tuples(st.just(model), runs(model)))
