"""Language models that read images: a vision tower, a projector of what it sees, and the text model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod

from tfcalc.blocks import GATED, LLAMA_NAMES, layer
from tfcalc.configs.config import MOST_LAYERS, Config
from tfcalc.configs.family import Head, family, nested
from tfcalc.configs.heads import bare, classifier, labels, output
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, floor_div, product
from tfcalc.errors import InvalidModel
from tfcalc.families.clip import encoder as clip_encoder
from tfcalc.families.images import feed_forward, grid, image, norms, pair, part, patches, self_attention
from tfcalc.families.modernbert import bottleneck, dense
from tfcalc.families.unread import read_early, unread_heads
from tfcalc.families.vit import NORMS
from tfcalc.leaves import activation, learned_position, linear, norm, parameter
from tfcalc.printable import quoted
from tfcalc.workload import Sequences, Workload

CLASS_TOKENS = ("class_embedding", "cls_token")
Text = Callable[[Config], Config]
Tied = Callable[[Config, Config], bool]


def outer(c: Config, _text: Config) -> bool:
    """Only what the whole's config says of ``tie_word_embeddings`` counts."""
    return c.flag("tie_word_embeddings")


def either(c: Config, text: Config) -> bool:
    """One of both configs may tie the head."""
    return c.flag("tie_word_embeddings") or text.flag("tie_word_embeddings")


def conditional(text: Text, *, tied: Tied = outer) -> Head:
    """Logits of the text model's vectors."""

    def head(c: Config, run: Workload, base: Component) -> Iterator[Component]:
        language = text(c)
        yield base
        yield output("lm_head", language.size("hidden_size"), language.size("vocab_size"), run, tied=tied(c, language))

    return head


def heads(text: Text, *, tied: Tied = outer) -> dict[str, Head]:
    """The bare model, the one that writes, and one that sorts what it has read."""
    return {
        "Model": bare,
        "ForConditionalGeneration": conditional(text, tied=tied),
        "ForSequenceClassification": classifier("score", width=lambda c: text(c).size("hidden_size")),
    }


def reader(
    run: Workload, text: Config, tower: Component, *between: Component, name: str = "language_model"
) -> Component:
    """A tower, what is ``between`` it and the text, and the text model."""
    return Component("model", "multimodal", parts=(tower, *between, nested(text, run, name)))


def seen(vision: Config, run: Workload) -> Num:
    """How many patches a tower gives to the text: those of one image for each sequence.

    Where images may be of any size, as many as ``source_len`` of the workload says.
    """
    return run.source.tokens if vision.get("image_size") is None else image(vision, run).tokens


def side_by_side(vision: Config, run: Workload, side: Num) -> Num:
    """How many vectors there are where squares of ``side`` × ``side`` patches become one each."""
    return run.beside(product(floor_div(length, side) for length in grid(vision))).tokens


def two_maps(
    c: Config, fan_in: Num, width: Num, tokens: Num, *, bias: bool, act: str = "projector_hidden_act"
) -> Iterator[Component]:
    """Two linear maps with an activation between them."""
    yield linear("linear_1", fan_in, width, tokens, bias=bias)
    yield activation("act", c.word(act), tokens * width)
    yield linear("linear_2", width, width, tokens, bias=bias)


def feature_layers(c: Config) -> list[int]:
    """The layers of the tower whose vectors are taken, side by side."""
    if isinstance(c.get("vision_feature_layer"), list | tuple):
        return c.numbers("vision_feature_layer", least=-MOST_LAYERS)
    return [c.number("vision_feature_layer", least=-MOST_LAYERS)]


def as_read(c: Config, run: Workload, vision: Config, tower: Component) -> Component:
    """The tower as its reader leaves it: without what its head makes, and without layers above those that are taken."""
    count = vision.number("num_hidden_layers")
    last = max(layer if layer >= 0 else count + 1 + layer for layer in feature_layers(c))
    return unread_heads(read_early(tower, run, count - last), run)


