"""Mixtures of experts by the fields that nearly all configs share, and kinds of experts that few families have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Buffer, Linear, Parameter, buffer
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Experts, Mixture, Router, RouterCode
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Context
from tfcalc.ops.elementwise import mul, pointwise, scaled, shifted
from tfcalc.ops.products import linear
from tfcalc.ops.shapes import reshape
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import FUSED, LAYERS

MIXTRAL_HEADS = tops.CAUSAL_LM | {"ForQuestionAnswering": tops.classifier("qa_outputs", bias=True, classes=2)}
"""Most of these call the base ``model`` under every head."""


class RouterOfAll(Router):
    """The sigmoid of the best logits, for all experts: it is 0 for those that are not chosen (Llama 4)."""


class AllExperts(Experts):
    """Experts that all read every token, times its weight."""


class EveryExpert(Mixture):
    """A mixture that counts only a token's chosen experts, and the others where it is asked for.

    Source: transformers' Llama4TextMoe; ``Workload.experts``.
    """

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the mixture's output for each token."""
        made = super().forward(x, ctx)
        if ctx.run.experts == "all" and not x.trace.emits_kernels:  # an option of what is counted
            self._vain(reshape(x, x.rows, x.width), ctx)
        return made

    def _vain(self, x: Tensor, ctx: Context) -> None:
        """The work of the experts that were not chosen."""
        up, down = (
            Borrowed(each.name, each.fan_in, each.fan_out, each.letter) for each in (self.experts.up, self.experts.down)
        )
        many = self.experts.count, self.experts.chosen
        InVain(
            f"{self.experts.name}[not chosen]", None, up, down, self.experts.activation, count=many[0], chosen=many[1]
        )(x, ctx)


class Borrowed(Linear):
    """A map whose weights another module holds."""

    def own_params(self) -> Cost:
        """Return no weights."""
        return Cost()

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the product of each row with the other module's weight."""
        (weight,) = (x.trace.weight(each) for each in super().own_params().weights)
        return linear(x, weight, letter=self.letter)


class InVain(Experts):
    """Experts that work though they were not chosen; their weights are counted with the others."""

    @property
    def copies(self) -> Num:
        """Number of experts that it stores: 0."""
        return 0

    @property
    def active(self) -> Num:
        """Number of experts that are not chosen."""
        return self.count - self.chosen


class ClippedFeedForward(GatedFeedForward):
    """``((up + 1) · gate · σ(α · gate)) W_2``, both cut off first; it counts as its activation does (gpt-oss)."""

    def halves_gated(self, gate: Tensor, up: Tensor, ctx: Context) -> Tensor:
        """Gate and input that one map has made."""
        if not gate.trace.emits_kernels:  # counted as the activation; a program makes it of smaller kernels
            return super().halves_gated(gate, up, ctx)
        gate, up = pointwise("clamp", gate), pointwise("clamp", up)
        glu = mul(gate, pointwise("sigmoid", scaled(gate)))
        return mul(shifted(up, "up + 1"), glu)


class LimitedFeedForward(GatedFeedForward):
    """``(activation(gate) · up) W_2``, gate and input cut off first (DeepSeek-V4)."""

    def gated(self, x: Tensor, ctx: Context) -> Tensor:
        """Clamp gate and input first."""
        assert self.gate is not None
        gate, up = pointwise("clamp", self.gate(x)), pointwise("clamp", self.up(x))
        return self.halves_gated(gate, up, ctx)


class LimitedExperts(Experts):
    """Experts that compute ``(activation(gate) · up) W_2``, gate and input cut off first (DeepSeek-V4)."""

    def halves_gated(self, gate: Tensor, up: Tensor, ctx: Context) -> Tensor:
        """Gate and input that one map has made."""
        return super().halves_gated(pointwise("clamp", gate), pointwise("clamp", up), ctx)


DENSE_OR_SPARSE = ("dense", "sparse")


def chosen(c: Config, experts: str = "num_local_experts", each: str | int = "num_experts_per_tok") -> Num:
    """Number of experts per token, by a field or a number: all where no fewer are asked for."""
    asked = each if isinstance(each, int) else c.number(experts) if c.get(each) is None else c.number(each)
    if asked >= c.number(experts):
        return c.size(experts)
    return each if isinstance(each, int) else c.size(each)


def shared(c: Config, count: str = "n_shared_experts", width: str = "moe_intermediate_size") -> Num:
    """The width of shared experts, which are one network as wide as ``count`` of them; 0 where there are none."""
    return c.size(width) * c.size(count, least=0)


def mixture(
    c: Config,
    *beside: GatedFeedForward,
    name: str = "mlp",
    experts: str = "num_local_experts",
    each: str | int = "num_experts_per_tok",
    width: str | Num = "intermediate_size",
    hidden: Num | None = None,
    router: str = "gate",
    act: str = "",
    bias: bool = False,
    names: Sequence[str] = FUSED,
    of: type[Router] = Router,
    **routing: Any,
) -> Mixture:
    """``experts`` gated networks of this ``width``, of which each token goes through ``each``: names of the fields.

    They read ``hidden`` numbers of each token. ``beside`` are shared experts, which read the same; ``routing`` is what
    a router does its own way: fields of :class:`~tfcalc.nn.mixture.Router` and of its code.
    """
    count, active = c.size(experts), chosen(c, experts, each)
    h = c.size("hidden_size") if hidden is None else hidden
    route = of(router, h, count, bias=bias, chosen=active, **routing)
    *inward, down = names
    f, kind = c.size(width) if isinstance(width, str) else width, act or c.word("hidden_act")
    gate = Linear(inward[0], h, f, "g", bias) if len(inward) == 2 else None
    up = Linear(inward[-1], h, f if gate else 2 * f, "1", bias)
    many = Experts("experts", gate, up, Linear(down, f, h, "2", bias), kind, count=count, chosen=active)
    return Mixture(name, route, many, beside)


