"""What `make fuzz` found, each as a test of its own; the fuzzer tries the same and more."""

from __future__ import annotations

import random
from contextlib import chdir, nullcontext
from pathlib import Path
from typing import Any

import pytest

import tfcalc
from tests.conftest import Program, Quick
from tfcalc import Workload
from tfcalc.cli.commands import every
from tfcalc.cli.commands.formula import letters_of, numbers_of
from tfcalc.cli.settings import settle
from tfcalc.configs.published import HFModel
from tfcalc.core.traced import traced
from tfcalc.errors import BadFile, InvalidModel, UsageError
from tfcalc.hardware import named
from tfcalc.nn.basic import Linear
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.stack import RUNNING, Stack, _repeated
from tfcalc.placed.layout import check_even
from tfcalc.plans import Training
from tfcalc.revisions import at_ref
from tfcalc.search.remedies import _smaller_batches
from tfcalc.tape.tensor import FORWARD_ALONE
from tfcalc.units import parse_amount, parse_count, parse_length, short_bytes

RANDOM_TYPES = random.Random(14).choices(["full_attention", "sliding_attention"], k=3_000)


@pytest.mark.parametrize("parse", [parse_amount, parse_count, parse_length])
@pytest.mark.parametrize("text", ["-1e999", "-1.476e999Ti", "9" * 31, "-" + "9" * 40, "1e31"])
def test_a_number_beyond_all_sizes_is_refused_with_either_sign(parse: object, text: str) -> None:
    """10^30 is the end for all spellings; -1e999 was an OverflowError, and 31 digits were read where 1e31 was not."""
    assert callable(parse)
    with pytest.raises(UsageError, match="is too large"):
        parse(text)


@pytest.mark.parametrize("amount", ["0GB", "000GiB", "9" * 400 + "GB", "9" * 5000 + "GB"])
def test_no_card_has_an_absurd_amount_of_memory(amount: str) -> None:
    """0 GB divided by zero; a number beyond floats, or of over 4,300 digits, is none that Python reads as an int."""
    with pytest.raises(UsageError, match=r"no accelerator .* is known"):
        named(f"nvidia a100 {amount}")


@pytest.mark.parametrize("text", ['preset = "zzz"', 'train = true\nphase = "forward"'])
def test_what_is_wrong_in_a_settings_file_is_the_files_mistake(text: str, tmp_path: Path) -> None:
    """A preset that is not known, and two keys that contradict each other, were exit 2 as if they had been typed."""
    (tmp_path / "tfcalc.toml").write_text(text, encoding="utf-8")
    with chdir(tmp_path), pytest.raises(BadFile, match=r"tfcalc\.toml: "):
        settle([*every()], {}, {})


@pytest.mark.parametrize("text", ["h=512,h=8", "h=512,n=6,h=512", "h = 1,h=2"])
def test_a_symbol_is_given_one_number(text: str) -> None:
    with pytest.raises(UsageError, match="twice"):
        numbers_of(text)


def test_a_size_has_one_letter() -> None:
    with pytest.raises(UsageError, match="twice"):
        letters_of("h=d,h=e")


def test_a_size_by_its_letter_and_by_its_name_is_given_once() -> None:
    with pytest.raises(UsageError, match="the same size"):
        tfcalc.formula("mha", substitute={"h": 512, "d_model": 8})


@pytest.mark.parametrize("size", [None, 1.5, "512", b"8"])
def test_a_formula_is_evaluated_at_whole_numbers(size: object) -> None:
    """They were an AttributeError of a class that nobody outside knows."""
    with pytest.raises(UsageError, match="is no size"):
        tfcalc.formula("embedding").at(h=size)  # type: ignore[arg-type]


def test_an_amount_beyond_all_units_has_three_figures() -> None:
    """64·10^30 bytes are 5.684·10^16 PiB; 17 digits were printed, of which a float holds 16."""
    assert short_bytes(64 * 10**30) == "5.68e+16 PiB"
    assert short_bytes(64 * 10**30, "si") == "6.4e+16 PB"
    assert short_bytes(999_999 * 2**50) == "999,999 PiB"


