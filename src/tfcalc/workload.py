"""Workloads, the sequences that a model runs on, and the conventions for counting and printing."""

from typing import TYPE_CHECKING, ClassVar

from tfcalc.core.component import MODULES, selected
from tfcalc.core.number import Num, Pairs, minimum, twice_chunked, twice_sliding
from tfcalc.dimensions import FRONT, Described, Shown, choice, described, dimension, text
from tfcalc.errors import InvalidModel, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import FLOATS_ELSEWHERE, NUMBERS
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from tfcalc.core.patterns import Pattern


class UnsaidLength(int):
    """Length in tokens that nobody gave: of a checkpoint its usual one stands for it (:func:`tfcalc.model.own_run`)."""

    __slots__ = ()


DEFAULT_LENGTH = UnsaidLength(512)
USUAL_LENGTH = 4096
"""Tokens of a checkpoint's sequences, where none are asked for."""
AUTO = "auto"
PAIRS = ("full", "causal", "causal-half")
KERNELS = ("auto", "eager", "math", "efficient", "flash")
EITHER = "efficient or math"
"""Meaning of "auto" if layers differ in the kernels that they support."""
FUSED = ("efficient", "flash", EITHER)
PHASES = ("forward", "train", "prefill", "decode")
POSITIONS_WITH_LOGITS = ("all", "last")
RECOMPUTED = (AUTO, "none", "selective", "selective-op", "full", "every:N")
LATENT = ("expanded", "absorbed")
CONVOLUTIONS = ("run", "counter")
EXPERTS = ("chosen", "all")
DTYPES = ("fp32", "fp16", "bf16", "fp8", "int8", "int4")
"""Number formats for all weights of a model."""

OPERATIONS = ("matmul", "all")
SYSTEMS = ("iec", "si")


class Sequences(NamedTuple):
    """``batch`` sequences of ``length`` tokens each that run now.

    ``cached`` is the number of tokens whose keys exist, including those of earlier runs; None without a cache. Inputs
    that are data (images, or the input of a model without an embedding) need no gradient (``needs_gradient``).
    """

    batch: Num
    length: Num
    cached: Num | None = None
    needs_gradient: bool = True

    @property
    def tokens(self) -> Num:
        """Number of tokens: b·l."""
        return self.batch * self.length

    @property
    def seen(self) -> Num:
        """Number of keys that a query can see."""
        return self.length if self.cached is None else self.cached


@described()
class Conventions(Described):
    """Conventions for counting operations, storing weights, and printing bytes.

    Each is part of an answer; formulas.md tells the effect of each alternative, and who uses it.
    """

    count: str = choice(
        "operations counted: matrix products only, or all",
        "--count",
        default="matmul",
        known=OPERATIONS,
        shown=Shown("workload"),
    )
    dtype: str = choice(
        "number format of the weights at rest; auto: the checkpoint's own, fp32 for the model without a name",
        "--dtype",
        default=AUTO,
        known=(AUTO, *DTYPES),
        spellings=FLOATS_ELSEWHERE,
        shown=Shown("model"),
    )
    units: str = choice(
        "GiB = 2^30 bytes (iec) or GB = 10^9 (si)", "--units", default="iec", known=SYSTEMS, shown=Shown("output")
    )

    @property
    def bits(self) -> int:
        """Bits per weight, if ``dtype`` is not auto."""
        return NUMBERS[self.dtype].bits