def taken(c: Config, run: Workload, vision: Config, tower: Component) -> Sequences:
    """The vectors that are taken of a tower: all, or all but the first (``vision_feature_select_strategy``)."""
    firsts = sum(node.component.name in CLASS_TOKENS for node in tower.walk())
    return image(vision, run, firsts - (c.get("vision_feature_select_strategy") == "default"))


CLIP_LARGE = {
    "intermediate_size": 4096,
    "hidden_size": 1024,
    "patch_size": 14,
    "image_size": 336,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
}


def llama_text(c: Config) -> Config:
    """Any text model, but Llama where none is named."""
    return part(c, "text_config", "llama", free=True)


def llava_projector(c: Config, images: Sequences, vision: Config, text: Config) -> Component:
    """Each patch's vector becomes one of the text's width."""
    fan_in, bias = len(feature_layers(c)) * vision.size("hidden_size"), c.flag("multimodal_projector_bias")
    maps = two_maps(c, fan_in, text.size("hidden_size"), images.tokens, bias=bias)
    return Component("multi_modal_projector", "projector", parts=tuple(maps))


def _llava(c: Config, run: Workload, *further: Component, tiles: Num = 1) -> Component:
    """Every tile is an image of its own to the tower."""
    vision, text = part(c, "vision_config", "clip_vision_model", over=CLIP_LARGE, free=True), llama_text(c)
    each = replace(run, batch_size=run.batch_size * tiles)
    tower = nested(vision, each, "vision_tower")
    projector = llava_projector(c, taken(c, each, vision, tower), vision, text)
    return reader(run, text, as_read(c, run, vision, tower), projector, *further)


@family("llava", architecture="LlavaForConditionalGeneration", heads=heads(llama_text, tied=either))
def llava(c: Config, run: Workload) -> Component:
    """Liu et al. 2023 (arXiv 2310.03744): CLIP's patches through a network of one hidden layer."""
    return _llava(c, run)


@family(
    "llava_next",
    architecture="LlavaNextForConditionalGeneration",
    heads=heads(llama_text),
    image_grid_pinpoints=((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)),  # by __post_init__
)
def llava_next(c: Config, run: Workload) -> Component:
    """LLaVA-NeXT (2024): an image in tiles, with a trained vector at the end of each row."""
    newline = parameter("image_newline", llama_text(c).size("hidden_size"))
    return _llava(c, run, newline, tiles=1 + tiles(c))


def tiles(c: Config) -> Num:
    """How many tiles an image of the tower's size becomes: those of the shape that shows most of it, and wastes least.

    Source: Liu et al. 2024 (LLaVA-NeXT); transformers' select_best_resolution.
    """
    tower = part(c, "vision_config", "clip_vision_model", over=CLIP_LARGE, free=True)
    side = tower.number("image_size")
    shapes = c.get("image_grid_pinpoints")
    if not isinstance(shapes, list | tuple) or not shapes or not all(_is_shape(shape) for shape in shapes):
        raise InvalidModel(f"{c.path('image_grid_pinpoints')} {quoted(shapes)} are not shapes", "such as [[336, 672]]")

    def shown(shape: Sequence[int]) -> tuple[int, int]:
        most = min(min(shape), side) ** 2
        return most, most - prod(shape)

    return product(ceil_div(length, tower.size("image_size")) for length in max(shapes, key=shown))


def _is_shape(shape: object) -> bool:
    return isinstance(shape, list | tuple) and len(shape) == 2 and all(type(side) is int and side > 0 for side in shape)


@family("pixtral", architecture="PixtralVisionModel", heads={"Model": bare})
def pixtral(c: Config, run: Workload) -> Component:
    """Pixtral's tower (arXiv 2410.07073): a Llama without biases, for images of any shape.

    The images of a batch lie in one sequence, and are masked from each other.
    """
    h, stream = c.size("hidden_size"), image(c, run)
    row = stream._replace(batch=1, length=stream.tokens)
    parts = (
        self_attention(c, run, row, name="attention", names=LLAMA_NAMES, bias=False),
        feed_forward(c, run, stream, name="feed_forward", names=GATED, bias=False, gated=True),
        *norms(("attention_norm", "ffn_norm"), h, stream.tokens, "rmsnorm"),
    )
    return Component(
        "vision_tower",
        "encoder",
        parts=(
            patches("patch_conv", c, stream.tokens, width=h, kernel=pair(c, "patch_size"), bias=False),
            norm("ln_pre", "rmsnorm", h, stream.tokens),
            layer(
                "transformer.layers", parts, stream.tokens * h, copies=c.size("num_hidden_layers"), ends_with_sum=True
            ),
        ),
    )


