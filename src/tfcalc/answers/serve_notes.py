"""Notes below the table of a served model: its floor, the band of the estimate, room, and what would serve more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.answers.conventions_text import windows_in_words
from tfcalc.answers.serve_base import without_products
from tfcalc.answers.serve_in_words import ServeAnswer, guessed_by, room_in_words, why_unknown
from tfcalc.answers.serve_keys import TOKEN_PARTS
from tfcalc.answers.serve_limits import succeeds
from tfcalc.answers.serve_question import options_of
from tfcalc.answers.serve_search import MOST_GPUS, MOST_STAGES, quicker
from tfcalc.core.traced import value_of
from tfcalc.serving.engine_rules import version_of
from tfcalc.timing.estimate import HOURS_OF_A_MONTH
from tfcalc.timing.served import OWN, WIDENED
from tfcalc.units import short_bytes, short_seconds

if TYPE_CHECKING:
    from tfcalc.answers.serve_case import ServeCase
    from tfcalc.answers.serve_limits import Promise
    from tfcalc.answers.serve_question import ServeQuestion
    from tfcalc.timing.served_runs import OwnRates
    from tfcalc.timing.serving import EngineRates, ServingBand

OF_BAND = {
    "static-dense": "dense models, in static batches",
    "served-dense": "dense models, served",
    "experts": "mixtures, served",
    "prompt": "prompts of static batches",
    "first": "first tokens under load",
}
"""Runs of each class of which a band was learned (serving_rates.toml)."""
BY_BYTES_ALONE = "That room is by bytes alone, as how engines page one key for several tokens is not known"
LOGGED_LESS = "of DeepSeek-V4-Flash vLLM 0.25 logged half as much"
"""Source: vllm-project/recipes#762, 8 B200 and 1,048,576 tokens: 20.43 requests with TP 8, and 156.9 with DP 8."""


def notes(answer: ServeAnswer) -> Iterator[str]:
    """Yield what is told below the table."""
    case, q = answer.case, answer.question
    yield from q.model.left_out
    if not answer.holds:
        yield from _told_of_length(q)
        if not q.fewest and q.load.apart is None and answer.holding and answer.holding.gpus > q.sharing.gpus + 1:
            yield f"--gpu {q.card.name.lower()} --for gpus finds the fewest GPUs that hold it"
        return
    at = case.at
    floor = at.floor_of_token
    first = short_seconds(at.floor_of_first.seconds)
    yield f"Floor: {short_seconds(floor.seconds)} a token, by {floor.name}; {first} for the first"
    if not case.of.machine.multiplies:
        yield without_products(q.card.name)
    if q.sharing.gpus > 1 and not case.of.machine.link:
        sent = "Sums over" if case.of.talking == q.sharing.tp else "Messages between"
        yield f"{sent} GPUs are in no floor: how fast their link is, is not known (--link)"
    elif case.of.exchange.over.expected and not case.of.exchange.over.certain:
        yield "Tokens sent to experts are in no floor: a router may choose those of a token's own GPUs alone"
    if q.card.own_link and case.by is not None:
        yield "The band is of GPUs with fast links; sums are counted at the rate of --link, which no run tells of"
    if case.experts is not None:
        routing, tokens = case.experts
        least, most = value_of(routing.least()), value_of(routing.most(tokens))
        expected = f"{routing.expected(tokens):,.1f} expected"
        chosen = f"Experts of a layer that are read: {least:,} to {most:,}, {expected}"
        bandwidth, read = q.card.bandwidth, case.expected_weights
        if read > case.step_weights and bandwidth:
            chosen += f": weights of {short_bytes(read)}, {short_seconds(read / bandwidth)} at peak"
        yield chosen
    if case.by is None:
        if not q.floor:
            yield f"Nothing is estimated: {why_unknown(case)}"
    else:
        told = ((name, seconds(at)) for name, (_, seconds) in TOKEN_PARTS.items())
        each = ", ".join(f"{name} {short_seconds(seconds)}" for name, seconds in told if seconds)
        made = ", of a token" if q.load.draft.tokens else ""
        yield f"Estimate for {case.engine}{made}: {each}"
        if case.own is not None:
            yield from _told_of_own(case.own)
        yield from _told_of_bands(case.band(first=False), case.band(first=True))
        if case.own is None and not q.load.static:
            yield from _told_of_server(case, case.by)
        if case.of.token.keeps_states and not case.of.token.routings:
            yield f"In none of them {case.engine} served a model that keeps states and has no experts: it may not"
        if case.of.exchange.over.expected:
            yield "In few of these runs did tokens go to experts of other groups (DP with EP)"
        if q.sharing.pp > 1 and not case.of.rules.by_layers:
            one_by_one = "prompts that stages read at the same time are counted one after another"
            yield f"In none of these runs did GPUs have stages (--pp): {one_by_one}, and it may be faster"
        if q.load.apart is not None:
            yield "In none of these runs did other GPUs read the prompts: the bands are of servers that do both"
        if case.version and case.own is None and version_of(case.version) > version_of(case.by.newest):
            yield f"{case.engine} {case.version} is newer than all of these runs: it may be faster"
    if case.of.rules.instead and not q.floor:
        yield case.of.rules.instead
    draft = q.load.draft
    if draft.tokens:
        yield f"A step makes {draft.made:.3g} tokens of each request; {guessed_by(case)}"
    yield from _told_of_length(q)
    if q.rate and case.keeps_up:
        yield f"{q.rate:g} requests/s keep {q.load.concurrency:,} at work (Little's law)"
        yield "The bands are of runs in which a request came when another ended: in bursts they wait longer"
    if answer.promise is not None:
        yield from _told_of_more(answer.promise)
    if q.fewest:
        yield from _told_of_fewest(case)
    requests = f"{case.capacity:,} request{'s' * (case.capacity != 1)}"
    shorter = f"; while they are written they take less, so that {at.running:,} run at once"
    yield f"Room for {requests} of {q.load.longest:,} tokens{shorter * (at.running > case.capacity)}"
    if case.of.joins_keys:
        yield f"{BY_BYTES_ALONE}: {LOGGED_LESS}"
    if q.price is not None and case.usd_per_month is not None:
        yield f"{answer.gpus} cost {case.usd_per_month:,.0f} USD in a month of {HOURS_OF_A_MONTH} hours"
    yield from windows_in_words(case.of.windows, q.load.longest)
    if not case.capacity:
        yield f"Not one has room as {room_in_words(case)}"


