"""Activation memory against Korthikanti et al. 2022 (arXiv 2205.05198): table 2 for the models of table 3."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfcalc import InvalidModel, UsageError, Workload, load
from tfcalc.core.component import Component
from tfcalc.core.measure import bytes_held
from tfcalc.core.number import divide
from tfcalc.core.polynomial import symbols
from tfcalc.model import Model
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Decoder, ModelWithHead
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.placed.layout import Layout
from tfcalc.placed.rules import on_device as piece_of
from tfcalc.plans import Training
from tfcalc.training.megatron import MegatronStep, saved_on_device
from tfcalc.training.peaks import Peaks
from tfcalc.zoo.transformer import Transformer

GIB = 2**30
S, V, T = 2048, 51200, 8  # section 6: sequence length, vocabulary and tensor parallel size of all four models


class Sizes(NamedTuple):
    """A GPT as figure 2 of the paper has it; without ``vocab_size`` the stack alone, behind an embedding."""

    d_model: Any
    n_heads: Any
    n_layers: Any
    vocab_size: Any = None
    d_ff: Any = None
    n_kv_heads: Any = None
    gated: bool = False
    final_norm: bool = True

    @property
    def module(self) -> Module:
        h, a = self.d_model, self.n_heads
        g, d, f = self.n_kv_heads or a, divide(h, a), self.d_ff or 4 * h
        inward = tuple(Linear(name, h, heads * d, name, True) for name, heads in (("Q", a), ("K", g), ("V", g)))
        attention = Attention("attention", a, g, d, d, inward, (), Linear("projection", a * d, h, "O", True))
        up, down = Linear("up", h, f, "1", True), Linear("down", f, h, "2", True)
        mlp: Module = FeedForward("mlp", up, down, "gelu")
        if self.gated:
            mlp = GatedFeedForward("mlp", Linear("gate", h, f, "g"), up, down, "silu")
        norms = Norm("attention_norm", "layernorm", h), Norm("mlp_norm", "layernorm", h)
        stack = Stack("layer", (PreNorm("layer", (attention, mlp), norms),), self.n_layers)
        words = Embedding("words", 1 if self.vocab_size is None else self.vocab_size, h)
        base = Decoder("model", words, stack, Norm("final_norm", "layernorm", h) if self.final_norm else None)
        if self.vocab_size is None:
            return base
        return ModelWithHead("GPT", base, Linear("output", h, self.vocab_size, "vocab", kind="output"))


def activations(
    model: Model | Sizes,
    *,
    batch: Any,
    seq: Any,
    tensor: Any = 1,
    sequence_parallel: bool = False,
    recompute: str = "none",
    pipeline: Any = 1,
    interleave: Any = 1,
    stage: Any = 0,
    dropout: bool = True,
) -> Component:
    """What one device keeps of a training step, which is run."""
    at = Layout(tensor, sequence_parallel, pipeline, interleave, stage)
    piece = piece_of(model.module if isinstance(model, Sizes) else model.module(), at)
    run = Workload(phase="train", batch_size=batch, seq_len=seq, recompute=recompute, dropout=dropout)
    (tree,) = piece.components()
    return saved_on_device(piece, tree, run, at)


def layer(sizes: Sizes, batch: Any, seq: Any, *at: Any, **how: Any) -> Component:
    """One layer of a device."""
    tensor, sequence_parallel = at or (1, False)
    sizes = sizes._replace(n_layers=1)
    whole = activations(sizes, batch=batch, seq=seq, tensor=tensor, sequence_parallel=sequence_parallel, **how)
    return next(node.component for node in whole.walk() if node.component.kind == "layer")


class Trained(NamedTuple):
    """A row of table 3, with the interleaving stages of section 6."""

    a: int
    h: int
    L: int
    p: int
    m: int
    b: int

    @property
    def sizes(self) -> Sizes:
        return Sizes(d_model=self.h, n_heads=self.a, n_layers=self.L, vocab_size=V)


TABLE_3 = {
    "22B": Trained(64, 6144, 48, 1, 1, 4),
    "175B": Trained(96, 12288, 96, 8, 3, 1),
    "530B": Trained(128, 20480, 105, 35, 3, 1),
    "1T": Trained(160, 25600, 128, 64, 1, 1),
}
TABLE_2: dict[str, tuple[dict[str, Any], Any, tuple[float, ...]]] = {
    # how, bytes per layer and sbh as the paper has them, GiB of these models at four decimals
    "tensor": (
        {},
        lambda x: 10 + Fraction(24, T) + Fraction(5 * x.a * S, x.h * T),
        (59.25, 66.84375, 114.0234, 131.25),
    ),
    "tensor + sequence": (
        {"sequence_parallel": True},
        lambda x: Fraction(34, T) + Fraction(5 * x.a * S, x.h * T),
        (39.5625, 41.4141, 66.5137, 76.5625),
    ),
    "tensor, selective": (
        {"recompute": "selective"},
        lambda _: 10 + Fraction(24, T),
        (29.25, 37.7813, 70.5859, 81.25),
    ),
    "tensor + sequence, selective": (
        {"sequence_parallel": True, "recompute": "selective"},
        lambda _: Fraction(34, T),
        (9.5625, 12.3516, 23.0762, 26.5625),
    ),
    "full": ({"recompute": "full"}, lambda _: 2, (4.5, 5.8125, 10.8594, 12.5)),
}


def on_device(name: str, **how: Any) -> Component:
    x = TABLE_3[name]
    pipeline = {"pipeline": x.p, "interleave": x.m}
    return activations(x.sizes, batch=x.b, seq=S, tensor=T, **{**pipeline, **how})


def part(component: Component, name: str) -> Any:
    """The bytes of a part, with its copies; 0 where there is none."""
    found: Any = 0
    for node in component.walk():
        if node.component.name == name:
            found += node.times.stored * node.component.each(bytes_held)
    return found


def chunk(component: Component) -> Any:
    """The bytes of the layers: "we will use equation 5 in the rest of this paper", without embedding and output."""
    return part(component, "chunk")


def whole(component: Component) -> Any:
    return component.total(bytes_held)


@pytest.mark.parametrize("name", TABLE_3)
@pytest.mark.parametrize("row", TABLE_2)
def test_every_row_of_table_2_comes_out_of_the_trace(row: str, name: str) -> None:
    how, per_sbh, printed = TABLE_2[row]
    x, held = TABLE_3[name], chunk(on_device(name, **how))
    interleaved = 1 + Fraction(x.p - 1, x.p * x.m) if x.m > 1 else 1
    assert held == S * x.b * x.h * per_sbh(x) * x.L * interleaved
    assert held / GIB == pytest.approx(printed[list(TABLE_3).index(name)], abs=5.1e-5)


def test_the_layer_is_equation_1_in_letters() -> None:
    a, b, h, s, f, g = symbols("a b h s f g")
    assert layer(Sizes(h, a, 1), b, s).total(bytes_held) == s * b * (34 * h + 5 * a * s)
    # the sums of section 4.1, block by block
    parts: dict[str, Any] = {one.name: one.total(bytes_held) for one in layer(Sizes(h, a, 1), b, s).parts}
    masks = parts["itself"] // 2  # of dropout, which stands in the layer, behind each block
    assert parts["attention"] + masks == 11 * s * b * h + 5 * a * s * s * b
    assert parts["mlp"] + masks == 19 * s * b * h
    assert parts["attention_norm"] + parts["mlp_norm"] == 4 * s * b * h
    wide: dict[str, Any] = {one.name: one.total(bytes_held) for one in layer(Sizes(h, a, 1, d_ff=f), b, s).parts}
    assert wide["mlp"] + s * b * h == 3 * s * b * h + 4 * s * b * f
    grouped = layer(Sizes(h, a, 1, n_kv_heads=g), b, s).total(bytes_held)
    assert grouped + 4 * s * b * h == s * b * (34 * h + 5 * a * s) + 4 * s * b * g * (h / a)


def test_tensor_and_sequence_parallelism_are_equations_2_and_4_in_letters() -> None:
    a, b, h, s, t = symbols("a b h s t")

    def held(sequence_parallel: bool, recompute: str = "none") -> Any:
        return layer(Sizes(h, a, 1), b, s, t, sequence_parallel, recompute=recompute).total(bytes_held)

    sbh, scores = s * b * h, 5 * a * s * s * b / t
    assert held(False) == 10 * sbh + 24 * sbh / t + scores
    assert held(True) == 34 * sbh / t + scores
    assert held(False, "selective") == 10 * sbh + 24 * sbh / t
    assert held(True, "selective") == 34 * sbh / t
    assert held(False, "full") == 2 * sbh
    assert (
        held(True, "full") == 2 * sbh / t
    )  # what a layer reads is shared out (section 5: "a portion of the activations")


def test_pipelining_is_that_of_section_4_2_3_in_letters() -> None:
    a, b, h, s, L, p, m = symbols("a b h s L p m")
    one = s * b * (34 * h + 5 * a * s)

    def held(**how: Any) -> Any:
        return chunk(activations(Sizes(h, a, L), batch=b, seq=s, pipeline=p, **how))

    assert held() == L * one
    assert held(interleave=m) == one * (L + (p - 1) * L / (p * m))
    assert held(stage=symbols("S")[0]) == (p - symbols("S")[0]) * (L / p) * one  # appendix C: p − S in flight


@pytest.mark.parametrize("m", [2, 3])
def test_layers_that_differ_in_their_windows_are_interleaved_likewise(m: int) -> None:
    """GPT-Neo's see everything and 256 tokens by turns, which a softmax of all scores does not tell."""
    alone, interleaved = (
        chunk(activations(load("gpt-neo-1.3b"), batch=1, seq=512, tensor=2, pipeline=4, interleave=chunks))
        for chunks in (1, m)
    )
    assert 4 * m * interleaved == (4 * m + 3) * alone


