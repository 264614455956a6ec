"""``tfcalc diff``: what changed in a config, and what each change moves by itself."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Quick
from tests.repositories import Repository

LLAMA = "llama-3-8b"
LAYERS, HIDDEN, HEAD_DIM = 32, 4096, 128
KV_PARAMS = LAYERS * 2 * HIDDEN * 8 * HEAD_DIM
"""What eight more key and value heads add: their rows of W_K and W_V in each layer."""
MLP_PARAMS = LAYERS * 3 * HIDDEN * 2048
"""What 2,048 more columns of the MLP add: to each of its three matrices."""
SIZES = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
    "max_position_embeddings": 128,
}


def asked(quick: Quick, *words: str) -> dict[str, Any]:
    """The JSON of a diff."""
    result = quick("diff", *words, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def moved(found: dict[str, Any], *fields: str) -> dict[str, Any]:
    """By how much each number differs, of these fields alone; of all of them where none is named."""
    rows = next(one["rows"] for one in found["moved"] if one["fields"] == list(fields)) if fields else found["rows"]
    return {row["key"]: row["difference"] for row in rows}


def effects(found: dict[str, Any]) -> dict[str, str]:
    """What the answer says of each field."""
    return {field["field"]: field["effect"] for field in found["fields"]}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """One commit of configs/model.json in the folder that the program runs in."""
    found = Repository(tmp_path)
    found.commit({"configs/model.json": json.dumps(SIZES)}, "first")
    return found


def write(repository: Repository, **changed: object) -> None:
    """The config with some fields changed, in the working tree; None takes a field out."""
    data = {name: value for name, value in {**SIZES, **changed}.items() if value is not None}
    (repository.folder / "configs" / "model.json").write_text(json.dumps(data, indent=4))


def test_twice_the_key_and_value_heads(quick: Quick) -> None:
    found = asked(quick, LLAMA, f"{LLAMA} --kv-heads 16")
    assert found["changed"] is True
    assert effects(found) == {"num_key_value_heads": "moves"}
    rows = {row["key"]: row for row in found["rows"]}
    assert rows["total_params"]["difference"] == KV_PARAMS
    assert rows["total_params"]["percent"] == 100 * KV_PARAMS / 8030261248  # transformers (tests/oracle)
    assert rows["forward_flops_per_token"]["difference"] == 2 * KV_PARAMS  # a product with each weight
    assert (rows["kv_cache_bytes_per_token"]["old"], rows["kv_cache_bytes_per_token"]["new"]) == (
        2 * LAYERS * 8 * HEAD_DIM * 2,
        2 * LAYERS * 16 * HEAD_DIM * 2,
    )
    assert rows["weights_bytes"]["difference"] == 2 * KV_PARAMS  # bf16
    peaks = [
        int(quick("memory", LLAMA, *more, "--train", "--seq", "4k", "-q").stdout) for more in ((), ("--kv-heads", "16"))
    ]
    assert [rows["training_peak_bytes"][side] for side in ("old", "new")] == peaks


def test_each_field_by_itself_and_all_together(quick: Quick) -> None:
    found = asked(quick, LLAMA, f"{LLAMA} --kv-heads 16 --d-ff 16384")
    assert moved(found, "num_key_value_heads")["total_params"] == KV_PARAMS
    assert moved(found, "num_key_value_heads")["kv_cache_bytes_per_token"] == 2 * LAYERS * 8 * HEAD_DIM * 2
    assert moved(found, "intermediate_size")["total_params"] == MLP_PARAMS
    assert moved(found, "intermediate_size")["forward_flops_per_token"] == 2 * MLP_PARAMS
    assert moved(found, "intermediate_size")["kv_cache_bytes_per_token"] == 0
    assert moved(found)["total_params"] == KV_PARAMS + MLP_PARAMS
    backwards = asked(quick, f"{LLAMA} --kv-heads 16 --d-ff 16384", LLAMA)
    assert moved(backwards)["total_params"] == -KV_PARAMS - MLP_PARAMS


def test_changes_that_multiply(quick: Quick) -> None:
    """Layers and key and value heads: each alone in the first model, so that they do not add up to the whole."""
    found = asked(quick, LLAMA, f"{LLAMA} --kv-heads 16 --layers 16")
    cache = "kv_cache_bytes_per_token"
    per_layer = 2 * 8 * HEAD_DIM * 2
    assert moved(found, "num_key_value_heads")[cache] == 32 * per_layer
    assert moved(found, "num_hidden_layers")[cache] == -16 * per_layer
    assert moved(found)[cache] == (16 * 2 - 32) * per_layer == 0


def test_what_is_no_model_alone(quick: Quick) -> None:
    """gpt2's width of 1,024 needs 16 heads, as 12 do not divide it; 24 layers need neither."""
    found = asked(quick, "gpt2", "gpt2-medium", "--seq", "256")
    assert effects(found)["n_layer"] == "moves"
    assert effects(found)["n_embd"] == effects(found)["n_head"] == "only together"
    table = (50257 + 1024) * (1024 - 768)
    matrices = 12 * 12 * (1024**2 - 768**2)
    vectors = (12 * 13 + 2) * (1024 - 768)
    assert moved(found, "n_embd", "n_head")["total_params"] == table + matrices + vectors
    assert moved(found, "n_layer")["total_params"] == 12 * (12 * 768**2 + 13 * 768)
    said = quick("diff", "gpt2", "gpt2-medium", "--seq", "256").stdout
    assert "n_embd 768 -> 1,024, n_head 12 -> 16, only together: parameters +79.2M" in said


