"""What ``import tfcalc`` offers."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

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
    assert html.startswith("<img ")
    assert "<table>" in html
    assert html.count("<tr>") == html.count("</tr>") == len(list(report.walk())) + 1


def test_shares_are_bars_in_a_notebook() -> None:
    """Of GPT-2's 124,439,808 parameters 38,597,376 are its table of words (transformers), which is 31.0 %."""
    html = tfcalc.params("gpt2")._repr_html_()
    assert re.search(r">wte</td>.*?#4aa8e066 31\.0%,transparent 31\.0%\)\">31\.0 %</td></tr>", html)
    assert html.count("linear-gradient") == html.count("%</td>") == html.count("<tr>") - 1


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
    swept = tfcalc.sweep(model, "flops", d_model=h, n_layers=n, seq_len=l).values
    assert swept.dtype == np.int64
    for point in range(50):
        one = tfcalc.Transformer(vocab_size=1000, d_model=int(h[point]), n_layers=int(n[point]))
        assert swept[point] == tfcalc.flops(one, tfcalc.Workload(seq_len=int(l[point]))).answer


def test_a_sweep_broadcasts_and_follows() -> None:
    grid = tfcalc.sweep(tfcalc.Transformer(), d_model=np.array([[64], [512]]), n_layers=[1, 6]).values
    assert grid.shape == (2, 2)
    assert grid[1, 1] == 44_140_544
    apart = tfcalc.sweep(tfcalc.Transformer(), d_model=512, d_ff=[2048, 1024]).values
    assert apart[0] == 44_140_544
    assert apart[0] - apart[1] == 12 * (2 * 512 * 1024 + 1024)


def test_what_is_given_stays_and_what_is_not_follows() -> None:
    """Sizes that happen to equal what they would follow from are given all the same."""
    given = tfcalc.Transformer(d_ff=2048, n_kv_heads=8)
    widths = tfcalc.sweep(given, d_model=[512, 1024]).values
    assert widths.tolist() == [tfcalc.params(replace(given, d_model=h)).answer for h in (512, 1024)]
    heads = tfcalc.sweep(given, n_heads=[8, 16]).values
    assert heads.tolist() == [tfcalc.params(replace(given, n_heads=a)).answer for a in (8, 16)]
    run = tfcalc.Workload(source_len=512)
    longer = tfcalc.sweep(tfcalc.Transformer(), "flops", run, seq_len=[1024]).values
    assert longer[0] == tfcalc.flops(tfcalc.Transformer(), replace(run, seq_len=1024)).answer
    assert str(tfcalc.formula("ffn", model=given)) == "2hf + h + f"
    assert tfcalc.formula("ffn", model=given).at(h=1024, f=2048) == 2 * 1024 * 2048 + 2048 + 1024


def test_a_formula_is_asked_by_its_own_letters() -> None:
    with pytest.raises(tfcalc.UsageError, match="'q' does not occur in"):
        tfcalc.formula("mha").at(h=512, q=3)


@pytest.mark.parametrize("of", ["param", "banana", "flop"])
def test_an_unknown_quantity_is_refused_everywhere(of: str) -> None:
    for ask in (lambda: tfcalc.sweep(tfcalc.Transformer(), of), lambda: tfcalc.formula("mha", of)):
        with pytest.raises(tfcalc.UsageError, match=f"quantity '{of}' is not known"):
            ask()


def test_memory_is_the_same_however_it_is_asked_for() -> None:
    model = tfcalc.Transformer(vocab_size=37_000)
    held = tfcalc.memory(model).answer
    assert held == tfcalc.explain("complete", model, "memory").answer == tfcalc.sweep(model, "memory").values
    assert held == tfcalc.formula("complete", "memory", model).at(h=512, n=6, V=37_000, T=5000)
    # 4 bytes for each of the core, the embedding, the head, and the 5,000 sinusoids
    assert held == 4 * (44_140_544 + 2 * 37_000 * 512 + 5000 * 512)


@pytest.mark.parametrize("wrong", [512, None])
def test_what_is_no_model_is_refused(wrong: object) -> None:
    with pytest.raises(tfcalc.InvalidModel, match="is not a model"):
        tfcalc.params(wrong)  # type: ignore[arg-type]
    with pytest.raises(tfcalc.InvalidModel, match="is not a workload"):
        tfcalc.flops(tfcalc.Transformer(), 1.5)  # type: ignore[arg-type]
    with pytest.raises(tfcalc.InvalidModel, match="is not a workload"):
        tfcalc.memory(tfcalc.Transformer(), tfcalc.Conventions())  # type: ignore[arg-type]


