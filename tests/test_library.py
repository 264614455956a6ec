"""What ``import tfcalc`` offers."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tfcalc
from tfcalc.core.measure import params


def test_everything_that_is_promised_is_there() -> None:
    for name in tfcalc.__all__:
        assert getattr(tfcalc, name)
    assert set(tfcalc.__all__) <= set(dir(tfcalc))
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = tfcalc.nothing_like_it


def test_a_report_is_a_tree_a_dict_json_text_and_html() -> None:
    report = tfcalc.params(tfcalc.Transformer())
    assert next(report.walk()).path == "core"
    assert json.loads(report.to_json()) == json.loads(json.dumps(report.to_dict()))
    assert "44,140,544" in str(report)
    html = report._repr_html_()
    assert html.startswith("<table>")
    assert html.count("<tr>") == html.count("</tr>") == len(list(report.walk())) + 1


def test_a_formula_shows_itself_in_a_notebook() -> None:
    assert tfcalc.formula("mha")._repr_latex_() == "$4 h^{2} + 4 h$"


def test_the_tree_can_be_walked() -> None:
    tree = tfcalc.Transformer().tree(tfcalc.Workload())
    assert isinstance(tree, tfcalc.Component)
    layer = next(node for node in tree.walk() if node.path == "core.decoder.layer")
    assert layer.component.each(params) == 4_204_032  # torch.nn.TransformerDecoderLayer(512, 8)
    assert layer.total(params) == 6 * 4_204_032


def test_errors_are_value_errors_with_a_remedy() -> None:
    with pytest.raises(ValueError, match="d_model 513 is not divisible by heads 8") as caught:
        tfcalc.params(tfcalc.Transformer(d_model=513))
    assert isinstance(caught.value, tfcalc.InvalidModel)
    assert caught.value.hint.startswith("nearest: 512, 520")


@pytest.mark.parametrize("size", [0, -1, 2.5, "512", None, float("nan"), True, 10**13, 10**400])
def test_a_size_that_is_none_is_refused(size: object) -> None:
    with pytest.raises(tfcalc.InvalidModel, match="d_model"):
        tfcalc.params(tfcalc.Transformer(d_model=size))  # type: ignore[arg-type]


def test_a_sweep_is_the_same_as_one_by_one() -> None:
    rng = np.random.default_rng(2017)
    h, n, l = 8 * rng.integers(1, 200, 50), rng.integers(1, 60, 50), rng.integers(1, 5000, 50)
    model = tfcalc.Transformer(vocab_size=1000)
    for exact, dtype in ((True, object), (False, np.float64)):
        swept = tfcalc.sweep(model, "flops", d_model=h, n_layers=n, seq_len=l, exact=exact)
        assert swept.dtype == dtype
        for point in range(50):
            one = tfcalc.Transformer(vocab_size=1000, d_model=int(h[point]), n_layers=int(n[point]))
            assert swept[point] == tfcalc.flops(one, tfcalc.Workload(seq_len=int(l[point]))).answer


def test_a_sweep_broadcasts_and_follows() -> None:
    grid = tfcalc.sweep(tfcalc.Transformer(), d_model=np.array([[64], [512]]), n_layers=[1, 6])
    assert grid.shape == (2, 2)
    assert grid[1, 1] == 44_140_544
    apart = tfcalc.sweep(tfcalc.Transformer(), d_model=512, d_ff=[2048, 1024])
    assert apart[0] == 44_140_544
    assert apart[0] - apart[1] == 12 * (2 * 512 * 1024 + 1024)


def test_a_sweep_of_something_unknown_is_refused() -> None:
    with pytest.raises(tfcalc.UsageError, match=r"d_modl.*did you mean d_model"):
        tfcalc.sweep(tfcalc.Transformer(), d_modl=[1])


def test_units() -> None:
    from tfcalc.units import parse_count, short, short_bytes

    assert [parse_count(text) for text in ("7B", "1.4T", "128k", "4_096", "1e12", "1,024")] == [
        7 * 10**9,
        14 * 10**11,
        128_000,
        4096,
        10**12,
        1024,
    ]
    assert short_bytes(176_562_176) == "168.38 MiB"
    assert short_bytes(1024**5 * 2000) == "2,000.00 PiB"
    assert short(999_999) == "1M"
    assert short(1) == "1"
