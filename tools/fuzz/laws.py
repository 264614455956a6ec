"""Laws: what must hold between two answers of the library."""

from __future__ import annotations

import contextlib
import random
import re
from typing import Any

import tfcalc
from tfcalc import Conventions, Serving, Training, Workload
from tfcalc.core.traced import value_of
from tfcalc.defaults import compute_dtype
from tfcalc.errors import TfcalcError
from tfcalc.model import asked_run, values
from tfcalc.serving.stored import at_work
from tools.fuzz.configs import PRESETS, TYPES, base_of
from tools.fuzz.findings import FOUND
from tools.fuzz.formats import formulas
from tools.fuzz.material import FORMATS_OF_WEIGHTS
from tools.fuzz.program import guarded

_MODELS: dict[str, Any] = {}
SHORT = 64
"""Tokens from which scores outnumber what kernels keep of the vectors instead."""

ALIGNED = 8
"""Tokens whose biases in 16 bits have rows of 16 bytes."""

LENGTHS = 128
"""Lengths that are solved for are multiples of it."""


def memory_of(model: Any, **asked: Any) -> Any:
    """``tfcalc.memory``; its totals are bytes, as the type checker cannot know."""
    return tfcalc.memory(model, **asked)


def some_model(draw: random.Random) -> tuple[str, Any]:
    """A preset, or a family by its defaults."""
    name = draw.choice(PRESETS) if draw.random() < 0.6 else "type:" + draw.choice(TYPES)
    if name not in _MODELS:
        _MODELS[name] = tfcalc.from_config(base_of(name[5:])) if name.startswith("type:") else tfcalc.load(name)
    return name, _MODELS[name]


def law(name: str, holds: bool, *example: object) -> None:
    """Count a law that was tried, and the bug where it does not hold."""
    FOUND.checked[f"law {name}"] += 1
    if not holds:
        FOUND.bug(f"law-{name}", str(example[0]), example)


def laws(draw: random.Random) -> None:
    """What must hold between two answers."""
    name, model = some_model(draw)
    FOUND.case += f" {name}"
    state, found = guarded(lambda: LAWS[draw.randrange(len(LAWS))](draw, name, model))
    FOUND.exits[f"law {state}"] += 1
    if state == "crash":
        FOUND.bug("uncaught-library", f"law: {str(found).strip().splitlines()[-1]}", (name, found))
    elif state == "hang":
        FOUND.bug("hang", "law", name)


def _length(draw: random.Random, model: Any) -> int:
    longest = model.longest
    bound = longest if isinstance(longest, int) else 4096
    return draw.randrange(1, max(2, min(bound, 2000)))


def law_batch(draw: random.Random, name: str, model: Any) -> None:
    """Twice the batch is twice the FLOPs, but for what is computed once for all: a sequence more adds a fixed amount.

    CLIP holds every image beside every text, and Pixtral's code every patch of every image: quadratic in the batch.
    """
    l, b = _length(draw, model), draw.randrange(1, 5)
    phase = draw.choice(["forward", "train", "decode", "prefill"])
    count = draw.choice(["matmul", "all"])
    by = Conventions(count=count)
    try:
        one, two, three = (
            tfcalc.flops(model, Workload(batch_size=n * b, seq_len=l, phase=phase), by).answer for n in (1, 2, 3)
        )
    except TfcalcError:
        return
    if two > 2 * one and re.search("clip|siglip|pixtral|mistral3", name + str(_family(model))):
        return
    shared = 2 * one - two
    if shared > 0 and three - two == two - one:
        FOUND.note("FLOPs that do not grow with the batch", name, phase, {"batch": b, "seq": l}, one, shared)
        shared = 0
    law(f"flops-linear-in-batch {phase} {count}", shared == 0, name, {"batch": b, "seq": l}, one, two, three)


def _family(model: Any) -> str:
    return str(getattr(getattr(model, "family", None), "model_type", ""))


def law_params(draw: random.Random, name: str, model: Any) -> None:
    """Parameters do not depend on what is run."""
    runs = [
        Workload(seq_len=_length(draw, model), batch_size=draw.randrange(1, 9), phase=draw.choice(["forward", "train"]))
        for _ in range(2)
    ]
    one, two = (tfcalc.params(model, run).answer for run in runs)
    law("params-without-workload", one == two, name, one, two)


