"""Training runs that were measured, read from rows of JSON: the model, the GPUs, the layout, and seconds of a step.

A row is data. What it names is looked up among the presets and the known GPUs, and nothing is fetched, opened or run
because it says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tfcalc.core.component import MODULES, selected
from tfcalc.errors import BadFile, InvalidModel, UsageError
from tfcalc.files import check_plain, whole_number
from tfcalc.hardware import named
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.timing.rates import FP4, FP8, STACKS, machine_of
from tfcalc.timing.step import Layouts
from tfcalc.timing.work import work_of

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.timing.rates import Machine
    from tfcalc.timing.work import ModelWork

Row = Mapping[str, Any]
MOST_RUNS = 1_000
"""Runs of a file: more than anybody measures."""
MOST_MODELS = 50
"""Models among them: each is run once on tensors without data."""
LARGEST_NUMBER, LARGEST_SIZE = 10**9, 10**6
FORMATS = ("bf16", "fp16", *FP8, *FP4)
CHECKPOINTING = ("none", "full", "selective")
OF_DEEPSPEED = ("DeepSpeed", "NeMo-Megatron 2023")
"""Frameworks that took as long as Megatron-DeepSpeed of 2022: NeMo's of 2023 trained a model of 175B parameters on 64
A100 at three quarters of the speed that Megatron-LM of 2022 had on as many."""
OF_2022 = ("Megatron-LM 2021", "Megatron-LM 2022")
"""Megatron-LM before fused attention."""
NAMED_ALIKE = tuple(stack for stack in STACKS if stack != "fsdp")
"""Stacks that a framework's name does not tell apart: releases of Megatron-LM, and what was built on it."""


class RowKey(NamedTuple):
    """A key of a row: its kind (``count``, ``number``, ``flag``, ``text``, ``list``, ``object``), and what it says."""

    kind: str
    meaning: str


KINDS: Mapping[str, type[Any]] = {"text": str, "object": dict, "flag": bool}
"""Types of what is neither a number nor a list."""
KEYS = {
    "model": RowKey("text", "a preset, where neither config nor arch describes the model"),
    "config": RowKey("object", "the model as its config.json"),
    "arch": RowKey(
        "object",
        "the model by its sizes: L layers, h hidden size, a heads, g key and value heads, d head width, f inner size,"
        " V vocabulary, gated, untied; E experts, k of them per token, fe and fs inner size of one and of shared ones,"
        " dense_layers, window, mla {q, kv, r, n, v}",
    ),
    "layers": RowKey("count", "layers, where they are not those of the model"),
    "gpu": RowKey("text", "the GPU, such as H100-SXM"),
    "n_gpus": RowKey("count", "GPUs in all"),
    "gpus_per_node": RowKey("count", "GPUs of a node [8]"),
    "nvlink_domain": RowKey("count", "GPUs with fast links among them [those of a node]"),
    "nic_gbps_node": RowKey("number", "Gbit/s of a node to others [the GPU's usual]"),
    "tp": RowKey("count", "tensor parallelism [1]"),
    "pp": RowKey("count", "pipeline stages [1]"),
    "vpp": RowKey("count", "chunks of a stage [1]"),
    "cp": RowKey("count", "context parallelism [1]"),
    "ep": RowKey("count", "expert parallelism [1]"),
    "etp": RowKey("count", "tensor parallelism of experts [tp]"),
    "zero": RowKey("number", "stage of ZeRO; 3 is FSDP [3 with the stack fsdp, else 1]"),
    "hsdp_shard": RowKey("count", "GPUs over which FSDP shards, where it is not all"),
    "micro_batch": RowKey("count", "sequences at once on a copy of the model"),
    "global_batch": RowKey("number", "sequences of a step, of all GPUs"),
    "sp": RowKey("flag", "sequence parallelism, with tensor parallelism [true, false with the stack deepspeed]"),
    "seq": RowKey("count", "tokens of a sequence"),
    "recompute": RowKey("text", f"checkpointing: {', '.join(CHECKPOINTING)} [none]"),
    "recompute_modules": RowKey(
        "list", f"modules that backward runs again: {', '.join(MODULES)} [with selective core_attn, else none]"
    ),
    "precision": RowKey("text", f"number format of the matrix products: {', '.join(FORMATS)} [bf16]"),
    "stack": RowKey("text", f"whose code ran: {', '.join(STACKS)} [by the framework, else megatron]"),
    "framework": RowKey("text", "the framework in its own words"),
    "step_time_s": RowKey("number", "seconds of a step"),
    "tokens_per_s_per_gpu": RowKey("number", "or tokens per second of a GPU"),
}
"""What is read of a row, with the default in brackets."""
REMARKS = {
    *("id", "unit", "source", "ref", "name", "note", "status", "derived", "hidden", "convention", "oom", "hsdp"),
    *("dp", "mfu", "hfu", "tflops_per_gpu", "peak_memory_gib", "memory_kind", "offload_activations"),
}
"""Further keys of published rows, about what is not fitted."""


