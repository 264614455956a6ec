"""What autograd keeps of a training step, to the byte: tfcalc's tape beside PyTorch, for random small configs."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # torch's and transformers' own

import torch  # noqa: E402  # after the skip, like what follows
from transformers.integrations import moe  # noqa: E402

from tests.verify.random_configs import coin, grouped, load  # noqa: E402
from tfcalc import Workload  # noqa: E402
from tfcalc.backends.program import program  # noqa: E402
from tfcalc.configs.published import HFModel  # noqa: E402
from tfcalc.core.number import total  # noqa: E402
from tfcalc.tape.interpreter import Numerics  # noqa: E402
from tfcalc.verify.saved import saved  # noqa: E402
from tfcalc.verify.step import language_model, step, without_data  # noqa: E402
from tfcalc.workload import EITHER  # noqa: E402

Draw = Callable[[Random], dict[str, Any]]


class Mode(NamedTuple):
    """How attention runs, in which formats."""

    attention: str
    kernel: str
    recipe: str


EAGER = tuple(Mode("eager", "eager", recipe) for recipe in ("fp32", "bf16", "autocast"))
FUSED = tuple(Mode("sdpa", "auto", recipe) for recipe in ("fp32", "bf16", "autocast"))  # efficient, flash, flash
ALL = (*EAGER, *FUSED)
MATH = (Mode("sdpa", "math", "bf16"), Mode("sdpa", "math", "autocast"))
NUMERICS = {
    "fp32": Numerics("float32"),
    "bf16": Numerics("bfloat16"),
    "autocast": Numerics("float32", autocast="bfloat16"),
}


def base(random: Random, **more: Any) -> dict[str, Any]:
    """A small decoder, whose heads the flash kernel takes as they are."""
    heads = random.choice([2, 4, 6])
    return grouped(random) | {
        "hidden_size": heads * random.choice([8, 16, 24]),
        "num_attention_heads": heads,
        "num_key_value_heads": random.choice([size for size in range(1, heads + 1) if heads % size == 0]),
        **more,
    }


def wide(random: Random, **more: Any) -> dict[str, Any]:
    """With a head width of its own."""
    return base(random, head_dim=random.choice([8, 16, 32]), **more)


def experts(
    random: Random, draw: Callable[..., dict[str, Any]] = base, *, stored: str = "num_experts", **more: Any
) -> dict[str, Any]:
    """A mixture of experts, by one implementation or the other."""
    few = {stored: random.choice([4, 6]), "num_experts_per_tok": random.choice([1, 2, 3])}
    how = {"_experts_implementation": random.choice(["grouped_mm", "batched_mm"])}
    return draw(random, num_hidden_layers=random.choice([2, 3]), **few, **how, **more)


def qwen_experts(random: Random, draw: Callable[..., dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Among dense layers."""
    some = {"decoder_sparse_step": random.choice([1, 2]), "mlp_only_layers": random.choice([[], [0]])}
    return (
        experts(random, draw, moe_intermediate_size=random.choice([16, 32]), norm_topk_prob=coin(random)) | some | more
    )


def latent(random: Random, **more: Any) -> dict[str, Any]:
    """DeepSeek's attention and experts."""
    ranks: dict[str, Any] = {"kv_lora_rank": random.choice([16, 32]), "q_lora_rank": random.choice([None, 24])}
    widths: dict[str, Any] = {"qk_nope_head_dim": random.choice([16, 24]), "qk_rope_head_dim": random.choice([8, 16])}
    mixed: dict[str, Any] = {"v_head_dim": random.choice([16, 24, 32]), "n_shared_experts": random.choice([1, 2])}
    sparse: dict[str, Any] = {
        "first_k_dense_replace": random.choice([0, 1]),
        "moe_intermediate_size": random.choice([16, 32]),
    }
    chosen = {"num_experts_per_tok": 2, "norm_topk_prob": coin(random), "topk_group": 1}
    drawn = experts(random, stored="n_routed_experts", num_key_value_heads=None, **ranks, **widths, **mixed, **sparse)
    return drawn | chosen | more


