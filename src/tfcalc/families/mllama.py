"""Llama 3.2 Vision: Llama with layers between its own that read an image's tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tfcalc.blocks import LLAMA_NAMES, Attention, layer, stack
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import bare, output
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, product
from tfcalc.families.images import feed_forward, grid, norms, pair, part, patches, self_attention
from tfcalc.families.llama import PRE_NORM, attention, decoder, gated, kv_heads
from tfcalc.families.llama import norms as text_norms
from tfcalc.families.unread import unread
from tfcalc.leaves import embedding, learned_position, linear, norm, parameter
from tfcalc.leaves.similarity import mask_of_pairs
from tfcalc.workload import Sequences, Workload

TEXT_ONLY = "ForCausalLM"
RESERVED = 8
"""Rows of the embedding beyond the vocabulary: for the image and other marks."""


def untied(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Logits by a matrix of its own, whatever the config says: the embedding has more rows than it."""
    text = c if "vocab_size" in c.defaults else part(c, "text_config", "mllama_text_model")
    yield base
    yield output("lm_head", text.size("hidden_size"), text.size("vocab_size"), run, tied=False)


@family(
    "mllama_text_model",
    architecture="MllamaForCausalLM",
    heads={"Model": bare, TEXT_ONLY: untied},
    cross_attention_layers=(3, 8, 13, 18, 23, 28, 33, 38),  # by __post_init__
)
def mllama_text(c: Config, run: Workload) -> Component:
    """The text alone: layers that read images are passed by where there is none."""
    return _text(c, run, reads=False)


def _text(c: Config, run: Workload, *, reads: bool) -> Component:
    """Llama 3 (arXiv 2407.21783), section 7: ``cross_attention_layers`` read images, through gates."""
    crossing = _crossing(c)
    kinds = [place in crossing for place in range(c.number("num_hidden_layers"))]
    width = c.quotient("hidden_size", "num_attention_heads")

    def make(crosses: bool) -> Component:
        mixer = (
            (cross_attention(c, run, width), *(parameter(f"cross_attn_{name}_gate", 1) for name in ("attn", "mlp")))
            if crosses
            else (attention(c, run, width=width),)
        )
        parts = (*mixer, gated(c, run), *text_norms(PRE_NORM, "rmsnorm", c, run))
        made = layer("layers", parts, run.target.tokens * c.size("hidden_size"), ends_with_sum=not crosses)
        return made if reads or not crosses else made._replace(passes=0)

    whole = decoder(c, run, *stack("layers", kinds, c.size("num_hidden_layers"), make))
    rows = c.size("vocab_size") + RESERVED
    table = embedding("embed_tokens", rows, c.size("hidden_size"), run.target.tokens)
    return whole._replace(parts=(table, *whole.parts[1:]))


def _crossing(c: Config) -> list[int]:
    """The layers that read images."""
    given = c.get("cross_attention_layers")
    return c.numbers("cross_attention_layers") if given is not None else [3, 8, 13, 18, 23, 28, 33, 38]


def cross_attention(c: Config, run: Workload, width: Num) -> Component:
    """Queries of the text; keys and values of the image, as many as ``source_len``."""
    block = Attention(
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        kv_heads(c),
        width,
        width,
        names=LLAMA_NAMES,
        within=(
            norm("q_norm", "rmsnorm", width, run.target.tokens * c.size("num_attention_heads")),
            norm("k_norm", "rmsnorm", width, run.source.tokens * kv_heads(c)),
        ),
    )
    return block("cross_attn", run.target, run.source, run, causal=False)


def tiles(c: Config, *, filled: bool) -> Num:
    """Tokens of an image: all tiles in one sequence, in the tower each of them ``filled`` up to a multiple of 8."""
    each = product(grid(c)) + 1
    count: Num = c.size("max_num_tiles") * (8 * ceil_div(each, 8) if filled else each)
    return count


