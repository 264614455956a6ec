"""Bad sizes and contradictions: one line with the value that was given, the right exit code, nothing on stdout."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Program
from tests.examples import examples
from tfcalc.cli.main import main

CASES = {
    "zero width": (["params", "--d-model", "0"], "0"),
    "negative width": (["params", "--d-model", "-512"], "-512"),
    "no layers": (["params", "--layers", "0"], "0"),
    "absurd width": (["params", "--d-model", "1e15"], "1e+15"),
    "absurdly long number": (["params", "--d-model", "9" * 5000], "9999"),
    "huge exponent": (["params", "--d-model", "1e999"], "1e"),
    "NaN": (["flops", "--batch", "nan"], "nan"),
    "feed-forward of nothing": (["params", "--d-ff", "0"], "0"),
    "no value": (["params", "--d-ff"], "--d-ff"),
    "heads": (["params", "--heads", "7"], "7"),
    "more heads than width": (["params", "--d-model", "4", "--heads", "8"], "8"),
    "groups": (["params", "--kv-heads", "3"], "3"),
    "tied to nothing": (["params", "--output-head", "tied"], "tied"),
    "bias of nothing": (["params", "--vocab-size", "9", "--output-head", "none", "--output-bias"], "bias"),
    "positions of nothing": (["params", "--positions", "learned", "--max-len", "9"], "vocabulary"),
    "learned positions, how many": (["params", "--positions", "learned", "--vocab-size", "9"], "max_len"),
    "a table for no positions": (["params", "--positions", "none", "--vocab-size", "9", "--max-len", "5"], "5"),
    "a table for rotary positions": (["params", "--positions", "rotary", "--vocab-size", "9", "--max-len", "5"], "5"),
    "a recurrent network for nothing": (["params", "--positions", "recurrent"], "vocabulary"),
    "relative positions, how far": (["params", "--positions", "relative"], "max_distance"),
    "distances of sinusoids": (["params", "--max-distance", "16"], "max_distance 16"),
    "buckets of sinusoids": (["params", "--buckets", "32"], "buckets 32"),
    "no distance": (["params", "--positions", "deberta", "--max-distance", "0"], "0"),
    "rotary positions of odd heads": (["params", "--positions", "rotary", "--head-dim", "63"], "63"),
    "unknown positions": (["params", "--positions", "alibbi"], "alibi"),
    "unknown pattern": (["flops", "--pattern", "strided:4"], "strided:4"),
    "a pattern without its reach": (["flops", "--pattern", "local"], "local:4"),
    "a pattern of nothing": (["flops", "--pattern", "sliding:0"], "sliding:0"),
    "a pattern of less": (["flops", "--pattern", "atrous:-1"], "atrous:-1"),
    "a pattern of half a key": (["flops", "--pattern", "atrous:1.5"], "atrous:1.5"),
    "a pattern named by its letter": (["flops", "--pattern", "chunked:N"], "chunked:N"),
    "a pattern of a named model": (["flops", "--model", "gpt2", "--pattern", "local:4"], "pattern"),
    "target vocabulary, one stack": (
        ["params", "--kind", "encoder", "--vocab-size", "9", "--target-vocab-size", "8"],
        "target_vocab_size 8",
    ),
    "decoder layers of an encoder": (["params", "--kind", "encoder", "--decoder-layers", "2"], "decoder_layers 2"),
    "source of a decoder": (["flops", "--kind", "decoder", "--source-seq", "5"], "--source-seq 5 has no effect"),
    "longer than positions": (
        ["flops", "--vocab-size", "9", "--positions", "learned", "--max-len", "8", "--seq", "9"],
        "9",
    ),
    "train and not": (["flops", "--train", "--phase", "forward"], "forward"),
    "cached, but nothing is decoded": (["flops", "--cached", "77"], "cached 77"),
    "recomputed, but no backward": (["flops", "--recompute", "full"], "phase 'forward'"),
    "stopped early, but not begun": (["flops", "--train", "--early-stop"], "recompute full"),
    "every so manieth": (["flops", "--train", "--recompute", "every:zero"], "every:zero"),
    "every none": (["flops", "--train", "--recompute", "every:0"], "every:0"),
    "decoded by an encoder": (["flops", "--kind", "encoder", "--phase", "decode"], "encoder does not generate text"),
    "decoded by a reader": (
        ["flops", "bert-base-uncased", "--phase", "decode", "--cached", "9"],
        "BertModel does not generate text",
    ),
    "verified without data": (["verify", "--of", "flops", "--attention-kernel", "flash"], "flash"),
    "verified by half": (["verify", "--of", "flops", "--attention", "causal-half"], "causal-half"),
    "unknown phase": (["flops", "--phase", "backward"], "backward"),
    "unknown dtype": (["memory", "--dtype", "fp64"], "fp64"),
    "unknown target": (["formula", "heads"], "heads"),
    "target not in the model": (["formula", "cross-mha", "--kind", "encoder"], "cross-mha"),
    "unknown format": (["params", "--format", "xml"], "xml"),
    "unknown quantity": (["formula", "mha", "--of", "joules"], "joules"),
    "approximate FLOPs": (["formula", "mha", "--of", "flops", "--approx"], "flops"),
    "substitute": (["formula", "mha", "--substitute", "h"], "h"),
    "substitute a word": (["formula", "mha", "--substitute", "h=wide"], "wide"),
    "substitute code": (["formula", "mha", "--substitute", "h=__import__('os')"], "__import__"),
    "no part in a summary": (["formula", "--approx"], "--approx"),
    "nothing to explain": (["explain"], "encoder-layer"),
    "a part that needs a vocabulary": (["explain", "embedding"], "--vocab-size"),
    "substitute nonsense": (["formula", "mha", "--substitute", "h=-1"], "-1"),
    "two formats": (["params", "--json", "--format", "csv"], "csv"),
    "two arguments": (["params", "a", "b"], "b"),
    "depth": (["params", "--depth", "-1"], "-1"),
}


@pytest.mark.parametrize(("arguments", "value"), CASES.values(), ids=CASES)
def test_one_line_with_the_value_that_was_given(tfcalc: Program, arguments: list[str], value: str) -> None:
    result = tfcalc(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert value in result.stderr
    assert len(result.stderr) < 300


def test_a_bad_named_model_is_3(tfcalc: Program) -> None:
    for name in ("gpt-17", "../../etc/passwd", "x" * 10_000, "", "modèle"):
        result = tfcalc("params", "--model", name)
        assert (result.returncode, result.stdout) == (3, "")
        assert result.stderr.count("\n") == 1
        assert len(result.stderr) < 300


WORDS = st.text(max_size=12) | st.sampled_from(
    ["--d-model", "--heads", "0", "-1", "8", "--json", "-q", "tied", "--output-head"]
)


@given(st.lists(WORDS, max_size=5))
@examples(60)
def test_nothing_typed_after_a_command_is_a_bug_of_ours(words: list[str]) -> None:
    words = [word for word in words if "\0" not in word and not word.startswith(("-o", "--ou", "--install", "--show"))]
    assert main(["params", *words]) in (0, 2, 3)
