"""The page's questions, asked as the page asks them, against the program's own answers."""

from __future__ import annotations

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import pytest

from tests.conftest import Program
from tfcalc.page import ask as page
from tfcalc.page.forms import TABS
from tfcalc.page.links import PASTED, link_of, words_of
from tfcalc.page.shown import COMMAND

QUESTIONS = (
    "overview gpt2",
    "params gpt2",
    "params mixtral-8x7b --depth 3",
    "flops gpt2 --seq 256 --train",
    "memory gpt2 --train --lora --seq 256",
    "memory gpt2 --serve --context 512",
    "fit gpt2 --gpu rtx-4090 --seq 128",
    "train gpt2 --tokens 1M --gpu h100 --seq 128",
    "serve gpt2 --gpu h100 --input 64 --output 16",
    "compare gpt2 gpt2-medium",
    "formula complete gpt2",
    "explain attention gpt2",
)


SAMPLE = 6
"""Links of an answer that are followed, at most."""


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, as the page's file system is. Answers about presets stay: nothing in a folder changes them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(page, "KEPT", 1000)
    monkeypatch.setattr(page, "_SAID", {})  # who comes back
    for words in [words for words in page._ANSWERS if PASTED in words]:
        del page._ANSWERS[words]


def asked(link: str) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(page.ask(link)))


