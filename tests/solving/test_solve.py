"""Questions asked backwards: expected sizes are computed by hand, beside each."""

from __future__ import annotations

import json
from math import prod, sqrt
from typing import Any

import pytest

from tests.conftest import Program
from tfcalc import InvalidModel, Serving, Training, Transformer, UsageError, Workload, load, memory, solve
from tfcalc.solving.answer import Solved
from tfcalc.solving.unknown import domain
from tfcalc.symbolic import Root

DECODER = Transformer(kind="decoder", d_model=768, n_heads=12, n_layers=12)


def solved(*asked: object, **more: object) -> Solved:
    found = solve(*asked, **more)  # type: ignore[arg-type]  # any question
    assert isinstance(found, Solved)
    return found


def test_attention_costs_more_than_the_feed_forward_network_from_two_thirds_of_the_width() -> None:
    """12nlbh(2h + l) = 32nlbh² at l = 2h/3: of h = 512, 341.3, so from 342 tokens on."""
    found = solved("attention = ffn", "seq")
    assert (found.outcome, found.value, found.closed) == ("crossing", 342, "l = 2h/3")
    assert found.ranges == ()
    h, l, n = 512, 341, 6
    left, right = found.rows
    # one self-attention of an encoder layer, two attentions of a decoder layer: 4 products of h², 2 of l
    assert left.sides == (3 * n * (8 * l * h * h + 4 * l * l * h), 2 * n * 16 * l * h * h)
    assert left.sides[0] < left.sides[1]
    assert right.sides[0] > right.sides[1]
    assert found.exit_code == 0


def test_an_encoder_alone_needs_three_times_that_length() -> None:
    """8lh² + 4l²h = 16lh² at l = 2h, which 1,024 tokens meet exactly."""
    found = solved("attention = ffn", "seq", Transformer(kind="encoder"))
    assert (found.outcome, found.value, found.closed) == ("exact", 1024, "l = 2h")


def test_a_causal_decoder_beside_an_encoder_needs_a_fifth_more() -> None:
    """By hand: 4lh(2h + l) + [8lh² + 2hl(l + 1)] + 4lh(2h + l) = 32lh² at 5l = 4h - 1: of h = 512, 409.4."""
    found = solved("attention = ffn", "seq", workload=Workload(attention="causal"))
    assert (found.outcome, found.value, found.closed) == ("crossing", 410, "l = (4h - 1)/5")


SIZES = {"h": 320, "l": 77, "b": 3, "n": 5, "f": 1280, "V": 1000, "a": 8}


def value(root: Root) -> float:
    """The root at these sizes."""
    plain, before, under, bottom = (
        sum(factor * prod(SIZES[str(atom)] ** power for atom, power in powers) for powers, factor in part.terms.items())
        for part in root
    )
    return float((plain + before * sqrt(under)) / bottom)


CLOSED = [
    (condition, unknown, kind, attention)
    for condition in ("attention = ffn", "2 * attention = ffn", "attention = 3 * ffn", "encoder = decoder", "ffn = 5e9")
    for unknown in ("seq", "d_model", "batch")
    for kind in ("encoder", "decoder", "encoder-decoder")
    for attention in ("full", "causal")
]


@pytest.mark.parametrize(("condition", "unknown", "kind", "attention"), CLOSED)
def test_a_closed_form_is_where_the_sides_cross(condition: str, unknown: str, kind: Any, attention: str) -> None:
    """At the sizes of the model one of its roots is a size of the table's ends, or between two that are neighbours."""
    model = Transformer(kind=kind, d_model=320, n_heads=8, n_layers=5, vocab_size=1000)
    run = Workload(batch_size=3, seq_len=77, attention=attention)
    try:
        found = solved(condition, unknown, model, run, of="flops")
    except (UsageError, InvalidModel):  # the kind has no such part, or the size decides nothing
        return
    if found.steps is None or not found.steps.equal or not found.found.crossings:
        return
    numbers = [value(root) for root in found.steps.equal]
    ends = [(found.found.domain.size(low), found.found.domain.size(high)) for low, high in found.found.crossings]
    assert any(low <= number <= high for number in numbers for low, high in ends), (numbers, ends)


