"""``tfcalc serve``: the floor, an estimate with its band, limits, and what does not fit."""

from __future__ import annotations

import csv
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tfcalc
from tests.conftest import Quick
from tfcalc.answers.serve_case import ServeCase
from tfcalc.answers.serve_limits import Promise
from tfcalc.answers.serve_question import Limits, ServeQuestion, card_of
from tfcalc.answers.serve_search import fewest
from tfcalc.answers.verdict import Fit, memory_within
from tfcalc.plans import Serving
from tfcalc.search.gpus import of_card
from tfcalc.timing.served import Load
from tfcalc.timing.serving import Sharing

ROOT = Path(__file__).parents[2]
LLAMA = ("serve", "llama-3.1-70b", "--gpu", "4xh100", "--input", "2k", "--output", "500", "--concurrency", "64")


def answer(quick: Quick, *words: str) -> dict[str, Any]:
    """The answer as JSON."""
    found: dict[str, Any] = json.loads(quick(*words, "--json").stdout)
    return found


def test_floor_and_estimate(quick: Quick) -> None:
    """The floor by hand: weights in 16 bits without the table, and 320 kB of cache for each token, over four GPUs. The
    estimate is above it, with its band around it; tokens/s are those of requests that follow each other.
    """
    found = answer(quick, *LLAMA, "--price", "2")
    norms = 2 * 161 * 8192
    weights = 2 * (70_553_706_496 - 128_256 * 8192) - norms
    cache = 64 * (2048 + 250 + 1) * 80 * 2 * 8 * 128 * 2
    floor = ((weights + cache) / 4 + norms + 64 * 8192 * 2) / 3.35e12  # each looks up a row, its own or another
    assert found["floor"]["tpot_ms"] == pytest.approx(1000 * floor)
    assert found["floor"]["bound"] == "bandwidth"
    token, first = found["estimate"]["tpot_ms"], found["estimate"]["ttft_ms"]
    assert found["floor"]["tpot_ms"] < token["low"] < token["value"] < token["high"]
    assert found["floor"]["ttft_ms"] < first["low"] < first["value"] < first["high"]
    rate = 64 * 500 / (first["value"] + 499 * token["value"]) * 1000
    assert found["estimate"]["tokens_per_second"]["value"] == pytest.approx(rate)
    assert found["estimate"]["tokens_per_second_per_gpu"] == pytest.approx(rate / 4)
    cost = 4 * 2 / 3600 / rate * 1e6
    assert found["estimate"]["usd_per_million_output_tokens"]["value"] == pytest.approx(cost)
    assert sum(found["estimate"]["parts_ms"].values()) == pytest.approx(token["value"])
    assert found["deployment"]["tp"] == 4


