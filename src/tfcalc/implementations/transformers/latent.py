"""Multi-head latent attention: keys and values of all heads are made of one vector for each token."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.implementations.transformers.attend import Shape, mixed
from tfcalc.implementations.transformers.attention import cached
from tfcalc.implementations.transformers.gates import gate_of, gated
from tfcalc.implementations.transformers.rotation import halves_turned, rotated_width
from tfcalc.implementations.transformers.running import Running, by_letter, of_kind
from tfcalc.tape.value import Value


def is_latent(part: Component) -> bool:
    """Whether it has a map down to such a vector."""
    return "W_DKV" in by_letter(part)


def latent_attention(m: Running, part: Component, x: Value) -> Value:
    """Queries; the latent vector, and the part of the key that is rotated; keys and values of all heads.

    Source: transformers' DeepseekV2Attention and DeepseekV3Attention, ``expand_kv``.
    """
    t, maps, sizes = m.t, by_letter(part), latent_shape(m, part)
    rope, tokens = rotated_width(part), m.stream.tokens
    q = _queries(m, part, x)
    both = m(maps["W_DKV"], x)
    shared = tokens * rope
    latent, k_turned = t.split(both, [both.elements - shared, shared])
    del both
    for norm in (leaf for leaf in part.parts if leaf.name == "k_rope_only_layernorm"):  # dots 3 copies the other then
        latent, k_turned = t.copied(latent, latent.elements, "contiguous"), m(norm, k_turned)
    latent = m(next(leaf for leaf in part.parts if leaf.name == "kv_a_layernorm"), latent)
    q_passed, q_turned = t.split(q, [q.elements - shared * sizes.heads, shared * sizes.heads])
    del q
    q_turned, k_turned = (halves_turned(m, part, each) for each in (q_turned, k_turned))
    if m.cache is not None:
        latent, k_turned, sizes = cached(m, m.cache.of(m), sizes, latent, k_turned)
    q = t.joined([q_passed, q_turned], sizes.queries)
    k, v = _expanded(m, part, sizes, latent, k_turned)
    return m(maps["W_O"], gated(m, part, mixed(m, sizes, q, k, v), gate_of(m, part, x)))


def latent_shape(m: Running, part: Component) -> Shape:
    """The sizes of all heads' queries, keys and values."""
    keys, values = of_kind(part, "attend").own.products
    a, d_k = keys.factors[-2:]
    d_v, tokens = values.factors[-1], m.stream.tokens
    return Shape(
        queries=tokens * a * d_k,
        keys=tokens * a * d_k,
        values=tokens * a * d_v,
        scores=tokens * m.stream.length * a,
        mixed=tokens * a * d_v,
        heads=a,
        all_keys=tokens * a * d_k,
        all_values=tokens * a * d_v,
    )


def _queries(m: Running, part: Component, x: Value) -> Value:
    """Of x itself, or of a vector of low rank."""
    maps = by_letter(part)
    if "W_Q" in maps:
        return m(maps["W_Q"], x)
    normed = m(next(leaf for leaf in part.parts if leaf.name == "q_a_layernorm"), m(maps["W_DQ"], x))
    return m(maps["W_UQ"], normed)


def _expanded(m: Running, part: Component, sizes: Shape, latent: Value, turned: Value) -> tuple[Value, Value]:
    """Keys are new memory, which the latent vector's part and the rotated part are copied into; values stay a view."""
    t = m.t
    both = m(by_letter(part)["W_UKV"], latent)
    k, v = t.split(both, [both.elements - sizes.values, sizes.values])
    keys = t.result("copy_", [k, turned], sizes.keys, both.dtype)
    return keys, v.view(heads=True)
