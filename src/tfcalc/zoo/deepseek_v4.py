"""DeepSeek-V4: compressed attention, hyper-connections, and experts that the first layers choose by a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.component import Cached, Cost, Weight
from tfcalc.core.number import Num, divide, floor_div, minimum
from tfcalc.core.traced import known
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention, Sinks
from tfcalc.nn.basic import Linear, Norm, Parameter, buffer, parameter
from tfcalc.nn.mixture import Mixture, RouterCode
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.ops.attention import attend
from tfcalc.ops.elementwise import add, mul
from tfcalc.ops.products import grouped_linear, linear
from tfcalc.ops.rows import inverse_rms
from tfcalc.ops.scan import recurrence
from tfcalc.ops.scores import score
from tfcalc.ops.shapes import cat, reshape, transpose
from tfcalc.ops.work import OVERLAP, SHARED, SUMMARY, WAITING, by_token, decoded
from tfcalc.printable import quoted
from tfcalc.tape.tensor import Call, Tensor
from tfcalc.workload import Sequences
from tfcalc.zoo.blocks import decoders, experts, hyper_connections
from tfcalc.zoo.blocks.experts import LimitedExperts, LimitedFeedForward
from tfcalc.zoo.blocks.hyper_connections import HyperLayer, MixingConnection

WEIGHTED_SUM = 4  # relu, scale, times the head's weight, the sum over heads


class MapOfGroups(Linear):
    """A linear map of each group of channels by itself. The outputs of all groups lie side by side."""

    groups: Num = 1

    def own_params(self) -> Cost:
        """The matrices of all groups, one above the other."""
        return Cost(weights=(Weight("w", (self.fan_out, divide(self.fan_in, self.groups))),))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the map of ``x``, of b × l × a × d."""
        b, l = x.shape[:2]
        (held,) = self.own_params().weights
        rows = reshape(x, b * l, self.groups, divide(self.fan_in, self.groups))
        return reshape(grouped_linear(rows, x.trace.weight(held)), b, l, self.fan_out)


class SomeTimes(Linear):
    """A linear map whose result may be left for later, and then has no gradient."""

    def of(self, x: Tensor, used: Num) -> Tensor:
        """Return the map of each row; ``used`` is 1 where something is made of it, else 0."""
        with x.trace.inside(self):
            (weight,) = self.own_params().weights
            return x.trace.adapted(self, x, linear(x, x.trace.weight(weight), letter=self.letter, used=used))


class Compressor(Module):
    """Compression of every ``rate`` tokens to one key of ``width``: their mean, weighted by a gate and by their place.

    ``overlap``: each key mixes two groups of tokens, so values and gates are made twice. Tokens of a group that is not
    full are left for later.

    Source: transformers' DeepseekV4HCACompressor, DeepseekV4CSACompressor and DeepseekV4Indexer.
    """

    kind = "compressor"

    kv_proj: SomeTimes
    gate_proj: SomeTimes
    position_bias: Parameter
    kv_norm: Norm
    rate: Num
    width: Num
    overlap: bool
    rope: Rope
    indexer: CompressedIndexer | None = None

    def keys(self, stream: Sequences) -> Sequences:
        """Return the sequences of keys that it makes of these sequences."""
        return Sequences(stream.batch, floor_div(stream.length, self.rate), floor_div(stream.seen, self.rate))

    def forward(self, x: Tensor, low: Tensor, ctx: Context) -> Tensor:
        """Keys of b × n × d; ``low`` is what queries are made of."""
        made = self.summaries(x, ctx)
        if self.indexer is not None:
            with x.trace.without_gradients():
                self.indexer(x, low, ctx)
        return made

    def summaries(self, x: Tensor, ctx: Context) -> Tensor:
        """A key for each group that is full."""
        stream, trace = ctx.stream, x.trace
        n = self.keys(stream).length
        some = minimum(n, 1)
        kv, gate = self.kv_proj.of(x, some), self.gate_proj.of(x, some)
        call = Call("summaries", (kv, gate), (x.shape[0], n, self.width), kv.dtype, saves=(kv, gate))
        if trace.emits_kernels:  # a sum over each group; a program builds it of many small kernels
            if known(n) == 0:
                return trace.new(call.shape, kv.dtype, "no summaries")
            return ctx.backend.scan(self, ctx, kv, gate)
        with trace.inside(self.position_bias):
            made = trace.call(call._replace(cached=self.cached(stream)))
        return self.kv_norm(made, ctx)

    def cached(self, stream: Sequences) -> tuple[Cached, ...]:
        """Its keys, the tokens that wait for their group, and of the last group what the next key is made of too."""
        if not decoded(stream):
            return ()
        made = self.keys(stream).seen
        waiting, before = stream.seen - made * self.rate, minimum(made, 1) * self.rate
        overlap = (Cached(OVERLAP, 2, self.width, stream.batch, before, grows=False),) if self.overlap else ()
        return (
            Cached(SUMMARY, 1, self.width, stream.batch, stream.seen, every=self.rate),
            Cached(WAITING, 2, self.kv_proj.fan_out, stream.batch, waiting, grows=False),
            *overlap,
        )