def test_tokens_per_second_of_a_server_that_is_always_full() -> None:
    """More requests than run add to the wait for room, and not to the rate: the rest of a step's time is prompts, one
    for each answer. Before that the rate grows by no more than a request's share, as asymptotic bounds of closed
    systems do (Denning and Buzen 1978).
    """
    base = tfcalc.serve("llama-3-8b", "h100", 1000, 100).case
    of = base.of
    running = int(of.at_work)
    assert 100 < running < of.most
    rates = [base.point(size).rate for size in (1, running // 2, running - 1, running, running + 1, 2 * running, 10**6)]
    for low, high in pairwise(rates):
        assert all(a <= b * (1 + 1e-12) for a, b in zip(low, high, strict=True))
    assert rates[4].value - rates[3].value <= 1.001 * rates[3].value / running
    assert rates[5] == pytest.approx(rates[6])
    full = base.point(10**6)
    own = full.parts.seconds - full.parts.prompts
    assert base.by is not None
    prompts = running * of.among_others(running, base.by)
    assert full.rate.value == pytest.approx(running * 100 / (100 * own + prompts))
    assert full.rate.low < full.rate.value < full.rate.high <= full.floor_rate
    most = int(of.certain_capacity)
    assert full.floor_rate == pytest.approx(most * 100 / 99 / of.floor_of_running(most).seconds)
    assert full.first.value > base.point(10**5).first.value > 9 * base.point(10**4).first.value


def test_the_floor_alone(quick: Quick) -> None:
    """With --floor nothing is estimated; it is the same floor."""
    alone, both = answer(quick, *LLAMA, "--floor"), answer(quick, *LLAMA)
    assert alone["estimate"] is None
    assert alone["calibration"] is None
    assert alone["floor"] == both["floor"]
    assert quick(*LLAMA, "--floor").stdout.startswith("at least 14 ms a token, by bandwidth")
    assert answer(quick, *LLAMA, "--floor", "--slo", "tpot=5ms")["slo"]["verdict"] == "cannot"


def test_halved_formats(quick: Quick) -> None:
    """fp8 weights and cache: about half the floor. A static batch waits for all prompts, and for none in between."""
    plain, half = answer(quick, *LLAMA), answer(quick, *LLAMA, "--weights", "fp8", "--kv", "fp8")
    assert half["exact"]["cache_bytes_per_step"] * 2 == plain["exact"]["cache_bytes_per_step"]
    assert 0.5 < half["floor"]["tpot_ms"] / plain["floor"]["tpot_ms"] < 0.53
    static = answer(quick, *LLAMA, "--static", "--engine", "trtllm@0.9.0")
    assert static["estimate"]["parts_ms"]["prefill_between"] == 0
    assert static["floor"]["ttft_ms"] > 60 * plain["floor"]["ttft_ms"]


def test_without_runs_there_is_the_floor(quick: Quick) -> None:
    """Of an engine without runs, a card without measured operators, sums over PCIe; each says why."""
    for words, reason in (
        (("--engine", "transformers"), "no run of transformers is known"),
        (("--gpu", "m2-max-96"), "no run of vllm on M2-Max-96"),
        (("--gpu", "2xl40s", "--engine", "trtllm@0.9"), "L40S has PCIe, and sums over 2"),
        (("--gpu", "rtx-5090"), "no run of vllm on RTX-5090"),
    ):
        found = answer(quick, "serve", "llama-3-8b", *words)
        assert found["estimate"] is None
        assert reason in found["no_estimate"]
        assert found["floor"]["tpot_ms"] > 0
        assert "Nothing is estimated" in quick("serve", "llama-3-8b", *words).stdout


def test_what_does_not_fit(quick: Quick) -> None:
    """DeepSeek-R1 takes 671 GB in fp8: not on four H100; what is named instead holds it."""
    found = quick("serve", "deepseek-r1", "--gpu", "4xh100")
    assert found.returncode == 1
    line = found.stdout.splitlines()[0]
    assert line.startswith("CANNOT: ")
    flags = line.partition("; ")[2].removesuffix(" would hold it").split()
    assert quick("serve", "deepseek-r1", *flags).returncode == 0
    assert answer(quick, "serve", "deepseek-r1", "--gpu", "4xh100")["fits"] is False


def test_what_is_sure_to_be_too_many(quick: Quick) -> None:
    """By the floor no H100 serves 1,000 requests/s of 256 tokens, each of which is 15 GFLOP: 4,000 TFLOP/s."""
    assert quick("serve", "llama-3.1-8b", "--gpu", "h100", "--rate", "1000").stdout.startswith(
        "CANNOT: 1000 requests/s"
    )


def test_remedies_have_the_price_of_the_list(quick: Quick) -> None:
    """A --price is that of the GPU asked for; more GPUs of its kind have it, and others say that they have not."""
    words = ("serve", "llama-3.1-70b", "--gpu", "2xh100", "--slo", "tpot=30ms", "--concurrency", "64")
    lines = [line for line in quick(*words, "--price", "2").stdout.splitlines() if "would serve" in line]
    for line in lines:
        assert ("by the list, not --price" in line) == (line.startswith("--gpu") and "xh100" not in line)
    more = [line for line in lines if line.startswith("--gpu 4xh100")]
    assert more
    for line in more:
        flags, largest = line.partition(" would serve ")[::2]
        found = answer(quick, *words[:2], *flags.split(), *words[4:])
        assert found["slo"]["largest_concurrency"] == int(largest.partition(":")[0])
    assert "by the list" not in quick(*words).stdout


def test_no_number_of_gpus_keeps_the_limits(quick: Quick) -> None:
    told = quick("serve", "llama-3.1-8b", "--gpu", "h100", "--slo", "tpot=1ms", "--for", "gpus")
    assert told.returncode == 1
    assert "No replicas of up to 128 GPUs by --tp, and by --pp up to 16, keep the limits" in told.stdout


def test_models_that_keep_states_are_in_no_run(quick: Quick) -> None:
    said = "served a model that keeps states and has no experts"
    assert all(said in quick("serve", name, "--gpu", "h100").stdout for name in ("mamba-2.8b", "rwkv-4-7b-pile"))
    assert said not in quick("serve", "llama-3-8b", "--gpu", "h100").stdout


def test_what_is_read_alone_and_does_not_fit(quick: Quick) -> None:
    """Each GPU has a copy: fewer bits, fewer requests or a larger GPU hold it, whichever is named."""
    words = ("serve", "llama-3.1-70b", "--gpu", "4xh100", "--output", "0")
    for further in ((), ("--weights", "bf16"), ("--weights", "fp8", "--concurrency", "1000")):
        told = quick(*words, *further)
        assert told.returncode == 1
        flags = re.search(r"; (--\S+ \S+) (would hold it|has room)", told.stdout)
        assert flags
        kept = further[:2] if "--concurrency" in further else further
        assert quick(*words, *kept, *flags[1].split()).returncode == 0, further


def test_an_engine_that_nobody_knows(quick: Quick) -> None:
    """It is an error, as with memory; a version without rules of its own is told whose are taken."""
    refused = quick("serve", "llama-3-8b", "--engine", "vlm")
    assert (refused.returncode, refused.stderr.strip()) == (2, "tfcalc: engine 'vlm' is not known; did you mean vllm?")
    taken = "Rules of vllm 0.10 are taken for 0.21, of which none are known"
    for words in (("serve", "llama-3-8b"), ("memory", "llama-3-8b", "--serve")):
        assert taken in quick(*words, "--gpu", "h100", "--engine", "vllm@0.21").stdout
        assert "Rules of" not in quick(*words, "--gpu", "h100", "--engine", "vllm@0.24.1").stdout


def test_what_fits_is_told_with_all_that_fits(quick: Quick) -> None:
    """Of a model with further notes, too: the largest concurrency holds, and one more does not."""
    words = ("memory", "gpt-oss-120b", "--serve", "--gpu", "h100", "--engine", "vllm")
    found = re.search(r"largest concurrency: (\d+)", quick(*words).stdout)
    assert found
    assert quick(*words, "--concurrency", found[1]).returncode == 0
    assert quick(*words, "--concurrency", f"{int(found[1]) + 1}").returncode == 1


def test_what_a_log_tells_is_counted(quick: Quick) -> None:
    """Of CUDA graphs and of what is outside of PyTorch, where they are given, nobody says that they are not counted."""
    words = ("memory", "llama-3-8b", "--serve", "--gpu", "h100", "--engine", "vllm", "--assumptions")
    told = quick(*words, "--profiled", "1.5GiB", "--graphs", "0.5GiB", "--nontorch", "0.9GiB").stdout
    lines = [line for line in told.splitlines() if line.lower().startswith("not counted:")]
    assert len(lines) == 2
    assert not any("CUDA" in line for line in lines)
    given = ("--profiled", "1.5GiB", "--graphs", "0.5GiB", "--nontorch", "0.9GiB", "--json")
    assert "CUDA" not in json.loads(quick(*words[:-1], *given).stdout)["conventions"]["not_counted"]
    assert "not counted: CUDA context" in quick("memory", "llama-3-8b", "--serve", "--assumptions").stdout


def test_a_cache_whose_blocks_are_not_known(quick: Quick) -> None:
    """DeepSeek-V4 keeps a key for several tokens: no line of a log is told, and what to leave out works."""
    words = ("memory", "deepseek-v4-flash", "--serve", "--gpu", "8xh200", "--engine", "vllm")
    assert "how engines page such a cache is not known" in quick(*words, "--assumptions").stdout
    refused = quick(*words, "--profiled", "1.6GiB", "--nontorch", "0.4GiB").stderr
    assert "leave --profiled and --nontorch out" in refused


def test_less_than_a_token_a_second(quick: Quick) -> None:
    """A million tokens of a prompt before each answer: less than one token a second and GPU is no 0."""
    told = quick("serve", "deepseek-v4-flash", "--gpu", "8xh200", "--context", "1M", "-q").stdout
    found = re.search(r"; ([\d.]+) tokens/s in all, (0\.\d+) a GPU", told)
    assert found
    assert float(found[2]) == pytest.approx(float(found[1]) / 8, rel=0.05)


def test_limits(quick: Quick) -> None:
    """The largest number of requests is within the limits, one more is not; the exit code says whether those asked for
    are.
    """
    words = ("serve", "llama-3.1-70b", "--gpu", "4xh100", "--input", "2k", "--output", "500")
    slo = ("--slo", "ttft=500ms,tpot=50ms")
    found = answer(quick, *words, *slo)["slo"]
    most = found["largest_concurrency"]
    assert found["decided_by"] == "ttft"
    for requests, code in ((most, 0), (most + 1, 1)):
        asked = (*words, "--concurrency", str(requests))
        times = answer(quick, *asked)["estimate"]
        assert (times["ttft_ms"]["value"] <= 500 and times["tpot_ms"]["value"] <= 50) == (code == 0)
        assert quick(*asked, *slo).returncode == code
    certain = answer(quick, *words, "--concurrency", "64", "--slo", "tpot=5ms")["slo"]
    assert (certain["verdict"], certain["met"], certain["decided_by"]) == ("cannot", False, "tpot")
    assert answer(quick, *words, "--slo", "tpot=1s")["slo"]["verdict"] == "should"


def test_how_the_most_requests_are_served_is_told(quick: Quick) -> None:
    """Where one request is asked about, time, tokens and dollars of the line on the most are theirs, not its own."""
    words = ("serve", "llama-3.1-8b", "--gpu", "h100", "--output", "500", "--slo", "ttft=500ms,tpot=50ms")
    told = quick(*words, "-q").stdout
    found = re.match(r"([\d,]+) requests are within .*?, at (\S+) ms a token .*?, ([\d,]+) tokens/s, (\S+) USD", told)
    assert found
    most, token, rate, cost = (float(each.replace(",", "")) for each in found.groups())
    at = answer(quick, *words, "--concurrency", f"{most:.0f}")["estimate"]
    assert token == pytest.approx(at["tpot_ms"]["value"], rel=0.02)
    assert rate == pytest.approx(at["tokens_per_second"]["value"], rel=1e-3)
    assert cost == pytest.approx(at["usd_per_million_output_tokens"]["value"], rel=0.05)
    assert "; 1 request should be within them: each user waits" in told


def test_what_would_serve_more_was_tried(quick: Quick) -> None:
    """Each change that is proposed is accepted as it is printed, and serves as many as it says, and no more."""
    words = ["serve", "llama-3.1-70b", "--input", "2k", "--output", "500", "--slo", "ttft=1s,tpot=50ms"]
    found = answer(quick, *words, "--gpu", "8xh100")["slo"]
    assert {each["change"].split()[0] for each in found["more"]} >= {"--tp", "--weights", "--gpu"}
    for each in found["more"]:
        assert each["largest_concurrency"] > found["largest_concurrency"]
        card = () if "--gpu" in each["change"] else ("--gpu", "8xh100")
        asked = (*words, *card, *each["change"].split())
        assert quick(*asked, "--concurrency", str(each["largest_concurrency"])).returncode == 0, each
        assert quick(*asked, "--concurrency", str(each["largest_concurrency"] + 1)).returncode == 1, each


def test_the_fewest_gpus(quick: Quick) -> None:
    """No layout of fewer GPUs, each tried by itself, serves as many within the limits."""
    words = ("serve", "llama-3-8b", "--input", "2k", "--concurrency", "200", "--slo", "ttft=1s,tpot=30ms")
    fewest = answer(quick, *words, "--gpu", "a100-80", "--for", "gpus")
    found = fewest["deployment"]
    assert fewest["slo"]["more"] == []  # what takes fewer GPUs of another kind is another question
    gpus = found["gpus"]
    asked = (*words, "--gpu", f"{gpus}xa100-80", "--tp", str(found["tp"]))
    assert quick(*asked).returncode == 0
    for fewer in range(1, gpus):
        for tp in (1, 2, 4, 8):
            if fewer % tp == 0:
                assert quick(*words, "--gpu", f"{fewer}xa100-80", "--tp", str(tp)).returncode == 1, (fewer, tp)
    many = answer(quick, "serve", "llama-3-8b", "--gpu", "h100", "--concurrency", "100000", "--for", "gpus")
    assert 1024 * many["deployment"]["replicas"] >= 100_000  # an engine runs no more at once (vLLM's max_num_seqs)
    told = quick("serve", "deepseek-v3", "--gpu", "h200", "--for", "gpus", "--concurrency", "64").stdout
    # 627 GiB of weights are five cards of 126 GiB, and 61 layers over five have 13 in one: 134 GiB
    assert told.startswith("6 x H200-SXM (tp 2, pp 3) serve 64 requests at once; ")
    assert "With fewer stages: --gpu 8xh200-sxm --tp 8, " in told  # as its model card says: one server
    assert "No fewer serve 64 at once, in replicas of up to 128 GPUs by --tp, and by --pp up to 16" in told
    assert "; --dp and --ep were not tried" in told
    late = quick("serve", "llama-3-8b", "--gpu", "h100", "--slo", "tpot=0.1ms", "--for", "gpus")
    assert late.returncode == 1
    assert "not one request is within the limits" in late.stdout


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        # 70.6G parameters and 5 caches of 40 GiB are 331 GiB; vLLM leaves 70.3 GiB of each card: more than four
        (("llama-3.1-70b", "--concurrency", "5", "--context", "131072"), 5),
        # 671G parameters in 8 bits are 8.9 such cards, and nine stages of 61 layers are not even
        (("deepseek-v3",), 10),
        # 756 GiB of bf16 are 10.75 cards, and 126 layers over 11 have 12 in some stage: 72 GiB
        (("llama-3.1-405b",), 12),
    ],
)
def test_stages_may_take_fewer_gpus(quick: Quick, words: tuple[str, ...], gpus: int) -> None:
    """The fewest are no power of two; what is proposed serves, no fewer do by any layout, and quicker ones are told."""
    found = answer(quick, "serve", *words, "--gpu", "h100", "--for", "gpus")["deployment"]
    assert found["gpus"] == found["tp"] * found["pp"] == gpus
    sizes = ("--tp", str(found["tp"]), "--pp", str(found["pp"]))
    asked = answer(quick, "serve", *words, "--gpu", f"{gpus}xh100", *sizes)
    many = int(words[words.index("--concurrency") + 1]) if "--concurrency" in words else 1
    assert asked["exact"]["capacity_requests"] >= many
    fewer = gpus - 1
    for tp in (size for size in (1, 2, 4, 8) if fewer % size == 0):
        at = answer(quick, "serve", *words, "--gpu", f"{fewer}xh100", "--tp", str(tp), "--pp", str(fewer // tp))
        assert not at["fits"] or at["exact"]["capacity_requests"] < many
    told = quick("serve", *words, "--gpu", "h100", "--for", "gpus").stdout
    quicker = re.search(r"With fewer stages: --gpu (\d+)xh100-sxm ([^,]+), ([\d.]+) ms a token", " ".join(told.split()))
    assert quicker
    assert int(quicker[1]) > gpus
    other = answer(quick, "serve", *words, "--gpu", f"{quicker[1]}xh100", *quicker[2].split())
    assert other["estimate"]["tpot_ms"]["value"] == pytest.approx(float(quicker[3]), rel=0.06)


@pytest.mark.parametrize(
    ("name", "gpu", "engine", "load", "limits"),
    [
        ("phi-4", "rtx-4090", "trtllm", Load(8000, 256, 40), Limits(None, 0.03)),
        ("qwen2.5-14b", "rtx-4090", "trtllm", Load(8000, 256, 40), Limits()),
        ("llama-3.1-70b", "b200", "sglang", Load(8000, 256, 7), Limits(None, 0.03)),
        ("mixtral-8x7b", "rtx-4090", "vllm", Load(1024, 256, 16), Limits(1.0, 0.05)),
    ],
)
def test_no_way_to_share_it_has_fewer(name: str, gpu: str, engine: str, load: Load, limits: Limits) -> None:
    """Bounds leave most ways out: of all up to 32 GPUs, each tried, none serves on fewer, or in fewer stages."""
    asked = ServeQuestion(
        tfcalc.load(name), Serving(), card_of(gpu), 1, Sharing(), load, engine=engine, limits=limits, fewest=True
    )
    ways = [
        Sharing(tp, gpus // tp)
        for gpus in range(1, 33)
        for tp in (1, 2, 4, 5, 8)
        if gpus % tp == 0 and gpus // tp <= 16 and asked.shares(tp)
    ]
    tried = []
    for sharing in ways:
        one = ServeCase(asked._replace(sharing=sharing, gpus=sharing.gpus))
        most = min(one.of.capacity, one.of.most) if one.of.serves else 0
        if most and asked.limits.given:
            most = min(most, Promise(one).largest)
        if most:
            tried.append((sharing.gpus * -(-load.concurrency // most), sharing.pp))
    found = fewest(asked)
    assert (found.gpus, found.sharing.pp) == min(tried)


def test_no_published_run_of_a_server_has_stages(quick: Quick) -> None:
    """Each row with stages is of llama.cpp, one request at a time: an estimate of others says that it has none."""
    with (ROOT / "tests/oracle/serving/runs.csv").open(encoding="utf-8") as file:
        staged = {row["engine"] for row in csv.DictReader(file) if int(row["pp"]) > 1}
    assert staged == {"llama.cpp"}
    said = "In none of these runs did GPUs have stages"
    assert said in quick("serve", "llama-3.1-405b", "--gpu", "16xh100").stdout
    assert said not in quick("serve", "llama-3.1-70b", "--gpu", "8xh100").stdout
    assert said not in quick("serve", "llama-3-8b", "--gpu", "4xa100-80", "--pp", "4", "--engine", "llama.cpp").stdout


def test_the_share_that_an_engine_takes(quick: Quick) -> None:
    """Of an H20 vLLM takes 0.4 by its option, less weights and 2.5 GiB, by hand; ``memory`` has room for the same."""
    share = ("qwen2.5-7b", "--gpu", "h20", "--gpu-memory-utilization", "0.4")
    found = answer(quick, "serve", *share, "--context", "8192")["exact"]
    memory = of_card("h20").memory
    beside = 2 * 7_615_616_512 + 131_072 * 128 * 2  # weights, and the table of angles
    assert found["cache_room_bytes"] == pytest.approx(0.4 * memory - beside - 2.5 * 2**30, rel=1e-8)
    most = found["capacity_requests"]
    for many, fits in ((most, 0), (most + 1, 1)):
        asked = ("--serve", "--engine", "vllm", "--context", "8192", "--concurrency", str(many))
        assert quick("memory", *share, *asked).returncode == fits
    for engine in ((), ("--engine", "vllm")):
        asked = ("memory", *share[:4], "0.4", "--serve", "--context", "8192", *engine)
        least = re.search(r"It fits from --gpu-memory-utilization (\S+) on", quick(*asked).stdout)
        assert least
        for part, fits in ((float(least[1]), 0), (float(least[1]) - 0.01, 1)):
            assert quick(*asked, "--gpu-memory-utilization", f"{part:.2f}").returncode == fits
    wrong = quick("serve", *share[:3], "--gpu-memory-utilization", "1.4")
    assert wrong.returncode == 2
    assert "--gpu-memory-utilization 1.4 is not from 0 to 1" in wrong.stderr
    assert "takes what it needs" in quick("serve", *share, "--engine", "llama.cpp").stderr
    assert quick("serve", "qwen2.5-7b", "--floor", *share[3:]).returncode == 2


def test_serve_has_the_room_of_the_engine(quick: Quick) -> None:
    """vLLM's share of the card less weights, and 2.5 GiB that published logs show in the middle, by hand."""
    found = answer(quick, "serve", "llama-3-8b", "--gpu", "h100", "--input", "1000", "--output", "24")["exact"]
    cache = 32 * 2 * 8 * 128 * 2 * 1024  # layers, keys and values, heads, their width, bytes, tokens
    room = 0.92 * 79.18 * 2**30 - 2 * 8_030_261_248 - 2.5 * 2**30
    assert found["cache_bytes_per_request"] == cache
    assert found["cache_room_bytes"] == pytest.approx(room, rel=1e-3)
    assert found["capacity_requests"] == found["cache_room_bytes"] // cache


def test_memory_says_where_the_rules_of_vllm_leave_another_room(quick: Quick) -> None:
    """Without an engine 90 % of the card is counted, and what is live in a step: by hand, vLLM's rules beside it."""

    def told(name: str, gpu: str, *more: str) -> str:
        return " ".join(quick("memory", name, "--serve", "--gpu", gpu, *more).stdout.split())

    said = re.compile(
        r"92 % of the card, 2.50 GiB of it beside weights: (\S+) GiB for the cache(?:, (\d+) such requests)?; .*? it "
        r"is (\S+) GiB"
    )
    weights = 2 * 8_030_261_248
    found = said.search(told("llama-3-8b", "l4"))
    assert found
    room = 0.92 * of_card("l4").memory - weights - 2.5 * 2**30
    assert float(found[1]) == pytest.approx(room / 2**30, rel=5e-3)
    assert float(found[3]) < (0.9 * of_card("l4").memory - weights) / 2**30  # less what is live in a step
    assert int(found[2]) == room // (8192 * 32 * 2 * 8 * 128 * 2)  # keys and values of 8 heads of 128, in 32 layers
    large = said.search(told("deepseek-v3", "8xh200", "--context", "8192"))
    assert large
    served = answer(quick, "serve", "deepseek-v3", "--gpu", "8xh200", "--context", "8192")["exact"]
    assert float(large[1]) == pytest.approx(served["cache_room_bytes"] / 2**30, rel=5e-3)
    assert not said.search(told("llama-3-8b", "l4", "--engine", "vllm"))
    assert not said.search(told("llama-3-8b", "l4", "--gpu-memory-utilization", "0.8"))
    assert not said.search(told("llama-3-8b", "h100"))  # within 5 %
    assert not said.search(told("bge-m3", "l4"))  # caches nothing


@pytest.mark.parametrize(
    ("name", "gpu", "engine", "context"),
    [
        ("llama-3-70b", "4xh100", "vllm", 8192),
        ("llama-3.1-8b", "a100-80", "vllm@0.10", 8000),
        ("llama-3.1-8b", "h100", "sglang", 8192),
        ("llama-3.1-8b", "h100", "trtllm", 8192),
        ("gemma-3-27b-it", "2xh100", "vllm", 8190),
        ("mistral-7b-v0.1", "l4", "vllm", 9000),
        ("qwen3.5-27b", "h200", "vllm", 9000),
        ("llama-3.1-8b", "16xh100", "vllm", 8192),
        ("llama-3.1-405b", "16xh100", "vllm", 8192),
        ("deepseek-v3", "16xh100", "vllm", 8192),
        ("qwen3-30b-a3b", "16xh100", "vllm", 8192),
        ("minimax-m2.7", "8xh100", "vllm", 8192),
        ("qwen2.5-7b", "8xh100", "sglang", 8192),
    ],
)
def test_memory_and_serve_have_room_for_the_same_requests(name: str, gpu: str, engine: str, context: int) -> None:
    """What an engine leaves to its cache, and how GPUs share a model, is one rule, whichever command is asked: so many
    requests fit, one more for each replica does not.
    """
    model, plan = tfcalc.load(name), tfcalc.Serving(context=context)
    served = tfcalc.serve(model, gpu, context - 256, 256, engine=engine)
    most = served.exact.capacity_requests
    assert most > 1
    told = memory_within(model, of_card(gpu), serving=plan, engine=engine).definitions
    layout = [told.get(f"{name}_parallel", 1) for name in ("tensor", "pipeline", "data")]
    at = served.deployment
    assert layout == [at.tp, at.pp, at.replicas]
    for many, fits in ((most, True), (most + 1, False)):
        asked = plan.replaced(concurrency=many)
        found = memory_within(model, of_card(gpu), serving=asked, engine=engine).judge
        assert isinstance(found, Fit)
        assert found.fits is fits


def test_a_model_that_its_engine_leaves_no_room(quick: Quick) -> None:
    """Kimi K2.5 on eight H100: 595 GB in 4 bits are held by 640 GB, and not by what vLLM takes of them."""
    words = ("serve", "kimi-k2.5", "--gpu", "8xh100")
    found = quick(*words)
    assert found.returncode == 1
    assert found.stdout.startswith("SHOULD NOT: ")
    flags = found.stdout.replace("\n", " ").partition("; ")[2].partition(" would hold it")[0].split()
    assert quick(*words[:2], *flags).returncode == 0
    told = answer(quick, *words, "--slo", "tpot=1s")
    assert (told["fits"], told["estimate"], told["slo"]["verdict"]) == (False, None, "should not")
    assert quick(*words, "--floor").returncode == 0  # which asks no engine


def test_formats_that_an_engine_stores(quick: Quick) -> None:
    """ggml's types are llama.cpp's alone (--cache-type-k), which has no fp8; what is advised for it is taken."""
    for engine, kv, remedy in (("vllm", "q8_0", "take --kv fp8"), ("llama.cpp", "fp8", "take --kv q8_0")):
        for words in (("serve", "llama-3.1-8b"), ("memory", "llama-3.1-8b", "--serve")):
            refused = quick(*words, "--gpu", "h100", "--engine", engine, "--kv", kv)
            assert refused.returncode == 2
            assert f"{engine} stores no cache in '{kv}'; {remedy}" in refused.stderr
    asked = ("serve", "llama-3.1-8b", "--gpu", "rtx-4090", "--engine", "llama.cpp", "--weights", "q8_0")
    told = quick(*asked, "--slo", "tpot=1s").stdout
    assert "fp8" not in told
    assert "--kv q8_0 would serve" in told
    assert quick(*asked, "--slo", "tpot=1s", "--kv", "q8_0").returncode == 0


def test_a_change_of_what_is_so_already_is_not_advised(quick: Quick) -> None:
    """DeepSeek-V3's own weights are fp8: nothing more is served with --weights fp8 beside --kv fp8."""
    told = quick("serve", "deepseek-v3", "--gpu", "8xh200", "--slo", "tpot=50ms").stdout
    assert "--kv fp8 would serve" in told
    assert "--weights" not in told
    assert "--weights fp8 --kv fp8" in quick("serve", "llama-3.1-70b", "--gpu", "4xh100", "--slo", "tpot=50ms").stdout


def test_a_link_of_the_ways_that_use_it(quick: Quick) -> None:
    """Copies of the model send each other nothing, and are told beside ways that do; alone a link is idle."""
    words = ("serve", "qwen3-8b", "--gpu", "4xl40s", "--link", "25GB/s", "--tp")
    both = quick(*words, "1,4")
    assert both.returncode == 0
    assert "4 replicas" in both.stdout
    assert "a link has no effect where GPUs share no layer" in quick(*words, "1").stderr


def test_room_that_no_log_confirms(quick: Quick) -> None:
    """vllm-project/recipes#762: of DeepSeek-V4-Flash on 8 B200, TP 8, fp8, 95 % of the card, vLLM 0.25 logged room for
    20.43 requests of 1,048,576 tokens, about half of what bytes alone tell; that is said.
    """
    words = ("serve", "deepseek-v4-flash", "--gpu", "8xb200", "--context", "1M", "--kv", "fp8", "--tp", "8")
    told = quick(*words).stdout
    room = re.search(r"Room for (\d+) requests of 1,048,576 tokens", told)
    assert room
    assert 1.7 < int(room[1]) / 20.43 < 2.3
    assert "by bytes alone" in told
    assert "vLLM 0.25 logged half as much" in told
    assert "by bytes alone" not in quick("serve", "gpt-oss-20b", "--gpu", "h100").stdout


def test_requests_that_wait_for_no_room(quick: Quick) -> None:
    """vLLM runs 1,024 at once on a card of 70 GiB or more (its arg_utils), however many there is room for."""
    told = quick("serve", "deepseek-v3", "--gpu", "8xb200", "--kv", "fp8", "--concurrency", "1100").stdout
    why = "wait, as vllm 0.26 runs no more, by its max_num_seqs (all at once: "
    assert told.startswith(f"1,024 of 1,100 requests run at once, the others {why}")
    room = re.search(r"Room for ([\d,]+) requests", told)
    assert room
    assert int(room[1].replace(",", "")) > 1100


def test_more_run_than_have_room_to_their_ends(quick: Quick) -> None:
    """While half of its 256 tokens are made a request has 1,024 + 128, a tenth less than in the end: two numbers, and
    why they differ is said.
    """
    told = quick("serve", "llama-3.1-8b", "--gpu", "h100", "--concurrency", "1000").stdout
    running, room = re.search(r"^(\d+) of 1,000", told), re.search(r"Room for (\d+) requests of 1,280 tokens", told)
    assert running
    assert room
    assert int(running[1]) / int(room[1]) == pytest.approx(1280 / 1152, rel=5e-3)
    assert f"tokens; while they are written they take less, so that {running[1]} run at once" in told
    assert "take less" not in quick("serve", "llama-3.1-8b", "--gpu", "h100", "--concurrency", room[1]).stdout


def test_what_is_too_long_is_told_where_nothing_fits(quick: Quick) -> None:
    """Llama 3 70B has 8,192 positions (its config), whatever it takes to store more."""
    told = quick("serve", "llama-3-70b", "--context", "128k", "--gpu", "h100").stdout
    assert told.startswith("CANNOT")
    assert "The model was made for 8,192 tokens, fewer than the 131,072 asked for" in told


def test_more_requests_than_run(quick: Quick) -> None:
    """Those that wait are told first; it is an answer, and no verdict, so that only a limit makes the exit code 1."""
    words = ("serve", "llama-3.1-70b", "--gpu", "4xh100", "--context", "128k", "--concurrency", "5")
    found = quick(*words)
    assert found.stdout.startswith("3 of 5 requests run at once, the others wait for room")
    assert found.returncode == 0
    assert quick(*words, "--slo", "ttft=30s").returncode == 1
    assert "run at once" not in quick(*words[:-1], "3").stdout
    proposed = re.search(r"wait for room \(all at once: (--gpu [^)]*)\)", found.stdout)
    assert proposed
    assert "run at once" not in quick(*words[:2], *proposed[1].split(), *words[4:]).stdout


@pytest.mark.parametrize("model", ["llama-4-scout-17b-16e-instruct", "bloom", "deepseek-v3"])
def test_cards_without_fast_links_have_stages(quick: Quick, model: str) -> None:
    """109, 176 and 671 billion parameters are in no 24 GB, and no number of heads divides by so many cards."""
    found = quick("serve", model, "--gpu", "rtx-4090").stdout.splitlines()[0]
    flags = found.partition("; ")[2].removesuffix(" would hold it").split()
    assert "--pp" in flags
    assert quick("serve", model, *flags).returncode == 0


def test_gpus_that_are_named_instead_share_all_of_it(quick: Quick) -> None:
    """Qwen2.5 7B has 28 heads, and 152,064 = 64 · 2,376 rows of words: 7 or 14 GPUs share the first alone."""
    refused = quick("serve", "qwen2.5-7b", "--gpu", "8xh100", "--tp", "8")
    assert refused.stderr.strip().endswith("heads 28 not divisible by tensor 8; nearest: 4")
    assert quick("serve", "qwen2.5-7b", "--gpu", "8xh100", "--tp", "4").returncode == 0


def test_a_table_is_of_a_step(quick: Quick) -> None:
    """Of four tokens that are checked each FLOP is in it, at 989.4 TFLOP/s, and of a pipeline the weights of all its
    stages, which are not those of a GPU.
    """
    words = ("serve", "llama-3-8b", "--gpu", "h100")
    told = quick(*words, "--speculate", "3@0.7").stdout
    flops = answer(quick, *words, "--speculate", "3@0.7")["exact"]["flops_per_step"]
    row = next(line for line in told.splitlines() if line.startswith("products"))
    assert float(row.split()[-1]) == pytest.approx(1000 * flops / 989.4e12, rel=0.01)
    assert "Estimate for vllm, of a token:" in told
    assert "a decode step, stage after stage" in quick("serve", "llama-3-8b", "--gpu", "2xh100", "--pp", "2").stdout
    assert "weights of the fewest experts" in quick("serve", "gpt-oss-20b", "--gpu", "h100").stdout


def test_a_curve(quick: Quick) -> None:
    """More requests give more tokens per second, and take longer."""
    points = answer(quick, *LLAMA, "--curve")["curve"]
    assert points[0]["concurrency"] == 1
    assert points[-1]["concurrency"] == answer(quick, *LLAMA)["exact"]["capacity_requests"]
    for key in ("concurrency", "tpot_ms", "ttft_ms", "tokens_per_second"):
        values = [point[key] for point in points]
        assert values == sorted(values)
    assert all(point["tokens_per_second"] < point["floor_tokens_per_second"] for point in points)


def test_gpus_beside_the_gpu(quick: Quick) -> None:
    """--gpus 4 --gpu h100 are --gpu 4xh100."""
    assert answer(quick, *LLAMA[:2], "--gpus", "4", "--gpu", "h100") == answer(quick, *LLAMA[:2], "--gpu", "4xh100")


def test_replicas_share_requests(quick: Quick) -> None:
    """Eight GPUs of two replicas serve twice as much as four of one."""
    one, two = (
        answer(quick, "serve", "llama-3.1-70b", "--gpu", f"{gpus}xh100", "--tp", "4", "--concurrency", str(4 * gpus))
        for gpus in (4, 8)
    )
    assert two["deployment"]["replicas"] == 2
    assert two["estimate"]["tpot_ms"] == one["estimate"]["tpot_ms"]
    rates = [each["estimate"]["tokens_per_second"]["value"] for each in (one, two)]
    assert rates[1] == pytest.approx(2 * rates[0])


def test_one_gpu_has_all_of_a_model_that_no_rule_splits(quick: Quick) -> None:
    """RWKV-4 1.5B: its weights in 16 bits, and the same of DeepSeek-V2-Lite alone as in memory."""
    found = answer(quick, "serve", "rwkv-4-1b5-pile", "--floor")
    assert found["exact"]["weights_bytes"] >= 2 * 1_515_000_000 * 0.99
    assert quick("serve", "rwkv-4-1b5-pile", "--gpu", "2xh100", "--tp", "2").returncode == 2
    words = ("deepseek-v2-lite", "--serve", "--context", "1280")
    memory = answer(quick, "memory", *words)
    alone = answer(quick, "serve", "deepseek-v2-lite", "--floor")
    assert alone["exact"]["weights_bytes"] == memory["weights_bytes"] + memory["buffers_bytes"]


def test_speculation(quick: Quick) -> None:
    """Of 3 guessed tokens at 0.5 a step makes 1.875, for which it reads the weights once; at 1 four, at 0 one: then the
    step takes a little longer, for more products.
    """
    words = ("serve", "llama-3-8b", "--gpu", "h100", "--concurrency", "4")
    plain = answer(quick, *words)
    for share, made in (("0", 1.0), ("0.5", 1.875), ("100%", 4.0)):
        found = answer(quick, *words, "--speculate", f"3@{share}")
        assert found["traffic"]["tokens_per_step"] == pytest.approx(made)
        assert found["exact"]["flops_per_step"] == 4 * plain["exact"]["flops_per_step"]
        assert found["floor"]["tpot_ms"] * made == pytest.approx(plain["floor"]["tpot_ms"], rel=1e-3)
        parts, alone = (each["estimate"]["parts_ms"] for each in (found, plain))
        assert parts["host"] * made == pytest.approx(alone["host"])
        assert parts["kernels"] * made >= alone["kernels"]


def test_a_draft_model_takes_its_time(quick: Quick) -> None:
    """Leviathan et al. 2022 (arXiv 2211.17192), theorem 3.8: where a guess takes c of the time of a token, tokens are
    (1 - a^(n+1))/((1 - a)(nc + 1)) times as fast; here by their bytes. Its weights leave less room.
    """
    words = ("serve", "llama-3.1-70b", "--gpu", "4xh100", "--concurrency", "4")
    plain, guess = (answer(quick, "serve", name, *words[2:]) for name in ("llama-3.1-70b", "llama-3.2-1b"))
    free = answer(quick, *words, "--speculate", "4@0.7")
    found = answer(quick, *words, "--speculate", "4@0.7", "--draft-model", "llama-3.2-1b")
    ratio = guess["floor"]["tpot_bandwidth_ms"] / plain["floor"]["tpot_bandwidth_ms"]
    faster = (1 - 0.7**5) / ((1 - 0.7) * (4 * ratio + 1))
    assert plain["floor"]["tpot_ms"] / found["floor"]["tpot_ms"] == pytest.approx(faster, rel=1e-3)
    one = guess["exact"]["weights_bytes_per_step"] + guess["exact"]["cache_bytes_per_step"]
    assert found["exact"]["draft_bytes_per_step"] == 4 * one
    assert found["exact"]["draft_flops_per_step"] == 4 * guess["exact"]["flops_per_step"]
    assert free["exact"]["draft_bytes_per_step"] == 0
    for name in ("weights_bytes", "cache_bytes_per_request"):
        assert found["exact"][name] == plain["exact"][name] + guess["exact"][name]
    assert found["exact"]["capacity_requests"] < free["exact"]["capacity_requests"]
    for name in ("tpot_ms", "ttft_ms"):
        assert free["estimate"][name]["value"] < found["estimate"][name]["value"]
    parts, without = found["estimate"]["parts_ms"], free["estimate"]["parts_ms"]
    made = found["traffic"]["tokens_per_step"]
    kernels = without["kernels"] + 4 * guess["estimate"]["parts_ms"]["kernels"] / made
    assert parts["kernels"] == pytest.approx(kernels)
    assert parts["host"] == pytest.approx(without["host"])  # guesses are made within a step
    assert "llama-3.2-1b" in found["deployment"]["draft_model"]


def test_requests_that_come_at_a_rate(quick: Quick) -> None:
    """Little's law: those at work are the rate times what each takes; one fewer would be served too slowly."""
    words = ("serve", "llama-3.1-70b", "--input", "2k", "--output", "500")
    found = answer(quick, *words, "--gpu", "4xh100", "--rate", "2/s")
    times, at_once = found["estimate"], found["traffic"]["concurrency"]
    each = (times["ttft_ms"]["value"] + 499 * times["tpot_ms"]["value"]) / 1000
    assert found["requests_per_second"] == 2
    assert at_once - 1 < 2 * each <= at_once
    fewer = answer(quick, *words, "--gpu", "4xh100", "--concurrency", str(at_once - 1))["estimate"]
    enough = answer(quick, *words, "--gpu", "4xh100", "--concurrency", str(at_once))["estimate"]
    assert fewer["tokens_per_second"]["value"] / 500 < 2 <= enough["tokens_per_second"]["value"] / 500
    assert times["tokens_per_second"]["value"] == 2 * 500
    refused = quick(*words, "--gpu", "4xh100", "--rate", "20")
    assert refused.returncode == 1
    proposed = re.search(r"20 requests/s come, and 4 x .*; (--gpu .*) would serve them", refused.stdout)
    assert proposed
    assert quick(*words, *proposed[1].split(), "--rate", "20").returncode == 0
    for more, fact in {"--concurrency 3": "no effect with --rate", "--gpu t4": "needs an estimate"}.items():
        assert fact in quick("serve", "gpt2", "--rate", "1", *more.split()).stderr
    assert "is no rate" in quick("serve", "gpt2", "--rate", "soon").stderr


def test_what_comes_at_a_rate_is_what_is_paid_for(quick: Quick) -> None:
    """One request of 256 tokens in ten seconds is 25.6 tokens/s, however many could be: 2.95 USD an hour for 92,160
    of them are 32.01 USD per million.
    """
    words = ("serve", "llama-3.1-8b", "--gpu", "h100", "--rate", "0.1", "--price", "2.95")
    found = answer(quick, *words)["estimate"]
    assert found["tokens_per_second"] == {"value": 25.6, "low": 25.6, "high": 25.6}
    assert found["usd_per_million_output_tokens"]["value"] == pytest.approx(2.95 / 3600 / 25.6 * 1e6)
    assert "25.6 tokens/s are asked for and made: 32.01 USD" in quick(*words).stdout


def test_prompts_that_other_gpus_read(quick: Quick) -> None:
    """Law 10 of disaggregated serving: the rate is bounded by both sides, and the cache of a prompt is sent."""
    words = ("serve", "llama-3-8b", "--input", "2000", "--output", "50", "--concurrency", "64")
    found = answer(quick, *words, "--gpu", "3xh100", "--disaggregate", "1:2")
    assert found["deployment"]["tp"] == 1
    assert found["exact"]["handed_over_bytes"] == 2000 * 32 * 2 * 8 * 128 * 2  # layers, keys and values, heads, width
    alone = answer(quick, *words[:-1], "1", "--gpu", "h100")["floor"]
    floor = found["floor"]
    assert floor["ttft_ms"] == max(alone["ttft_ms"], 1000 * found["exact"]["handed_over_bytes"] / 450e9)
    by_prompts, by_tokens = 50 / floor["ttft_ms"], 64 / floor["tpot_ms"]
    assert floor["tokens_per_second"] <= 1000 * min(by_prompts, by_tokens) * (1 + 1e-9)
    together = answer(quick, *words, "--gpu", "3xh100", "--tp", "1")["estimate"]
    assert found["estimate"]["parts_ms"]["prefill_between"] == 0 < together["parts_ms"]["prefill_between"]
    rates = [
        answer(quick, *words, "--gpu", f"{groups + 1}xh100", "--disaggregate", f"{groups}:1")["estimate"]
        for groups in (1, 2)
    ]
    one, two = (rate["tokens_per_second"]["value"] for rate in rates)
    assert 1.5 < two / one <= 2.0 + 1e-9  # short answers wait for prompts, which twice as many groups read
    short = (
        "serve",
        "llama-3-8b",
        "--input",
        "8",
        "--output",
        "8",
        "--concurrency",
        "2000",
    )  # many read the weights once
    many = answer(quick, *short, "--gpu", "9xh100", "--disaggregate", "1:8")
    products = 2 * 7 * 10**9 * 8 / 989.4e12  # fewer than those of a prompt of eight tokens, at the peak
    assert many["floor"]["tokens_per_second"] > 8 / (10 * products)
    for ratio, fact in {"2": "is no ratio", "0:1": "is no ratio"}.items():
        assert fact in quick(*words, "--gpu", "3xh100", "--disaggregate", ratio).stderr
    assert "not divisible" in quick(*words, "--gpu", "4xh100", "--disaggregate", "1:2").stderr
    assert "no effect with --disaggregate" in quick(*words, "--disaggregate", "1:2", "--static").stderr


def test_a_cached_prefix(quick: Quick) -> None:
    """Half of the prompt is not read again, and costs no products of its own; the cache is the same."""
    words = ("serve", "llama-3-8b", "--gpu", "h100", "--input", "4k")
    whole, rest = answer(quick, *words), answer(quick, *words, "--prefix", "2k")
    assert rest["floor"]["tpot_ms"] == whole["floor"]["tpot_ms"]
    assert 0.5 < rest["exact"]["prefill_flops"] / whole["exact"]["prefill_flops"] < 0.6
    assert rest["estimate"]["ttft_ms"]["value"] < whole["estimate"]["ttft_ms"]["value"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("gpt2", "--slo", "soon"), 2, "--slo 'soon' is no limit"),
        (("gpt2", "--gpu", "3xh100", "--tp", "2"), 2, "3 GPUs are no whole number of replicas of 2"),
        (("llama-3-8b", "--gpu", "3xh100", "--tp", "3"), 2, "heads 32 not divisible by tensor 3"),
        (("gpt2", "--input", "64", "--prefix", "64"), 2, "leaves nothing of a prompt"),
        (("gpt2", "--floor", "--price", "2"), 2, "has no effect with --floor"),
        (("gpt2", "--gpu", "2xh100", "--gpus", "4"), 2, "leave one of them out"),
        (("gpt2", "--speculate", "3"), 2, "is no draft"),
        (("gpt2", "--draft-model", "gpt2"), 2, "--speculate 3@0.7"),
        (("gpt2", "--gpu", "24GB"), 2, "no bandwidth follows from it"),
        (("bge-m3", "--gpu", "24GB"), 2, "no bandwidth follows from it"),
        (("gpt2", "--gpu", "24GB@0GB/s"), 2, "is not above 0"),
        (("gpt2", "--gpu", "24GB@576"), 2, "is not known"),
        (("gpt2", "--link", "25GB/s"), 2, "no effect where GPUs share no layer"),
        (("llama-3-8b", "--gpu", "2xh100", "--link", "25GB"), 2, "--link '25GB' is no rate; write"),
        (("bge-m3", "--link", "25GB/s"), 2, "no effect where nothing is written"),
        (("gpt2", "--context", "1k", "--output", "2k"), 2, "leaves nothing for a prompt"),
        (("gpt2", "--context", "1k", "--input", "1k"), 2, "leaves nothing for an answer"),
        (("gpt2", "--context", "1k", "--input", "1k", "--output", "1k"), 2, "is not --input 1,024"),
        (("bge-m3", "--context", "1k", "--input", "512"), 2, "leave one of them out"),
        (("gpt2", "--gpu", "2xh100", "--for", "gpus"), 2, "take --gpu h100"),
        (("gpt2", "--tp", "2", "--for", "gpus"), 2, "has no effect with --for gpus"),
        (("vit-base-patch16-224",), 3, "does not generate text"),
        (("llama-3-8b", "--gpu", "8xh100", "--ep", "2"), 2, "expert parallelism has no effect"),
    ],
)
def test_refusals(quick: Quick, words: tuple[str, ...], code: int, told: str) -> None:
    found = quick("serve", *words)
    assert (found.returncode, found.stdout) == (code, "")
    assert told in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_what_a_refusal_proposes_is_accepted(quick: Quick) -> None:
    """No option that the command does not have, and no number of GPUs that cannot share the model."""
    unknown = quick("serve", "llama-3-8b", "--gpu", "h1000")
    assert (unknown.returncode, unknown.stderr) == (
        2,
        "tfcalc: accelerator 'h1000' is not known; did you mean H100? or give --gpu 24GB@576GB/s for one of your own, "
        "with its memory and bandwidth\n",
    )
    assert "nearest: 2, 4" in quick("serve", "llama-3-8b", "--gpu", "4xh100", "--tp", "3").stderr
    refused = quick("serve", "llama-3-8b", "--gpu", "3xh100", "--tp", "2")
    assert refused.returncode == 2
    assert "take --gpu 2xh100-sxm" in refused.stderr
    assert quick("serve", "llama-3-8b", "--gpu", "2xh100-sxm", "--tp", "2").returncode == 0


def test_limits_where_nothing_is_estimated(quick: Quick) -> None:
    """The floor alone denies what is impossible; of all else nobody knows, and that is no yes. It has a curve, too."""
    words = ("serve", "llama-3-8b", "--gpu", "m2-max-96")
    least = answer(quick, *words)["floor"]["tpot_ms"]
    assert least == pytest.approx(
        1000 * (2 * (8_030_261_248 - 128_256 * 4096)) / 400e9, rel=0.02
    )  # weights over 400 GB/s
    for limit, verdict, met in ((0.9 * least, "cannot", False), (1.1 * least, "unknown", None)):
        slo = ("--slo", f"tpot={limit:.3f}ms")
        found = answer(quick, *words, *slo)["slo"]
        assert (found["verdict"], found["met"], found["more"]) == (verdict, met, [])
        assert quick(*words, *slo).returncode == 1
    most = found["largest_concurrency"]
    for many, verdict in ((most, "unknown"), (most + 1, "cannot")):
        assert answer(quick, *words, *slo, "--concurrency", str(many))["slo"]["verdict"] == verdict
    curve = answer(quick, *words, "--curve")["curve"]
    assert [one["tpot_ms"] for one in curve] == [None] * len(curve)
    assert curve[0]["floor_tpot_ms"] == pytest.approx(least)
    unheld = answer(quick, "serve", "llama-3.1-70b", "--slo", "tpot=1s")["slo"]
    assert (unheld["verdict"], unheld["met"], unheld["largest_concurrency"]) == ("cannot", False, 0)


def test_runs_of_ones_own(quick: Quick, tmp_path: Path) -> None:
    """Runs whose tokens took half as long again move a token by that much, and the band is what they leave; of an
    engine or a layout that nobody published they are what is known.
    """
    words = ("serve", "llama-3-8b", "--gpu", "2xa100-80", "--input", "1000", "--output", "200")
    rows = []
    for many in (1, 4, 16, 64):
        parts = answer(quick, *words, "--concurrency", str(many))["estimate"]
        rows.append(
            {
                "isl": 1000,
                "osl": 200,
                "tp": 2,
                "concurrency": many,
                "tpot_ms": 1.5 * parts["tpot_ms"]["value"],
                "ttft_ms": 1.5 * parts["ttft_ms"]["value"],
            }
        )
    runs = tmp_path / "runs.jsonl"
    runs.write_text("\n".join(json.dumps(row) for row in [*rows, {**rows[0], "engine": "sglang"}]))
    asked = (*words, "--concurrency", "8")
    before, after = answer(quick, *asked), answer(quick, *asked, "--calibrate", str(runs))
    assert after["calibration"]["own_runs"] == 4
    for token in ("tpot_ms", "ttft_ms"):
        moved = after["estimate"][token]
        assert moved["value"] / before["estimate"][token]["value"] == pytest.approx(1.5, rel=0.08)
        assert moved["high"] / moved["low"] < 1.3  # the runs agree with each other
    told = quick(*asked, "--calibrate", str(runs)).stdout
    assert "By 4 runs of yours" in told
    assert "1 (a run of 'sglang')" in told
    unknown = (*asked, "--engine", "another")
    assert "engine 'another' is not known" in quick(*unknown).stderr
    found = answer(quick, *unknown, "--calibrate", str(runs))["estimate"]["tpot_ms"]["value"]
    assert found == pytest.approx(after["estimate"]["tpot_ms"]["value"])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"isl": 10, "osl": 10, "tpot_ms": 1}, "runs.jsonl:1 has no concurrency"),
        ({"isl": 10, "osl": 10, "concurrency": 0, "tpot_ms": 1}, "runs.jsonl:1: concurrency 0 is no number above 0"),
        ({"isl": 10, "osl": 10, "concurrency": 1, "tpot_ms": -1}, "runs.jsonl:1: tpot_ms -1 is no number above 0"),
        ({"isl": 10, "osl": 10, "concurrency": 1}, "'runs.jsonl' has no run of 'vllm': runs.jsonl:1 is neither"),
        ({"isl": 10, "osl": 10, "concurrency": 1, "tpot_ms": 1, "gpu": "nothing"}, "runs.jsonl:1: "),
        (
            {"isl": 10, "osl": 10, "concurrency": 1, "tpot_ms": 4.4},
            "possible (tpot_ms 4.4, at least 4.48)",
        ),
        ({"isl": 10, "osl": 10, "concurrency": 1, "tpot_ms": 9, "model": "t5-small"}, "a run of an encoder with"),
        ({"isl": 10, "osl": 10, "concurrency": 1, "tpot_ms": 1, "model": "nothing"}, "is no preset"),
        ({"isl": 10, "osl": 10, "concurrency": 1, "tpot_ms": 1, "mode": "x"}, "mode 'x' is not known"),
        ({"isl": 10, "osl": 10, "concurrency": 1, "tpot_ms": 1, "gpu": "m2-max-96"}, "no operators were measured"),
        ({"isl": 10, "osl": 10, "concurrency": 1, "tpot_ms": 1, "model": "llama-3.1-70b"}, "does not fit on H100-SXM"),
    ],
)
def test_rows_that_are_no_runs(quick: Quick, tmp_path: Path, row: dict[str, Any], said: str) -> None:
    (tmp_path / "runs.jsonl").write_text(json.dumps(row))
    found = quick("serve", "llama-3-8b", "--calibrate", "runs.jsonl")
    assert found.returncode in (2, 3)
    assert said in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_request_alone_waits_for_nobody(quick: Quick) -> None:
    """However long its prompt, and however short its answer: it is read, which makes the token; no step is running.

    So it was under vLLM with one request: the first token of Qwen2.5-72B came after 41 ms (128 tokens) and 129 ms
    (1,024), where a step took 31 ms (tt-inference-server, issue 143).
    """
    words = ("serve", "llama-3-8b", "--gpu", "2xh100", "--input", "100k", "--output", "16")
    alone, batch = (answer(quick, *words, *static)["estimate"] for static in ((), ("--static",)))
    assert alone["ttft_ms"]["value"] == pytest.approx(batch["ttft_ms"]["value"])


