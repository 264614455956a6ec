"""Facts of a model, in the sizes that people compare: layers, widths, heads, experts, vocabulary, context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.configs.published import HFModel
from tfcalc.core.traced import value_of
from tfcalc.defaults import own_dtype, own_format
from tfcalc.dimensions import Described
from tfcalc.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.core.number import Num
    from tfcalc.model import Model

LETTERS = {
    "encoder_layers": ("n_e",),
    "decoder_layers": ("n_d",),
    "hidden_size": ("h",),
    "heads": ("a", "a_d", "a_e"),
    "kv_heads": ("g",),
    "expert_size": ("f_x",),
    "head_dim": ("d",),
    "ffn_size": ("f", "f_d", "f_e", "f_x"),
    "vocab_size": ("V",),
}
"""The letters that a size goes by, the first one that a model has counting."""
ROPE, NO_ROPE = "d_r", "d_n"
"""The two parts of a head's width in latent attention."""
KEYS = "K"
"""What a cache calls the keys of attention whose heads have keys of their own."""


class Facts(NamedTuple):
    """The sizes; None where a model has none, or none that all its layers share. ``kv_heads`` may equal ``heads``."""

    family: str
    layers: int | None
    encoder_layers: int | None
    decoder_layers: int | None
    hidden_size: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    ffn_size: int | None
    experts: int | None
    active_experts: int | None
    expert_size: int | None
    vocab_size: int | None
    context: int | None
    dtype: str

    def in_words(self) -> str:
        """``llama, 32 layers, hidden 4,096, 32 heads (8 KV) of 128, FFN 14,336, context 8,192, bf16``."""
        told = [
            self.family,
            self._layers(),
            _said("hidden {}", self.hidden_size),
            self._heads(),
            _said("FFN {}", self.ffn_size),
        ]
        if self.experts is not None:
            told.append(
                f"{self.experts:,} experts ({self.active_experts:,} active)" + _said(" of {}", self.expert_size)
            )
        told += [_said("vocabulary {}", self.vocab_size), _said("context {}", self.context), self.dtype]
        return ", ".join(each for each in told if each)

    def _layers(self) -> str:
        if self.encoder_layers is not None and self.decoder_layers is not None:
            return f"{self.encoder_layers:,} + {self.decoder_layers:,} layers"
        return _said("{} layers", self.layers)

    def _heads(self) -> str:
        shared = "" if self.kv_heads in (None, self.heads) else f" ({self.kv_heads:,} KV)"
        return _said("{} heads" + shared + _said(" of {}", self.head_dim), self.heads)


def facts(model: Model, tree: Component) -> Facts:
    """The sizes of ``model``; ``tree`` is its own, where experts are counted, and decoding the heads in the cache.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> from tfcalc.workload import Workload
    >>> facts(Transformer(), Transformer().tree(Workload())).in_words()
    'encoder-decoder, 6 + 6 layers, hidden 512, 8 heads of 64, FFN 2,048, fp32'
    """
    sizes = _sizes(model)
    found = {name: next((sizes[one] for one in letters if one in sizes), None) for name, letters in LETTERS.items()}
    encoder, decoder, layers = found["encoder_layers"], found["decoder_layers"], sizes.get("n")
    if layers is not None and decoder is not None and encoder is None:
        encoder = layers  # T5 says how many layers its encoder has, and its decoder if it has others
    heads, hidden, width = found["heads"], found["hidden_size"], found["head_dim"]
    if NO_ROPE in sizes and ROPE in sizes:
        width = sizes[NO_ROPE] + sizes[ROPE]
    elif width is None and heads and hidden and hidden % heads == 0:
        width = hidden // heads
    stored, active = _experts(tree)
    kv_heads = found["kv_heads"] if found["kv_heads"] is not None else _cached_heads(tree)
    longest, stated = model.longest, own_format(model)
    return Facts(
        family=model.family.model_type if isinstance(model, HFModel) else str(getattr(model, "kind", "transformer")),
        layers=(encoder or 0) + (decoder or 0) or layers,
        encoder_layers=encoder if decoder is not None else None,
        decoder_layers=decoder if encoder is not None else None,
        hidden_size=hidden,
        heads=heads,
        kv_heads=kv_heads if kv_heads is not None else heads,
        head_dim=width,
        ffn_size=found["ffn_size"] if found["ffn_size"] is not None else _ffn(tree),
        experts=stored,
        active_experts=active,
        expert_size=found["expert_size"],
        vocab_size=found["vocab_size"],
        context=longest if isinstance(longest, int) else None,
        dtype=stated.format.name if stated else own_dtype(model),
    )


def _sizes(model: Model) -> dict[str, int]:
    """Return the size that each letter stands for; of the classic model also those that follow from others."""
    sizes = {letter: _number(size) for letter, size in model.values().items()}
    if isinstance(model, Described):
        for name, known in model.dimensions().items():
            if name in model.implied or getattr(model, name) is not None:
                sizes.setdefault(known.symbol, _number(model.size(name)))
    return {letter: size for letter, size in sizes.items() if size is not None}


def _number(size: Num | None) -> int | None:
    return size if isinstance(size, int) else None


def _experts(tree: Component) -> tuple[int | None, int | None]:
    """Return how many routed experts of a layer are stored, and how many are active per token."""
    for node in tree.walk():
        routed = node.component.walk() if node.component.kind == "experts" else ()
        for part in (each.component for each in routed):
            if part.active is not None:
                return value_of(part.copies), value_of(part.active)
    return None, None


def _cached_heads(tree: Component) -> int | None:
    """Return the number of key heads in the cache of the first attention that has one."""
    cached = (one for node in tree.walk() for one in node.component.own.cached)
    return next((value_of(one.heads) for one in cached if one.name == KEYS and one.grows), None)


def _ffn(tree: Component) -> int | None:
    """The inner width of the first feed-forward network: where its last product begins."""
    for node in tree.walk():
        if node.component.kind == "ffn":
            products = [one for part in node.component.walk() for one in part.component.own.products]
            return value_of(products[-1].inner) if products and len(products[-1].factors) > 1 else None
    return None


def _said(words: str, size: int | None) -> str:
    return "" if size is None else words.format(f"{size:,}")
