"""Modules of one GPU: sub-layers that several GPUs share, the layers of a stage, and the head."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.component import MLP, Component
from tfcalc.core.number import Num, Pairs, divide, product
from tfcalc.core.recomputation import FEED_FORWARD
from tfcalc.core.traced import known
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention, attentions
from tfcalc.nn.basic import Linear
from tfcalc.nn.latent import LatentAttention
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.collectives import (
    copied_to_all,
    cross_entropy_of_shares,
    dropped_duplicates,
    gathered_columns,
    gathered_sequence,
    gathered_tokens,
    handed_on,
    joined_columns,
    own_share,
    passed_around,
    received,
    regained_duplicates,
    scattered_sum,
    sent_back,
    sent_to_experts,
    summed_over_all,
)
from tfcalc.ops.elementwise import add, dropout, scaled
from tfcalc.ops.products import linear, plus_bias
from tfcalc.ops.shapes import reshape, split, transpose
from tfcalc.placed.layout import Layout, check_even
from tfcalc.tape.tensor import Tensor


def entering(x: Tensor, at: Layout) -> Tensor:
    """Enter a sub-layer that GPUs share: each reads all tokens."""
    if at.alone:
        return x
    return gathered_sequence(x, at.tp, again=at.gathers_again) if at.sequence_parallel else copied_to_all(x, at.tp)


def leaving(x: Tensor, at: Layout) -> Tensor:
    """Leave a sub-layer that GPUs share: sum their results, or reduce-scatter them over tokens."""
    if at.alone:
        return x
    return scattered_sum(x, at.tp) if at.sequence_parallel else summed_over_all(x, at.tp)


class TensorParallel(Module):
    """A sub-layer whose heads, or whose inner width, GPUs share. It is no module of its own in the tree."""

    part: Module
    at: Layout

    @property
    def kind(self) -> str:  # type: ignore[override]
        """Kind of the sub-layer."""
        return self.part.kind

    def components(self) -> Iterator[Component]:
        """Yield the sub-layer's components."""
        return self.part.components()

    def __call__(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layer on the tokens of all GPUs; where it is run again, it saves its own alone."""
        again = self.kind == FEED_FORWARD and MLP in ctx.run.modules_again

        def run(x: Tensor) -> Tensor:
            return self.part.forward(entering(x, self.at), ctx)

        with x.trace.inside(self.part):
            return x.trace.checkpoint(run, x) if again else run(x)


class RowParallel(Linear):
    """A linear map whose input features are split (RowParallelLinear): results are summed, then the bias is added."""

    at: Layout = Layout()

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Map each row, and sum over GPUs."""
        weight, *bias = map(x.trace.weight, self.own_params().weights)
        letter = self.letter or self.name
        partial = x.trace.adapted(self, x, linear(x, weight, letter=letter, packed=True))
        partial = leaving(partial, self.at)
        return plus_bias(partial, bias[0], letter=letter) if bias else partial


class FewerGroups(Attention):
    """Attention that more GPUs share than there are key and value heads (``groups``).

    Each GPU has a share of every matrix nevertheless, so their results are all-gathered; then each takes the heads that
    it needs, with a single key and value head.

    Source: Megatron-LM's ``Attention.get_query_key_value_tensors``.
    """

    groups: Num = 1
    devices: Num = 1

    def project(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Gather the columns of all GPUs, then split them into heads."""
        a, g, d, d_v = self.heads, self.kv_heads, self.key_dim, self.value_dim
        whole = gathered_columns([linear_map(source) for linear_map in self.inward], self.devices)
        q, k, v = split(whole, [a * d, g * d, g * d_v])
        q, k = self.norm_heads(q, 0, a, ctx), self.norm_heads(k, 1, g, ctx)
        v = x.trace.view(v, (*v.shape[:2], g, d_v), None)
        return transpose(q, 1, 2), transpose(k, 1, 2), transpose(v, 1, 2)


class ColumnParallel(Linear):
    """A linear map whose output features are split, and that reads the tokens of all GPUs (ColumnParallelLinear)."""

    at: Layout = Layout()

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Map each row."""
        return super().forward(entering(x, self.at))


class GatheredColumns(ColumnParallel):
    """One whose output is gathered: each GPU has all of it."""

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Map each row, and gather the columns."""
        made = super().forward(x)
        return made if self.at.alone else joined_columns(made, self.at.tp)


class LatentOnDevice(LatentAttention):
    """Latent attention whose heads GPUs share; each makes the latent vectors of its tokens, or a share of columns.

    Source: Megatron-LM's ``MLASelfAttention.get_query_key_value_tensors``.
    """

    at: Layout = Layout()

    def low_rank(self, x: Tensor, ctx: Context) -> Tensor:
        """Norm this GPU's tokens."""
        return super().low_rank(self._own(x), ctx)

    def latents(self, x: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """Return latent vectors of this GPU's tokens, gathered for the map up; and the rotated part of all tokens."""
        latent, turned = split(self.inward[-2](x), [self.kv_rank, self.rope_dim])
        latent = self.normed(self._own(latent), ctx)
        spread = not self.at.alone and self.at.sequence_parallel and not self.at.shares_latents
        return entering(latent, self.at), gathered_tokens(turned, self.at.tp) if spread else turned

    def _own(self, x: Tensor) -> Tensor:
        """Return what of these vectors the GPU keeps: of its own tokens alone, if they were made of all."""
        shares = not self.at.alone and self.at.sequence_parallel and self.at.shares_latents
        return own_share(x, self.at.tp) if shares else x


class ExpertParallel(Mixture):
    """A mixture whose experts GPUs share: ``experts`` are those of one, of ``count`` in all.

    Each GPU routes its own tokens with the whole router, and has a share of each shared expert. Of tokens that GPUs of
    tensor parallelism all have, DeepSpeed's takes its own, after the router, whose products of the others are not
    counted.

    Source: Megatron-LM's ``MoELayer``; DeepSpeed's moe/sharded_moe.py (``MOELayer``).
    """

    at: Layout = Layout()
    count: Num = 1

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Send tokens to the GPUs that have their experts, and back. Raises InvalidModel."""
        chosen, groups, sharing = self.experts.chosen, self.at.ep, self.at.of_an_expert
        drops = not self.at.alone and not self.at.sequence_parallel and ctx.run.training
        if drops:
            self._check_tokens(x)
        own = dropped_duplicates(x, chosen, self.at.tp) if drops else x
        rows = reshape(own, own.rows, own.width)
        sent = self.router.route(rows, ctx)
        made = self.experts.routed(sent_to_experts(rows, chosen, self.count, groups, sharing), sent, ctx)
        made = reshape(sent_back(made, chosen, groups, sharing), *own.shape)
        made = scaled(made) if self.scales else made
        made = regained_duplicates(made, chosen, self.at.tp) if drops else made
        for each in self.shared:
            made = add(made, self._opened(x, each(x, ctx)))
        return made

    def _check_tokens(self, x: Tensor) -> None:
        """Raise InvalidModel where tokens that all GPUs of tensor parallelism have cannot be shared out to experts."""
        tp = f"experts under tensor {self.at.tp:,} without sequence parallelism"
        if not self.at.drops_tokens:
            raise InvalidModel(f"{tp}, which Megatron-core does not train", "add --sequence-parallel")
        if known(self.at.of_an_expert) != 1:
            raise InvalidModel(f"{tp}, which GPUs share", "add --etp 1")
        check_even("tokens of a sequence", x.shape[1], "tensor", self.at.tp)


class Ring(Attention):
    """Attention to the keys of a whole sequence, of which each GPU has a share: keys and values go around a ring.

    A sequence is cut into twice as many pieces as there are GPUs, and each has one from its beginning and one from its
    end, so that all have as many pairs of queries and keys.

    Source: torch.distributed.tensor.experimental's ring attention; Llama 3 (arXiv 2407.21783), section 3.3.2.
    """

    around: Layout = Layout()

    def pairs(self, ctx: Context) -> Pairs:
        """Return this GPU's share of the pairs of the whole sequence."""
        stream, c = ctx.stream, self.around.cp
        whole = super().pairs(ctx._replace(stream=stream._replace(length=stream.length * c)))
        return whole._replace(twice=(divide(product(whole.twice), c),), scores=divide(whole.scores, c))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """Return the heads' output."""
        return super().attend(q, passed_around(k, v, self.around.cp), v, ctx, name)


class RingOfGroups(Ring, FewerGroups):
    """A ring of GPUs that share fewer heads of keys."""


class RingOfLatents(Ring, LatentOnDevice):
    """A ring of GPUs with latent attention."""


class VocabParallel(Module):
    """A vocabulary table of which each GPU has some rows (VocabParallelEmbedding); it gives zeros for other tokens."""

    kind = "embedding"

    table: Module
    at: Layout
    scatters: bool = True

    def components(self) -> Iterator[Component]:
        """Yield the table's components."""
        return self.table.components()

    def __call__(self, x: Tensor, ctx: Context) -> Tensor:
        """Embed token ids and sum over GPUs; if positions are added next, all-reduce instead of reduce-scatter."""
        with x.trace.inside(self.table):
            vectors = self.table.forward(x, ctx)
            return leaving(vectors, self.at if self.scatters else self.at._replace(sequence_parallel=False))


class PipelineStage(Module):
    """The layers of one pipeline stage, with the embeddings before the first and a norm after the last.

    Without ``tables`` it receives vectors of this ``width`` from the stage before. Embeddings may be multiplied by a
    number (``scales``), and have dropout (``dropped``).
    """

    kind = "decoder"

    tables: tuple[Module, ...]
    layers: Stack
    norm: Module | None
    width: Num
    at: Layout
    scales: bool = False
    dropped: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the stage on token ids, which every stage is given."""
        x = self._embedded(x, ctx) if self.tables else self._received(x, ctx)
        if x.trace.emits_kernels:
            ctx = ctx.backend.begin(ctx, x, list(attentions(self.layers)), ())
        x = self.layers(x, ctx)
        if self.at.chunks != 1:
            forward, backward = self.at.vpp - int(self.at.last), self.at.vpp - int(self.at.first)
            x = handed_on(x, forward, backward)
        return x if self.norm is None else self.norm(x, ctx)

    def _embedded(self, ids: Tensor, ctx: Context) -> Tensor:
        words, *positions = self.tables
        x = words(ids, ctx)
        x = scaled(x) if self.scales else x
        for table in positions:
            x = add(x, table(ids, ctx))
        if positions and self.at.sequence_parallel and not self.at.alone:
            x = own_share(x, self.at.tp)
        return dropout(x, "embedding_dropout") if self.dropped and ctx.drops else x

    def _received(self, ids: Tensor, ctx: Context) -> Tensor:
        length = ctx.stream.length
        length = divide(length, self.at.tp) if self.at.sequence_parallel else length
        return received(ids.trace.data((ctx.stream.batch, length, self.width), "from the stage before"))


class Device(Module):
    """A stage and, on the last one, the output head, of which each GPU has the columns of some tokens."""

    kind = "model"

    base: Module
    head: Linear | None
    at: Layout
    scales: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the stage on token ids; on the last one return the loss, or logits without training."""
        made = self.base(x, ctx)
        return made if self.head is None else self._loss_or_logits(made, ctx)

    def _loss_or_logits(self, x: Tensor, ctx: Context) -> Tensor:
        assert self.head is not None
        logits = self.head(entering(x, self.at))
        logits = scaled(logits) if self.scales else logits
        if not ctx.run.training:
            return logits
        name = f"{self.head.name}.loss"
        return cross_entropy_of_shares(logits, name, self.at.tp, lambda: ctx.backend.loss_of_shares(logits))