def test_outside_the_layers_stands_what_section_4_3_adds() -> None:
    """``sbhp/t``, and ``4sbh/t (1 + v/h)`` only where the pipeline has one stage; below 1 % of the whole for 22B."""
    x, held = TABLE_3["22B"], on_device("22B", sequence_parallel=True)
    sbh = S * x.b * x.h
    outside = whole(held) - chunk(held)
    assert outside == sbh // T + 4 * sbh // T + 4 * S * x.b * V // T
    assert outside < 0.01 * whole(held)
    x, held = TABLE_3["1T"], on_device("1T", sequence_parallel=True)
    assert whole(held) - chunk(held) == S * x.h * x.p // T
    last = on_device("1T", sequence_parallel=True, stage=x.p - 1)
    assert part(last, "final_norm") == part(last, "output") == 2 * S * x.h // T
    assert part(last, "output.loss") == 4 * S * V // T
    assert whole(last) - chunk(last) == 4 * S * x.h // T + 4 * S * V // T  # no mask of the embedding's
    assert chunk(last) * x.p == chunk(held)


def test_stages_decline_as_figure_9_shows() -> None:
    """A linear decrease, and on the first rank the embedding's masks above it."""
    x = TABLE_3["530B"]
    ranks = [whole(on_device("530B", sequence_parallel=True, stage=stage)) for stage in range(x.p - 1)]
    falls = [one - other for one, other in pairwise(ranks)]
    assert len(set(falls[1:])) == 1
    assert falls[1] > 0
    assert falls[0] - falls[1] == S * x.b * x.h * x.p // T


