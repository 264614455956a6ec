"""``python -m benchmarks.ledger [PEER PYTHON]…``: asks tfcalc, and each peer that is named, and keeps what they say.

PYTHON is that of an environment with the peer, which pyproject.toml pins in a dependency group: ``peers-torch``,
``peers-memory``, ``peers-llm-analysis`` or ``peers-aiconfigurator``. Without names only tfcalc is asked, which takes a
minute. ``make ledger`` does that, and writes the page; ``make peers`` makes the environments and asks them all.

``--left-out FILE`` keeps the estimates of serving by rates that were fitted without a run's system, which
``python -m tools.fit_serving --left-out 14 --each FILE`` makes in half an hour.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.ledger.peers import PEERS
from benchmarks.ledger.points import FIRST, TOKEN, Point, answer, asked_of, points, question, version
from tfcalc.errors import TfcalcError

ANSWERS = Path(__file__).parent / "answers"
OURS, UNSEEN = "tfcalc", "tfcalc-unseen"
"""tfcalc; and its estimates by rates that were fitted without the system that a run is of."""
DIGITS = 6
"""Digits of a number that are kept: more than any measurement has; of whole numbers all."""


def ask_tfcalc(asked: Iterable[Point]) -> Iterable[dict[str, Any]]:
    """Yield tfcalc's answers, or its refusals."""
    for point in asked:
        try:
            yield {"id": point.id, "answer": answer(point)}
        except TfcalcError as error:
            yield {"id": point.id, "refused": str(error)}


def _unseen(path: Path) -> Iterable[dict[str, Any]]:
    """Yield the estimates of a file of tools.fit_serving, of the measurements that are asked about."""
    said = {one["id"]: one for one in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
    for point in points().values():
        if point.kind in (TOKEN, FIRST):
            run, name = point.id.split(":")
            if number := said.get(run, {}).get(name):
                yield {"id": point.id, "answer": number}


def ask(peer: str, python: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the version of a peer, and its answers."""
    questions = [question(point, peer) for point in asked_of(peer, PEERS[peer][1])]
    text = "".join(json.dumps(one) + "\n" for one in questions)
    script = Path(__file__).with_name("peers.py")
    with_benchmarks = dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[2])}
    told = subprocess.run(
        [python, str(script), peer], input=text, stdout=subprocess.PIPE, text=True, check=True, env=with_benchmarks
    ).stdout
    first, *answers = (json.loads(line) for line in told.splitlines())
    return first["version"], answers


def keep(name: str, version: str, answers: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of answers: first who said them, then one a line."""
    said = [{"peer": name, "version": version, "asked": f"{datetime.now(UTC):%Y-%m-%d}"}, *map(short, answers)]
    text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in said)
    (ANSWERS / f"{name}.jsonl").write_text(text, encoding="utf-8")


def short(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer with a number of few digits, without the time that it took."""
    found = {key: value for key, value in one.items() if key != "seconds"}
    if isinstance(number := found.get("answer"), float):
        found["answer"] = int(number) if number.is_integer() else float(f"{number:.{DIGITS}g}")
    return found


def main(words: list[str]) -> int:
    """Ask tfcalc, or the peers that are named."""
    if "--help" in words or len(words) % 2:
        print(__doc__)
        return 0 if "--help" in words else 2
    if words[:1] == ["--left-out"]:
        keep(UNSEEN, version(), _unseen(Path(words[1])))
        return 0
    if not words:
        keep(OURS, version(), ask_tfcalc(points().values()))
    for peer, python in zip(words[::2], words[1::2], strict=True):
        keep(peer, *ask(peer, python))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