def test_a_question_in_words_is_that_of_its_plans() -> None:
    """A model by name, lengths and plans as keywords: the same answers as of the objects."""
    gpt2, run = tfcalc.load("gpt2"), tfcalc.Workload(seq_len=64, phase="train")
    by_plan = tfcalc.memory(gpt2, run, training=tfcalc.Training(lora=8)).answer
    assert tfcalc.memory("gpt2", seq_len=64, lora=8).answer == by_plan
    assert tfcalc.memory("gpt2", 64, lora=8).answer == by_plan
    found = tfcalc.memory("gpt2", seq_len=64, lora=8, gpu="t4")
    assert (found.answer, found.to_dict()["status"]) == (by_plan, "fits")
    assert tfcalc.fits("gpt2", "t4", seq_len=64, lora=8).status == "fits"
    served = tfcalc.memory(gpt2, serving=tfcalc.Serving(context=128)).answer
    assert tfcalc.memory("gpt2", context=128).answer == tfcalc.memory("gpt2", context=128, serve=True).answer == served
    assert tfcalc.params("gpt2").answer == tfcalc.overview("gpt2").answer == 124_439_808
    forward = tfcalc.flops(gpt2, tfcalc.Workload(seq_len=64)).answer
    assert tfcalc.flops("gpt2", 64).answer == tfcalc.flops("gpt2", seq_len=64).answer == forward
    assert tfcalc.flops("gpt2", seq_len=64, train=True).answer == tfcalc.flops(gpt2, run).answer


def test_words_of_no_question_are_refused() -> None:
    with pytest.raises(tfcalc.UsageError, match="lora_rank is no keyword of this question; did you mean lora"):
        tfcalc.memory("gpt2", lora_rank=8)
    with pytest.raises(tfcalc.UsageError, match="add train=True or serve=True"):
        tfcalc.memory("gpt2", gpus=2)
    with pytest.raises(tfcalc.UsageError, match="cannot be combined"):
        tfcalc.memory("gpt2", lora=8, context=64)
    with pytest.raises(tfcalc.UsageError, match="accelerator 'h1000' is not known"):
        tfcalc.fits("gpt2", "h1000", train=True)
    with pytest.raises(tfcalc.UsageError, match="is no keyword"):
        tfcalc.flops("gpt2", lora=8)


def test_a_numpy_integer_is_refused_with_the_way_out() -> None:
    with pytest.raises(tfcalc.InvalidModel, match=r"convert it by int"):
        tfcalc.params(tfcalc.Transformer(d_model=np.int64(512)))


def test_a_model_shows_what_was_given() -> None:
    assert repr(tfcalc.Transformer(d_model=768)) == "Transformer(d_model=768)"
    assert tfcalc.Transformer(d_model=768) == tfcalc.Transformer(d_model=768) != tfcalc.Transformer()
    assert "array" in repr(tfcalc.Transformer(d_model=np.array([1, 2])))


def test_by_kind_does_not_depend_on_what_is_shown() -> None:
    model = tfcalc.Transformer(vocab_size=1000)
    assert len({str(tfcalc.params(model, depth=depth).by_kind()) for depth in (None, 0, 1, 5, 9)}) == 1


def test_the_heads_of_a_note_are_those_of_the_model() -> None:
    lines = tfcalc.explain("mha", tfcalc.Transformer(head_dim=32)).lines
    assert lines[0].note == "one matrix for all 8 heads (8 × 32 = 256)"
    assert lines[0].numbers.each == (512, 256)


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
    assert short_bytes(176_562_176) == "168 MiB"
    assert short_bytes(1024**5 * 2000) == "2,000 PiB"
    assert short(999_999) == "1M"
    assert short(1) == "1"


AMOUNTS = {
    "80GB": 80 * 10**9,
    "80GiB": 80 * 2**30,
    "80 Gi": 80 * 2**30,
    "24gb": 24 * 10**9,
    "79.2GiB": 85_040_352_460,
    "512 MB": 512 * 10**6,
    "46,068 MiB": 46_068 * 2**20,
    "1.5TB": 15 * 10**11,
    "2TiB": 2**41,
    "64kB": 64_000,
    "42405855232B": 42_405_855_232,
    "8192 bytes": 8192,
}


