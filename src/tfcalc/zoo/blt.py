"""The Byte Latent Transformer: bytes are grouped to patches, and only patches run through the large model.

The large model of patches lies between two small ones of bytes. No gradient trains what groups the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.component import Cost
from tfcalc.core.number import Num, ceil_div, floor_div
from tfcalc.nn.attention import Attention, CrossAttention
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.encoder import through
from tfcalc.nn.model import Decoder, ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack, each_turn, turns_to_run
from tfcalc.ops.elementwise import add
from tfcalc.ops.shapes import reshape
from tfcalc.tape.tensor import Call, Shape, Tensor
from tfcalc.workload import Sequences
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.experts import Borrowed
from tfcalc.zoo.blocks.layers import stack


class Untrained(Module):
    """Module whose weights are not trained."""

    def own_params(self) -> Cost:
        """Return the module's own parameters, frozen."""
        return frozen(super().own_params())


class UntrainedLinear(Untrained, Linear):
    """A linear map."""


class UntrainedNorm(Untrained, Norm):
    """A norm."""


class UntrainedEmbedding(Untrained, Embedding):
    """A table."""


def frozen(cost: Cost) -> Cost:
    """Return the cost with the same weights, marked as not trained."""
    return cost._replace(weights=tuple(each._replace(frozen=True) for each in cost.weights))


UNTRAINED: dict[type[Module], type[Module]] = {
    Linear: UntrainedLinear,
    Norm: UntrainedNorm,
    Embedding: UntrainedEmbedding,
}


