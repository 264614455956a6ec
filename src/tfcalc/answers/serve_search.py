"""Searches over GPUs that serve a model: the first that hold it, the fewest that serve all; and requests of a rate."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.answers.serve_case import ServeCase, ServedAt
from tfcalc.answers.serve_limits import Promise, succeeds
from tfcalc.answers.serve_question import Limits, ServeQuestion
from tfcalc.core.number import ceil_div
from tfcalc.errors import InvalidModel
from tfcalc.hardware import NODE
from tfcalc.timing.serving import Sharing

MOST_GPUS = 128
"""Most GPUs that are tried to share a model."""
MOST_STAGES = MOST_GPUS // NODE
"""Most stages that are tried: as many as these GPUs have servers. Each takes time to count, and a message."""


def layouts(question: ServeQuestion) -> Iterator[Sharing]:
    """Yield ways to share a model among more and more GPUs: each layer by as many as can, and have fast links; stages.

    Without fast links it is as many as a server has, as it is by default.
    """
    domain = max(NODE, question.card.domain)
    able = {size: question.shares(size) for size in powers(min(domain, MOST_GPUS))}
    for gpus in powers(MOST_GPUS):
        tp = max(size for size, can in able.items() if can and size <= gpus)
        yield Sharing(tp, gpus // tp)


def powers(most: int) -> list[int]:
    """Return the powers of two up to a number.

    >>> powers(9)
    [1, 2, 4, 8]
    """
    return [2**power for power in range(most.bit_length())]


def fewest(question: ServeQuestion, *, staged: bool = True) -> ServeQuestion:
    """Return the question with the fewest GPUs of its kind that serve its requests at once, within its limits.

    Replicas share each layer, and have stages of a pipeline, but no more than it takes where they are not to be
    ``staged``; of equally many GPUs those have the fewest stages. Where none serves a request, it is the first that
    holds the model, or the question as it is.
    """
    best = held = None
    reached = question.load.concurrency * MOST_GPUS, MOST_GPUS  # GPUs in all, and stages
    late: dict[int, int] = {}
    ways = _ways(question) if staged else [(sharing.gpus, sharing) for sharing in layouts(question)]
    for least, sharing in ways:
        if (least, sharing.pp) >= reached:
            break
        if sharing.pp > late.get(sharing.tp, MOST_GPUS):
            continue
        one = question._replace(sharing=sharing, gpus=sharing.gpus)
        case = ServeCase(one)
        try:
            if not case.of.serves:
                continue
            each = most = min(case.of.capacity, case.of.most)
            if one.limits.given:
                each = min(Promise(case).largest, most)
        except InvalidModel:
            continue
        held = held or one
        if each < most:  # in time, further stages serve no more than further replicas
            late[sharing.tp] = min(sharing.pp, late.get(sharing.tp, MOST_GPUS))
        gpus = sharing.gpus * ceil_div(question.load.concurrency, each) if each else 0
        if each and (gpus, sharing.pp) < reached:
            best, reached = one._replace(gpus=gpus), (gpus, sharing.pp)
    return best or held or question


def _ways(question: ServeQuestion) -> list[tuple[int, Sharing]]:
    """Return ways to share a model, each with the GPUs that its requests take at least; those with the fewest first.

    GPUs that share a model have no more room than all but one have without it, and one with all of it.
    """
    alone = ServeCase(question._replace(sharing=Sharing(), gpus=1)).of
    empty, beside, each = alone.left_beside(0), alone.left_beside(alone.weights), max(1, int(alone.cache_of_request))
    able = [size for size in range(min(MOST_GPUS, max(NODE, question.card.domain)), 0, -1) if question.shares(size)]
    found = []
    for gpus in range(1, MOST_GPUS + 1):
        most = min(((gpus - 1) * empty + beside) // each, alone.most)
        if most >= 1:
            least = gpus * ceil_div(question.load.concurrency, most)
            found += [(least, Sharing(tp, gpus // tp)) for tp in able if gpus % tp == 0 and gpus <= MOST_STAGES * tp]
    return sorted(found, key=lambda way: (way[0], way[1].pp, way[1].gpus))


def holding(case: ServeCase) -> Sharing | None:
    """Return a layout of more GPUs of the kind that hold it; None where these do, or none that was tried does."""
    if case.holds:
        return None
    larger = (one for one in layouts(case.question) if one.gpus > case.question.sharing.gpus)
    return next((one for one in larger if _serves(case.question._replace(sharing=one))), None)


def _serves(question: ServeQuestion) -> bool:
    """Return whether GPUs that share the model so have room for it and a request; False where they cannot share it."""
    try:
        of = ServeCase(question).of
        return bool(of.weights) and bool(of.serves)
    except InvalidModel:
        return False


def holding_all(case: ServeCase) -> ServeQuestion | None:
    """Return GPUs that run all requests at once, in few stages; None where these do, or none were found."""
    load = case.question.load
    if case.at.running >= case.at.concurrency or load.apart is not None:
        return None
    found = fewest(case.question._replace(limits=Limits(), rate=0.0), staged=False)
    larger = ServeCase(found)
    return found if larger.holds and larger.at.running >= load.concurrency else None


def quicker(case: ServeCase) -> ServedAt | None:
    """Return the fewest GPUs that serve all in fewer stages, where a token takes less there by the estimate."""
    if case.question.sharing.pp == 1 or case.by is None:
        return None
    found = ServeCase(fewest(case.question, staged=False))
    return found.at if succeeds(found) and found.at.token.value < case.at.token.value else None


def arriving(case: ServeCase) -> ServeQuestion:
    """Return the question with as many requests at once as its rate keeps at work: the fewest that are served so fast.

    By Little's law that is the rate times what a request takes, which grows with their number. Where more come than can
    be served it is all that run at once. The case is one with an estimate.
    """
    question = case.question
    low, high = 0, case.most_at_once
    while high - low > 1 and case.keeps_up:
        middle = (low + high) // 2
        low, high = (middle, high) if case.point(middle).ended < question.rate else (low, middle)
    return question._replace(load=question.load._replace(concurrency=high))