@pytest.mark.parametrize("text", AMOUNTS)
def test_amounts_of_memory_say_their_unit(text: str) -> None:
    from tfcalc.units import parse_bytes

    assert parse_bytes(text) == AMOUNTS[text]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("80", "'80' has no unit; say 80GiB (powers of 1024) or 80GB (powers of 1000)"),
        ("80G", "'80G' is ambiguous; say 80GiB"),
        ("512m", "say 512MiB"),
        ("", "'' is not a number; write 80GB"),
        ("GB", "is not a number"),
        ("80 gigs", "is not a number"),
        ("-3GB", "is not above 0"),
        ("0GiB", "is not above 0"),
        ("0.5B", "is not above 0"),
        ("1e40GB", "is too large"),
        ("9" * 100 + "GB", "is not a number"),
        ("८०GB", "is not a number"),
    ],
)
def test_other_amounts_of_memory_are_refused(text: str, told: str) -> None:
    from tfcalc.units import parse_bytes

    with pytest.raises(tfcalc.UsageError) as caught:
        parse_bytes(text)
    assert told in str(caught.value)


STEP = tfcalc.Workload(phase="train")
WITHOUT_EFFECT: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (("params", STEP), {"d_model": [512]}, "a workload changes nothing in a sweep of params"),
    (("params",), {"seq_len": [512]}, "seq_len has no effect"),
    (("memory",), {"b": [1, 2]}, "b has no effect"),
    (("flops",), {"source_len": [1, 2]}, "source_len 1 contradicts kind"),
    (("flops",), {"cached": [1, 2]}, "cached 1 with phase"),
]


@pytest.mark.parametrize(("asked", "sizes", "said"), WITHOUT_EFFECT)
def test_a_sweep_refuses_what_changes_nothing(asked: tuple[Any, ...], sizes: dict[str, Any], said: str) -> None:
    with pytest.raises((tfcalc.UsageError, tfcalc.InvalidModel), match=said) as refusal:
        tfcalc.sweep(tfcalc.Transformer(kind="decoder", vocab_size=1000), *asked, **sizes)
    assert "\n" not in str(refusal.value)


def test_a_size_of_the_model_that_a_quantity_does_not_depend_on_is_an_answer() -> None:
    """An encoder layer has 12h² + 13h, whatever its heads, and 2h stand in the last norm; h 512."""
    model, every = tfcalc.Transformer(kind="encoder", n_layers=1), 12 * 512**2 + 15 * 512
    assert tfcalc.sweep(model, n_heads=[4, 8, 16]).values.tolist() == [every] * 3


def test_a_sweep_of_a_model_that_lacks_a_size_is_refused() -> None:
    with pytest.raises(tfcalc.InvalidModel, match="relative positions without max_distance"):
        tfcalc.sweep(tfcalc.Transformer(positions="relative"), "flops", d_model=[512])


def test_a_run_and_its_layouts(tmp_path: Path) -> None:
    """The functions answer what the commands do."""
    model = tfcalc.load("gpt2")
    run = tfcalc.train(model, 10**9, tfcalc.Workload(seq_len=256, phase="train"), gpu="2xh100", step_time=0.5).run
    assert run.hours == pytest.approx(10**9 / run.tokens_per_step * 0.5 / 3600)
    with pytest.raises(tfcalc.UsageError, match="give one of them"):
        tfcalc.train(model, 10**9, gpu="h100", mfu=0.4, step_time=1.0)
    at: dict[str, Any] = {"tp": 2, "pp": 2, "vpp": 1, "cp": 1, "ep": 1, "etp": 1, "zero": 1, "micro_batch": 4}
    planned = tfcalc.plan(model, "8xh100", 64, 512, tokens=10**9, price=2.0, checkpointing="none", **at)
    assert planned.layout.dp == 2
    assert planned.cost == pytest.approx(planned.gpu_hours * 2)
    assert planned.layout.gpus == tfcalc.ranks(model, tfcalc.Layout(tp=2, pp=2, dp=2)).layout.gpus == 8
    with pytest.raises(tfcalc.UsageError, match="rings is no axis"):
        tfcalc.plan(model, "8xh100", 64, rings=2)
    with pytest.raises(tfcalc.TfcalcError, match="cannot be read"):
        tfcalc.plan(model, "8xh100", 64, rates=str(tmp_path / "none.toml"), **at)