@described()
class Workload(Described):
    """One run over ``batch_size`` sequences: forward, train (with the backward pass), prefill, or decode.

    Where no length is given, it is 512 tokens; asked about a checkpoint it is 4,096, or as many as that can read.
    ``source_len`` is the encoder's length in an encoder-decoder; it defaults to ``seq_len``. ``cached`` is the number
    of tokens in the cache when one is decoded, the new one included; it defaults to ``seq_len``.
    """

    batch_size: Num = dimension("b", "batch size", "--batch", "--batch-size", default=1, shown=FRONT)
    seq_len: Num = dimension(
        "l", "sequence length", "--seq", "--seq-len", default=DEFAULT_LENGTH, length=True, shown=FRONT
    )
    source_len: Num | None = dimension("s", "source length", "--source-seq", "--source-len", follows="l", length=True)
    cached: Num | None = dimension(
        "c", "tokens in the cache, the new one included", "--cached", follows="l", length=True, shown=FRONT
    )
    phase: str = choice("what is run", "--phase", default="forward", known=PHASES, shown=FRONT)
    logits: str = choice("positions that the output head reads", "--logits", default="all", known=POSITIONS_WITH_LOGITS)
    attention: str = choice(
        "query-key pairs counted in causal attention", "--attention", default="full", known=PAIRS, shown=FRONT
    )
    kernel: str = choice(
        "attention kernel; efficient and flash recompute the scores in backward; auto: of memory the one that sdpa "
        "picks on CUDA, of FLOPs math",
        "--attention-kernel",
        default="auto",
        known=KERNELS,
    )
    recompute: str = choice(
        "gradient checkpointing: what backward recomputes; selective-op: layers, but for attention and every other "
        "matrix product (torchtitan); auto: of memory full where a checkpoint is trained, of FLOPs none",
        "--checkpointing",
        "--recompute",
        default=AUTO,
        known=RECOMPUTED,
        shown=Shown("training", front=True),
    )
    recompute_modules: str = text(
        f"modules that backward runs again, as Megatron-core names them: {', '.join(MODULES)}",
        "--recompute-modules",
        shown=Shown("training"),
    )
    early_stop: bool = choice(
        "recomputation stops once all saved tensors are rebuilt (PyTorch, use_reentrant=False)",
        "--early-stop/--no-early-stop",
        default=False,
        shown=Shown("training"),
    )
    dropout: bool = choice(
        "dropout in training, where the model has it", "--dropout/--no-dropout", default=True, shown=Shown("training")
    )
    input_gradient: bool = choice(
        "gradients of the input data as well",
        "--input-gradient/--no-input-gradient",
        default=False,
        shown=Shown("training"),
    )
    latent: str = choice(
        "latent attention: keys and values expanded for each head, or absorbed into queries and output",
        "--mla",
        default="expanded",
        known=LATENT,
    )

    experts: str = choice(
        "experts counted per token: those it is routed to, or all where transformers runs all (Llama 4)",
        "--experts",
        default="chosen",
        known=EXPERTS,
    )
    convolutions: str = choice(
        "backward of grouped convolutions: as it runs, or as PyTorch's FlopCounterMode counts it (groups ignored)",
        "--grouped-convolutions",
        default="run",
        known=CONVOLUTIONS,
    )
    help_group: ClassVar[str] = "workload"

    @property
    def of_flops(self) -> "Workload":
        """The workload as FLOPs are counted: nothing is recomputed where nothing is asked for."""
        if self.recompute == AUTO:
            return self.replaced(recompute="selective" if self.recompute_modules else "none")
        return self

    @property
    def target(self) -> Sequences:
        """Sequences that the decoder, or the only stack, reads."""
        if self.decoding:
            return Sequences(self.batch_size, 1, self.size("cached"))
        return Sequences(self.batch_size, self.seq_len)

    @property
    def source(self) -> Sequences:
        """Sequences that the encoder of an encoder-decoder reads."""
        return self.beside(self.size("source_len"))

    @property
    def by_itself(self) -> "Workload":
        """Workload of an encoder that is the only stack: it reads the sequences themselves."""
        return self.replaced(source_len=self.seq_len)

    def beside(self, length: Num) -> Sequences:
        """Return other input, read once: a source, patches of an image, frames. Decoding finds its keys cached."""
        return Sequences(self.batch_size, 0, length) if self.decoding else Sequences(self.batch_size, length)

    @property
    def positions_with_logits(self) -> Num:
        """Number of tokens that the output head reads: all, or the last of each sequence."""
        return self.batch_size if self.logits == "last" else self.target.tokens

    @property
    def implied(self) -> dict[str, Num]:
        """Default values of sizes that follow from others."""
        return {"source_len": self.seq_len, "cached": self.seq_len}

    @property
    def training(self) -> bool:
        """True if there is a backward pass."""
        return self.phase == "train"

    @property
    def drops(self) -> bool:
        """True if dropout is active: in training, unless it is turned off."""
        return self.training and self.dropout

    @property
    def decoding(self) -> bool:
        """True if one token is added to sequences whose keys are cached."""
        return self.phase == "decode"

    @property
    def fused(self) -> bool:
        """True if the attention kernel saves no scores, so that its backward pass recomputes Q Kᵀ."""
        return self.kernel in FUSED

    @property
    def tells_masks(self) -> bool:
        """True if masks affect the counts, so that layers with different masks differ."""
        return self.decoding or self.attention == "causal"

    @property
    def named_modules(self) -> tuple[str, ...]:
        """Modules that were named, which backward runs again, in one order."""
        named = self.recompute_modules.replace(",", " ").split()
        return (*(name for name in MODULES if name in named), *(name for name in named if name not in MODULES))

    @property
    def modules_again(self) -> tuple[str, ...]:
        """Modules that backward runs again: those that were named, or what ``selective`` stands for."""
        return self.named_modules or selected(self.recompute)

    @property
    def recomputed(self) -> str:
        """Checkpointing in words: ``full``, ``selective``, ``selective: mlp, moe_act``."""
        named = ", ".join(self.named_modules)
        return f"selective: {named}" if named else self.recompute

    @property
    def every(self) -> int:
        """Interval of layers that backward recomputes: each (1), each second (2), …; 0 for none."""
        kind, _, step = self.recompute.partition(":")
        return {"none": 0, AUTO: 0, "selective": 0, "selective-op": 1, "full": 1}.get(kind) or int(step or 0)

    @property
    def by_operation(self) -> bool:
        """True if recomputed layers save some results: those of every other matrix product, and attention's."""
        return self.recompute == "selective-op"

    def pairs(
        self,
        queries: Sequences,
        keys: Sequences,
        *,
        causal: bool,
        window: Num | None = None,
        chunk: int | None = None,
        pattern: "Pattern | None" = None,
    ) -> Pairs:
        """Return the query-key pairs that count, by the convention in use.

        ``full``: 2·b·l·s, masked or not (FlopCounterMode, PaLM). In causal attention ``causal`` counts exactly the
        l(l + 1)/2 pairs of a sequence, or those within a ``window`` (a query's own key and the window − 1 before it) or
        a ``chunk``; ``causal-half`` l²/2 (Megatron-LM). A decoded token sees all cached keys, or those in its window
        or chunk.
        """
        if pattern is not None:
            return self._pairs_of(pattern, queries, keys, causal=causal)
        batch, length, seen, limit = queries.batch, queries.length, keys.seen, window if chunk is None else chunk
        if self.decoding:
            limit = limit if causal else None
            seen = seen if limit is None else minimum(seen, limit)
            return Pairs((2, batch, length, seen), batch * length * seen, self.fused, limit, seen)
        scores = batch * length * seen
        before = 0 if keys.cached is None else 2 * (seen - length)  # twice the cached keys that every query sees
        if causal and self.attention == "causal-half":
            return Pairs((batch, length, length + before), scores, self.fused, keys=seen)
        if not causal:
            return Pairs((2, batch, length, seen), scores, self.fused, window, seen)
        if self.attention == "full":
            return Pairs((2, batch, length, seen), scores, self.fused, keys=seen)
        if chunk is not None:
            return Pairs((batch, twice_chunked(length, chunk)), scores, self.fused, chunk, seen)
        if window is not None:
            return Pairs((batch, twice_sliding(length, window)), scores, self.fused, window, seen)
        return Pairs((batch, length, length + 1 + before), scores, self.fused, keys=seen)

    def _pairs_of(self, pattern: "Pattern", queries: Sequences, keys: Sequences, *, causal: bool) -> Pairs:
        """Return the pairs of a sparse pattern.

        In causal attention ``full`` counts the pairs in both directions, ``causal`` those at or before the query,
        ``(pairs + l)/2``, and ``causal-half`` half of all. The softmax runs over all pairs of the pattern. A decoded
        token sees as many keys as the last one of the sequence.
        """
        batch, length = queries.batch, queries.length
        if self.decoding:
            seen = pattern.last(keys.seen)
            return Pairs((2, batch, length, seen), batch * length * seen, self.fused)
        both = pattern.pairs(length)
        if not causal or self.attention == "full":
            return Pairs((2, batch, both), batch * both, self.fused)
        twice = both if self.attention == "causal-half" else both + length
        return Pairs((batch, twice), batch * both, self.fused)


