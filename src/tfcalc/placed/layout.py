"""Layouts: how GPUs share a model, and which of them is meant."""

from __future__ import annotations

from functools import cache
from itertools import islice
from math import ceil, lcm

from tfcalc.core.number import Num, ceil_div, divide, divisors, total
from tfcalc.core.traced import known, value_of
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple

ROWS_AT_A_TIME = 128
"""Megatron-LM's ``--make-vocab-size-divisible-by``: each GPU's rows of a vocabulary table are a multiple of this."""

MOST_DEVICES = 10_000
"""Largest number of GPUs that is proposed if a size is not divisible."""
MOST_TRIED = 1_000_000
"""Largest divisor that is looked for below a number."""


class Layout(NamedTuple):
    """One GPU of those that train a model together, in Megatron-LM's terms.

    ``tp`` GPUs share each layer (tensor parallelism). With ``sequence_parallel`` they share the sequence outside of
    attention and MLP, too; otherwise each has all of it there. ``pp`` stages have the layers one after another, each
    in ``vpp`` chunks, which are interleaved with those of the others. A vocabulary table is padded until each GPU has a
    multiple of ``rows`` of it. Backward ``gathers_again`` the other GPUs' tokens; otherwise these are saved.

    ``cp`` GPUs with the same weights share each sequence (context parallelism), and ``dp`` such groups the batch (data
    parallelism). The same GPUs share the experts: each has those of one of ``ep`` groups, and of each of them a share
    of ``1/etp`` (as many as ``tp`` where it is not given).

    The first and the last stage may have numbers of layers of their own (``first_layers``, ``last_layers``); or all
    stages have as many, with the embedding, or the head and its loss, counted as one (``counts_embedding``,
    ``counts_loss``).

    Of the GPUs with the same weights, FSDP shards those in ``replicas`` of whole shards (HSDP); experts are in as many
    shards as GPUs of a replica have the same experts.

    GPUs of tensor parallelism that all have the same tokens send each to experts once (``drops_tokens``: DeepSpeed), or
    share the tokens anyway (``sequence_parallel``).

    Maps of attention down to latent vectors are whole on each GPU, as Transformer Engine's are, or shared out and
    gathered (``shares_latents``), as in the layers that Megatron-core builds without it ("local").

    Source: Shoeybi et al. 2019 (arXiv 1909.08053); Narayanan et al. 2021 (arXiv 2104.04473), section 2; Korthikanti et
    al. 2022 (arXiv 2205.05198); Megatron-core's ``parallel_state``, ``TransformerConfig`` and ``MLASelfAttention``.
    """

    tp: Num = 1
    sequence_parallel: bool = False
    pp: Num = 1
    vpp: Num = 1
    stage: Num = 0
    rows: int = ROWS_AT_A_TIME
    gathers_again: bool = True
    cp: Num = 1
    dp: Num = 1
    ep: Num = 1
    etp: Num | None = None
    first_layers: Num | None = None
    last_layers: Num | None = None
    counts_embedding: bool = False
    counts_loss: bool = False
    shares_latents: bool = False
    replicas: Num = 1
    drops_tokens: bool = False

    @property
    def first(self) -> bool:
        """True on the first stage, which has the embeddings."""
        return self.stage == 0

    @property
    def last(self) -> bool:
        """True on the last stage, which has the output head."""
        return self.stage == self.pp - 1

    @property
    def chunks(self) -> Num:
        """Number of chunks of layers, over all stages."""
        return self.pp * self.vpp

    @property
    def alone(self) -> bool:
        """True if no other GPU shares its layers."""
        return known(self.tp) == 1

    @property
    def splits_nothing(self) -> bool:
        """Return whether each GPU has the whole model and whole sequences."""
        return all(known(each) == 1 for each in (self.tp, self.pp, self.cp, self.ep, self.of_an_expert))

    @property
    def of_an_expert(self) -> Num:
        """Number of GPUs that share each expert."""
        return self.tp if self.etp is None else self.etp

    @property
    def of_a_stage(self) -> Num:
        """Number of GPUs of a stage."""
        return self.tp * self.cp * self.dp

    @property
    def gpus(self) -> Num:
        """Number of GPUs."""
        return self.of_a_stage * self.pp

    @property
    def copies(self) -> Num:
        """Number of GPUs with the same weights, but for experts: those of data and of context parallelism."""
        return self.dp * self.cp

    @property
    def copies_of_experts(self) -> Num:
        """Number of GPUs with the same share of the same experts."""
        number: Num = divide(self.of_a_stage, self.ep * self.of_an_expert)
        return number

    @property
    def least_copies(self) -> int:
        """Number of GPUs with the same weights that share out the experts, at least.

        >>> Layout(ep=8).least_copies, Layout(tp=4, ep=8, etp=1).least_copies
        (8, 2)
        """
        group = value_of(self.tp * self.cp)
        return lcm(value_of(self.ep * self.of_an_expert), group) // group

    @property
    def shards(self) -> Num:
        """Number of GPUs over which FSDP shards weights, but for experts."""
        number: Num = divide(self.copies, self.replicas)
        return number

    @property
    def shards_of_experts(self) -> Num:
        """Number of GPUs over which FSDP shards experts: of a replica's those with the same experts, 1 at least.

        Source: torchtitan's ParallelDims (``efsdp``).
        """
        return max(1, value_of(self.shards * self.tp) // value_of(self.ep * self.of_an_expert))

    def layers_of_stage(self, layers: Num) -> Num:
        """Return how many of these layers are on its stage. Raises InvalidModel if they cannot be shared out.

        >>> [Layout(pp=4, stage=stage, first_layers=7, last_layers=5).layers_of_stage(32) for stage in range(4)]
        [7, 10, 10, 5]
        >>> ends = Layout(pp=4, counts_embedding=True, counts_loss=True)
        >>> [ends._replace(stage=stage).layers_of_stage(30) for stage in range(4)]
        [7, 8, 8, 7]
        """
        if self.first_layers is None and self.last_layers is None:
            counted = layers + self.counts_embedding + self.counts_loss
            check_even(_with_ends(self), counted, _chunks(self), self.chunks, _uneven(layers, self))
            here: Num = divide(counted, self.pp)
            return here - int(self.first and self.counts_embedding) - int(self.last and self.counts_loss)
        given = [each for each in (self.first_layers, self.last_layers) if each is not None]
        rest, others = layers - total(given), self.pp - len(given)
        if known(others) == 0:
            check_same("layers of all stages", total(given), layers)
        else:
            check_least(f"layers {layers:,} less those of the first and the last stage:", rest, 0)
            self._check_between(rest, others)
        at_end = self.first_layers if self.first else self.last_layers if self.last else None
        own: Num = divide(rest, others) if at_end is None else at_end
        check_even("layers of a stage", own, "interleave", self.vpp)
        return own

    def _check_between(self, rest: Num, stages: Num) -> None:
        """Raise InvalidModel, with the nearest layers of its ends, if the stages between cannot share the rest."""
        over, shared = known(rest), known(stages)
        if over is None or shared is None or over % shared == 0:
            return
        given = [each for each in (self.first_layers, self.last_layers) if each is not None]
        ends = value_of(total(given))
        near = [each for each in (ends - (shared - over % shared), ends + over % shared) if each >= 0]
        whose = "the first and the last stage together" if len(given) > 1 else "that stage"
        fact = f"layers between {over:,} not divisible by pipeline stages {shared:,}"
        raise InvalidModel(fact, f"nearest: {' or '.join(map(str, near))} layers of {whose}")

    def layers_of_chunks(self, here: int) -> list[int]:
        """Return how many of the layers of its stage are in each of its chunks.

        >>> Layout(pp=2, vpp=2, stage=1, counts_loss=True).layers_of_chunks(3)
        [2, 1]
        """
        first, last = self.first and self.counts_embedding, self.last and self.counts_loss
        each, chunks = divide(here + first + last, self.vpp), value_of(self.vpp)
        return [each - (first and chunk == 0) - (last and chunk == chunks - 1) for chunk in range(chunks)]

    def places(self, layers: int) -> list[int]:
        """Return the places of the layers that are on its stage: those of its chunks, one after another.

        >>> Layout(pp=2, vpp=2, stage=1).places(8)
        [2, 3, 6, 7]
        >>> Layout(pp=2, vpp=2, stage=1, counts_embedding=True).places(7)
        [1, 2, 5, 6]
        """
        stages, chunks = value_of(self.pp), value_of(self.vpp)
        ends = value_of(self.counts_embedding), value_of(self.counts_loss)
        sizes = [
            value_of(each.layers_of_stage(layers)) + (ends[0] if each.first else 0) + (ends[1] if each.last else 0)
            for each in (self._replace(stage=stage) for stage in range(stages))
        ]
        stage = value_of(self.stage)
        size, before, turn = sizes[stage] // chunks, sum(sizes[:stage]) // chunks, sum(sizes) // chunks
        counted = (chunk * turn + before + place - ends[0] for chunk in range(chunks) for place in range(size))
        return [place for place in counted if 0 <= place < layers]

    def share(self, whole: Num, what: str) -> Num:
        """Return this GPU's share of heads, of a matrix's columns, or of tokens: ``whole / t``. Raises InvalidModel."""
        check_even(what, whole, "tensor", self.tp)
        part: Num = divide(whole, self.tp)
        return part

    def share_of_sequence(self, length: Num) -> Num:
        """Return the tokens of a sequence that this GPU has. Raises InvalidModel.

        Each of those that share it has one piece from either end, so that all have as many pairs of causal attention.
        """
        if known(self.cp) == 1:
            return length
        check_multiple("sequence length", length, "twice context", 2 * self.cp)
        part: Num = divide(length, self.cp)
        return part

    def share_of_words(self, vocabulary: Num) -> Num:
        """Return a GPU's rows of a vocabulary table: ``⌈V / (128 t)⌉ · 128``.

        >>> Layout(tp=2).share_of_words(50257), Layout(tp=8).share_of_words(51200)
        (25216, 6400)
        """
        padded: Num = ceil_div(vocabulary, self.tp * self.rows) * self.rows
        return padded

    def check(self) -> None:
        """Raise InvalidModel if there is no such GPU."""
        for what, number, least in (
            ("tensor", self.tp, 1),
            ("pipeline", self.pp, 1),
            ("interleave", self.vpp, 1),
            ("stage", self.stage, 0),
            ("context", self.cp, 1),
            ("data", self.dp, 1),
            ("expert", self.ep, 1),
            ("expert tensor", self.of_an_expert, 1),
            ("replicas", self.replicas, 1),
        ):
            check_least(what, number, least)
        self._check_ends()
        self._check_experts()
        self._check_replicas()
        stage, stages = known(self.stage), known(self.pp)
        if stage is not None and stages is not None and stage >= stages:
            raise InvalidModel(f"stage {stage} of pipeline {stages}", f"stages count from 0 to {stages - 1}")

    def _check_ends(self) -> None:
        """Raise InvalidModel if the ends of the pipeline are described twice, or there are none."""
        own = [each for each in (self.first_layers, self.last_layers) if each is not None]
        if own and (self.counts_embedding or self.counts_loss):
            fact = "the layers of the first or last stage are given, and the embedding or the loss counted as one"
            raise InvalidModel(fact, "leave one of them out")
        if (own or self.counts_embedding or self.counts_loss) and known(self.pp) == 1:
            raise InvalidModel("a pipeline of one stage has no first and last stage of its own", "take 2 stages")
        for each in own:
            check_least("layers of a stage", each, 0)

    def _check_experts(self) -> None:
        """Raise InvalidModel if the GPUs of a stage cannot share the experts."""
        there, asked = known(self.of_a_stage), known(self.ep * self.of_an_expert)
        if known(self.ep) == 1 and self.etp is None:
            return
        if there is None or asked is None or there % asked == 0:
            return
        fact = f"expert {self.ep:,} x expert tensor {self.of_an_expert:,} = {asked:,} GPUs do not divide a stage's"
        counted = f"tensor {self.tp:,} x context {self.cp:,} x data {self.dp:,} = {there:,}"
        of_an_expert = value_of(self.of_an_expert)
        if there % of_an_expert:
            what, near = "expert tensor", near_divisors(there, of_an_expert)
        else:
            what, near = "expert", near_divisors(there // of_an_expert, value_of(self.ep))
        raise InvalidModel(f"{fact} {counted}", f"nearest: {what} {', '.join(map(str, near))}")

    def _check_replicas(self) -> None:
        """Raise InvalidModel if the GPUs with the same weights, or with the same experts, cannot be in replicas."""
        if known(self.replicas) == 1:
            return
        check_even("GPUs with the same weights", self.copies, "replicas", self.replicas)
        of_a_replica, of_experts = value_of(self.shards * self.tp), value_of(self.ep * self.of_an_expert)
        if of_a_replica > of_experts and of_a_replica % of_experts:
            fact = f"a replica's {of_a_replica:,} GPUs of a stage do not divide by expert {of_experts:,}"
            copies, stage = value_of(self.copies), value_of(self.of_a_stage)
            fewer = range(min(value_of(self.replicas), MOST_DEVICES), 0, -1)
            near = next(one for one in fewer if copies % one == 0 and stage // one % of_experts == 0)
            raise InvalidModel(fact, f"nearest: {near:,} replicas")


class PipelineEnds(NamedTuple):
    """Ends of a pipeline whose layers do not divide over its stages, and the ``most`` layers of a stage.

    Either the embedding, or it and the loss, count as a layer, or the first and the last stage have numbers of their
    own: the options of Megatron-LM, and of ``ranks``.
    """

    most: int
    counts_embedding: bool = False
    counts_loss: bool = False
    first: int | None = None
    last: int | None = None

    @property
    def options(self) -> dict[str, int | bool | None]:
        """Options of ``ranks`` that say so."""
        return {
            "--first-stage-layers": self.first,
            "--last-stage-layers": self.last,
            "--embedding-as-layer": self.counts_embedding,
            "--loss-as-layer": self.counts_loss,
        }

    @property
    def words(self) -> str:
        """``--first-stage-layers 7 --last-stage-layers 6``."""
        given = ((flag, value) for flag, value in self.options.items() if value is not None and value is not False)
        return " ".join(flag if value is True else f"{flag} {value}" for flag, value in given)

    def chunks(self, depth: int, pp: int) -> list[int]:
        """Return the numbers of chunks in which a stage's layers can be interleaved."""
        if pp == 1 or self.first is not None:
            return [1]
        return divisors((depth + self.counts_embedding + self.counts_loss) // pp)


@cache
def ends_of(depth: int, pp: int) -> PipelineEnds | None:
    """Return how the layers fill the stages; None where the largest stage would have more than it has to.

    >>> ends_of(32, 4), ends_of(126, 16).counts_loss, ends_of(61, 16)[-2:], ends_of(94, 64)
    (PipelineEnds(most=8, counts_embedding=False, counts_loss=False, first=None, last=None), True, (3, 2), None)
    """
    most = -(-depth // pp)
    for embedding, loss in ((False, False), (True, True), (True, False)):
        counted = depth + embedding + loss
        if counted % pp == 0 and counted // pp == most:
            return PipelineEnds(most, embedding, loss)
    for between in (most, most - 1):
        rest = depth - (pp - 2) * between
        if 0 <= rest <= 2 * most:
            return PipelineEnds(most, first=-(-rest // 2), last=rest // 2)
    return None


def _multiple(step: int, near: int) -> int:
    """Return the multiple of ``step`` at ``near`` or above it."""
    return ceil(near / step) * step


def _with_ends(at: Layout) -> str:
    ends = [word for word, counts in (("the embedding", at.counts_embedding), ("the loss", at.counts_loss)) if counts]
    return " and ".join(["layers", *ends])


def _chunks(at: Layout) -> str:
    return "pipeline" if at.vpp == 1 else f"pipeline {at.pp} x interleave {at.vpp} ="


def _uneven(layers: Num, at: Layout) -> str:
    """Say how ``ranks`` shares out layers that the stages of a pipeline do not divide."""
    depth, stages = known(layers), known(at.pp)
    if depth is None or stages is None or at.vpp != 1 or at.counts_embedding or at.counts_loss:
        return ""
    ends = ends_of(depth, stages)
    return f"; or ranks {ends.words}" if ends else ""


def check_same(what: str, number: Num, other: Num) -> None:
    """Raise InvalidModel for two numbers that have to be equal, and are not."""
    found, wanted = known(number), known(other)
    if found is not None and wanted is not None and found != wanted:
        raise InvalidModel(f"{what}: {found:,}, and there are {wanted:,}", f"give {wanted:,} in all")


def check_least(what: str, number: Num, least: int) -> None:
    """Raise InvalidModel for a number that is too small."""
    size = known(number)
    if size is not None and size < least:
        raise InvalidModel(f"{what} {size}", f"it is {least} or more")


def check_even(what: str, whole: Num, by: str, parts: Num, otherwise: str = "") -> None:
    """Raise InvalidModel, with the nearest divisors, if GPUs cannot share something evenly."""
    size, count = known(whole), known(parts)
    if size is not None and count is not None and size % count:
        remedy = "nearest: " + ", ".join(map(str, near_divisors(size, count))) + otherwise
        raise InvalidModel(f"{what} {size:,} not divisible by {by} {count:,}", remedy)


def check_multiple(what: str, whole: Num, by: str, parts: Num) -> None:
    """Raise InvalidModel, with the nearest multiples, if a number that may be another is none of what shares it."""
    size, count = known(whole), known(parts)
    if size is not None and count is not None and size % count:
        near = dict.fromkeys((max(size // count, 1) * count, _multiple(count, size)))
        raise InvalidModel(f"{what} {size:,} not divisible by {by} {count:,}", f"nearest: {', '.join(map(str, near))}")


def near_divisors(whole: int, near: int) -> list[int]:
    """Return the divisors of ``whole`` next to ``near``: one below and, up to ``MOST_DEVICES``, one above."""
    below = next(number for number in range(min(near, whole, MOST_TRIED), 0, -1) if whole % number == 0)
    above = (number for number in range(near, min(whole, MOST_DEVICES) + 1) if whole % number == 0)
    return [below, *islice(above, 1)]
