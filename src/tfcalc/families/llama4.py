"""Llama 4: experts in every layer or in some, and a vision tower before the text."""

from __future__ import annotations

from tfcalc.blocks import FUSED, GATED, LLAMA_NAMES, FeedForward, layer, stack
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import CAUSAL_LM, bare, output
from tfcalc.core.component import Component
from tfcalc.core.number import scaled
from tfcalc.families.images import FC, grid, image, self_attention
from tfcalc.families.llama import PRE_NORM, attention, decoder, norms
from tfcalc.families.mixtral import chosen
from tfcalc.families.windows import told, window
from tfcalc.leaves import activation, linear, norm, parameter
from tfcalc.leaves.position import learned_position
from tfcalc.workload import Sequences, Workload

CHUNKED = "chunked_attention"


def feed_forward(sparse: bool, c: Config, run: Workload) -> Component:
    """Experts, which all read every token, and a shared one of the same width; dense layers have their own."""
    h, act = c.size("hidden_size"), c.word("hidden_act")
    if not sparse:
        dense = FeedForward(h, c.size("intermediate_size_mlp"), act, names=GATED, gated=True)
        return dense("feed_forward", run.target, run)
    expert = FeedForward(h, c.size("intermediate_size"), act, names=FUSED, gated=True)
    shared = expert._replace(names=GATED)("shared_expert", run.target, run)
    stored, active = c.size("num_local_experts"), chosen(c)
    block = MixtureOfExperts(h, stored, active, expert, "router", within=(shared,), all_run=True)
    return block("feed_forward", run.target, run)


def sparse_layers(c: Config) -> list[bool]:
    """Which layers have experts: those of ``moe_layers``, else the last of every ``interleave_moe_layer_step``."""
    count = c.number("num_hidden_layers")
    if c.has("moe_layers"):
        listed = set(c.numbers("moe_layers"))
        return [place in listed for place in range(count)]
    step = c.number("interleave_moe_layer_step")
    return [(place + 1) % step == 0 for place in range(count)]


@family("llama4_text", architecture="Llama4ForCausalLM", heads=CAUSAL_LM)
def llama4_text(c: Config, run: Workload) -> Component:
    """Llama 4's text (Meta 2025): the norms of queries and keys have no weights."""

    def make(kind: tuple[int | None, bool, bool]) -> Component:
        chunk, rotates, sparse = kind
        mixer = attention(c, run, bias=c.flag("attention_bias"), chunk=chunk, rotated=rotates)
        around = mixer, feed_forward(sparse, c, run), *norms(PRE_NORM, "rmsnorm", c, run)
        elements = run.target.tokens * c.size("hidden_size")
        return layer("layers", around, elements, ends_with_sum=True)

    kinds = list(zip(told(run, chunks(c)), rotated(c), sparse_layers(c), strict=True))
    return decoder(c, run, *stack("layers", kinds, c.size("num_hidden_layers"), make))


def rotated(c: Config) -> list[bool]:
    """Which layers know positions: those of ``no_rope_layers``, else all but every fourth."""
    count = c.number("num_hidden_layers")
    if c.get("no_rope_layers"):
        return [bool(each) for each in c.numbers("no_rope_layers", count)]
    return [(place + 1) % c.number("no_rope_layer_interval") > 0 for place in range(count)]


def chunks(c: Config) -> list[int | None]:
    """Layers that know positions see only their chunk, unless ``layer_types`` say which do."""
    count, chunk = c.number("num_hidden_layers"), window(c, "attention_chunk_size")
    if c.has("layer_types"):
        return [chunk if kind == CHUNKED else None for kind in c.words("layer_types", count)]
    return [chunk if each else None for each in rotated(c)]


def adapter(c: Config, images: Sequences) -> Component:
    """Two linear maps of the shuffled pixels, each with an activation behind it."""
    into, out, t = c.size("projector_input_dim"), c.size("projector_output_dim"), images.tokens
    parts = (
        linear("fc1", c.size("intermediate_size"), into, t, bias=False),
        activation("activation_1", "gelu", t * into),
        linear("fc2", out, out, t, bias=False),
        activation("activation_2", "gelu", t * out),
    )
    return Component("vision_adapter", "projector", parts=(Component("mlp", "ffn", parts=parts),))


def shuffled(c: Config, run: Workload) -> Sequences:
    """What the tower gives to the text of one image per sequence: pixels move from both sides into the width."""
    (rows, columns), ratio = grid(c), c.factor("pixel_shuffle_ratio")
    return run.beside(scaled(rows, ratio) * scaled(columns, ratio))


@family("llama4_vision_model", architecture="Llama4VisionModel", heads={"Model": bare})
def llama4_vision_model(c: Config, run: Workload) -> Component:
    """Llama 4's images (Meta 2025): patches and a class token, biases everywhere but in the adapter."""
    h, patch, images = c.size("hidden_size"), c.size("patch_size"), image(c, run, 1)
    t, pixels = images.tokens, c.size("num_channels") * patch * patch
    mlp = FeedForward(h, c.size("intermediate_size"), "gelu", bias=True, names=FC)
    parts = (
        self_attention(c, run, images, names=LLAMA_NAMES),
        mlp("mlp", images, run),
        *(norm(name, "layernorm", h, t) for name in PRE_NORM),
    )
    return Component(
        "vision_model",
        "encoder",
        parts=(
            linear("patch_embedding.linear", pixels, h, image(c, run).tokens, bias=False, input_gradient=False),
            parameter("class_embedding", h),
            learned_position("positional_embedding_vlm", images.length, h, t),
            norm("layernorm_pre", "layernorm", h, t),
            layer("model.layers", parts, t * h, copies=c.size("num_hidden_layers"), ends_with_sum=True),
            norm("layernorm_post", "layernorm", h, t),
            adapter(c, shuffled(c, run)),
        ),
    )


def without_images(_c: Config, _run: Workload, base: Component) -> tuple[Component, ...]:
    """The text alone, with its head."""
    return base.parts[-1].parts


@family(
    "llama4",
    architecture="Llama4ForConditionalGeneration",
    heads={"ForConditionalGeneration": bare, "ForCausalLM": without_images},
)
def llama4(c: Config, run: Workload) -> Component:
    """Llama 4 Scout and Maverick (Meta 2025); only the text's own config can tie its head."""
    text, vision = c.sub("text_config", "llama4_text"), c.sub("vision_config", "llama4_vision_model")
    h, tied = text.size("hidden_size"), text.flag("tie_word_embeddings")
    language = nested(text, run, "model")
    head = output("lm_head", h, text.size("vocab_size"), run, tied=tied)
    images = shuffled(vision, run).tokens
    return Component(
        "model",
        "multimodal",
        parts=(
            nested(vision, run, "vision_model"),
            linear("multi_modal_projector.linear_1", vision.size("vision_output_dim"), h, images, bias=False),
            Component("language_model", "model", parts=(language, head)),
        ),
    )