@pytest.mark.parametrize(
    ("gpu", "engine", "requests", "said"),
    [
        ("h100", "trtllm", "1", "known of 4 requests or more"),
        ("h100", "trtllm", "4", "of the first are the server's own"),
        ("a100", "trtllm", "4", "No run of a server tells a first token here"),
        ("h100", "llama.cpp", "1", "No run of a server tells a first token here"),
        ("h100", "nim", "1", "of the first are the server's own"),
    ],
)
def test_what_a_server_takes_itself_is_told(quick: Quick, gpu: str, engine: str, requests: str, said: str) -> None:
    """A first token of a small model is mostly that; few requests do not tell it, nor batches without a server."""
    found = quick("serve", "gpt2", "--input", "512", "--gpu", gpu, "--engine", engine, "--concurrency", requests).stdout
    assert said in " ".join(found.split())


def test_heads_that_do_not_divide_make_replicas(quick: Quick) -> None:
    """Qwen2.5-7B has 28 heads: of 8 GPUs 4 share each layer, unless somebody says otherwise."""
    found = answer(quick, "serve", "qwen2.5-7b", "--gpu", "8xh100")["deployment"]
    assert (found["tp"], found["replicas"]) == (4, 2)
    assert "heads 28 not divisible by tensor 8" in quick("serve", "qwen2.5-7b", "--gpu", "8xh100", "--tp", "8").stderr