def test_the_savings_that_the_paper_states() -> None:
    """Section 5: 70 % and 65 % by selective recomputation; section 6.1: nearly half each, together under 20 %."""
    for name, saved in (("175B", 0.70), ("530B", 0.65)):
        none, selective = (
            chunk(on_device(name, sequence_parallel=True, recompute=kind)) for kind in ("none", "selective")
        )
        assert 1 - selective / none == pytest.approx(saved, abs=0.005)
    for name in TABLE_3:
        base = chunk(on_device(name))
        of_base = {row: chunk(on_device(name, **TABLE_2[row][0])) / base for row in TABLE_2}
        assert 0.49 < of_base["tensor, selective"] < 0.63
        assert 0.57 < of_base["tensor + sequence"] < 0.67
        assert of_base["tensor + sequence, selective"] < 0.205
        assert of_base["full"] < 0.1


def test_without_dropout_its_masks_and_second_probabilities_are_not_there() -> None:
    """Two masks of a byte leave 32sbh, softmax's output alone weighs the values: 2as²b."""
    a, b, h, s = symbols("a b h s")
    assert layer(Sizes(h, a, 1), b, s, dropout=False).total(bytes_held) == s * b * (32 * h + 2 * a * s)
    held = on_device("22B", dropout=False)
    x = TABLE_3["22B"]
    assert whole(held) - chunk(held) == S * x.b * (4 * x.h + 4 * V // T)  # no mask of the embedding's


def test_published_models_run_as_they_are() -> None:
    how: dict[str, Any] = {"batch": 1, "seq": S, "tensor": T, "pipeline": 8, "interleave": 3}
    assert chunk(activations(load("gpt-3-175b"), **how)) / GIB == 66.84375
    # grouped keys and values, a gate: by hand from the config of Llama 3 70B
    h, f, keys, a, n = 8192, 28672, 8 * 128, 64, 80
    by_hand = 8192 * (2 * (2 * h) + (2 * h + 2 * h + 2 * 2 * keys + 2 * h + h) + (2 * h + 3 * 2 * f + h))
    held = activations(load("llama-3-70b"), batch=1, seq=8192, recompute="selective")
    assert chunk(held) == n * by_hand
    with_scores = activations(load("llama-3-70b"), batch=1, seq=8192)
    assert chunk(with_scores) == n * (by_hand + 5 * a * 8192**2)
    assert part(held, "lm_head.loss") == 4 * 8192 * 128256


def test_a_model_without_vocabulary_has_no_output_layer() -> None:
    held = activations(Transformer(kind="decoder", d_model=64, n_heads=4), batch=1, seq=16)
    assert {one.name for one in held.parts} == {"chunk", "decoder_norm"}


def test_a_vocabulary_is_filled_up_until_devices_share_it() -> None:
    """Megatron-core 0.19.2 fills GPT-2's 50,257 words up to 50,688 for 4 devices (tests/oracle/megatron)."""
    held = activations(load("gpt2"), batch=1, seq=1024, tensor=4)
    assert part(held, "lm_head.loss") == 4 * 1024 * 50688 // 4


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mixtral-8x7b", "tfcalc ranks MODEL --dp 8"),
        ("t5-small", "Open"),
        ("mamba-1.4b", "Mamba"),
        ("albert-large-v2", "Encoder"),
        ("gpt-j-6b", "h with 1 norms for 2 sub-layers"),
        ("gemma-2-9b", "Sandwich"),
        ("bert-base-uncased", "Encoder"),
    ],
)
def test_what_the_paper_does_not_describe_is_refused(name: str, words: str) -> None:
    with pytest.raises(InvalidModel, match=words) as refused:
        activations(load(name), batch=1, seq=16)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"tensor": 7}, "heads 96 not divisible by tensor 7; nearest: 6, 8"),
        ({"tensor": 0}, "tensor 0; it is 1 or more"),
        (
            {"pipeline": 9},
            "layers 96 not divisible by pipeline 9; nearest: 8, 12; "
            "or ranks --first-stage-layers 10 --last-stage-layers 9",  # 7 stages of 11 between
        ),
        (
            {"pipeline": 8, "interleave": 5},
            "layers 96 not divisible by pipeline 8 x interleave 5 = 40; nearest: 32, 48",
        ),
        ({"pipeline": 8, "stage": 8}, "stage 8 of pipeline 8; stages count from 0 to 7"),
        ({"stage": -1}, "stage -1; it is 0 or more"),
        ({"batch": 0}, "batch 0; it is 1 or more"),
        (
            {"tensor": 8, "seq": 2047, "sequence_parallel": True},
            "sequence length 2,047 not divisible by tensor 8; nearest: 1, 23",
        ),
    ],
)
def test_what_devices_cannot_share_evenly_is_refused_with_what_would_do(how: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidModel) as refused:
        activations(TABLE_3["175B"].sizes, **{"batch": 1, "seq": S, **how})
    assert str(refused.value) == words


