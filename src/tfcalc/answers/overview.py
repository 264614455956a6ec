"""A model at a glance: what it is, and what it takes to store, run, serve and fine-tune it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache, cached_property, partial
from itertools import tee
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.common import Subject, check_arguments, model_of, subject
from tfcalc.analysis.facts import Facts, facts
from tfcalc.analysis.folds import OF_TABLES, Fold, of_answer
from tfcalc.analysis.numbers import known, serving_and_cache
from tfcalc.answers.flops import Flops, flops
from tfcalc.answers.memory_base import of_text_alone
from tfcalc.answers.verdict import Fit, memory_within
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import active_params as active_parameters
from tfcalc.core.measure import params as parameters
from tfcalc.core.measure import stored
from tfcalc.defaults import (
    assumed_dtype,
    compute_dtype,
    own_dtype,
    resolve_checkpointing,
    resolve_plan,
    served_dtype,
    serving_context,
)
from tfcalc.model import default_run, own_run
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Serving, Training
from tfcalc.report import exact
from tfcalc.report.declared import (
    HEAD,
    Answer,
    Key,
    Record,
    Unknown,
    When,
    by_name,
    integer,
    number,
    optional,
    record,
    shared,
    text,
)
from tfcalc.report.derivation import Derivation, DerivationTerm
from tfcalc.report.number import number as number_at
from tfcalc.report.opening import found, given, ratio
from tfcalc.report.paths import reach
from tfcalc.report.sheet import NOT_YET, Bytes, Cell, Column, Sheet, Short, later, of
from tfcalc.search.gpus import (
    SAID,
    UTILIZATION,
    Capacity,
    Several,
    in_words,
    of_card,
    serving_on,
    serving_on_several,
    training_on,
)
from tfcalc.search.remedies import FSDP
from tfcalc.serving.memory import kv_bytes_per_token, own_name, weights_bytes
from tfcalc.serving.stored import at_work
from tfcalc.training.measured import bands
from tfcalc.training.peaks import peaks_of
from tfcalc.units import short, short_bytes
from tfcalc.workload import Conventions, Workload

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.hardware import Accelerator
    from tfcalc.model import Model
    from tfcalc.training.peaks import Peaks

FORMATS = ("bf16", "int8", "nf4")
"""The formats of weights that are shown beside the checkpoint's own."""
RANK = 16
METHODS = {
    "full": ("fine-tuning", Training(), ""),
    "lora": (f"LoRA r={RANK}", Training(lora=RANK), f" --lora {RANK}"),
    "qlora": (f"QLoRA r={RANK}", Training(lora=RANK, base_weights="nf4-dq"), f" --qlora {RANK}"),
}
"""Ways to fine-tune: what each is called, its plan, its options."""
NONE = "–"


UNKNOWN = "null where it is not known: see reasons"


def size(meaning: str, name: str) -> Key[int | None]:
    """A size of the model, from its config."""
    return optional(meaning, lambda sizes: getattr(sizes, name))


class SizesOfModel(Record):
    """The sizes of the model, each with its name in tables of ``compare``."""

    family = text("model_type", lambda sizes: sizes.family).compared("family")
    layers = size("layers; null in an encoder-decoder", "layers").compared("layers")
    encoder_layers = size("layers of the encoder", "encoder_layers").compared("encoder layers")
    decoder_layers = size("layers of the decoder", "decoder_layers").compared("decoder layers")
    hidden_size = size("hidden size", "hidden_size").compared("hidden size")
    heads = size("attention heads", "heads").compared("heads")
    kv_heads = size("key and value heads", "kv_heads").compared("KV heads")
    head_dim = size("width of a head", "head_dim").compared("head size")
    ffn_size = size("feed-forward size", "ffn_size").compared("FFN size")
    experts = size("experts of a layer", "experts").compared("experts")
    active_experts = size("experts that a token is routed to", "active_experts").compared("active experts")
    expert_size = size("feed-forward size of an expert", "expert_size").compared("expert FFN size")
    vocab_size = size("vocabulary", "vocab_size").compared("vocabulary")
    context = size("longest context, in tokens", "context").compared("context")
    dtype = text("number format of the checkpoint", lambda sizes: sizes.dtype).compared("number format")