class CompressedIndexer(Compressor):
    """Indexer that chooses among a compressor's keys, by keys of its own and queries of ``heads`` heads."""

    q_b_proj: Linear | None = None
    weights_proj: Linear | None = None
    heads: Num = 1

    @property
    def parts(self) -> Iterator[Module]:
        """Its keys' first."""
        assert self.q_b_proj is not None
        assert self.weights_proj is not None
        return iter((self.kv_proj, self.gate_proj, self.position_bias, self.kv_norm, self.q_b_proj, self.weights_proj))

    def forward(self, x: Tensor, low: Tensor, ctx: Context) -> Tensor:
        """A score for each query and key, of b × l × n."""
        assert self.q_b_proj is not None
        assert self.weights_proj is not None
        stream, (b, l, _) = ctx.stream, x.shape
        k, keys = self.summaries(x, ctx), self.keys(ctx.stream)
        q, weights = reshape(self.q_b_proj(low), b, l, self.heads, self.width), self.weights_proj(x)
        pairs = ctx.run.pairs(stream, keys, causal=False)
        formula = score("score", self.heads, self.width, pairs, weighted=False, operations=WEIGHTED_SUM)
        shape = (b, l, keys.seen)
        return recurrence(formula, q, shape, lambda: ctx.backend.scan(self, ctx, q, k, weights))


