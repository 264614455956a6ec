"""Parts over a size: amounts that add up, and crossings that are exact."""

from __future__ import annotations

import pytest

import tfcalc
from tfcalc import Transformer, Workload


def test_attention_passes_the_network_at_twice_the_width_in_an_encoder() -> None:
    """8lh² + 4l²h for attention, 16lh² for the network: equal at l = 2h."""
    for width in (64, 512):
        grown = tfcalc.plot(Transformer(kind="encoder", d_model=width), "seq_len", [1, 10**6], ["attention", "ffn"])
        (crossing,) = grown.crossings
        assert (*crossing.parts, crossing.at, crossing.after) == (
            "attention",
            "ffn",
            2 * width,
            2 * width - 1,
        )
        assert crossing.amounts[0] == crossing.amounts[1] == 6 * 16 * 2 * width * width**2


def test_a_crossing_between_whole_numbers_is_the_first_at_which_it_has_more() -> None:
    """d_ff 100, h 64: attention 8·64²·l + 4·64·l², the network 4·64·100·l. They meet at l = 100 - 2·64 < 0: never."""
    grown = tfcalc.plot(Transformer(kind="encoder", d_model=64, d_ff=100), "seq_len", [1, 4096], ["attention", "ffn"])
    assert grown.crossings == ()
    # d_ff 301: 4·64·301·l = 8·64²·l + 4·64·l² at l = 301 - 128 = 173; heads of their own do not change it
    grown = tfcalc.plot(Transformer(kind="encoder", d_model=64, d_ff=301), "seq_len", [1, 4096], ["attention", "ffn"])
    assert [each.at for each in grown.crossings] == [173]


def test_both_ways_are_found() -> None:
    """Parameters: the table has 1,000h, attention 12·(4h² + 4h): passed between, and never the other way round."""
    model = Transformer(kind="decoder", n_layers=12, n_heads=1, vocab_size=1000, output_head="tied")
    grown = tfcalc.plot(model, "d_model", [1, 100], ["embedding", "attention"], of="params")
    # 1000h = 48h² + 48h at h = 952/48 = 19.83
    (crossing,) = grown.crossings
    assert (crossing.parts[0], crossing.at) == ("attention", 20)
    assert crossing.words == "attention passes embedding at 20"


def test_a_crossing_among_numbers_without_a_model_is_told_as_a_range() -> None:
    model = Transformer(kind="decoder", n_layers=12, n_heads=8, vocab_size=1000, output_head="tied")
    (crossing,) = tfcalc.plot(model, "d_model", [8, 40], ["embedding", "attention"], of="params").crossings
    assert (crossing.after, crossing.at) == (16, 24)
    assert crossing.words == "attention passes embedding between 16 and 24"


def test_the_parts_of_all_layers_are_counted_together() -> None:
    """gpt2: 12 layers of 4·768² + 4·768 and 8·768² + 5·768; the tree's own root is the whole."""
    grown = tfcalc.plot(tfcalc.load("gpt2"), "n_layers", [1, 12], ["attention", "ffn"], of="params")
    amounts = {part.name: part.amounts for part in grown.parts}
    assert amounts["attention"] == (4 * 768**2 + 4 * 768, 12 * (4 * 768**2 + 4 * 768))
    assert amounts["ffn"] == (8 * 768**2 + 5 * 768, 12 * (8 * 768**2 + 5 * 768))
    assert grown.whole[1] == tfcalc.params(tfcalc.load("gpt2")).answer


def test_shares_are_of_the_whole() -> None:
    grown = tfcalc.plot(tfcalc.load("mixtral-8x7b"), "seq_len", [64, 128], shares=True)
    assert [part.name for part in grown.parts] == ["attention", "moe"]
    for curve, part in zip(grown.chart().curves, grown.parts, strict=True):
        shares = [amount / whole for amount, whole in zip(part.amounts, grown.whole, strict=True)]
        assert [y for _, y in curve.points] == shares


@pytest.mark.parametrize(
    ("over", "values", "parts", "of", "said"),
    [
        ("width", [1, 2], (), "flops", "'width' is not a size"),
        ("seq_len", [], (), "flops", "0 values of seq_len"),
        ("seq_len", range(1, 2000), (), "flops", "1,999 values of seq_len"),
        ("seq_len", [1, 2], ("ssm",), "flops", "target 'ssm' is not known"),
        ("seq_len", [1, 2], (), "params", "seq_len has no effect"),
        ("seq_len", [1, 2], (), "time", "quantity 'time' is not known"),
    ],
)
def test_what_has_no_growth_is_refused(
    over: str, values: list[int], parts: tuple[str, ...], of: str, said: str
) -> None:
    with pytest.raises(tfcalc.UsageError, match=said):
        tfcalc.plot(tfcalc.load("gpt2"), over, values, parts, of, Workload() if of == "flops" else None)
