"""Linear maps, norms, activations and tables, as transformers' modules write them."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.implementations import kernels
from tfcalc.implementations.transformers.layer_norms import LAYERNORMS
from tfcalc.implementations.transformers.running import Running
from tfcalc.tape.ledger import WIDTHS
from tfcalc.tape.value import Value


def linear(m: Running, part: Component, x: Value) -> Value:
    """torch.nn.Linear (and GPT-2's Conv1D)."""
    weights = [m.weight(tensor) for tensor in part.own.weights]
    rows, width = part.own.products[0].factors[1], part.own.weights[0].shape[1]
    bias = weights[1] if len(weights) > 1 else None
    packed = m.t.numerics.packed and part.kind == "linear" and not weights[0].needs_gradient
    unpacked = weights[0].elements * WIDTHS[m.t.numerics.compute] if packed else 0
    weight = m.t.lower(weights[0]) if m.habits.turns_weights and part.kind == "linear" else weights[0]
    made = m.t.linear(x, weight, bias, rows, width, unpacked=unpacked)
    return made if id(part) not in m.adapters else adapted(m, part, x, made)


def adapted(m: Running, part: Component, x: Value, made: Value) -> Value:
    """``made + (x A) B · α/r`` (peft's LoRA layer, without dropout)."""
    for each in m.adapters[id(part)]:
        with m.t.inside(each.name):
            x = linear(m, each, x)
    return m.t.add(made, m.t.scaled(x))


def norm(m: Running, part: Component, x: Value) -> Value:
    """A norm of rows that are as wide as the leaf says."""
    return normed(m, part, x, divide(x.elements, part.own.elementwise[0].width))


def normed(m: Running, part: Component, x: Value, rows: Num) -> Value:
    """LayerNorm is one kernel in most families; an RMSNorm is written in Python."""
    weight, bias, *_ = *(m.weight(tensor) for tensor in part.own.weights), None, None
    if part.own.elementwise[0].name.startswith("layernorm"):
        return LAYERNORMS[m.habits.layernorm](m, x, rows, weight, bias)
    return RMSNORMS[m.habits.rmsnorm](m, x, rows, weight)


def llama_norm(m: Running, x: Value, rows: Num, weight: Value | None) -> Value:
    """LlamaRMSNorm: a copy in fp32, its squares, 1/rms, and their product in the first format, times the weight."""
    t, kind = m.t, x.dtype
    x = t.to(x, "float32")
    variance = t.mean(t.pow(x), rows)
    x = t.mul(x, t.of_result("rsqrt", t.upper(t.scaled(variance))))
    lower = t.to(x, kind)  # the variable in fp32 is there until the end
    return lower if weight is None else t.mul(lower, weight)


def gemma_norm(m: Running, x: Value, rows: Num, weight: Value | None) -> Value:
    """GemmaRMSNorm: all in fp32, times 1 + weight, which is made anew; then in the first format."""
    t = m.t
    normed = over_rms(m, t.to(x, "float32"), rows)
    if weight is not None:
        normed = t.mul(normed, t.scaled(t.to(weight, "float32"), "1 + weight"))
    return t.to(normed, x.dtype)


def over_rms(m: Running, x: Value, rows: Num) -> Value:
    """``x · rsqrt(mean(x²) + ε)``."""
    t = m.t
    return t.mul(x, t.of_result("rsqrt", t.upper(t.scaled(t.mean(t.pow(x), rows)))))


def t5_norm(m: Running, x: Value, rows: Num, weight: Value | None) -> Value:
    """T5LayerNorm: the squares are those of a copy in fp32, but it is ``x`` itself that is multiplied."""
    t = m.t
    variance = t.mean(t.pow(t.to(x, "float32")), rows)
    x = t.to(t.mul(x, t.of_result("rsqrt", t.upper(t.scaled(variance)))), t.numerics.weights)
    return x if weight is None else t.mul(x, weight)


def olmo_norm(m: Running, x: Value, rows: Num, weight: Value | None) -> Value:
    """Olmo2RMSNorm: times the weight in fp32, and only then in the first format."""
    t, kind = m.t, x.dtype
    x = over_rms(m, t.to(x, "float32"), rows)
    return t.to(x if weight is None else t.mul(weight, x, x.elements), kind)


def helium_norm(m: Running, x: Value, rows: Num, weight: Value | None) -> Value:
    """HeliumRMSNorm: the same, with a copy of the weight in fp32."""
    return olmo_norm(m, x, rows, weight if weight is None else m.t.to(weight, "float32"))


RMSNORMS = {
    "fused": kernels.rms_norm,
    "gemma": gemma_norm,
    "helium": helium_norm,
    "llama": llama_norm,
    "olmo": olmo_norm,
    "t5": t5_norm,
}


def embedding(m: Running, part: Component, x: Value) -> Value:
    """The words' vectors. The first table is what tied heads mean."""
    tensor = part.own.weights[0]
    weight = m.weight(tensor)
    for name in ("embedding", part.name):
        m.tied(name, weight)
    if part.own.lookups == 0:  # it is stored here, and looked up elsewhere
        return x
    x = m.t.embedding(weight, m.ids, tensor.shape[1])
    if "embedding" not in m.habits.multiplied:
        return x
    return m.t.mul(x, Value(m.t.new(1, x.dtype, "scale"), 1, x.dtype)) if m.habits.keeps_multiplier else m.t.scaled(x)


def positions(m: Running, part: Component) -> Value:
    """The vectors of the positions."""
    if not part.own.weights:  # sines of a buffer, read anew
        size = m.stream.tokens * part.own.buffers[0].shape[1] if part.own.buffers else part.own.elementwise[0].elements
        return Value(m.t.new(size, m.t.numerics.weights, "positions"), size, m.t.numerics.weights)
    kind, tensor = m.habits.positions, part.own.weights[0]
    if part.name.startswith(("x_", "y_", "h_", "w_")):
        places = on_page(m, part)
    elif kind == "buffer":
        places = m.t.given(m.stream.length, "int64")
    else:
        by_token = kind == "tokens" or (kind == "sides" and m.shared.memory is None)
        size = m.stream.tokens if by_token else m.stream.length
        places = Value(m.t.new(size, "int64", "positions"), size, "int64")
    m.shared = m.shared._replace(places=places)
    return m.t.embedding(m.weight(tensor), places, tensor.shape[1])


def on_page(m: Running, part: Component) -> Value:
    """LayoutLM's places: the corners of each token's box, of which ``x`` and ``y`` are views, its height and width."""
    if part.name.startswith("y_") and m.shared.places is not None:
        return m.shared.places
    size = m.stream.tokens * (4 if part.name.startswith("x_") else 1)
    return Value(m.t.new(size, "int64", "grid positions"), m.stream.tokens, "int64")


def segments(m: Running, part: Component) -> Value:
    """The vectors of the segments: zeros for each token, one row for all sequences, or a buffer."""
    tensor = part.own.weights[0]
    if m.habits.segments == "buffer":
        return m.t.embedding(m.weight(tensor), m.t.given(m.stream.tokens, "int64"), tensor.shape[1])
    by_token = m.habits.segments == "tokens" or "token_type" not in part.name  # ERNIE's tasks
    size = m.stream.tokens if by_token else m.stream.length
    kinds = Value(m.t.new(size, "int64", "segments"), size, "int64")
    return m.t.embedding(m.weight(tensor), kinds, tensor.shape[1])
