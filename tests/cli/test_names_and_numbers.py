"""Names that no file can have, and numbers that Python does not read: one line and the right exit code, never a bug."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Quick
from tests.repositories import Repository

LONG = "a" * 300
"""More than the 255 bytes that a name may have."""
DEEP = "a/" * 3_000 + "x.json"
"""More than the 4,096 bytes that a path may have."""
DIGITS = "9" * 5_000
"""More than the 4,300 digits that Python reads."""
PLACES = {
    "long": LONG,
    "long file": f"{LONG}.json",
    "long here": f"./{LONG}",
    "long in a folder": f"{LONG}/{LONG}",
    "long of nobody": f"~{LONG}/x",
    "deep": DEEP,
    "loop": "loop",
    "in a loop": "loop/x.json",
    "in a file": "file/x.json",
}
BUDGET = '[models.a]\npreset = "gpt2"\n[[budget]]\nmodel = "a"\nmetric = "params.total_params"\nmax = "1B"\n'


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a file, and a link that leads to itself."""
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


def in_a_line(told: str) -> bool:
    """Whether it is a refusal, and no bug."""
    return told.count("\n") == 1 and "internal error" not in told and len(told) <= 600


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["params"], 3),
        (["params", "--model"], 3),
        (["compare", "gpt2"], 3),
        (["diff", "gpt2"], 3),
        (["verify", "gpt2", "--checkpoint"], 3),
        (["budget", "--file"], 3),
        (["params", "gpt2", "-o"], 2),
    ],
    ids=str,
)
@pytest.mark.usefixtures("here")
def test_a_name_that_no_file_has(quick: Quick, words: list[str], code: int, place: str) -> None:
    done = quick(*words, place)
    assert (done.returncode, done.stdout) == (code, "")
    assert in_a_line(done.stderr)


@pytest.mark.parametrize("place", [f"{LONG}:b.json", f"{LONG}:b/c", f"HEAD:{LONG}.json", f"HEAD:./{DEEP}"])
@pytest.mark.parametrize("words", [["params"], ["compare", "gpt2"], ["diff", "gpt2"], []], ids=" ".join)
def test_a_revision_that_no_file_is_called_like(quick: Quick, here: Path, words: list[str], place: str) -> None:
    assert quick(*words, place).returncode == 4  # no repository
    repository = Repository(here)
    repository.git("commit", "-q", "--allow-empty", "-m", "nothing")
    done = quick(*words, place)
    assert (done.returncode, done.stdout) == (3 if place.startswith("HEAD") else 4, "")
    assert in_a_line(done.stderr)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"])
@pytest.mark.usefixtures("here")
def test_a_cache_that_cannot_be(quick: Quick, variable: str, place: str) -> None:
    caches = {"HF_HUB_CACHE": "", "HF_HOME": "", "XDG_CACHE_HOME": ""}
    done = quick("params", "no-owner/no-model", "--offline", env={**caches, variable: place})
    assert done.returncode == 4
    assert in_a_line(done.stderr)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_recorded_values_that_cannot_be_kept(quick: Quick, here: Path, place: str) -> None:
    (here / "tfcalc.toml").write_text(BUDGET, encoding="utf-8")
    for words, code in ((["budget", "--baseline", place], 3), (["budget", "--baseline", place, "--update"], 2)):
        done = quick(*words)
        assert (done.returncode, done.stdout) == (code, "")
        assert in_a_line(done.stderr)


CLASS = "class A:\n  shape = (3, 4); dtype = 'float32'\nclass C:\n  def __init__(self, x=1): self.w = A()\n"


@pytest.mark.parametrize(
    "value", ["nan", "NaN", "inf", "-inf", "infinity", "1e999", "-1e999", "1e30", DIGITS, f"-{DIGITS}", "0" * 5_000]
)
@pytest.mark.parametrize("named", ["", "x="])
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["table", "json"])
def test_an_argument_that_is_no_number_below_the_end_of_all(
    quick: Quick, here: Path, value: str, named: str, form: list[str]
) -> None:
    (here / "own.py").write_text(CLASS, encoding="utf-8")
    done = quick("verify", "--module", "own.py:C", f"--args={named}{value}", *form)
    assert (done.returncode, done.stdout) == (2, "")
    assert in_a_line(done.stderr)
    assert not form or json.loads(done.stderr)["code"] == "usage"


@pytest.mark.parametrize("value", [DIGITS, f"2x{DIGITS}", f"{DIGITS}:ids", "2x1" + "0" * 18, "²", "٣x٣"])
def test_a_shape_that_no_tensor_has(quick: Quick, here: Path, value: str) -> None:
    (here / "own.py").write_text(CLASS, encoding="utf-8")
    done = quick("verify", "--module", "own.py:C", "--inputs", value)
    assert (done.returncode, done.stdout) == (2, "")
    assert in_a_line(done.stderr)


@pytest.mark.parametrize(
    "words",
    [
        ["sweep", "gpt2", "--seq", f"1..100:x{DIGITS}"],
        ["sweep", "gpt2", "--seq", "1..100:x²"],
        ["sweep", "gpt2", "--seq", f"1..{DIGITS}"],
        ["plot", "gpt2", "--over", f"seq=1..8:x{DIGITS}"],
        ["check", "mha", f"1e{DIGITS}"],
        ["check", "mha", f"h^{DIGITS}"],
        ["why", DIGITS, "gpt2"],
        ["solve", f"params <= 1e{DIGITS}", "--for", "layers"],
        ["quiz", DIGITS],
        ["quiz", "--seed", DIGITS],
        ["memory", "gpt2", "--weights", f"int4-g{DIGITS}"],
        ["memory", "gpt2", "--train", "--lora", "4", "--lora-dropout", "nan"],
        ["memory", "gpt2", "--serve", "--gpu", f"{DIGITS}xh100"],
        ["memory", "gpt2", "--train", "--checkpointing", f"every:{DIGITS}"],
        ["flops", "gpt2", "--pattern", f"local:{DIGITS}"],
        ["formula", "mha", "--substitute", f"h={DIGITS}"],
        ["explain", f"params.components.{DIGITS}", "gpt2"],
        ["explain", "compare.models.².total_params", "gpt2", "gpt2"],
        ["params", "gpt2", "--max", DIGITS],
        ["params", "gpt2", "--depth", DIGITS],
        ["design", "--params", DIGITS],
        ["design", "--params", "1B", "--within", DIGITS],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_a_number_of_more_digits_than_python_reads(quick: Quick, words: list[str]) -> None:
    done = quick(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert in_a_line(done.stderr)