def test_a_served_model() -> None:
    """The function answers what the command does."""
    model = tfcalc.load("llama-3-8b")
    found = tfcalc.serve(model, "2xh100", 2000, 500, 64, ttft=1.0, tpot=0.05, price=2.0, plan=tfcalc.Serving(kv="fp8"))
    assert found.deployment.tp == 2
    assert (
        found.exact.cache_bytes_per_request == 157 * 16 * 32 * 8 * 128
    )  # blocks of 16 for 2,500 tokens, layers, half of 2 x 8 heads, their width, 1 byte
    assert found.slo.largest_concurrency >= 64
    assert found.estimate is not None
    assert found.floor.tpot_ms <= found.estimate.tpot_ms.low
    split = tfcalc.serve(model, "3xh100", 2000, 500, 64, disaggregated=(1, 2))
    assert (split.deployment.tp, split.deployment.prefill_groups, split.deployment.decode_groups) == (1, 1, 2)
    for wrong in ({"prompt": 0}, {"pp": 0}, {"tp": 0}, {"draft": (3, 1.5)}, {"gpu": "h1000"}, {"prefix": 5000}):
        with pytest.raises(tfcalc.TfcalcError):
            tfcalc.serve(model, **wrong)


@pytest.mark.parametrize("name", ["llama-3-8b", "gpt2", "bert-base-uncased"])
def test_a_workload_without_a_length_has_the_models(name: str) -> None:
    """As without a workload, and as on the command line: 4,096 tokens, or as many as the model can read."""
    model, length = tfcalc.load(name), {"llama-3-8b": 4096, "gpt2": 1024, "bert-base-uncased": 512}[name]
    assert tfcalc.flops(model, tfcalc.Workload()).answer == tfcalc.flops(model).answer
    assert tfcalc.flops(model, tfcalc.Workload()).answer == tfcalc.flops(model, tfcalc.Workload(seq_len=length)).answer
    trained = tfcalc.Workload(phase="train", batch_size=2)
    plan, said = tfcalc.Training(), trained.replaced(seq_len=length)
    assert tfcalc.memory(model, trained, training=plan).answer == tfcalc.memory(model, said, training=plan).answer
    assert (
        tfcalc.fits(model, "h100", trained, training=plan).report.answer
        == tfcalc.fits(model, "h100", said, training=plan).report.answer
    )


def test_a_length_that_is_typed_is_taken_and_the_classic_model_has_its_own() -> None:
    model = tfcalc.load("llama-3-8b")
    assert tfcalc.flops(model, tfcalc.Workload(seq_len=512)).answer < tfcalc.flops(model).answer / 8
    classic = tfcalc.Transformer()
    assert tfcalc.flops(classic, tfcalc.Workload()).answer == tfcalc.flops(classic, tfcalc.Workload(seq_len=512)).answer


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_rows_are_a_frame(library: str) -> None:
    """GPT-2's tables are V · h and T · h; whole numbers stay whole, and a share is a fraction."""
    pytest.importorskip(library)
    frame = tfcalc.params(tfcalc.load("gpt2")).to_frame(library)
    assert type(frame).__module__.startswith(library)
    totals = dict(zip(frame["component"], frame["total"], strict=True))
    assert (totals["wte"], totals["wpe"]) == (50_257 * 768, 1024 * 768)
    assert max(frame["share"]) == 1.0
    table = tfcalc.fit("gpt2").to_frame(library)
    assert "peak bytes" in table.columns
    assert tfcalc.sweep(tfcalc.load("gpt2"), n_layers=[3, 4]).to_frame(library).shape == (2, 2)


def test_what_is_no_frame_is_refused() -> None:
    report = tfcalc.params(tfcalc.load("gpt2"))
    with pytest.raises(tfcalc.UsageError, match="known: pandas, polars"):
        report.to_frame("numpy")


def test_a_model_of_a_config_shows_its_name_its_parameters_and_its_sizes() -> None:
    """124,439,808 and 8,030,261,248 are transformers' counts (tests/oracle)."""
    assert repr(tfcalc.load("gpt2")).startswith("<gpt2: GPT2LMHeadModel (gpt2), 124,439,808 parameters, n_layer 12, ")
    shown = repr(tfcalc.load("llama-3-8b"))
    assert "8,030,261,248 parameters, num_hidden_layers 32, hidden_size 4,096, num_attention_heads 32" in shown
    broken = tfcalc.from_config({"model_type": "llama", "hidden_size": 7, "num_attention_heads": 3})
    assert repr(broken) == "<LlamaForCausalLM (llama)>"