@pytest.mark.parametrize("name", ["longformer-large-4096", "bigbird-roberta-base"])
def test_vectors_that_are_tied_are_no_tables(quick: Quick, name: str) -> None:
    """A bias of all words, which a head shares with itself."""
    assert quick("serve", name).stdout.startswith("no more than")


KINDS = (
    *("llama-3.1-8b", "llama-3.1-405b", "mistral-7b-v0.1", "qwen3-8b", "gemma-2-9b", "gemma-3-27b-it", "phi-4"),
    *("gemma-4-31b-it-nvfp4", "gemma-3n-e4b-text", "falcon-7b", "falcon-180b", "gpt2", "gpt2-xl", "gpt-neox-20b"),
    *("bloom", "mpt-30b", "opt-66b", "chatglm3-6b", "baichuan2-7b-base", "internlm2-20b", "c4ai-command-r-plus"),
    *("starcoder2-3b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite", "deepseek-v3", "deepseek-v3.2"),
    *("deepseek-v4-flash", "kimi-k2.5", "glm-5", "gpt-oss-120b", "llama-4-maverick-17b-128e-instruct"),
    *("minimax-m2.7", "mimo-v2-flash", "olmoe-1b-7b-0924", "granite-4.0-h-micro", "mamba2-780m", "mamba-2.8b"),
    *("falcon-mamba-7b", "qwen3.5-27b", "ai21-jamba-1.5-large", "lfm2-1.2b", "recurrentgemma-2b", "t5-small"),
    *("flan-t5-xxl", "bart-large", "whisper-large-v3", "opus-mt-en-de", "led-base-16384", "moonshine-base"),
    *("bge-m3", "modernbert-base", "nomic-embed-text-v1.5", "deberta-v3-base", "qwen3-embedding-8b"),
    *("qwen2.5-vl-7b-instruct", "llava-1.5-7b-hf", "llama-3.2-11b-vision-instruct", "vit-base-patch16-224"),
    *("clip-vit-base-patch32", "rwkv-4-430m-pile", "xlnet-large-cased", "dbrx-base", "openai-gpt"),
)


