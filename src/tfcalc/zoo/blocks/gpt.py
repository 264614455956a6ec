"""Parts of decoders like GPT-2, by the names that all of transformers' attribute maps share (``hidden_size``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Norm
from tfcalc.zoo.blocks.layers import multi_head

GPT_TOPS = {
    "Model": tops.bare,
    "ForCausalLM": tops.lm_head(),
    "ForSequenceClassification": tops.classifier("score"),
    "ForTokenClassification": tops.classifier("classifier", bias=True),
    "ForQuestionAnswering": tops.classifier("qa_outputs", bias=True, classes=2),
}
"""Of the GPT-likes that are older than transformers' Generic… classes."""


def inner(c: Config, field: str = "n_inner") -> Num:
    """The feed-forward width: given, or four times the hidden size."""
    given = c.optional(field)
    return 4 * c.size("hidden_size") if given is None else given


def split_attention(
    c: Config,
    name: str,
    names: Sequence[str],
    *,
    bias: bool = True,
    of: type[Attention] = Attention,
    dropout: str = "attn_pdrop",
    **more: Any,
) -> Attention:
    """Heads that split the hidden size; what is ``more`` goes to :func:`multi_head`."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    drops = bool(dropout and c.get(dropout))
    return multi_head(of, name, names, h, a, d, bias=bias, dropout=drops, **more)


def normed(c: Config, name: str) -> Norm:
    """A LayerNorm of the hidden size."""
    return Norm(name, "layernorm", c.size("hidden_size"))
