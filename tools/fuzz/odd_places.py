"""Names of files and folders that are too long, loops, pipes, devices, folders, or of another encoding."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

from tools.fuzz.checks import look
from tools.fuzz.program import WATCH, WORK, call

LONG = ("a" * 256, "a" * 5000, "a/" * 3000, ("b" * 200 + "/") * 30, "é" * 200, "x" * 300 + ".json")
SPECIAL = (
    *("/dev/zero", "/dev/null", "/dev/full", "/dev/tty", "/proc/self/mem", "/proc/self/maps", "/", ".", "..", "~"),
    *("~nobody-here/x.json", "file:///etc/passwd", "https://huggingface.co/a/b", "a\\b.json", "con", "\udcff.json"),
    *(
        "x\x00.json",
        "\n.json",
        " ",
        "-",
        "--",
        "a:b",
        ":",
        "HEAD:",
        ":x.json",
        "HEAD:" + "a" * 300 + ".json",
        "@{-1}:x",
    ),
)
ASKED_GIT = re.compile(r"write \d|subprocess\.Popen \('[^']*git'")
"""REF:PATH is asked of git, through a pipe."""


def _made(folder: Path) -> list[str]:
    """Files that are odd by what they are."""
    if not folder.exists():
        (folder / "folder.json").mkdir(parents=True)
        os.mkfifo(folder / "pipe.json")
        os.mkfifo(folder / "pipe.safetensors")
        (folder / "loop.json").symlink_to("loop.json")
        (folder / "dangling.json").symlink_to("nowhere.json")
        (folder / "to-zero.json").symlink_to("/dev/zero")
        (folder / "empty.json").write_bytes(b"")
        (folder / "right.json").write_text('{"model_type": "gpt2"}', encoding="utf-8")
        for name in ("pipe.safetensors", "../pipe.safetensors", "/dev/zero", "loop.json", "x" * 300):
            index = {"weight_map": {"a": name}}
            (folder / f"{abs(hash(name)) % 97}.index.json").write_text(json.dumps(index), encoding="utf-8")
    return [str(path) for path in sorted(folder.iterdir())]


def odd_places(draw: random.Random) -> None:
    """One odd place wherever a place may be named."""
    places = (*LONG, *SPECIAL, *_made(WORK / "places"))
    odd, env = draw.choice(places), dict[str, str]()
    if draw.random() < 0.2:
        odd = f"{odd}/{draw.choice(('config.json', 'x', '..', 'y' * 260))}"
    if draw.random() < 0.15:
        odd = f"{draw.choice(('HEAD', 'main', 'x' * 300, '-c', 'HEAD~1'))}:{odd}"
    argv = draw.choice(
        (
            ["params", odd],
            ["params", odd, "--json"],
            ["memory", odd, "--train"],
            [odd],
            ["compare", odd, "gpt2"],
            ["diff", "gpt2", odd],
            ["explain", "layer", "--model", odd],
            ["budget", "--file", odd],
            ["verify", "gpt2", "--checkpoint", odd],
            ["verify", "gpt2", "--checkpoint", odd, "--json"],
            ["sweep", odd, "--layers", "1,2"],
            ["why", "7B", odd],
            ["params", "a/b"],
        )
    )
    if argv == ["params", "a/b"] and "\x00" not in odd:
        env = {
            draw.choice(("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME")): os.fsencode(odd).decode(
                "utf-8", "replace"
            )
        }
    stdin = draw.choice((b"", b"{}", b'{"model_type": "gpt2"}'))
    outcome = call(argv, stdin=stdin, env={**env, "HF_HUB_OFFLINE": "1"}, limit=5)
    WATCH.events[:] = [event for event in WATCH.events if not ASKED_GIT.match(event)]
    look(argv, outcome, stdin=stdin, env=env)