def check_phase(workload: Workload) -> None:
    """Raise InvalidModel for a convention that has no meaning in this phase."""
    if workload.cached is not None and not workload.decoding:
        raise InvalidModel(
            f"cached {workload.cached} with phase {workload.phase!r}", "tokens are cached in phase decode"
        )
    if workload.recompute not in (AUTO, "none") and not workload.training:
        raise InvalidModel(
            f"recompute {workload.recompute!r} with phase {workload.phase!r}",
            "use phase train: only backward recomputes",
        )
    if workload.recompute_modules:
        check_named(workload)
    if workload.early_stop and not workload.every:
        raise InvalidModel("early stop without recomputed layers", "choose recompute full, or every:N")


def check_named(workload: Workload) -> None:
    """Raise InvalidModel for a module that nobody knows, and for modules beside another kind of checkpointing."""
    for name in workload.named_modules:
        if name not in MODULES:
            raise InvalidModel(f"--recompute-modules {quoted(name)} is not known", nearest(name, MODULES))
    if not workload.training:
        raise InvalidModel("--recompute-modules has no effect without --train", "add --train")
    if workload.recompute not in (AUTO, "selective"):
        raise InvalidModel(
            f"--recompute-modules with --checkpointing {workload.recompute}, which names what is recomputed, too",
            "leave one of them out",
        )
