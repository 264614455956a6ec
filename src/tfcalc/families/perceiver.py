"""Perceiver: a few latent vectors read a long input, and are read by the queries of the output."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import Attention, FeedForward, layer
from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.errors import InvalidModel
from tfcalc.families.bert_heads import on_top
from tfcalc.families.config import Config
from tfcalc.families.family import Head, family
from tfcalc.families.heads import bare, labels, output
from tfcalc.leaves import convolution, embedding, learned_position, linear, norm, parameter
from tfcalc.workload import Sequences, Workload

IMAGE_CHANNELS = 256
PIXEL_CHANNELS = 3
READ_HEADS = 8
READ_CHANNELS = 8 * 32
"""What transformers writes into its classes: of an image's vectors, and of the queries that read words."""
NAMES = ("self.query", "self.key", "self.value", "output.dense")


def words(c: Config, run: Workload) -> Iterator[Component]:
    """Logits by the words' own vectors."""
    tied = output("decoder", c.size("d_model"), c.size("vocab_size"), run, tied=True)
    parts = (tied, parameter("bias", c.size("vocab_size"), minor=True))
    yield Component("embedding_decoder", "head", parts=parts)


HEADS: dict[str, Head] = {
    "Model": bare,
    "ForMaskedLM": on_top(words),
    "ForSequenceClassification": on_top(),
    "ForImageClassificationLearned": on_top(),
}


@family(
    "perceiver",
    architecture="PerceiverForMaskedLM",
    heads=HEADS,
    num_latents=256,
    d_latents=1280,
    d_model=768,
    num_blocks=1,
    num_self_attends_per_block=26,
    num_self_attention_heads=8,
    num_cross_attention_heads=8,
    qk_channels=None,
    v_channels=None,
    cross_attention_shape_for_attention="kv",
    self_attention_widening_factor=1,
    cross_attention_widening_factor=1,
    hidden_act="gelu",
    vocab_size=262,
    max_position_embeddings=2048,
    image_size=56,
)
def perceiver(c: Config, run: Workload) -> Component:
    """Jaegle et al. 2021 (arXiv 2107.14795): the block of self-attention is run ``num_blocks`` times."""
    n, wide = c.size("num_latents"), c.size("d_latents")
    inputs, width, seen = preprocessed(c, run)
    latents = Sequences(run.target.batch, n)
    heads = ("num_cross_attention_heads", "num_self_attention_heads")
    reads = Latent(wide, width, c.number(heads[0]), c.size("cross_attention_widening_factor"))
    return Component("perceiver", "encoder", parts=())
