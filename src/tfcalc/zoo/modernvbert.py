"""ModernVBERT and UltraVBERT: patches that lie side by side, through one linear map, among an encoder's words."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.configs.tops import bare, labels, logits
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.heads import FIRST, TOKENS, Classifier, WithTransform
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks.vision_language import patches_of, reader, text_of, tower
from tfcalc.zoo.modernbert import transform


class Bottleneck(Module):
    """Two maps with an activation behind each; the first makes fewer numbers (transformers' UltrabertModel)."""

    kind = "head"

    narrow: Linear
    wide: Linear
    activation: str

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the output of both maps for each vector."""
        for place, each in enumerate((self.narrow, self.wide), 1):
            x = ctx.activation(self.activation, each(x), f"activation{place}")
        return x


class WithBottleneck(ModelWithHead):
    """A language model whose logits are made of such maps."""

    bottleneck: Bottleneck | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """Parts, in the order in which they run."""
        return iter(each for each in (self.base, self.bottleneck, self.head) if each is not None)

    def logits(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits for the base model's output."""
        return super().logits(self._narrowed(x, ctx), ctx)

    def opened(self, x: Tensor, ctx: Context) -> tuple[Tensor, list[Tensor]]:
        """Return the input of the map that makes logits, and its weights."""
        return super().opened(self._narrowed(x, ctx), ctx)

    def _narrowed(self, x: Tensor, ctx: Context) -> Tensor:
        assert self.bottleneck is not None
        return self.bottleneck(x, ctx)


modernbert_text = text_of("modernbert")
ultrabert_text = text_of("ultrabert")
SENTENCES = "ForSequenceClassification"


def words_seen(c: Config, base: Module) -> Module:
    """Logits of every word."""
    text = modernbert_text(c)
    bias, tied = text.flag("decoder_bias"), c.flag("tie_word_embeddings")
    head = logits("lm_head", text.size("hidden_size"), text.size("vocab_size"), bias=bias, tied=tied)
    between = transform(text, "projection_head")
    return WithTransform("", base, head, shifted=False, upcasts=False, transform=between, inline=False)


def sorted_into_classes(c: Config, base: Module) -> Module:
    """Classes of the text, or of each word."""
    text = modernbert_text(c)
    made = Linear("classifier", text.size("hidden_size"), labels(c), "", True)
    reads = FIRST if c.head == SENTENCES else TOKENS
    return Classifier("", base, transform(text, "head"), (made,), reads, dropped=bool(text.get("classifier_dropout")))


def _shuffled(c: Config, vision: Config, text: Config, *further: Module) -> Module:
    """Patches that lie side by side through a map of their own, and what is ``further``."""
    together = c.size("pixel_shuffle_factor") * c.size("pixel_shuffle_factor")
    wide = vision.size("hidden_size") * together
    map_ = Linear("connector.modality_projection", wide, text.size("hidden_size"))
    sees, vectors = tower(vision, "vision_model"), patches_of(vision)
    between = (map_, *further)
    return reader(sees, between, text, vectors=vectors, width=wide, together=together, name="text_model")


@family(
    "modernvbert",
    heads={
        "Model": bare,
        "ForMaskedLM": words_seen,
        SENTENCES: sorted_into_classes,
        "ForTokenClassification": sorted_into_classes,
    },
)
def modernvbert(c: Config) -> Module:
    """ModernVBERT (arXiv 2510.01149): patches side by side, through one linear map, among ModernBERT's words."""
    vision = subconfig(c, "vision_config", "siglip_vision_model", free=True)
    return _shuffled(c, vision, modernbert_text(c))


def words_through_bottleneck(c: Config, base: Module) -> Module:
    """Logits of every word, after two maps through a narrower width."""
    text = ultrabert_text(c)
    h, narrow = text.size("hidden_size"), text.size("prediction_head_size")
    maps = Linear("linear1", h, narrow), Linear("linear2", narrow, h)
    between = Bottleneck("projection_head", *maps, "gelu_pytorch_tanh")
    head = logits("lm_head", h, text.size("vocab_size"), tied=c.flag("tie_word_embeddings"))
    return WithBottleneck("", base, head, shifted=False, upcasts=False, bottleneck=between)


def ultravbert_classes(c: Config, base: Module) -> Module:
    """Classes of the text, or of each word."""
    head = Linear("classifier", ultrabert_text(c).size("hidden_size"), labels(c), "", True)
    return Classifier("", base, None, (head,), FIRST if c.head == SENTENCES else TOKENS)


@family(
    "ultravbert",
    heads={
        "Model": bare,
        "ForMaskedLM": words_through_bottleneck,
        SENTENCES: ultravbert_classes,
        "ForTokenClassification": ultravbert_classes,
    },
)
def ultravbert(c: Config) -> Module:
    """Transformers' UltraVBertModel: ModernVBERT around an UltraBERT, with a norm after the map of patches."""
    vision = subconfig(c, "vision_config", "siglip_vision_model", over={"vision_use_head": False}, free=True)
    text = ultrabert_text(c)
    return _shuffled(c, vision, text, Norm("connector.norm", "rmsnorm", text.size("hidden_size")))