class MeasuredRun(NamedTuple):
    """A run, and how long its step took.

    Attributes:
        name: what it is called in an answer.
        gpu: the GPU's name.
        work: what its model does.
        machine: its GPUs among others.
        at: its layout.
        stack: whose code ran.
        precision: number format of its products.
        peak: dense FLOP/s of a GPU in that format.
        seconds: seconds of a step.
        said: whether the row says the stack, or is read by the name of its framework.
    """

    name: str
    gpu: str
    work: ModelWork
    machine: Machine
    at: Layouts
    stack: str
    precision: str
    peak: float
    seconds: float
    said: bool = True

    @property
    def floor(self) -> float:
        """Seconds of its FLOPs alone at the peak of all its GPUs."""
        at = self.at
        tokens = at.dp * at.micro_batch * at.batches * self.work.length
        return float(self.work.flops * tokens / (self.peak * at.gpus))


class LeftOut(NamedTuple):
    """A row that is no run to fit: where it is, and why."""

    place: str
    why: str
    remedy: str = ""


class Unusable(Exception):
    """Reason why a row is left out, and the options that say what it does not."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.remedy = remedy


NEEDED = {
    "gpu": "--gpu h100",
    "n_gpus": "--gpus 64",
    "global_batch": "--global-batch-size 512",
    "seq": "--seq 4096",
    "micro_batch": "--micro-batch 1",
}
"""What each row has to say, and options of ``calibrate`` that say it for a log."""


def rows_of(text: str, called: str) -> list[tuple[str, Row]]:
    """Return the rows of a file, one object a line, each with its place. Raises BadFile."""
    found: list[tuple[str, Row]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place = f"{called}:{number}"
        try:
            row = json.loads(line, parse_int=whole_number, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise BadFile(f"{place} is not JSON", "write one object a line") from None
        if not isinstance(row, dict):
            raise BadFile(f"{place} {quoted(row)} is no object", 'write {"gpu": "h100", "n_gpus": 64, …}')
        if len(found) == MOST_RUNS:
            raise BadFile(f"{called} has over {MOST_RUNS:,} runs", "keep those of one machine and stack")
        check_plain(row, of="a row of runs", called=place, failure=BadFile)
        found.append((place, row))
    return found


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number")


def unread(rows: Iterable[Row], keys: Container[str] = KEYS, remarks: Container[str] = REMARKS) -> list[str]:
    """Return the keys of rows that nothing reads, but for usual remarks."""
    return sorted({key for row in rows for key in row if key not in keys and key not in remarks})


ModelOf = Callable[[Row, str], "Model"]
"""Finds the model of a row, which is at a place. Raises BadFile where there is none."""


def read_runs(rows: Iterable[tuple[str, Row]], model_of: ModelOf) -> tuple[list[MeasuredRun], list[LeftOut]]:
    """Return the runs of these rows, and what is left out and why. Raises BadFile for what no row can say."""
    reader = _Reader(model_of)
    found: list[MeasuredRun] = []
    left_out: list[LeftOut] = []
    for place, row in rows:
        check_row(row, place)
        try:
            found.append(reader.run(row, place))
        except Unusable as reason:
            left_out.append(LeftOut(place, str(reason), reason.remedy))
    return found, left_out


def check_row(row: Row, place: str, keys: Mapping[str, RowKey] = KEYS) -> None:
    """Raise BadFile for a value that its key cannot have."""
    for name, key in keys.items():
        value = row.get(name)
        if value is None or (name == "micro_batch" and not value):
            continue
        if key.kind == "list":
            check_modules(value, place)
            continue
        if key.kind in KINDS:
            if not isinstance(value, KINDS[key.kind]):
                raise BadFile(f"{place}: {name} {quoted(value)} is no {key.kind}", f"it is {key.meaning}")
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        least = 0 if name == "zero" else 1 if key.kind == "count" else 0
        if not number or not least <= value <= LARGEST_NUMBER or (not value and name != "zero"):
            raise BadFile(f"{place}: {name} {quoted(value)} is no number above 0", f"it is {key.meaning}")
        if key.kind == "count" and value != int(value):
            raise BadFile(f"{place}: {name} {quoted(value)} is not a whole number", f"it is {key.meaning}")


def check_modules(value: object, place: str) -> None:
    """Raise BadFile for what is no list of modules that can run again."""
    if not isinstance(value, list) or any(not isinstance(one, str) or one not in MODULES for one in value):
        raise BadFile(
            f"{place}: recompute_modules {quoted(value)} is no list of modules", f"those are {', '.join(MODULES)}"
        )


class _Reader:
    """Rows as runs; models that several have are folded once."""

    def __init__(self, model_of: ModelOf) -> None:
        self.model_of = model_of
        self.works: dict[str, ModelWork] = {}

    def run(self, row: Row, place: str) -> MeasuredRun:
        """Return the run of a row. Raises Unusable where it cannot be fitted, BadFile where it contradicts itself."""
        missing = [name for name in NEEDED if not row.get(name)]
        if missing:
            raise Unusable(f"no {', '.join(missing)}", " ".join(NEEDED[name] for name in missing))
        if row["gpu"].upper().startswith("TPU"):
            raise Unusable(f"no rates of {row['gpu']} are known")
        try:
            card = named(row["gpu"])[0]
        except UsageError as error:
            raise BadFile(f"{place}: {error.message}", error.hint) from None
        nodes = row.get("gpus_per_node") or 8
        nic = row["nic_gbps_node"] * 1e9 / 8 / nodes if row.get("nic_gbps_node") else None
        machine = machine_of(card, int(row.get("nvlink_domain") or (row.get("gpus_per_node") or card.domain)), nic)
        if machine is None:
            raise Unusable(f"no rates of {card.name} are known")
        stack = stack_of(row)
        at = layout_of(row, stack, place)
        precision = format_of(row, place)
        seconds = step_seconds(row)
        work = self.work(row, place)
        peak = card.peaks.get(precision.removeprefix("mx").removeprefix("nv")) or card.peaks["bf16"]
        said = row.get("stack") in STACKS or stack not in NAMED_ALIKE
        found = MeasuredRun(place, card.name, work, machine, at, stack, precision, peak, seconds, said)
        if seconds < found.floor:
            raise BadFile(
                f"{place}: a step of {seconds:.4g} s is below the {found.floor:.4g} s that its FLOPs take at the peak"
                f" of {row['n_gpus']:,} x {card.name}",
                "check n_gpus, global_batch, seq, precision and the time",
            )
        return found

    def work(self, row: Row, place: str) -> ModelWork:
        """Return what the row's model does on one of its sequences."""
        described = {name: row.get(name) for name in ("config", "arch", "model", "layers", "seq")}
        key = json.dumps(described, sort_keys=True)
        if key not in self.works:
            if len(self.works) == MOST_MODELS:
                raise BadFile(f"{place}: over {MOST_MODELS} models or lengths", "keep those of one machine and stack")
            try:
                self.works[key] = work_of(self.model_of(row, place), int(row["seq"]))
            except InvalidModel as error:
                raise BadFile(f"{place}: {error.message}", error.hint) from None
        return self.works[key]


