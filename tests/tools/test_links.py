"""The check of the built site: it finds what leads nowhere, and what is loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.links import main, problems

GOOD = '<h1 id="top">x</h1><a href="b.html#there">b</a><a href="#top">up</a><a href="https://example.org">out</a>'


def site(folder: Path, first: str, style: str = "") -> Path:
    """Two pages and a style."""
    (folder / "a.html").write_text(first, encoding="utf-8")
    (folder / "b.html").write_text('<p id="there"><a href=".">home</a></p>', encoding="utf-8")
    (folder / "index.html").write_text('<img src="a%20b.png"><link rel="stylesheet" href="s.css">', encoding="utf-8")
    (folder / "a b.png").touch()
    (folder / "s.css").write_text(style, encoding="utf-8")
    return folder


def test_a_site_that_holds_together_has_no_problem(tmp_path: Path) -> None:
    assert list(problems(site(tmp_path, GOOD))) == []
    assert main([str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ('<a href="c.html">', "a.html: c.html: there is no such file"),
        ('<a href="b.html#nowhere">', "a.html: b.html#nowhere: there is no such anchor"),
        ('<a href="#nowhere">', "a.html: #nowhere: there is no such anchor"),
        ('<img src="c.png">', "a.html: c.png: there is no such file"),
        ('<script src="https://example.org/x.js"></script>', "a.html: https://example.org/x.js: loaded from elsewhere"),
        ('<link rel="stylesheet" href="//example.org/x">', "a.html: //example.org/x: loaded from elsewhere"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str, why: str) -> None:
    assert list(problems(site(tmp_path, GOOD + wrong))) == [why]
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"{why}\n"


def test_a_style_that_fetches_a_font_is_named(tmp_path: Path) -> None:
    style = "@font-face { src: url('https://example.org/f.woff') }"
    assert list(problems(site(tmp_path, GOOD, style))) == ["s.css: https://example.org/f.woff: loaded from elsewhere"]


def test_an_empty_site_is_no_site(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 1