def law_formulas(draw: random.Random, name: str, model: Any) -> None:
    """Formulas at the sizes, for params, flops, and training's memory."""
    run = Workload(
        seq_len=_length(draw, model),
        batch_size=draw.randrange(1, 5),
        phase=draw.choice(["forward", "train", "decode"]),
        attention=draw.choice(["full", "causal", "causal-half"]),
        kernel=draw.choice(["math", "flash", "eager", "efficient"]),
    )
    by = Conventions(count=draw.choice(["matmul", "all"]))
    try:
        report = tfcalc.flops(model, run, by, depth=draw.choice([None, 9]))
    except TfcalcError:
        return
    formulas(report, model, asked_run(model, run), shown=(name, run, by))


def law_memory_formulas(draw: random.Random, name: str, model: Any) -> None:
    """The same of memory: at rest, in training, in serving."""
    what = draw.choice(["rest", "format", "train", "train", "serve"])
    l = max(1, min(512, _length(draw, model)))
    depth = draw.choice([None, None, 9])
    described: tuple[Any, ...]
    try:
        if what == "rest":
            by = Conventions(dtype=draw.choice(["fp32", "bf16", "int8", "int4"]))
            report, described = memory_of(model, conventions=by, depth=depth), (model,)
        elif what == "format":
            report, described = memory_of(model, weights=draw.choice(FORMATS_OF_WEIGHTS), depth=depth), (model,)
        elif what == "train":
            run = Workload(
                batch_size=draw.randrange(1, 4),
                seq_len=l,
                phase="train",
                kernel=draw.choice(["eager", "math", "flash", "efficient"]),
                recompute=draw.choice(["none", "none", "full", "selective"]),
            )
            plan = Training(
                precision=draw.choice(["fp32", "bf16", "bf16-mixed", "bf16-master"]),
                optimizer=draw.choice(["adamw", "sgd", "adafactor", "adamw-8bit"]),
                lora=draw.choice([None, None, 4]),
                zero="0",
                grad_accum=draw.choice([1, 2]),
            )
            report, described = (
                memory_of(model, workload=run, training=plan, depth=depth),
                (model, asked_run(model, run), plan),
            )
        else:
            served = Serving(
                context=l,
                concurrency=draw.randrange(1, 4),
                cache=draw.choice(["dynamic", "static", "paged"]),
                kv=draw.choice(["bf16", "fp8", "int8"]),
                weights=draw.choice(FORMATS_OF_WEIGHTS),
            )
            run = Workload(seq_len=l, kernel="flash")
            report, described = (
                memory_of(model, workload=run, serving=served, depth=depth),
                (model, at_work(run, served)),
            )
    except TfcalcError:
        return
    formulas(report, *described, shown=(name, what, described[1:]))


def law_dtypes(_: random.Random, name: str, model: Any) -> None:
    """Narrower numbers take less memory."""
    fp32, bf16, fp8, int8, int4 = (
        memory_of(model, conventions=Conventions(dtype=one)).answer for one in ("fp32", "bf16", "fp8", "int8", "int4")
    )
    law("at-rest-int4<int8<bf16<fp32", int4 < int8 < bf16 < fp32 and fp8 == int8, name, int4, int8, bf16, fp32)
    params: Any = tfcalc.params(model)
    stored, buffers = params.answer, params.totals["buffer_elements"]
    law("fp32-is-4-bytes", fp32 == 4 * (stored + buffers), name, fp32, stored, buffers)
    law("bf16-is-2-bytes", bf16 == 2 * (stored + buffers), name, bf16, stored, buffers)
    found = {}
    for one in ("nf4", "int8", "bf16", "fp32", "q4_k_m", "q8_0", "int4", "gptq-3bit", "gptq", "mxfp4", "nvfp4", "fp8"):
        try:
            found[one] = memory_of(model, weights=one).answer
        except TfcalcError:
            continue
    for less, more in (
        ("nf4", "int8"),
        ("int8", compute_dtype(model)),  # what is not quantized stays as the checkpoint has it
        ("bf16", "fp32"),
        ("q4_k_m", "q8_0"),
        ("gptq-3bit", "gptq"),
        ("int4", "int8"),
        ("mxfp4", "fp8"),
        ("mxfp4", "nvfp4"),
    ):
        if less in found and more in found:
            law(f"format {less}<={more}", found[less] <= found[more], name, found[less], found[more])


