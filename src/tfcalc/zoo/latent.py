"""Models that took over DeepSeek's latent attention, some without its experts, some with more beside it."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num, ceil_div, minimum
from tfcalc.nn.basic import Linear, Norm, buffer
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.latent import LatentAttention
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Experts, Mixture, Replicated, Router, RouterCode
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.ops.elementwise import activation, mul, pointwise, residual
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.experts import dense_or_sparse, mlp_types, sparse_after
from tfcalc.zoo.blocks.latent_attention import GatedQueries, latent_module, shared_and_routed, sparse_latent
from tfcalc.zoo.blocks.layers import FUSED


class ShortcutLayer(Module):
    """``x + f(norm(x))`` four times; what experts make of what the first network reads is added at the end.

    Source: LongCat-Flash (arXiv 2509.01322), section 2.2.
    """

    kind = "layer"

    mlp: Mixture
    attentions: tuple[LatentAttention, ...]
    before: tuple[Norm, ...]
    between: tuple[Norm, ...]
    mlps: tuple[GatedFeedForward, ...]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        beside: Tensor | None = None
        for attention, before, between, mlp in zip(self.attentions, self.before, self.between, self.mlps, strict=True):
            x = residual(x, attention(before(x, ctx), ctx), attention.name)
            normed = between(x, ctx)
            beside = self.mlp(normed, ctx) if beside is None else beside
            x = residual(x, mlp(normed, ctx), mlp.name)
        return x if beside is None else residual(x, beside, self.mlp.name)


class OfSome(Replicated, Linear):
    """A map of which there are several."""


class IdleExperts(Experts):
    """Experts, and some ``idle`` ones that hand on what they read, and have no weights.

    A token is counted as going through as many experts as are chosen, none of them idle; what is saved is that of
    tokens that are spread evenly over all. transformers 5.23 allocates the first map of the idle ones all the same; the
    published weights do not have it.

    Source: LongCat-Flash (arXiv 2509.01322), section 2.1; transformers' LongcatFlashExperts.
    """

    up: OfSome
    down: OfSome
    idle: Num = 0

    def own_params(self) -> Cost:
        """The first map of the idle experts, which is not published, and what a token spares that is sent to them."""
        h, f = self.up.fan_in, self.down.fan_in
        spared = minimum(self.chosen, self.idle) * (self.up.fan_out + f) * h
        return Cost(unpublished=(Weight("1", (self.idle, self.up.fan_out, h), key=self.up.name),), spared=spared)

    @property
    def copies(self) -> Num:
        """Its maps have their own numbers."""
        return 1

    @property
    def active(self) -> None:
        """Number of active copies: all, as its maps have their own numbers."""
        return

    def halves_gated(self, gate: Tensor, up: Tensor, ctx: Context) -> Tensor:
        """Gate the halves of each active expert of a token, where operations are counted."""
        # counted are the experts that a token goes through, and kernels run on rows sorted by expert
        if gate.trace.emits_kernels:
            return super().halves_gated(gate, up, ctx)
        shape = gate.shape
        gate, up = (each.trace.view(each, (self.chosen * each.rows, each.width), None) for each in (gate, up))
        made = super().halves_gated(gate, up, ctx)
        return made.trace.view(made, shape, None)


class NormGate(Module):
    """A number for each of a vector, through one of low rank: ``σ(W₂ silu(W₁ y))``, the sigmoid in fp32."""

    kind = "gate"

    fc1: Linear
    fc2: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the gate of each row."""
        inner = self.fc1(x)
        inner = ctx.activation("silu", inner)
        made = self.fc2(inner)
        made = made.trace.to(made, "float32")
        return activation("sigmoid", made, lambda: pointwise("sigmoid", made), "gate")


class GatedNorm(Module):
    """``y · gate(y)`` of ``y = norm(x)``.

    Source: transformers' AXK2GatedRMSNorm.
    """

    kind = "norm"

    norm: Norm
    gate: NormGate

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the gated norm of each row, in the norm's own format."""
        y = self.norm(x, ctx)
        return x.trace.to(mul(y, self.gate(y, ctx)), y.dtype)


@family("minicpm3", heads=tops.CAUSAL_LM | tops.scaled_lm())
def minicpm3(c: Config) -> Module:
    """MiniCPM3 (arXiv 2404.06395): no experts; values are as wide as the hidden size allows."""
    even = c.quotient("hidden_size", "num_attention_heads")
    given = c.optional("v_head_dim")
    mixer = latent_module(c, value=even if given is None else given)
    layers = decoders.layer(c, mixer, decoders.gated(c, bias=c.flag("mlp_bias"))).replace(scales=True)
    return decoders.decoder(c, layers).replace(scales=True, scale="int64")


@family("youtu")
def youtu(c: Config) -> Module:
    """Youtu-LLM (arXiv 2512.24618): no experts."""
    return decoders.decoder(c, decoders.layer(c, latent_module(c), decoders.gated(c)))


