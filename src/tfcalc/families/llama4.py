"""Llama 4: a vision tower before the text."""

from __future__ import annotations

from tfcalc.blocks import LLAMA_NAMES, FeedForward, layer
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import bare, output
from tfcalc.core.component import Component
from tfcalc.core.number import scaled
from tfcalc.families.images import FC, grid, image, self_attention
from tfcalc.families.llama import PRE_NORM
from tfcalc.leaves import activation, linear, norm, parameter
from tfcalc.leaves.position import learned_position
from tfcalc.workload import Sequences, Workload


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