class Links(HTMLParser):
    """The links of a piece of HTML, by their class, and the identifiers of its labels and controls."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: dict[str, list[str]] = {}
        self.labels, self.controls = set[str](), set[str]()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.found.setdefault(given["class"], []).append(given["href"].removeprefix("#"))
        if tag == "label":
            self.labels.add(given["for"])
        if tag in ("input", "select") and given.get("type") != "range":
            self.controls.add(given["id"])


@pytest.mark.parametrize("line", QUESTIONS)
def test_it_answers_as_the_program_does(tfcalc: Program, line: str) -> None:
    words = shlex.split(line)
    done = tfcalc(*words)
    found = json.loads(page.typed(f"tfcalc {line}"))
    assert (found["exit"], found["told"]) == (done.returncode, done.stderr.rstrip("\n"))
    text = re.sub(r"<[^>]+>", "", found["html"])
    title = done.stdout.splitlines()[0]
    assert title in text.replace("&#x27;", "'").replace("&gt;", ">")
    written = json.loads(page.written(json.dumps(words), "json"))
    assert (written["exit"], written["text"]) == (done.returncode, tfcalc(*words, "--json").stdout)


@pytest.mark.parametrize("line", QUESTIONS[:10])
def test_a_number_that_is_clicked_opens(line: str) -> None:
    first = asked(link_of(shlex.split(line)))
    links = list(dict.fromkeys(Links(first["html"]).found.get("opens", [])))
    for link in links[:: len(links) // SAMPLE + 1]:
        behind = asked(link)
        assert (behind["exit"], behind["told"]) == (0, ""), link
        assert behind["html"], link


def test_what_the_page_does_not_show_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_asked(*_: object, **__: object) -> None:
        raise AssertionError("a simulated allocator takes longer than all else")

    monkeypatch.setattr("tfcalc.training.peaks.reserved", not_asked)
    assert json.loads(page.ask("memory/gpt2?train&seq=128"))["exit"] == 0


ON_CARDS = ("memory gpt2 --train --seq 128 --gpu rtx-4090", "fit gpt2 --lora --seq 128 --gpu rtx-4090", "overview gpt2")


def seen(monkeypatch: pytest.MonkeyPatch, line: str, number: int, *later: str) -> dict[str, Any]:
    """A sight of the answer to a line, for which nothing is run that is left to ``later``."""

    def not_asked(*_: object, **__: object) -> None:
        raise AssertionError("this takes longer than the sight that was asked for")

    page._ANSWERS.pop(tuple(shlex.split(line)), None)
    with monkeypatch.context() as patched:
        for name in later:
            patched.setattr(name, not_asked)
        found: dict[str, Any] = json.loads(page.sight(number, "typed", line))
    return found


def heading(answer: dict[str, Any]) -> str:
    """The first line of an answer, as text."""
    found = re.search(r"<h2[^>]*>(.*?)</h2>", answer["html"])
    assert found
    return re.sub("<[^>]+>", "", found[1])


def rows(answer: dict[str, Any]) -> dict[str, list[str]]:
    """The rows of the table of an answer, by their first cells."""
    found = re.findall(r"<tr>(.*?)</tr>", answer["html"].partition("<tbody>")[2])
    cells = [[re.sub("<[^>]+>", "", one) for one in re.findall(r"<t[dh].*?</t[dh]>", row)] for row in found]
    return {first: others for first, *others in cells}


@pytest.mark.parametrize("line", ON_CARDS)
def test_what_is_seen_first_is_part_of_the_whole_and_simulates_nothing(
    monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    first = seen(monkeypatch, line, 1, "tfcalc.training.peaks.reserved")
    whole = json.loads(page.typed(line))
    assert (first["waits"] > 1, whole["waits"]) == (True, 0)
    assert first["form"] == whole["form"]
    later = rows(whole)
    told = {name: [cell for cell in cells if cell not in ("", "…")] for name, cells in rows(first).items()}
    told = {name: cells for name, cells in told.items() if cells}
    assert "as asked" in told or "weights" in told
    assert all(set(cells) <= set(later[name]) for name, cells in told.items())


JUDGED = (*ON_CARDS[:2], "fit llama-3-8b --lora --gpu rtx-4090", "memory gpt2 --train --seq 256 --gpu t4")


@pytest.mark.parametrize("line", JUDGED)
def test_the_verdict_comes_before_what_else_would_fit(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    second = seen(monkeypatch, line, 2, "tfcalc.answers.verdict.remedies", "tfcalc.answers.verdict.largest_of")
    whole = json.loads(page.typed(line))
    assert (second["waits"], whole["waits"]) == (3, 0)
    verdict = heading(second)
    assert verdict.startswith(("FITS", "MAY NOT FIT", "DOES NOT FIT"))
    assert heading(whole).startswith(verdict)
    assert second["exit"] == whole["exit"]


@pytest.mark.parametrize("line", ["fit llama-3-8b --gpu rtx-4090", "fit gpt2 --gpu t4 --serve --context 512"])
def test_a_verdict_that_rests_on_bytes_alone_is_there_at_first_sight(
    monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """Full fine-tuning of 8B parameters takes more than 24 GB, whatever an allocator does; serving has none."""

    first = seen(monkeypatch, line, 1, "tfcalc.training.peaks.reserved")
    whole = json.loads(page.typed(line))
    assert first["waits"] == 3
    assert heading(whole).startswith(heading(first))
    assert "FIT" in heading(first)
    assert first["exit"] == whole["exit"]


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("train llama-3-8b --tokens 100M --gpu h100", "FITS"),
        ("train gpt2 --tokens 100M --batch 64 --gpu t4", "DOES NOT FIT"),
    ],
)
def test_a_run_has_its_peak_and_its_verdict_before_the_change_that_makes_it_fit(
    monkeypatch: pytest.MonkeyPatch, line: str, verdict: str
) -> None:
    """Of one that fits on an 80 GB card the allocator decides; 64 sequences of 1,024 tokens are too many for 16 GB."""
    changes = "tfcalc.answers.verdict.remedies"
    first = seen(monkeypatch, line, 1, "tfcalc.training.peaks.reserved", changes)
    second = seen(monkeypatch, line, 2, changes)
    whole = json.loads(page.typed(line))
    asked = heading(json.loads(page.typed(line.replace("train", "fit", 1).replace("--tokens 100M", "--train"))))
    assert (first["waits"], second["waits"], whole["waits"]) == (2 if verdict == "FITS" else 3, 3, 0)
    assert second["exit"] == whole["exit"]
    assert heading(second) == asked
    assert heading(second).startswith(f"{verdict}: needs ")
    assert heading(whole).startswith((f"{verdict}: ", f"{verdict}; fits with "))
    (peak,) = (cell for cells in rows(first).values() for cell in cells if cell != "…")
    assert f"needs {peak} GiB" in heading(first)


@pytest.mark.parametrize("line", ["fit gpt2-xl --seq 128", "train gpt2-xl --seq 128 --tokens 100M"])
def test_all_gpus_have_what_it_takes_of_them_before_those_that_hold_it(
    monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """GPT-2 XL takes more than a GPU of 12 GB and less than one of 80 GB, as it is asked about."""
    first = seen(monkeypatch, line, 1, "tfcalc.training.peaks.reserved", "tfcalc.answers.verdict.remedies")
    whole = json.loads(page.typed(line))
    assert (first["waits"], whole["waits"], first["exit"]) == (3, 0, whole["exit"])
    peak, place = rows(first), 1 + (line.split()[0] == "fit")
    as_asked = {gpu: cells for gpu, cells in rows(whole).items() if not cells[place - 1]}
    assert "H100-SXM" in as_asked
    assert set(rows(whole)) - set(as_asked)
    assert set(rows(whole)) <= set(peak)
    assert all(peak[gpu][place] == cells[place] for gpu, cells in as_asked.items())


@pytest.mark.parametrize(
    "line",
    ["params gpt2", "memory gpt2 --train --seq 128", "train gpt2 --tokens 100M --seq 128 --gpu h100", "no-such-model"],
)
def test_what_is_there_at_once_is_whole_at_first_sight(line: str) -> None:
    first = page.sight(1, "typed", line)
    assert not json.loads(first)["waits"]
    assert first == page.typed(line)


def test_all_numbers_of_a_peak_are_links_down_to_matrices() -> None:
    link, passed = "memory/gpt2?train&seq=256", []
    for _ in range(8):
        found = Links(asked(link)["html"]).found.get("opens", [])
        if not found:
            break
        link = found[0]
        passed.append(link)
    assert len(passed) >= 2
    last = asked(link)
    for told in ("4 × V × h", "4 × 50257 × 768", f"{4 * 50257 * 768:,}"):  # fp32: a vector for each token it knows
        assert told in last["html"]


@pytest.mark.parametrize("line", QUESTIONS)
def test_every_further_question_of_an_answer_is_one(line: str) -> None:
    """Links of tabs, of changes and of commands are answered, or refused in one line that says what would do."""
    found = json.loads(page.typed(line))
    links = [tab["link"] for tab in found["tabs"]] + Links(found["html"]).found.get("asks", [])
    for link in dict.fromkeys(links):
        if link.startswith("fit/") and "gpu" not in link:
            continue  # all cards at once take seconds
        behind = asked(link)
        assert behind["exit"] in (0, 1), (link, behind["told"])
        assert behind["html"] or behind["text"]


@pytest.mark.parametrize("tab", TABS, ids=lambda tab: tab.label)
def test_every_control_has_a_label(tab: object) -> None:
    link = next(each["link"] for each in asked("overview/gpt2")["tabs"] if each["label"] == cast("Any", tab).label)
    form = Links(asked(link)["form"])
    assert form.labels == form.controls
    assert form.controls


def test_a_change_is_made_in_its_place() -> None:
    words = json.dumps(shlex.split("memory gpt2 --train --seq 256 --lora"))

    def changed(name: str, value: str | bool) -> str:
        return str(json.loads(page.changed(words, name, value))["command"])

    assert changed("seq_len", "512") == "tfcalc memory gpt2 --train --seq 512 --lora"
    assert changed("seq_len", "") == "tfcalc memory gpt2 --train --lora"
    assert changed("batch_size", "2") == "tfcalc memory gpt2 --train --seq 256 --lora --batch 2"
    assert changed("qlora", "16") == "tfcalc memory gpt2 --train --seq 256 --qlora 16"
    assert changed("model", "gpt2-medium") == "tfcalc memory gpt2-medium --train --seq 256 --lora"
    assert changed("timeline", True) == "tfcalc memory gpt2 --train --seq 256 --lora --timeline"
    several = json.loads(page.changed(words, "model", "gpt2-medium", "batch_size", "2", "seq_len", ""))
    assert several["command"] == "tfcalc memory gpt2-medium --train --lora --batch 2"


@pytest.mark.parametrize("link", ["memory/gpt2?train&zero=3", "memory/gpt2?train&fsdp", "fit/gpt2?gpu=h100&fsdp"])
def test_what_is_refused_as_it_is_drawn_is_told_in_a_line(link: str) -> None:
    for found in (asked(link), json.loads(page.sight(1, "ask", link))):
        assert (found["exit"], found["html"]) == (2, "")
        assert found["told"].startswith("tfcalc: ")
        assert "add --gpus" in found["told"]
        assert "\n" not in found["told"]
        assert found["form"]


def test_other_questions_keep_what_they_can_use() -> None:
    tabs = {tab["label"]: tab["link"] for tab in asked("memory/gpt2?train&seq=256&lora")["tabs"]}
    assert words_of(tabs["FLOPs"]) == ["flops", "gpt2", "--train", "--seq", "256", "--lora"]
    assert words_of(tabs["Serving memory"]) == ["memory", "gpt2", "--serve"]
    assert "--lora" in words_of(tabs["Does it fit?"])


def tab(answer: dict[str, Any], label: str) -> str:
    """The link of another question beside an answer."""
    return str(next(one["link"] for one in answer["tabs"] if one["label"] == label))


def led(link: str, *labels: str) -> str:
    """The command line that these questions lead to, one after the other, from a link."""
    for label in labels:
        link = tab(asked(link), label)
    return shlex.join(words_of(link))


@pytest.mark.parametrize(
    ("link", "labels", "line"),
    [
        ("fit/gpt2?gpu=t4&qlora=8", ("Serving speed", "Does it fit?"), "fit gpt2 --gpu t4 --qlora 8"),
        ("fit/gpt2?gpu=t4&qlora=8", ("Serving memory", "Does it fit?"), "fit gpt2 --gpu t4 --qlora 8"),
        (
            "fit/gpt2?gpu=t4&serve&context=512",
            ("Training memory", "Does it fit?"),
            "fit gpt2 --serve --gpu t4 --context 512",
        ),
        (
            "fit/gpt2?gpu=t4&qlora=8&batch=4",
            ("Overview", "Parameters", "Training memory"),
            "memory gpt2 --train --gpu t4 --qlora 8 --batch 4",
        ),
        (
            "fit/gpt2?gpu=t4&qlora=8&loss=fused",
            ("Training memory",),
            "memory gpt2 --train --gpu t4 --qlora 8 --loss fused",
        ),
        ("fit/gpt2?gpu=t4&loss=fused", ("FLOPs", "Training memory"), "memory gpt2 --train --gpu t4 --loss fused"),
        ("fit/gpt2?gpu=t4&loss=fused", ("Serving memory",), "memory gpt2 --serve --gpu t4"),
        ("overview/gpt2?gpu=t4", ("FLOPs", "Serving speed"), "serve gpt2 --gpu t4"),
        (
            "memory/gpt2?train&gpu=t4&loss=fused",
            ("Training time",),
            "train gpt2 --gpu t4 --loss fused --tokens 100M",
        ),
        ("overview/gpt2?gpu=t4", ("FLOPs", "Does it fit?"), "fit gpt2 --gpu t4"),
        (
            "memory/gpt2?train&gpu=t4&qlora=8&seq=512",
            ("Formula", "Training memory"),
            "memory gpt2 --train --gpu t4 --qlora 8 --seq 512",
        ),
        ("train/gpt2?tokens=1M&gpu=t4&seq=512", ("FLOPs",), "flops gpt2 --train --seq 512"),
        (
            "train/gpt2?tokens=1M&gpu=h100&batch=1",
            ("Does it fit?", "Training time"),
            "train gpt2 --gpu h100 --batch 1 --tokens 1M",
        ),
    ],
)
def test_a_question_is_asked_with_what_was_said_last(link: str, labels: tuple[str, ...], line: str) -> None:
    """Fine-tuning stays that, whatever was asked about serving meanwhile; options of training stay with training."""
    found, wanted = led(link, *labels), line
    assert sorted(shlex.split(found)) == sorted(shlex.split(wanted))


def test_a_row_of_an_overview_opens_on_the_card_that_was_named() -> None:
    links = [words_of(link) for link in Links(asked("overview/gpt2?gpu=t4&seq=256")["html"]).found["asks"]]
    qlora = next(words for words in links if "--qlora" in words)
    assert ("--gpu t4" in shlex.join(qlora), "--seq 256" in shlex.join(qlora)) == (True, True)
    assert asked(link_of(qlora))["exit"] == 0


def test_a_name_is_that_of_the_same_model_however_it_is_written() -> None:
    asked("train/llama-3-8b?tokens=10M&gpu=t4&qlora")
    assert "--tokens 10M" in led("params/Llama-3-8B", "Training time")


def test_a_number_that_is_opened_changes_nothing_of_what_was_said() -> None:
    """Its derivation is a question with the same options, of which most are none of its own."""
    run = asked("train/gpt2?tokens=1M&gpu=t4&mfu=35%25&loss=fused&price=2")
    for link in Links(run["html"]).found["opens"]:
        assert asked(link)["exit"] == 0
    back = led(tab(run, "Does it fit?"), "Training time")
    wanted = "train gpt2 --gpu t4 --loss fused --tokens 1M --mfu 35% --price 2"
    assert sorted(back.split()) == sorted(wanted.split())


def test_what_was_said_before_elsewhere_gives_way() -> None:
    """A run that was asked about on another card takes the card and the way of training of the question after it."""
    first = asked("train/gpt2?tokens=1M&gpu=h100")
    fit = tab(first, "Does it fit?").replace("h100", "rtx-4090")
    run = led(f"{fit}&qlora=8&batch=4", "Overview", "Training time")
    wanted = "train gpt2 --gpu rtx-4090 --batch 4 --tokens 1M --qlora 8"
    assert sorted(run.split()) == sorted(wanted.split())


def test_who_comes_back_to_a_question_finds_what_was_said_there() -> None:
    """FLOPs have no tokens of a run and no QLoRA; what is said there of both, as of LoRA, is said last."""
    flops = tab(asked("train/llama-3-8b?tokens=250M&gpu=h100&qlora=16&seq=2k"), "FLOPs")
    assert words_of(flops) == ["flops", "llama-3-8b", "--train", "--seq", "2k"]
    back = words_of(tab(asked(flops), "Training time"))
    assert back[:2] == ["train", "llama-3-8b"]
    assert set(zip(back[2::2], back[3::2], strict=True)) == {
        ("--seq", "2k"),
        ("--tokens", "250M"),
        ("--gpu", "h100"),
        ("--qlora", "16"),
    }
    instead = words_of(tab(asked(f"{flops}&lora=8"), "Training time"))
    assert "--lora" in instead
    assert "--qlora" not in instead
    assert "--tokens 100M" in " ".join(words_of(tab(asked("flops/gpt2"), "Training time")))  # of another model


def test_whether_it_fits_begins_with_all_weights_trained_and_leads_to_adapters() -> None:
    """A 24 GB card cannot train an 8B model in full, and can with QLoRA."""
    fit = next(tab["link"] for tab in asked("overview/llama-3-8b")["tabs"] if tab["label"] == "Does it fit?")
    assert words_of(fit) == ["fit", "llama-3-8b", "--gpu", "rtx-4090"]
    shown = asked(fit)["html"]
    assert "DOES NOT FIT" in shown
    link = next(one for one in Links(shown).found["asks"] if "lora" in one)
    assert "FITS" in asked(link)["html"].partition("</h2>")[0]


def test_what_may_be_asked_else_is_neither_what_was_asked_nor_a_word_in_another_place() -> None:
    """A curve is offered until it is drawn; a batch of N sequences has a control."""
    pills = [Links(asked(link)["html"]).found["asks"] for link in ("serve/gpt2?gpu=h100", "serve/gpt2?gpu=h100&curve")]
    assert [any(link.endswith("&curve") for link in each) for each in pills] == [True, False]
    assert "--batch N" not in asked("train/llama-3-8b?tokens=100M&gpu=h100")["html"]


CONFIG = {"model_type": "gpt2", "n_layer": 3, "n_embd": 96, "n_head": 4, "vocab_size": 1000, "n_positions": 64}


def test_a_pasted_config_is_answered_as_the_file_is(tfcalc: Program, tmp_path: Path) -> None:
    text = json.dumps(CONFIG)
    found = json.loads(page.pasted(text, json.dumps(["params", "gpt2"])))
    assert found["command"] == "tfcalc params config.json"
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    told = json.loads(page.written(json.dumps(found["words"]), "json"))
    assert told["text"] == tfcalc("params", "config.json", "--json").stdout
    (tmp_path / "config.json").unlink()
    again = asked(found["link"])  # the link alone brings it
    assert (again["html"], again["exit"]) == (found["html"], 0)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "llama", '{"model_type": "gpt9"}', '{"model_type": "gpt2", "n_head": 7}', "\ud800"]
)
def test_a_wrong_config_is_refused_in_the_same_line(tfcalc: Program, tmp_path: Path, text: str) -> None:
    found = json.loads(page.pasted(text, json.dumps(["params", "gpt2"])))
    (tmp_path / "config.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    done = tfcalc("params", "config.json")
    assert (found["exit"], found["told"]) == (done.returncode, done.stderr.rstrip("\n"))
    assert found["exit"] == 3
    assert not found["html"]


def test_a_wrong_config_leaves_the_one_before() -> None:
    good = json.loads(page.pasted(json.dumps(CONFIG), json.dumps(["params", "gpt2"])))
    wrong = json.loads(page.pasted("{", json.dumps(good["words"])))
    assert "words" not in wrong  # it is no question
    assert json.loads(page.asked(good["words"]))["html"] == good["html"]


def test_an_empty_config_is_told_so() -> None:
    told = json.loads(page.pasted(" ", json.dumps(["params", "gpt2"])))["told"]
    assert told.startswith("tfcalc: config.json is empty; a config.json is {")


def test_a_config_is_right_where_only_the_question_is_refused() -> None:
    found = json.loads(page.pasted(json.dumps(CONFIG), json.dumps(["memory", "gpt2", "--train", "--seq", "1x"])))
    assert (found["exit"], found["words"][:2]) == (2, ["memory", PASTED])
    assert "--seq '1x'" in found["told"]


def test_a_link_whose_config_is_broken_is_refused() -> None:
    found = asked("params/config.json?@config=xx")
    assert found["exit"] == 2
    assert "the config in this link cannot be read" in found["told"]


@pytest.mark.parametrize("line", ["memory lama-3-8b", "params gpt2 --d-modle 5", "memory gpt2 --seq 1x", "'", ""])
def test_a_wrong_line_is_refused_as_the_program_does(tfcalc: Program, line: str) -> None:
    found = json.loads(page.typed(line))
    words = line.split() if line == "'" else shlex.split(line)
    done = tfcalc(*words)
    assert (found["exit"], found["told"]) == (done.returncode, done.stderr.rstrip("\n"))


def test_what_a_config_says_is_text_and_not_html() -> None:
    config = json.dumps({**CONFIG, "architectures": ["<img src=x>"]})
    found = asked(link_of(["overview", PASTED], config.encode()))
    assert "<img" in found["told"]  # which the page shows as text
    assert "<img" not in found["html"] + found["form"]
    assert "<img" in json.loads(page.pasted(config, '["overview", "gpt2"]'))["told"]
    assert "<script" not in asked("params/<script>alert(1)<%2Fscript>")["html"]


def test_a_form_that_is_asked_for_is_shown_as_text() -> None:
    found = json.loads(page.typed("formula mha gpt2 --latex"))
    assert found["text"] == "4 h^{2} + 4 h\n"  # 4 matrices of h × h, and their biases
    assert not found["html"]


def test_a_model_is_asked_about_after_words_that_are_no_question() -> None:
    """Whoever types a sentence is told what is wrong with it, and goes on with a model."""
    wrong = json.loads(page.typed("how do I train a model?"))
    assert wrong["exit"] > 1
    assert json.loads(page.changed(json.dumps(wrong["words"]), "model", "gpt2"))["command"] == "tfcalc overview gpt2"


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("can I fine-tune llama 3 8b on a 24 GB card?", "fit llama-3-8b --gpu 24gb"),
        ("gpt2 --lora", "memory gpt2 --lora"),
        ("how big is gpt2?", "overview gpt2"),
        ("gpt2 t4", "overview gpt2 --gpu t4"),
    ],
)
def test_a_question_in_words_becomes_the_command_that_it_asks_for(question: str, line: str) -> None:
    """Then the tabs, the options and the link are about its model, and not about its first word."""
    said = json.loads(page.typed(question))
    assert said["command"] == f"tfcalc {line}"
    assert said["model"] in line
    current = next(tab for tab in said["tabs"] if tab["current"])
    assert current["link"] == said["link"] == link_of(line.split())


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "train llama-3-8b --gpu rtx-4090 --qlora --tokens 100M",
            {
                **{"seq_len": "4096", "batch_size": "1", "grad_accum": "1", "precision": "as usual: bf16-autocast"},
                **{"optimizer": "as usual: adamw-fused", "recompute": "as usual: full"},
            },
        ),
        ("serve llama-3-8b --gpu h100", {"input_tokens": "1024", "engine": "vllm"}),
        ("memory gpt2 --train", {"recompute": "as usual: full"}),
        ("params gpt2", {"n_layers": "12", "d_model": "768"}),
    ],
)
def test_a_control_shows_what_is_in_effect(line: str, shown: dict[str, str]) -> None:
    """GPT-2's config.json has n_layer 12 and n_embd 768. A slider at its first stop would say another length."""
    form = json.loads(page.typed(line))["form"]
    for name, value in shown.items():
        control = re.search(rf'<select id="c-{name}".*?</select>|<input id="c-{name}".*?>', form)
        assert control is not None
        assert f'placeholder="{value}"' in control[0] or f">{value}</option>" in control[0], control[0]


