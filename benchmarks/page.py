"""Answers of the page, in Pyodide and beside it in Python itself: first ones, and those after a slider was moved.

``python -m benchmarks.page [FOLDER] [MODEL]…`` (the page as ``make page`` builds it, site/calculator). It needs node.
Both run the same questions by the page's own functions, one after the other in the same run; the ratio of the two is
what to compare between machines. After a slider there are numbers at first sight, then the
verdict on them, and then the whole answer. Promised: 100 ms to the first of these in the page, on a machine that does
nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

QUESTIONS = {
    "params": ("params/{}", "n_layers"),
    "flops": ("flops/{}?seq=1024", "seq_len"),
    "memory --train": ("memory/{}?train&seq=1024", "seq_len"),
    "memory --train --gpu": ("memory/{}?train&gpu=h100&seq=1024", "seq_len"),
    "memory --serve": ("memory/{}?serve&context=1024", "context"),
    "overview": ("overview/{}?seq=1024", "seq_len"),
    "fit": ("fit/{}?gpu=rtx-4090&seq=1024&lora", "seq_len"),
    "train": ("train/{}?tokens=100M&gpu=h100&seq=1024", "seq_len"),
    "serve": ("serve/{}?gpu=h100", "input_tokens"),
    "a number of flops": ("explain/matmul_flops/{}?seq=1024", "seq_len"),
    "a number of memory": ("explain/total_bytes/{}?train&seq=1024", "seq_len"),
}
"""A link of each question of the page, and the size that its slider changes."""
MODELS = ("gpt2", "llama-3-8b", "gemma-3-27b", "mixtral-8x7b")
STOPS = {"n_layers": (10, 14, 18), "seq_len": (2048, 512, 4096), "context": (2048, 512, 4096)}
STOPS["input_tokens"] = (512, 256, 2048)
"""Where the sliders go. None was asked about before."""

ASKED = """
import json, time
from tfcalc.page import ask as page

def timed(function, *arguments):
    since = time.perf_counter()
    found = json.loads(function(*arguments))
    assert found["exit"] in (0, 1), found["told"]
    return 1000 * (time.perf_counter() - since), found

def measured(models, questions, stops):
    found = {}
    page.begin()
    for link, size in questions.values():  # what is loaded when it is first needed
        page.ask(link.format("gpt2-medium"))
    for model in models:
        for name, (link, size) in questions.items():
            first, answer = timed(page.ask, link.format(model))
            words = json.dumps(answer["words"])
            slid = []
            for stop in stops[size]:
                asked = ("changed", words, size, str(stop))
                seen, at_first = timed(page.sight, 1, *asked)
                judged = seen + (timed(page.sight, 2, *asked)[0] if at_first["waits"] == 2 else 0)
                slid.append((seen, judged, judged + timed(page.changed, *asked[1:])[0]))
                page.tidy()
            found[f"{model} {name}"] = (first, *sorted(slid)[len(slid) // 2])
    return json.dumps(found)
"""
"""What both run."""

NODE = """
import {{ readFileSync }} from "node:fs";
const {{ loadPyodide }} = await import({module});
const pyodide = await loadPyodide({{ indexURL: {index} }});
for (const [file, format] of {archives})
  pyodide.unpackArchive(new Uint8Array(readFileSync(file)), format, {{ extractDir: "/tfcalc" }});
pyodide.runPython('import sys; sys.path.insert(0, "/tfcalc")');
console.log(pyodide.runPython({code}));
"""


def in_node(folder: Path, code: str) -> str:
    """Run Python code in the Pyodide of a built page; return what its last expression is."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    script = NODE.format(
        module=json.dumps((folder / "pyodide" / "pyodide.mjs").as_uri()),
        index=json.dumps(f"{folder / 'pyodide'}/"),
        archives=json.dumps([(str(folder / one["file"]), one["format"]) for one in manifest["archives"]]),
        code=json.dumps(code),
    )
    return said_by("node", "--input-type=module", "--eval", script)


def said_by(*command: str) -> str:
    """The last line that a program prints, in an empty folder, which is what a page's file system is."""
    with tempfile.TemporaryDirectory() as room:
        path = os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one)
        done = subprocess.run(
            command, cwd=room, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | {"PYTHONPATH": path}
        )
    return done.stdout.splitlines()[-1]


def main(words: list[str]) -> int:
    """Ask both, and print the table."""
    folder = Path(words[0] if words else "site/calculator").resolve()
    if shutil.which("node") is None or not (folder / "manifest.json").is_file():
        print(f"needs node, and the page in {folder}: make page", file=sys.stderr)
        return 2
    code = f"{ASKED}\nmeasured({list(words[1:] or MODELS)!r}, {QUESTIONS!r}, {STOPS!r})"
    page = json.loads(in_node(folder, code))
    native = json.loads(said_by(sys.executable, "-c", code.replace("\nmeasured(", "\nprint(measured(") + ")"))
    columns = ("first asked", "slid: seen", "verdict", "whole")
    print(f"{'ms in the page, beside Python':34} {' '.join(f'{column:>13}' for column in columns)}   ratio")
    for name, each in page.items():
        pairs = "  ".join(f"{mine:6.0f} {its:5.0f}" for mine, its in zip(each, native[name], strict=True))
        print(f"{name:34} {pairs} {each[-1] / native[name][-1]:7.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
