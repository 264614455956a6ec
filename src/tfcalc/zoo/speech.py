"""Language models that hear with encoders of other kinds than Whisper's."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import Rope
from tfcalc.ops.elementwise import mul, residual, shifted
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import stack
from tfcalc.zoo.blocks.sound import (
    ALONE,
    AudioLanguageModel,
    SoundEncoder,
    language,
    listener,
    stem,
    two_maps,
    writes,
)
from tfcalc.zoo.blocks.vision_tower import nested, nested_as


class Adapter(Module):
    """Two small maps, of a width to a small one and back, with a GELU between them."""

    kind = "adapter"

    down: Linear
    up: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the adapter's output for each row."""
        inner = self.down(x)
        return self.up(ctx.activation("gelu", inner, "gelu"))


class Conditioned(PreNorm):
    """``x + f(norm(x))``, and then ``x + f(norm(x) · (1 + g(c)))`` with a vector c for all tokens."""

    adapter: Adapter | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        for norm, sub in self.running(ctx):
            normed = norm(x, ctx)
            if sub is self.sublayers[-1]:
                normed = self._scaled(normed, ctx)
            x = residual(x, self.dropping(sub, sub(normed, ctx), ctx), sub.name)
        return x

    def _scaled(self, x: Tensor, ctx: Context) -> Tensor:
        assert self.adapter is not None
        condition = x.trace.given((1, x.width), x.trace.weights_format, "condition")
        return mul(x, shifted(self.adapter(condition, ctx), "1 + scale"))


HEADS: dict[str, Top] = {"Model": bare, "ForConditionalGeneration": writes(tied=True)}
ADAPTED = 32
"""The inner width of Voxtral Realtime's adaptive norms, which no field says."""


def mixer(c: Config, rope: Rope, *, causal: bool) -> Attention:
    """Whisper's attention, its keys without bias, under Llama's names."""
    made = decoders.attention(c, bias=True, causal=causal)
    q, k, v = made.inward
    return made.replace(inward=(q, k.replace(bias=False), v), rope=rope)


@family("glmasr_encoder", heads=ALONE, partial_rotary_factor=0.5)  # by __post_init__
def glmasr_encoder(c: Config) -> Module:
    """Whisper's encoder with rotary positions and grouped heads (transformers' GlmAsrEncoder)."""
    h, frames = c.size("hidden_size"), c.size("max_position_embeddings")
    attention = mixer(c, decoders.rope(c, copies=True), causal=False)
    layer = decoders.layer(c, attention, decoders.plain(c, bias=True, names=("fc1", "fc2")), norm="layernorm")
    hears, last = stem(h, c.size("num_mel_bins")), Norm("norm", "layernorm", h)
    return SoundEncoder("encoder", hears, None, stack(c, layer), last, frames)


@family("glmasr", heads=HEADS)
def glmasr(c: Config) -> Module:
    """GLM-ASR-Nano (transformers' GlmAsrModel): a projector that is twice as wide as the language model."""
    audio, width = c.sub("audio_config", "glmasr_encoder"), language(c).size("hidden_size")
    return listener(c, audio, two_maps(c, audio.size("intermediate_size"), width, between=2 * width, bias=True))


@family("voxtral_realtime_encoder", heads=ALONE)
def voxtral_realtime_encoder(c: Config) -> Module:
    """Llama's layers that hear, and look only back, as many frames as the source is long; biases where Whisper's."""
    h = c.size("hidden_size")
    ffn = decoders.gated(c)
    names = ("self_attn_layer_norm", "final_layer_norm")
    layer = decoders.layer(
        c, mixer(c, decoders.rope(c), causal=True), ffn.replace(down=ffn.down.replace(bias=True)), names=names
    )
    embedder = stem(h, c.size("num_mel_bins"), "embedder")
    early = embedder.replace(first=embedder.first.replace(before=2), second=embedder.second.replace(before=1))
    return SoundEncoder("encoder", early, None, stack(c, layer), Norm("norm", "rmsnorm", h))


@family("voxtral_realtime_text", heads={"Model": bare})
def voxtral_realtime_text(c: Config) -> Module:
    """Llama; two small maps of the chosen delay, one for all, scale what each feed-forward network reads."""
    h = c.size("hidden_size")
    adapter = Adapter("ada_rms_norm", Linear("linear1", h, ADAPTED), Linear("linear2", ADAPTED, h))
    layer = decoders.layer(c, decoders.attention(c), decoders.gated(c), of=Conditioned)
    return decoders.decoder(c, layer.replace(adapter=adapter))


@family("voxtral_realtime", heads=HEADS)
def voxtral_realtime(c: Config) -> Module:
    """Voxtral Realtime (transformers' VoxtralRealtimeModel): each four frames are added to a word."""
    audio, joined = c.sub("audio_config", "voxtral_realtime_encoder"), c.size("downsample_factor")
    projector = two_maps(c, audio.size("hidden_size") * joined, language(c).size("hidden_size"), bias=False)
    ears = nested_as(audio, SoundEncoder, "audio_tower").replace(per_word=joined)
    return AudioLanguageModel("model", ears, projector, nested(language(c), "language_model"))
