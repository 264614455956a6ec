"""Logs of trainers: what is read of each, and files that are none.

The lines are in the form of real logs, with numbers of a run that is made up: Megatron-LM issue 756 and its printed
arguments, torchtitan pull requests 1437 and 2389, transformers' Trainer, nanotron issue 390, LLM-Shearing issue 24.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Quick
from tests.planning_runs import FILE, timed
from tfcalc.timing.run_logs import rows_in

LOGS = Path(__file__).parent / "logs"
READ: dict[str, dict[str, object]] = {
    "megatron.log": {
        "step_time_s": 5.5338,
        "global_batch": 128,
        "n_gpus": 16,
        "tp": 2,
        "pp": 1,
        "cp": 1,
        "ep": 1,
        "etp": 2,
        "micro_batch": 1,
        "seq": 4096,
        "recompute": "selective",
        "precision": "bf16",
        "zero": 1,
    },
    "torchtitan.log": {
        "tokens_per_s_per_gpu": 6126.0,
        "n_gpus": 8,
        "tp": 2,
        "pp": 1,
        "micro_batch": 2,
        "global_batch": 8,
        "seq": 8192,
        "stack": "fsdp",
    },
    "trainer.log": {"step_time_s": 1 / 0.587, "global_batch": 16, "micro_batch": 2, "stack": "fsdp"},
    "trainer_state.json": {"step_time_s": 505.6061 / 297, "global_batch": 16, "micro_batch": 2, "stack": "fsdp"},
    "nanotron.log": {
        "step_time_s": 1.5,
        "global_batch": 64,
        "n_gpus": 8,
        "tp": 2,
        "pp": 1,
        "seq": 4096,
        "micro_batch": 2,
        "zero": 1,
    },
    "llm-foundry.log": {
        "tokens_per_s_per_gpu": 4112.384,
        "n_gpus": 16,
        "seq": 2048,
        "global_batch": 128,
        "micro_batch": 8,
        "stack": "fsdp",
    },
}
MORE = {
    "megatron.log": "--gpu a100-80",
    "torchtitan.log": "--gpu h100 --model llama-3-8b",
    "trainer.log": "--gpu 8xh100 --model llama-3-8b --seq 2k",
    "trainer_state.json": "--gpu 8xh100 --model llama-3-8b --seq 2k",
    "nanotron.log": "--gpu h100",
    "llm-foundry.log": "--gpu a100-80 --model mpt-7b",
}


@pytest.mark.parametrize("name", READ)
def test_what_a_log_says(quick: Quick, name: str) -> None:
    """The middle of the steps after the first; sizes and layout where it prints them. The rest is typed."""
    ((_, row),) = rows_in((LOGS / name).read_text(encoding="utf-8"), name)
    for key, value in READ[name].items():
        assert row[key] == pytest.approx(value, rel=0.002) if isinstance(value, float) else row[key] == value, key
    found = json.loads(quick("calibrate", str(LOGS / name), *MORE[name].split(), "--json").stdout)
    assert found["runs"] == 1
    assert found["factors"][0]["name"] == "scale"
    assert found["each"][0]["after_seconds"] == pytest.approx(found["each"][0]["measured_seconds"], rel=0.03)


def test_the_models_of_printed_arguments(quick: Quick, tmp_path: Path) -> None:
    """Megatron's arguments are those of Llama 3 8B: the same estimate as of the preset."""
    text = (LOGS / "megatron.log").read_text(encoding="utf-8")
    bare = "\n".join(line for line in text.splitlines() if "hidden_size ..." not in line)
    (tmp_path / "bare.log").write_text(bare, encoding="utf-8")
    words = ("--gpu", "a100-80", "--json")
    whole = json.loads(quick("calibrate", str(LOGS / "megatron.log"), *words).stdout)
    typed = json.loads(quick("calibrate", str(tmp_path / "bare.log"), "--model", "llama-3-8b", *words).stdout)
    assert whole["each"][0]["before_seconds"] == pytest.approx(typed["each"][0]["before_seconds"])


