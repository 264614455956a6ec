"""dots 3 Note: latent attention in two sizes, experts, and towers for images and for sound."""

from __future__ import annotations

from collections.abc import Iterable

from tfcalc.blocks.indexer import Indexer
from tfcalc.blocks.keeping import FP32
from tfcalc.blocks.latent_attention import LatentAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import CAUSAL_LM, bare, lm_head, output
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families.deepseek import DENSE_OR_SPARSE, experts, layers, mlp_types, sparse_after
from tfcalc.families.llama import decoder, gated
from tfcalc.leaves import activation, linear, norm
from tfcalc.workload import Workload

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
        key = next((key for key in each.data if str(key).isdigit() and int(key) == place), None)
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


def attention(kind: str, place: int, c: Config, run: Workload) -> Component:
    """Latent attention with a norm of the rotated key and a gate for each head."""
    of, h, t = OfKind(c, place, kind), c.size("hidden_size"), run.target.tokens
    heads, rank = of.size("num_attention_heads"), of.size("q_lora_rank")
    within = [
        norm("k_rope_only_layernorm", "rmsnorm", of.rope_dim, t),
        linear("g_proj", h, heads, t, bias=False, letter="gate"),
        activation("gate", "sigmoid", t * heads),
    ]
    if kind == SPARSE:
        # It rotates its keys by sines in fp32, and caches what comes out (Dots3NoteTextModel).
        chooser = Indexer(h, rank, c.size("index_n_heads"), c.size("index_head_dim"), key_bits=FP32)
        within.append(chooser("indexer", run.target, run))
    block = LatentAttention(
        h,
        heads,
        rank,
        of.size("kv_lora_rank"),
        of.size("qk_nope_head_dim"),
        of.rope_dim,
        of.size("v_head_dim"),
        bias=c.flag("attention_bias"),
        within=tuple(within),
        window=window(c) if kind == WINDOW else None,
    )
    return block("self_attn", run.target, run)


def window(c: Config) -> int:
    """What the layers of a window see, by either name."""
    return c.number("sliding_window" if c.has("sliding_window") else "sliding_window_size")


@family(
    "dots3_note_text",
    architecture="Dots3NoteForCausalLM",
    heads=CAUSAL_LM,
    aliases={
        "num_local_experts": "n_routed_experts",
        "moe_shared_expert_intermediate_size": "shared_experts_intermediate_size",
    },
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
def dots3_note_text(c: Config, run: Workload) -> Component:
    """Its text: layers of a window have fewer heads and a wider latent vector than those that see everything."""
    mixers = layer_types(c)

    def parts(kind: tuple[str, str]) -> tuple[Component, ...]:
        mixer, mlp = kind
        sparse = mlp == "sparse"
        ffn = experts(c, run, shared_width="shared_experts_intermediate_size") if sparse else gated(c, run)
        return attention(mixer, mixers.index(mixer), c, run), ffn

    return decoder(c, run, *layers(c, run, list(zip(mixers, which_are_sparse(c), strict=True)), parts))


def text_of(c: Config) -> Config:
    """The text's config: nested, or spread over the whole's own fields."""
    return c.sub("text_config", "dots3_note_text") if c.has("text_config") else c.read_as("dots3_note_text")


def conditional(c: Config, run: Workload, base: Component) -> tuple[Component, ...]:
    """Logits of the text; the whole's config says whether they are made by the embedding."""
    text, tied = text_of(c), c.flag("tie_word_embeddings")
    return base, output("lm_head", text.size("hidden_size"), text.size("vocab_size"), run, tied=tied)


def text_alone(c: Config, run: Workload, _base: Component) -> Iterable[Component]:
    """The text without towers, and its head."""
    text = text_of(c)
    return lm_head()(text, run, nested(text, run, "model"))


@family(
    "dots3_note",
    architecture="Dots3NoteForCausalLM",
    heads={"Model": bare, "ForCausalLM": text_alone, "ForConditionalGeneration": conditional},
)
def dots3_note(c: Config, run: Workload) -> Component:
    """Text, images and sound (dots 3 Note, rednote 2026)."""
    return Component(
        "model",
        "multimodal",
        parts=(
            nested(text_of(c), run, "language_model"),
            nested(c.sub("vision_config", "dots3_note_vision_encoder"), run, "vision_tower"),
            nested(c.sub("audio_config", "dots3_note_audio_encoder"), run, "audio_tower"),
        ),
    )