def untrained(module: Module) -> Module:
    """Return the module with all maps, norms and tables frozen; a module used in several places stays a single one."""
    made: dict[int, Module] = {}

    def of(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(of(each) for each in value)
        if not isinstance(value, Module):
            return value
        if id(value) not in made:
            fields = {name: of(each) for name, each in value.__dict__.items()}
            made[id(value)] = UNTRAINED.get(type(value), type(value))(**fields)
        return made[id(value)]

    found: Module = of(module)
    return found


class PatchAttention(CrossAttention):
    """``x + attention(norm(x), norm(memory))`` of bytes to patches, or of patches to bytes, in ``count`` copies."""

    query_norm: Norm | None = None
    key_norm: Norm | None = None
    count: Num = 1

    @property
    def copies(self) -> Num:
        """Number of copies."""
        return self.count

    @property
    def looks_at_mask(self) -> bool:
        """A patch sees its own bytes, and these it."""
        return True

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the output for ``x``, which attends to the memory of the context."""
        assert ctx.memory is not None
        assert self.query_norm is not None
        assert self.key_norm is not None
        read = ctx.memory._replace(vectors=self.key_norm(ctx.memory.vectors, ctx))
        return add(super().forward(self.query_norm(x, ctx), ctx._replace(memory=read)), x)


class MapAgain(Borrowed):
    """A map whose weights another module holds, and that runs ``times`` more times."""

    times: Num = 1

    @property
    def copies(self) -> Num:
        """Zero: the weights belong to another module."""
        return 0

    @property
    def active(self) -> Num:
        """Number of runs."""
        return self.times


class Through(Module):
    """Layers, with masks and angles of their own sequences; a map may come before them."""

    kind = "decoder"

    map: Linear | None
    layers: Stack

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the output of the layers for the vectors ``x``."""
        return through(self.layers, x if self.map is None else self.map(x), ctx)


class ByteEncoder(Module):
    """Layers of bytes; of each patch the largest numbers are mapped to ``vectors``, which ask the bytes.

    They may do so behind each layer (``again``, ``unused``): each time they begin anew, so that what the last one makes
    is all that is used of it, and all that a gradient reaches.
    """

    kind = "decoder"

    layers: Stack
    map: Linear
    cross: PatchAttention
    table: Embedding
    vectors: Num
    again: MapAgain | None = None
    unused: PatchAttention | None = None

    def words(self, x: Tensor) -> Tensor:
        """A vector for each byte."""
        with x.trace.inside(self):
            return self.table(x)

    def read(self, x: Tensor, patches: Sequences, ctx: Context) -> tuple[Tensor, Tensor]:
        """The bytes' vectors, and those of patches."""
        with x.trace.inside(self):
            x = through(self.layers, x, ctx)
            ctx = masked(x, patches.length * self.vectors, x.shape[1], ctx)
            if self.again is not None and self.unused is not None:
                with x.trace.without_gradients():
                    for _ in turns_to_run(x.trace, self.again.times):
                        self._asked(self.again, self.unused, x, patches, ctx)
            return x, self._asked(self.map, self.cross, x, patches, ctx)

    def _asked(self, map_: Linear, cross: PatchAttention, x: Tensor, patches: Sequences, ctx: Context) -> Tensor:
        shape = patches.batch, patches.length, x.width
        reduced = largest_of_patches(x, shape)
        asking = Sequences(patches.batch, patches.length * self.vectors)
        made = reshape(map_(reduced), patches.batch, asking.length, x.width)
        return add(made, cross(made, ctx.asking(asking, x, ctx.stream)))


def masked(x: Tensor, queries: Num, keys: Num, ctx: Context) -> Context:
    """Return the context with a mask: a number for each pair of a byte and a patch's vector, in the weights' format."""
    mask = x.trace.call(Call("mask", (), (x.shape[0], 1, queries, keys), x.trace.weights_format))
    x.trace.belongs(mask)
    return ctx._replace(masks={None: mask})


def largest_of_patches(x: Tensor, shape: Shape) -> Tensor:
    """Return each channel's maximum over a patch's bytes; saves input and result, zeros and patch indices for backward.

    Source: torch.scatter_reduce with ``reduce="amax"``.
    """
    zeros = x.trace.new(shape, x.dtype, "zeros")
    places = x.trace.new(x.shape[:2], "int64", "patches of bytes")
    saves = (zeros, x, places)
    return x.trace.call(Call("scatter_reduce", (x,), shape, x.dtype, saves=saves, saves_result=True))


class ByteDecoder(Module):
    """Bytes ask the patches' vectors, before the first of its layers or before each."""

    kind = "decoder"

    map: Linear
    cross: PatchAttention
    layers: Stack
    norm: Norm
    vectors: Num

    def read(self, x: Tensor, patches: Tensor, ctx: Context) -> Tensor:
        """Return the normed vectors of bytes that have attended to the patches' vectors and run through the layers."""
        with x.trace.inside(self):
            of = Sequences(patches.shape[0], patches.shape[1] * self.vectors)
            memory = reshape(self.map(patches), of.batch, of.length, x.width)
            asking = masked(x, x.shape[1], of.length, ctx).asking(ctx.stream, memory, of)
            for _ in turns_to_run(x.trace, self.cross.copies, "layers that ask for patches"):
                x = add(x, self.cross(x, asking))
            return self.norm(through(self.layers, x, ctx), ctx)


class LatentBytes(Module):
    """Bytes, and rows of ``tables`` tables for the hashes of their groups, are made patches; these run deep.

    How many bytes a patch has depends on the text; here it is ``patch``, and the last may have fewer. Another model
    (``patcher``), which is trained before, finds where patches begin.

    Source: Pagnoni et al. 2024 (arXiv 2412.09871).
    """

    kind = "decoder"

    encoder: ByteEncoder
    deep: Through
    decoder: ByteDecoder
    hashed: Embedding
    patcher: Module | None
    patch: Num
    tables: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the normed vectors of the bytes ``x``."""
        trace = x.trace
        made = self._embedded(x)
        if self.patcher is not None:
            with trace.without_gradients():
                self.patcher(x, ctx)
        patches = Sequences(ctx.run.batch_size, ceil_div(ctx.run.seq_len, self.patch))
        made, asked = self.encoder.read(made, patches, ctx)
        asked = reshape(asked, patches.batch, patches.length, self.encoder.vectors * asked.width)
        return self.decoder.read(made, self.deep(asked, ctx._replace(stream=patches)), ctx)

    def _embedded(self, x: Tensor) -> Tensor:
        made, new = self.encoder.words(x), x.trace.new
        if not x.trace.emits_kernels:  # all tables of hashes are counted at once
            self.hashed(new((self.tables, *x.shape), "int64", "hashes"))
            return made
        for _ in each_turn(self.tables, "tables of hashes"):
            made = add(made, self.hashed(new(x.shape, "int64", "hashes")))
        return made


class Patcher(Decoder):
    """A small language model of bytes, which is surprised where a patch begins."""

    head: Linear | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """Parts of the decoder, and the output head."""
        yield from super().parts
        if self.head is not None:
            yield self.head

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Logits of all bytes."""
        assert self.head is not None
        return self.head(super().forward(x, ctx))


PARTS = {
    "encoder": "blt_local_encoder",
    "decoder": "blt_local_decoder",
    "global": "blt_global_transformer",
    "patcher": "blt_patcher",
}
"""The model types of the four models that are nested in the config."""


def part(c: Config, name: str) -> Config:
    """One of the four models that are nested in the config; by ``__post_init__``, the patcher's activation is fixed."""
    own = {"hidden_act": "silu"} if name == "patcher" else {}
    return c.within(f"{name}_config", PARTS[name], **own)


def inner(c: Config) -> Num:
    """The feed-forward width: given, or 8/3 of the hidden size."""
    given = c.optional("intermediate_size")
    return floor_div(8 * c.size("hidden_size"), 3) if given is None else given


def attention(c: Config) -> Attention:
    """Grouped heads that split the hidden size; causal within a sequence."""
    return decoders.attention(c, width=c.quotient("hidden_size", "num_attention_heads"), dropout="dropout")


def layers(c: Config) -> Stack:
    """Llama's layers."""
    made = decoders.layer(c, attention(c), decoders.gated(c, width=inner(c)))
    return stack(c, made)


def crossing(c: Config, *, count: Num = 1) -> PatchAttention:
    """Attention between bytes and patches, with norms of both."""
    h = c.size("hidden_size")
    of_both = attention(c).replace(name="cross_attn_layers", causal=False, rope=None)
    query_norm, key_norm = Norm("q_norm", "rmsnorm", h), Norm("k_norm", "rmsnorm", h)
    return of_both.as_type(PatchAttention, count=count, query_norm=query_norm, key_norm=key_norm)


def encoder(c: Config, *, tied: bool) -> ByteEncoder:
    """Patches ask the bytes, behind the last layer or behind each: k vectors a patch."""
    h, k, cross = c.size("hidden_size"), c.size("cross_attn_k"), crossing(c)
    name = "patch_embedding_projection"
    table = Embedding("embed_tokens", c.size("vocab_size"), h, "lm_head" if tied else None)
    made = ByteEncoder("local_encoder", layers(c), Linear(name, h, h * k), cross, table, k)
    if not c.flag("cross_attn_all_layers"):
        return made
    others = c.size("num_hidden_layers") - 1
    return made.replace(
        cross=cross.replace(name=f"{cross.name}[last]"),
        again=MapAgain(f"{name}[not last]", h, h * k, name, times=others),
        unused=cross.replace(name=f"{cross.name}[not last]", count=others),
    )


def decoder(c: Config) -> ByteDecoder:
    """Bytes ask the patches, before the first layer or before each."""
    h, k = c.size("hidden_size"), c.size("cross_attn_k")
    project = Linear("patch_embedding_projection", c.size("hidden_size_global"), h * k)
    cross = crossing(c, count=c.size("num_hidden_layers") if c.flag("cross_attn_all_layers") else 1)
    return ByteDecoder("local_decoder", project, cross, layers(c), Norm("norm", "rmsnorm", h), k)


def global_transformer(c: Config) -> Through:
    """The large model, which reads a patch's vectors side by side: mapped, where they are not as wide as it is."""
    nested, read = part(c, "global"), part(c, "encoder")
    width = read.size("hidden_size") * c.size("cross_attn_k")
    maps = read.number("hidden_size") * c.number("cross_attn_k") != nested.number("hidden_size")
    project = Linear("token_embedding_projection", width, nested.size("hidden_size")) if maps else None
    return Through("global_transformer", project, layers(nested))


def patcher(c: Config) -> Module:
    """A small language model of bytes, trained beforehand: where it is surprised, a patch begins."""
    h, words = c.size("hidden_size"), c.size("vocab_size")
    table, last = Embedding("embed_tokens", words, h), Norm("norm", "rmsnorm", h)
    return untrained(Patcher("patcher", table, layers(c), last, head=tops.logits("lm_head", h, words)))


def language_model(c: Config, base: Module) -> Module:
    """Logits over bytes. Where they are tied, it is the encoder's table that is stored here."""
    width = part(c, "decoder").size("hidden_size")
    return ModelWithHead("", base, tops.logits("lm_head", width, c.size("vocab_size")))


@family(
    "blt",
    heads={"Model": tops.bare, "ForCausalLM": language_model},
    encoder_hash_byte_group_size=[3, 4, 5, 6, 7, 8],  # by __post_init__
)
def blt(c: Config) -> Module:
    """Pagnoni et al. 2024 (arXiv 2412.09871): a table of hashed groups of bytes holds most of the small parameters.

    How many bytes a patch has depends on the text; here it is ``patch_size``.
    """
    read, tables = part(c, "encoder"), c.size("encoder_hash_byte_group_nb_functions") * len(groups(c))
    rows = c.size("encoder_hash_byte_group_vocab") * tables
    return LatentBytes(
        "model",
        encoder(read, tied=c.flag("tie_word_embeddings") and c.head == "ForCausalLM"),
        global_transformer(c),
        decoder(part(c, "decoder")),
        Embedding("encoder_hash_tok_embedding", rows, read.size("hidden_size")),
        patcher(part(c, "patcher")) if c.flag("patch_in_forward") else None,
        c.size("patch_size"),
        tables,
    )


def groups(c: Config) -> list[int]:
    """Return the number of bytes in each group that is hashed, one for each group size."""
    return c.numbers("encoder_hash_byte_group_size", least=1)
