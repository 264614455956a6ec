"""dots 3 Note's tower for images: more experts the higher the layer."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config, layer_named
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.families import kit, packed_kit
from tfcalc.families.experts import DENSE_OR_SPARSE
from tfcalc.families.names import FUSED
from tfcalc.families.packed_kit import MERGED_OF_TWO
from tfcalc.families.windows import LAYERS
from tfcalc.nn.any_size import Merger, PackedAttention, PackedTower, PatchRows
from tfcalc.nn.basic import Linear, Norm, buffer
from tfcalc.nn.mixture import Experts, Mixture, Router
from tfcalc.nn.module import Module
from tfcalc.nn.rope import Rope


def expert_counts(c: Config) -> list[int]:
    """How many experts each layer of the tower has; none in dense layers."""
    count = c.number("num_hidden_layers")
    if c.has("pyramid_num_routed") or not c.has("mlp_layer_types"):
        return [max(number, 0) for number in c.numbers("pyramid_num_routed", count, least=-1)]
    each, kinds = c.sub("per_layer_config", defaults={}), c.words("mlp_layer_types", count, DENSE_OR_SPARSE)
    own = {layer_named(key): each.sub(key, defaults={}) for key in each.data if layer_named(key) is not None}
    counts = [of if (of := own.get(place)) and of.has("num_local_experts") else c for place in range(count)]
    return [of.number("num_local_experts") if kind == "sparse" else 0 for of, kind in zip(counts, kinds, strict=True)]


def mixture(count: int, c: Config) -> Mixture:
    """``count`` experts without a shared one."""
    h, f, active = c.size("hidden_size"), c.size("moe_intermediate_size"), min(c.number("num_experts_per_tok"), count)
    router = Router(
        "gate",
        h,
        count,
        chosen=active,
        scores="sigmoid",
        corrected=True,
        normalized=True,
        in_place=False,
        scales=True,
        logits="copies",
    )
    up, down = Linear(FUSED[0], h, 2 * f, "1"), Linear(FUSED[1], f, h, "2")
    many = Experts("experts", None, up, down, c.word("hidden_act"), count=count, chosen=active)
    return Mixture("mlp", router, many, stored=(buffer("e_score_correction_bias", count),))


def vision_attention(c: Config) -> PackedAttention:
    """Norms of each head's query and key before they are turned."""
    h, a, d, bias = c.size("hidden_size"), c.size("num_attention_heads"), head_width(c), c.flag("attention_bias")
    inward, outward = Linear("qkv", h, 3 * a * d, "QKV", bias), Linear("proj", a * d, h, "O", bias)
    norms = tuple(Norm(f"{of}_norm", "rmsnorm", d) for of in "qk")
    rope, dropout = Rope(d, angles="float32", in_float32=True), bool(c.get("attention_dropout"))
    return PackedAttention("attn", a, a, d, d, (inward,), norms, outward, rope=rope, dropout=dropout)


def head_width(c: Config) -> Num:
    """Heads split the hidden size."""
    return c.quotient("hidden_size", "num_attention_heads")


@family(
    "dots3_note_vision_encoder",
    architecture="Dots3NoteVisionModel",
    heads={"Model": tops.bare},
    aliases={
        "embed_dim": "hidden_size",
        "num_heads": "num_attention_heads",
        "use_bias": "attention_bias",
        "capacity_factor": "num_experts_per_tok",
    },
    # by __post_init__:
    num_experts_per_tok=2,
    pyramid_num_routed=[-1] * 25 + list(range(4, 65, 4)) + [64],
)
def dots3_note_vision_encoder(c: Config) -> Module:
    """Its tower for images of any size, as many patches as the source is long."""
    h, patch, width, out = map(c.size, ("hidden_size", "patch_size", "adapter_in_dim", "adapter_out_dim"))
    square, mixer = c.size("adapter_merge_size") * c.size("adapter_merge_size"), vision_attention(c)
    layers = {
        count: packed_kit.layer(
            h, mixer, mixture(count, c) if count else kit.gated(c, bias=c.flag("mlp_bias")), form="rmsnorm"
        )
        for count in dict.fromkeys(expert_counts(c))
    }
    inner, names = width * square, MERGED_OF_TWO
    first, last = Linear(names[1], inner, inner, "", True), Linear(names[2], inner, out, "", True)
    return PackedTower(
        "vision_tower",
        PatchRows("patch_embed.proj", (c.size("num_channels"), patch, patch), h),
        None,
        packed_kit.tower_layers(c, *(layers[count] for count in expert_counts(c)), depth=LAYERS),
        (Merger("merger", Norm(names[0], "layernorm", width), first, last, square, activated="activation"),),
        normed=Norm("patch_embed.norm", "rmsnorm", h),
        norm=Norm("norm", "rmsnorm", h),
    )