def test_what_translates_is_served(quick: Quick) -> None:
    """MarianMTModel ends like the name of a base, and is a GenerationMixin in transformers."""
    assert quick("serve", "opus-mt-en-de", "--gpu", "h100", "--input", "128").stdout.startswith("at least")


def test_words_of_other_commands_name_them(quick: Quick) -> None:
    for words in (("--memory",), ("--profiled", "1GiB"), ("--graphs", "1GiB")):
        found = quick("serve", "llama-3-8b", *words)
        assert (found.returncode, found.stdout) == (2, "")
        assert "tfcalc memory MODEL --serve --engine vllm --gpu NAME" in found.stderr
    for name in ("ttft", "tpot"):
        assert f"type --slo {name}=50" in quick("serve", "llama-3-8b", f"--{name}", "50ms").stderr


def test_an_option_that_takes_the_next_one_for_its_value(quick: Quick) -> None:
    """serve -h names memory --serve --profiled: typed before --gpu it has that as its value, and h100 is left over."""
    refused = quick("memory", "llama-3-8b", "--serve", "--profiled", "--gpu", "h100")
    assert refused.returncode == 2
    assert "--profiled has no value: --gpu follows it; --profiled: peak of the engine's profile run" in refused.stderr


def test_what_follows_a_number_of_serving_is_asked_on_the_same_gpus(quick: Quick) -> None:
    """671 GB in fp8 are on eight H200, and not on one H100, which the concept names by itself."""
    told = quick("explain", "tpot", "deepseek-v3", "--gpu", "8xh200").stdout
    typed = re.search(r"See also: tfcalc (serve .*)", told)
    assert typed
    assert "--gpu 8xh200" in typed[1]
    assert quick(*typed[1].split()).returncode == 0


