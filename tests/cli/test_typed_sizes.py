"""Sizes that are typed behind a config's model: each command honours them, or refuses what has no effect."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Quick


@pytest.mark.parametrize(
    ("model", "typed", "sought"),
    [
        ("t5-small", "--encoder-layers 3", "layers"),
        ("t5-small", "--decoder-layers 2", "layers"),
        ("t5-small", "--encoder-layers 3 --d-ff 1024 --heads 4", "layers"),
        ("t5-small", "--encoder-layers 3", "d_model"),
        ("t5-small", "--layers 4 --encoder-layers 3", "d_ff"),
        ("t5-small", "--layers 4", "encoder_layers"),
        ("t5-large", "--encoder-layers 3", "layers"),  # whose config leaves the decoder's out
        ("t5-large", "--decoder-layers 3", "layers"),
        ("bart-base", "--encoder-layers 3", "layers"),
        ("bart-base", "--decoder-layers 2 --vocab-size 1k", "encoder_layers"),
        ("whisper-tiny", "--decoder-layers 2", "layers"),
        ("opus-mt-en-de", "--encoder-layers 1", "layers"),
        ("llama-3-8b", "--kv-heads 32 --d-ff 8k --vocab-size 1k", "layers"),
        ("gpt2", "--d-ff 1000 --vocab-size 1k", "layers"),
        ("nvidia-nemotron-nano-9b-v2", "--d-ff 1k", "layers"),
        ("transformer-base", "--encoder-layers 3", "layers"),
    ],
)
def test_what_is_solved_for_holds_beside_what_is_typed(model: str, typed: str, sought: str, quick: Quick) -> None:
    def params(size: int) -> int:
        flag = f"--{sought.replace('_', '-')}"
        return int(quick("params", model, *typed.split(), flag, str(size), "-q").stdout or 10**12)

    here = int(quick("params", model, *typed.split(), "-q").stdout)
    limit = 2 * here
    done = quick("solve", f"params <= {limit}", "--for", sought, "--model", model, *typed.split(), "-q")
    assert (done.returncode, done.stderr) == (0, "")
    found = int(done.stdout)
    assert params(found) <= limit < params(found + 1)


def test_layers_that_are_typed_of_one_stack_leave_those_of_the_other(quick: Quick) -> None:
    """By hand: of T5 a layer of the encoder has 3,146,752 parameters, one of the decoder 4,195,840."""
    done = quick("solve", "params <= 100M", "--for", "layers", "--model", "t5-small", "--encoder-layers", "3", "-q")
    rest = 60_506_624 - 6 * 3_146_752 - 6 * 4_195_840
    assert rest + 3 * 3_146_752 + 17 * 4_195_840 <= 100_000_000 < rest + 3 * 3_146_752 + 18 * 4_195_840
    assert done.stdout == "17\n"


def test_layers_of_two_stacks_that_are_typed_leave_nothing_to_solve_for(quick: Quick) -> None:
    done = quick(
        "solve",
        "params <= 100M",
        *["--for", "layers", "--model", "t5-small", "--encoder-layers", "3", "--decoder-layers", "2"],
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "layers changes nothing in params" in done.stderr


def test_a_design_keeps_the_layers_of_a_stack_that_are_typed(quick: Quick) -> None:
    done = quick("design", "--params", "100M", "--like", "t5-small", "--encoder-layers", "3", "--json")
    for candidate in json.loads(done.stdout)["candidates"]:
        assert "--encoder-layers 3" in candidate["run"] or "--layers 3" in candidate["run"]
        told = quick(*candidate["run"].split()[1:], "-q")
        assert int(told.stdout) == candidate["total_params"]


@pytest.mark.parametrize("command", ["params", "flops", "memory", "overview", "formula", "compare", "why 7B", "solve"])
def test_a_size_that_a_config_does_not_read_is_refused(command: str, quick: Quick) -> None:
    """All layers of Qwen3-30B-A3B have experts, which have a width of their own."""
    words = {"formula": ["formula", "layer"], "solve": ["solve", "params <= 10B", "--for", "layers"]}
    asked = words.get(command, command.split())
    model = ["qwen3-30b-a3b --d-ff 3"] if command == "compare" else ["qwen3-30b-a3b", "--d-ff", "3"]
    done = quick(*asked, *model)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tfcalc: --d-ff 3 has no effect: this model does not read intermediate_size; leave it out\n"


def test_a_size_that_a_config_does_not_read_is_not_swept(quick: Quick) -> None:
    done = quick("sweep", "qwen3-30b-a3b", "--d-ff", "3,7")
    assert (done.returncode, done.stdout) == (2, "")
    assert "d_ff has no effect: this model does not read intermediate_size" in done.stderr


def test_a_field_that_a_config_leaves_out_can_be_swept(quick: Quick) -> None:
    """By hand: each of GPT-2's 12 layers has 2·768 + 1 parameters for each column of its network."""
    done = quick("sweep", "gpt2", "--d-ff", "1024,2048", "--of", "params", "-q")
    first, second = map(int, done.stdout.split())
    assert second - first == 12 * 1024 * (2 * 768 + 1)


def test_fewer_layers_of_a_hybrid_are_the_first_of_its_pattern(quick: Quick) -> None:
    """Nemotron-H begins with ``M-M-M-MM``: by whole layers, so that what is left is that of two Mambas and an MLP."""
    one, two, three = (
        int(quick("params", "nvidia-nemotron-nano-9b-v2", "--layers", str(layers), "-q").stdout) for layers in (1, 2, 3)
    )
    whole = int(quick("params", "nvidia-nemotron-nano-9b-v2", "-q").stdout)
    mamba, mlp = three - two, two - one
    assert mlp == 4480 * (2 * 15680 + 1)
    assert int(quick("params", "nvidia-nemotron-nano-9b-v2", "--layers", "56", "-q").stdout) == whole
    assert mamba > 4480 * 4480


def test_layers_of_an_encoder_are_no_size_of_a_model_without_one(quick: Quick) -> None:
    """ChatGLM's ``num_layers`` are all that it has; T5's are those of its encoder."""
    done = quick("params", "chatglm3-6b", "--encoder-layers", "14")
    assert (done.returncode, done.stdout) == (2, "")
    assert "encoder_layers is not a size of a chatglm config" in done.stderr


@pytest.mark.parametrize("model_type", ["prophetnet", "bart", "t5", "whisper", "marian"])
def test_layers_are_those_of_both_stacks_whatever_they_are_called(model_type: str, quick: Quick) -> None:
    """A layer of each more is as much as one of the encoder more and one of the decoder more."""
    head = "ProphetNetForConditionalGeneration" if model_type == "prophetnet" else None
    config = json.dumps({"model_type": model_type, **({"architectures": [head]} if head else {})})

    def params(*typed: str) -> int:
        return int(quick("params", "-", *typed, "-q", input=config).stdout)

    least = params("--layers", "2")
    encoder, decoder = (params("--layers", "2", f"--{stack}-layers", "3") - least for stack in ("encoder", "decoder"))
    assert encoder > 0
    assert decoder > 0
    assert params("--layers", "3") == least + encoder + decoder