@pytest.mark.parametrize("cached", [1, 100, 512, 513])
def test_layers_with_a_window_that_read_others_keys_decode_over_short_caches(cached: int) -> None:
    """gemma-3n: 35 layers, each fifth without a window of 512, and the last 15 without keys of their own.

    A token's 8 heads of 256 see ``min(cached, 512)`` keys in 28 layers and all in 7: 4·8·256 FLOPs each. That all see
    the same where the cache is no longer than the window had no formula, and was an internal error.
    """
    model = tfcalc.load("gemma-3n-e4b-text")
    one, found = (tfcalc.flops(model, Workload(phase="decode", cached=keys)).answer for keys in (1, cached))
    keys = 28 * min(cached, 512) + 7 * cached
    assert found - one == 4 * 8 * 256 * (keys - 35)


def test_a_training_step_of_very_many_unlike_layers_is_refused() -> None:
    """1,024 layers of no order took 14 s; those that take turns, or are alike, are followed as a few."""
    plan, run = tfcalc.Training(), Workload(phase="train", seq_len=8)
    sizes = {"num_hidden_layers": 1024, "hidden_size": 64, "vocab_size": 100, "intermediate_size": 64}
    kinds = ["full_attention" if place % (2 + place // 100) else "sliding_attention" for place in range(1024)]
    with pytest.raises(InvalidModel, match="layers that differ"):
        tfcalc.memory(tfcalc.from_config({"model_type": "gpt_oss", **sizes, "layer_types": kinds}), run, training=plan)
    for model_type in ("gpt_oss", "llama"):
        assert tfcalc.memory(tfcalc.from_config({"model_type": model_type, **sizes}), run, training=plan).answer > 0


@pytest.mark.parametrize("value", ["1" + "0" * 400, "1e400", "-1e400", "nan", "0", "-0.0", "1e-400", "-7"])
def test_an_amount_in_a_settings_file_is_a_number_above_0(value: str, tmp_path: Path) -> None:
    """A whole number of 400 digits is more than a float holds, and was an internal error."""
    (tmp_path / "tfcalc.toml").write_text(f"peak = {value}", encoding="utf-8")
    with chdir(tmp_path), pytest.raises(BadFile, match=r"peak .* is (too large|not above 0)"):
        settle([option for option in every() if option.name == "peak"], {}, {})


@pytest.mark.parametrize("text", ["ma\0in:./chat", "main:./ch\0at", "main:a\n.json", "-main:a.json"])
def test_no_revision_has_what_no_program_can_be_given(text: str) -> None:
    """A null byte in the revision was handed to git, which Python refuses with a ValueError."""
    assert at_ref(text) is None
    with pytest.raises(InvalidModel):
        tfcalc.load(text)


@pytest.mark.parametrize(
    ("model_type", "nested", "other"),
    [
        ("gemma3", "vision_config", "gpt2"),
        ("aya_vision", "vision_config", "llama"),
        ("granite_speech", "encoder_config", "clip"),
        ("voxtral_realtime", "audio_config", "gpt2"),
    ],
)
def test_a_nested_model_of_another_kind_is_refused(model_type: str, nested: str, other: str) -> None:
    """A language model in the place of the tower was an AssertionError, a TypeError or a ValueError."""
    heads = {"num_attention_heads": 16} if model_type == "aya_vision" else {}
    with pytest.raises(InvalidModel, match=rf"{nested}\.model_type '{other}' is not what"):
        tfcalc.params(tfcalc.from_config({"model_type": model_type, nested: {"model_type": other, **heads}}))


def test_squares_of_patches_are_merged_image_by_image() -> None:
    """Of l patches each image has ⌊l/4⌋ squares; two images of 2 patches were merged into one square of both."""
    model = tfcalc.from_config({"model_type": "qwen2_vl_vision"})
    for length, squares in ((2, 0), (3, 0), (4, 1), (1958, 489)):
        one, two = (tfcalc.flops(model, Workload(seq_len=length, batch_size=b), depth=9) for b in (1, 2))
        merger = sum(entry.value for entry in two.whole.walk() if entry.path.endswith(".merger"))
        # four patches of 1280 beside each other go through 5120 x 5120, and 5120 x 3584
        assert merger == 2 * squares * 2 * 5120 * (5120 + 3584)
        assert two.answer == 2 * one.answer


@pytest.mark.parametrize("model_type", ["idefics3_vision", "clip_vision_model", "siglip_vision_model", "vit", "llava"])
def test_an_image_smaller_than_a_patch_is_refused(model_type: str) -> None:
    """No convolution reads it, and PyTorch's refuses it; it was 0 FLOPs."""
    config: dict[str, object] = {"model_type": model_type}
    config |= {"vision_config": {"image_size": 3}} if model_type == "llava" else {"image_size": 3}
    with pytest.raises(InvalidModel, match=r"image_size 3 is smaller than .*patch_size"):
        tfcalc.flops(tfcalc.from_config(config))


@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({"model_type": "t5", "num_layers": 10_000}, 2),  # one kind in each stack
        ({"model_type": "switch_transformers", "num_layers": 10_000}, 4),  # with experts and without
        ({"model_type": "albert", "num_hidden_layers": 10_000, "num_hidden_groups": 10_000}, 2),  # and what is inside
        ({"model_type": "gemma4_unified", "text_config": {"num_hidden_layers": 10_000}}, 4),
        ({"model_type": "neomme", "num_hidden_layers": 10_000}, 2),  # the first and the last add values
        ({"model_type": "zamba", "num_hidden_layers": 10_000}, 2),  # with the shared block and without
    ],
)
def test_ten_thousand_equal_layers_are_few_modules(config: dict[str, object], most: int) -> None:
    """A module each took 5 to 20 s in answers that are there in 0.4 s."""
    model = tfcalc.from_config(config)
    assert isinstance(model, HFModel)
    stacks = {id(each): each for each in model.module().all_of() if isinstance(each, Stack)}
    found = {id(layer) for stack in stacks.values() for layer in stack.layers}
    assert sum(len(stack.layers) for stack in stacks.values()) >= 10_000
    assert len(found) <= most


