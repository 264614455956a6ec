"""The documents at the top of the repository as pages of the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.links import problems
from tools.page.__main__ import main as build
from tools.site_pages import on_page_markdown

TOP = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")
DOCUMENTS = [*sorted(TOP.glob("*.md")), *sorted((TOP / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(TOP)))
def test_every_link_works_in_the_repository(path: Path) -> None:
    """The site's own links are checked when it is built: ``make site``."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in LINK.findall(text):
        if "://" not in link and not link.startswith("#"):
            assert (path.parent / link.partition("#")[0]).is_file(), link


@pytest.mark.parametrize(
    ("in_the_repository", "in_the_site"),
    [
        ("[a](docs/flops.md)", "[a](flops.md)"),
        ("[a](../formulas.md#symbols)", "[a](formulas.md#symbols)"),
        ("[a](../README.md)", "[a](index.md)"),
        ("[a](CONTRIBUTING.md#truth)", "[a](contributing.md#truth)"),
        ("[a](cli.md) [b](https://example.org/docs/x.md)", "[a](cli.md) [b](https://example.org/docs/x.md)"),
    ],
)
def test_links_between_documents_lead_to_their_pages(in_the_repository: str, in_the_site: str) -> None:
    assert on_page_markdown(in_the_repository) == in_the_site


def test_the_site_links_to_the_calculator() -> None:
    markdown = on_page_markdown((TOP / "docs" / "page.md").read_text(encoding="utf-8"))
    assert 'href="calculator/index.html"' in markdown
    assert "calculator/index.html" not in on_page_markdown((TOP / "docs" / "cli.md").read_text(encoding="utf-8"))


def test_where_the_calculator_cannot_be_built_a_page_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without npm
    site = tmp_path / "site" / "calculator"
    assert build([str(site)]) == 1
    assert not site.exists()
    assert build([str(site), "--optional"]) == 0
    assert capsys.readouterr().err.count("npm is not installed") == 2
    assert "npm is not installed" in (site / "index.html").read_text(encoding="utf-8")
    (tmp_path / "site" / "page.html").write_text("<p>", encoding="utf-8")
    assert not list(problems(tmp_path / "site"))
