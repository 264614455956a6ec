"""docs/ledger.md: what was recorded is whole, of the versions that are pinned, and tfcalc still says what it said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.version import Version

from benchmarks.ledger import __main__ as ledger
from benchmarks.ledger.__main__ import OURS, UNSEEN, ask_tfcalc, short
from benchmarks.ledger.environments import groups, installed
from benchmarks.ledger.peers import PEERS, answered
from benchmarks.ledger.points import KINDS, MEMORY, Point, asked_of, points
from tools.docs_ledger import Said, said

PEERS_AT_LEAST, POINTS_AT_LEAST = 5, 1_000
"""What the page was promised to have."""
NEAR = 1e-4
"""How far a recorded number may be from today's: of the digits that are kept, and of sums in another order."""


def recorded_of(name: str) -> Said:
    return next(one for one in said() if one.name == name)


def test_there_are_as_many_peers_and_measurements_as_was_promised() -> None:
    peers = {one.name for one in said()} - {OURS, UNSEEN}
    assert peers <= set(PEERS)
    assert len(peers) >= PEERS_AT_LEAST
    assert len(points()) >= POINTS_AT_LEAST
    answered = {name for one in said() if one.name in PEERS for name in one.numbers}
    assert len(answered) >= POINTS_AT_LEAST, "of so many a peer gives a number"


@pytest.mark.parametrize("one", [pytest.param(one, id=one.name) for one in said() if one.name != UNSEEN])
def test_each_was_asked_about_all_that_it_is_to_be_asked(one: Said) -> None:
    asked = {point.id for point in asked_of(one.name, PEERS[one.name][1] if one.name in PEERS else KINDS)}
    assert one.numbers.keys() | one.refused.keys() == asked, "make ledger, or make peers"
    assert not one.numbers.keys() & one.refused.keys()
    assert all(one.refused.values())


def test_the_versions_that_answered_are_those_that_are_pinned() -> None:
    pinned = {package: version for packages in groups().values() for package, version in packages.items()}
    assert set(PEERS) <= set(pinned)
    found = {one.name: Version(one.version) for one in said() if one.name in PEERS}
    assert found == {name: Version(pinned[name]) for name in found}


def some(every: int) -> list[Point]:
    """Every so many measurements of each kind; of memory, which takes longest, a quarter as many."""
    found = []
    for kind in KINDS:
        of_kind = [point for point in points().values() if point.kind == kind]
        found += of_kind[:: every * 4 if kind == MEMORY else every]
    return found


def held_to_what_is_recorded(asked: list[Point]) -> None:
    """Fail where tfcalc says another thing today than the page does."""
    ours = recorded_of(OURS)
    for now in map(short, ask_tfcalc(asked)):
        if "refused" in now:
            assert now["id"] in ours.refused, f"{now}: make ledger"
        else:
            assert now["answer"] == pytest.approx(ours.numbers.get(now["id"]), rel=NEAR), f"{now}: make ledger"


def test_what_the_page_says_of_tfcalc_is_what_it_says_today() -> None:
    held_to_what_is_recorded(some(60))


@pytest.mark.long
def test_all_that_the_page_says_of_tfcalc_is_what_it_says_today() -> None:
    held_to_what_is_recorded(some(1))


def test_a_peer_that_cannot_be_told_something_refuses_it() -> None:
    """What a peer has no word for is no error of it, and is recorded so without the peer being installed."""
    found = answered("aiconfigurator", {"id": "one", "kind": "token", "asked": None})
    assert found["refused"] == "not among what it models: a GPU, engine, model or format without tables"


def test_what_a_peer_raises_is_no_answer() -> None:
    found = answered("vramcalc", {"id": "one", "kind": "params", "config": {}})  # which is not installed here
    assert found["refused"].startswith("ModuleNotFoundError")


def test_a_peer_that_answers_nothing_leaves_what_it_said_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ledger, "ANSWERS", tmp_path)
    (tmp_path / "vramcalc.jsonl").write_text("as before", encoding="utf-8")
    assert ledger.main(["vramcalc", sys.executable, "servcalc", str(tmp_path / "nothing")]) == 1
    assert (tmp_path / "vramcalc.jsonl").read_text(encoding="utf-8") == "as before"
    not_here, no_python = capsys.readouterr().err.splitlines()
    assert not_here.startswith("vramcalc is not asked, and what it said before stays: ")
    assert "No package metadata" in not_here
    assert no_python.startswith("servcalc is not asked, ")
    assert "No such file" in no_python


def test_an_environment_that_cannot_be_made_says_why_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "peers-memory").write_text("a file", encoding="utf-8")
    wrong = installed(tmp_path / "peers-memory" / "bin" / "python", {"vramcalc": "0.1.2"})
    assert "Unable to create directory" in wrong
    assert "\n" not in wrong
