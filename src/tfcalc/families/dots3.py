"""dots 3 Note: latent attention in two sizes, experts, and towers for images and for sound."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config, layer_named
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.families import kit
from tfcalc.families.deepseek import index_module, latent_of
from tfcalc.families.experts import DENSE_OR_SPARSE, mlp_types, shared, sparse_after
from tfcalc.families.glm_moe import routed
from tfcalc.families.image_kit import nested
from tfcalc.nn.basic import Norm
from tfcalc.nn.indexer import SparseLatentAttention
from tfcalc.nn.latent import LatentAttention
from tfcalc.nn.latent_gate import LatentGate
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.reader import Multimodal
from tfcalc.nn.rope import Rope
from tfcalc.ops.keeping import FP32

WINDOW, SPARSE, FULL = "sliding_attention", "indexed_attention", "full_attention"


def layer_types(c: Config) -> list[str]:
    """Given, or a window in most layers; ``use_dsa`` says whether an indexer chooses the keys in the others."""
    count, full = c.number("num_hidden_layers"), FULL if c.get("use_dsa") is False else SPARSE
    if not c.has("layer_types"):
        window = c.flag("use_sliding_window")
        return [WINDOW if window and place >= 2 and place % 4 != 1 else full for place in range(count)]
    given = c.words("layer_types", count, (WINDOW, SPARSE, FULL))
    decided = c.has("use_dsa") or not c.has("per_layer_config")
    return [full if decided and kind != WINDOW else kind for kind in given]


def which_are_sparse(c: Config) -> list[str]:
    """``moe_layer_freq`` is a number, or a list of one for each layer."""
    first = c.number("first_k_dense_replace", least=0)
    if not isinstance(c.get("moe_layer_freq"), list | tuple):
        return mlp_types(c, sparse_after(c, first, c.number("moe_layer_freq")))
    marks = c.numbers("moe_layer_freq", c.number("num_hidden_layers"))
    return mlp_types(c, [DENSE_OR_SPARSE[mark > 0 and place >= first] for place, mark in enumerate(marks)])


class OfKind:
    """The sizes of the layers of one kind: their own where they have one, else the model's."""

    def __init__(self, c: Config, place: int, kind: str) -> None:
        self.c = c
        each = c.sub("per_layer_config", defaults={})
        key = next((key for key in each.data if layer_named(key) == place), None)
        self.own = each if key is None else each.sub(key, defaults={})
        self.prefix = "swa_" if kind == WINDOW and not c.has("per_layer_config") else ""

    def size(self, name: str) -> Num:
        """This size, for these layers."""
        if self.own.has(name):
            return self.own.size(name)
        return self.c.size(self.prefix + name)

    @property
    def rope_dim(self) -> Num:
        """What is left of a head's width in a window, where the file does not say."""
        if self.prefix and not self.c.has("swa_qk_rope_head_dim"):
            return self.c.size("swa_head_dim") - self.c.size("swa_qk_nope_head_dim")
        return self.size("qk_rope_head_dim")


def attention(kind: str, place: int, c: Config) -> LatentAttention:
    """Latent attention with a norm of the rotated key and a gate for each head; its vectors of low rank are scaled.

    Layers that choose their keys turn queries and keys in fp32, and their indexer caches what comes out
    (transformers' Dots3NoteTextModel).
    """
    of, h = OfKind(c, place, kind), c.size("hidden_size")
    heads, key = of.size("num_attention_heads"), (of.size("qk_nope_head_dim"), of.rope_dim)
    made = latent_of(c, heads, of.size("q_lora_rank"), of.size("kv_lora_rank"), key, of.size("v_head_dim"))
    made = made.but(
        key_norm=Norm("k_rope_only_layernorm", "rmsnorm", of.rope_dim),
        gate=LatentGate("g_proj", h, heads, "gate"),
        rope=Rope(of.rope_dim, "float32" if kind == SPARSE else "", by_window=True, pairs=True),
        window=window(c) if kind == WINDOW else None,
        scales="latents",
        copies_latent=True,
    )
    if kind != SPARSE:
        return made
    chooser = index_module(c, of.size("q_lora_rank"), of.rope_dim)
    chooser = chooser.but(key_bits=FP32, rope=chooser.rope.but(angles="float32", by_window=True, pairs=True))
    return made.to(SparseLatentAttention, indexer=chooser, always_masked=True)


def window(c: Config) -> int:
    """What the layers of a window see, by either name."""
    return c.number("sliding_window" if c.has("sliding_window") else "sliding_window_size")


@family(
    "dots3_note_text",
    aliases={"moe_shared_expert_intermediate_size": "shared_experts_intermediate_size"},
    # by __post_init__, for older configs:
    first_k_dense_replace=1,
    moe_layer_freq=1,
    use_sliding_window=True,
    sliding_window_size=512,
    swa_num_attention_heads=64,
    swa_kv_lora_rank=1024,
    swa_q_lora_rank=1024,
    swa_head_dim=256,
    swa_qk_nope_head_dim=192,
    swa_v_head_dim=128,
)
def dots3_note_text(c: Config) -> Module:
    """Its text: layers of a window have fewer heads and a wider latent vector than those that see everything."""
    mixers = layer_types(c)

    def one(kind: tuple[str, str]) -> Module:
        mixer, mlp = kind
        ffn = routed(c, common=shared(c, width="shared_experts_intermediate_size")) if mlp == "sparse" else kit.gated(c)
        return kit.layer(c, attention(mixer, mixers.index(mixer), c), ffn)

    return kit.decoder(c, one, list(zip(mixers, which_are_sparse(c), strict=True)))


def text_of(c: Config) -> Config:
    """The text's config: nested, or spread over the whole's own fields."""
    return c.sub("text_config", "dots3_note_text") if c.has("text_config") else c.read_as("dots3_note_text")


def conditional(c: Config, base: Module) -> Module:
    """Logits of the text; the whole's config says whether they are made by the embedding."""
    text, tied = text_of(c), c.flag("tie_word_embeddings")
    head = tops.logits("lm_head", text.size("hidden_size"), text.size("vocab_size"), tied=tied)
    return WithHead("", base, head)


def text_alone(c: Config, _base: Module) -> Module:
    """The text without towers, and its head."""
    text = text_of(c)
    return tops.lm_head()(text, nested(text, "model"))


@family("dots3_note", heads={"Model": tops.bare, "ForCausalLM": text_alone, "ForConditionalGeneration": conditional})
def dots3_note(c: Config) -> Module:
    """Text, images and sound (dots 3 Note, rednote 2026)."""
    vision = nested(c.sub("vision_config", "dots3_note_vision_encoder"), "vision_tower")
    audio = nested(c.sub("audio_config", "dots3_note_audio_encoder"), "audio_tower")
    return Multimodal("model", nested(text_of(c), "language_model"), ((vision,), (audio,)))
