"""``python -m benchmarks.ledger.environments FOLDER``: makes the peers' environments there, and asks all of them.

Each dependency group of pyproject.toml whose name begins with ``peers-`` is an environment. One that is there gets only
what the pins ask for beyond it. The exit code is 1 where one was not made, or a peer was not asked.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from benchmarks.ledger.__main__ import last_line
from benchmarks.ledger.__main__ import main as ask
from benchmarks.ledger.peers import PEERS

TOP = Path(__file__).parents[2]


def groups() -> Mapping[str, Mapping[str, str]]:
    """The packages of each environment, with the version that is pinned."""
    with (TOP / "pyproject.toml").open("rb") as file:
        known = tomllib.load(file)["dependency-groups"]
    ours = {name: packages for name, packages in known.items() if name.startswith("peers-")}
    return {name: dict(re.split("==", one, maxsplit=1) for one in packages) for name, packages in ours.items()}


def installed(python: Path, packages: Mapping[str, str]) -> str:
    """Install these packages into the environment of this interpreter, which is made; return why not, or nothing.

    What an environment has already, in these versions, is neither looked for nor loaded again.
    """
    pins = [f"{package}=={version}" for package, version in packages.items()]
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    for command in ([sys.executable, "-m", "venv", str(python.parents[1])], [*pip, *pins]):
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            return last_line(done.stderr) or f"exit code {done.returncode}"
    return ""


def main(folder: Path) -> int:
    """Make what is missing, and ask. What cannot be installed is told in a line, and leaves what it said before."""
    words: list[str] = []
    code = 0
    for name, packages in groups().items():
        python = folder / name / "bin" / "python"
        if wrong := installed(python, packages):
            print(f"{name} is not installed, and what its peers said stays: {wrong}", file=sys.stderr)
            code = 1
            continue
        for package in packages:
            words += [package, str(python)] if package in PEERS else []
    return max(code, ask(words)) if words else code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