def controls(line: str) -> set[str]:
    """The controls in front of what a line asks, by their ids."""
    return Links(json.loads(page.typed(line))["form"].partition("<details")[0]).controls


def test_a_control_is_there_where_it_has_an_effect() -> None:
    """The program refuses ``--context`` beside ``--lora``, and recomputing in a forward pass."""
    trained, served = controls("fit gpt2 --gpu t4 --lora"), controls("fit gpt2 --gpu t4 --serve")
    assert {"c-optimizer", "o-lora", "c-lora"} <= trained - served
    assert {"c-context", "c-concurrency", "c-kv"} <= served - trained
    assert controls("flops gpt2 --train") - controls("flops gpt2") == {"c-recompute"}


def test_who_turns_to_serving_leaves_what_is_of_training_alone_and_back() -> None:
    line = "fit gpt2 --gpu t4 --lora 8 --optimizer adamw --batch 2 --tp 1"
    served = json.loads(page.changed(json.dumps(line.split()), "serve", True))
    assert (served["command"], served["exit"]) == ("tfcalc fit gpt2 --gpu t4 --tp 1 --serve", 0)
    longer = json.loads(page.changed(json.dumps(served["words"]), "context", "512"))
    assert longer["command"] == "tfcalc fit gpt2 --gpu t4 --tp 1 --serve --context 512"
    back = json.loads(page.changed(json.dumps(longer["words"]), "serve", False))
    assert (back["command"], back["exit"]) == (
        "tfcalc fit gpt2 --gpu t4 --tp 1 --lora 8 --batch 2 --optimizer adamw",
        0,
    )
    assert led("serve/gpt2-medium?gpu=t4&concurrency=4", "Does it fit?") == (
        "fit gpt2-medium --serve --gpu t4 --concurrency 4"
    )