PIXTRAL_LARGE = {
    "intermediate_size": 4096,
    "hidden_size": 1024,
    "patch_size": 14,
    "image_size": 1540,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "hidden_act": "gelu",
}
MISTRAL_SMALL = {
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 5120,
    "intermediate_size": 32768,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 40,
    "num_key_value_heads": 8,
    "vocab_size": 131072,
}


def mistral_text(c: Config) -> Config:
    """Any text model, but Mistral Small where none is named."""
    return part(c, "text_config", "mistral", over=MISTRAL_SMALL, free=True)


@family("mistral3", architecture="Mistral3ForConditionalGeneration", heads=heads(mistral_text))
def mistral3(c: Config, run: Workload) -> Component:
    """Mistral Small 3.1 (Mistral AI, 2025): neighbouring patches are merged before the projector."""
    vision, text = part(c, "vision_config", "pixtral", over=PIXTRAL_LARGE, free=True), mistral_text(c)
    h, merged, count = vision.size("hidden_size"), c.size("spatial_merge_size"), seen(vision, run)
    tokens, fan_in = side_by_side(vision, run, merged), len(feature_layers(c)) * h
    parts = (
        norm("norm", "rmsnorm", h, count),
        linear("patch_merger.merging_layer", h * merged * merged, h, tokens, bias=False),
        *two_maps(c, fan_in, text.size("hidden_size"), tokens, bias=c.flag("multimodal_projector_bias")),
    )
    projector = Component("multi_modal_projector", "projector", parts=parts)
    return reader(run, text, as_read(c, run, vision, nested(vision, run, "vision_tower")), projector)


@family("internvl_vision", architecture="InternVLVisionModel", heads={"Model": bare})
def internvl_vision(c: Config, run: Workload) -> Component:
    """InternViT (arXiv 2312.14238): scales for what each sub-layer adds; all heads may be normalised together."""
    h, stream = c.size("hidden_size"), image(c, run, 1)
    kind = {"layer_norm": "layernorm", "rms_norm": "rmsnorm"}[c.word("norm_type", ("layer_norm", "rms_norm"))]
    qk = norms(("q_norm", "k_norm"), h, stream.tokens, "rmsnorm") if c.flag("use_qk_norm") else ()
    mixer = self_attention(
        c,
        run,
        stream,
        name="attention",
        names=(*LLAMA_NAMES[:3], "projection_layer"),
        bias=c.flag("attention_bias"),
        output_bias=True,
        within=qk,
    )
    scales = (parameter(name, h, minor=True) for name in ("lambda_1", "lambda_2"))
    parts = (mixer, feed_forward(c, run, stream), *scales, *norms(NORMS, h, stream.tokens, kind))
    return Component(
        "vision_tower",
        "encoder",
        parts=(
            Component("embeddings", "embedding", parts=tuple(_internvl_embeddings(c, run, stream))),
            layer("encoder.layer", parts, stream.tokens * h, copies=c.size("num_hidden_layers")),
            *([] if c.flag("use_mean_pooling") else [norm("layernorm", "layernorm", h, stream.tokens)]),
        ),
    )


def _internvl_embeddings(c: Config, run: Workload, stream: Sequences) -> Iterator[Component]:
    h = c.size("hidden_size")
    yield parameter("cls_token", h)
    if c.flag("use_mask_token"):
        yield parameter("mask_token", h)
    yield patches("patch_embeddings.projection", c, image(c, run).tokens, width=h, kernel=pair(c, "patch_size"))
    if c.flag("use_absolute_position_embeddings"):
        yield learned_position("position_embeddings", stream.length, h, stream.tokens)


