"""How many bytes are live, what for, and when most were."""

from __future__ import annotations

from tfcalc.core.number import Num


WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "int32": 4, "bool": 1, "uint8": 1}
"""Bytes of one number."""


class Moment:
    """What was live when most was: so many bytes in all, of which gradients, and what backward still needs."""

    __slots__ = ("gradients", "saved", "total")

    def __init__(self) -> None:
        self.total = 0
        self.saved = 0
        self.gradients = 0

    @property
    def temporary(self) -> int:
        """The rest: results that nobody keeps, gradients that are on their way."""
        return self.total - self.saved - self.gradients


class Ledger:
    """Counts the bytes of every storage from its making until nothing refers to it any more.

    Python's own reference counting says when that is, as it does in PyTorch: a variable of a program that runs on the
    tape keeps a tensor alive exactly as long as the same variable does there. A ledger that does not ``watch`` counts
    nothing; then sizes may be symbols.
    """

    __slots__ = ("gradients", "live", "most", "saved", "watch")

    def __init__(self, *, watch: bool = True) -> None:
        self.watch = watch
        self.live = 0
        self.saved = 0
        self.gradients = 0
        self.most = Moment()

    def new_phase(self) -> Moment:
        """Forget the highest moment so far, and answer with it."""
        before, self.most = self.most, Moment()
        self._look()
        return before

    def made(self, size: Num) -> None:
        """So many bytes more."""
        if self.watch:
            self.live += size  # type: ignore[assignment,operator]
            self._look()

    def gone(self, size: Num) -> None:
        """So many bytes less."""
        if self.watch:
            self.live -= size  # type: ignore[assignment,operator]

    def kept(self, size: Num) -> None:
        """So many bytes are needed by backward from now on."""
        if self.watch:
            self.saved += size  # type: ignore[assignment,operator]

    def released(self, size: Num) -> None:
        """So many are not needed by it any more."""
        if self.watch:
            self.saved -= size  # type: ignore[assignment,operator]

    def gradient(self, size: Num) -> None:
        """So many of the live bytes are a parameter's gradient, and stay."""
        if self.watch:
            self.gradients += size  # type: ignore[assignment,operator]

    def _look(self) -> None:
        if self.live > self.most.total:
            self.most.total, self.most.saved, self.most.gradients = self.live, self.saved, self.gradients


class Storage:
    """The memory behind one or more tensors: so many numbers of so many bytes each."""

    __slots__ = ("counts", "dtype", "elements", "home", "keepers", "label", "ledger", "size")

    def __init__(self, ledger: Ledger, elements: Num, dtype: str, label: str, *, counts: bool = True) -> None:
        self.ledger = ledger
        self.elements = elements
        self.dtype = dtype
        self.size: Num = elements * WIDTHS[dtype]
        self.label = label
        self.home = ""  # the module that it belongs to, where that is not the one that keeps it
        self.counts = counts  # what is held anyway (parameters, buffers, inputs) is counted elsewhere
        self.keepers = 0
        if counts:
            ledger.made(self.size)

    def keep(self) -> None:
        """A node of the graph needs it for backward."""
        self.keepers += 1
        if self.keepers == 1 and self.counts:
            self.ledger.kept(self.size)

    def release(self) -> None:
        """That node has run."""
        self.keepers -= 1
        if self.keepers == 0 and self.counts:
            self.ledger.released(self.size)

    def __del__(self) -> None:
        if self.counts:
            self.ledger.gone(self.size)
