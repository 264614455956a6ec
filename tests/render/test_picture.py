"""Pictures of a page: what is drawn, and what is said of it."""

from __future__ import annotations

import re

from tfcalc.render.picture import drawn
from tfcalc.report.chart import Divided, Portion

LINK = re.compile(r'<a class="opens" href="[^"]*" aria-label="([^"]*)">.*?</a>')
TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")


def divided() -> Divided:
    """A whole with a part whose name is wider than it."""
    parts = Portion("model", "", 95, "params.model", ()), Portion("lm_head", "head", 5, "params.lm_head", ())
    return Divided("parameters", Portion("whole", "", 100, "params.total", parts), "params")


def test_what_a_link_shows_is_within_the_name_that_it_is_called_by() -> None:
    """WCAG 2.5.3: whoever says what is written follows the link. A name that is cut off is not said."""
    picture = drawn(divided(), "p").svg
    links = {match[1]: TEXT.findall(match[0]) for match in LINK.finditer(picture)}
    assert [name.partition(":")[0] for name in links] == ["whole", "model", "lm_head"]
    assert all(text in name for name, texts in links.items() for text in texts)
    assert "…" not in picture
    assert "lm_…" in drawn(divided(), "p", alone=True).svg