def test_keys_and_heads_must_divide_too_and_recomputation_has_three_names() -> None:
    sizes = Sizes(d_model=4096, n_heads=32, n_layers=32, n_kv_heads=8)
    with pytest.raises(InvalidModel, match="key and value heads 8 not divisible by tensor 16; nearest: 8"):
        activations(sizes, batch=1, seq=16, tensor=16)
    with pytest.raises(UsageError, match="did you mean selective"):
        activations(sizes, batch=1, seq=16, recompute="selectiv")


class Case(NamedTuple):
    sizes: Sizes
    how: dict[str, Any]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Sizes that 16 devices can share, in up to 12 chunks or 9."""
    few = st.integers(1, 5)
    groups = 16 * draw(few)
    heads, d = groups * draw(few), draw(few)
    sizes = Sizes(
        d_model=heads * d,
        n_heads=heads,
        n_layers=72 * draw(few),
        vocab_size=16 * 128 * draw(few),
        d_ff=16 * draw(st.integers(1, 99)),
        n_kv_heads=groups,
        gated=draw(st.booleans()),
        final_norm=draw(st.booleans()),
    )
    return Case(sizes, {"batch": draw(few), "seq": 16 * draw(few), "dropout": draw(st.booleans())})


@given(cases(), st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from(["none", "selective"]))
def test_what_sequence_parallel_devices_hold_adds_up_to_the_whole(case: Case, tensor: int, recompute: str) -> None:
    one = whole(activations(case.sizes, **case.how, recompute=recompute))
    share = activations(case.sizes, **case.how, recompute=recompute, tensor=tensor, sequence_parallel=True)
    assert tensor * whole(share) == one


@given(cases(), st.booleans(), st.sampled_from([1, 2, 4, 8, 16]))
def test_recomputing_more_never_holds_more(case: Case, sequence_parallel: bool, tensor: int) -> None:
    none, selective, full = (
        whole(
            activations(
                case.sizes,
                **case.how,
                tensor=tensor,
                sequence_parallel=sequence_parallel,
                recompute=kind,
            )
        )
        for kind in ("none", "selective", "full")
    )
    assert full < selective < none


@given(cases(), st.booleans(), st.sampled_from(["none", "selective", "full"]), st.sampled_from([1, 2, 3]))
def test_more_devices_to_share_a_layer_never_hold_more_each(
    case: Case, sequence_parallel: bool, recompute: str, interleave: int
) -> None:
    held = [
        whole(
            activations(
                case.sizes,
                **case.how,
                tensor=tensor,
                sequence_parallel=sequence_parallel,
                recompute=recompute,
                pipeline=4,
                interleave=interleave,
            )
        )
        for tensor in (1, 2, 4, 8, 16)
    ]
    assert held == sorted(held, reverse=True)


@given(cases(), st.sampled_from(list(product([1, 2, 3, 4], [1, 3]))))
def test_a_later_stage_holds_less_of_the_layers(case: Case, cut: tuple[int, int]) -> None:
    pipeline, interleave = cut
    held = [
        chunk(activations(case.sizes, **case.how, pipeline=pipeline, interleave=interleave, stage=stage))
        for stage in range(pipeline)
    ]
    assert held == sorted(held, reverse=True)
    assert len(set(held)) == pipeline
    assert held[-1] > 0


def test_micro_batches_in_flight_are_reserved_for() -> None:
    """A pipeline's first stage has the activations of as many micro-batches as stages, one buffer for each state."""
    model = load("llama-2-7b")
    run = Workload(phase="train", batch_size=1, seq_len=1024, recompute="none", kernel="flash")
    plan = Training(backend="megatron", precision="bf16-master-fp32-grads", grad_accum=8)
    peaks = Peaks(model)
    found = {
        stages: (peaks.peak(run, at), peaks.reserved(run, at))
        for stages in (1, 4)
        for at in [plan.replaced(pipeline_parallel=stages)]
    }
    for peak, reserved in found.values():
        assert peak <= reserved.allocated <= 1.01 * peak
        assert reserved.allocated <= reserved.reserved <= 1.06 * peak
    # 18 bytes of a parameter: 32 layers of 4h² + 3hf + 2h, embedding and head, a norm; 8 layers and the embedding
    h, f, vocabulary = 4096, 11008, 32000
    layer, words = 4 * h * h + 3 * h * f + 2 * h, vocabulary * h
    states = {1: 18 * (32 * layer + 2 * words + h), 4: 18 * (8 * layer + words)}
    # 8 layers of 4 micro-batches, and 32 of one: bytes of a token and layer by hand (h: two norms' inputs, q, k, v,
    # the result of attention, two sub-layers' inputs; 4 of a head; f: gate, up and their product)
    saved = 1024 * 32 * (2 * 8 * h + 4 * 32 + 3 * 2 * f)
    assert all(abs(found[stages][0] - states[stages] - saved) <= 0.04 * found[stages][0] for stages in (1, 4))


