"""Pictures of a page: what is drawn, and what is said of it."""

from __future__ import annotations

import re

import pytest

from tfcalc.render.picture import NARROW, drawn, figure
from tfcalc.report.chart import Bars, Chart, Curve, Divided, Mark, Picture, Portion

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


NAMES = ("states", "gradients", "activations", "temporary", "gathered", "one more")
CROSSING = "a model with a long name: attention equals ffn at 16,384"


def bars() -> Bars:
    """Bars whose names are wider than a narrow picture has room beside them."""
    rows = ("tensor parallel 8, pipeline of 4, batch of 16", (2.0**34,) * 6), ("b", (2.0**30, 0, 0, 0, 0, 0))
    return Bars("memory", NAMES, rows)


def curves() -> Chart:
    """Two curves, with a crossing whose name has room on neither side."""
    each = tuple(Curve(f"{name} with a long name", ((1, 1.0), (1024, 2.0**place))) for place, name in enumerate("ab"))
    return Chart("growth", "seq_len", "flops", "flops", True, each, (Mark(32, 1.5, CROSSING),))


@pytest.mark.parametrize("picture", [divided(), bars(), curves()], ids=lambda one: type(one).__name__)
def test_a_narrow_picture_is_whole(picture: Picture) -> None:
    """A name takes about 6.4 of a picture's units for a letter; of what is drawn nothing is beyond its edges."""
    made = drawn(picture, "p", wide=NARROW).svg
    assert f'viewBox="0 0 {NARROW} ' in made
    for x, width in re.findall(r'<rect[^>]* x="([-.0-9]+)"[^>]* width="([.0-9]+)"', made):
        assert 0 <= float(x) <= float(x) + float(width) <= NARROW + 0.1
    texts = re.findall(r'<text class="([^"]*)" x="([-.0-9]+)"[^>]*>([^<]*)<', made)
    assert texts
    for kind, x, words in texts:
        width = 6.4 * len(words)
        begin = float(x) - (width if "e" in kind.split() else width / 2 if "m" in kind.split() else 0)
        assert -10 <= begin < begin + width <= NARROW + 10, words


def test_both_drawings_of_a_picture_have_names_of_their_own() -> None:
    made = figure(divided(), "p")
    ids = re.findall(r' id="([^"]*)"', made)
    assert len(ids) == len(set(ids)) == 4
    assert made.count("<svg") == 2
