"""Git repositories for tests: made by git itself, the same on every machine, whatever its configuration says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

PERSON = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in {"NAME": "A", "EMAIL": "a@example.org", "DATE": "2026-01-01T00:00:00Z"}.items()
}
ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


class Repository:
    """A repository in ``folder``: empty, or a clone of another with such options (``depth=1``) of ``git clone``."""

    def __init__(self, folder: Path, *, clone: Repository | None = None, **options: int | str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if clone is None:
            self.git("init", "-q", "-b", "main")
        else:
            self.git("clone", "-q", *(f"--{key}={value}" for key, value in options.items()), clone.folder.as_uri(), ".")

    def git(self, *words: str) -> None:
        """Run a command of git here, without the configuration of the machine."""
        self.output(*words)

    def output(self, *words: str) -> str:
        """What a command of git prints."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env={**outside, **ALONE, **PERSON}, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def commit(self, files: Mapping[str, str], message: str) -> None:
        """Write these files, and commit them with everything else that changed."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def head(self, ref: str = "HEAD") -> str:
        """The hash of a commit."""
        return self.output("rev-parse", ref)