def test_layers_that_repeat_are_found_without_looking_at_all_pairs() -> None:
    """Each period from 1 to a quarter of 10,000 layers was tried on all of them: 25 million looks, 2 s."""

    class Looked(list[int]):
        looks = 0

        def __getitem__(self, place: Any) -> Any:
            Looked.looks += 1
            return super().__getitem__(place)

    assert max(_repeated(Looked([7] * 10_000), 0, FORWARD_ALONE)) == (10_000 - sum(FORWARD_ALONE) - RUNNING, 1, 10_000)
    assert Looked.looks < 3 * 10_000  # two for each neighbour


def test_a_layer_that_stands_at_many_places_is_compared_once() -> None:
    """10,000 comparisons of layers that are the same module took seconds."""
    compared = []

    class Told(PreNorm):
        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return super().__eq__(other)

    one, other = (Told("layer", (), (), drops) for drops in (True, False))
    groups = Stack("layer", (one, other) * 5_000, 10_000).groups
    assert [(group.layer is one, group.copies) for group in groups] == [(True, 5_000), (False, 5_000)]
    assert len(compared) <= 1


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"model_type": "albert", "num_hidden_layers": 300}, "256 turns of the same layers"),
        ({"model_type": "gemma2", "layer_types": ["full_attention", *["sliding_attention"] * 7] * 90}, ""),
        ({"model_type": "gemma2", "layer_types": RANDOM_TYPES}, "256 layers that differ from their neighbours"),
    ],
)
def test_what_runs_one_by_one_has_a_limit(config: dict[str, Any], what: str) -> None:
    """10,000 turns of ALBERT's layers took 12 s; rows that repeat are no such layers."""
    model = tfcalc.from_config({"num_hidden_layers": len(config.get("layer_types", ())), **config})
    with pytest.raises(InvalidModel, match=what) if what else nullcontext():
        tfcalc.memory(model, Workload(phase="train", seq_len=8), training=tfcalc.Training())