def test_in_the_decoder_of_an_encoder_decoder_attention_always_costs_more() -> None:
    """Two attentions have 16lh² + 8l²h, and the feed-forward network 16lh²."""
    found = solved("decoder.attention = decoder.ffn", "seq")
    assert (found.outcome, found.value, found.exit_code) == ("never", None, 1)
    assert found.steps is not None
    assert found.steps.lines == (
        "8nlbh(2h + l) = 16nlbh²",
        "8nl²bh = 0",
        "it is above 0 at all sizes, so the sides are never equal",
    )


def test_the_steps_end_in_the_closed_form() -> None:
    found = solved("attention = ffn", "seq", symbolic=True)
    assert found.steps is not None
    assert found.steps.lines == (
        "12nlbh(2h + l) = 32nlbh²",
        "n(12l²bh - 8lbh²) = 0",
        "divided by 4nlbh > 0: 3l - 2h = 0",
        "l = 2h/3",
    )
    assert found.sheet().quiet == "l = 2h/3"
    assert solved("attention = ffn", "seq", notation="bsld").closed == "L = 2d/3"


def test_a_width_goes_in_steps_of_the_heads() -> None:
    """12(12h² + 13h) + 2h: 123,089,736 of h = 924 and 126,305,712 of 936 = 924 + 12."""
    found = solved("params = 125M", "d_model", DECODER)
    assert (found.outcome, found.value, found.found.domain.step) == ("nearest", 936, 12)
    assert [row.sizes["d_model"] for row in found.rows] == [924, 936]
    assert [row.sides[0] for row in found.rows] == [12 * (12 * h * h + 13 * h) + 2 * h for h in (924, 936)]


def test_a_root_is_a_closed_form() -> None:
    """12nh² + 13nh + 2h = N; at n = 12, N = 12(12·768² + 13·768) + 2·768 = 85,056,000: h = 768."""
    found = solved("params = 85056000", "d_model", DECODER)
    assert (found.outcome, found.value) == ("exact", 768)
    assert found.closed == "h = (√(169n² + 4082688052n + 4) - 13n - 2)/(24n)"


def test_the_largest_batch_and_the_one_that_breaks_it() -> None:
    model, run, plan = load("gpt2"), Workload(seq_len=128), Training()
    found = solved("memory <= 8GiB", "batch", model, run, training=plan)
    assert found.outcome == "at most"
    assert found.value is not None
    for size in (found.value, found.value + 1):
        peak = memory(model, run.replaced(batch_size=size, phase="train"), training=plan).answer
        assert (peak <= 8 * 2**30) == (size == found.value)


def test_fewer_gpus_do_not_do() -> None:
    model, run, plan = load("gpt2"), Workload(seq_len=128, phase="train"), Training(zero="3")
    found = solved("memory <= 1.2GiB", "gpus", model, run, training=plan)
    assert (found.outcome, [row.holds for row in found.rows]) == ("at least", [False, True])


def test_of_a_context_the_cache_decides() -> None:
    """gpt2 has 12 layers of 768 keys and values in fp32: 73,728 bytes a token."""
    found = solved("memory.kv_cache <= 73728000", "context", load("gpt2"), serving=Serving(cache="static"))
    assert found.value == 1000


def test_two_comparisons_are_a_range() -> None:
    """Of llama-3-8b a layer has 218,112,000 parameters, all else 1,050,677,248: 7 layers 2.58B, 13 layers 3.89B."""
    found = solved("2.5B <= params < 4B", "layers", load("llama-3-8b"))
    assert (found.outcome, found.ranges, found.value) == ("between", ((7, 13),), 13)


def test_a_share_is_a_ratio() -> None:
    """Without a vocabulary all products are those of attention and the network: half each where they are equal."""
    found = solved("attention / total = 1/2", "seq", Transformer(kind="decoder"))
    assert (found.outcome, found.value, found.closed) == ("exact", 1024, "l = 2h")


def test_heads_are_the_divisors_of_the_width() -> None:
    """768 = 2⁸ · 3: among its 18 divisors is 768/64 = 12."""
    found = solved("head_dim = 64", "heads", Transformer(d_model=768))
    assert (found.outcome, found.value) == ("exact", 12)
    assert found.found.domain.listed == (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 768)