def correction(c: Config, name: str = "gate.e_score_correction_bias", experts: str = "n_routed_experts") -> Buffer:
    """Bias on the router's scores that balances the experts' load: no gradient trains it, so it is a buffer."""
    return buffer(name, c.size(experts))


def frozen(c: Config, name: str, experts: str) -> Parameter:
    """Bias on the router's scores that balances the experts' load, as a parameter that is not trained."""
    return Parameter(name, Weight(name, (c.size(experts),), minor=True, key="", frozen=True))


def sparse_after(c: Config, dense: int, every: int = 1) -> list[str]:
    """Kind of each layer: experts at the places 0, ``every``, 2 ``every`` and so on, after the first ``dense`` ones."""
    return ["sparse" if place >= dense and place % every == 0 else "dense" for place in range(c.number(LAYERS))]


def mlp_types(c: Config, otherwise: Sequence[str]) -> list[str]:
    """``mlp_layer_types`` where it is given."""
    given = c.has("mlp_layer_types")
    return c.words("mlp_layer_types", len(otherwise), DENSE_OR_SPARSE) if given else list(otherwise)


COPIES: dict[str, Any] = {"scores": "sigmoid", "corrected": True, "code": RouterCode(logits="copies")}
"""DeepSeek-V3's router: sigmoids of logits that are made in fp32, and a correction of who is chosen."""


def dense_or_sparse(
    c: Config,
    kinds: Sequence[str],
    mixer: Attention,
    mixed: Callable[[], Mixture],
    *,
    bias: bool = False,
    code: str = "",
    seen: Sequence[int | None] | None = None,
    full: Mapping[str, Any] | None = None,
    **how: Any,
) -> Decoder:
    """Layers with this attention, some with experts, some dense (with a ``bias``).

    It may be of the windows that are ``seen``, and as in ``full`` where it sees everything. The rest says how a layer
    is made (:func:`tfcalc.zoo.blocks.decoders.layer`).
    """

    def one(kind: tuple[int | None, str]) -> PreNorm:
        window, mlp = kind
        looks = mixer.replace(window=window, **(full or {}) if window is None else {})
        return decoders.layer(c, looks, mixed() if mlp == "sparse" else decoders.gated(c, bias=bias), code=code, **how)

    all_kinds = list(zip(seen or [None] * len(kinds), kinds, strict=True))
    return decoders.decoder(c, one, all_kinds, code=code)


def dense_first(c: Config, every: int = 1) -> list[str]:
    """Kind of each layer: experts in one of ``every`` layers after the first ``first_k_dense_replace``."""
    return sparse_after(c, c.number("first_k_dense_replace", least=0), every)


def routed(
    c: Config, count: str = "n_routed_experts", *, common: Num | None = None, scales: bool = True, **how: Any
) -> Mixture:
    """Experts of ``moe_intermediate_size``, the router's correction, and shared experts ``common`` to all tokens.

    ``how`` they are routed may differ.
    """
    beside = () if common is None else (decoders.gated(c, name="shared_experts", width=common),)
    routing = COPIES | {"scales": scales} | how
    if "normalized" not in routing:
        routing["normalized"] = bool(c.get("norm_topk_prob"))
    mixed = mixture(c, *beside, experts=count, width="moe_intermediate_size", **routing)
    return mixed.replace(stored=(correction(c, experts=count),))


def sparse_steps(c: Config) -> list[bool]:
    """The layers that have experts: every ``decoder_sparse_step``-th, but for those in ``mlp_only_layers``.

    Where these are null, they are what the family has by default.
    """
    given = c.get("mlp_only_layers") is not None
    dense = c.numbers("mlp_only_layers") if given else c.defaults.get("mlp_only_layers") or []
    step, some = c.number("decoder_sparse_step"), c.number("num_experts", least=0) > 0
    return [some and place not in dense and (place + 1) % step == 0 for place in range(c.number(LAYERS))]


def of_topk(c: Config, *, normalized: bool = False) -> Mixture:
    """Experts whose weights add up to 1 where a flag says so, or always (``normalized``), in the logits' format."""
    sums_to_1, width = normalized or bool(c.get("norm_topk_prob")), "moe_intermediate_size"
    return mixture(c, experts="num_experts", width=width, normalized=sums_to_1, code=RouterCode(result="logits"))


def with_shared(c: Config, mixed: Mixture) -> Mixture:
    """Beside them a shared expert, which runs first."""
    shared = decoders.gated(c, name="shared_expert", width=c.size("shared_expert_intermediate_size", least=0))
    return mixed.replace(
        shared=(shared,), gate=Linear("shared_expert_gate", c.size("hidden_size"), 1), shared_first=True
    )