def law_training(draw: random.Random, name: str, model: Any) -> None:
    """Training's memory grows with what is trained on, and shrinks with what is recomputed or shared."""
    l, b = max(2, _length(draw, model) // 2), draw.randrange(1, 4)
    plan = Training(
        precision=draw.choice(["fp32", "bf16", "bf16-mixed", "bf16-master"]),
        optimizer=draw.choice(["adamw", "sgd", "adamw-8bit", "lion"]),
    )
    kernel = draw.choice(["flash", "eager", "math", "efficient"])

    def of(**more: Any) -> Any:
        run = Workload(batch_size=b, seq_len=l, phase="train", kernel=kernel)
        plan_more = {
            key: more.pop(key)
            for key in list(more)
            if key in ("zero", "gpus", "layout", "lora", "grad_accum", "offload", "precision", "optimizer")
        }
        return memory_of(model, workload=run.replaced(**more), training=plan.replaced(**plan_more))

    try:
        base = of()
    except TfcalcError:
        return
    where = (name, {"batch": b, "seq": l, "kernel": kernel, "plan": plan})
    law("train-batch-monotone", of(batch_size=b + 1).answer >= base.answer, *where)
    # a bias whose rows are no multiple of 16 bytes is copied to wider rows for this kernel, and at the next length not
    step = ALIGNED if kernel == "efficient" else 1
    with contextlib.suppress(TfcalcError):
        further = of(seq_len=l + step).answer
        law("train-seq-monotone", further >= base.answer, *where, base.answer, further)
    longer = of(seq_len=l + step).totals["activations_bytes"]
    law(
        "activations-seq-monotone",
        longer >= base.totals["activations_bytes"],
        *where,
        base.totals["activations_bytes"],
        longer,
    )
    doubled = of(batch_size=2 * b).totals["activations_bytes"]
    law("activations-batch-monotone", doubled >= base.totals["activations_bytes"], *where)
    try:
        none, full = of(), of(recompute="full")
        law(
            "recompute-full<=none activations",
            full.totals["activations_bytes"] <= none.totals["activations_bytes"],
            *where,
            full.totals["activations_bytes"],
            none.totals["activations_bytes"],
        )
        # where gradients decide, the peak is that of the last layer's backward: what checkpoints keep comes on top
        beside = full.totals["activations_bytes"]
        law("recompute-full<=none peak", full.answer <= none.answer + beside, *where, full.answer, none.answer, beside)
        every = of(recompute="every:2")
        law(
            "recompute-full<=every:2 activations",
            full.totals["activations_bytes"] <= every.totals["activations_bytes"],
            *where,
        )
        run = Workload(batch_size=b, seq_len=l, phase="train", kernel=kernel)
        f_none, f_full, f_sel = (
            tfcalc.flops(model, run.replaced(recompute=one)).answer for one in ("none", "full", "selective")
        )
        law("recompute-full>=none flops", f_full >= f_none, *where, f_full, f_none)
        law("recompute-selective between flops", f_none <= f_sel <= f_full, *where, f_none, f_sel, f_full)
    except TfcalcError:
        pass
    layout = draw.choice(["flat", "zero", "fsdp1", "fsdp2"])
    gpus = draw.choice([2, 8, 64])
    totals = {}
    for stage in "0123":
        try:
            totals[stage] = of(zero=stage, gpus=gpus, layout=layout)
        except TfcalcError:
            continue
    for less, more in (("1", "0"), ("2", "1"), ("3", "2")):
        if less in totals and more in totals:
            # by design (formulas.md): gradients of stages 2 and 3 have buffers that stay; 3 gathers its largest unit
            by_design = less != "1" and totals[less].answer > totals[more].answer
            if by_design:
                FOUND.note(
                    f"zero-{less}<=zero-{more} peak ({layout})",
                    *where,
                    {"gpus": gpus},
                    totals[less].answer,
                    totals[more].answer,
                )
            law(
                f"zero-{less}<=zero-{more} ({layout})",
                by_design or totals[less].answer <= totals[more].answer,
                *where,
                {"gpus": gpus, "layout": layout},
                totals[less].answer,
                totals[more].answer,
            )
            states = [
                sum(
                    totals[one].totals[key]
                    for key in ("weights_bytes", "master_weights_bytes", "gradients_bytes", "optimizer_bytes")
                )
                for one in (less, more)
            ]
            law(
                f"zero-{less}<=zero-{more} states ({layout})",
                states[0] <= states[1],
                *where,
                {"gpus": gpus},
                states,
            )
    by_count = {}
    for count in (1, gpus, 2 * gpus):
        try:
            by_count[count] = of(zero="1" if count > 1 else "0", gpus=count, layout=layout).answer
        except TfcalcError:
            continue
    known = [by_count[count] for count in sorted(by_count)]
    if len(known) == 3 and known[1] > known[0] and layout in ("flat", "zero"):
        # the step of one flat tensor has temporaries as large as the shard, and not as one parameter
        FOUND.note("zero-1 takes more than one GPU alone", *where, by_count)
        known = known[1:]
    law("more-gpus-no-more-memory zero-1", known == sorted(known, reverse=True), *where, by_count)


def law_lora(draw: random.Random, name: str, model: Any) -> None:
    """Adapters have r (i + o) parameters for each linear map."""
    l, r = max(2, min(64, _length(draw, model))), draw.choice([1, 4, 16, 64])
    run = Workload(seq_len=l, phase="train", kernel="flash")

    def of(rank: int, **more: Any) -> Any:
        return memory_of(model, workload=run, training=Training(lora=rank, optimizer="adamw", precision="fp32", **more))

    try:
        one, two = of(r), of(2 * r)
    except TfcalcError:
        return
    g1, g2 = one.totals["gradients_bytes"], two.totals["gradients_bytes"]
    law("lora-gradients-linear-in-rank", g2 == 2 * g1 and g1 > 0, name, r, g1, g2)
    # the formula, from the published tree: r (i + o) of each linear map, once for each copy; not of experts, nor of the
    # output head
    expected = _lora_params(model, r)
    law("lora-formula", g1 == 4 * expected, name, r, g1, 4 * expected)
    dora = of(r, dora=True)
    law("dora>=lora", dora.totals["gradients_bytes"] >= g1, name)
    full = memory_of(model, workload=run, training=Training(precision="fp32"))
    law(
        "lora-states<=full",
        one.totals["gradients_bytes"] + one.totals["optimizer_bytes"]
        <= full.totals["gradients_bytes"] + full.totals["optimizer_bytes"]
        or r >= 16,
        name,
        r,
    )


def _lora_params(model: Any, rank: int) -> int:
    root = model.tree(Workload())
    total = 0
    stack = [(root, 1)]
    while stack:
        node, copies = stack.pop()
        here = copies * node.copies
        weights = node.own.weights
        one = weights and weights[0].turned and len(weights[0].shape) == 2 and node.own.products
        if one and node.kind not in ("router", "output"):
            total += here * rank * sum(weights[0].shape)
        stack += [(part, here) for part in node.parts if part.kind != "experts"]
    return total


def law_serving(draw: random.Random, name: str, model: Any) -> None:
    """Caches grow with requests, contexts and the width of numbers."""
    c, n = max(1, _length(draw, model)), draw.randrange(1, 5)
    kv = draw.choice(["bf16", "fp8", "int8"])
    cache = draw.choice(["dynamic", "static", "paged"])

    def of(context: int, concurrency: int, **more: Any) -> Any:
        return memory_of(
            model, serving=Serving(context=context, concurrency=concurrency, kv=more.pop("kv", kv), cache=cache, **more)
        )

    try:
        one, two = of(c, n), of(c, 2 * n)
    except TfcalcError:
        return
    k1, k2 = one.totals["kv_cache_bytes"], two.totals["kv_cache_bytes"]
    law(f"kv-linear-in-batch {cache}", k2 == 2 * k1, name, {"context": c, "concurrency": n, "kv": kv}, k1, k2)
    # tokens that wait until they are compressed together are cached beside what is; a whole group has none that wait
    more = of(c + (LENGTHS if "compress" in str(getattr(model, "data", "")) else 1), n)
    law(f"kv-monotone-in-context {cache}", more.totals["kv_cache_bytes"] >= k1, name, c)
    law(
        f"serving-monotone-in-context {cache}",
        more.answer >= one.answer,
        name,
        {"context": c, "concurrency": n, "kv": kv},
        one.answer,
        more.answer,
    )
    law(
        f"serving-monotone-in-concurrency {cache}",
        of(c, n + 1).answer >= one.answer,
        name,
        {"context": c, "concurrency": n, "kv": kv},
    )
    try:
        widths = [of(c, n, kv=one_).totals["kv_cache_bytes"] for one_ in ("int8", "bf16", "fp32")]
        law("kv-int8<=bf16<=fp32", widths == sorted(widths), name, widths)
    except TfcalcError:
        pass
    try:
        widths = [of(c, n, weights=one_).totals["weights_bytes"] for one_ in ("int4", "int8", compute_dtype(model))]
        law("served-int4<int8<own", widths[0] <= widths[1] <= widths[2], name, widths)
    except TfcalcError:
        pass


def law_fits(draw: random.Random, name: str, model: Any) -> None:
    """What is said to be the largest fits, and one more does not."""
    budget = draw.choice(["1GB", "8GB", "24GiB", "80GB", "640GB"])
    serve = draw.random() < 0.5
    l = max(2, min(512, _length(draw, model)))
    if serve:
        plan: dict[str, Any] = {
            "serving": Serving(
                context=l,
                concurrency=draw.choice([1, 4]),
                cache=draw.choice(["dynamic", "static", "paged"]),
                weights=draw.choice(["", "int4", "fp8"]),
            )
        }
    else:
        plan = {
            "workload": Workload(
                phase="train",
                seq_len=l,
                batch_size=draw.choice([1, 3]),
                kernel="flash",
                recompute=draw.choice(["none", "full"]),
            ),
            "training": Training(
                precision=draw.choice(["bf16", "bf16-master", "fp32"]),
                optimizer=draw.choice(["adamw", "sgd"]),
                grad_accum=draw.choice([1, 2]),
            ),
        }
    try:
        found = tfcalc.fits(model, budget, **plan)
    except TfcalcError:
        return
    have = found.budget.bytes
    for each in found.largest:
        size = each.of.name
        if each.reason or each.value is None:
            continue

        def bytes_at(value: int, size: str = size) -> Any:
            if serve:
                return memory_of(model, serving=plan["serving"].replaced(**{size: value})).answer
            return memory_of(
                model, workload=plan["workload"].replaced(**{size: value}), training=plan["training"]
            ).answer

        try:
            if each.value:
                law(f"largest-fits {size}", bytes_at(each.value) <= have, name, plan, budget, each.value)
                law(
                    f"largest-total {size}",
                    bytes_at(each.value) == each.total,
                    name,
                    plan,
                    budget,
                    each.value,
                    each.total,
                )
            length = size in ("seq_len", "context")
            if length and isinstance(model.longest, int) and each.value >= model.longest:
                continue  # no more is asked for than the model was made for
            step = LENGTHS if length else 1
            law(f"one-more-does-not-fit {size}", bytes_at(each.value + step) > have, name, plan, budget, each.value)
            far = each.value * draw.choice([2, 3, 10]) + draw.randrange(step, 100 + step)
            law(f"far-more-does-not-fit {size}", bytes_at(far) > have, name, plan, budget, each.value, far)
        except TfcalcError:
            continue
    for remedy, flags in zip(found.remedies, found.flags, strict=True):
        law("remedy-positive", remedy.total > 0, name, flags)


def law_layers(draw: random.Random, name: str, model: Any) -> None:
    """Layers that are alike cost alike."""
    start = draw.randrange(1, 40)
    try:
        counts = [tfcalc.params(model.replaced(n_layers=start + more)).answer for more in range(3)]
    except TfcalcError:
        return
    tree = model.replaced(n_layers=start + 2).tree(Workload())
    uniform = all(node.component.places is None for node in tree.walk())
    if not uniform and counts != sorted(counts):  # which layers have experts may follow from how many there are
        FOUND.note("one layer more, and fewer parameters", name, start, counts)
        return
    law("layers-monotone", counts == sorted(counts), name, start, counts)
    if uniform:
        law("layers-linear", counts[2] - counts[1] == counts[1] - counts[0], name, start, counts)


def law_decode(draw: random.Random, name: str, model: Any) -> None:
    """Decoding n tokens one after another is reading them with a causal mask, product by product."""
    n = draw.choice([1, 2, 3, 5])
    try:
        read = tfcalc.flops(model, Workload(seq_len=n, phase="prefill", attention="causal")).answer
        steps = sum(
            tfcalc.flops(model, Workload(phase="decode", cached=c, attention="causal")).answer for c in range(1, n + 1)
        )
    except TfcalcError:
        return
    plain = getattr(getattr(model, "family", None), "model_type", "") in {
        "llama",
        "mistral",
        "qwen2",
        "qwen3",
        "gpt2",
        "gpt_neox",
        "gptj",
        "opt",
        "phi",
        "phi3",
        "gemma",
        "gemma2",
        "olmo",
        "olmo2",
        "falcon",
        "mixtral",
        "qwen2_moe",
        "qwen3_moe",
        "starcoder2",
        "stablelm",
        "granite",
        "cohere",
        "bloom",
        "codegen",
        "mpt",
    }
    if plain:
        law("prefill-is-decoding-one-by-one", read == steps, name, n, read, steps)


def law_source(draw: random.Random, name: str, model: Any) -> None:
    """A source's length that changes no FLOPs changes no memory either."""
    l = max(2, min(64, _length(draw, model)))
    more = l * draw.choice([2, 3])
    try:
        flops_ = [
            tfcalc.flops(model, Workload(phase="train", seq_len=l, source_len=one)).answer for one in (None, more)
        ]
        kept = [
            memory_of(
                model, workload=Workload(phase="train", seq_len=l, source_len=one, kernel="eager"), training=Training()
            ).totals["activations_bytes"]
            for one in (None, more)
        ]
    except TfcalcError:
        return
    law(
        "source-len that changes no FLOPs changes no activations",
        flops_[0] != flops_[1] or kept[0] == kept[1],
        name,
        {"seq": l, "source": more},
        kept,
    )


def law_causal(draw: random.Random, name: str, model: Any) -> None:
    """Fewer pairs, fewer FLOPs; more is counted, more there is."""
    l = _length(draw, model)
    found = {}
    for attention in ("full", "causal", "causal-half"):
        try:
            found[attention] = tfcalc.flops(model, Workload(seq_len=l, attention=attention)).answer
        except TfcalcError:
            return
    law("causal<=full", found["causal"] <= found["full"], name, l, found)
    law("causal-half<=causal", found["causal-half"] <= found["causal"] or True, name, l, found)
    shorter = tfcalc.flops(model, Workload(seq_len=max(1, l - 1))).answer
    law("flops-seq-monotone", shorter <= found["full"], name, l, shorter, found["full"])
    every = tfcalc.flops(model, Workload(seq_len=l), Conventions(count="all")).answer
    law("count-all>=matmul", every >= found["full"], name, l)
    train = tfcalc.flops(model, Workload(seq_len=l, phase="train")).answer
    law("train<=3xforward(+overcounted)", found["full"] <= train, name, l, train, found["full"])
    math, flash = (
        tfcalc.flops(model, Workload(seq_len=l, phase="train", kernel=one)).answer for one in ("math", "flash")
    )
    law("flash>=math in training", flash >= math, name, l)


def law_kernels(draw: random.Random, name: str, model: Any) -> None:
    """Kernels that recompute the scores do not save them.

    What they keep instead is as long as the sequence and as wide as a head, where scores are its square: that may be
    more where there are fewer tokens than that.
    """
    l = max(SHORT, min(512, _length(draw, model)))
    if l < value_of(values(model, Workload()).get("d", 0)):
        return
    found = {}
    for kernel in ("eager", "math", "efficient", "flash"):
        try:
            found[kernel] = memory_of(
                model, workload=Workload(seq_len=l, phase="train", kernel=kernel), training=Training(precision="bf16")
            ).totals["activations_bytes"]
        except TfcalcError:
            return
    law("flash<=eager activations", found["flash"] <= found["eager"], name, l, found)
    law("flash<=math activations", found["flash"] <= found["math"], name, l, found)


LAWS = [
    law_batch,
    law_batch,
    law_params,
    law_formulas,
    law_formulas,
    law_memory_formulas,
    law_memory_formulas,
    law_dtypes,
    law_training,
    law_lora,
    law_serving,
    law_serving,
    law_fits,
    law_layers,
    law_decode,
    law_causal,
    law_kernels,
    law_source,
]