@pytest.mark.usefixtures("repository")
def test_what_is_no_model_with_any_other_field(quick: Quick, tmp_path: Path) -> None:
    """Three layers with three types of layers, and a width that the heads divide: the width needs two more fields."""
    first = SIZES | {"head_dim": None, "hidden_size": 60, "num_attention_heads": 6, "num_key_value_heads": 3}
    second = SIZES | {"head_dim": None, "hidden_size": 56, "num_attention_heads": 7, "num_key_value_heads": 7}
    for name, data in {"a.json": first, "b.json": second}.items():
        (tmp_path / name).write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
    found = asked(quick, "a.json", "b.json")
    assert set(effects(found).values()) == {"only together"}
    assert moved(found, "hidden_size", "num_attention_heads", "num_key_value_heads") == moved(found)


def test_a_revision_beside_the_file_of_today(quick: Quick, repository: Repository) -> None:
    write(repository, num_key_value_heads=4)
    found = asked(quick, "HEAD:configs/model.json")
    assert [model["name"] for model in found["models"]] == ["HEAD:configs/model.json", "configs/model.json"]
    assert moved(found)["total_params"] == 2 * 2 * 64 * 2 * 16
    assert found == asked(quick, "HEAD:configs/model.json", "configs/model.json")
    repository.commit({}, "second")
    assert found["rows"] == asked(quick, "HEAD~1:configs/model.json", "HEAD:configs/model.json")["rows"]
    assert quick("diff", "HEAD:configs/model.json") == (0, "", "")


def test_what_changes_nothing(quick: Quick, repository: Repository) -> None:
    write(repository, _name_or_path="x", use_cache=False, rope_theta=5e5, comment={"by": "ada"})
    found = asked(quick, "HEAD:configs/model.json")
    assert set(effects(found).values()) == {"nothing"}
    assert {row["difference"] for row in found["rows"]} == {0}
    said = quick("diff", "HEAD:configs/model.json").stdout
    assert said.startswith("configs/model.json: 4 fields changed, and nothing that is counted\n")
    assert "Changes nothing that is counted: _name_or_path not given -> x, use_cache" in said
    write(repository, _name_or_path="x", num_key_value_heads=4)
    assert effects(asked(quick, "HEAD:configs/model.json")) == {
        "num_key_value_heads": "moves",
        "_name_or_path": "nothing",
    }


def test_what_moves_another_number_alone(quick: Quick, repository: Repository) -> None:
    """A longer context moves the cache at that context, and nothing else: 2·2·2·16 numbers of 2 bytes a token."""
    write(repository, max_position_embeddings=256)
    found = asked(quick, "HEAD:configs/model.json")
    differing = {key: difference for key, difference in moved(found).items() if difference}
    assert differing == {"kv_cache_bytes": 128 * 2 * 2 * 2 * 16 * 2}
    assert (
        "model.json: KV cache at context 32.0 KiB -> 64.0 KiB (+100.0 %)"
        in quick("diff", "HEAD:configs/model.json").stdout
    )