def test_a_comparison_has_the_part_of_a_card_that_its_verdict_has(quick: Quick) -> None:
    """An engine takes 90 % of 79.2 GiB: 71.3, in memory --serve and beside other models."""
    words = ("--serve", "--gpu", "h100")
    told = quick("compare", "qwen3-32b", "qwen2.5-32b", *words).stdout
    assert f"H100 SXM has {0.9 * 79.18:.1f} GiB usable" in told
    assert f"H100 SXM has {0.9 * 79.18:.1f} GiB usable" in quick("memory", "qwen3-32b", *words).stdout


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_model_is_answered_or_refused_in_a_line(quick: Quick, name: str) -> None:
    done = quick("serve", name, "--gpu", "8xh100", "-q")
    told = done.stdout if done.returncode in (0, 1) else done.stderr
    assert done.returncode in (0, 1, 2, 3)
    assert "internal error" not in told
    assert len(told.splitlines()) == 1


def test_a_rate_on_a_card_that_is_too_small_says_what_would_hold_the_model(quick: Quick) -> None:
    """The remedy is typed as it is printed: without the rate the answer names the GPUs."""
    words = ("serve", "llama-3.1-70b", "--gpu", "h100", "--input", "4k", "--output", "500")
    refused = quick(*words, "--rate", "5")
    assert refused.returncode == 2
    assert "without --rate" in refused.stderr
    assert "--gpu 2xh100-sxm --tp 2 would hold it" in quick(*words).stdout.splitlines()[0]


