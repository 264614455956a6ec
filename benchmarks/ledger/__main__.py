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


class NotAsked(Exception):
    """A peer that answers nothing: its process ends, or all that it says is why it does not."""


def ask(peer: str, python: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the version of a peer, and its answers. Raises NotAsked where there is none among them."""
    questions = [question(point, peer) for point in asked_of(peer, PEERS[peer][1])]
    text = "".join(json.dumps(one) + "\n" for one in questions)
    script = Path(__file__).with_name("peers.py")
    with_benchmarks = dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[2])}
    try:
        done = subprocess.run(
            [python, str(script), peer], input=text, capture_output=True, text=True, check=False, env=with_benchmarks
        )
    except OSError as error:
        raise NotAsked(str(error)) from None
    if done.returncode:
        raise NotAsked(last_line(done.stderr) or f"exit code {done.returncode}")
    first, *answers = (json.loads(line) for line in done.stdout.splitlines())
    if not any("answer" in one for one in answers):
        raise NotAsked(next((one["refused"] for one in answers), "it was asked nothing"))
    return first["version"], answers


def last_line(text: str) -> str:
    """The last line of what a program said, which is what went wrong."""
    return next(reversed(text.strip().splitlines()), "")


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
    """Ask tfcalc, or the peers that are named. A peer that answers nothing keeps its old file, and the code is 1."""
    if "--help" in words or len(words) % 2:
        print(__doc__)
        return 0 if "--help" in words else 2
    if words[:1] == ["--left-out"]:
        keep(UNSEEN, version(), _unseen(Path(words[1])))
        return 0
    if not words:
        keep(OURS, version(), ask_tfcalc(points().values()))
    code = 0
    for peer, python in zip(words[::2], words[1::2], strict=True):
        try:
            keep(peer, *ask(peer, python))
        except NotAsked as wrong:
            print(f"{peer} is not asked, and what it said before stays: {wrong}", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
