"""The page in Chromium: what it loads, what it answers, and whether everyone can use it."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_report import PRESETS
from tests.conftest import Program
from tfcalc.cli.local_server import local_server

pytestmark = pytest.mark.page
TOP = Path(__file__).parents[2]
PICTURES = TOP / "build" / "page"
SITE = TOP / "site"
READ = ("index", "formulas", "reference", "models", "ledger", "commands/memory")
"""Pages of the documentation: home, course, wide tables, a command."""
DRAWN = """() => {
  const all = (of) => [...document.querySelectorAll(of)];
  return all(".md-typeset table:not([class])").every((table) => table.closest(".md-typeset__scrollwrap"))
    && all("pre > code").every((code) => code.scrollWidth <= code.clientWidth || code.tabIndex === 0);
}"""
"""The theme and `docs/assets/focus.js` have done their work, which takes seconds where the machine is busy."""
CLICK = "new MouseEvent('click', { bubbles: true, cancelable: true })"
"""Of what may be a part of a picture."""
AXE = "axe-core@4.14.1"
AXE_HASH = "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
LOADED = 120_000
"""Milliseconds that a busy machine may take to load the page."""
ANSWERED = 60_000


class Opened:
    """The page in a browser: what it requested, and what went wrong in it."""

    def __init__(self, page: Any, base: str) -> None:
        self.page, self.base = page, base
        self.requested: list[str] = []
        self.wrong: list[str] = []
        page.on("request", lambda one: self.requested.append(one.url))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)

    @property
    def answers(self) -> int:
        return int(self.page.evaluate("Number(document.documentElement.dataset.answers ?? 0)"))

    def wait(self, before: int, most: int = ANSWERED) -> None:
        for _ in range(most // 50):
            if self.answers > before:
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"no answer; the page says {self.page.inner_text('#told')}")

    def open(self, link: str = "") -> None:
        self.page.goto(f"{self.base}#{link}" if link else self.base)
        self.wait(0, LOADED)

    def ask(self, link: str) -> None:
        """Go to a link, and wait for its answer unless it is there already."""
        before = self.answers
        if self.page.evaluate("location.hash.slice(1)") != link:
            self.page.evaluate(f"location.hash = {json.dumps(link)}")
            self.wait(before)

    def until(self, condition: str) -> None:
        """Wait until it is true; the page's policy forbids what ``wait_for_function`` does."""
        for _ in range(ANSWERED // 50):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(condition)

    def press(self, of: str, key: str = "Enter") -> None:
        """Put the focus there, press the key, and wait for an answer."""
        before = self.answers
        self.page.focus(of)
        self.page.keyboard.press(key)
        self.wait(before)

    def has_focus(self, of: str) -> bool:
        return bool(self.page.evaluate(f"document.activeElement.matches({json.dumps(of)})"))

    def json(self) -> str:
        self.page.evaluate("delete document.documentElement.dataset.copied")
        self.page.click("[data-copy=json]")
        for _ in range(ANSWERED // 50):
            found = self.page.evaluate("document.documentElement.dataset.copied ?? ''")
            if found:
                return str(found)
            self.page.wait_for_timeout(50)
        raise AssertionError("nothing was copied")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if shutil.which("chromium") is None or shutil.which("npm") is None:
        pytest.skip("npm or chromium is not on this machine")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from tools.page.__main__ import build

    folder = Path(os.environ.get("TFCALC_PAGE", tmp_path_factory.mktemp("built") / "page"))
    if not folder.exists():
        build(folder)
    with local_server(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    from tools.page.__main__ import from_npm

    folder = tmp_path_factory.mktemp("axe")
    from_npm(AXE, AXE_HASH, ("axe.min.js",), folder)
    return (folder / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def opened(browser: Any, base: str) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    found = Opened(context.new_page(), base)
    found.open()
    yield found
    context.close()


def test_nothing_is_requested_from_elsewhere(opened: Opened) -> None:
    opened.ask("params/gpt2")
    assert opened.requested
    assert all(url.startswith((opened.base, f"blob:{opened.base}")) for url in opened.requested)
    refused = "fetch('https://example.com').then(() => 'sent', () => 'refused')"
    assert opened.page.evaluate(refused) == "refused"
    opened.wrong.clear()  # the browser says that it refused


@pytest.mark.parametrize("words", ["params gpt2", "memory gpt2 --serve --context 512", "flops gpt2 --train --seq 256"])
def test_it_answers_as_the_command_line(opened: Opened, tfcalc: Program, words: str) -> None:
    before = opened.answers
    opened.page.fill("#line", f"tfcalc {words}")
    opened.page.press("#line", "Enter")
    opened.wait(before)
    assert opened.json() == tfcalc(*words.split(), "--json").stdout
    assert not opened.wrong


def test_a_wrong_config_is_mended_where_it_was_pasted(opened: Opened, tfcalc: Program, tmp_path: Path) -> None:
    """Its error is told beside the text, and what is behind stays; once it is right, the focus is on its answer."""
    opened.ask("params/gpt2")
    page, answer = opened.page, opened.page.inner_text("#shown")
    page.click("#paste")
    for text in ("", '{"model_type": '):
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        told = tfcalc("params", "config.json").stderr.strip()
        page.fill("#config-text", text)
        page.focus("#config button[value=ask]")
        page.keyboard.press("Enter")
        page.locator("#config-told", has_text=told).wait_for(timeout=ANSWERED)
        assert opened.has_focus("#config[open] #config-text")
        assert page.input_value("#config-text") == text
        assert (page.inner_text("#shown"), page.inner_text("#told")) == (answer, "")
        assert page.evaluate("location.hash") == "#params/gpt2"
    config = json.dumps({"model_type": "gpt2", "n_layer": 3, "n_embd": 96, "n_head": 4})
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    page.fill("#config-text", config)
    opened.press("#config button[value=ask]")
    assert page.is_hidden("#config")
    assert opened.has_focus("#shown .verdict")
    assert opened.json() == tfcalc("params", "config.json", "--json").stdout
    page.click("#paste")
    assert page.is_hidden("#config-told")
    page.keyboard.press("Escape")
    assert page.is_hidden("#config")
    assert opened.has_focus("#paste")


def test_a_wrong_config_that_is_dropped_is_there_to_mend(opened: Opened) -> None:
    opened.ask("params/gpt2")
    opened.page.evaluate("""() => {
      const dropped = new DragEvent("drop", { dataTransfer: new DataTransfer(), cancelable: true });
      dropped.dataTransfer.items.add(new File(["[]"], "config.json"));
      dispatchEvent(dropped);
    }""")
    opened.page.wait_for_selector("#config[open] #config-told:not(:empty)", timeout=ANSWERED)
    assert opened.page.input_value("#config-text") == "[]"
    opened.page.keyboard.press("Escape")


def test_the_focus_goes_to_the_answer_of_a_link_in_the_one_before(opened: Opened) -> None:
    opened.ask("fit/gpt2?gpu=rtx-4090&seq=128")
    opened.press("#shown td a.asks")
    assert "--batch" in opened.page.input_value("#line")
    assert opened.has_focus("#shown .verdict")
    opened.page.keyboard.press("Tab")
    assert opened.has_focus("#shown .verdict a")
    opened.press("#shown .further a.asks")
    assert opened.has_focus("#shown .verdict")
    opened.press("#tabs a:nth-child(2)")
    assert opened.has_focus("#tabs a[aria-current]")


def test_the_focus_is_not_lost_as_more_of_an_answer_comes(opened: Opened) -> None:
    opened.ask("params/gpt2")
    opened.page.evaluate("""() => {
      const note = new MutationObserver(() => {
        note.disconnect();
        document.querySelector("#shown td a.opens").focus();
      });
      note.observe(document.getElementById("shown"), { childList: true });
    }""")
    opened.ask("overview/gpt2?gpu=rtx-4090&seq=128")
    assert opened.has_focus("#shown td a.opens")


def test_a_refused_change_is_seen_and_taken_back(opened: Opened) -> None:
    """The answer below is out of use, and of the question that leads back to it."""
    opened.ask("memory/gpt2?train&seq=256")
    page, answer = opened.page, opened.page.inner_text("#shown")
    before = opened.answers
    page.fill("#c-seq_len", "1x")
    opened.wait(before)
    assert page.inner_text("#told").startswith("tfcalc: --seq '1x' is not a number")
    assert (page.inner_text("#shown"), page.evaluate("document.querySelector('#shown').inert")) == (answer, True)
    assert page.inner_text("#earlier-question") == "tfcalc memory gpt2 --train --seq 256"
    assert opened.has_focus("#c-seq_len[aria-invalid=true]")
    assert page.input_value("#c-seq_len") == "1x"
    tops = [page.locator(of).bounding_box()["y"] for of in ("#told", "#earlier", "#shown")]
    assert tops == sorted(tops)
    opened.press("#earlier-question")
    assert (page.input_value("#c-seq_len"), page.inner_text("#told")) == ("256", "")
    assert page.is_hidden("#earlier")
    assert page.locator("[aria-invalid]").count() == 0
    assert not page.evaluate("document.querySelector('#shown').inert")
    assert opened.has_focus("#shown .verdict")


def test_the_focus_goes_to_why_a_link_of_the_answer_is_refused(opened: Opened) -> None:
    opened.ask("memory/gpt2?train&seq=256")
    opened.page.evaluate("document.querySelector('#shown .further a').href = '#memory/gpt2?train&zero=3'")
    opened.press("#shown .further a")
    assert opened.has_focus("#told.bad")


@pytest.mark.parametrize(("width", "height"), [(360, 800), (768, 1024)])
def test_options_are_in_reach_beside_the_verdict(opened: Opened, width: int, height: int) -> None:
    """On a narrow screen they open over the lower half, and the verdict stays above while one is moved."""
    page = opened.page
    seen = """() => {
      const box = document.querySelector("#shown .verdict a").getBoundingClientRect();
      const at = (y) => document.elementFromPoint(box.left + 4, y)?.closest(".verdict");
      return Boolean(at(box.top + 4) && at(box.bottom - 4));
    }"""
    assert page.is_hidden("#options")
    page.set_viewport_size({"width": width, "height": height})
    try:
        opened.ask(f"fit/gpt2?gpu=rtx-4090&seq={width}")
        assert page.is_hidden("#question")
        assert page.evaluate(seen)
        page.focus("#options")
        page.keyboard.press("Enter")
        assert page.evaluate(seen)
        page.evaluate("scrollTo(0, document.querySelector('#shown table').getBoundingClientRect().top)")
        opened.press("#s-seq_len", "ArrowRight")
        assert page.evaluate("scrollY") > 0
        assert page.evaluate(seen)
        page.keyboard.press("Escape")
        assert page.is_hidden("#question")
        assert opened.has_focus("#options")
    finally:
        page.set_viewport_size({"width": 1440, "height": 900})
    assert page.is_visible("#question")


@pytest.mark.parametrize(
    ("link", "number"),
    [("flops/llama-3-8b?train", "flops.components.model.layers.flops"), ("params/deepseek-v3", "params.total_params")],
)
def test_a_derivation_is_whole_on_every_screen(opened: Opened, link: str, number: str) -> None:
    """With numbers of 15 digits and formulas beside, in the panel that a number opens."""
    opened.ask(link)
    opened.page.evaluate(f"document.querySelector('#shown a.opens[href*=\"{number}/\"]').dispatchEvent({CLICK})")
    opened.page.wait_for_selector("#opened .derived", timeout=ANSWERED)
    found = {}
    for width in (360, 768, 1100, 1440):
        opened.page.set_viewport_size({"width": width, "height": 900})
        found[width] = opened.page.evaluate("""() => {
          const one = document.querySelector("#opened .scroll");
          const line = document.createRange();
          const lines = (cell) => (line.selectNodeContents(cell), [...line.getClientRects()]);
          const values = [...one.querySelectorAll("td.n:not(:empty)")].map(lines);
          const right = one.getBoundingClientRect().right;
          const whole = values.every((each) => each.every((box) => box.height < 30 && box.right <= right));
          return [values.length > 5, whole, one.scrollWidth <= one.clientWidth];
        }""")
    opened.page.keyboard.press("Escape")
    assert [one for one in found.items() if not all(one[1])] == []


def test_a_slider_a_link_and_the_way_back(opened: Opened) -> None:
    opened.ask("memory/gpt2?train&seq=256")
    before = opened.answers
    opened.page.focus("#s-seq_len")
    opened.page.keyboard.press("ArrowRight")
    opened.wait(before)
    assert opened.page.input_value("#line") == "tfcalc memory gpt2 --train --seq 512"
    assert opened.page.evaluate("location.hash") == "#memory/gpt2?train&seq=512"
    before = opened.answers
    opened.page.go_back()
    opened.wait(before)
    assert opened.page.input_value("#line") == "tfcalc memory gpt2 --train --seq 256"


def test_the_command_line_is_that_of_the_answer_after_the_way_back(opened: Opened) -> None:
    opened.ask("params/gpt2")
    opened.page.focus("#line")
    opened.page.fill("#line", "flops gpt2")
    before = opened.answers
    opened.page.keyboard.press("Enter")
    opened.wait(before)
    opened.page.go_back()
    opened.until("location.hash === '#params/gpt2'")
    opened.until("document.getElementById('line').value === 'tfcalc params gpt2'")


def test_what_was_copied_last_is_what_is_copied(opened: Opened) -> None:
    """JSON takes longer to write than a link does, which is clicked after it."""
    opened.ask("params/gpt2")
    opened.page.evaluate("""() => {
      delete document.documentElement.dataset.copied;
      for (const kind of ["json", "link"]) document.querySelector(`[data-copy=${kind}]`).click();
    }""")
    opened.until("document.documentElement.dataset.copied === location.href")
    assert '"total_params": 124439808' in opened.json()  # which comes after it in the worker
    opened.page.evaluate("for (const kind of ['json', 'link']) document.querySelector(`[data-copy=${kind}]`).click()")
    opened.page.wait_for_timeout(1000)
    assert opened.page.evaluate("document.documentElement.dataset.copied === location.href")
    assert opened.page.evaluate("document.querySelector('[data-copy=link]').nextElementSibling.id") == "copied"


def test_a_tab_that_is_chosen_is_marked_before_its_answer_is_there(opened: Opened) -> None:
    opened.ask("params/gpt2")
    before = opened.answers
    marked = opened.page.evaluate("""() => {
      const tab = [...document.querySelectorAll("#tabs a")].find((each) => each.textContent === "FLOPs");
      tab.click();
      return [...document.querySelectorAll("#tabs [aria-current]")].map((each) => each.textContent);
    }""")
    opened.wait(before)
    assert marked == ["FLOPs"]


def test_a_change_goes_along_to_another_question(opened: Opened) -> None:
    """A length that is typed, and another tab clicked at once: it was lost before."""
    opened.ask("memory/gpt2?train&gpu=rtx-4090&seq=256")
    before = opened.answers
    opened.page.evaluate("""() => {
      const length = document.getElementById("c-seq_len");
      length.value = "512";
      length.dispatchEvent(new Event("input", { bubbles: true }));
      [...document.querySelectorAll("#tabs a")].find((tab) => tab.textContent === "FLOPs").click();
    }""")
    opened.wait(before)
    opened.until("document.getElementById('line').value.startsWith('tfcalc flops')")
    assert "--seq 512" in opened.page.input_value("#line")


def test_the_way_back_from_a_derivation_leads_to_its_answer(opened: Opened) -> None:
    """Two numbers are opened, and closed one after the other; the head of the panel is in view."""
    opened.ask("memory/gpt2?train&seq=256")
    answer = opened.page.input_value("#line")
    opened.page.click("#shown a.opens >> nth=0")
    opened.page.wait_for_selector("#origin:not([hidden]) #opened a.opens")
    opened.page.click("#opened a.opens >> nth=0")
    opened.page.wait_for_selector("#trail a >> nth=1")
    assert opened.page.evaluate("document.getElementById('origin').scrollTop") == 0
    opened.page.go_back()
    opened.page.wait_for_selector("#trail a >> nth=1", state="detached")
    assert opened.page.is_visible("#origin")
    opened.page.go_back()
    opened.page.wait_for_selector("#origin", state="hidden")
    assert opened.page.input_value("#line") == answer
    assert opened.page.evaluate("location.hash") == "#memory/gpt2?train&seq=256"


def test_numbers_are_there_before_the_verdict(opened: Opened) -> None:
    """What a slider changes is there at once, then the verdict, then the rest; nothing that was shown changes."""
    # no other test asks it, so that the answer is not there yet; the allocator decides: 1.75 times 12 GiB is too much
    opened.ask("memory/gpt2-large?train&gpu=rtx-4090&seq=256")
    opened.page.evaluate("""() => {
      globalThis.titles = [];
      const note = () => titles.push(document.querySelector('#shown .verdict').textContent);
      new MutationObserver(note).observe(document.getElementById('shown'), { childList: true });
    }""")
    before = opened.answers
    opened.page.focus("#s-seq_len")
    opened.page.keyboard.press("ArrowRight")
    opened.wait(before)
    first, second, whole = opened.page.evaluate("titles")
    assert first.startswith("… needs ")
    assert whole.startswith("FITS: needs ")
    assert second == whole
    facts = first.removeprefix("… ").partition(" (")[0]
    assert whole.removeprefix("FITS: ").partition(" (")[0] == facts
    assert opened.page.evaluate("Number(document.documentElement.dataset.seen)") > 0


def test_changes_that_follow_one_another_are_all_made(opened: Opened) -> None:
    """Each is made before the answer to the one before is there: none is lost, in the line or in its control."""
    opened.ask("memory/gpt2?train&gpu=rtx-4090&seq=256")
    opened.page.evaluate("""async () => {
      const set = (id, value) => {
        const one = document.getElementById(id);
        if (one.type === "checkbox") one.checked = value; else one.value = value;
        one.dispatchEvent(new Event("input", { bubbles: true }));
      };
      const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
      set("c-seq_len", "512"); await later(20);
      set("c-batch_size", "2"); await later(150);
      set("o-lora", true); await later(80);
      set("c-grad_accum", "4");
    }""")
    words = "tfcalc memory gpt2 --train --gpu rtx-4090 --seq 512 --batch 2 --lora --grad-accum 4"
    for _ in range(100):
        if opened.page.input_value("#line") == words:
            break
        opened.page.wait_for_timeout(50)
    assert opened.page.input_value("#line") == words
    assert opened.page.is_checked("#o-lora")
    assert opened.page.input_value("#c-batch_size") == "2"


def test_a_refusal_as_an_answer_is_drawn_leaves_the_page_in_use(opened: Opened) -> None:
    """Zero stages on one GPU are refused where the sheet is made: a line is told, and the next change is answered."""
    opened.ask("memory/gpt2?train&zero=3")
    told = opened.page.inner_text("#told")
    assert told.startswith("tfcalc: --zero 3 ")
    assert "Traceback" not in told
    before = opened.answers
    opened.page.fill("#line", "memory gpt2 --train")
    opened.page.press("#line", "Enter")
    opened.wait(before)
    assert opened.page.inner_text("#told") == ""


def test_controls_show_what_the_answer_was_made_with(opened: Opened) -> None:
    """Options of a select come anew with each answer: it must not show the last of them."""
    opened.ask("fit/gpt2?gpu=rtx-4090&lora&seq=128")
    before = opened.answers
    opened.page.fill("#c-gpu", "t4")
    opened.wait(before)
    for name in ("recompute", "precision", "optimizer"):
        shown = opened.page.evaluate(f"document.querySelector('#c-{name}').selectedOptions[0].textContent")
        assert shown.startswith("as usual"), (name, shown)
    opened.page.go_back()
    opened.until("document.querySelector('#c-gpu').value === 'rtx-4090'")


def test_a_switch_is_turned_by_the_keyboard_and_stays_in_reach(opened: Opened) -> None:
    """The controls are drawn anew, as a rank appears beside it."""
    opened.ask("memory/gpt2?train&seq=256")
    before = opened.answers
    opened.page.focus("#o-lora")
    opened.page.keyboard.press("Space")
    opened.wait(before)
    assert opened.page.input_value("#line") == "tfcalc memory gpt2 --train --seq 256 --lora"
    assert opened.page.input_value("#c-lora") == "16"
    assert opened.page.evaluate("document.activeElement.id") == "o-lora"


def test_what_is_pressed_stays_in_its_place(opened: Opened) -> None:
    """The help of the control before is above it, and goes as that one is left."""
    opened.ask("memory/gpt2?train&seq=128")
    opened.page.focus("#c-recompute")
    at = "document.querySelector('#c-optimizer').getBoundingClientRect().top"
    before = opened.page.evaluate(at)
    opened.page.focus("#c-optimizer")
    assert opened.page.evaluate(at) == before
    opened.page.wait_for_timeout(700)
    assert opened.page.evaluate(at) < before


@pytest.mark.parametrize("width", [360, 1440])
def test_a_picture_is_whole_on_every_screen(opened: Opened, width: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": 900})
    opened.ask(f"memory/gpt2?train&seq={width}")
    sizes = "[...document.querySelectorAll('#shown figure svg')].map((one) => one.getBoundingClientRect().width)"
    drawn = [one for one in opened.page.evaluate(sizes) if one]
    opened.page.set_viewport_size({"width": 1440, "height": 900})
    assert len(drawn) == 1
    assert 240 < drawn[0] < width


def test_a_number_is_opened_by_the_keyboard_and_closed(opened: Opened) -> None:
    opened.ask("params/gpt2")
    opened.page.focus("#shown td a.opens")
    opened.page.keyboard.press("Enter")
    opened.page.wait_for_selector("#opened .verdict", timeout=ANSWERED)
    assert "124,439,808" in opened.page.inner_text("#opened .verdict")  # GPT-2's parameters, by transformers
    opened.page.keyboard.press("Escape")
    assert opened.page.is_hidden("#origin")
    assert opened.has_focus("#shown td a.opens")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everyone_can_use_it(browser: Any, base: str, axe: str, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=scheme)
    found = Opened(context.new_page(), base)
    found.open("memory/gpt2?train&seq=256")
    found.page.click("#shown .verdict a")
    found.page.wait_for_selector("#opened .verdict", timeout=ANSWERED)
    found.page.evaluate(axe)
    faults = found.page.evaluate("axe.run().then((done) => done.violations)")
    told = [(one["id"], one["nodes"][0]["html"]) for one in faults if one["impact"] in ("serious", "critical")]
    PICTURES.mkdir(parents=True, exist_ok=True)
    for width in (360, 768, 1440):
        found.page.set_viewport_size({"width": width, "height": 900})
        found.page.screenshot(path=PICTURES / f"{scheme}-{width}-opened.png")
    found.page.keyboard.press("Escape")
    for width in (360, 768, 1440):
        found.page.set_viewport_size({"width": width, "height": 900})
        found.page.screenshot(path=PICTURES / f"{scheme}-{width}.png")
        assert found.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    before = found.answers
    found.page.fill("#c-seq_len", "1x")
    found.wait(before)
    for width in (1440, 360):
        found.page.set_viewport_size({"width": width, "height": 900})
        if width == 360:
            found.page.click("#options")
        faults = found.page.evaluate("axe.run().then((done) => done.violations)")
        told += [(one["id"], one["nodes"][0]["html"]) for one in faults if one["impact"] in ("serious", "critical")]
        found.page.screenshot(path=PICTURES / f"{scheme}-{width}-refused.png")
    context.close()
    assert told == []


def test_it_works_offline_after_the_first_load(opened: Opened) -> None:
    context = opened.page.context
    opened.page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    context.set_offline(True)
    page = Opened(context.new_page(), opened.base)
    try:
        page.open("params/gpt2")
        assert "124,439,808" in page.page.inner_text("#shown")
    finally:
        context.set_offline(False)


def test_a_browser_without_webassembly_is_told_so(browser: Any, base: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script("delete globalThis.WebAssembly")
    page.goto(base)
    for _ in range(100):
        if page.inner_text("#told"):
            break
        page.wait_for_timeout(50)
    assert "WebAssembly" in page.inner_text("#told")
    context.close()


@pytest.mark.parametrize("preset", PRESETS)
def test_everyone_can_read_a_report(browser: Any, axe: str, tfcalc: Program, tmp_path: Path, preset: str) -> None:
    """From a disk, on a wide page and on a narrow dark one; pictures of Llama-3-8B's are left to be looked at."""
    assert tfcalc("report", preset, "-o", str(tmp_path / "r.html")).stderr == ""
    for scheme, width in (("light", 1440), ("dark", 360)):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        requested: list[str] = []
        page.on("request", lambda one, into=requested: into.append(one.url))
        page.goto(f"file://{tmp_path / 'r.html'}")
        page.evaluate(axe)
        faults = page.evaluate("axe.run().then((done) => done.violations)")
        assert [(one["id"], one["nodes"][0]["html"]) for one in faults] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert len(requested) == 1
        if preset == PRESETS[0]:
            PICTURES.mkdir(parents=True, exist_ok=True)
            for size in (360, 768, 1440):
                page.set_viewport_size({"width": size, "height": 900})
                page.screenshot(path=PICTURES / f"report-{scheme}-{size}.png", full_page=True)
        context.close()


@pytest.fixture(scope="module")
def documents() -> Iterator[str]:
    if not (SITE / "index.html").exists():
        pytest.skip("the documentation is not built: make site")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(SITE))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", READ)
def test_everyone_can_read_the_documents(browser: Any, axe: str, documents: str, name: str) -> None:
    """Wide and light, narrow and dark; nothing comes from another host."""
    for scheme, width in (("light", 1440), ("dark", 360)):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        requested: list[str] = []
        page.on("request", lambda one, into=requested: into.append(one.url))
        page.goto(f"{documents}{name}.html", wait_until="networkidle")
        page.wait_for_function(DRAWN, timeout=ANSWERED)
        page.evaluate(axe)
        faults = page.evaluate("axe.run().then((done) => done.violations)")
        told = [(one["id"], one["nodes"][0]["html"]) for one in faults if one["impact"] in ("serious", "critical")]
        assert told == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert [url for url in requested if not url.startswith((documents, "data:", "blob:"))] == []
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / f"site-{name.replace('/', '-')}-{scheme}-{width}.png")
        context.close()


def test_a_report_is_read_by_the_keyboard(browser: Any, tfcalc: Program, tmp_path: Path) -> None:
    """A number that is chosen by the keyboard opens where it comes from, which is closed before."""
    assert tfcalc("report", "gpt2", "-o", str(tmp_path / "r.html")).stderr == ""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(f"file://{tmp_path / 'r.html'}")
    origin = page.locator("[id='params.total_params']")
    assert not origin.is_visible()
    page.locator("a[href='#params.total_params']").first.focus()
    page.keyboard.press("Enter")
    origin.wait_for(state="visible")
    assert "124,439,808" in origin.inner_text()  # GPT-2's parameters, by transformers
    context.close()


def test_the_page_is_used_by_the_keyboard_alone(browser: Any, base: str) -> None:
    """From the top by Tab: each stop is seen, has a name, and the next tab of answers, a number and its way back."""
    context = browser.new_context(viewport={"width": 360, "height": 800})
    found = Opened(context.new_page(), base)
    found.open("params/gpt2")
    page = found.page
    page.focus(".skip")
    said = """() => { const e = document.activeElement, box = e.getBoundingClientRect();
      const look = getComputedStyle(e);
      return [e.tagName, (e.getAttribute('aria-label') || e.innerText || e.title || e.placeholder ||
              (e.labels && e.labels[0] && e.labels[0].innerText) || e.textContent || '').trim(),
              look.outlineStyle !== 'none' || look.boxShadow !== 'none' || e.tagName === 'svg'
                || Boolean(e.closest('svg')), box.width > 0] }"""
    stops = [page.evaluate(said)]
    for _ in range(80):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(said))
        if stops[-1][0] == "BODY":
            break
    names = [name for _, name, _, _ in stops]
    assert "Skip to the answer" in names[0]
    assert all(name for tag, name, _, _ in stops if tag != "BODY"), stops
    assert all(seen and wide for tag, _, seen, wide in stops if tag != "BODY"), stops
    assert {"FLOPs", "Paste a config", "Options", "124,439,808"} <= set(names)
    before = found.answers
    page.locator("#tabs a", has_text="FLOPs").focus()
    page.keyboard.press("Enter")
    found.wait(before)
    assert page.input_value("#line").startswith("tfcalc flops gpt2")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()
