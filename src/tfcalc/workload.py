"""What a model is asked to run, and by which definitions its operations are counted."""

from dataclasses import dataclass
from typing import NamedTuple

from tfcalc.core.number import Num
from tfcalc.dimensions import Described, choice, dimension

DEFAULT_LENGTH = 512
PAIRS = ("full", "causal", "causal-half")
KERNELS = ("eager", "math", "efficient", "flash")
PHASES = ("forward", "train")


class Sequences(NamedTuple):
    """``batch`` sequences of ``length`` tokens each."""

    batch: Num
    length: Num

    @property
    def tokens(self) -> Num:
        """b·l."""
        return self.batch * self.length


@dataclass(frozen=True, eq=False, repr=False)
class Workload(Described):
    """One pass over ``batch_size`` sequences (and, in training, its backward pass).

    ``source_len`` is the encoder's length in an encoder-decoder; it defaults to ``seq_len``.
    """

    batch_size: Num = dimension("b", "batch size", "--batch", "--batch-size", default=1)
    seq_len: Num = dimension("l", "sequence length", "--seq", "--seq-len", default=DEFAULT_LENGTH)
    source_len: Num | None = dimension("s", "source length", "--source-seq", "--source-len", follows="l")
    phase: str = choice("what runs: one forward pass, or a training step", "--phase", default="forward", known=PHASES)
    attention: str = choice("query-key pairs counted in causal attention", "--attention", default="full", known=PAIRS)
    kernel: str = choice(
        "attention's kernel; efficient and flash compute the scores again in backward",
        "--attention-kernel",
        default="math",
        known=KERNELS,
    )

    @property
    def target(self) -> Sequences:
        """What the decoder reads, or the only stack."""
        return Sequences(self.batch_size, self.seq_len)

    @property
    def source(self) -> Sequences:
        """What the encoder of an encoder-decoder reads."""
        return Sequences(self.batch_size, self.size("source_len"))

    @property
    def implied(self) -> dict[str, Num]:
        """The sizes that follow from others, where they are not given."""
        return {"source_len": self.seq_len}

    @property
    def training(self) -> bool:
        """Whether there is a backward pass, and dropout."""
        return self.phase == "train"

    @property
    def recomputes_scores(self) -> bool:
        """Fused kernels keep no scores, so their backward pass computes Q Kᵀ a second time."""
        return self.kernel in ("efficient", "flash")

    def twice_pairs(self, queries: Sequences, keys: Sequences, *, causal: bool) -> tuple[Num, ...]:
        """Factors of twice the number of query-key pairs: twice, so that S²/2 stays whole.

        ``full``: 2·b·l·s, masked or not (PyTorch's counter, PaLM). In causal attention ``causal`` counts exactly
        l(l+1)/2 pairs a sequence, ``causal-half`` l²/2 (Megatron-LM).
        """
        batch, length = queries.batch, queries.length
        if causal and self.attention == "causal":
            return (batch, length, length + 1)
        if causal and self.attention == "causal-half":
            return (batch, length, length)
        return (2, batch, length, keys.length)