def test_rates_of_a_file(quick: Quick, tmp_path: Path) -> None:
    """Written where -o says, read by --rates, named in the answer, and used as they are."""
    runs = tmp_path / "runs.jsonl"
    lines = [
        json.dumps({**row, "step_time_s": 2 * row["step_time_s"]}) for row in timed()[:300] if row["gpu"] == "A100-40"
    ]
    runs.write_text("\n".join(lines[::8]), encoding="utf-8")
    rates = tmp_path / "rates.toml"
    found = json.loads(quick("calibrate", str(runs), "-o", str(rates), "--json").stdout)
    assert found["before"]["mean_percent"] > 40 > 14 > found["after"]["mean_percent"]
    plain = ("train", "llama-3.2-1b", "--tokens", "1B", "--gpu", "a100-40", "--compile", "--json")
    before, after = (json.loads(quick(*plain, *more).stdout) for more in ((), ("--rates", str(rates))))
    assert after["run"]["step_seconds"] / before["run"]["step_seconds"] == pytest.approx(2, rel=0.15)
    assert after["rates_file"] == f"{rates}, fitted to {found['runs']} runs of runs.jsonl"
    band = found["after"]["p90_percent"] / 100
    assert after["run"]["step_seconds_low"] == pytest.approx(after["run"]["step_seconds"] / (1 + band), rel=1e-4)
    assert f"Rates: {rates}" in quick(*plain[:-1], "--rates", str(rates)).stdout
    shape = "--gpu 8xa100-40 --global-batch-size 64 --tp 2 --pp 1 --cp 1 --micro-batch 1 --zero 3 --json"
    planned = json.loads(quick("plan", "gpt2", *shape.split(), "--rates", str(rates)).stdout)
    assert planned["stack"] == "fsdp"
    assert planned["band"]["class"] == "calibrated"
    other = quick("plan", "gpt2", *shape.replace("a100-40", "h100").split(), "--rates", str(rates))
    assert (other.returncode, other.stderr.count("\n")) == (2, 1)
    assert "has no rates of hopper" in other.stderr


def test_a_settings_file_names_no_rates(quick: Quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a file is found, and may be anyone's."""
    (tmp_path / "tfcalc.toml").write_text('rates = "rates.toml"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = quick("train", "gpt2", "--tokens", "1B", "--gpu", "h100")
    assert found.returncode == 3
    assert "--rates is taken from the command line alone" in found.stderr


ROW = {"model": "gpt2", "gpu": "h100", "n_gpus": 8, "micro_batch": 8, "global_batch": 64, "seq": 1024, "step_time_s": 1}


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("", 3, "has no line with the time of a step"),
        ("hello\nworld", 3, "logs that are read: Megatron-LM"),
        ("\x00\xff" * 50, 3, "has no line with the time of a step"),
        ("[" * 100_000, 3, "has no line with the time of a step"),
        ('{"gpu": ' + "[" * 100_000, 3, "1 is not JSON"),
        ('{"gpu": NaN}', 3, "1 is not JSON"),
        ('{"n_gpus": 1' + "0" * 5_000 + "}", 3, "1 is not JSON"),
        (json.dumps(ROW | {"n_gpus": "many"}), 3, "n_gpus 'many' is no number above 0"),
        (json.dumps(ROW | {"n_gpus": 10**12}), 3, "is no number above 0"),
        (json.dumps(ROW | {"tp": 2.5}), 3, "tp 2.5 is not a whole number"),
        (json.dumps(ROW | {"tp": 3}), 3, "8 GPUs are not divisible by tp 3"),
        (json.dumps(ROW | {"gpu": "h1000"}), 3, "h1000"),
        (json.dumps(ROW | {"gpu": "rtx-4090"}), 2, "no rates of RTX-4090 are known"),
        (json.dumps(ROW | {"precision": "int7"}), 3, "precision 'int7' is not known"),
        (json.dumps(ROW | {"model": "/etc/passwd"}), 3, "is no preset"),
        (json.dumps(ROW | {"model": "meta-llama/Llama-3.1-8B"}), 3, "is no preset"),
        (json.dumps(ROW | {"arch": {"L": 10**9, "h": 8}}), 3, "a size is not from 0 to 1,000,000"),
        (json.dumps(ROW | {"arch": {"h": 8}}), 3, "arch cannot be read"),
        (json.dumps(ROW | {"arch": {"h": 8, "mla": 5}}), 3, "mla 5 is no object"),
        (json.dumps(ROW | {"config": {"model_type": "llama", "num_hidden_layers": 10**12}}), 3, "num_hidden_layers"),
        (json.dumps(ROW | {"step_time_s": 1e-6}), 3, "is below the"),
        (json.dumps({**ROW, "step_time_s": None}), 2, "no time"),
        (
            json.dumps({**ROW, "micro_batch": None}),
            2,
            "no micro_batch; give what the log does not say, such as --micro-batch 1",
        ),
        ("\n".join([json.dumps(ROW)] * 1_001), 3, "has over 1,000 runs"),
        ('{"log_history": [{"train_runtime": {}, "step": []}]}', 2, "no run can be fitted"),
    ],
)
def test_what_is_no_log_is_said_in_a_line(quick: Quick, tmp_path: Path, text: str, code: int, told: str) -> None:
    """Fact, value and remedy; nothing is written."""
    log = tmp_path / "run.log"
    log.write_text(text, encoding="utf-8", errors="surrogateescape")
    found = quick("calibrate", str(log), "-o", str(tmp_path / "rates.toml"))
    assert (found.returncode, found.stderr.count("\n"), found.stdout) == (code, 1, "")
    assert told in found.stderr
    assert not (tmp_path / "rates.toml").exists()


