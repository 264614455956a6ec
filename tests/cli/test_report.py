"""A report is what the other commands answer, on one page that needs nothing else."""

from __future__ import annotations

import json
import os
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from tests.conftest import Program
from tfcalc.training import peaks
from tfcalc.training.step import StepMemory
from tfcalc.units import short, short_bytes, short_seconds, short_tokens

PRESETS = (
    "llama-3-8b",
    "gpt2",
    "bert-base-uncased",
    "t5-small",
    "mixtral-8x7b",
    "deepseek-v3",
    "qwen3-30b-a3b",
    "mamba2-780m",
    "gemma-3-27b-it",
    "whisper-small",
    "vit-base-patch16-224",
    "clip-vit-base-patch16",
)
LARGEST = 1_500_000
"""Bytes of a report."""
VOID = ("meta", "path", "rect", "circle", "br")


class Read(HTMLParser):
    """A page read back: its tables, links, ids and data; that each element is closed is checked on the way."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: dict[str, list[str]] = {}
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.data = ""
        self.text = ""
        self.within: list[str] = []
        self.href = ""
        self.feed(text)
        self.close()
        assert self.within == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID or (tag == "rect" or tag == "circle"):
            self.within.append(tag)
        for name, value in attributes:
            self.attributes.append((tag, name, value or ""))
        found = dict(attributes)
        if found.get("id"):
            self.ids.append(found["id"] or "")
        self.href = unquote((found["href"] or "")[1:]) if tag == "a" else self.href

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attributes]

    def handle_endtag(self, tag: str) -> None:
        assert self.within.pop() == tag
        self.href = "" if tag == "a" else self.href

    def handle_data(self, data: str) -> None:
        if self.within[-1:] == ["script"]:
            self.data += data
        elif "style" not in self.within:
            self.text += data
            if self.href and "svg" not in self.within:
                self.links.setdefault(self.href, []).append(data)


def report(tfcalc: Program, folder: Path, *words: str) -> tuple[str, Read]:
    """The page that is written for these words, and the same read back."""
    done = tfcalc("report", *words, "-o", str(folder / "r.html"))
    assert (done.stdout, done.stderr) == ("", "")
    text = (folder / "r.html").read_text(encoding="utf-8")
    return text, Read(text)


def answers(data: str) -> dict[str, dict[str, Any]]:
    """The answers that a page has, by their commands."""
    made = [one["answer"] for one in json.loads(data)["answers"] if one["answer"]]
    return {one["command"]: one for one in made}


def number(answer: Any, keys: list[str]) -> int | float:
    """The number of an answer at these keys, of which some are names of a list's parts."""
    while keys:
        key, taken = keys[0], 1
        if isinstance(answer, dict) and key not in answer and "parts" in answer:
            answer = answer["parts"]
        if isinstance(answer, list):
            named = {one.get("name", one.get("phase")): one for one in answer if isinstance(one, dict)}
            spelled = {".".join(keys[:count]): count for count in range(len(keys), 0, -1)}  # names may have dots
            found = next((name for name in spelled if name in named), None)
            answer, taken = (named[found], spelled[found]) if found else (answer[int(key)], 1)
        else:
            answer = answer[key]
        keys = keys[taken:]
    assert isinstance(answer, int | float)
    return answer


def told(value: int | float) -> set[str]:
    """How a number may be written."""
    written = {f"{value:,}", short(value), short(value, billion="B"), short_bytes(value), f"{value:,.0f}"}
    written.add(short_tokens(round(value)))
    written |= {f"{unit:,.2g} ms" for unit in (value,)} | {f"{value:,.0f} ms", f"{value / 1000:,.2g} s"}
    return written


def check(text: str, read: Read) -> int:
    """Check that a page needs nothing else, and that its numbers are those of the answers; how many are linked."""
    assert len(text.encode()) < LARGEST
    assert "default-src 'none'" in text.split("<title>", 1)[0]
    for tag, name, value in read.attributes:
        assert name not in ("src", "srcset", "xlink:href", "data", "action", "background"), (tag, name)
        assert not name.startswith("on")
        assert name != "href" or value.startswith("#"), (tag, value)
        assert "url(" not in value
    assert "url(" not in text
    assert "@import" not in text
    assert len(read.ids) == len(set(read.ids))
    inside = {"_".join(link.split()) for link in read.links}
    assert inside <= set(read.ids), inside - set(read.ids)
    found, checked = answers(read.data), 0
    for link, texts in read.links.items():
        command, *keys = link.split(".")
        for shown in texts if keys else ():
            counted = number(found[command], keys)
            assert shown.strip() in told(counted), (link, shown, counted)
            checked += 1
    return checked