@family(
    "mllama_vision_model",
    architecture="MllamaVisionModel",
    heads={"Model": bare},
    aliases={"num_attention_heads": "attention_heads"},
)
def mllama_vision(c: Config, run: Workload) -> Component:
    """Tiles of an image, with tables for where a tile lies in images of each shape; two stacks, the second gated."""
    h, n, each = c.size("hidden_size"), product(grid(c)) + 1, c.size("max_num_tiles")
    stream = run.beside(tiles(c, filled=True))
    return Component(
        "vision_model",
        "encoder",
        parts=(
            patches(
                "patch_embedding",
                c,
                run.beside(each * (n - 1)).tokens,
                width=h,
                kernel=pair(c, "patch_size"),
                bias=False,
            ),
            parameter("class_embedding", h),
            parameter("gated_positional_embedding.gate", 1),
            learned_position("gated_positional_embedding.embedding", n, h, stream.tokens),
            learned_position("gated_positional_embedding.tile_embedding", shapes(c) * each * n, h, stream.tokens),
            *tile_positions(c, "pre_tile_positional_embedding", stream),
            *tile_positions(c, "post_tile_positional_embedding", stream),
            mask_of_pairs("attention_mask", stream.batch, stream.length),
            norm("layernorm_pre", "layernorm", h, stream.tokens),
            norm("layernorm_post", "layernorm", h, stream.tokens),
            vision_layers(c, run, stream, "transformer", c.size("num_hidden_layers")),
            vision_layers(c, run, stream, "global_transformer", c.size("num_global_layers"), *GATES),
        ),
    )


GATES = ("gate_attn", "gate_ffn")


def shapes(c: Config) -> int:
    """How many shapes an image may have, and one more for no image."""
    given = c.get("supported_aspect_ratios")
    return (len(given) if isinstance(given, list | tuple) else 8) + 1


def tile_positions(c: Config, name: str, stream: Sequences) -> Iterator[Component]:
    """A vector for each tile of each shape, behind a gate."""
    yield learned_position(
        f"{name}.embedding", shapes(c) * c.size("max_num_tiles"), c.size("hidden_size"), stream.tokens
    )
    yield parameter(f"{name}.gate", 1)


def vision_layers(c: Config, run: Workload, stream: Sequences, name: str, copies: Num, *gates: str) -> Component:
    """Layers without biases in attention, some with ``gates``."""
    h = c.size("hidden_size")
    parts = (
        self_attention(c, run, stream, names=LLAMA_NAMES, heads="attention_heads", bias=False),
        feed_forward(c, run, stream),
        *norms(PRE_NORM, h, stream.tokens),
        *(parameter(gate, 1) for gate in gates),
    )
    blocks = layer("layers", parts, stream.tokens * h, copies=copies)
    return Component(name, "encoder", parts=(blocks._replace(kind="block"),))  # which transformers does not checkpoint


@family(
    "mllama",
    architecture="MllamaForCausalLM",
    heads={"Model": bare, "ForConditionalGeneration": untied, TEXT_ONLY: untied},
)
def mllama(c: Config, run: Workload) -> Component:
    """Llama 3.2 Vision (Meta, 2024; arXiv 2407.21783, section 7). As a causal language model it is the text alone."""
    vision, text = part(c, "vision_config", "mllama_vision_model"), part(c, "text_config", "mllama_text_model")
    if c.head == TEXT_ONLY:
        return nested(text, run, "model")
    memory = tiles(vision, filled=False)
    projector = linear(
        "multi_modal_projector",
        vision.size("vision_output_dim"),
        text.size("hidden_size"),
        run.beside(memory).tokens,
    )
    seeing: tuple[Component, ...] = (nested(vision, run, "vision_model"), projector)
    if run.training and not _crossing(text):
        seeing = tuple(unread(part) for part in seeing)
    language = _text(text, replace(run, source_len=memory), reads=True)
    return Component("model", "multimodal", parts=(*seeing, language._replace(name="language_model")))