FAMILIES: dict[str, tuple[Draw, tuple[Mode, ...]]] = {
    "cohere": (lambda r: base(r, use_qk_norm=coin(r)), ALL),
    "cohere2": (lambda r: base(r, num_hidden_layers=r.choice([4, 5]), sliding_window=r.choice([4, 128])), ALL),
    "deepseek_v2": (
        lambda r: latent(r, n_routed_experts=6, n_group=2, topk_method=r.choice(["greedy", "group_limited_greedy"])),
        ALL,
    ),
    "deepseek_v3": (lambda r: latent(r, n_routed_experts=8, n_group=2), (*ALL, *MATH)),
    "gemma": (wide, ALL),
    "gemma2": (
        lambda r: wide(r, sliding_window=r.choice([4, 128]), **r.choice([{}, {"attn_logit_softcapping": None}])),
        EAGER,  # transformers' has no sdpa
    ),
    "gemma3_text": (
        lambda r: wide(
            r,
            num_hidden_layers=r.choice([3, 7]),
            sliding_window=r.choice([5, 128]),
            architectures=["Gemma3ForCausalLM"],
        ),
        ALL,
    ),
    "glm": (lambda r: base(r, head_dim=r.choice([8, 16]), partial_rotary_factor=0.5), ALL),
    "glm4": (lambda r: base(r, head_dim=r.choice([8, 16]), partial_rotary_factor=0.5), ALL),
    "gpt_oss": (lambda r: experts(r, wide, stored="num_local_experts", sliding_window=128), EAGER),
    "granite": (lambda r: base(r, attention_bias=coin(r), mlp_bias=coin(r)), ALL),
    "llama": (lambda r: wide(r, attention_bias=coin(r), mlp_bias=coin(r)), (*ALL, *MATH)),
    "mistral": (lambda r: base(r, sliding_window=r.choice([None, 6, 128])), ALL),
    "mixtral": (lambda r: experts(r, stored="num_local_experts", sliding_window=None), ALL),
    "nemotron": (
        lambda r: base(r, partial_rotary_factor=0.5),
        tuple(mode for mode in ALL if mode.recipe != "autocast"),  # it asks whether CUDA's own autocast is at work
    ),
    "olmo": (lambda r: base(r, clip_qkv=r.choice([None, 8.0])), ALL),
    "olmo2": (base, ALL),
    "olmoe": (lambda r: experts(r, norm_topk_prob=coin(r)), ALL),
    "phi": (lambda r: base(r, partial_rotary_factor=0.5, qk_layernorm=coin(r)), ALL),
    "phi3": (lambda r: base(r, sliding_window=None, **r.choice([{}, {"partial_rotary_factor": 0.5}])), ALL),
    "qwen2": (base, ALL),
    "qwen2_moe": (lambda r: qwen_experts(r, base, shared_expert_intermediate_size=r.choice([24, 40])), ALL),
    "qwen3": (wide, ALL),
    "qwen3_moe": (lambda r: qwen_experts(r, wide), ALL),
    "smollm3": (lambda r: base(r, num_hidden_layers=r.choice([4, 5])), ALL),
    "stablelm": (
        lambda r: base(
            r,
            use_qkv_bias=coin(r),
            qk_layernorm=coin(r),
            use_parallel_residual=coin(r),
            partial_rotary_factor=r.choice([0.25, 0.5, 1.0]),
        ),
        ALL,
    ),
    "starcoder2": (lambda r: base(r, use_bias=coin(r), sliding_window=None), ALL),
}
"""Each type with its random configs, and how it is run."""


def drawn(model_type: str) -> Draw:
    """A draw from the family's own space, as a language model."""
    return lambda random: load()[model_type](random) | {"architectures": [language_model(model_type)]}


HALVES = FUSED[1:]
LIKE_BERT = [
    "bert",
    "bert-generation",
    "camembert",
    "data2vec-text",
    "electra",
    "nomic_bert",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
]
LIKE_GPT = ["ctrl", "falcon", "gpt2", "gpt_bigcode", "gpt_neox"]
EAGER_ALONE = ["bloom", "codegen", "gpt_neox_japanese", "gptj", "mpt", "openai-gpt", "xglm"]
KIN: dict[str, tuple[Draw, tuple[Mode, ...]]] = {
    **{name: (drawn(name), (*EAGER, *HALVES)) for name in (*LIKE_BERT, *LIKE_GPT)},
    **{name: (drawn(name), EAGER) for name in EAGER_ALONE},  # transformers' have no sdpa
}
"""BERT's and GPT's kin, with heads of any width."""

CASES = [(model_type, mode) for model_type, (_, modes) in (FAMILIES | KIN).items() for mode in modes]


class Grouped(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    """What CUDA's ``grouped_mm`` keeps of numbers that are not bf16, which it has no kernel for without data."""

    @staticmethod
    def forward(ctx: Any, rows: Any, weight: Any, ends: Any) -> Any:
        ctx.save_for_backward(rows, weight, ends)
        return rows.new_empty(rows.shape[0], weight.shape[-1])


@pytest.fixture(autouse=True)
def grouped_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    real = moe._grouped_mm

    def run(rows: Any, weight: Any, offs: Any) -> Any:
        half = weight.dtype == torch.bfloat16
        return real(rows, weight, offs) if half else Grouped.apply(rows.to(weight.dtype), weight, offs)

    monkeypatch.setattr(moe, "_grouped_mm", run)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("model_type", "mode"), CASES, ids=lambda one: one if isinstance(one, str) else "-".join(one))
def test_what_autograd_keeps_is_what_pytorch_keeps(model_type: str, mode: Mode) -> None:
    random = Random(f"{model_type} {mode}")
    config = {"model_type": model_type, **(FAMILIES | KIN)[model_type][0](random)}
    batch, length = random.choice([2, 3]), random.choice([7, 9, 13, 21, 33])
    with without_data():
        built, inputs = step(config, batch=batch, seq=length, attention=mode.attention, recipe=mode.recipe)
        theirs = saved(built, inputs, recipe=mode.recipe, kernel=mode.kernel)
    kernels = {"flash": "flash", "efficient": EITHER, "math": "math"}
    ran = [ours for name, ours in kernels.items() if theirs.kernels.get(name)]  # the next one where masks are
    model = HFModel({name: value for name, value in config.items() if not name.startswith("_")})
    workload = Workload(
        phase="train", batch_size=batch, seq_len=length, kernel=ran[0] if mode.attention == "sdpa" else "eager"
    )
    for every_layer in (True, False):
        ours = program(model, workload, NUMERICS[mode.recipe], "transformers", every_layer=every_layer)
        ours.run_experts_by(config.get("_experts_implementation", "grouped_mm"))
        loss = ours(model.tree(workload))
        assert loss.node is not None
        assert total(kept.copies * kept.storage.size for kept in ours.tape.kept.values()) == theirs.total