def stack_of(row: Row) -> str:
    """Return whose code ran: as the row says, or by the words of its framework."""
    if row.get("stack") in STACKS:
        return str(row["stack"])
    framework = row.get("framework") or ""
    if any(word in framework for word in OF_DEEPSPEED):
        return "deepspeed"
    if any(word in framework for word in OF_2022):
        return "megatron-2022"
    return "fsdp" if "FSDP" in framework else "megatron"


def format_of(row: Row, place: str) -> str:
    """Return the number format of the products: the first word of what the row calls it."""
    said: str = row.get("precision") or "bf16"
    found = said.split("-")[0].split(" ")[0]
    if found not in FORMATS:
        raise BadFile(f"{place}: precision {quoted(said)} is not known", f"it is {KEYS['precision'].meaning}")
    return found


def step_seconds(row: Row) -> float:
    """Return the seconds of a step, as the row has them or by its rate. Raises Unusable where it has neither."""
    if row.get("step_time_s"):
        return float(row["step_time_s"])
    if row.get("tokens_per_s_per_gpu"):
        return float(row["global_batch"] * row["seq"] / (row["tokens_per_s_per_gpu"] * row["n_gpus"]))
    raise Unusable("no time")


def layout_of(row: Row, stack: str, place: str = "") -> Layouts:
    """Return the row's layout; as many copies as its GPUs make.

    Raises BadFile where they do not divide, Unusable where a step has fewer sequences than its copies need.
    """
    tp, pp, cp = (int(row.get(name) or 1) for name in ("tp", "pp", "cp"))
    shared, gpus = tp * pp * cp, int(row["n_gpus"])
    if gpus % shared:
        raise BadFile(f"{place}: {gpus:,} GPUs are not divisible by tp {tp}, pp {pp}, cp {cp}", "check n_gpus")
    copies = gpus // shared
    batches = row["global_batch"] / (copies * row["micro_batch"])
    if batches < 1:
        raise Unusable(
            f"{row['global_batch']:,} sequences are too few for {copies:,} copies of the model, which {gpus:,} GPUs"
            f" make with tp {tp}, pp {pp}, cp {cp}, and micro-batches of {row['micro_batch']:,}"
        )
    sequence_parallel = row.get("sp")
    kind = row.get("recompute")
    experts = (row.get("arch") or {}).get("E")
    return Layouts(
        tp=tp,
        pp=pp,
        vpp=int(row.get("vpp") or 1),
        cp=cp,
        ep=int(row.get("ep") or 1),
        etp=int(row.get("etp") or (tp if experts else 1)),
        dp=copies,
        micro_batch=int(row["micro_batch"]),
        batches=batches,
        zero=_stage_of_zero(row, stack),
        shards=row.get("hsdp_shard"),
        again=float(kind == "full"),
        modules=tuple(row.get("recompute_modules") or selected(kind or "none")),
        sequence_parallel=stack != "deepspeed" if sequence_parallel is None else bool(sequence_parallel),
    )