def test_the_numbers_of_a_page_are_those_of_the_answers(tfcalc: Program, tmp_path: Path) -> None:
    text, read = report(tfcalc, tmp_path, "llama-3-8b")
    assert check(text, read) > 80
    for command, words in {
        "params": ("params", "llama-3-8b", "--depth", "9"),
        "flops": ("flops", "llama-3-8b", "--depth", "9"),
        "memory": ("memory", "llama-3-8b", "--train", "--timeline"),
    }.items():
        assert answers(read.data)[command] == json.loads(tfcalc(*words, "--json").stdout)


def test_a_step_of_training_runs_once_for_all_sections(
    tfcalc: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three ways to fine-tune are told at a glance, one of them is opened: three steps. No answer knows of others'."""
    run: list[object] = []
    step = peaks.step_of

    def counted(*asked: Any, **words: Any) -> StepMemory:
        run.append(asked)
        return step(*asked, **words)

    monkeypatch.setattr(peaks, "step_of", counted)
    words = ("gpt2", "--layers", "2", "--seq", "64")
    assert tfcalc("report", *words, "-o", str(tmp_path / "r.html")).stderr == ""
    assert len(run) == 3
    run.clear()
    assert tfcalc("memory", *words, "--train", "--json").stderr == ""
    assert len(run) == 1


def test_what_the_page_says_of_llama_3_8b(tfcalc: Program, tmp_path: Path) -> None:
    """8,030,261,248 parameters: the index of its published safetensors. Of a token of l, with h = 4,096, k = 1,024 of
    keys and f = 14,336: attention 2(2h² + 2hk) + 4hl, feed-forward 6hf, which are equal at l = (3f - 2h - 2k) / 2.
    """
    assert (3 * 14336 - 2 * 4096 - 2 * 1024) // 2 == 16384
    _, read = report(tfcalc, tmp_path, "llama-3-8b")
    assert "8,030,261,248" in read.links["params.total_params"]
    assert "attention equals ffn at 16,384" in read.text


@pytest.mark.long
@pytest.mark.parametrize("preset", PRESETS)
def test_reports_of_presets(tfcalc: Program, tmp_path: Path, preset: str) -> None:
    text, read = report(tfcalc, tmp_path, preset)
    assert check(text, read) > 20


def test_a_section_that_cannot_be_made_says_why(tfcalc: Program, tmp_path: Path) -> None:
    _, read = report(tfcalc, tmp_path, "vit-base-patch16-224")
    assert "Left out: ViTForImageClassification does not generate text" in read.text


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&\x1b[31m\u202e"


def test_a_config_cannot_write_on_the_page(tfcalc: Program, tmp_path: Path) -> None:
    config = json.loads(tfcalc("params", "gpt2", "--json").stdout)["model"]["config"]
    folder = tmp_path / HOSTILE.replace("/", "")
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config | {"_name_or_path": HOSTILE, HOSTILE: HOSTILE}))
    done = tfcalc("report", str(folder), "-o", str(tmp_path / "r.html"))
    assert done.stderr == ""
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert done.stderr == ""
    assert check(text, Read(text)) > 20
    assert "<script>" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert text.count("<script") == 1
    done = tfcalc("report", str(folder), "-o", str(tmp_path / "r.md"))
    said = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "<script" not in re.sub(r"(`+)[^`].*?\1", "", said)
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_markdown_has_its_pictures_beside_it(tfcalc: Program, tmp_path: Path) -> None:
    done = tfcalc("report", "gpt2", "-o", str(tmp_path / "for pull.md"))
    assert done.stderr == ""
    text = (tmp_path / "for pull.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
    assert len(pictures) >= 5
    assert sorted(map(unquote, pictures)) == sorted(path.name for path in tmp_path.glob("*.svg"))
    for picture in tmp_path.glob("*.svg"):
        root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.find("{*}title") is not None
        assert root.find("{*}desc") is not None
        assert "href" not in picture.read_text(encoding="utf-8")
    assert "124,439,808" in text


def test_light_and_dark_and_paper(tfcalc: Program, tmp_path: Path) -> None:
    text, _ = report(tfcalc, tmp_path, "gpt2", "--layers", "2")
    assert text.count("@media screen and (prefers-color-scheme") == 2
    assert "@media print" in text


def test_a_named_gpu_has_a_verdict_and_several_have_layouts(tfcalc: Program) -> None:
    said = json.loads(tfcalc("report", "gpt2", "--gpu", "t4", "--json").stdout)
    assert "tfcalc fit gpt2 --gpu t4" in [one["asked"] for one in said["answers"]]
    said = json.loads(tfcalc("report", "gpt2", "--gpu", "8xh100", "--seq", "64", "--json").stdout)
    assert "tfcalc plan gpt2 --gpu 8xh100 --global-batch-size 64 --seq 64" in [one["asked"] for one in said["answers"]]


def test_the_bars_of_a_plan_have_the_band_of_its_estimate(tfcalc: Program, tmp_path: Path) -> None:
    words = ("plan", "gpt2", "--gpu", "8xh100", "--global-batch-size", "64", "--seq", "64")
    said = json.loads(tfcalc(*words, "--json").stdout)
    assert tfcalc(*words, "-o", str(tmp_path / "p.vl.json")).stderr == ""
    bars, band = json.loads((tmp_path / "p.vl.json").read_text(encoding="utf-8"))["layer"]
    first = band["data"]["values"][0]
    assert (first["seconds"], first["high"]) == (said["step_seconds_low"], said["step_seconds_high"])
    whole = sum(each["size"] for each in bars["data"]["values"] if each["row"] == first["row"])
    assert whole == pytest.approx(said["step_seconds"], rel=0.01)
    assert first["seconds"] < whole < first["high"]
    assert tfcalc(*words, "-o", str(tmp_path / "p.html")).stderr == ""
    low, high = (short_seconds(said[f"step_seconds_{end}"]) for end in ("low", "high"))
    assert f"{low} to {high}</title>" in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_the_command_on_the_page_makes_it_again(tfcalc: Program, tmp_path: Path) -> None:
    text, _ = report(tfcalc, tmp_path, "gpt2", "--layers", "2", "--seq", "64", "--batch", "3")
    assert f"tfcalc report gpt2 --layers 2 --batch 3 --seq 64 -o {tmp_path / 'r.html'}" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("no-such-model",), "no-such-model"),
        (("gpt2", "--gpu", "h999"), "'h999'"),
        (("gpt2", "--heads", "7"), "7"),
        (("gpt2", "--quiet"), "--quiet"),
        (("vit-base-patch16-224", "--seq", "64"), "--seq"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    tfcalc: Program, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    done = tfcalc("report", *words, "-o", str(tmp_path / "r.html"))
    assert done.returncode in (2, 3)
    assert message in done.stderr
    assert done.stderr.startswith("tfcalc: ")
    assert not list(tmp_path.glob("r*"))


def test_a_file_that_cannot_be_written_leaves_the_old_one_whole(
    tfcalc: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "r.html"
    file.write_text("old")
    file.chmod(0o640)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        done = tfcalc("report", "gpt2", "--layers", "2", "-o", str(file))
    assert "No space left on device" in done.stderr
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["r.html"]
    assert tfcalc("report", "gpt2", "--layers", "2", "-o", str(file)).stderr == ""
    assert file.read_text().startswith("<!DOCTYPE html>")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_any_answer_is_written_as_a_page(tfcalc: Program, tmp_path: Path) -> None:
    """GPT-2 and GPT-2 medium have 124,439,808 and 354,823,168 parameters: counted by transformers."""
    done = tfcalc("compare", "gpt2", "gpt2-medium --seq 512", "-o", str(tmp_path / "c.html"))
    assert (done.stdout, done.stderr) == ("", "")
    text = (tmp_path / "c.html").read_text(encoding="utf-8")
    read = Read(text)
    assert len(text.encode()) < LARGEST
    assert f"tfcalc compare gpt2 'gpt2-medium --seq 512' --output {tmp_path / 'c.html'}" in read.text
    said = json.loads(read.data)["answers"][0]["answer"]
    assert tfcalc("plot", "gpt2", "-o", str(tmp_path / "p.html")).stderr == ""
    assert "<svg" in (tmp_path / "p.html").read_text(encoding="utf-8")
    assert said == json.loads(tfcalc("compare", "gpt2", "gpt2-medium --seq 512", "--json").stdout)
    assert [one["total_params"] for one in said["models"]] == [124_439_808, 354_823_168]
    assert read.links["compare.rows.total_params.values.0"] == ["124M"]
    inside = {"_".join(link.split()) for link in read.links}
    assert inside <= set(read.ids)
    assert "<svg" in text
    assert not any(name == "src" for _, name, _ in read.attributes)


def test_models_side_by_side_are_drawn_in_one_picture(tfcalc: Program, tmp_path: Path) -> None:
    """Of a token of l, with h = 4,096, k of keys and f of the feed-forward network: attention 2(2h² + 2hk) + 4hl,
    feed-forward 6hf, which are equal at l = (3f - 2h - 2k) / 2. Llama 3 8B has k = 1,024 and f = 14,336, Llama 2 7B
    k = 4,096 and f = 11,008: their config.json. A token's cache is 2 · 32 layers · k · 2 bytes.
    """
    assert (3 * 14336 - 2 * 4096 - 2 * 1024) // 2 == 16384
    assert (3 * 11008 - 2 * 4096 - 2 * 4096) // 2 == 8320
    assert 8192 * 2 * 32 * 1024 * 2 == 2**30
    assert 4096 * 2 * 32 * 4096 * 2 == 2 * 2**30
    done = tfcalc("compare", "llama-3-8b", "llama-2-7b", "-o", str(tmp_path / "c.html"))
    assert (done.stdout, done.stderr) == ("", "")
    text = (tmp_path / "c.html").read_text(encoding="utf-8")
    read = Read(text)
    growth, cache = (text.split(f'<h2 id="{name}">')[1].split("</figure>")[0] for name in ("growth", "cache"))
    for crossing in ("llama-3-8b: attention equals ffn at 16,384", "llama-2-7b: attention equals ffn at 8,320"):
        assert f">{crossing}</text>" in growth
    for point in ("llama-3-8b: 1.00 GiB at 8k", "llama-2-7b: 2.00 GiB at 4k"):
        assert f"<title>{point}</title>" in cache
    assert "GPUs" in read.text.split("Which GPUs hold it")[2]
    assert len(read.ids) == len(set(read.ids))
    assert {"_".join(link.split()) for link in read.links} <= set(read.ids)
    said, checked = json.loads(read.data), 0
    for link, texts in read.links.items():
        for shown in texts if link.startswith("answers.") else ():
            assert shown.strip() in told(number(said, link.split("."))), link
            checked += 1
    assert checked > 40
    plot = next(one["answer"] for one in said["answers"] if one["asked"].startswith("tfcalc plot llama-2-7b"))
    assert plot["crossings"][0]["at"] == 8320


def test_operands_that_differ_in_training_share_a_curve(tfcalc: Program, tmp_path: Path) -> None:
    done = tfcalc("compare", "gpt2", "gpt2 --lora 8", "--train", "--seq", "64", "-o", str(tmp_path / "c.md"))
    assert done.stderr == ""
    text = (tmp_path / "c.md").read_text(encoding="utf-8")
    assert text.count("`tfcalc sweep gpt2 --of cache") == 1
    assert "`tfcalc memory gpt2 --train --timeline --seq 64 --lora 8`" in text
    assert "](c-memory.svg)" in text
    drawn = (tmp_path / "c-memory.svg").read_text(encoding="utf-8")
    assert "gpt2 --lora 8: forward" in drawn


def test_a_model_without_an_answer_says_why_beside_one_that_has_it(tfcalc: Program, tmp_path: Path) -> None:
    done = tfcalc("compare", "gpt2", "vit-base-patch16-224", "-o", str(tmp_path / "c.html"))
    assert done.stderr == ""
    read = Read((tmp_path / "c.html").read_text(encoding="utf-8"))
    assert "Left out: ViTForImageClassification does not generate text" in read.text
    assert "tfcalc sweep gpt2 --of cache" in read.text


def test_a_page_is_the_same_bytes_whatever_the_order_of_hashes(process: Program, tmp_path: Path) -> None:
    made = []
    for seed in ("1", "2"):
        assert process("params", "gpt2", "-o", str(tmp_path / "p.html"), env={"PYTHONHASHSEED": seed}).stderr == ""
        made.append((tmp_path / "p.html").read_bytes())
    assert made[0] == made[1]


def test_budgets_are_written_with_their_picture(
    tfcalc: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of 100M on 124,439,808 parameters (by transformers): 124 % of it are used."""
    monkeypatch.chdir(tmp_path)
    budget = '[[budget]]\nmodel = "small"\nmetric = "total_params"\nmax = "100M"\n'
    Path("tfcalc.toml").write_text(f'version = 1\n[models.small]\npreset = "gpt2"\n{budget}', encoding="utf-8")
    assert tfcalc("budget", "-o", "b.md").returncode == 1
    assert "![How much of each limit is used](b-budget.svg)" in Path("b.md").read_text(encoding="utf-8")
    drawn = ElementTree.fromstring(Path("b-budget.svg").read_text(encoding="utf-8"))
    assert "124 %" in [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]


def test_an_answer_is_drawn_in_a_file_or_says_why_not(tfcalc: Program, tmp_path: Path) -> None:
    assert tfcalc("params", "gpt2", "-o", str(tmp_path / "p.svg")).stderr == ""
    assert ElementTree.fromstring((tmp_path / "p.svg").read_text(encoding="utf-8")).tag.endswith("svg")
    for words, ending, message in (
        (("params", "gpt2"), "png", "SVG alone"),
        (("models",), "svg", "this answer has none"),
        (("params", "gpt2", "--json"), "svg", "--json"),
        (("params", "gpt2", "--quiet"), "html", "--quiet"),
    ):
        done = tfcalc(*words, "-o", str(tmp_path / f"x.{ending}"))
        assert done.returncode == 2
        assert message in done.stderr
    assert tfcalc("params", "gpt2", "--format", "markdown", "-o", str(tmp_path / "t.md")).stderr == ""
    assert not (tmp_path / "t-params.svg").exists()  # a format that is typed is that of the file
    assert sorted(os.listdir(tmp_path)) == ["p.svg", "t.md"]
