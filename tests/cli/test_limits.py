"""``--max`` and ``--budget``: one line and an exit code, for a pipeline without a file of budgets."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Quick

CLASSIC = 44_140_544
"""Parameters of torch.nn.Transformer()."""
GPT2 = 124_439_808
"""Parameters of GPT-2, as Hugging Face counts them."""
STEP = 42_553_835_520
"""FLOPs of a forward pass of the classic model: batch 32, 20 target and 10 source tokens (test_manners)."""
RUN = ("flops", "--batch", "32", "--seq", "20", "--source-seq", "10")


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (
            # 124,439,808 - 124,000,000
            ("params", "gpt2", "--max", "124M"),
            1,
            "OVER BUDGET: 124M parameters (124,439,808), at most 124M (440k too many)",
        ),
        (
            # 1,400,000,000 - 124,439,808 = 1,275,560,192
            ("params", "gpt2", "--max", "1.4B"),
            0,
            "WITHIN BUDGET: 124M parameters (124,439,808), at most 1.4B (1.28B to spare)",
        ),
        (("params", "--max", f"{CLASSIC}"), 0, f"({CLASSIC:,}), at most {CLASSIC:,} (0 to spare)"),
        (("params", "--max", f"{CLASSIC - 1}"), 1, f"({CLASSIC:,}), at most {CLASSIC - 1:,} (1 too many)"),
        ((*RUN, "--max", "42.6G"), 0, "WITHIN BUDGET: 42.6 GFLOPs for a forward pass, at most 42.6G (46.2M to spare)"),
        ((*RUN, "--max", "2T"), 0, "at most 2T (1.96T to spare)"),
        ((*RUN, "--max", "1e23"), 0, "at most 1e+23 (1e+23 to spare)"),
        ((*RUN, "--max", "1.69P"), 0, "at most 1.69P (1.69P to spare)"),
        ((*RUN, "--max", "3E"), 0, "at most 3E (3E to spare)"),
        ((*RUN, "--max", f"{STEP - 1}"), 1, "(1 too many)"),
        # 124,439,808 weights of 4 bytes, and no more at rest: 497,759,232 bytes = 474.7 MiB; 25.3 MiB to spare
        (("memory", "gpt2", "--budget", "500MiB"), 0, "needs 475 MiB, the budget is 500MiB (25.3 MiB to spare)"),
        (("memory", "gpt2", "--budget", "400MiB"), 1, "DOES NOT FIT: needs 475 MiB"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
@pytest.mark.parametrize("form", ["table", "plain", "markdown", "latex", "csv"])
def test_a_verdict_is_one_line(quick: Quick, arguments: tuple[str, ...], code: int, line: str, form: str) -> None:
    found = quick(*arguments, "--format", form, env={"COLUMNS": "40"})
    assert (found.returncode, found.stderr) == (code, "")
    assert found.stdout.count("\n") == 1
    assert line in found.stdout
    assert (form == "csv") == found.stdout.startswith('"'), "a line with commas is one field"


def test_of_a_run_the_whole_of_it_is_limited(quick: Quick) -> None:
    ask = ("flops", "gpt2", "--train", "--tokens", "1B")
    total = int(quick(*ask, "-q").stdout)
    for limit, code in ((total, 0), (total - 1, 1)):
        found = quick(*ask, "--max", str(limit))
        assert found.returncode == code
        assert "FLOPs of training on 1,000,000,000 tokens" in found.stdout


def test_quiet_is_the_number(quick: Quick) -> None:
    for limit, code in (("1B", 0), ("1M", 1)):
        assert quick("params", "gpt2", "--max", limit, "-q")[:2] == (code, f"{GPT2}\n")


@pytest.mark.parametrize(
    ("ask", "total"), [(("params",), "total_params"), (RUN, "total_flops"), ((*RUN, "--train"), "total_flops")]
)
def test_json_is_that_of_the_report_and_the_verdict(quick: Quick, ask: tuple[str, ...], total: str) -> None:
    plain, unit = json.loads(quick(*ask, "--json").stdout), total.split("_")[1]
    limit = 10**9
    found = quick(*ask, "--max", "1B", "--json")
    answer = json.loads(found.stdout)
    assert {key: answer.pop(key) for key in (f"limit_{unit}", "within_limit", f"headroom_{unit}")} == {
        f"limit_{unit}": limit,
        "within_limit": plain[total] <= limit,
        f"headroom_{unit}": limit - plain[total],
    }
    assert answer.pop("verdict").startswith("WITHIN" if plain[total] <= limit else "OVER")
    assert answer == plain
    assert found.returncode == (plain[total] > limit)


def test_assumptions_follow_where_they_are_asked_for(quick: Quick) -> None:
    short, long = quick("params", "--max", "1B"), quick("params", "--max", "1B", "--assumptions")
    assert long.stdout.startswith(short.stdout)
    assert "counted: unique trainable tensors" in long.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("params", "--max", "1.5"), "'1.5' is not a whole number"),
        (("params", "--max", "0"), "--max 0 is too small"),
        (("params", "--max", "many"), "'many' is not a number"),
        (("params", "--max", "24GB"), "'24GB' is not a number"),
        (("params", "--budget", "1B"), "option --budget is not known; did you mean --max?"),
        (("flops", "--budget", "1B"), "option --budget is not known; did you mean --max?"),
        (("memory", "--max", "24GB"), "option --max is not known; did you mean --budget?"),
        (("compare", "gpt2", "--max", "1B"), "it is an option of params, flops"),
        (("flops", "--mfu", "--tokens-per-second", "1k", "--gpu", "h100", "--max", "1T"), "no effect with --mfu"),
        (("flops", "--compare-conventions", "--max", "1T"), "no effect with --compare-conventions"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_limit_that_cannot_be(quick: Quick, arguments: tuple[str, ...], said: str) -> None:
    found = quick(*arguments)
    assert (found.returncode, found.stdout) == (2, "")
    assert said in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_card_comes_with_what_would_fit(quick: Quick) -> None:
    ask = ("memory", "gpt2", "--train", "--batch", "64", "--seq", "1024")
    card, budget = quick(*ask, "--gpu", "16GB"), quick(*ask, "--budget", "16GB")
    assert (card.returncode, budget.returncode) == (1, 1)
    assert "what would fit" in card.stdout
    assert json.loads(quick(*ask, "--budget", "16GB", "--json").stdout)["changes"]