def test_layers_end_where_a_list_says_what_each_is() -> None:
    """A list of 44 kinds, one for each layer and one more, as DeepSeek-V4's; 43 has no divisors but 1 and itself."""
    found = domain(43, lambda layers: "" if layers <= 44 else "a list has 44", [4096])
    assert (found.step, found.first, found.last, found.listed, found.why) == (1, 1, 44, (), "a list has 44")
    told = solved("params <= 1e12", "layers", load("deepseek-v4-flash"))
    assert told.found.domain.last == 44  # 2 + 42 entries of compress_ratios in its config.json


def test_tokens_of_a_run() -> None:
    """A step is three times 24lh² + 4l²h a sequence, less the gradients of the data by W_Q, W_K and W_V, 6lh²."""
    model = Transformer(kind="decoder", d_model=8, n_heads=2, n_layers=1)
    run = Workload(batch_size=2, seq_len=16, phase="train")
    step = 3 * 2 * (24 * 16 * 8 * 8 + 4 * 16 * 16 * 8) - 2 * 6 * 16 * 8 * 8
    found = solved(f"flops <= {10 * step}", "tokens", model, run)
    assert (found.outcome, found.value) == ("at most", 320)


def test_a_function_that_falls_and_rises_has_both_ends() -> None:
    """(l - 10)(l - 20) is not above 0 from 10 to 20."""
    found = solved("(seq - 10) * (seq - 20) <= 0", "seq")
    assert found.ranges == ((10, 20),)


def test_a_window_makes_attention_turn() -> None:
    """Of sliding:4 each token sees at most 9 keys, of 12: min(l, ·) is one polynomial before and one behind."""
    model = Transformer(kind="encoder", pattern="sliding:4", n_layers=1, d_model=8, n_heads=1)
    found = solved("attention <= 100k", "seq", model)
    assert found.value is not None
    assert found.found.exhaustive


@pytest.mark.parametrize("several", ["d_model,layers", ["d_model", "layers"], "seq, seq"])
def test_several_sizes_are_refused_with_the_command_that_finds_shapes(several: str) -> None:
    with pytest.raises(UsageError, match=r"solve finds one size, and '\w+,.*' names 2; keep one .* tfcalc design"):
        solve("params = 85056000", several, DECODER)


def test_layers_are_those_of_both_stacks() -> None:
    """Of t5-small each layer of both has 3 attentions of 4 · 512²: two layers 6,291,456."""
    for word in ("layers", "n_layers"):
        found = solved("attention <= 6291457", word, load("t5-small"), of="params")
        assert (found.ranges, found.value) == (((1, 2),), 2)


def test_a_long_path_of_no_part_is_refused_at_once() -> None:
    """Each dot may end the name of an outer part: of 40 dots not every choice is tried."""
    with pytest.raises(UsageError, match="no part of this model"):
        solve(f"decoder.{'ff.' * 40}ffn = ffn", "seq")


REFUSED = {
    "attention = ffn = ": "factor",
    "1 = 2": "numbers alone",
    "params <= 80GiB": "amount of memory",
    "memory <= 80": "80GiB or 80GB",
    "atention = ffn": "did you mean",
    "params": "compares nothing",
}


