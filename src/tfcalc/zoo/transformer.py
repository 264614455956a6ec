"""The classic Transformer: encoder-decoder, encoder only, or decoder only."""

from typing import TYPE_CHECKING, ClassVar, Self

from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.dimensions import Described, choice, described, dimension
from tfcalc.ops.work import ACTIVATIONS, NORMS
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.core.patterns import Pattern
    from tfcalc.nn.module import Module

KINDS = ("encoder-decoder", "encoder", "decoder")
FINAL_NORMS = ("always", "pre-norm", "never")
TABLES = ("sinusoidal", "learned")
BEFORE_THE_CORE = (*TABLES, "recurrent")
INSIDE_ATTENTION = ("rotary", "alibi", "t5", "multiplicative", "relative", "transformer-xl", "deberta")
POSITIONS = ("none", *BEFORE_THE_CORE, *INSIDE_ATTENTION)
PATTERNS = ("dense", "local:N", "atrous:N", "sparse:N", "sliding:N", "chunked:N")
OUTPUT_HEADS = ("untied", "tied", "none")
SINUSOIDS = 5000
"""Rows of the sinusoidal buffer where ``max_len`` is not given, as in PyTorch's tutorial."""
BUCKETS = 32
"""Of distances, where ``buckets`` are not given, as T5 has them."""


