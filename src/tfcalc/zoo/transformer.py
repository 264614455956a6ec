"""The classic Transformer: encoder-decoder, encoder only, or decoder only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.dimensions import FRONT, Described, check_sizes, choice, described, dimension
from tfcalc.errors import InvalidModel
from tfcalc.ops.work import ACTIVATIONS, NORMS
from tfcalc.workload import DEFAULT_LENGTH, Workload, check_phase

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


def _of_zoo(name: str) -> Any:
    """A file of the zoo that builds the classic Transformer: imported when it is asked, as other families' are."""
    return import_module(f"tfcalc.zoo.{name}")


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

    d_model: Num = dimension("h", "hidden size", "--d-model", "--hidden-size", default=512, shown=FRONT)
    n_heads: Num = dimension(
        "a", "attention heads", "--heads", "--n-heads", "--num-attention-heads", default=8, shown=FRONT
    )
    n_kv_heads: Num | None = dimension(
        "g", "key and value heads", "--kv-heads", "--n-kv-heads", "--num-key-value-heads", follows="a", shown=FRONT
    )
    n_layers: Num = dimension(
        "n", "layers of each stack", "--layers", "--n-layers", "--num-hidden-layers", default=6, shown=FRONT
    )
    encoder_layers: Num | None = dimension("n_e", "encoder layers", "--encoder-layers", follows="n")
    decoder_layers: Num | None = dimension("n_d", "decoder layers", "--decoder-layers", follows="n")
    d_ff: Num | None = dimension("f", "feed-forward size", "--d-ff", "--intermediate-size", follows="4h", shown=FRONT)
    head_dim: Num | None = dimension("d", "query and key width of a head", "--head-dim", "--d-k", follows="h/a")
    value_dim: Num | None = dimension("d_v", "value width of a head", "--value-dim", "--d-v", follows="d")
    vocab_size: Num | None = dimension("V", "vocabulary", "--vocab-size", shown=FRONT)
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
    help_group: ClassVar[str] = "model"

    @property
    def longest(self) -> Num | None:
        """Largest number of tokens: as many as there are learned positions; sinusoids go on."""
        positions: Num | None = self.max_len
        return positions if self._has_table and self.positions == "learned" else None

    @property
    def usual_length(self) -> int:
        """Tokens of a sequence where none are asked for: 512, about what the paper's batches have."""
        return DEFAULT_LENGTH

    @property
    def summary(self) -> str:
        """``encoder-decoder, post-norm, d_model 512, heads 8, layers 6 + 6``."""
        order = "pre-norm" if self.pre_norm else "post-norm"
        layers = " + ".join(str(self.size(f"{stack}_layers")) for stack in self.stacks)
        pattern = "" if self.pattern == "dense" else f", pattern {self.pattern}"
        return f"{self.kind}, {order}, d_model {self.d_model}, heads {self.n_heads}, layers {layers}{pattern}"

    def tree(self, workload: Workload) -> Component:
        """The component tree of this model on this workload: ints in, ints out; symbols in, symbols out."""
        textbook = _of_zoo("textbook")
        if textbook.has(self):
            found: Component = textbook.tree(self, workload)
            return found
        from tfcalc.nn.module import counted

        return counted(self.module(), workload)

    def module(self) -> "Module":
        """The model as a module that runs."""
        found: Module = _of_zoo("classic").module(self)
        return found

    def with_vocabulary(self, vocabulary: Num) -> Self:
        """Return the model with this vocabulary, where it has none."""
        return self.replaced(vocab_size=vocabulary) if self.vocab_size is None else self

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions beyond what is stated by the sizes: none."""
        return ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """Empty: its defaults are those of the paper, which the command line names."""
        return ()

    def remarks(self, workload: Workload) -> tuple[str, ...]:
        """Remark on the pairs that a pattern leaves to be counted; nothing else, for what does not fit is refused."""
        found = self.attention_pattern
        return (
            ()
            if found is None
            else (f"pattern {self.pattern}: a query attends to {found.sees}; only these pairs are counted",)
        )

    def check(self, workload: Workload) -> None:
        """Raise InvalidModel where these sizes or alternatives fit no model, or it cannot run ``workload``."""
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
        """Pattern of the pairs of query and key that are left."""
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


def check(model: Transformer, workload: Workload) -> None:
    """Raise InvalidModel for the first thing that is wrong with ``model``, or with ``model`` on ``workload``."""
    check_sizes(model)
    check_sizes(workload)
    check_phase(workload)
    if workload.phase in ("prefill", "decode") and model.kind == "encoder":
        raise InvalidModel(f"an encoder does not generate text, so it has no {workload.phase}", "use phase forward")
    _check_heads(model.d_model, model.n_heads, model.n_kv_heads, model.head_dim)
    _check_stacks(model, workload)
    _check_vocabulary(model)
    _check_positions(model)
    _check_distances(model)
    _check_reach(model)
    _check_lengths(model.longest, workload.seq_len, workload.source_len)


def _check_heads(width: Any, heads: Any, groups: Any, head_dim: Any) -> None:
    if head_dim is None and width % heads:
        below = width // heads * heads
        nearest = ", ".join(str(size) for size in (below, below + heads) if size)
        raise InvalidModel(
            f"d_model {width} is not divisible by heads {heads}", f"nearest: {nearest}; or give head_dim"
        )
    if groups is not None and heads % groups:
        fits = ", ".join(str(size) for size in range(1, min(heads, 128) + 1) if heads % size == 0)
        raise InvalidModel(f"heads {heads} is not divisible by kv_heads {groups}", f"divisors of {heads}: {fits}")


def _check_stacks(model: Transformer, run: Workload) -> None:
    if model.kind == "encoder-decoder":
        return
    only_of_both = {
        "source_len": run.source_len,
        "target_vocab_size": model.target_vocab_size,
        "encoder_layers": None if model.kind == "encoder" else model.encoder_layers,
        "decoder_layers": None if model.kind == "decoder" else model.decoder_layers,
    }
    for name, value in only_of_both.items():
        if value is not None:
            raise InvalidModel(
                f"{name} {value} contradicts kind {model.kind!r}", "leave it out, or choose kind encoder-decoder"
            )


def _check_vocabulary(model: Transformer) -> None:
    if model.vocab_size is not None:
        return
    need_one = {
        f"target_vocab_size {model.target_vocab_size}": model.target_vocab_size is not None,
        f"max_len {model.max_len}": model.max_len is not None,
        "a tied output head": model.output_head == "tied",
        "an output bias": model.output_bias,
        "a table of learned positions": model.positions == "learned",
        "a recurrent network for positions": model.positions == "recurrent",
    }
    for what, asked in need_one.items():
        if asked:
            raise InvalidModel(f"{what} needs a vocabulary", "give vocab_size")


def _check_positions(model: Transformer) -> None:
    if model.positions == "learned" and model.max_len is None:
        raise InvalidModel("learned positions without max_len", "give max_len (BERT has 512, GPT-2 1024)")
    if model.positions not in TABLES and model.max_len is not None:
        kind = "no" if model.positions == "none" else model.positions
        raise InvalidModel(f"max_len {model.max_len} with {kind} positions", "choose positions learned or sinusoidal")
    if model.output_head == "none" and model.output_bias:
        raise InvalidModel("an output bias without an output head", "choose output_head untied or tied")


FOR_DISTANCES = ("multiplicative", "relative", "deberta")


def _check_distances(model: Transformer) -> None:
    if model.positions in FOR_DISTANCES and model.max_distance is None:
        raise InvalidModel(
            f"{model.positions} positions without max_distance", "give max_distance (Shaw et al. have 16, DeBERTa 512)"
        )
    if model.positions not in FOR_DISTANCES and model.max_distance is not None:
        raise InvalidModel(
            f"max_distance {model.max_distance} with positions {model.positions}",
            f"choose positions {', '.join(FOR_DISTANCES)}",
        )
    if model.positions != "t5" and model.buckets is not None:
        raise InvalidModel(f"buckets {model.buckets} with positions {model.positions}", "choose positions t5")
    width: Any = model.size("head_dim")
    if model.positions == "rotary" and width % 2:
        raise InvalidModel(f"head_dim {width} is odd, but rotary positions rotate pairs", f"nearest: {width + 1}")


def _check_reach(model: Transformer) -> None:
    if model.reach is not None and (model.pattern == "dense" or str(model.reach) != model.pattern.partition(":")[2]):
        raise InvalidModel(
            f"reach {model.reach} contradicts pattern {model.pattern!r}", f"give only pattern 'local:{model.reach}'"
        )


def _check_lengths(longest: Any, *lengths: Any) -> None:
    for length in lengths:
        if longest is not None and length is not None and length > longest:
            raise InvalidModel(f"seq {length} is longer than max_len {longest}", f"use at most {longest}")