class CompressedAttention(Attention):
    """One key that is the value too for all heads; queries are those of a vector of low rank.

    Beside the tokens of a window, queries read what a ``compressor`` makes of all of them. What heads make is turned
    back, and mapped group by group (``grouped``), then together. As transformers runs it, an indexer's choice is a mask
    over all keys.

    Source: transformers' DeepseekV4Attention.
    """

    grouped: MapOfGroups | None = None
    compressor: Compressor | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """Modules in the order in which they run."""
        down, up, key = self.inward
        q_norm, k_norm = self.norms
        every = (down, q_norm, up, key, k_norm, self.sinks, self.compressor, self.grouped, self.output)
        return (each for each in every if each is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for the tokens of ``x``, of b × l × h."""
        assert self.grouped is not None
        (down, up, key), (b, l, _), d = self.inward, x.shape, self.key_dim
        low = self.norms[0](down(x), ctx)
        q = transpose(reshape(up(low), b, l, self.heads, d), 1, 2)
        kv = transpose(reshape(self.norms[1](key(x), ctx), b, l, 1, d), 1, 2)
        if x.trace.emits_kernels:  # window and summaries are two products; a program reads both by one attention
            return self.output(self.grouped(self._run(q, kv, x, low, ctx)))
        made = self.attend(q, kv, kv, ctx)
        if self.compressor is not None:
            keys = self.compressor.keys(ctx.stream)
            k = self.compressor(x, low, ctx)
            k = reshape(k, b, 1, keys.length, d)
            pairs = ctx.run.pairs(ctx.stream, keys, causal=False, window=self.window)
            made = add(made, attend(q, k, k, pairs, lambda: q, name="attend_compressed"))
        return self.output(self.grouped(transpose(made, 1, 2)))

    def _run(self, q: Tensor, kv: Tensor, x: Tensor, low: Tensor, ctx: Context) -> Tensor:
        """Attend where kernels run, with all keys beside each other; return b × l × a × d."""
        q = mul(q, x.trace.to(inverse_rms(x.trace.to(q, "float32")), q.dtype))
        q, kv = ctx.backend.rotate(q, kv, self, ctx)
        if ctx.cache is not None:
            kv, _ = ctx.cache.update(kv, kv)
        if self.compressor is not None:
            made = self.compressor(x, low, ctx)
            kv = cat([kv, reshape(made, made.shape[0], 1, *made.shape[1:])], 2)
            mask = ctx.masks.get(self.mask)
            if mask is not None:
                wider = x.trace.new((*mask.shape[:-1], kv.shape[2]), mask.dtype, "mask with summaries")
                ctx = ctx._replace(masks={**ctx.masks, self.mask: wider})
        return ctx.backend.scan(self, ctx, self.attend(q, kv, kv, ctx))

    def cached(self, ctx: Context) -> tuple[Cached, ...]:
        """Return one vector per token, which transformers' window cache stores twice where nothing is compressed."""
        d = self.key_dim
        vectors = {"K": d, "V": d} if self.compressor is None else {SHARED: d}
        return by_token(ctx.stream, ctx.stream, 1, vectors, window=self.window)


WINDOW, SPARSE, HEAVY = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
BY_RATIO = {0: WINDOW, 4: SPARSE, 128: HEAVY}
"""What the published files write for each layer."""

OLD_NAMES = {SPARSE: "compress_rate_csa", HEAVY: "compress_rate_hca"}
HASHED, ROUTED = "hash_moe", "moe"
CODE = "olmo"
"""Its norms multiply by their weight in fp32."""


def of_each_layer(c: Config, name: str, known: tuple[str, ...]) -> list[str]:
    """One word for each layer; lists may go on for the layers that predict further tokens."""
    count, given = c.number("num_hidden_layers"), c.get(name)
    length = max(count, len(given)) if isinstance(given, list | tuple) else count
    return c.words(name, length, known)[:count]


def layer_types(c: Config) -> list[str]:
    """Given, or by ``compress_ratios``; else every other layer is sparse, after two that are not."""
    count = c.number("num_hidden_layers")
    if c.has("layer_types"):
        return of_each_layer(c, "layer_types", tuple(BY_RATIO.values()))
    if c.has("compress_ratios"):
        ratios = c.numbers("compress_ratios")[:count]
        if len(ratios) < count or set(ratios) - set(BY_RATIO):
            raise InvalidModel(f"compress_ratios {quoted(ratios)} are not {count} of {list(BY_RATIO)}", "one per layer")
        return [BY_RATIO[ratio] for ratio in ratios]
    return [SPARSE if place >= 2 and place % 2 else HEAVY for place in range(count)]


def mlp_types(c: Config) -> list[str]:
    """Given; else ``num_hash_layers`` choose their experts by a table, and the others by a router."""
    count = c.number("num_hidden_layers")
    if c.has("mlp_layer_types"):
        return of_each_layer(c, "mlp_layer_types", (HASHED, ROUTED))
    hashed = c.number("num_hash_layers", least=0)
    return [HASHED if place < hashed else ROUTED for place in range(count)]


def rope(c: Config) -> Rope:
    """Return the rotary embedding, which turns the last dimensions of each head."""
    given = c.optional("qk_rope_head_dim")
    return Rope(
        decoders.rotary_width(c, c.size("head_dim")) if given is None else given, RopeCode(halves=True, last=True)
    )


def compressor(kind: str, c: Config, name: str, width: Num, of: type[Compressor], **more: Any) -> Compressor:
    """Return the module that makes one key of several tokens; the sparse kind mixes two groups for each."""
    rates, field = c.sub("compress_rates", defaults={SPARSE: 4, HEAVY: 128}), kind
    if c.has(OLD_NAMES[kind]):
        rates, field = c, OLD_NAMES[kind]
    overlap, rate, h = kind == SPARSE, rates.size(field), c.size("hidden_size")
    wide = (2 if overlap else 1) * width
    values, gates = SomeTimes("kv_proj", h, wide, "KV"), SomeTimes("gate_proj", h, wide, "g")
    norm, places = Norm("kv_norm", "rmsnorm", width, CODE), parameter("position_bias", rate, wide)
    return of(name, values, gates, places, norm, rate, width, overlap, rope(c), **more)


def indexer(c: Config) -> Compressor:
    """Return the indexer that chooses among compressed keys."""
    heads, width = c.size("index_n_heads"), c.size("index_head_dim")
    queries = Linear("q_b_proj", c.size("q_lora_rank"), heads * width, "IQ")
    weights = Linear("scorer.weights_proj", c.size("hidden_size"), heads, "Iw")
    how: dict[str, Any] = {"q_b_proj": queries, "weights_proj": weights, "heads": heads}
    return compressor(SPARSE, c, "indexer", width, CompressedIndexer, **how)


def attention(kind: str, c: Config) -> CompressedAttention:
    """One key that is the value too for all heads; layers of a window have no compressor."""
    heads, width, groups = c.number("num_attention_heads"), c.number("head_dim"), c.number("o_groups")
    if heads * width % groups:
        raise InvalidModel(
            f"num_attention_heads · head_dim {heads * width} is not divisible by {c.path('o_groups')} {groups}",
            "give a divisor",
        )
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.size("head_dim")
    rank, between = c.size("q_lora_rank"), c.size("o_groups") * c.size("o_lora_rank")
    chooser = {"indexer": indexer(c)} if kind == SPARSE else {}
    return CompressedAttention(
        "self_attn",
        a,
        1,
        d,
        d,
        (Linear("q_a_proj", h, rank, "DQ"), Linear("q_b_proj", rank, a * d, "UQ"), Linear("kv_proj", h, d, "KV")),
        (Norm("q_a_norm", "rmsnorm", rank, CODE), Norm("kv_norm", "rmsnorm", d, CODE)),
        Linear("o_b_proj", between, h, "O"),
        rope=rope(c),
        window=c.number("sliding_window"),
        dropout=bool(c.get("attention_dropout")),
        sinks=Sinks("sinks", Weight("sinks", (a,), key=""), "highest"),
        always_masked=True,
        grouped=MapOfGroups("o_a_proj", a * d, between, groups=c.size("o_groups")),
        compressor=None if kind == WINDOW else compressor(kind, c, "compressor", d, Compressor, **chooser),
    )


def mixed(kind: str, c: Config) -> Mixture:
    """Routed experts and one shared one, each equally wide; a table of experts for each token where they are hashed."""
    shared = decoders.gated(c, name="shared_experts", width=c.size("moe_intermediate_size"), bias=c.flag("mlp_bias"))
    made = experts.mixture(
        c,
        shared.as_type(LimitedFeedForward),
        experts="n_routed_experts",
        width="moe_intermediate_size",
        scores=c.word("scoring_func"),
        corrected=True,
        normalized=True,
        scales=True,
        code=RouterCode(in_place=False),
    )
    stored = experts.correction(c)
    if kind == HASHED:
        stored = buffer("gate.tid2eid", c.size("vocab_size"), c.size("num_experts_per_tok"))
    return made.replace(experts=made.experts.as_type(LimitedExperts), stored=(stored,))


@family(
    "deepseek_v4",
    # by __post_init__:
    num_hash_layers=3,
    partial_rotary_factor=0.125,
)
def deepseek_v4(c: Config) -> Module:
    """DeepSeek-V4 technical report: ``hc_mult`` residual streams, which the sub-layers read and write by weights."""
    turns = c.number("hc_sinkhorn_iters")
    connections = tuple(
        hyper_connections.connection(c, name, of=MixingConnection, turns=turns) for name in hyper_connections.NAMES
    )

    def one(kind: tuple[str, str]) -> Module:
        made = decoders.layer(c, attention(kind[0], c), mixed(kind[1], c), of=HyperLayer, code=CODE)
        return made.replace(connections=connections)

    return hyper_connections.decoder(c, one, list(zip(layer_types(c), mlp_types(c), strict=True)), norm=CODE)