@pytest.mark.parametrize("form", ["table", "plain", "csv", "markdown", "latex"])
def test_nothing_where_nothing_changed(quick: Quick, repository: Repository, form: str) -> None:
    """Other white space and another order of the keys are no change."""
    reordered = dict(reversed(SIZES.items())) | {"vocab_size": 100}
    (repository.folder / "configs" / "model.json").write_text(json.dumps(reordered, indent=8))
    assert quick("diff", "HEAD:configs/model.json", "--format", form) == (0, "", "")
    (repository.folder / "out").write_text("of an earlier run")
    assert quick("diff", "HEAD:configs/model.json", "--format", form, "-o", "out") == (0, "", "")
    assert (repository.folder / "out").read_text().strip() == ""
    found = asked(quick, "HEAD:configs/model.json")
    assert (found["changed"], found["fields"], found["moved"]) == (False, [], [])
    assert quick("diff", "HEAD:configs/model.json", "-q").stdout == "0\n"


def test_a_renamed_and_a_deleted_file(quick: Quick, repository: Repository) -> None:
    repository.git("mv", "configs/model.json", "configs/new.json")
    (repository.folder / "configs" / "new.json").write_text(json.dumps(SIZES | {"num_key_value_heads": 4}))
    found = asked(quick, "HEAD:configs/new.json")
    assert [model["name"] for model in found["models"]] == ["HEAD:configs/model.json", "configs/new.json"]
    assert moved(found)["total_params"] == 2 * 2 * 64 * 2 * 16
    deleted = quick("diff", "HEAD:configs/model.json")
    assert (deleted.returncode, deleted.stdout) == (3, "")
    assert "'configs/model.json' does not exist" in deleted.stderr


def test_a_value_by_default_and_a_nested_field(quick: Quick, repository: Repository) -> None:
    write(repository, num_key_value_heads=None, rope_scaling={"rope_type": "linear", "factor": 2.0})
    said = quick("diff", "configs/model.json", "HEAD:configs/model.json").stdout
    assert "num_key_value_heads not given -> 2" in said
    repository.commit({}, "second")
    write(repository, num_key_value_heads=None, rope_scaling={"rope_type": "linear", "factor": 4.0})
    assert effects(asked(quick, "HEAD:configs/model.json")) == {"rope_scaling.factor": "nothing"}


def test_different_types_and_many_fields_have_totals_alone(quick: Quick, repository: Repository) -> None:
    found = asked(quick, "gpt2", "bert-base-uncased")
    assert found["moved"] == []
    assert found["not_attributed"] == "the models are of different types"
    assert set(effects(found).values()) == {"not attributed"}
    # transformers (tests/oracle): 109,482,240 of BertModel, 124,439,808 of GPT2LMHeadModel
    assert moved(found)["total_params"] == 109482240 - 124439808
    unread = {f"comment_{number}": number for number in range(20)}
    write(repository, **unread, num_key_value_heads=4)  # those that nobody reads do not count
    assert effects(asked(quick, "HEAD:configs/model.json"))["num_key_value_heads"] == "moves"


def test_what_is_not_known_is_one_line(quick: Quick) -> None:
    """BERT has no KV cache, and Reformer's training memory is refused: the rest is answered."""
    result = quick("diff", "bert-base-uncased", "bert-base-uncased --layers 6")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count("KV cache per token:") == 1
    found = asked(quick, "bert-base-uncased", "bert-base-uncased --layers 6")
    row = next(row for row in found["rows"] if row["key"] == "kv_cache_bytes_per_token")
    assert (row["old"], row["new"], row["difference"], row["percent"]) == (None, None, None, None)
    assert "does not generate text" in row["reasons"][0]


def test_the_formats_agree(quick: Quick) -> None:
    line = ("diff", LLAMA, f"{LLAMA} --kv-heads 16 --d-ff 16384")
    found = asked(quick, *line[1:])
    rows = list(csv.DictReader(io.StringIO(quick(*line, "--format", "csv").stdout)))
    for row in found["rows"]:
        same = next(one for one in rows if not one["changed alone"] and one["quantity"] == row["key"])
        assert (same["before"], same["after"], same["difference"]) == tuple(
            str(row[key]) for key in ("old", "new", "difference")
        )
    alone = next(row for row in rows if row["changed alone"] == "intermediate_size" and row["unit"] == "params")
    assert int(alone["difference"]) == MLP_PARAMS
    assert quick(*line, "-q").stdout == f"{KV_PARAMS + MLP_PARAMS}\n"