def qwen_text(c: Config) -> Config:
    """Any text model, but Qwen2 where none is named."""
    return part(c, "text_config", "qwen2", free=True)


@family("internvl", architecture="InternVLForConditionalGeneration", heads=heads(qwen_text))
def internvl(c: Config, run: Workload) -> Component:
    """InternVL 3 (arXiv 2504.10479): neighbouring patches are laid side by side, and normalised together."""
    vision, text = part(c, "vision_config", "internvl_vision"), qwen_text(c)
    together = int(1 / c.factor("downsample_ratio")) ** 2
    if not together:
        raise InvalidModel(f"{c.path('downsample_ratio')} {c.factor('downsample_ratio')} is above 1", "such as 0.5")
    fan_in, tokens = together * vision.size("hidden_size"), floor_div(seen(vision, run), together)
    parts = (
        norm("layer_norm", "layernorm", fan_in, tokens),
        *two_maps(c, fan_in, text.size("hidden_size"), tokens, bias=True),
    )
    projector = Component("multi_modal_projector", "projector", parts=parts)
    return reader(run, text, unread_heads(nested(vision, run, "vision_tower"), run), projector)


@family("idefics3_vision", architecture="Idefics3VisionTransformer", heads={"Transformer": bare})
@family("smolvlm_vision", architecture="SmolVLMVisionTransformer", heads={"Transformer": bare})
def idefics3_vision(c: Config, run: Workload) -> Component:
    """SigLIP without its head."""
    h, stream = c.size("hidden_size"), image(c, run)
    embeddings = (
        patches("patch_embedding", c, stream.tokens, width=h, kernel=pair(c, "patch_size")),
        learned_position("position_embedding", stream.length, h, stream.tokens),
    )
    return Component(
        "vision_model",
        "encoder",
        parts=(
            Component("embeddings", "embedding", parts=embeddings),
            clip_encoder(c, run, stream),
            norm("post_layernorm", "layernorm", h, stream.tokens),
        ),
    )


@family("idefics3", architecture="Idefics3ForConditionalGeneration", heads=heads(llama_text))
@family("smolvlm", architecture="SmolVLMForConditionalGeneration", heads=heads(llama_text))
def idefics3(c: Config, run: Workload) -> Component:
    """Idefics3 (arXiv 2408.12637), SmolVLM (arXiv 2504.05299): patches side by side, through one linear map."""
    vision, text = part(c, "vision_config", f"{c.model_type}_vision"), llama_text(c)
    factor = c.size("scale_factor")
    tokens = floor_div(seen(vision, run), factor * factor)
    wide = vision.size("hidden_size") * factor * factor
    map_ = linear("connector.modality_projection.proj", wide, text.size("hidden_size"), tokens, bias=False)
    return reader(run, text, unread_heads(nested(vision, run, "vision_model"), run), map_, name="text_model")


AYA_VISION = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "patch_size": 14,
    "image_size": 384,
    "num_hidden_layers": 26,
    "num_attention_heads": 14,
    "vision_use_head": False,
}


def cohere_text(c: Config) -> Config:
    """Any text model, but Cohere's where none is named."""
    return part(c, "text_config", "cohere2", free=True)


@family("aya_vision", architecture="AyaVisionForConditionalGeneration", heads=heads(cohere_text))
def aya_vision(c: Config, run: Workload) -> Component:
    """Aya Vision (arXiv 2505.08751): patches side by side, normalised, through a gated network of half its width."""
    vision = part(c, "vision_config", "siglip_vision_model", over=AYA_VISION, free=True)
    text, factor, given = cohere_text(c), c.size("downsample_factor"), c.optional("alignment_intermediate_size")
    width = text.size("hidden_size")
    inner, wide = width if given is None else given, vision.size("hidden_size") * factor * factor
    tokens = floor_div(seen(vision, run), factor * factor)
    half = floor_div(inner, 2)
    parts = (
        norm("layernorm", "layernorm", wide, tokens),
        linear("linear_1", wide, inner, tokens),
        activation("act", "silu", tokens * half),
        linear("linear_2", half, width, tokens),
    )
    projector = Component("multi_modal_projector", "projector", parts=parts)
    return reader(run, text, unread_heads(nested(vision, run, "vision_tower"), run), projector)