def test_lora_is_switched_and_has_a_rank_beside() -> None:
    words = json.dumps(["memory", "gpt2", "--train", "--seq", "64"])
    on = json.loads(page.changed(words, "lora", True))
    assert on["command"] == "tfcalc memory gpt2 --train --seq 64 --lora"
    assert re.search(r'<input type="checkbox" id="o-lora" name="lora"[^>]* checked>', on["form"])
    assert re.search(r'<input id="c-lora" name="lora"[^>]* value="16"', on["form"])  # peft's rank in its own examples
    other = json.loads(page.changed(json.dumps(on["words"]), "lora", "8"))
    assert other["command"] == "tfcalc memory gpt2 --train --seq 64 --lora 8"
    assert other["shape"] == on["shape"]  # so that what is typed goes on being typed
    quantized = json.loads(page.changed(json.dumps(other["words"]), "qlora", True))
    assert quantized["command"] == "tfcalc memory gpt2 --train --seq 64 --qlora"
    assert quantized["shape"] != other["shape"]
    off = json.loads(page.changed(json.dumps(quantized["words"]), "qlora", False))
    assert off["command"] == "tfcalc memory gpt2 --train --seq 64"
    assert "c-qlora" not in off["form"]


def test_a_card_by_its_memory_alone_leads_to_the_hours_of_one_that_has_it() -> None:
    """An RTX 4090 has 24 GB, by its maker; of a card without a name no peak is known."""
    shown = json.loads(page.typed("train llama-3-8b --gpu 24GB --qlora --tokens 100M"))["html"]
    assert "No run on a 24 GB card is known" in shown
    link = next(one for one in Links(shown).found["asks"] if "4090" in one)
    assert words_of(link) == ["train", "llama-3-8b", "--gpu", "RTX-4090", "--qlora", "--tokens", "100M"]
    assert "hours" in asked(link)["html"].partition("</h2>")[0]


