"""Whether a built site holds together: ``python -m tools.links SITE``.

Every link inside the site leads to a page and to an anchor that are there, and no page loads anything from elsewhere:
no script, style, font or picture. Exit code 1, and a line for each that does not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Tags that a browser loads something for, and the attribute that says what."""

LOADED_BY_STYLE = re.compile(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)")


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag says."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given and given.get("rel") != "canonical":
            self.loads.append(given[LOADED[tag]])


def problems(site: Path) -> Iterator[str]:
    """A line for each link that leads nowhere, and for each thing that is loaded from elsewhere."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site}: there is no page"
    for path, page in pages.items():
        name = path.relative_to(site)
        for link in page.links + page.loads:
            if why := _broken(link, path, site, pages):
                yield f"{name}: {link}: {why}"
        for what in page.loads:
            if urlsplit(what).netloc:
                yield f"{name}: {what}: loaded from elsewhere"
    for path in sorted(site.rglob("*.css")):
        for what in LOADED_BY_STYLE.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: {what}: loaded from elsewhere"


def _broken(link: str, path: Path, site: Path, pages: dict[Path, Page]) -> str:
    """Why a link leads nowhere, or nothing."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    within = site if parts.path.startswith("/") else path.parent
    target = (within / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return "there is no such file"
    if target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return "there is no such anchor"
    return ""


def main(arguments: list[str]) -> int:
    """0 where all links lead somewhere."""
    found = list(problems(Path(arguments[0]).resolve()))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
