"""``python -m benchmarks.ledger.environments FOLDER``: makes the peers' environments there, and asks all of them.

Each dependency group of pyproject.toml whose name begins with ``peers-`` is an environment. One that is there stays.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from benchmarks.ledger.__main__ import main as ask
from benchmarks.ledger.peers import PEERS

TOP = Path(__file__).parents[2]


def groups() -> Mapping[str, Mapping[str, str]]:
    """The packages of each environment, with the version that is pinned."""
    with (TOP / "pyproject.toml").open("rb") as file:
        known = tomllib.load(file)["dependency-groups"]
    ours = {name: packages for name, packages in known.items() if name.startswith("peers-")}
    return {name: dict(re.split("==", one, maxsplit=1) for one in packages) for name, packages in ours.items()}


def main(folder: Path) -> int:
    """Make what is missing, and ask."""
    words: list[str] = []
    for name, packages in groups().items():
        python = folder / name / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder / name)], check=True)
            pins = [f"{package}=={version}" for package, version in packages.items()]
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *pins], check=True)
        for package in packages:
            words += [package, str(python)] if package in PEERS else []
    return ask(words)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