def test_a_checkpointed_layer_runs_again_at_the_peak() -> None:
    """Its saved tensors are live once more, beside the inputs of all layers."""
    model = load("llama-2-7b")
    plan = Training(backend="megatron", precision="bf16-master-fp32-grads", pipeline_parallel=2)
    run = Workload(phase="train", batch_size=8, seq_len=4096, kernel="flash", recompute="full")
    step = MegatronStep(model, run, Peaks(model).plan(plan)).memory()
    # by the same count; gradients of what it saves are no larger. The first of two stages has 16 layers, twice
    h, f = 4096, 11008
    again = 8 * 4096 * (2 * 8 * h + 4 * 32 + 3 * 2 * f)
    backward = next(phase for phase in step.phases if phase.name == "backward")
    assert again <= backward.live - 8 * 4096 * 32 * 2 * h <= 2 * again


def test_copies_of_the_model_share_the_optimizer_states_unless_they_are_told_not_to() -> None:
    model, run = load("gpt2"), Workload(phase="train", batch_size=1, seq_len=128)
    plan = Training(backend="megatron", gpus=8, precision="bf16-master-fp32-grads")
    peaks = Peaks(model)
    assert [peaks.plan(plan.replaced(zero=stage)).zero for stage in ("auto", "0", "1")] == ["1", "0", "1"]
    assert peaks.plan(plan.replaced(gpus=1)).zero == "0"
    assert peaks.plan(plan.replaced(backend="megatron-2022")).zero == "0"
    assert peaks.plan(Training(gpus=8)).zero == "0"
    assert peaks.peak(run, plan) == peaks.peak(run, plan.replaced(zero="1"))
