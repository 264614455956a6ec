"""The pictures of the course: fresh, small, told in words, and complete in themselves."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.pictures.__main__ import main
from tools.pictures.diagrams import SEES
from tools.pictures.drawn import FOLDER, PICTURES
from tools.pictures.svg import INKS, PAPER, WIDTH

TOP = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
FILES = {name: (FOLDER / f"{name}.svg").read_text(encoding="utf-8") for name in PICTURES}
SHOWN = re.compile(r"!\[([^\]]*)\]\(docs/pictures/([\w-]+)\.svg\)")


def test_each_is_what_tfcalc_says_now() -> None:
    assert len(PICTURES) >= 8
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(PICTURES)
    assert {name: draw().svg() for name, draw in PICTURES.items()} == FILES, "run make pictures"


def test_a_stale_one_is_named_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.pictures.__main__.PICTURES", {"patterns": PICTURES["patterns"]})
    monkeypatch.setattr("tools.pictures.__main__.FOLDER", tmp_path / "new")
    assert main([]) == 1
    assert main(["--write"]) == 0
    assert main([]) == 0
    (tmp_path / "new" / "patterns.svg").write_text("another", encoding="utf-8")
    assert main([]) == 1


def letters_wide(words: str, size: float, *, mono: bool) -> float:
    """Width of a line: 0.6 of the size for each letter of a monospaced font, 0.56 of sans-serif as a rule."""
    return len(words) * size * (0.6 if mono else 0.56)


@pytest.mark.parametrize("name", PICTURES)
def test_each_is_readable_and_fetches_nothing(name: str) -> None:
    text = FILES[name]
    assert len(text.encode()) < 60_000
    assert not re.search(r"href|url\(|@import|<image|<script|<foreignObject|https?://(?!www\.w3\.org/2000/svg\")", text)
    assert set(re.findall(r"font-family:([^;}]+)", text)) <= {"sans-serif", "monospace"}
    assert "@media(prefers-color-scheme:dark)" in text
    root = ElementTree.fromstring(text)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    assert (left, top, width) == (0, 0, WIDTH)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] == "title desc"
    told = [root.findtext(f"{SVG}{tag}") or "" for tag in ("title", "desc")]
    assert len(told[0]) > 20
    assert re.search(r"\d", told[1])
    for line in root.iter(f"{SVG}text"):
        size, x, y = (float(line.attrib[key]) for key in ("font-size", "x", "y"))
        wide = letters_wide(line.text or "", size, mono="mono" in line.attrib["class"])
        start = x - {"start": 0, "middle": 0.5, "end": 1}[line.attrib.get("text-anchor", "start")] * wide
        assert size >= 10, line.text  # 360 units are 328 pixels of a phone
        assert start >= 0, line.text
        assert start + wide <= WIDTH, line.text
        assert size <= y <= height - 2, line.text


def luminance(colour: str) -> float:
    """By WCAG 2.2."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("scheme", "paper"), list(enumerate(PAPER)), ids=["light", "dark"])
def test_text_of_every_colour_has_contrast(scheme: int, paper: str) -> None:
    for name, ink in INKS.items():
        low, high = sorted((luminance(ink[scheme]), luminance(paper)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, name


def test_each_is_in_the_course_with_words_for_those_who_do_not_see_it() -> None:
    shown = {name: alt for alt, name in SHOWN.findall((TOP / "formulas.md").read_text(encoding="utf-8"))}
    assert set(shown) == set(PICTURES)
    assert all(len(alt) > 30 for alt in shown.values())
    in_readme = SHOWN.findall((TOP / "README.md").read_text(encoding="utf-8"))
    assert 1 <= len(in_readme) <= 2
    assert all(len(alt) > 30 and name in PICTURES for alt, name in in_readme)


def numbers(name: str) -> set[str]:
    """What a picture says, text by text."""
    return {line.text or "" for line in ElementTree.fromstring(FILES[name]).iter(f"{SVG}text")}


def test_their_numbers_by_hand() -> None:
    """Of Korthikanti, Rajbhandari and Ainslie et al.; and counted by hand."""
    assert {"4h² + 4h", "8h² + 5h", "2h", "12h² + 13h", "16h² + 19h"} <= numbers("stacks")
    assert f"n(28h² + 32h) + 4h = {6 * (28 * 512**2 + 32 * 512) + 4 * 512:,} parameters" in numbers("stacks")
    assert f"6lbh² = {6 * 320 * 512**2 / 1e6:,.0f}M" in numbers("attention")
    assert f"2l²bh = {2 * 320**2 * 512 / 1e6:,.0f}M" in numbers("attention")
    assert f"2·lb·K·N = {2 * 320 * 512 * 768 / 1e6:,.0f}M" in numbers("products")
    assert {"l = 2h", "l = 6h", "l = 2h/3", "l = 14h/3"} <= numbers("shares")
    psi = 8_030_261_248  # ZeRO, table 1: 16Ψ; 4Ψ + 12Ψ/N; 2Ψ + 14Ψ/N; 16Ψ/N
    of_stages = [16 * psi, 4 * psi + 12 * psi / 8, 2 * psi + 14 * psi / 8, 16 * psi / 8]
    assert {f"{amount / 2**30:.3g} GiB" for amount in of_stages} <= numbers("training-memory") | {"28 GiB", "15 GiB"}
    assert {"28.0 GiB", "15.0 GiB"} <= numbers("training-memory")
    assert {f"{2 * 32 * 128:,}", f"{2 * 8 * 128:,}", f"{2 * 128}", f"{512 + 64}"} <= numbers("caches")
    assert {"295", "989 TFLOP/s", "3.35 TB/s"} <= numbers("roofline")  # 989.4 / 3.35
    for kind, sees in SEES.items():
        assert f"{sum(sees(i, j, 4) for i in range(16) for j in range(16))}" in numbers("patterns"), kind
