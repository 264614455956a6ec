"""The classic Transformer: encoder-decoder, encoder only, or decoder only."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tfcalc.blocks import Attention, FeedForward, Layer
from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.dimensions import Described, choice, dimension
from tfcalc.leaves import (
    ACTIVATIONS,
    NORMS,
    dropout,
    embedding,
    learned_position,
    linear,
    norm,
    sinusoidal_position,
)
from tfcalc.workload import Sequences, Workload

KINDS = ("encoder-decoder", "encoder", "decoder")
FINAL_NORMS = ("always", "pre-norm", "never")
POSITIONS = ("none", "sinusoidal", "learned")
OUTPUT_HEADS = ("untied", "tied", "none")
SINUSOIDS = 5000
"""Rows of the sinusoidal buffer where ``max_len`` is not given, as in PyTorch's tutorial."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Transformer(Described):
    """Sizes and structure; the defaults are the base model of Vaswani et al. 2017 as torch.nn.Transformer builds it.

    A size that is None follows from others: ``d_ff = 4·d_model``, ``head_dim = d_model / n_heads``,
    ``n_kv_heads = n_heads``, ``value_dim = head_dim``, ``encoder_layers = decoder_layers = n_layers``. Without
    ``vocab_size`` there is no embedding and no output head: the model is its core. Without ``target_vocab_size`` source
    and target share one embedding.

    >>> from tfcalc.core.measure import params
    >>> Transformer(d_model=512, n_layers=6).tree(Workload()).total(params)
    44140544
    """

    d_model: Num = dimension("h", "hidden size", "--d-model", "--hidden-size", default=512)
    n_heads: Num = dimension("a", "attention heads", "--heads", "--n-heads", "--num-attention-heads", default=8)
    n_kv_heads: Num | None = dimension(
        "g", "key and value heads [default: as --heads]", "--kv-heads", "--n-kv-heads", "--num-key-value-heads"
    )
    n_layers: Num = dimension("n", "layers of each stack", "--layers", "--n-layers", "--num-hidden-layers", default=6)
    encoder_layers: Num | None = dimension("n_e", "encoder layers [default: as --layers]", "--encoder-layers")
    decoder_layers: Num | None = dimension("n_d", "decoder layers [default: as --layers]", "--decoder-layers")
    d_ff: Num | None = dimension("f", "feed-forward size [default: 4 d_model]", "--d-ff", "--intermediate-size")
    head_dim: Num | None = dimension("d", "width of a head's query and key [default: h/a]", "--head-dim", "--d-k")
    value_dim: Num | None = dimension("d_v", "width of a head's value [default: as --head-dim]", "--value-dim", "--d-v")
    vocab_size: Num | None = dimension("V", "vocabulary [default: none, the core alone]", "--vocab-size")
    target_vocab_size: Num | None = dimension(
        "V_t", "target vocabulary, apart from the source's", "--target-vocab-size"
    )
    max_len: Num | None = dimension("T", "positions in the table [default: 5000 sinusoids]", "--max-len")
    kind: str = choice("which stacks there are", "--kind", default="encoder-decoder", known=KINDS)
    attention_bias: bool = choice("biases in attention", "--attention-bias/--no-attention-bias", default=True)
    ffn_bias: bool = choice("biases in the feed-forward network", "--ffn-bias/--no-ffn-bias", default=True)
    pre_norm: bool = choice("norm before each sub-layer, or after it", "--pre-norm/--post-norm", default=False)
    norm: str = choice("kind of norm", "--norm", default="layernorm", known=tuple(NORMS))
    final_norm: str = choice(
        "a norm after each stack: always (torch), only with pre-norm (textbooks), never",
        "--final-norm",
        default="always",
        known=FINAL_NORMS,
    )
    positions: str = choice("position table", "--positions", default="sinusoidal", known=POSITIONS)
    output_head: str = choice("output head", "--output-head", default="untied", known=OUTPUT_HEADS)
    output_bias: bool = choice("a bias in the output head", "--output-bias/--no-output-bias", default=False)
    activation: str = choice("activation", "--activation", default="relu", known=tuple(ACTIVATIONS))
    dropout: bool = choice("dropout in training", "--dropout/--no-dropout", default=True)

    root: ClassVar[str] = "transformer"

    @property
    def longest(self) -> Num | None:
        """As many tokens as there are learned positions; sinusoids go on."""
        positions: Num | None = self.max_len
        return positions if self._has_positions and self.positions == "learned" else None

    @property
    def summary(self) -> str:
        """``encoder-decoder, post-norm, d_model 512, heads 8, layers 6 + 6``."""
        order = "pre-norm" if self.pre_norm else "post-norm"
        layers = " + ".join(str(self._layers(stack)) for stack in self.stacks)
        return f"{self.kind}, {order}, d_model {self.d_model}, heads {self.n_heads}, layers {layers}"

    def tree(self, run: Workload) -> Component:
        """The component tree of this model on this workload: ints in, ints out; symbols in, symbols out."""
        core = self._core(run)
        if self.vocab_size is None:
            return core
        parts = [*self._input(run, self.vocab_size), core]
        if self.output_head != "none":
            parts.append(self._head(run, self.vocab_size if self.target_vocab_size is None else self.target_vocab_size))
        return Component(self.root, self.root, parts=tuple(parts))

    def canonical(self) -> "Transformer":
        """The same model, each size that equals what it would follow from left to follow from it."""
        model = self
        if self.encoder_layers == self.decoder_layers:
            layers = self.n_layers if self.encoder_layers is None else self.encoder_layers
            model = replace(model, n_layers=layers, encoder_layers=None, decoder_layers=None)
        follows: dict[str, bool] = {
            "d_ff": self.d_ff == self._d_ff,
            "head_dim": self.head_dim == self._default_head_dim,
            "value_dim": self.value_dim == self._head_dim,
            "n_kv_heads": self.n_kv_heads == self.n_heads,
            "encoder_layers": model.encoder_layers == self.n_layers,
            "decoder_layers": model.decoder_layers == self.n_layers,
        }
        implied: dict[str, Any] = {name: None for name, same in follows.items() if same}
        model = replace(model, **implied)
        return replace(model, max_len=SINUSOIDS) if self.max_len is None and self._has_positions else model

    def check(self, run: Workload) -> None:
        """Raise InvalidModel where these sizes or alternatives fit no model, or no such model can run ``run``."""
        from tfcalc.families.transformer_check import check

        check(self, run)

    @property
    def stacks(self) -> tuple[str, ...]:
        """The stacks there are, in the order they run."""
        return ("encoder", "decoder") if self.kind == "encoder-decoder" else (self.kind,)

    @property
    def _has_positions(self) -> bool:
        return self.vocab_size is not None and self.positions != "none"

    @property
    def _d_ff(self) -> Num:
        return 4 * self.d_model

    @property
    def _default_head_dim(self) -> Num:
        head_dim: Num = divide(self.d_model, self.n_heads)
        return head_dim

    @property
    def _head_dim(self) -> Num:
        return self._default_head_dim if self.head_dim is None else self.head_dim

    def _core(self, run: Workload) -> Component:
        attention = Attention(
            d_model=self.d_model,
            n_heads=self.n_heads,
            n_kv_heads=self.n_heads if self.n_kv_heads is None else self.n_kv_heads,
            head_dim=self._head_dim,
            value_dim=self._head_dim if self.value_dim is None else self.value_dim,
            bias=self.attention_bias,
            dropout=self.dropout,
        )
        ffn = FeedForward(
            d_model=self.d_model,
            d_ff=self._d_ff if self.d_ff is None else self.d_ff,
            activation=self.activation,
            bias=self.ffn_bias,
            dropout=self.dropout,
        )
        parts: list[Component] = []
        for stack in self.stacks:
            layer = Layer(attention, ffn, self.norm, causal=stack == "decoder")
            stream, memory = self._streams(stack, run)
            parts.append(Component(stack, stack, parts=(layer(stream, memory, run, self._layers(stack)),)))
            if self.final_norm == "always" or (self.final_norm == "pre-norm" and self.pre_norm):
                parts.append(norm(f"{stack}_norm", self.norm, self.d_model, stream.tokens))
        return Component("core", "core", parts=tuple(parts))

    def _layers(self, stack: str) -> Num:
        given: Num | None = self.encoder_layers if stack == "encoder" else self.decoder_layers
        return self.n_layers if given is None else given

    def _streams(self, stack: str, run: Workload) -> tuple[Sequences, Sequences | None]:
        if self.kind != "encoder-decoder":
            return run.target, None
        return (run.source, None) if stack == "encoder" else (run.target, run.source)

    def _input(self, run: Workload, vocabulary: Num) -> Iterator[Component]:
        h, target = self.d_model, run.target.tokens
        tokens = run.source.tokens + target if self.kind == "encoder-decoder" else target
        if self.target_vocab_size is None:
            yield embedding("embedding", vocabulary, h, tokens)
        else:
            yield embedding("source_embedding", vocabulary, h, run.source.tokens)
            yield embedding("target_embedding", self.target_vocab_size, h, target)
        if self.positions != "none":
            table = learned_position if self.positions == "learned" else sinusoidal_position
            yield table("position", SINUSOIDS if self.max_len is None else self.max_len, h, tokens)
        if self.dropout and run.training:
            yield dropout("embedding_dropout", tokens * h)

    def _head(self, run: Workload, vocabulary: Num) -> Component:
        embedded = "embedding" if self.target_vocab_size is None else "target_embedding"
        tied_to = embedded if self.output_head == "tied" else None
        head = linear(
            "output",
            self.d_model,
            vocabulary,
            run.target.tokens,
            bias=self.output_bias,
            letter="vocab",
            tied_to=tied_to,
        )
        return head._replace(kind="output")