def test_gpus_stand_side_by_side(quick: Quick) -> None:
    """Each has the numbers of an answer of its own; the table, the parts of a token, and what differs most."""
    asked = ("serve", "llama-3.3-70b", "--input", "2k", "--output", "500", "--concurrency", "64")
    both = answer(quick, *asked, "--gpu", "4xh200,4xb200")
    for place, gpu in enumerate(("4xh200", "4xb200")):
        alone = answer(quick, *asked, "--gpu", gpu)
        assert {key: alone[key] for key in both["served"][place]} == both["served"][place]
        assert alone["traffic"] == both["traffic"]
    told = quick(*asked, "--gpu", "4xh200,4xb200").stdout
    hopper, blackwell = (one["estimate"]["parts_ms"] for one in both["served"])
    more = {part: hopper[part] - blackwell[part] for part in hopper}
    part = max(more, key=lambda part: abs(more[part]))
    called = {"prefill_between": "prompts of others", "kernels": "kernels", "all_reduce": "all-reduces"}[part]
    assert f"4 x H200-SXM beside 4 x B200-HGX: {called} {more[part]:+.2g} ms, " in told
    opened = quick("explain", "serve.served.1.floor.tpot_bandwidth_ms", *asked[1:], "--gpu", "4xh200,4xb200", "-q")
    assert float(opened.stdout) == pytest.approx(both["served"][1]["floor"]["tpot_bandwidth_ms"], rel=0.01)


