"""VibeVoice-ASR: raw sound through two encoders of convolutions, and a Qwen2."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tfcalc.blocks import FeedForward, layer
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families.images import part
from tfcalc.families.sound_kit import language
from tfcalc.families.unread import unread
from tfcalc.families.vision_language import conditional
from tfcalc.leaves import convolution, linear, norm, parameter
from tfcalc.leaves.convolution import depthwise
from tfcalc.workload import Sequences, Workload


@family(
    "vibevoice_acoustic_tokenizer_encoder", architecture="VibeVoiceAcousticTokenizerEncoderModel", heads={"Model": bare}
)
def vibevoice_acoustic_tokenizer_encoder(c: Config, run: Workload) -> Component:
    """The encoder of VibeVoice's codec (arXiv 2508.19205): each stage doubles the channels and shortens the time.

    ``run.source`` is what comes out: a frame of it is as many samples of sound as all ratios make together.
    """
    ratios, depths, stages = c.numbers("downsampling_ratios", least=1), c.numbers("depths"), []
    if len(depths) <= len(ratios):
        raise InvalidModel(f"{c.path('depths')} has {len(depths)} entries", f"give {len(ratios) + 1}: one for a stage")
    kernel, reads = c.size("kernel_size"), c.size("channels")
    for place, (ratio, depth) in enumerate(zip([0, *ratios], depths, strict=False)):
        name, width = f"conv_layers[{place - 1}]" if place else "stem", c.size("num_filters") * 2**place
        stream = Sequences(run.source.batch, run.source.length * prod(ratios[place:]))
        taps = 2 * ratio if place else kernel
        first = convolution("conv.conv", reads, width, (taps,), stream.tokens)
        stages.append(Component(name, "stage", parts=(first, *_stage(c, run, stream, width, depth))))
        reads = width
    head = convolution("head.conv", reads, c.size("hidden_size"), (kernel,), run.source.tokens)
    return Component("encoder", "encoder", parts=(*stages, head))


def _stage(c: Config, run: Workload, stream: Sequences, width: Num, depth: int) -> Iterator[Component]:
    """ConvNeXt's layers (arXiv 2201.03545) over time: what each of both parts adds is scaled."""
    if depth:
        t, kernel = stream.tokens, c.size("kernel_size")
        ffn = FeedForward(
            width, c.size("ffn_expansion") * width, c.word("hidden_act"), bias=True, names=("linear1", "linear2")
        )
        parts = (
            norm("norm", "rmsnorm", width, t),
            depthwise("mixer.conv", width, kernel, t),
            parameter("gamma", width, minor=True),
            norm("ffn_norm", "rmsnorm", width, t),
            ffn("ffn", stream, run),
            parameter("ffn_gamma", width, minor=True),
        )
        yield layer("stage", parts, t * width, copies=depth)


def never(_whole: Config, _text: Config) -> bool:
    """``tie_word_embeddings`` is not heeded."""
    return False


@family(
    "vibevoice_asr",
    architecture="VibeVoiceAsrForConditionalGeneration",
    heads={"Model": bare, "ForConditionalGeneration": conditional(language, tied=never)},
)
def vibevoice_asr(c: Config, run: Workload) -> Component:
    """VibeVoice-ASR (arXiv 2601.18184): a frame's sound and its meaning, encoded apart, are added to one vector.

    The encoders are not trained with it: they run under ``torch.no_grad``.
    """
    tokenizers = {"acoustic": {}, "semantic": {"hidden_size": 128}}
    encoders = {
        name: part(c, f"{name}_tokenizer_encoder_config", "vibevoice_acoustic_tokenizer_encoder", over=over, free=True)
        for name, over in tokenizers.items()
    }
    hop = prod(encoders["acoustic"].numbers("downsampling_ratios", least=1))
    chunk = c.number("acoustic_tokenizer_chunk_size")
    if chunk % hop:
        raise InvalidModel(f"acoustic_tokenizer_chunk_size {chunk} is no multiple of {hop}", "give whole frames")
    maps = [part for name, encoder in encoders.items() for part in _projector(name, c, run, encoder)]
    return Component(
        "model",
        "listener",
        parts=(
            *(unread(nested(of, run, f"{name}_tokenizer_encoder")) for name, of in encoders.items()),
            Component("multi_modal_projector", "projector", parts=tuple(maps)),
            nested(language(c), run, "language_model"),
        ),
    )


def _projector(name: str, c: Config, run: Workload, encoder: Config) -> Iterator[Component]:
    h, t = language(c).size("hidden_size"), run.source.tokens
    yield linear(f"{name}_linear_1", encoder.size("hidden_size"), h, t, input_gradient=False)
    yield norm(f"{name}_norm", "rmsnorm", h, t)
    yield linear(f"{name}_linear_2", h, h, t)