def _told_of_fewest(case: ServeCase) -> Iterator[str]:
    """Yield which ways to share the model were tried, and one that is quicker on more GPUs."""
    tried = f"of up to {MOST_GPUS} GPUs by --tp, and by --pp up to {MOST_STAGES}"
    if not succeeds(case):
        yield f"No replicas {tried}, keep the limits"
        return
    apart = "; --dp and --ep were not tried" if case.experts is not None else ""
    yield f"No fewer serve {case.question.load.concurrency:,} at once, in replicas {tried}{apart}"
    at = quicker(case)
    if at is not None:
        of = at.case.question
        times = f"{short_seconds(at.token.value)} a token and {short_seconds(at.first.value)} for the first"
        yield f"With fewer stages: {options_of(of.card, of.gpus, of.sharing)}, {times}"


def _told_of_length(q: ServeQuestion) -> Iterator[str]:
    """Yield that the model was made for shorter requests, where it was."""
    longest = q.model.longest
    if isinstance(longest, int) and q.load.longest > longest:
        yield f"The model was made for {longest:,} tokens, fewer than the {q.load.longest:,} asked for"


def _told_of_more(promise: Promise) -> Iterator[str]:
    """Yield what would serve more."""
    for one in promise.more:
        cost = f", {one.at.cost.value:,.2f} USD per million" if one.at.cost else ""
        listed = one.at.case.price if promise.case.question.price is not None and cost else None
        if listed and one.at.case.question.price is None:
            cost += f" ({listed.typical:,.2f} USD a GPU hour by the list, not --price)"
        yield f"{one.options} would serve {one.concurrency:,}: {one.at.rate.value:,.0f} tokens/s{cost}"


def _told_of_own(own: OwnRates) -> Iterator[str]:
    """Yield what one's own runs change, and how far they are off without and with it."""
    of_published = own.errors(lambda run, first: run.seconds(own.by, first=first))
    ratios = [one for each in own.left_out.values() for one in each]
    left_out = [abs(1 / one - 1) for one in ratios]
    changed = " and ".join(f"{name} x {value:.3g}" for name, value in own.factors.items())
    many = f"{len(own.runs):,} run{'s' * (len(own.runs) != 1)}"
    yield f"By {many} of yours: {changed}; {_mean(of_published)} off before, {_mean(left_out)} left out"
    if own.unused:
        reasons = ", ".join(sorted({one.why for one in own.unused})[:3])
        yield f"Rows of yours that are left out: {len(own.unused):,} ({reasons})"


def _told_of_server(case: ServeCase, by: EngineRates) -> Iterator[str]:
    """Yield what is known of what a server takes before a first token, where that is most of it, or not known."""
    at = case.at
    beside = case.of.beside_reading(at.requests, by)
    if not by.fewest:
        known = f"; on other GPUs it was up to {short_seconds(by.server)}" if by.server else ""
        yield f"No run of a server tells a first token here: what it takes beside prompts is not known{known}"
    elif at.requests < by.fewest:
        seconds = short_seconds(beside)
        known = f"which are known of {by.fewest} requests or more"
        yield f"The band of the first begins without the {seconds} that a server takes itself, {known}"
    elif 2 * beside > at.first.value:
        yield f"{short_seconds(beside)} of the first are the server's own, beside reading prompts"


def _told_of_bands(token: ServingBand, first: ServingBand) -> Iterator[str]:
    if {token.kind, first.kind} <= {*OF_BAND}:
        times, of_first = (f"{band.low:.3g} to {band.high:.3g} times the estimate of" for band in (token, first))
        runs, of_prompts = (f"({band.rows:,}: {OF_BAND[band.kind]})" for band in (token, first))
        told = f"took {times} a token {runs}, and {of_first} the first {of_prompts}"
        yield f"Four of five published runs, each estimated without its own system's, {told}"
    else:
        yield _told_of_band(token, "a token")
        yield _told_of_band(first, "the first")


def _told_of_band(band: ServingBand, what: str) -> str:
    ends = f"{band.low:.3g} to {band.high:.3g} times the estimate of {what}"
    if band.kind == WIDENED:
        return f"The band of published runs, widened by {band.rows:,} of yours: {ends}"
    if band.kind == OWN:
        return f"Four of five of {band.rows:,} times of yours took {ends}, each estimated without its own run"
    return f"Four of five of {band.rows:,} published runs ({OF_BAND[band.kind]}) took {ends}"


def _mean(errors: list[float]) -> str:
    return f"{100 * sum(errors) / len(errors):.0f} %"