def test_what_no_faster_gpu_shortens_is_told(quick: Quick) -> None:
    """A GPU launches as many kernels, and its host does as much, whatever its bandwidth: both are in each column."""
    words = ("serve", "qwen3-32b", "--gpu", "h200,b200", "--concurrency", "4")
    parts = [one["estimate"]["parts_ms"] for one in answer(quick, *words)["served"]]
    assert all(parts[0][name] == parts[1][name] for name in ("launches", "host"))
    assert parts[0]["kernels"] > parts[1]["kernels"]
    both = parts[1]["launches"] + parts[1]["host"]
    told = f"The same in each: launches {parts[1]['launches']:.2g} ms, host {parts[1]['host']:.2g} ms; {both:.2g} ms of"
    assert told in quick(*words).stdout


def test_weights_of_the_experts_that_are_expected(quick: Quick) -> None:
    """DeepSeek-V3 over eight GPUs, 64 tokens: of 256 experts 256 (1 - (1 - 8/256)^64) in each of 58 layers, with three
    matrices of 7,168 x 2,048 in fp8 and an fp32 scale for each 128 x 128 numbers, beside what is read of one token.
    """
    words = ("serve", "deepseek-v3", "--gpu", "8xh200")
    one = answer(quick, *words)["exact"]["weights_bytes_per_step"]
    expected = 256 * (1 - (1 - 8 / 256) ** 64)
    read = one + 58 * (expected - 8) * 3 * 7168 * 2048 * (1 + 4 / 128**2) / 8
    told = f"{expected:.1f} expected: weights of {read / 2**30:.1f} GiB, {read / 4.8e9:.2g} ms at peak"
    assert told in quick(*words, "--concurrency", "64").stdout
    assert "8.0 expected\n" in quick(*words).stdout


def test_a_card_that_nobody_lists_may_be_said(quick: Quick) -> None:
    """tt-metal#23477: an n300 has 24 GB and 576 GB/s (its specification); 7.6 GB of weights less their table are read
    in 12 ms at least.
    """
    refused = quick("serve", "qwen2.5-7b", "--gpu", "n300").stderr
    typed = re.search(r"or give (--gpu \S+) for one of your own", refused)
    assert typed
    told = answer(quick, "serve", "qwen2.5-7b", *typed[1].split(), "--weights", "int8", "--floor")["floor"]
    read = 7_615_616_512 - 152_064 * 3584  # bytes in 8 bits; scales, a cache and a head in 16 bits are less than 1 GB
    assert read / 576e6 < told["tpot_ms"] < (read + 1e9) / 576e6


def test_ways_to_share_a_model_stand_side_by_side(quick: Quick) -> None:
    """Weights of a step are halved by twice the tensor parallelism, and messages are more."""
    found = answer(quick, "serve", "llama-3.3-70b", "--gpu", "8xh200", "--tp", "2,4,8", "--concurrency", "64")
    layouts = [(one["deployment"]["tp"], one["deployment"]["replicas"]) for one in found["served"]]
    assert layouts == [(2, 4), (4, 2), (8, 1)]
    weights = [one["exact"]["weights_bytes_per_step"] for one in found["served"]]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] / weights[2] == pytest.approx(4, rel=0.01)
    sums = [one["estimate"]["parts_ms"]["all_reduce"] for one in found["served"]]
    assert sums == sorted(sums)


def test_what_does_not_fit_stands_beside_what_does(quick: Quick) -> None:
    found = quick("serve", "llama-3.3-70b", "--gpu", "h100,4xh100")
    assert (found.returncode, "1 x H100-SXM: CANNOT" in found.stdout) == (1, True)
    assert quick("serve", "llama-3.3-70b", "--gpu", "h100,rtx-4090").stdout.startswith("it fits in none of 2 ways")
    floors = quick("serve", "llama-3.3-70b", "--gpu", "4xh200,4xb200", "--floor").stdout
    assert floors.startswith("4 x B200-HGX: at least ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--gpu", "h100,h200", "--curve"), "--curve has no effect on several GPUs side by side"),
        (("--gpu", "h100,h200", "--for", "gpus"), "--for gpus has no effect on several GPUs side by side"),
        (("--gpu", "h100,h200", "--rate", "3/s"), "--rate 3/s has no effect on several GPUs side by side"),
        (("--gpu", "h100, h100"), "the same GPUs are named twice"),
        (("--gpu", "h100,nonsense"), "'nonsense' is not known"),
        (("--gpu", "h100,"), "is not known"),
        (("--gpu", "h100,h200,b200,l4,l40s,t4,v100"), "7 ways to serve a model side by side; take 2 to 6"),
        (("--gpu", "8xh100", "--tp", "1..100"), "100 ways to serve a model side by side; take 2 to 6"),
        (("--gpu", "h100,h200", "--output", "0"), "are of models that write text"),
    ],
)
def test_what_does_not_stand_side_by_side(quick: Quick, words: tuple[str, ...], told: str) -> None:
    refused = quick("serve", "llama-3.1-8b", *words)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert told in refused.stderr


def test_a_card_of_ones_own_has_a_floor_of_bytes(quick: Quick) -> None:
    """By hand: 8,030,261,248 weights in 16 bits less the table (128,256 x 4,096), of which a row is read, and 131,072
    bytes of cache for each of 1,024 + 128 + 1 tokens, at 576 GB/s.
    """
    found = answer(quick, "serve", "llama-3-8b", "--gpu", "24GB@576GB/s")
    weights = 2 * (8_030_261_248 - 128_256 * 4096) + 2 * 4096
    assert found["floor"]["tpot_ms"] == pytest.approx(1000 * (weights + 1153 * 131_072) / 576e9)
    assert found["floor"]["bound"] == "bandwidth"
    assert found["estimate"] is None
    said = quick("serve", "llama-3-8b", "--gpu", "24GB@576GB/s").stdout
    assert "Products are in no floor: no dense peak of 24GB@576GB/s is known" in said
    assert "Products are in no floor" in quick("serve", "bge-m3", "--gpu", "24GB@576GB/s").stdout
    assert "FITS: needs" in quick("memory", "llama-3-8b", "--serve", "--gpu", "24GB@576GB/s").stdout


def test_a_link_of_ones_own(quick: Quick) -> None:
    """By hand: two sums of each of 32 layers send half of 4,096 numbers of 16 bits to the other GPU, each once.

    Where GPUs have PCIe alone nothing is estimated until somebody says how fast it is.
    """
    words = ("serve", "llama-3-8b", "--gpu", "2x24GB@576GB/s")
    slow = answer(quick, *words, "--link", "3.2GB/s")
    assert slow["floor"]["tpot_link_ms"] == pytest.approx(1000 * 2 * 32 * 4096 * 2 * 0.5 / 3.2e9)
    assert answer(quick, *words)["floor"]["tpot_link_ms"] == 0
    assert "Sums over GPUs are in no floor" in quick(*words).stdout
    pair = ("serve", "llama-3-8b", "--gpu", "2xh100-pcie", "--concurrency", "8")
    assert "(--link, as measured there)" in quick(*pair).stdout
    assert answer(quick, *pair)["estimate"] is None
    fast, slow = (answer(quick, *pair, "--link", rate)["estimate"]["parts_ms"] for rate in ("50GB/s", "5GB/s"))
    sums = 2 * 32 * 8 * 4096 * 2 / 0.8  # of a step, through a bus of 0.8 of the link; the rest is latency
    assert slow["all_reduce"] - fast["all_reduce"] == pytest.approx(1000 * sums * (1 / 5e9 - 1 / 50e9))
    assert slow["kernels"] == fast["kernels"]
    assert "sums are counted at the rate of --link" in quick(*pair, "--link", "50GB/s").stdout