class OnCommand(NamedTuple):
    """A number that another command answers, whose line the overview names."""

    line: str
    key: str = ""

    def of(self, overview: Any) -> CommandOpened:
        """The command and its number."""
        return CommandOpened(self.line, self.key, overview)


class CommandOpened(NamedTuple):
    """Number that another command answers, in one overview."""

    line: str
    key: str
    overview: Any

    def opened(self, prefix: str, _: tuple[str, ...]) -> Derivation:
        """The command that opens it."""
        overview = self.overview
        keys = prefix.split(".")[1:]
        value = number_at(keys, reach(overview.entries(), keys))
        command = overview.commands[self.line]
        command += f" --weights {keys[1]}" if keys[0] == "weights_bytes" and len(keys) > 1 else ""
        what = f"{self.key} of: {command}" if self.key else f"the growth of the cache by one token: {command}"
        terms = (DerivationTerm(f"{command.split()[1]}.{self.key}" if self.key else "", value, command),)
        return Derivation(
            heading=overview.subject,
            path=prefix,
            of="overview",
            value=value,
            how="answer",
            terms=terms,
            formula="",
            substituted="",
            note=what,
            model=dict(overview.model),
            conventions=dict(overview.conventions),
        )


def quantity(name: str, meaning: str, *origins: Any) -> Key[int | None]:
    """A number that may not be known of this kind of model."""
    return optional(f"{meaning}; {UNKNOWN}", lambda overview: overview.told(name), *origins)


def per_token_of(meaning: str, make: Any, line: str) -> Key[float]:
    """FLOPs of a token."""
    return number(meaning, make, OnCommand(line, "flops_per_token"))


def cards(of: str, more: str = "") -> Key[list[str] | None]:
    """The accelerators on which it fits."""
    schema = {
        "type": ["array", "null"],
        "items": {"type": "string"},
        "description": f"accelerators that hold {of}_bytes{more}",
    }
    return Key(schema, lambda overview: [gpu.name for gpu in overview.gpus[of]()] if of in overview.gpus else None)


ON_CARD = When(lambda overview: overview.card is not None, "verdicts", mutual=True)


