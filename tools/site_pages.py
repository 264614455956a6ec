"""What mkdocs adds to docs/ (its hook): documents at the top of the repository, and a page for each command.

The latter are made by :mod:`tools.site_commands`. Links in the former and to them, and the pictures in them, are
written for the repository, where they work as they stand; in the site they lead from page to page.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcalc.cli.commands import COMMANDS
from tools import site_commands

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

TOP = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "formulas.md": "formulas.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Documents at the top of the repository, and the page that each is."""

LINK = re.compile(r"\]\((?:docs/|\.\./)?([\w./-]+\.(?:md|svg))(#[\w-]*)?\)")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add them to the files of docs/."""
    from mkdocs.structure.files import File

    for document, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(TOP / document)))
    for name in COMMANDS:
        files.append(File.generated(config, site_commands.place(name), content=site_commands.page(name)))
    return files


REFERENCE = "Reference"


def on_config(config: Any, **_: Any) -> Any:
    """Put the pages of the commands into the navigation, by the sections of the help."""
    (reference,) = (entry[REFERENCE] for entry in config.nav if REFERENCE in entry)
    reference.insert(1, {"Commands": [{section: pages} for section, pages in site_commands.nav().items()]})
    return config


NAMELESS = '<div class="md-search" data-md-component="search" role="dialog"'
"""The theme's dialog, which says nothing to those who hear the page."""


def on_post_page(output: str, **_: Any) -> str:
    """Give the dialog of the search its name."""
    return output.replace(NAMELESS, f'{NAMELESS} aria-label="Search"')


CALCULATOR = '<p><a class="md-button md-button--primary" href="calculator/index.html">Open the calculator</a></p>'
"""Link to the page that runs tfcalc, which is no document: ``make site`` puts it beside them (tools/page)."""
HAS_CALCULATOR = "# In a browser\n"
"""How the document begins that the link stands in."""


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Lead links between documents to their pages, and to the pictures; link to the calculator from its document.

    >>> on_page_markdown("[a](docs/flops.md), [b](../formulas.md#symbols), [c](../README.md)")
    '[a](flops.md), [b](formulas.md#symbols), [c](index.md)'
    >>> on_page_markdown("![two rectangles](docs/pictures/products.svg)")
    '![two rectangles](pictures/products.svg)'
    """
    if page is not None and page.file.src_uri.startswith(f"{site_commands.FOLDER}/"):
        return markdown  # they were written for the site
    if markdown.startswith(HAS_CALCULATOR):
        markdown = markdown.replace(HAS_CALCULATOR, f"{HAS_CALCULATOR}\n{CALCULATOR}\n", 1)
    return LINK.sub(lambda link: f"]({PAGES.get(link[1], link[1])}{link[2] or ''})", markdown)
