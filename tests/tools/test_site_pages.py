"""The documents at the top of the repository as pages of the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