@family("glm4_moe_lite")
def glm4_moe_lite(c: Config) -> Module:
    """GLM-4.7-Flash (Z.ai 2026): DeepSeek-V3 whose first layer alone is dense."""
    kinds = mlp_types(c, sparse_after(c, 1))
    return dense_or_sparse(c, kinds, latent_module(c), lambda: shared_and_routed(c))


@family(
    "axk1",
    # by __post_init__, for older configs:
    first_k_dense_replace=1,
    moe_layer_freq=1,
)
def axk1(c: Config) -> Module:
    """A.X K1 (arXiv 2601.09200): a norm after the experts too."""
    kinds = mlp_types(c, sparse_after(c, c.number("first_k_dense_replace", least=0), c.number("moe_layer_freq")))

    def mixed() -> Mixture:
        return shared_and_routed(c).replace(norm=Norm("post_mlp_layernorm", "rmsnorm", c.size("hidden_size")))

    return dense_or_sparse(c, kinds, latent_module(c), mixed)


@family(
    "axk2",
    # by __post_init__, for older configs:
    first_k_dense_replace=1,
    moe_layer_freq=1,
)
def axk2(c: Config) -> Module:
    """A.X K2 (SK Telecom 2026): an indexer, gated values, and gated norms before attention and before experts."""
    kinds = mlp_types(c, sparse_after(c, c.number("first_k_dense_replace", least=0), c.number("moe_layer_freq")))
    mixer, (before, between) = gated_queries(c), decoders.PRE_NORM

    def one(kind: str) -> Module:
        if kind == "sparse":
            return PreNorm("layers", (mixer, shared_and_routed(c)), (gated_norm(c, before), gated_norm(c, between)))
        plain = Norm(between, "rmsnorm", c.size("hidden_size"))
        return PreNorm("layers", (mixer, decoders.gated(c)), (gated_norm(c, before), plain))

    return decoders.decoder(c, one, kinds)


def gated_queries(c: Config) -> GatedQueries:
    """Attention to chosen keys; one map makes queries and a gate for the values."""
    made = sparse_latent(c)
    down, _, *others = made.inward
    up = Linear("q_gate_proj", 2 * c.size("q_lora_rank"), made.heads * (made.key_dim + made.value_dim), "UQ")
    return made.as_type(GatedQueries, inward=(down, up, *others))


def gated_norm(c: Config, name: str) -> GatedNorm:
    """A norm with a gate of ``gated_norm_rank``."""
    h, rank = c.size("hidden_size"), c.size("gated_norm_rank")
    return GatedNorm(name, Norm("norm", "rmsnorm", h), NormGate("mlp", Linear("fc1", h, rank), Linear("fc2", rank, h)))


def with_idle(c: Config) -> Mixture:
    """Experts, and some that do nothing."""
    h, f = c.size("hidden_size"), c.size("expert_ffn_hidden_size")
    real, chosen = c.size("n_routed_experts"), c.size("moe_topk")
    idle = 0 if c.get("zero_expert_num") is None else c.size("zero_expert_num", least=0)
    every = real + idle
    router = Router(
        "router.classifier",
        h,
        every,
        bias=c.flag("router_bias"),
        chosen=chosen,
        corrected=True,
        scales=True,
        code=RouterCode(logits="copies", result="logits"),
    )
    up = OfSome(FUSED[0], h, 2 * f, "1", count=real, chosen=chosen)
    down = OfSome(FUSED[1], f, h, "2", count=real, chosen=chosen)
    many = IdleExperts("experts", None, up, down, c.word("hidden_act"), count=real, chosen=chosen, idle=idle)
    return Mixture("mlp", router, many, stored=(buffer("router.e_score_correction_bias", every),))


@family("longcat_flash")
def longcat_flash(c: Config) -> Module:
    """LongCat-Flash (arXiv 2509.01322): a layer holds attention and a dense network twice, and experts beside them."""
    h, mixer, twice = c.size("hidden_size"), latent_module(c), ("[0]", "[1]")
    given, (first, up, *others) = c.optional("qk_head_dim"), mixer.inward
    up = up if given is None else up.replace(fan_out=mixer.heads * given)
    mixer = mixer.replace(
        inward=(first, up, *others), scales="queries", rope=Rope(c.size("qk_rope_head_dim"), RopeCode(pairs=True))
    )
    before, between = (tuple(Norm(f"{name}{place}", "rmsnorm", h) for place in twice) for name in decoders.PRE_NORM)
    layer = ShortcutLayer(
        "layers",
        with_idle(c),
        tuple(mixer.replace(name=f"self_attn{place}") for place in twice),
        before,
        between,
        tuple(decoders.gated(c, name=f"mlps{place}", width=c.size("ffn_hidden_size")) for place in twice),
    )
    # transformers gives these models twice as many layers as it builds, one for each attention
    each = c.has("num_hidden_layers")
    count = ceil_div(c.size("num_hidden_layers") - 1, 2) if each else c.size("num_layers")
    kinds = range(c.number("num_hidden_layers") // 2 if each else c.number("num_layers"))
    return decoders.decoder(c, lambda _: layer, kinds, count=count)