def test_options_and_logs_do_not_contradict(quick: Quick, tmp_path: Path) -> None:
    """What a log says and an option says otherwise is refused; so is a log as the file to write, and no log."""
    log = str(LOGS / "megatron.log")
    found = quick("calibrate", log, "--gpu", "a100-80", "--tp", "4")
    assert found.returncode == 2
    assert "--tp 4 contradicts" in found.stderr
    found = quick("calibrate", log, "--gpu", "a100-80", "--model", "gpt2")
    assert found.returncode == 2
    assert "--model gpt2 has no effect: every run says its own model" in found.stderr
    copy = tmp_path / "runs.jsonl"
    copy.write_text(FILE.read_text(encoding="utf-8").splitlines()[0], encoding="utf-8")
    assert "is one of the logs" in quick("calibrate", str(copy), "-o", str(copy)).stderr
    assert "a calibration needs logs" in quick("calibrate").stderr
    assert "cannot be read" in quick("calibrate", str(tmp_path / "none.log")).stderr


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("version = 1", "version = 2"), "version 2 is not known"),
        (("[machine]", "[engine]"), "machine does not have the rates"),
        (("hidden = ", "hidden = 7 #"), "hidden 7 is no such rate"),
        (("memory = ", "memory = nan #"), "is no such rate"),
        (("memory = ", "memory = 'x' #"), "is no such rate"),
        (("p90 = ", "p90 = 3 #"), "band.p90 3 is no number from 0 to 0.9"),
        (("generations.ampere", "generations.pascal"), "is not known"),
        (("kind = ", "kind = 'mine' #"), "band.kind is neither"),
        (("version = 1", "version = ["), "is not TOML"),
        (("version = 1", "version = 1\nx = '" + "a" * 70_000 + "'"), "is larger than 64 KiB"),
    ],
)
def test_a_file_of_rates_is_checked(quick: Quick, tmp_path: Path, change: tuple[str, str], told: str) -> None:
    """Version, sections, and numbers that can be rates; one line, exit 3."""
    rates = tmp_path / "rates.toml"
    quick("calibrate", str(LOGS / "megatron.log"), "--gpu", "a100-80", "-o", str(rates))
    rates.write_text(rates.read_text(encoding="utf-8").replace(*change, 1), encoding="utf-8")
    found = quick("train", "gpt2", "--tokens", "1B", "--gpu", "a100-80", "--rates", str(rates))
    assert (found.returncode, found.stderr.count("\n"), found.stdout) == (3, 1, "")
    assert told in found.stderr