def test_a_name_is_a_model_in_every_question() -> None:
    step = tfcalc.Workload(seq_len=64)
    for asked in (
        lambda model: tfcalc.formula("complete", "params", model),
        lambda model: tfcalc.check("complete", "124439808", "params", model),
        lambda model: tfcalc.shapes("attention", model, step),
        lambda model: tfcalc.sweep(model, n_layers=[3, 4]),
        lambda model: tfcalc.why("163M", model),
        lambda model: tfcalc.solve("params <= 1B", "layers", model),
        lambda model: tfcalc.ranks(model, workload=step),
        lambda model: tfcalc.plot(model, "seq_len", [64, 128]),
    ):
        assert str(asked("gpt2")) == str(asked(tfcalc.load("gpt2")))
    assert tfcalc.kernels("gpt2", step) == tfcalc.kernels(tfcalc.load("gpt2"), step)
    layout = {"tp": 1, "pp": 1, "cp": 1, "micro_batch": 1, "zero": 1}
    assert str(tfcalc.plan("gpt2", "8xh100", 64, 1024, **layout)).startswith("dp8")  # type: ignore[arg-type]  # axes


def test_answers_of_every_question_are_html_and_a_frame() -> None:
    pytest.importorskip("pandas")
    for answer in (
        tfcalc.overview("gpt2"),
        tfcalc.flops("gpt2"),
        tfcalc.memory("gpt2"),
        tfcalc.memory("gpt2", train=True, seq_len=64),
        tfcalc.memory("gpt2", gpu="h100", train=True, seq_len=64),
        tfcalc.memory("gpt2", serve=True),
        tfcalc.train("gpt2", 10**9, gpu="h100"),
        tfcalc.serve("gpt2", "h100"),
        tfcalc.serve_reading("bge-small-en-v1.5", "h100"),
        tfcalc.ranks("gpt2"),
        tfcalc.gpus("h100"),
        tfcalc.compare("gpt2", "gpt2-medium"),
        tfcalc.diff("gpt2", "gpt2-medium"),
        tfcalc.check("attention", "4h^2"),
        tfcalc.compute_optimal(1e21),
        tfcalc.explain("attention"),
        tfcalc.explain("flops_per_token", "gpt2"),
        tfcalc.shapes("mha"),
        tfcalc.why("163M", "gpt2"),
        tfcalc.solve("params <= 125M", "layers"),
        tfcalc.quiz(),
    ):
        assert "<table>" in answer._repr_html_()
        assert len(answer.to_frame("pandas"))


def test_verdicts_and_sweeps_are_shown_in_notebooks() -> None:
    assert "FITS" in tfcalc.fits("gpt2", "24GB", train=True)._repr_html_()
    assert "<td>60,648,960</td>" in tfcalc.sweep(tfcalc.load("gpt2"), n_layers=[3, 4])._repr_html_()


@pytest.mark.parametrize("name", ["serve_points", "sweep"])
def test_arrays_without_numpy_are_refused_with_what_to_install(name: str) -> None:
    code = f"import sys; sys.modules['numpy'] = None; import tfcalc; tfcalc.{name}(tfcalc.load('gpt2'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Unavailable: numpy is not installed; pip install 'tfcalc[sweep]'" in done.stderr


def test_a_notebook_shows_the_picture_of_an_answer() -> None:
    """GPT-2's parameters, by transformers; the image has no other file, and says in words what it shows."""
    shown = tfcalc.params("gpt2")._repr_html_()
    image = re.search(r'<img [^>]*alt="([^"]*)" src="data:image/svg\+xml;base64,([^"]*)">', shown)
    assert image is not None
    assert "124,439,808" in image[1]
    root = ElementTree.fromstring(base64.b64decode(image[2]))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "<img" not in tfcalc.fits("gpt2", "24GB", train=True)._repr_html_()  # a verdict is a line


def test_answers_have_a_short_repr() -> None:
    assert repr(tfcalc.params("gpt2")) == "<Params: 124M parameters (124,439,808)>"
    assert repr(tfcalc.formula("mha")) == "<Formula: 4h² + 4h>"
    for answer in (
        tfcalc.train("gpt2", 10**9, gpu="h100"),
        tfcalc.serve("gpt2", "h100"),
        tfcalc.why(124439808, "gpt2"),
    ):
        first = str(answer).partition("\n")[0]
        assert repr(answer) == f"<{type(answer).__name__}: {first}>"


def test_a_design_takes_what_people_type() -> None:
    typed, exact = tfcalc.design("125M", tokens="1B"), tfcalc.design(125_000_000, tokens=10**9)
    assert typed.candidates == exact.candidates
    assert tfcalc.design("3B", model="llama-3-8b").budget == 3 * 10**9
    assert tfcalc.design("1GiB", "memory").budget == 2**30