@pytest.mark.parametrize(
    ("note", "command"),
    [
        ("Not all are known; tfcalc models lists the presets", "tfcalc models"),
        (
            "tfcalc explain layer --of flops --count all has its operations",
            "tfcalc explain layer --of flops --count all",
        ),
        ("give --gpu, see tfcalc gpus", "tfcalc gpus"),
    ],
)
def test_what_is_said_of_a_command_is_no_part_of_its_link(note: str, command: str) -> None:
    found = COMMAND.search(note)
    assert found is not None
    assert found[0] == command


def test_what_stands_for_a_word_of_the_reader_is_no_link() -> None:
    html = json.loads(page.typed("train llama-3-8b --gpu 24GB --lora --tokens 100M"))["html"]
    assert '(<a class="asks" href="#gpus">tfcalc gpus</a>), or give --tokens-per-second' in html
    html = json.loads(page.typed("train llama-3-8b --gpu rtx-4090 --qlora --tokens 100M"))["html"]
    assert "batch=N" not in html


def test_a_remedy_takes_the_place_of_what_it_replaces() -> None:
    """LoRA of an 8B model does not fit into 24 GB as asked; the link to QLoRA asks for that alone."""
    shown = json.loads(page.typed("fit llama-3-8b --gpu rtx-4090 --lora"))["html"]
    assert 'href="#fit/llama-3-8b?gpu=rtx-4090&amp;qlora=16"' in shown


def test_a_picture_opens_the_number_of_each_part() -> None:
    shown = json.loads(page.typed("params gpt2"))["html"]
    assert 'class="opens" href="#explain/params.components.transformer.wte.params/gpt2"' in shown.partition("<table")[0]
    assert " style=" not in shown.partition("<table")[0]  # which the page's policy would ignore