class Overview(Answer):
    """A model at a glance. Bytes, parameters and FLOPs are exact integers; Unknown says why there is none.

    ``weights`` are by format, the checkpoint's own first; ``finetune`` by method (full, lora, qlora). ``gpus`` are
    those on which ``serving`` and each of these methods fit. ``asked`` is how the model is named on the command line.
    """

    command = "overview"
    about = "A model at a glance, as tfcalc MODEL --json prints it."

    model = shared("model", lambda overview: dict(overview.of.described()), place=HEAD)
    conventions = shared("conventions_of_overview", lambda overview: overview.definitions, place=HEAD)
    facts = record(
        SizesOfModel,
        "the sizes of the model; null where it has none, or none that all its layers share",
        lambda overview: overview.sizes,
        found("the sizes of the config"),
    )
    total_params = integer("parameters", Fold("params", parameters, of_answer(stored)))
    active_params = integer("parameters used per token", Fold("params", active_parameters, of_answer(stored)))
    embedding_params = integer(
        "parameters of the tables of tokens and positions",
        Fold("params", parameters, of_answer(stored), only=OF_TABLES),
    )
    weights_bytes = by_name(
        "integer",
        "bytes of the weights by format, the checkpoint's own first",
        lambda overview: dict(overview.weights),
        OnCommand("weights", "total_bytes"),
    )
    context = optional(
        "longest context, in tokens",
        lambda overview: overview.sizes.context,
        given("given by the longest that the model can read"),
    )
    kv_cache_bytes_per_token = quantity(
        "kv_cache_bytes_per_token", "bytes that a token adds to the cache", OnCommand("kv_cache")
    )
    kv_cache_bytes = quantity(
        "kv_cache_bytes",
        "bytes of the cache at conventions.kv_cache_context",
        ratio("kv_cache_bytes_per_token", "context"),
        OnCommand("kv_cache", "kv_cache_bytes"),
    )
    forward_flops_per_token = per_token_of(
        "FLOPs of a token, or of a sample: see conventions.flops_per", lambda one: one.forward_flops, "forward"
    )
    training_flops_per_token = per_token_of("the same in training", lambda one: one.training_flops, "training")
    serving_bytes = quantity("serving_bytes", "bytes to serve one request", OnCommand("serve", "total_bytes"))
    finetune_full_bytes = quantity(
        "finetune_full_bytes", "bytes to train all parameters", OnCommand("finetune_full", "total_bytes")
    )
    finetune_lora_bytes = quantity(
        "finetune_lora_bytes", "bytes to train with LoRA", OnCommand("finetune_lora", "total_bytes")
    )
    finetune_qlora_bytes = quantity(
        "finetune_qlora_bytes", "bytes to train with QLoRA", OnCommand("finetune_qlora", "total_bytes")
    )
    serving_gpus = cards("serving", "; where none does alone, how many do together, as --gpu takes them: 16xH100-SXM")
    finetune_full_gpus = cards("finetune_full")
    finetune_lora_gpus = cards("finetune_lora")
    finetune_qlora_gpus = cards("finetune_qlora")
    gpu = text("the GPU that was asked about, as --gpu took it", lambda overview: overview.card_asked, when=ON_CARD)
    verdicts = by_name(
        "string",
        "the verdict on this GPU, of serving and of each way to fine-tune that is known: fits, tight, risky, no",
        lambda overview: dict(overview.on_card),
        when=ON_CARD,
    )
    reasons = by_name("string", "why a quantity is null, by its key", lambda overview: overview.unknown)
    commands = by_name(
        "string",
        "the command that opens each line: params, weights, kv_cache, forward, training, serve, finetune_full, "
        "finetune_lora, finetune_qlora",
        lambda overview: overview.lines,
    )

    def __init__(self, model: Model, workload: Workload, asked: str, units: str, card: Capacity | None = None) -> None:
        self.of, self.workload, self.units, self.card = model, workload, units, card
        self.name = getattr(model, "name", "")
        self.asked = asked or shlex.quote(self.name or "MODEL")
        self.once = workload.replaced(recompute="none")
        model.check(self.once)
        self.by = Conventions()
        self.peaks = peaks_of(model)
        """Of each way to fine-tune, and of the verdicts on it."""

    @cached_property
    def question(self) -> Subject:
        """The model's tree."""
        return subject(self.of, self.once)

    @property
    def answer(self) -> int:
        """The number of parameters."""
        return self.total_params

    @property
    def heading(self) -> str:
        """Name of the model, with what was changed of it."""
        return (self.of.called or "config") if isinstance(self.of, HFModel) else "model"

    @property
    def subject(self) -> str:
        """The model in a few words."""
        return self.of.summary

    @property
    def tree(self) -> Component:
        """Component that its numbers are sums over."""
        return self.question.node.component

    @cached_property
    def plan(self) -> Serving:
        """Plan by which it is served: one request of the usual context."""
        return Serving(context=serving_context(self.of, self.once))

    @property
    def shared_by(self) -> int:
        """GPUs that were asked about together: what is served or fine-tuned is then that of each of them."""
        return 1 if self.card is None else self.card.gpus

    @cached_property
    def serving_plan(self) -> Serving:
        """Plan of serving that request over the GPUs that were asked about."""
        return self.plan if self.shared_by == 1 else self.plan.replaced(gpus=self.shared_by)

    @cached_property
    def training_plans(self) -> dict[str, Training]:
        """Plan of each way to fine-tune, fully sharded over several GPUs."""
        over = {} if self.shared_by == 1 else FSDP | {"gpus": self.shared_by}
        return {method: plan.replaced(**over) for method, (_, plan, _) in METHODS.items()}

    @property
    def served_context(self) -> int:
        """The tokens of that request."""
        return exact(self.plan.context or 0)

    @cached_property
    def sizes(self) -> Facts:
        """The sizes of the model."""
        served = self.of.tree(at_work(default_run(self.of), self.plan)) if isinstance(self.kv_per_token, int) else None
        return facts(self.of, served or self.tree)

    @cached_property
    def kv_per_token(self) -> int | Unknown:
        """Bytes that a token adds to the cache."""
        return known(lambda: kv_bytes_per_token(self.of, default_run(self.of), self.plan), "none: it generates no text")

    @cached_property
    def _served(self) -> tuple[int | Unknown, int | Unknown]:
        return serving_and_cache(self.of, self.plan)

    @cached_property
    def serving(self) -> int | Unknown:
        """Bytes to serve a request, on each of several GPUs."""
        return self._served[0] if self.shared_by == 1 else serving_and_cache(self.of, self.serving_plan)[0]

    @property
    def kv_cache(self) -> int | Unknown:
        """Bytes of its cache."""
        return self._served[1]

    @cached_property
    def weights(self) -> dict[str, int]:
        """Bytes by format, the checkpoint's own first."""
        own = own_name(self.of)
        return {own: weights_bytes(self.of, self.tree)} | {
            name: weights_bytes(self.of, self.tree, name) for name in FORMATS if name != own
        }

    @cached_property
    def _forward(self) -> Flops:
        return flops(self.of, self.once)

    @property
    def by_sample(self) -> bool:
        """Return whether FLOPs are those of a sample, as the model reads no tokens."""
        return not self._forward.of_any_length

    @property
    def forward_flops(self) -> int | float:
        """FLOPs of a token."""
        return self._forward.flops_per_token

    @cached_property
    def training_flops(self) -> int | float:
        """FLOPs of a token in training."""
        return flops(self.of, self.once.replaced(phase="train")).flops_per_token

    @cached_property
    def _tuned(self) -> dict[str, tuple[int | Unknown, Callable[[], Iterator[Accelerator]] | None]]:
        step = self.workload.replaced(phase="train")
        return {method: _tuned(self.peaks, step, plan) for method, plan in self.training_plans.items()}

    @property
    def finetune(self) -> dict[str, int | Unknown]:
        """Bytes to train by each method."""
        return {method: need for method, (need, _) in self._tuned.items()}

    @cached_property
    def gpus(self) -> dict[str, Callable[[], Iterator[Accelerator | Several]]]:
        """Searches for the cards on which serving and each method fit."""
        found: dict[str, Callable[[], Iterator[Accelerator | Several]]] = {
            f"finetune_{method}": on for method, (_, on) in self._tuned.items() if on
        }
        if not isinstance(self.serving, Unknown):
            found["serving"] = partial(self._serving_on, self.serving)
        return found

    def _serving_on(self, need: int) -> Iterator[Accelerator | Several]:
        """Yield the GPUs that serve it alone; where none does, the fewest that do together."""
        dtype = served_dtype(self.of)
        alone = tuple(serving_on(need, self.plan, dtype))
        least = self.weights[own_name(self.of)] // 2  # where fp32 is served in 16 bits
        return iter(alone) if alone else serving_on_several(cache(self._need_of_each), least, self.plan, dtype)

    def _need_of_each(self, gpus: int) -> int | None:
        """Bytes that a GPU of this number takes to serve a request; None where they cannot share the model."""
        need, _ = serving_and_cache(self.of, self.plan.replaced(gpus=gpus))
        return None if isinstance(need, Unknown) else need

    @property
    def card_asked(self) -> str:
        """Name of the GPU that was asked about, as it was typed."""
        assert self.card is not None
        return self.card.card if self.shared_by == 1 else f"{self.shared_by}x{self.card.card}"

    @cached_property
    def on_card(self) -> dict[str, str]:
        """The verdict of ``memory --gpu`` on serving, and on each way to fine-tune, where it is known."""
        step = self.workload.replaced(phase="train")
        asked: dict[str, dict[str, Any]] = {"serving": {"serving": self.serving_plan}} | {
            f"finetune_{method}": {"workload": step, "training": plan} for method, plan in self.training_plans.items()
        }
        needs = {"serving": self.serving} | {f"finetune_{method}": need for method, need in self.finetune.items()}
        return {name: self._status(words) for name, words in asked.items() if not isinstance(needs[name], Unknown)}

    def _status(self, words: dict[str, Any]) -> str:
        judge = memory_within(self.of, self.card, **words, peaks=self.peaks).judge
        assert isinstance(judge, Fit)
        return judge.status

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the model that should be known."""
        return (*self.of.remarks(self.once), *of_text_alone(self.of))

    @property
    def definitions(self) -> dict[str, object]:
        """Definitions that the numbers were made by."""
        return {
            "batch_size": self.workload.batch_size,
            "seq_len": self.workload.seq_len,
            "checkpointing": self.workload.recompute,
            "flops": "multiply-add = 2, matrix products only, masked pairs counted",
            "flops_per": "sample" if self.by_sample else "token",
            "kv_cache_context": self.served_context,
            "lora_rank": RANK,
            "gpu_margin": round(1 - UTILIZATION, 2),
            "gpu_margin_of_training": round(bands()["allocated"].high - 1, 2),
        }

    @cached_property
    def lines(self) -> dict[str, str]:
        """The command that opens each line, by the first word of its keys in the JSON."""
        sequence = f"--batch {self.workload.batch_size} --seq {self.workload.seq_len}"
        checkpointing = "" if self.workload.recompute == "none" else f" --checkpointing {self.workload.recompute}"
        context = "" if self.sizes.context is not None else f" --context {self.served_context}"
        over = "" if self.shared_by == 1 else f" --gpus {self.shared_by}"
        flops = "" if self.by_sample else f" --seq {self.workload.seq_len}"
        asked = {
            "params": "params {}",
            "weights": "memory {}",
            "kv_cache": f"memory {{}} --serve{context}",
            "forward": f"flops {{}}{flops}",
            "training": f"flops {{}} --train{flops}",
            "serve": f"memory {{}} --serve{context}{over}",
            **{
                f"finetune_{method}": f"memory {{}} --train{flags} {sequence}{checkpointing}{over and f' --fsdp{over}'}"
                for method, (_, _, flags) in METHODS.items()
            },
        }
        if isinstance(self.kv_cache, Unknown):
            del asked["kv_cache"]
        if isinstance(self.serving, Unknown):
            del asked["serve"]
        asked = {name: line for name, line in asked.items() if not self._unknown(name)}
        return {name: f"tfcalc {line.format(self.asked)}" for name, line in asked.items()}

    def _unknown(self, name: str) -> bool:
        return later(lambda: isinstance(self.finetune.get(name.removeprefix("finetune_")), Unknown), False)

    @property
    def _may_be_unknown(self) -> dict[str, int | Unknown]:
        return {
            "kv_cache_bytes_per_token": self.kv_per_token,
            "kv_cache_bytes": self.kv_cache,
            "serving_bytes": self.serving,
            **{f"finetune_{method}_bytes": size for method, size in self.finetune.items()},
        }

    def told(self, name: str) -> int | None:
        """A number; null where nothing is known."""
        value = self._may_be_unknown[name]
        return None if isinstance(value, Unknown) else value

    @property
    def unknown(self) -> dict[str, str]:
        """Why a quantity is null, by its key."""
        return {name: value.reason for name, value in self._may_be_unknown.items() if isinstance(value, Unknown)}

    def sheet(self) -> Sheet:
        """A line for each quantity, with the command that opens it."""
        return Sheet(
            title=f"{short(self.total_params, billion='B')} parameters ({self.total_params:,})",
            subtitle=f"{self.heading}: {self.sizes.in_words()}",
            columns=[
                Column("", numeric=False),
                Column(""),
                Column("", numeric=False, folds=True),
                Column("", numeric=False, spare=1),
            ],
            rows=list(self._rows()),
            quiet=of(self.total_params, Overview.total_params),
            notes=(*self._of_card(), *self.notes),
            assumes=tuple(self._assumes()),
            see_also=(f"tfcalc COMMAND {self.asked} opens a line",),
            detailed=self._detailed,
        )

    def _rows(self) -> Iterator[list[Cell]]:
        own, *others = self.weights
        formats = ", ".join(f"{name} {self._short(self.weights[name])}" for name in others)
        per = "sample" if self.by_sample else "token"
        yield ["parameters", of(Short(self.total_params, "B"), Overview.total_params), self._parts(), "params"]
        yield ["weights", of(Bytes(self.weights[own]), Overview.weights_bytes, own), f"{own}; {formats}", "memory"]
        if isinstance(self.kv_per_token, Unknown) or isinstance(self.kv_cache, Unknown):
            yield ["KV cache", NONE, self.kv_per_token.short if isinstance(self.kv_per_token, Unknown) else "", ""]
        elif not self.kv_per_token:
            whole = of(Bytes(self.kv_cache), Overview.kv_cache_bytes)
            yield ["state", whole, "of a sequence of any length", "memory --serve"]
        else:
            said = f"per token; {self._short(self.kv_cache)} at {self.served_context:,}"
            each = of(Bytes(self.kv_per_token), Overview.kv_cache_bytes_per_token)
            yield ["KV cache", each, said, "memory --serve"]
        forward = of(Short(self.forward_flops), Overview.forward_flops_per_token)
        yield ["forward", forward, f"FLOPs per {per}", "flops"]
        training = of(Short(self.training_flops), Overview.training_flops_per_token)
        yield ["training", training, f"FLOPs per {per}", "flops --train"]
        yield self._placed("serving", "serving", self.serving, "memory --serve")
        for method, (called, _, flags) in METHODS.items():
            command = f"memory --train{flags.partition(' 1')[0]}"
            yield later(partial(self._tuned_by, method, called, command), [called, NOT_YET, NOT_YET, command])

    def _tuned_by(self, method: str, called: str, command: str) -> list[Cell]:
        """The row of a way to fine-tune, for which a step runs."""
        return self._placed(called, f"finetune_{method}", self.finetune[method], command)

    def _placed(self, called: str, name: str, need: int | Unknown, command: str) -> list[Cell]:
        if isinstance(need, Unknown):
            return [called, NONE, need.short, ""]
        size = of(Bytes(need), f"{name}_bytes")
        return [called, size, later(lambda: self._held_by(name), NOT_YET), command]

    def _held_by(self, name: str) -> str:
        """The verdict on the GPU that was asked about, or the GPUs that hold it."""
        return in_words(self.gpus[name]()) if self.card is None else SAID[self.on_card[name]].lower()

    def _of_card(self) -> Iterator[str]:
        if self.card is not None:
            share = f"; {self.shared_by} of them share by TP or --fsdp" * (self.shared_by > 1)
            yield f"{self.card.has(self.units)}{share}: --gpu {self.card_asked}"
            yield from filter(None, (self.card.others,))

    def _parts(self) -> str:
        """``37.6B active, embedding 927M``."""
        active = f"{short(self.active_params, billion='B')} active, " * (self.active_params != self.total_params)
        return f"{active}embedding {short(self.embedding_params, billion='B')}"

    def _assumes(self) -> Iterator[str]:
        yield from assumed_dtype(self.of, own_dtype(self.of))
        sizes = f"--batch {self.workload.batch_size}" * (self.workload.batch_size != 1)
        sizes += f" --seq {self.workload.seq_len}" * (not self.by_sample)
        if later(lambda: any(isinstance(size, int) for size in self.finetune.values()), True):
            spare = f", {100 * (bands()['allocated'].high - 1):g} % of its peak to spare" * (self.card is None)
            again = self.workload.recompute
            dtype = resolve_plan(self.of, Training()).precision
            yield f"fine-tuning in {dtype} with{sizes} --checkpointing {again}, AdamW{spare}".replace("  ", " ")
        if not self.by_sample:
            yield f"FLOPs with --seq {self.workload.seq_len}"
        if isinstance(self.serving, int):
            dtype = served_dtype(self.of)
            other = f" in {dtype}" * (dtype != own_dtype(self.of))
            request = f"1 request of {self.served_context:,} tokens"
            yield f"serving {request}{other} in {100 * UTILIZATION:g} % of a GPU's memory"

    def _detailed(self) -> Sheet:
        """Return the sheet for programs: a row for each number, in full."""
        rows: list[list[Cell]] = [[name, value] for name, value in self.sizes._asdict().items()]
        for key in self.keys.values():
            if key.name == "weights_bytes":
                rows += [[f"weights_bytes.{format}", size] for format, size in self.weights.items()]
            elif key.scalar and key.holds(self) and key.name != "context":  # which is one of the sizes
                rows.append([key.name, getattr(self, key.name)])
        return Sheet(
            title=f"{self.total_params:,} parameters",
            subtitle=self.heading,
            columns=[Column("quantity", numeric=False), Column("value")],
            rows=rows,
            quiet=self.total_params,
        )

    def _short(self, size: int) -> str:
        return short_bytes(size, self.units)


def overview(
    model: Model | str,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    asked: str = "",
    gpu: str | None = None,
) -> Overview:
    """Everything about ``model`` at a glance, as ``tfcalc MODEL`` prints it.

    Args:
        model: a :class:`~tfcalc.Transformer`, or what :func:`~tfcalc.load` and :func:`~tfcalc.from_config` return.
        workload: of fine-tuning, and of FLOPs per token: sequences, their length in tokens, and gradient checkpointing
            (``recompute``); by default one sequence of 4,096 tokens, or of as many as the model reads, with full
            gradient checkpointing (of the model without a name 512 tokens, without).
        conventions: the ``units`` that bytes are shown in.
        asked: how the model is named in the commands that the answer names; by default by its name.
        gpu: a GPU (``"h100"``), or several (``"8xh100"``), each with its share: then there are verdicts on it in the
            place of GPUs.

    Returns:
        An overview: ``answer`` is the number of parameters; parameters, bytes and FLOPs per token are exact, and each
        that is not known of this kind of model is an ``Unknown`` with its reason.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.
        UsageError: a GPU that is not known.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> found = overview(Transformer())
    >>> found.answer, found.weights["fp32"]
    (44140544, 176562176)
    """
    model = model_of(model)
    check_arguments(model, workload, conventions)
    workload = resolve_checkpointing(model, own_run(model, workload)).replaced(phase="forward")
    card = None if gpu is None else of_card(gpu, instead="")
    return Overview(model, workload, asked, (conventions or Conventions()).units, card)


def _tuned(
    peaks: Peaks, run: Workload, plan: Training
) -> tuple[int | Unknown, Callable[[], Iterator[Accelerator]] | None]:
    """The peak of fine-tuning by this plan, and on which GPUs it fits."""
    need = known(lambda: peaks.peak(run, plan, noting=True), "not known for this family")
    if isinstance(need, Unknown):
        return need, None
    found, *_ = tee(training_on(peaks, run, plan, compute_dtype(peaks.model)), 1)
    return need, partial(copy, found)  # each GPU is asked once, however often they are read