@pytest.mark.parametrize("layers", [250, 10_000])
def test_layers_that_are_all_unlike_have_a_limit(layers: int) -> None:
    """In Inkling 2 each block of three layers reads one more vector: 10,000 of them took 19 s."""
    model = tfcalc.from_config({"model_type": "inkling2_text", "num_hidden_layers": layers})
    with pytest.raises(InvalidModel, match="256 layers that are unlike") if layers > 256 else nullcontext():
        assert tfcalc.params(model).answer > 0


@pytest.mark.parametrize("words", [[0, 0], "many", 1.5, {}, 0])
def test_words_of_the_logits_are_a_number(words: object) -> None:
    """A list was compared with the size of the vocabulary."""
    with pytest.raises(InvalidModel, match="unpadded_vocab_size"):
        tfcalc.params(tfcalc.from_config({"model_type": "inkling_text", "unpadded_vocab_size": words}))


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 9])
def test_the_last_bytes_of_a_text_are_a_patch_too(length: int) -> None:
    """Three bytes had no patch of four. Each patch more costs the large model, whose layers have 4h² + 3hf, so much."""
    model = tfcalc.from_config({"model_type": "blt", "patch_in_forward": False})
    report: Any = tfcalc.flops(model, Workload(seq_len=length)).to_dict()
    parts = {part["name"]: part for part in report["components"][0]["parts"]}
    patches, (h, f, n) = -(-length // 4), (2048, 5632, 25)  # of global_config
    scores = 4 * patches**2 * h * n
    assert parts["global_transformer"]["flops"] == 2 * patches * n * (4 * h * h + 3 * h * f) + scores


@pytest.mark.parametrize("field", ["num_hidden_groups", "inner_group_num", "num_hidden_layers"])
def test_groups_of_layers_have_a_limit_as_layers_have(field: str) -> None:
    """A list of 10^12 groups was begun, until the memory was full."""
    with pytest.raises(InvalidModel, match=f"{field} 1000000000000 is too large; at most 10000 layers"):
        tfcalc.params(tfcalc.from_config({"model_type": "albert", field: 10**12}))


def test_layers_that_run_have_a_limit() -> None:
    """Parameters of any number of layers have a closed form; a step of 10^12 would be a list of them."""
    deep = tfcalc.Transformer(n_layers=10**12)
    assert tfcalc.params(deep).answer > 10**18
    with pytest.raises(InvalidModel, match="1,000,000,000,000 layers are too many to follow one by one"):
        tfcalc.memory(deep, Workload(phase="train"), training=tfcalc.Training())


def test_values_that_are_equal_have_one_fingerprint() -> None:
    """Whatever kind of number they hold; by it the layers are found that have to be compared."""
    plain, other, traced_ = (Linear("q", size, 8, "", True) for size in (512, 513, traced("h", 512)))
    assert plain == traced_
    assert plain.fingerprint == traced_.fingerprint
    assert plain.fingerprint != other.fingerprint


def _memory(model: object, asked: str, run: Workload | None = None, **more: Any) -> int:
    """The bytes of this total."""
    return int(tfcalc.memory(model, run, **more).totals[asked])  # type: ignore[arg-type]


def test_a_flat_shard_steps_at_once() -> None:
    """Lion's two temporaries are as large as a parameter, or as half of all of them: ZeRO-1 on two GPUs takes more."""
    model, run = tfcalc.from_config({"model_type": "tapas"}), Workload(phase="train", seq_len=8, kernel="flash")
    one = tfcalc.Training(optimizer="lion")
    two = one.replaced(zero="1", gpus=2, layout="zero")
    words, params = 30522 * 768, int(tfcalc.params(model).answer)  # the largest parameter, and all of them
    assert _memory(model, "temporary_bytes", run, training=one) == pytest.approx(2 * 4 * words, abs=16)  # or of a sum
    shard = _memory(model, "temporary_bytes", run, training=two)
    assert shard == pytest.approx(2 * 4 * params // 2, abs=16)  # which is filled up
    assert _memory(model, "peak_bytes", run, training=two) > _memory(model, "peak_bytes", run, training=one)


def test_checkpoints_come_on_top_of_gradients() -> None:
    """SGD's peak is in the first layer's backward, where all others have gradients: what it keeps counts, no more.

    Its norm keeps the layer's input in fp32 either way; a checkpoint keeps it in bf16, too.
    """
    model, plan = tfcalc.load("mistral-7b-v0.1"), tfcalc.Training(precision="bf16", optimizer="sgd")
    run = Workload(phase="train", seq_len=957, kernel="eager")
    none, full = (
        _memory(model, "peak_bytes", run.replaced(recompute=word), training=plan) for word in ("none", "full")
    )
    assert full - none == 957 * 4096 * 2


def test_compressed_caches_are_smaller_where_no_token_waits() -> None:
    """DeepSeek-V4 compresses 4 or 128 tokens at once; a rest of them is kept as it is, in blocks of a paged cache."""
    model = tfcalc.load("deepseek-v4-flash")
    whole, rest, more = (
        _memory(model, "kv_cache_bytes", serving=tfcalc.Serving(context=context, cache="paged"))
        for context in (1312, 1311, 1312 + 128)
    )
    assert whole < rest
    assert whole < more


def test_flash_attention_keeps_vectors_where_scores_are_fewer() -> None:
    """At 3 tokens GLM-5's 3 x 3 scores are less than what flash attention keeps instead; at 64 they are not."""
    model, plan = tfcalc.from_config({"model_type": "glm_moe_dsa"}), tfcalc.Training(precision="bf16")

    def kept(kernel: str, length: int) -> int:
        run = Workload(phase="train", seq_len=length, kernel=kernel, recompute="none")
        return _memory(model, "activations_bytes", run, training=plan)

    assert kept("flash", 3) > kept("eager", 3)
    assert kept("flash", 64) < kept("eager", 64)


@pytest.mark.parametrize(("batch", "halved"), [(12, [6, 3, 1]), (999_999_937, [1]), (999_999_999_989, [1])])
def test_a_smaller_batch_divides_the_batch(batch: int, halved: list[int]) -> None:
    """Half a billion numbers were tried below a prime batch: no answer to whether it fits."""
    changes = _smaller_batches(Workload(batch_size=batch), tfcalc.Training())
    assert [change.values["batch_size"] for change in changes] == halved


@pytest.mark.parametrize(("size", "remedy"), [(999_999_999_989, "nearest: 1"), (12, "nearest: 6, 12")])
def test_devices_that_share_a_size_are_found_among_those_that_there_are(size: int, remedy: str) -> None:
    """All numbers up to a prime width of 999,999,999,989 were tried."""
    with pytest.raises(InvalidModel, match=rf"{remedy}$"):
        check_even("width", size, "tp", 7)


def test_a_projector_of_sound_reads_whole_frames() -> None:
    """GLM-ASR's reads four frames of 1280 numbers at once; of 1,500 frames of 7 its formula was not the number."""
    model = tfcalc.from_config({"model_type": "glmasr", "audio_config": {"hidden_size": 7, "head_dim": 64}})
    with pytest.raises(InvalidModel, match="10,500 numbers of sound, in frames of 7, are read 5,120 at once"):
        tfcalc.flops(model)


def test_the_maps_of_8_bit_states_are_a_part_of_the_optimizer() -> None:
    """Two of 256 numbers in fp32, which no module has; the parts of the optimizer were 2,048 bytes too few."""
    run, plan = Workload(phase="train", seq_len=8), tfcalc.Training(optimizer="adamw-8bit")
    whole: Any = tfcalc.memory(tfcalc.load("gpt2"), run, training=plan, depth=2).to_dict()
    states = next(part for part in whole["components"] if part["name"] == "optimizer")
    assert sum(part["bytes"] for part in states["parts"]) == states["bytes"]
    assert states["parts"][-1]["bytes"] == 2 * 256 * 4


def test_what_is_asked_of_no_gpu_is_no_model_that_fits_on_none() -> None:
    """An option without effect was refused on each GPU, and the answer was "does not fit on any GPU"."""
    run = Workload(phase="train", experts="all")
    with pytest.raises(tfcalc.UsageError, match="--experts all has no effect"):
        tfcalc.train("electra-base-generator", 7, run, step_time=1e-5).to_dict()


def test_an_overview_names_no_card_whose_own_kernels_need_more() -> None:
    """Flash attention was counted on a T4, which has none: 9 GiB too few for QLoRA of 11 layers of Llama-2-70B."""
    config = {**tfcalc.load("llama-2-70b").config, "num_hidden_layers": 11}  # type: ignore[union-attr]
    found: Any = tfcalc.overview(tfcalc.from_config(config)).to_dict()
    assert "RTX-3060" in found["finetune_qlora_gpus"]
    assert "T4" not in found["finetune_qlora_gpus"]


@pytest.mark.parametrize(("tokens", "fact"), [("100M", "not a whole number"), (-5, "too small"), (10**19, "too large")])
def test_the_tokens_of_a_run_are_a_number(tokens: Any, fact: str) -> None:
    """Text was found out when the answer was printed, and -5 tokens took -6e-05 seconds."""
    with pytest.raises(InvalidModel, match=fact):
        tfcalc.train("gpt2", tokens)


def test_the_requests_that_are_served_are_a_number() -> None:
    with pytest.raises(InvalidModel, match="concurrency '16' is not a whole number"):
        tfcalc.serve("gpt2", "h100", concurrency="16")  # type: ignore[arg-type]


def test_a_pattern_of_modules_is_as_long_as_a_name() -> None:
    """fnmatch reads an open bracket to the end of a pattern: 10,000 of them took 5 s."""
    with pytest.raises(InvalidModel, match="has 301 characters; give at most 300"):
        tfcalc.memory("gpt2", training=Training(freeze="[" * 301))


def test_a_wrong_amount_on_several_gpus_is_no_question_about_another_cache(quick: Quick) -> None:
    """What check tries beside what was typed, a cache without blocks, cannot be on several GPUs: so it said."""
    found = quick("check", "weights", "7", "llama-3-8b", "--of", "memory", "--serve", "--tp", "2")
    assert (found.returncode, found.stdout.startswith("no: ")) == (1, True)


@pytest.mark.parametrize(
    ("model", "typed", "fewest"),
    [
        ("qwen3.5-122b-a10b", ("--heads", "2"), 4),  # each fourth layer has attention by heads
        ("llama-4-maverick-17b-128e-instruct", ("--d-ff", "4096"), 2),  # each second layer is dense
    ],
)
def test_solve_names_no_size_at_which_what_was_typed_decides_nothing(
    tfcalc: Program, model: str, typed: tuple[str, str], fewest: int
) -> None:
    """Fewer layers have no such size, so that params refuses what was typed."""
    least = int(tfcalc("params", model, *typed, "--layers", str(fewest), "-q").stdout)
    assert tfcalc("params", model, *typed, "--layers", str(fewest - 1), "-q").returncode == 2
    found = tfcalc("solve", f"params <= {least}", "--for", "layers", model, *typed, "-q")
    assert found.stdout == f"{fewest}\n"
    assert tfcalc("solve", f"params < {least}", "--for", "layers", model, *typed).stdout.startswith("NONE FOUND")