@pytest.mark.parametrize(("condition", "told"), REFUSED.items())
def test_what_is_no_condition_is_told(condition: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        solve(condition, "layers")


def test_a_size_that_changes_nothing_is_told_with_those_that_do() -> None:
    with pytest.raises(UsageError, match=r"seq changes nothing in params; solve for d_model, n_layers"):
        solve("params = 125M", "seq")
    with pytest.raises(UsageError, match="heads changes nothing"):
        solve("params = 125M", "heads")
    with pytest.raises(UsageError, match="add --train"):
        solve("memory <= 1GB", "gpus")
    with pytest.raises(UsageError, match="in kv_cache at rest; add --train or --serve"):
        solve("kv_cache <= 1GB", "layers", load("gpt2"))
    with pytest.raises(UsageError, match="did you mean layers"):
        solve("params <= 1B", "layrs")


def test_a_term_of_memory_needs_no_more_than_its_name() -> None:
    """32 layers keep keys and values of 8 heads of 128 in 2 bytes: 131,072 bytes a token, 81,920 times in 10 GiB."""
    for name in ("kv_cache", "kv_cache_bytes", "memory.kv_cache"):
        found = solved(f"{name} <= 10GiB", "context", load("llama-3-8b"), serving=Serving(context=8192))
        assert found.value == 10 * 2**30 // (2 * 32 * 8 * 128 * 2) == 81_920


def test_a_share_may_be_in_per_cent() -> None:
    """Attention is half of all where n(8h² + 4lh) = n16h² + 2Vh, so l = 2h + V/(2n)."""
    half = solved("attention / total = 50%", "seq", load("gpt2"))
    assert half.value == 2 * 768 + 50_257 // (2 * 12) == 3_630
    assert solved("attention = 50% total", "seq", load("gpt2")).closed == half.closed == "l = (4nh + V)/(2n)"


def test_what_comes_again_and_again_is_told_as_far_as_it_is_known() -> None:
    """In chunks of 5, attention takes 4h(2h·l + pairs) a layer and ffn 16h²·l. There are 5l pairs where 5 divides l,
    and fewer elsewhere. So at h = 8 attention has (16 + 5)/32 of ffn at multiples of 5, and less at all others."""
    model = Transformer(d_model=8, n_heads=4, n_layers=4, kind="decoder", pattern="chunked:5")
    for sign, quiet in (("=", 5), (">=", 5000)):
        found = solve(f"attention {sign} 21 * ffn / 32", "seq", model=model, of="flops")
        assert isinstance(found, Solved)
        assert found.ranges == tuple((size, size) for size in range(5, 5001, 5))
        assert found.value == quiet
        assert "seq ends at 5,004: behind it the sides change places again and again, every 5" in found.sheet().notes
        assert "20, …" in found.sheet().title or "25, …" in found.sheet().title
        assert all(row.holds == (row.sizes["seq"] % 5 == 0) for row in found.rows)


def test_names_of_several_words_are_names() -> None:
    """A token of Llama 3 8B is 131,072 bytes of cache: 10⁹·10 of them are 76,293 tokens, in whole blocks of 16."""
    model = load("llama-3-8b")
    found = solved("KV cache <= 10GB", "context", model, serving=Serving())
    assert found.value == 10**10 // 131_072 // 16 * 16
    two = Workload(phase="train")
    assert solved("feed-forward = 2 * cross attention", "seq", workload=two).condition.startswith("feed-forward")


def test_of_an_amount_of_memory_the_size_that_fits_is_told(tfcalc: Program) -> None:
    small, large = (int(tfcalc("memory", "gpt2", "--train", "--batch", b, "-q").stdout) for b in ("8", "9"))
    middle = (small + large) // 2
    for target, said in (
        (middle + 1000, "batch 9 is nearest, 8 fits;"),
        (middle - 1000, "batch 8 is nearest and fits;"),
    ):
        done = tfcalc("solve", f"memory = {target}", "--for", "batch", "gpt2", "--train")
        assert done.stdout.startswith(said), (done.stdout, done.stderr)


def test_never_is_said_where_it_is_proven(tfcalc: Program) -> None:
    """Memory of training is evaluated at some sizes; a closed form tells of all."""
    none = tfcalc("solve", "memory <= 20GB", "--for", "batch", "llama-3-8b", "--train")
    assert (none.returncode, none.stdout.startswith("NONE FOUND: no value of batch that was tried meets")) == (1, True)
    assert tfcalc("solve", "params = 1", "--for", "layers").stdout.startswith("NEVER: no value of layers meets")


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (("mfu = 50%",), "'mfu' follows from a measured throughput"),
        (("MFU = 50%", "--for", "seq"), "'MFU' follows from a measured throughput"),
        (("foo <= 10GB", "--for", "context"), "context is a size of serving, whose memory is asked for"),
    ],
)
def test_what_no_size_decides_is_refused(tfcalc: Program, words: tuple[str, ...], fact: str) -> None:
    done = tfcalc("solve", *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert fact in done.stderr


@pytest.mark.parametrize(
    ("card", "words", "size"),
    [
        ("h100", ("llama-3-8b", "--train"), "batch"),
        pytest.param("rtx-4090", ("llama-3.2-1b", "--train", "--lora"), "batch", marks=pytest.mark.long),
        ("h100", ("llama-3-8b", "--serve"), "concurrency"),
    ],
)
def test_a_card_is_compared_by_the_rule_of_verdicts(
    tfcalc: Program, card: str, words: tuple[str, ...], size: str
) -> None:
    """The largest size is that of the verdict, and one more does not fit."""
    found = json.loads(tfcalc("solve", f"memory <= {card}", "--for", size, *words, "--json").stdout)
    fitting, beyond = (
        tfcalc("memory", *words, "--gpu", card, f"--{size}", str(found["value"] + more)) for more in (0, 1)
    )
    assert (fitting.returncode, beyond.returncode) == (0, 1)
    same = tfcalc("solve", f"{card} >= memory", "--for", size, *words, "-q")
    assert same.stdout.strip() == str(found["value"])


@pytest.mark.parametrize(
    ("model", "card"),
    [
        ("deberta-v3-base", "rtx-3090"),  # free blocks of PyTorch's cache are of use to some sizes alone
        ("gemma-3n-e4b", "h100"),  # 35 layers in blocks of their own: a run takes more than the search has for a few
    ],
)
def test_on_a_card_the_end_is_that_of_memory_where_no_search_tells_all(tfcalc: Program, model: str, card: str) -> None:
    words = (model, "--train", "--lora", "16")
    found = tfcalc("solve", f"memory <= {card}", "--for", "batch", *words).stdout
    verdict = json.loads(tfcalc("memory", *words, "--gpu", card, "--json").stdout)
    size = verdict["largest_batch_size"]
    assert found.startswith(f"batch: {size} fits, and {size + 1} does not\n")
    assert "a larger batch may fit, too, or not" in " ".join(found.split())
    for batch, status in ((size, 0), (size + 1, 1)):
        assert tfcalc("memory", *words, "--gpu", card, "--batch", str(batch), "-q").returncode == status


@pytest.mark.parametrize(
    ("model", "billions", "card", "sharded"),
    [
        ("mixtral-8x7b", 46.7, "a100-80", "--zero 3"),
        ("qwen3-30b-a3b", 30.5, "h100", "--fsdp"),
        pytest.param("deepseek-v3", 671, "h200", "--fsdp --checkpointing full", marks=pytest.mark.long),
    ],
)
def test_the_fewest_gpus_of_a_mixture_are_those_of_its_verdict(
    tfcalc: Program, model: str, billions: float, card: str, sharded: str
) -> None:
    """It fits on them, and not on one less. Each has its share of 8 bytes a parameter: weights, gradients, moments.

    Source: parameters as the models' cards have them.
    """
    words = (model, "--train", "--seq", "2048", *sharded.split())
    found = int(tfcalc("solve", f"memory <= {card}", "--for", "gpus", *words, "-q").stdout)
    on = [tfcalc("memory", *words, "--gpu", f"{gpus}x{card}", "--json") for gpus in (found - 1, found)]
    assert [one.returncode for one in on] == [1, 0]
    assert 8e9 * billions / found < json.loads(on[1].stdout)["budget_bytes"]


def test_bytes_are_no_card_and_gpus_of_a_mixture_rise_again(tfcalc: Program) -> None:
    """Both ends of FSDP's are found; that the verdict of a card asks for more is told beside a number of bytes."""
    words = ("mixtral-8x7b", "--train", "--fsdp", "--seq", "1024", "--for", "gpus")
    found = json.loads(tfcalc("solve", "memory <= 20GiB", *words, "--json").stdout)
    (ends,) = found["ranges"]
    assert found["value"] == ends["from"]
    assert [row["holds"] for row in found["rows"]] == [False, True, True, False]
    table = tfcalc("solve", "memory <= 20GiB", *words).stdout
    assert "write its name in the place of the bytes, as in 'memory <= a100-80'" in " ".join(table.split())
    assert "in the place of the bytes" not in tfcalc("solve", "memory <= a100-80", *words).stdout


@pytest.mark.parametrize("condition", ["weights <= h100", "memory = h100", "memory >= h100", "2 * memory <= h100"])
def test_a_card_is_compared_with_the_whole_memory_alone(tfcalc: Program, condition: str) -> None:
    done = tfcalc("solve", condition, "--for", "batch", "gpt2", "--train")
    assert (done.returncode, done.stdout) == (2, "")
    assert "h100 is a card, which the whole memory may fit into" in done.stderr


def test_a_context_of_unlike_layers_is_found() -> None:
    """vllm#43308: Gemma 4 31B in 4 bits holds about 525k tokens in 80 GB."""
    found = solved("memory <= 72GiB", "context", load("gemma-4-31b-it-nvfp4"), serving=Serving())
    assert found.value == pytest.approx(525_000, rel=0.03)
