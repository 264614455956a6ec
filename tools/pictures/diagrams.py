"""Drawings of what a model consists of: stacks, attention, products, patterns, caches."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc import Serving, Transformer, Workload, explain, formula, load, memory
from tfcalc.core.notation import write
from tfcalc.core.patterns import Pattern
from tfcalc.core.traced import value_of
from tfcalc.model import Model
from tools.pictures.svg import WIDTH, Picture

SIZE, HEADS, LAYERS = 512, 8, 6
CLASSIC = Transformer(d_model=SIZE, n_heads=HEADS, n_layers=LAYERS)
"""torch.nn.Transformer, with the sizes of 2017."""


def stacks() -> Picture:
    """torch.nn.Transformer with the sizes of 2017, each module with its parameters and FLOPs."""
    params = {name: str(formula(name)) for name in ("mha", "ffn", "ln", "encoder-layer", "decoder-layer", "core")}
    costs = {name: str(formula(name, "flops")) for name in ("mha", "ffn", "core")}
    total = formula("core").at(h=SIZE, n=LAYERS)
    drawing = Picture(
        "An encoder stack and a decoder stack, with parameters and FLOPs",
        f"An encoder layer has attention, {params['mha']} parameters, a feed-forward network, {params['ffn']}, and two "
        f"norms of {params['ln']}: {params['encoder-layer']}. A decoder layer has a second attention, which reads the "
        f"encoder's output, and a third norm: {params['decoder-layer']}. {LAYERS} layers of each and a norm "
        f"after each stack make {params['core']}, {total:,} at h = {SIZE}.",
        368,
    )
    bottom, wide = 276, 152
    tops = {}
    for x, stack, layer in ((14, "encoder", "encoder-layer"), (194, "decoder", "decoder-layer")):
        y = bottom
        modules = [("self-attention", "mha", "blue"), ("feed-forward", "ffn", "orange")]
        if stack == "decoder":
            modules.insert(1, ("cross-attention", "mha", "purple"))
        for name, part, colour in modules:
            y -= 42
            drawing.rect(x, y, wide, 36, colour)
            drawing.text(x + 7, y + 15, name)
            drawing.text(x + 7, y + 30, costs[part], size=10, style="mono")
            drawing.text(x + wide - 7, y + 30, params[part], size=11, anchor="end", style="mono")
            tops[name, stack] = y
            y -= 24
            drawing.rect(x, y, wide, 18, "green")
            drawing.text(x + 7, y + 13, "add, norm", size=11)
            drawing.text(x + wide - 7, y + 13, params["ln"], size=11, anchor="end", style="mono")
        drawing.frame(x - 7, y - 9, wide + 14, bottom - y + 10)
        drawing.text(x, y - 15, f"{stack} layer, n times", style="strong")
        drawing.rect(x, y - 52, wide, 18, "green")
        drawing.text(x + 7, y - 39, "final norm", size=11)
        drawing.text(x + wide - 7, y - 39, params["ln"], size=11, anchor="end", style="mono")
        tops["end", stack] = y - 52
        drawing.text(x + wide / 2, bottom + 19, params[layer], anchor="middle", style="mono strong")
        drawing.text(x + wide / 2, bottom + 34, "parameters of a layer", size=11, anchor="middle", colour="dim")
    into = tops["cross-attention", "decoder"] + 18
    left = tops["end", "encoder"] + 9
    drawing.arrow([(14 + wide, left), (181, left), (181, into), (194, into)], "purple")
    drawing.text(14, bottom + 58, f"{params['core']} = {total:,} parameters", style="mono", size=11)
    drawing.text(14, bottom + 75, f"{costs['core']} FLOPs of a forward pass", style="mono", size=11)
    drawing.text(14, 18, "right: parameters", size=11, colour="dim")
    drawing.text(14, 33, "left: FLOPs, forward", size=11, colour="dim")
    return drawing


def attention() -> Picture:
    """The products of attention as rectangles to scale."""
    length, width, heads = 320, SIZE, HEADS
    run = Workload(seq_len=length)
    rows = {row.names[0]: row for row in explain("mha", CLASSIC, "flops", run).lines}
    told = ", ".join(f"{name} {row.value:,}" for name, row in rows.items())
    scale = 100 / width
    tall, wide, thin = length * scale, width * scale, width / heads * scale
    drawing = Picture(
        "Attention as rectangles to scale",
        f"{length} tokens of width {width}, {heads} heads of width {width // heads}. X, {length} by {width}, times "
        f"three weights of {width} by {width} gives Q, K and V. For each head Q, {length} by {width // heads}, times K "
        f"transposed gives a square of {length} by {length} scores, and the square times V a strip as wide as a head. "
        f"The joined strips times W_O give the output. FLOPs, of all heads: {told}.",
        458,
    )

    def caption(y: float, words: str, name: str) -> None:
        row = rows[name]
        drawing.text(12, y, words, style="strong")
        drawing.text(
            WIDTH - 12, y, f"{write(row.formula)} = {row.value / 1e6:,.0f}M", size=11, anchor="end", style="mono"
        )

    def strips(x: float, y: float) -> None:
        for head in range(heads):
            drawing.rect(x + head * thin, y, thin, tall, "blue" if head == 0 else "green")

    caption(20, "three projections", "X W_Q")
    drawing.rect(12, 32 + (wide - tall) / 2, wide, tall, "dim")
    drawing.text(12 + wide / 2, 36 + wide / 2, "X", anchor="middle", style="mono")
    drawing.text(121, 36 + wide / 2, "·", anchor="middle", style="strong")
    for back in (8, 4, 0):
        drawing.sheet(130 + back, 40 - back, wide, wide, "orange")
    drawing.text(130 + wide / 2, 44 + wide / 2, "W_Q W_K W_V", anchor="middle", style="mono", size=11)
    drawing.text(243, 36 + wide / 2, "=", anchor="middle", style="strong")
    strips(250, 32 + (wide - tall) / 2)
    drawing.text(250 + wide / 2, 46 + wide / 2 + tall / 2, "Q (K, V): 8 heads", anchor="middle", size=11, colour="dim")

    y = 190.0
    caption(y - 16, f"scores of all {heads} heads", "Q Kᵀ")
    drawing.rect(40, y, thin, tall, "blue")
    drawing.text(40 + thin / 2, y + tall + 14, "Q", anchor="middle", style="mono", size=11)
    drawing.text(68, y + tall / 2 + 4, "·", style="strong")
    drawing.rect(86, y + (tall - thin) / 2, tall, thin, "blue")
    drawing.text(86 + tall / 2, y + tall + 14, "Kᵀ", anchor="middle", style="mono", size=11)
    drawing.text(164, y + tall / 2 + 4, "=", style="strong")
    for back in range(heads - 1, -1, -1):
        drawing.sheet(190 + 3 * back, y + 3 * (heads - 1 - back) - 3 * (heads - 1) / 2, tall, tall, "purple")
    drawing.text(190 + tall / 2, y + tall / 2 + 15, "l × l", anchor="middle", style="mono", size=11)
    drawing.text(282, y + tall / 2, "softmax:", size=11, colour="dim")
    drawing.text(282, y + tall / 2 + 14, "rows of P", size=11, colour="dim")

    y, last = 316.0, rows["X W_O"]
    caption(y - 16, f"mixed values of all {heads} heads; then W_O", "P V")
    drawing.text(
        WIDTH - 12, y - 1, f"{write(last.formula)} = {last.value / 1e6:,.0f}M", size=11, anchor="end", style="mono"
    )
    y += 8
    drawing.rect(12, y + (wide - tall) / 2, tall, tall, "purple")
    drawing.text(12 + tall / 2, y + wide / 2 + 4, "P", anchor="middle", style="mono")
    drawing.text(83, y + wide / 2 + 4, "·", style="strong")
    drawing.rect(94, y + (wide - tall) / 2, thin, tall, "blue")
    drawing.text(94 + thin / 2, y + wide / 2 + tall / 2 + 14, "V", anchor="middle", style="mono", size=11)
    drawing.text(112, y + wide / 2 + 4, "→", style="strong")
    strips(130, y + (wide - tall) / 2)
    drawing.text(130 + wide / 2, y + wide / 2 + tall / 2 + 14, "heads joined", anchor="middle", size=11, colour="dim")
    drawing.text(238, y + wide / 2 + 4, "·", style="strong")
    drawing.rect(248, y, wide, wide, "orange")
    drawing.text(248 + wide / 2, y + wide / 2 + 4, "W_O", anchor="middle", style="mono")
    drawing.text(
        12, 448, f"b = 1, l = {length}, h = {width}, a = {heads}, d = {width // heads}; to scale", size=11, colour="dim"
    )
    return drawing


def products() -> Picture:
    """A linear layer and its two products in backward."""
    rows, width, outputs = 320, SIZE, 768
    model = CLASSIC.replaced(vocab_size=outputs)
    forward, step = (
        explain("output", model, "flops", Workload(seq_len=rows, phase=phase)).answer for phase in ("forward", "train")
    )
    weights = rows * width * outputs
    per_weight, backward = forward / weights, (step - forward) / weights
    drawing = Picture(
        "Y = X W, and the two products of its backward pass",
        f"X, {rows} by {width}, times W, {width} by {outputs}, gives Y: {forward:,} FLOPs, {per_weight:.0f} for each "
        f"weight and row. In backward dW is X transposed times dY, and dX is dY times W transposed, each as many "
        f"FLOPs: {backward:.0f} for each weight and row. A training step has {step / weights:.0f}.",
        390,
    )
    k, n, m = (size * 0.115 for size in (width, outputs, rows))

    def product(
        y: float, names: tuple[str, str, str], sizes: tuple[tuple[float, float], ...], words: str, cost: float
    ) -> None:
        colours = {"X": "blue", "W": "orange", "Y": "green"}
        high = max(tall for tall, _ in sizes)
        drawing.text(12, y, words, style="strong")
        drawing.text(WIDTH - 12, y, f"{cost:.0f}·lb·K·N = {forward / 1e6:,.0f}M", size=11, anchor="end", style="mono")
        middle, x = y + 12 + high / 2, 12.0
        for name, (tall, wide), sign in zip(names, sizes, ("=", "·", ""), strict=True):
            drawing.rect(x, middle - tall / 2, wide, tall, colours[name.strip("dᵀ")])
            drawing.text(x + wide / 2, middle + 4, name, anchor="middle", style="mono")
            x += wide + 8
            drawing.text(x, middle + 4, sign, style="strong", anchor="middle")
            x += 10

    product(20, ("Y", "X", "W"), ((m, n), (m, k), (k, n)), "forward", per_weight)
    product(124, ("dW", "Xᵀ", "dY"), ((k, n), (k, m), (m, n)), "backward: the weight's gradient", backward / 2)
    product(228, ("dX", "dY", "Wᵀ"), ((m, k), (m, n), (n, k)), "backward: the input's gradient", backward / 2)
    drawing.text(
        12,
        362,
        f"{per_weight:.0f} + {backward:.0f} = {step / weights:.0f} FLOPs per weight and token: the 6 of 6ND",
        style="strong",
    )
    drawing.text(12, 380, f"lb = {rows} rows, K = {width}, N = {outputs}; to scale", size=11, colour="dim")
    return drawing


SEES: dict[str, Callable[[int, int, int], bool]] = {
    "local": lambda query, key, k: abs(query - key) <= k,
    "atrous": lambda query, key, k: (query - key) % k == 0,
    "sparse": lambda query, key, k: abs(query - key) <= k or (query - key) % k == 0,
    "sliding": lambda query, key, k: abs(query - key) < k,
    "chunked": lambda query, key, k: query // k == key // k,
}


def patterns() -> Picture:
    """Which pairs of query and key each pattern uses."""
    length, reach, cell, room = 16, 4, 6.25, 114
    pairs = {kind: value_of(Pattern(kind, reach).pairs(length)) for kind in SEES}
    causal = {kind: (count + length) // 2 for kind, count in pairs.items()}
    told = "; ".join(f"{kind}:{reach} {count} pairs, {causal[kind]} of them causal" for kind, count in pairs.items())
    drawing = Picture(
        "Five patterns of attention, and all pairs",
        f"{length} queries by {length} keys. All pairs are {length**2}. {told}.",
        312,
    )
    for place, kind in enumerate(("all pairs", *SEES)):
        left, top = 10 + place % 3 * (room + 3), 10 + place // 3 * 140
        seen = [
            (query, key)
            for query in range(length)
            for key in range(length)
            if kind not in SEES or SEES[kind](query, key, reach)
        ]
        counted = pairs.get(kind, length**2)
        if len(seen) != counted:
            raise ValueError(f"{kind}: {len(seen)} pairs are drawn of {counted}")
        for allowed, colour in ((True, "blue"), (False, "dim")):
            drawing.cells(
                [(left + key * cell, top + query * cell) for query, key in seen if (key <= query) == allowed],
                cell,
                colour,
            )
        drawing.frame(left, top, length * cell, length * cell)
        drawing.text(left, top + 116, kind if kind not in SEES else f"{kind}:{reach}", style="strong")
        drawing.text(left + 100, top + 116, f"{counted}", anchor="end", style="mono", size=11)
    drawing.text(10, 288, f"{length} queries (rows), {length} keys; at each name its pairs", size=11, colour="dim")
    drawing.text(10, 304, "blue: what a causal mask leaves", size=11, colour="dim")
    return drawing


def caches() -> Picture:
    """What a token leaves in the cache of a layer: many heads, groups, one group, a latent vector."""
    llama, latent = load("llama-3-8b"), load("deepseek-v3")

    def numbers(model: Model, layers: int) -> int:
        served = memory(model, serving=Serving(context=1024, kv="bf16")).totals
        return int(served["kv_cache_bytes"]) // 1024 // layers // 2

    heads = 32
    rows = [
        (f"MHA: {heads} heads, {heads} pairs of K and V", numbers(llama.replaced(n_kv_heads=heads), 32), heads),
        ("GQA: 4 heads share a pair", numbers(llama, 32), 8),
        ("MQA: all heads share a pair", numbers(llama.replaced(n_kv_heads=1), 32), 1),
        ("MLA: a latent vector, a rotated key", numbers(latent, 61), 0),
    ]
    drawing = Picture(
        "What a token leaves in the cache: MHA, GQA, MQA and MLA",
        "Numbers per token and layer: " + "; ".join(f"{name}: {count:,}" for name, count, _ in rows) + ".",
        338,
    )
    scale = 336 / rows[0][1]
    for place, (name, count, groups) in enumerate(rows):
        y = 20 + place * 74
        drawing.text(12, y, name, style="strong")
        drawing.text(348, y, f"{count:,}", anchor="end", style="mono")
        step = 336 / heads
        if groups:
            each = heads // groups
            for head in range(heads):
                drawing.rect(12 + head * step + 1, y + 8, step - 2, 8, "dim")
            for group in range(groups):
                middle = 12 + (group + 0.5) * each * step
                drawing.line([(12 + group * each * step + 2, y + 19), (12 + (group + 1) * each * step - 2, y + 19)])
                drawing.line([(middle, y + 19), (middle, y + 24)])
            for group in range(groups):
                drawing.rect(12 + group * count / groups * scale, y + 26, count / groups * scale / 2, 20, "blue")
                drawing.rect(
                    12 + (group + 0.5) * count / groups * scale, y + 26, count / groups * scale / 2, 20, "orange"
                )
        else:
            for head in range(heads):
                drawing.rect(12 + head * step + 1, y + 8, step - 2, 8, "dim")
            drawing.line([(14, y + 19), (346, y + 19)])
            drawing.rect(12, y + 26, 512 * scale, 20, "purple")
            drawing.rect(12 + 512 * scale, y + 26, (count - 512) * scale, 20, "green")
    drawing.text(12, 312, "grey: query heads; blue, orange: keys, values; to scale", size=11, colour="dim")
    drawing.text(12, 327, "purple, green: latent vector, rotated key (DeepSeek-V3)", size=11, colour="dim")
    return drawing