@described(kw_only=True)
class Transformer(Described):
    """Sizes and structure; the defaults are the base model of Vaswani et al. 2017 as torch.nn.Transformer builds it.

    A size that is None follows from others: ``d_ff = 4·d_model``, ``head_dim = d_model / n_heads``,
    ``n_kv_heads = n_heads``, ``value_dim = head_dim``, ``encoder_layers = decoder_layers = n_layers``. Without
    ``vocab_size`` there is no embedding and no output head: the model is its core. Without ``target_vocab_size`` source
    and target share one embedding. ``pattern`` and the ``positions`` inside attention are those of self-attention; a
    pattern's number is its ``reach`` (``local:4``).

    >>> from tfcalc.core.measure import params
    >>> Transformer(d_model=512, n_layers=6).tree(Workload()).total(params)
    44140544
    """

    d_model: Num = dimension("h", "hidden size", "--d-model", "--hidden-size", default=512)
    n_heads: Num = dimension("a", "attention heads", "--heads", "--n-heads", "--num-attention-heads", default=8)
    n_kv_heads: Num | None = dimension(
        "g", "key and value heads", "--kv-heads", "--n-kv-heads", "--num-key-value-heads", follows="a"
    )
    n_layers: Num = dimension("n", "layers of each stack", "--layers", "--n-layers", "--num-hidden-layers", default=6)
    encoder_layers: Num | None = dimension("n_e", "encoder layers", "--encoder-layers", follows="n")
    decoder_layers: Num | None = dimension("n_d", "decoder layers", "--decoder-layers", follows="n")
    d_ff: Num | None = dimension("f", "feed-forward size", "--d-ff", "--intermediate-size", follows="4h")
    head_dim: Num | None = dimension("d", "query and key width of a head", "--head-dim", "--d-k", follows="h/a")
    value_dim: Num | None = dimension("d_v", "value width of a head", "--value-dim", "--d-v", follows="d")
    vocab_size: Num | None = dimension("V", "vocabulary", "--vocab-size")
    target_vocab_size: Num | None = dimension(
        "V_t", "target vocabulary, if it differs from the source's", "--target-vocab-size"
    )
    max_len: Num | None = dimension("T", "maximum length: positions in the table", "--max-len")
    max_distance: Num | None = dimension(
        "D", "largest relative distance with its own vector, in each direction", "--max-distance"
    )
    buckets: Num | None = dimension("B", "buckets of distances", "--buckets")
    reach: Num | None = dimension("k", "reach of the attention pattern")
    kind: str = choice("encoder, decoder, or both", "--kind", default="encoder-decoder", known=KINDS)
    attention_bias: bool = choice("biases in attention", "--attention-bias/--no-attention-bias", default=True)
    ffn_bias: bool = choice("biases in the feed-forward network", "--ffn-bias/--no-ffn-bias", default=True)
    pre_norm: bool = choice(
        "norm before each sub-layer (pre-norm) or after it (post-norm)",
        "--pre-norm/--post-norm",
        "--norm-first/--norm-last",
        default=False,
    )
    norm: str = choice("kind of norm", "--norm", default="layernorm", known=tuple(NORMS))
    final_norm: str = choice(
        "final norm after each stack: always (torch), only with pre-norm (textbooks), never",
        "--final-norm",
        default="always",
        known=FINAL_NORMS,
    )
    positions: str = choice(
        "position encoding: a table, a recurrent network, or inside attention",
        "--positions",
        default="sinusoidal",
        known=POSITIONS,
        spellings={"rope": "rotary", "xlnet": "transformer-xl", "shaw": "relative", "absolute": "learned"},
    )
    pattern: str = choice(
        "attention pattern: which keys of its sequence a query attends to", "--pattern", default="dense", known=PATTERNS
    )
    output_head: str = choice("output head", "--output-head", default="untied", known=OUTPUT_HEADS)
    output_bias: bool = choice("bias in the output head", "--output-bias/--no-output-bias", default=False)
    activation: str = choice("activation", "--activation", default="relu", known=tuple(ACTIVATIONS))

    root: ClassVar[str] = "transformer"

    @property
    def longest(self) -> Num | None:
        """As many tokens as there are learned positions; sinusoids go on."""
        positions: Num | None = self.max_len
        return positions if self._has_table and self.positions == "learned" else None

    @property
    def summary(self) -> str:
        """``encoder-decoder, post-norm, d_model 512, heads 8, layers 6 + 6``."""
        order = "pre-norm" if self.pre_norm else "post-norm"
        layers = " + ".join(str(self.size(f"{stack}_layers")) for stack in self.stacks)
        pattern = "" if self.pattern == "dense" else f", pattern {self.pattern}"
        return f"{self.kind}, {order}, d_model {self.d_model}, heads {self.n_heads}, layers {layers}{pattern}"

    def tree(self, workload: Workload) -> Component:
        """The component tree of this model on this workload: ints in, ints out; symbols in, symbols out."""
        from tfcalc.zoo import textbook

        if textbook.has(self):
            return textbook.tree(self, workload)
        from tfcalc.nn.counted import counted

        return counted(self.module(), workload)

    def module(self) -> "Module":
        """The model as a module that runs."""
        from tfcalc.zoo.classic import module

        return module(self)

    def with_vocabulary(self, vocabulary: Num) -> Self:
        """The same with this vocabulary, where it has none."""
        return self.replaced(vocab_size=vocabulary) if self.vocab_size is None else self

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was assumed beyond what is stated by the sizes: nothing."""
        return ()

    def remarks(self, workload: Workload) -> tuple[str, ...]:
        """What a pattern leaves of the pairs that are counted; nothing else, for what does not fit is refused."""
        found = self.attention_pattern
        return (
            ()
            if found is None
            else (f"pattern {self.pattern}: a query attends to {found.sees}; only these pairs are counted",)
        )

    def check(self, workload: Workload) -> None:
        """Raise InvalidModel where these sizes or alternatives fit no model, or it cannot run ``workload``."""
        from tfcalc.zoo.transformer_check import check

        check(self, workload)

    @property
    def stacks(self) -> tuple[str, ...]:
        """The stacks there are, in the order they run."""
        return ("encoder", "decoder") if self.kind == "encoder-decoder" else (self.kind,)

    @property
    def _has_table(self) -> bool:
        return self.vocab_size is not None and self.positions in TABLES

    @property
    def attention_pattern(self) -> "Pattern | None":
        """Which pairs of query and key are left."""
        if self.pattern == "dense":
            return None
        from tfcalc.core.patterns import Pattern

        return Pattern(self.pattern.partition(":")[0], self.size("reach"))

    @property
    def implied(self) -> dict[str, Num]:
        """The sizes that follow from others, where they are not given."""
        head_dim = divide(self.d_model, self.n_heads) if self.head_dim is None else self.head_dim
        layers = {f"{stack}_layers": self.n_layers for stack in self.stacks}
        return {
            "d_ff": 4 * self.d_model,
            "n_kv_heads": self.n_heads,
            "head_dim": head_dim,
            "value_dim": head_dim,
            **layers,
        }

    @property
    def assumed(self) -> dict[str, Num]:
        """The sizes that follow from nothing, and were assumed where they are not given."""
        found = {"max_len": SINUSOIDS} if self._has_table else {}
        found |= {"buckets": BUCKETS} if self.positions == "t5" else {}
        found |= {} if self.pattern == "dense" else {"reach": int(self.pattern.partition(":")[2])}
        return {name: size for name, size in found.items() if getattr(self, name) is None}
