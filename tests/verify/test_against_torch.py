"""Live: PyTorch's parameters and FLOPs, component by component, over the variants that tfcalc knows."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import Program
from tests.laws.models import models, runs
from tfcalc import Transformer, Workload, flops, params

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

from hypothesis import given  # noqa: E402  # after the skip, like what follows
from hypothesis import strategies as st  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tests.examples import examples  # noqa: E402
from tfcalc.verify.count import NOT_BUILT, verify  # noqa: E402
from tfcalc.verify.reference import build  # noqa: E402
from tfcalc.zoo.transformer import POSITIONS  # noqa: E402


@pytest.fixture
def tfcalc(process: Program) -> Program:
    """The program in a process of its own: that is what is asked about here."""
    return process


VARIANTS: dict[str, dict[str, Any]] = {
    "torch.nn.Transformer()": {},
    "big": {"d_model": 1024, "n_heads": 16, "n_layers": 2},
    "heads": {"d_model": 96, "n_heads": 3},
    "d_ff": {"d_ff": 1000},
    "depths": {"encoder_layers": 2, "decoder_layers": 5},
    "pre-norm": {"pre_norm": True},
    "no attention bias": {"attention_bias": False},
    "no ffn bias": {"ffn_bias": False},
    "layernorm without bias": {"norm": "layernorm-no-bias"},
    "layernorm without γ and β": {"norm": "layernorm-plain"},
    "rmsnorm": {"norm": "rmsnorm", "final_norm": "pre-norm", "pre_norm": True},
    "textbook": {"final_norm": "never"},
    "encoder": {"kind": "encoder", "activation": "gelu"},
    "decoder": {"kind": "decoder", "n_kv_heads": 2},
    "wide heads": {"head_dim": 100, "value_dim": 3},
    "vocabulary": {"vocab_size": 1000, "positions": "learned", "max_len": 64, "output_bias": True},
    "recurrent positions": {"vocab_size": 1000, "positions": "recurrent"},
    "recurrent positions, one stack": {"vocab_size": 1000, "positions": "recurrent", "kind": "decoder"},
    "rotary": {"positions": "rotary", "kind": "encoder"},
    "two vocabularies, tied": {"vocab_size": 1000, "target_vocab_size": 700, "output_head": "tied"},
}


@pytest.fixture(params=list(VARIANTS.values()), ids=list(VARIANTS))
def model(request: pytest.FixtureRequest) -> Transformer:
    return Transformer(**request.param)


def test_parameters_agree_by_component(model: Transformer) -> None:
    answer = verify(model)
    assert answer.agrees, answer.rows
    assert len(answer.rows) > 5


def reference_flops(model: Transformer, run: Workload) -> int:
    """What FlopCounterMode counts of one forward pass."""
    reference = build(model)
    counter = FlopCounterMode(display=False)

    def given_to(length: Any) -> Any:
        shape = (length, run.batch_size)
        if model.vocab_size is None:
            return torch.empty(*shape, model.d_model, device="meta")
        return torch.zeros(shape, dtype=torch.long, device="meta")

    with counter:
        reference(given_to(run.source.length), given_to(run.target.length))
    return int(counter.get_total_flops())


def test_forward_flops_agree(model: Transformer) -> None:
    source = 7 if model.kind == "encoder-decoder" else None
    run = Workload(batch_size=3, seq_len=11, source_len=source)
    assert flops(model, run).answer == reference_flops(model, run)


BUILT = [kind for kind in POSITIONS if kind not in NOT_BUILT]
built_and_runs = models(BUILT, ("dense",)).flatmap(lambda model: st.tuples(st.just(model), runs(model)))


@given(built_and_runs)
@examples(40)
def test_random_models_agree(case: tuple[Transformer, Workload]) -> None:
    model, run = case
    assert verify(model).agrees
    plain = Workload(batch_size=run.batch_size, seq_len=run.seq_len, source_len=run.source_len)
    assert flops(model, plain).answer == reference_flops(model, plain)


def test_the_reference_of_a_plain_model_has_torch_nn_transformers_parameters() -> None:
    with torch.device("meta"):
        plain = torch.nn.Transformer()
    theirs = sorted((name, tuple(value.shape)) for name, value in plain.named_parameters())
    ours = sorted((name, tuple(value.shape)) for name, value in build(Transformer()).named_parameters())
    assert theirs == ours
    assert params(Transformer()).answer == sum(value.numel() for value in plain.parameters())


def test_the_program_agrees_and_says_so(tfcalc: Program) -> None:
    result = tfcalc("verify", "--d-model", "512", "--layers", "6")
    assert result.returncode == 0, result.stderr
    assert "agrees" in result.stdout


def test_a_difference_is_exit_1_and_is_named(tmp_path: Any) -> None:
    """A norm with a vector too many: the program says where, and by how much."""
    code = (
        "import sys\nfrom tfcalc.ops.work import NORMS, NormKind\n"
        "NORMS['layernorm'] = NormKind(('γ', 'β', 'β'), 7, 13)\n"
        "from tfcalc.cli.main import main\nsys.exit(main(['verify', '--format', 'csv']))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )
    assert result.returncode == 1, result.stderr
    assert "core.encoder_norm,1536,1024,512" in result.stdout


@pytest.mark.parametrize(("size", "code"), [("100000", 2), ("2001", 2)])
def test_what_cannot_be_built_is_refused(tfcalc: Program, size: str, code: int) -> None:
    assert tfcalc("verify", "--layers", size).returncode == code


def test_what_torch_cannot_hold_is_refused(tfcalc: Program) -> None:
    result = tfcalc("verify", "--d-model", "900G", "--layers", "1")
    assert (result.returncode, result.stdout) == (4, "")
    assert result.stderr.count("\n") == 1
