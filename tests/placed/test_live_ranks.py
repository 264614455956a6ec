"""Ranks against Megatron-core itself, which runs here: parameters of random layouts, and messages of whole steps."""

from __future__ import annotations

import random
from collections import Counter
from importlib.util import find_spec
from math import lcm

import pytest

from tests.placed.live import Case, answers_of, as_called
from tests.placed.test_parameters import ENDS, as_published
from tfcalc import Layout, Training, Workload, ranks
from tfcalc.answers.ranks import RanksAnswer
from tfcalc.configs.published import HFModel
from tfcalc.timing.device_memory import DeviceMemory
from tfcalc.timing.step import Layouts
from tfcalc.timing.work import work_of

WHY = "Megatron-core is not installed: pip install --group megatron"
pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("megatron") is None, reason=WHY)]

LAYOUTS, STEPS = 320, 50


class Draw(random.Random):
    """Draws models and layouts that Megatron-core accepts."""

    def sizes(self, kind: str, layers: int) -> Case:
        """Sizes of a model, by the names of Megatron-core's TransformerConfig: divisible by 8 where GPUs share them."""
        heads, width = 8 * self.randint(1, 2), 8 * self.randint(1, 3)
        sizes: Case = {"num_layers": layers, "hidden_size": heads * width, "num_attention_heads": heads}
        if kind == "gpt2":
            return sizes | {"ffn_hidden_size": 4 * heads * width}
        sizes |= {
            "ffn_hidden_size": 16 * self.randint(1, 9),
            "add_bias_linear": False,
            "gated_linear_unit": True,
            "normalization": "RMSNorm",
            "activation_func": "silu",
            "qk_layernorm": kind in ("qwen3", "qwen3_moe", "deepseek_v3"),
        }
        if kind != "deepseek_v3":
            sizes |= {"num_query_groups": self.choice([2, 4, 8]), "kv_channels": 8 * self.randint(1, 3)}
        if kind in ("llama", "qwen3"):
            return sizes
        inner = sizes["ffn_hidden_size"] if kind == "mixtral" else 16 * self.randint(1, 5)
        sizes |= {"num_moe_experts": self.choice([8, 16]), "moe_router_topk": self.choice([2, 4])}
        sizes |= {"moe_ffn_hidden_size": inner}
        if kind != "deepseek_v3":
            return sizes
        dense = self.randint(0, min(2, layers - 1))
        return sizes | {
            "multi_latent_attention": True,
            "q_lora_rank": 16 * self.randint(1, 4),
            "kv_lora_rank": 16 * self.randint(1, 4),
            "qk_head_dim": width,
            "qk_pos_emb_head_dim": 16,
            "v_head_dim": 8 * self.randint(1, 3),
            "moe_shared_expert_intermediate_size": inner * self.randint(1, 2),
            "moe_layer_freq": [0] * dense + [1] * (layers - dense),
        }

    def case(self, kinds: tuple[str, ...], most: int, contexts: tuple[int, ...]) -> Case:
        """A model and a layout of at most so many GPUs, of which so many share a sequence."""
        kind, (tp, pp) = self.choice(kinds), (self.choice([1, 2, 4, 8]), self.choice([1, 2, 3, 4]))
        vpp, cp = self.choice([1, 1, 2, 3]) if pp > 1 else 1, self.choice(contexts)
        ends = self._ends(pp, vpp)
        own = [value for name, value in ends.items() if name in OWN]
        layers = sum(own) + (pp - len(own)) * vpp * self.randint(1, 3) - (len(ends) - len(own))
        if layers < 1:
            return self.case(kinds, most, contexts)
        config = self.sizes(kind, layers)
        sparse = "num_moe_experts" in config
        ep, etp = (self.choice([1, 2, 4, 8]), self.choice([None, 1, 2, 4])) if sparse else (1, None)
        etp = etp if ep != 1 else None  # else it sums up gradients of experts among all GPUs, whatever they have
        dp = self.randint(1, 2) * lcm(ep * (etp or tp), tp * cp) // (tp * cp)
        layout = {"tp": tp, "pp": pp, "vpp": vpp, "cp": cp, "dp": dp, "ep": ep, "etp": etp}
        if tp * pp * cp * dp > most:
            return self.case(kinds, most, contexts)
        layout |= {"untied": self.random() < 0.5, "vocab": self.randint(100, 5000)} | ends
        return {"config": config, "layout": layout, "positions": 1024, "rank": self.randrange(tp * cp * dp)}

    def _ends(self, pp: int, vpp: int) -> Case:
        """What the first and the last stage have of their own."""
        names, chosen = (OWN, COUNTED)[self.randint(0, 1)], self.random()
        if pp == 1 or chosen < 0.5 or (names == OWN and pp == 2):
            return {}
        return {name: names == COUNTED or vpp * self.randint(1, 3) for name in names if self.random() < 0.7}


OWN = ("num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage")
COUNTED = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")


