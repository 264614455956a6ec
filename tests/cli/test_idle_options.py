"""An option without effect is refused in one line, in every command, as ``memory`` and ``flops`` refuse it."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Quick
from tfcalc import InvalidModel, Training, UsageError, Workload, explain, flops, formula, load, shapes
from tfcalc.analysis.common import OF_FLOPS
from tfcalc.cli.commands import COMMANDS, command
from tfcalc.cli.options import DTYPE, RUN

NO_CONFIG = "--as bert has no effect without a config; name one: a config.json, a preset, or a Hub id"
ON_GPT2 = "has no effect on the FLOPs of gpt2: GPT2LMHeadModel (gpt2); leave it out"
LINES = [
    # a model type beside no config
    *(
        (f"{line} --as bert", NO_CONFIG)
        for line in (
            *("params -q", "flops", "memory", "memory --train", "formula mha", "formula", "explain mha", "shapes mha"),
            *(
                "check mha 4h²+4h",
                "solve params<=1B --for layers",
                "sweep --layers 2,3",
                "plot --seq 64,128",
                "why 44M",
            ),
            *("design --params 125M", "overview", "verify"),
        )
    ),
    # a length, where images of one size are read
    *(
        (
            f"{line} --seq 12",
            "--seq 12 has no effect on the FLOPs of vit-base-patch16-224: ViTForImageClassification (vit)",
        )
        for line in (
            *("flops vit-base-patch16-224", "flops vit-base-patch16-224 --train", "why 35.1G vit-base-patch16-224"),
            "design --flops 1e9 --like vit-base-patch16-224",
        )
    ),
    # what is trained, where nothing asks for it
    ("design --params 125M --lora-targets zzz --freeze nosuch --dora", "--lora-targets zzz has no effect on params"),
    ("design --params 125M --freeze nosuch", "--freeze nosuch has no effect on params; give the budget as --memory"),
    ("design --flops 1e12 --lora 8", "--lora 8 has no effect on flops; give the budget as --memory"),
    ("design --flops 1e12 --qlora 8", "--qlora 8 has no effect on flops"),
    ("formula --lora 8", "--lora 8 has no effect without a target"),
    ("formula mha --freeze *", "--freeze * has no effect on params; add --of trainable, or leave it out"),
    ("explain mha --freeze *", "--freeze * has no effect on params"),
    ("sweep gpt2 --layers 2,3 --freeze *", "--freeze * has no effect on params"),
    ("solve params<=10B --for layers gpt2 --freeze *", "--freeze * has no effect on params; compare trainable_params"),
    # another way of a part that the model does not have
    *(
        (f"{line} {option}", f"{option} {ON_GPT2}")
        for option in ("--mla absorbed", "--experts all", "--source-seq 3")
        for line in (
            *("flops gpt2", "shapes layer gpt2", "formula layer gpt2 --of flops", "explain layer gpt2 --of flops"),
            *("check layer 12h² gpt2 --of flops", "plot gpt2 --seq 64,128", "sweep gpt2 --seq 64,128"),
            *("solve flops<=1e15 gpt2 --for seq", "design --flops 1e12 gpt2", "flops gpt2 --compare-conventions"),
            *("flops gpt2 --train --tokens 1B", "flops gpt2 --mfu --tokens-per-second 1k --gpu h100"),
            *("why 31.5T gpt2 --of flops",) * (option == "--source-seq 3"),
        )
    ),
    ("shapes layer llama-3-8b --mla absorbed -q", "--mla absorbed has no effect on the FLOPs of llama-3-8b"),
    # what only a backward pass has
    *(
        (f"{line} {option}", f"{option} has no effect without --train; add --train")
        for option in ("--attention-kernel eager", "--input-gradient", "--dropout", "--grouped-convolutions counter")
        for line in (
            *("flops gpt2", "shapes layer gpt2", "formula layer gpt2 --of flops", "explain layer gpt2 --of flops"),
            *("plot gpt2 --seq 64,128", "sweep gpt2 --seq 64,128", "solve flops<=1e15 gpt2 --for seq"),
            *("design --flops 1e12 gpt2", "flops gpt2 --phase decode"),
            *("flops gpt2 --compare-conventions",) * ("convolutions" not in option),
        )
    ),
    ("flops gpt2 --train --input-gradient", f"--input-gradient {ON_GPT2}"),
    ("flops gpt2 --train --grouped-convolutions counter", f"--grouped-convolutions counter {ON_GPT2}"),
    ("flops llama-3-8b --train --no-dropout", "--no-dropout has no effect on the FLOPs of llama-3-8b"),
    ("flops gpt2 --train --tokens 1B --grouped-convolutions counter", "counter has no effect with --tokens"),
    ("flops mamba-2.8b --train --checkpointing selective", "--checkpointing selective has no effect on the FLOPs"),
    ("flops bert-base-uncased --attention causal", "--attention causal has no effect on the FLOPs of bert-base"),
    # of a part that the option does not reach
    ("explain ffn gpt2 --of flops --attention causal", "--attention causal has no effect on FLOPs of ffn"),
    ("formula layer gpt2 --of flops --logits last", "--logits last has no effect on FLOPs of layer"),
    ("shapes layer gpt2 --logits last", "--logits last has no effect on 'layer'"),
    ("explain mha gpt2 --of time --logits last", "--logits last has no effect on time of mha"),
    ("formula ffn gpt2 --general", "--general has no effect on parameters of ffn"),
    ("formula --model gpt2 --general", "--general has no effect on this model, each of whose sizes has a symbol"),
    ("formula layer gpt2 --of time --big-o", "--big-o has no effect on time of layer"),
    ("formula complete gpt2 --of memory --weights int8", "--weights int8 has no effect on a part of a model at rest"),
    ("explain complete gpt2 --of memory --weights int8", "--weights int8 has no effect on a part of a model at rest"),
    ("solve attention=ffn --for seq gpt2 --logits last", "--logits last has no effect on what is compared"),
    # definitions of another quantity
    ("plot gpt2 --seq 64,128 --dtype int4", "--dtype int4 has no effect on flops; add --of memory, or leave it out"),
    ("plot gpt2 --layers 2,3 --of params --count all", "--count all has no effect on params"),
    ("sweep gpt2 --layers 2,3 --count all", "--count all has no effect on params; add --of flops, or leave it out"),
    ("sweep gpt2 --layers 2,3 --of memory --count all", "--count all has no effect on memory"),
    ("sweep gpt2 --context 65,130 --of cache --weights int8", "--weights int8 has no effect on the cache"),
    ("solve params<=10B --for layers --count all", "--count all has no effect on params"),
    ("solve params=ffn --for layers gpt2 --seq 5", "--seq 5 has no effect on params"),
    ("solve memory<=80GiB --for batch gpt2 --train --tokens 1B", "--tokens 1000000000 has no effect on memory"),
    ("check mha 4h²+4h --count all", "--count all has no effect on params"),
    ("check core n --of time --batch 3", "--batch 3 has no effect on growth; leave it out"),
    ("explain mha --count all", "--count all has no effect on params"),
    ("explain total_params gpt2 --of flops", "--of flops has no effect on params.total_params"),
    ("why 7B llama-3-8b --batch 3", "--batch 3 has no effect on params; add --of flops or --of cache, or leave it out"),
    ("why 56KiB gpt2 --of cache --context 128", "--context 128 has no effect on cache; take --of memory and give"),
    ("why 124M gpt2 --qlora", "--qlora 16 has no effect on a number that is not of bytes"),
    ("memory gpt2 --no-dropout", "--no-dropout has no effect on a model at rest"),
    ("explain total_params gpt2 --train", "--train has no effect on params"),
    # what nothing trains
    ("params gpt2 --lora 8 --freeze lm_head", "--freeze 'lm_head' has no effect on what is not trained"),
    ("memory gpt2 --train --lora 8 --freeze lm_head", "--freeze 'lm_head' has no effect on what is not trained"),
    # of training and of serving
    ("explain optimizer gpt2 --of memory --train --attention causal", "--attention causal has no effect on the memory"),
    ("formula activations gpt2 --of memory --train --experts all", "--experts all has no effect on the memory"),
    ("formula activations gpt2 --of memory --train --with-batch", "leave out approx, big_o, with_batch"),
    ("memory gpt2 --serve --attention-kernel eager", "--attention-kernel eager has no effect with a paged cache"),
    ("memory llama-3-8b --train --backend megatron --tp 2 --gpus 2 --vpp 2", "no effect on a pipeline of one stage"),
    ("memory gpt2 --train --backend megatron --device recorded", "--device recorded has no effect with --backend"),
]


@pytest.mark.parametrize(("line", "said"), LINES, ids=[line for line, _ in LINES])
def test_an_option_without_effect_is_refused(quick: Quick, line: str, said: str) -> None:
    found = quick(*line.split())
    assert (found.returncode, found.stdout, len(found.stderr.splitlines())) == (2, "", 1)
    assert said in found.stderr


BOTH = ["gpt2", "gpt2-medium"]


@pytest.mark.parametrize(
    "options",
    [
        "--optimizer sgd --lora-dropout abc",
        "--lora 8 --lora-dropout abc",
        "--lora 8 --base-weights zzz",
        "--base-weights zzz",
        "--zero 3",
        "--layout fsdp2",
        "--sequence-parallel",
        "--pp 2",
        "--dora",
        "--freeze nosuch",
        "--loss fused --backend megatron",
    ],
)
def test_what_no_training_can_have_is_refused_beside_two_models_as_of_one(quick: Quick, options: str) -> None:
    """It was a note below the answer."""
    alone = quick("memory", "gpt2", "--train", "--seq", "64", *options.split())
    assert alone.returncode == 2
    for line in (["diff", *BOTH], ["compare", *BOTH, "--train"]):
        found = quick(*line, "--seq", "64", *options.split())
        assert (found.returncode, found.stdout, found.stderr) == (2, "", alone.stderr)


def test_a_wrong_value_of_one_of_those_compared_is_refused(quick: Quick) -> None:
    found = quick("compare", "gpt2", "gpt2 --lora 8 --lora-dropout abc", "--train", "--seq", "64")
    assert (found.returncode, found.stdout) == (2, "")
    assert "--lora-dropout 'abc' is no probability" in found.stderr


def test_what_one_of_those_compared_does_not_have_is_noted_where_another_has_it(quick: Quick) -> None:
    line = ["compare", "gpt2", "llama-3.2-1b", "--train", "--seq", "64", "--lora", "8", "--lora-targets", "c_attn"]
    found = quick(*line, "--json")
    row = next(row for row in json.loads(found.stdout)["rows"] if row["key"] == "training_peak_bytes")
    assert [value is None for value in row["values"]] == [False, True]


@pytest.mark.parametrize("option", ["experts", "latent", "source_len", "kernel", "dropout"])
def test_what_a_variable_says_for_other_questions_is_passed_over(quick: Quick, option: str) -> None:
    """The same answer as without it, where the option would be refused."""
    values = {"experts": "all", "latent": "absorbed", "source_len": "3", "kernel": "eager", "dropout": "false"}
    key = next(known.keys[0] for known in RUN if known.name == option)
    for line in (["flops", "gpt2"], ["shapes", "layer", "gpt2"], ["explain", "layer", "gpt2", "--of", "flops"]):
        plain, told = quick(*line), quick(*line, env={f"TFCALC_{key.upper()}": values[option]})
        assert (told.returncode, told.stdout) == (0, plain.stdout)


@pytest.mark.parametrize(
    "line",
    [
        "flops gpt2 --experts chosen",
        "flops gpt2 --train --dropout",
        "flops gpt2 --train --attention-kernel math",
        "flops gpt2 --seq 1 --attention causal",
        "flops t5-small --source-seq 512",
        "flops deepseek-v3 --mla absorbed",
        "memory llama-3-8b --dtype bf16",
        "params gpt2 --no-dora",
        "plot gpt2 --layers 2,3 --of memory --dtype int4",
        "memory gpt2 --serve --cache dynamic --attention-kernel eager",
        "explain layer gpt2 --of flops --logits all",
        "formula ffn --general",
        "formula ffn --general --substitute h=512,f=2048",
        "formula --count all",
        "solve d_ff=4*seq --for d_ff --seq 128",
        "why 384KB llama-3-8b --seq 1 --batch 3",
        "diff gpt2 gpt2-medium --seq 64 --optimizer sgd",
        "params gpt2 --lora 8 --freeze transformer.h.attn.c_attn",
        "explain total_params gpt2 --of params",
    ],
)
def test_what_has_an_effect_here_or_says_the_default_is_accepted(quick: Quick, line: str) -> None:
    found = quick(*line.split())
    assert (found.returncode, found.stderr) == (0, "")


def test_a_frozen_module_spares_its_gradient_once() -> None:
    """LoRA spares it of all its maps: of 4·h·h products a layer's own map has two left, forward and the input's."""
    model, run = load("gpt2"), Workload(phase="train", seq_len=8)
    lora = flops(model, run, training=Training(lora=8)).answer
    both = flops(model, run, training=Training(lora=8, freeze="transformer.h.mlp.c_fc")).answer
    tokens, width, rank, layers = 8, 768, 8, 12
    adapters = 2 * tokens * rank * (width + 4 * width)
    assert lora - both == layers * adapters


@pytest.mark.parametrize(("name", "value"), [("latent", "absorbed"), ("experts", "all"), ("source_len", 3)])
def test_the_library_refuses_another_way_of_a_part_that_the_model_does_not_have(name: str, value: object) -> None:
    model, run = load("gpt2"), Workload().replaced(**{name: value})
    for ask in (
        lambda: flops(model, run),
        lambda: shapes("layer", model, run),
        lambda: formula("layer", "flops", model, run),
        lambda: explain("layer", model, "flops", run),
    ):
        with pytest.raises(UsageError, match="has no effect on the FLOPs of gpt2"):
            ask()


def test_the_library_refuses_to_freeze_what_is_not_trained() -> None:
    with pytest.raises(InvalidModel, match="has no effect on what is not trained"):
        flops(load("gpt2"), Workload(phase="train"), training=Training(lora=8, freeze="lm_head"))


def test_all_that_may_be_idle_in_flops_are_options_of_all_commands_that_count_them() -> None:
    """So that none is forgotten where a command or a field is added."""
    names = {option.name for option in RUN}
    assert set(OF_FLOPS) <= names
    having = [name for name in COMMANDS if {option.name for option in command(name).options} >= set(OF_FLOPS)]
    assert {"flops", "shapes", "formula", "explain", "check", "plot", "sweep", "solve", "design"} <= set(having)
    assert not {option.name for option in DTYPE} & names