def modernbert_text(c: Config) -> Config:
    """Any text encoder, but ModernBERT where none is named."""
    return part(c, "text_config", "modernbert", free=True)


def words_seen(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Logits of every word, by a matrix that the whole's config may tie."""
    text = modernbert_text(c)
    yield base
    yield from dense("projection_head")(text, run)
    h, vocabulary = text.size("hidden_size"), text.size("vocab_size")
    yield output("lm_head", h, vocabulary, run, tied=outer(c, text), bias=text.flag("decoder_bias"))


def sorted_into_classes(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Classes of the text, or of each word."""
    text, pooled = modernbert_text(c), c.head == "ForSequenceClassification"
    yield base
    yield from dense("head", pooled=pooled)(text, run)
    yield linear("classifier", text.size("hidden_size"), labels(c), run.target.batch if pooled else run.target.tokens)


@family(
    "modernvbert",
    architecture="ModernVBertForMaskedLM",
    heads={
        "Model": bare,
        "ForMaskedLM": words_seen,
        "ForSequenceClassification": sorted_into_classes,
        "ForTokenClassification": sorted_into_classes,
    },
)
def modernvbert(c: Config, run: Workload) -> Component:
    """ModernVBERT (arXiv 2510.01149): patches side by side, through one linear map, among ModernBERT's words."""
    vision, text = part(c, "vision_config", "siglip_vision_model", free=True), modernbert_text(c)
    map_ = linear(*_shuffled(c, run, vision, text), bias=False)
    return reader(run, text, unread_heads(nested(vision, run, "vision_model"), run), map_, name="text_model")


def _shuffled(c: Config, run: Workload, vision: Config, text: Config) -> tuple[str, Num, Num, Num]:
    """The map of patches that lie side by side: its name, what it reads and makes, and how often."""
    factor = c.size("pixel_shuffle_factor")
    tokens = floor_div(seen(vision, run), factor * factor)
    wide = vision.size("hidden_size") * factor * factor
    return "connector.modality_projection", wide, text.size("hidden_size"), tokens


def ultrabert_text(c: Config) -> Config:
    """Any text encoder, but UltraBERT where none is named."""
    return part(c, "text_config", "ultrabert", free=True)


def words_through_bottleneck(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Logits of every word, after two maps through a narrower width."""
    text = ultrabert_text(c)
    yield base
    yield Component("projection_head", "head", parts=bottleneck(text, run))
    yield output("lm_head", text.size("hidden_size"), text.size("vocab_size"), run, tied=outer(c, text))


def ultravbert_classes(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Classes of the text, or of each word."""
    vectors = run.target.batch if c.head == "ForSequenceClassification" else run.target.tokens
    yield base
    yield linear("classifier", ultrabert_text(c).size("hidden_size"), labels(c), vectors)


@family(
    "ultravbert",
    architecture="UltraVBertForMaskedLM",
    heads={
        "Model": bare,
        "ForMaskedLM": words_through_bottleneck,
        "ForSequenceClassification": ultravbert_classes,
        "ForTokenClassification": ultravbert_classes,
    },
)
def ultravbert(c: Config, run: Workload) -> Component:
    """Transformers' UltraVBertModel: ModernVBERT around an UltraBERT, with a norm after the map of patches."""
    headless = {"vision_use_head": False}
    vision, text = part(c, "vision_config", "siglip_vision_model", over=headless, free=True), ultrabert_text(c)
    name, wide, width, tokens = _shuffled(c, run, vision, text)
    map_, after = linear(name, wide, width, tokens, bias=False), norm("connector.norm", "rmsnorm", width, tokens)
    return reader(run, text, unread_heads(nested(vision, run, "vision_model"), run), map_, after, name="text_model")
