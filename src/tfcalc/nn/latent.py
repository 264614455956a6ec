"""Multi-head latent attention: keys and values of all heads are made of one vector for each token."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.component import Cached
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.module import Context, Module
from tfcalc.ops.attention import rotary
from tfcalc.ops.elementwise import activation, mul, pointwise, scaled
from tfcalc.ops.shapes import cat, contiguous, copied_into, expand, merge_heads, reshape, split, transpose
from tfcalc.ops.work import LATENT, ROTATED, by_token
from tfcalc.tape.tensor import Tensor


class LatentGate(Linear):
    """Gate of the heads' output, which is multiplied by this map's sigmoid: one number per head, or for ``each_value``.

    The sigmoid may be in fp32, and what comes of it in the format of what the map read (``in_float32``). A program may
    make the gate ``first``, before queries and keys.

    Source: arXiv 2505.06708; transformers' BailingHybridAttention, Dots3NoteTextAttention, HYV4Attention.
    """

    each_value: bool = False
    in_float32: bool = False
    first: bool = False

    def opened(self, made: Tensor, gate: Tensor, x: Tensor, values: Num) -> Tensor:
        """Return the gated heads, b × l × a·d, of b × a × l × d and the ``gate`` that the map has made of ``x``."""
        trace, (b, heads, l, width) = made.trace, made.shape
        gate = trace.to(gate, "float32") if self.in_float32 else gate
        gate = sigmoid(gate)
        gate = trace.to(gate, x.dtype) if self.in_float32 else gate
        gate = reshape(gate, b, l, heads, width if self.each_value else 1)
        return reshape(mul(transpose(made, 1, 2), gate), b, l, values)


def sigmoid(gate: Tensor) -> Tensor:
    """Return the sigmoid of the gate: how far it is open."""
    return activation("sigmoid", gate, lambda: pointwise("sigmoid", gate), "gate")


class LatentAttention(Attention):
    """Keys and values of all heads are made of a latent vector of ``kv_rank``; a rotated key part is shared by all.

    Of a head's query and key ``nope_dim`` numbers are not rotated. The ``inward`` maps are those of queries (one, or
    two through a vector of low rank), the one down to the latent vector and the rotated part, and the one that makes
    keys and values of it; the last of ``norms`` is that of the latent vector, one before it that of queries. A key part
    of ``shared_dim`` may be shared though nothing knows positions, and the shared part may have a norm (``key_norm``).
    What the heads made may have a ``gate``. Of cached tokens a query may see the last ``window``.

    As transformers runs it, keys and values are expanded from the latent vectors, those of cached tokens again at every
    step. Absorbed (``Workload.latent``), the same matrix is applied to queries and outputs instead, and every head
    attends to the latent vectors themselves (DeepSeek-V2, section 2.1.2).

    Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1; transformers' DeepseekV3Attention.
    """

    kv_rank: Num = 0
    nope_dim: Num = 0
    shared_dim: Num = 0
    key_norm: Norm | None = None
    gate: LatentGate | None = None
    scales: str = ""
    copies_latent: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """The parts in the order in which they run."""
        *queries, down, up = self.inward
        normed = [queries[0], self.norms[0], queries[1]] if len(queries) == 2 else queries
        more = (each for each in (self.key_norm, self.gate, self.sinks) if each is not None)
        return iter((*normed, down, self.norms[-1], up, *more, self.output))

    @property
    def rope_dim(self) -> Num:
        """Number of elements of a query and a key that are rotated, or might be."""
        return self.shared_dim if self.rope is None else self.rope.width

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``, of b × l × h."""
        gate = self._early(x)
        return self._attending(x, self._queries(x, ctx), ctx, gate=gate)

    def _early(self, x: Tensor) -> Tensor | None:
        """The gate, where it is made before all else."""
        return self.gate(x) if self.gate is not None and self.gate.first else None

    def _attending(
        self, x: Tensor, q: Tensor, ctx: Context, read: Tensor | None = None, gate: Tensor | None = None
    ) -> Tensor:
        """The rest, with queries that may have been made of what something else has ``read``, and a ``gate``."""
        b, l = q.shape[:2]
        up = self.inward[-1]
        q = transpose(reshape(q, b, l, self.heads, self.key_dim), 1, 2)
        latent, k_turned = self.latents(x, ctx)
        latent = reshape(latent, b, 1, l, self.kv_rank)
        k_turned = reshape(k_turned, b, 1, l, self.rope_dim)
        k_turned = k_turned if self.key_norm is None else self.key_norm(k_turned, ctx)
        if self.rope is not None:
            q_passed, q_turned = split(q, [self.nope_dim, self.rope_dim])
            if self.scales == "queries":
                q_passed, q_turned = scaled(q_passed), scaled(q_turned)
            q_turned, k_turned = self._turned(q_turned, k_turned, ctx)
        latent, k_turned = self.update_cache(latent, k_turned, ctx)
        q = q if self.rope is None else cat([q_passed, q_turned])
        # whether matrices are absorbed is asked of what is counted alone; transformers expands
        if ctx.run.latent == "absorbed" and not x.trace.emits_kernels:
            ctx = self.choosing(x, read, ctx)
            new = x.trace.view(latent, (b, 1, l, self.kv_rank), None)
            return self.output(self.merge(self._absorbed(q, up(new), ctx), x, gate))
        k, v = self._expanded(up(latent), k_turned)
        ctx = self.choosing(x, read, ctx)
        return self.output(self.merge(self.attend(q, k, v, ctx), x, gate))

    def latents(self, x: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """Return the latent vector that keys and values are made of, normed, and the key part that is rotated."""
        latent, turned = split(self.inward[-2](x), [self.kv_rank, self.rope_dim])
        return self.normed(latent, ctx), turned

    def normed(self, latent: Tensor, ctx: Context) -> Tensor:
        """Return the norm of latent vectors."""
        latent = self.norms[-1](contiguous(latent) if self.copies_latent else latent, ctx)
        return scaled(latent) if self.scales else latent

    def merge(self, made: Tensor, x: Tensor, gate: Tensor | None) -> Tensor:
        """The heads side by side, times their gate."""
        width = self.heads * self.value_dim
        if self.gate is None:
            return merge_heads(made, width)
        return self.gate.opened(made, self.gate(x) if gate is None else gate, x, width)

    def choosing(self, x: Tensor, read: Tensor | None, ctx: Context) -> Context:
        """Return the context with the keys that are seen, where something chooses among them."""
        return ctx

    def _queries(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the queries, made of ``x`` itself or of a vector of low rank."""
        first, *more = self.inward[:-2]
        made = first(x)
        return more[0](self.low_rank(made, ctx)) if more else made

    def low_rank(self, x: Tensor, ctx: Context) -> Tensor:
        """The vector that queries are made of, normed."""
        made = self.norms[0](x, ctx)
        return scaled(made) if self.scales == "latents" else made

    def _turned(self, q: Tensor, k: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        return rotary(q, k, self.rope_dim, lambda: ctx.backend.rotate(q, k, self, ctx))

    def _expanded(self, both: Tensor, turned: Tensor) -> tuple[Tensor, Tensor]:
        """Keys are new memory, which their part and the rotated part are copied into; values stay a view."""
        b, _, s, _ = both.shape
        both = transpose(reshape(both, b, s, self.heads, self.nope_dim + self.value_dim), 1, 2)
        k, v = split(both, [self.nope_dim, self.value_dim])
        return copied_into([k, expand(turned, b, self.heads, s, self.rope_dim)], both.dtype), v

    def _absorbed(self, q: Tensor, expanded: Tensor, ctx: Context) -> Tensor:
        """Return the heads' output where each head attends to the latent vectors and the rotated key.

        The matrix that expands them is as large a product when it is applied to queries and outputs of new tokens.
        """
        b, a, l, _ = q.shape
        q = q.trace.view(q, (b, a, l, self.kv_rank + self.rope_dim), None)
        k, v = (q.trace.view(expanded, (b, 1, l, width), None) for width in (q.width, self.kv_rank))
        made = self.attend(q, k, v, ctx)
        return made.trace.view(made, (b, a, l, self.value_dim), None)

    def cached(self, ctx: Context) -> tuple[Cached, ...]:
        """Cache entries: the latent vector and the rotated key of each token."""
        return by_token(ctx.stream, ctx.stream, 1, {LATENT: self.kv_rank, ROTATED: self.rope_dim}, window=self.window)