def answered(case: Case) -> RanksAnswer:
    """What tfcalc says of the same model and layout."""
    sizes, asked_for = case["config"], case["layout"]
    model = HFModel(as_published(sizes, asked_for["vocab"], untied=asked_for["untied"]))
    shares = "multi_latent_attention" in sizes and asked_for["tp"] > 1
    layout = {ENDS.get(name, name): value for name, value in asked_for.items() if name not in ("vocab", "untied")}
    shared = case.get("sequence_parallel", asked_for["tp"] > 1)
    at = Layout(**layout, shares_latents=shares, sequence_parallel=shared)
    run = Workload(phase="train", batch_size=case.get("batch", 1), seq_len=case.get("seq", 64))
    again = case.get("again", [])
    run = run.replaced(recompute="full") if again == ["full"] else run.replaced(recompute_modules=",".join(again))
    plan = Training(precision="fp32", zero=case.get("zero", "0"), grad_accum=case.get("micro_batches", 12))
    return ranks(model, at, run, plan)


ALL = ("llama", "qwen3", "gpt2", "mixtral", "qwen3_moe", "deepseek_v3")


def test_parameters_of_random_layouts_are_megatron_cores() -> None:
    """Of a random rank of each stage, to the last one: all, and of them those of experts."""
    draw = Draw(20261126)
    cases = [draw.case(ALL, 64, (1, 1, 2)) for _ in range(LAYOUTS)]
    for case, held in zip(cases, answers_of("tests.placed.megatron_core", cases), strict=True):
        found = [{"params": each.params, "expert_params": each.expert_params} for each in answered(case).stages]
        assert found == held, case


def step(draw: Draw) -> Case:
    """A step of a random model; contexts are shared by Transformer Engine's attention alone, which needs a GPU."""
    case = draw.case(tuple(kind for kind in ALL if kind != "deepseek_v3"), 16, (1,))
    layout = case["layout"]
    del case["rank"]
    shares = layout["tp"] > 1 and ("num_moe_experts" in case["config"] or draw.random() < 0.5)
    more = {"sequence_parallel": shares, "stage": draw.randrange(layout["pp"]), "seq": 64, "batch": 2}
    zero = draw.choice(["0", "1"]) if layout["dp"] > 1 else "0"
    network = "moe" if "num_moe_experts" in case["config"] else "mlp"
    modules = [[network], ["core_attn", network]]
    biased = "normalization" not in case["config"]  # an MLP that returns a bias runs again for ever (0.16)
    more["again"] = draw.choice([[], ["full"], *([] if biased else modules)])
    return case | more | {"micro_batches": layout["pp"] * draw.randint(1, 2), "zero": zero}


def test_messages_of_random_steps_are_megatron_cores() -> None:
    """All operations of a stage's first rank in a whole step: how many, among how many ranks, their bytes."""
    draw = Draw(20261127)
    cases = [step(draw) for _ in range(STEPS)]
    for case, seen in zip(cases, answers_of("tests.placed.megatron_core", cases), strict=True):
        found = Counter[tuple[str, int, int]]()
        counts = 8 * case["config"].get("num_moe_experts", 0)
        for each in answered(case).messages:
            told = each.what == "all-gather" and each.bytes == counts * each.ranks  # of a balanced load nobody is
            if each.stage == case["stage"] and not told:
                found[each.what, each.ranks, each.bytes] += each.times
        assert found == as_called(seen), case


def test_what_modules_drop_is_what_megatron_core_does_not_save() -> None:
    """Bytes that a layer saves less where its MLP, or its shared experts, run again; Megatron-core computes in fp32.

    Its own spec has a norm before the MLP, whose result is saved either way; Transformer Engine has it in the product.
    """
    draw, length, batch = Draw(20261128), 64, 2
    cases: list[Case] = []
    for kind, name in (("llama", "mlp"), ("deepseek_v3", "shared_experts")) * 6:
        tp = draw.choice([1, 2, 4])
        sizes = draw.sizes(kind, 2)
        sizes |= {"moe_layer_freq": [1, 1]} if kind == "deepseek_v3" else {}
        layout = {"tp": tp, "pp": 1, "vpp": 1, "cp": 1, "dp": 1, "ep": 1, "etp": None, "untied": True, "vocab": 512}
        case: Case = {"config": sizes, "layout": layout, "positions": 1024, "seq": length, "batch": batch}
        cases += [{**case, "sequence_parallel": tp > 1, "again": again} for again in ([], [name])]
    found = answers_of("tests.placed.megatron_core", cases)
    for case, whole, less in zip(cases[1::2], found[::2], found[1::2], strict=True):
        sizes, (name,), tp = case["config"], case["again"], case["layout"]["tp"]
        work = work_of(HFModel(as_published(sizes, 512, untied=True)), length)
        at = [Layouts(tp=tp, micro_batch=batch, modules=modules) for modules in ((), (name,))]
        kept, dropped = (float(DeviceMemory(work, each).layer(work.layers[-1])) for each in at)
        norm = 2 * length * batch * sizes["hidden_size"] / tp if name == "mlp" else 0
        assert whole - less == 2 * (kept - dropped - norm), case