def _stage_of_zero(row: Row, stack: str) -> int:
    """Return the stage of ZeRO: in a pipeline 1 for 2, as gradients are shared once the last micro-batch has run.

    Source: Llama 3's steps (arXiv 2407.21783, table 4), for which sums of each micro-batch would take too long.
    """
    zero = row.get("zero")
    if zero is None:
        return 3 if stack == "fsdp" else 1
    return 1 if int(zero) == 2 and int(row["pp"]) > 1 else int(zero)


def config_of(arch: Mapping[str, Any], layers: int | None, length: int) -> dict[str, Any]:
    """Return a config.json of these sizes: of Llama, Nemotron, Mixtral, gpt-oss or DeepSeek-V3, as they are.

    Raises KeyError for a size that is missing, ValueError for one beyond any model's.
    """
    mla = arch.get("mla") or {}
    if not isinstance(mla, Mapping):
        raise ValueError(f"mla {quoted(mla)} is no object")
    sizes = [*arch.values(), *mla.values()]
    if any(isinstance(size, int | float) and not 0 <= size <= LARGEST_SIZE for size in sizes):
        raise ValueError(f"a size is not from 0 to {LARGEST_SIZE:,}")
    common = {
        "hidden_size": arch["h"],
        "num_hidden_layers": layers or arch["L"],
        "num_attention_heads": arch["a"],
        "num_key_value_heads": arch["g"],
        "vocab_size": arch["V"],
        "tie_word_embeddings": not arch["untied"],
        "max_position_embeddings": max(length, 2048),
    }
    experts = {"num_experts_per_tok": arch.get("k")}
    if mla:
        return {
            **common,
            **experts,
            "model_type": "deepseek_v3",
            "q_lora_rank": mla["q"] or None,
            "kv_lora_rank": mla["kv"],
            "qk_rope_head_dim": mla["r"],
            "qk_nope_head_dim": mla["n"],
            "v_head_dim": mla["v"],
            "intermediate_size": arch["f"],
            "moe_intermediate_size": arch["fe"],
            "n_routed_experts": arch["E"],
            "n_shared_experts": arch["fs"] // arch["fe"],
            "first_k_dense_replace": arch["dense_layers"],
            "n_group": 1,
            "topk_group": 1,
        }
    common["head_dim"] = arch["d"]
    if arch.get("E"):
        kind = {"intermediate_size": arch["fe"], "num_local_experts": arch["E"]}
        if window := arch.get("window"):
            kinds = ["sliding_attention", "full_attention"] * arch["L"]
            kind |= {"sliding_window": window, "layer_types": kinds[: common["num_hidden_layers"]]}
        return {**common, **experts, **kind, "model_type": "gpt_oss" if window else "mixtral"}
    model_type = "llama" if arch["gated"] else "nemotron"
    return {**common, "model_type": model_type, "intermediate_size": arch["f"]}