def test_a_comment_on_a_pull_request(quick: Quick, repository: Repository) -> None:
    write(repository, num_key_value_heads=4, intermediate_size=128)
    lines = quick("diff", "HEAD:configs/model.json", "--format", "markdown").stdout.splitlines()
    before = 2 * 100 * 64 + 2 * (2 * 64**2 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64) + 64
    after = before + 2 * (2 * 64 * 32 + 3 * 64 * 32)
    percent = f"{(after - before) / before:+.1%}".replace("%", " %")
    sentence = f"parameters {before / 1000:.3g}k -> {after / 1000:.3g}k ({percent})"
    assert lines[0] == f"**configs/model.json: {sentence}**"
    assert "|  | before | after | change | % |" in lines
    assert any(line.startswith("- intermediate_size 96 -> 128, alone: parameters +") for line in lines)


def test_text_from_a_config_is_only_text(quick: Quick, repository: Repository) -> None:
    write(repository, note="<img src=x> @ada [a](http://b)\n# c \x1b[31m")
    said = quick("diff", "HEAD:configs/model.json", "--format", "markdown").stdout
    assert not {"<img", "@ada", " [a]", "\n# c", "\x1b"} & {
        part for part in ("<img", "@ada", " [a]", "\n# c", "\x1b") if part in said
    }
    assert "\x1b" not in quick("diff", "HEAD:configs/model.json").stdout


def test_options_hold_for_both(quick: Quick) -> None:
    found = asked(quick, "gpt2", "gpt2 --layers 6", "--seq", "256", "--batch", "2", "--lora", "8")
    assert [(model["batch_size"], model["seq_len"]) for model in found["models"]] == [(2, 256)] * 2
    peak = quick("memory", "gpt2", "--train", "--seq", "256", "--batch", "2", "--lora", "8", "-q").stdout
    assert int(peak) == found["models"][0]["training_peak_bytes"]


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        (["HEAD", "a.json"], 2, "'HEAD' is a git revision and no model; write HEAD:a.json"),
        (["gpt2"], 2, "1 model to compare: 'gpt2'; name two, or one file at a git revision: HEAD~1:config.json"),
        ([], 2, "0 models to compare"),
        (["gpt2", "gpt2", "gpt2"], 2, "3 models to compare"),
        (["gpt2", "gpt2 --seq 256"], 2, "put it outside of the quotes"),
        (["gpt2", "gpt2 --heads 7"], 2, "n_embd 768 is not divisible by n_head 7"),
        (["gpt2", "gpt2 'x"], 2, "not closed"),
        (["gpt2", "lama-3-8b"], 3, "did you mean llama-3-8b?"),
        (["gpt2", "gpt2", "--serve"], 2, "--serve"),
        (["gpt2", "gpt2-medium", "--source-seq", "8"], 2, "--source-seq 8 has no effect"),
        (["HEAD:configs/none.json"], 3, "HEAD has no file 'configs/none.json'"),
        (["none:configs/model.json"], 4, "git knows no commit 'none'"),
        (["configs/bad.json", "configs/model.json"], 3, "hidden_size 63 is not divisible by num_attention_heads 4"),
    ],
)
def test_what_cannot_be_answered(quick: Quick, repository: Repository, line: list[str], code: int, says: str) -> None:
    (repository.folder / "configs" / "bad.json").write_text(json.dumps(SIZES | {"hidden_size": 63}))
    result = quick("diff", *line)
    assert (result.returncode, result.stdout) == (code, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_more_than_twelve_fields_that_are_read(quick: Quick, repository: Repository) -> None:
    """Fourteen fields that transformers' LlamaConfig declares, each with another value than by default."""
    fields: dict[str, object] = {
        **{"vocab_size": 200, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 4},
        **{"num_attention_heads": 8, "num_key_value_heads": 4, "hidden_act": "gelu", "max_position_embeddings": 256},
        **{"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "head_dim": 32, "dtype": "bfloat16"},
        "attention_dropout": 0.1,
    }
    write(repository, **fields)
    found = asked(quick, "HEAD:configs/model.json")
    assert len(found["fields"]) == len(fields) == 14
    assert (found["moved"], found["not_attributed"]) == ([], "more than 12 fields that are read")
    layer = 2 * (128 * 256 + 128 * 128) + (256 + 3 * 128) + 3 * 128 * 192 + 2 * 192 + 128 + 2 * 128
    assert found["models"][1]["total_params"] == 200 * 128 + 4 * layer + 128
    assert (
        "14 fields changed, not attributed (more than 12 fields that are read):"
        in quick("diff", "HEAD:configs/model.json").stdout
    )
