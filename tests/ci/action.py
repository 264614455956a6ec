"""action.yml as GitHub runs it: its steps, one after the other, with the variables that a runner sets."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.repositories import ALONE

TOP = Path(__file__).parents[2]
INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
INSTALL, FIND, CHECK = "Install tfcalc", "Find the target branch", "Check the budgets"


class Done(NamedTuple):
    """What the last step left: its exit code, its log, the outputs of the action, and the summary of the step."""

    code: int
    log: str
    outputs: Mapping[str, str]
    summary: str


def action() -> dict[str, Any]:
    """What action.yml says."""
    found: dict[str, Any] = yaml.safe_load((TOP / "action.yml").read_text(encoding="utf-8"))
    return found


def steps() -> dict[str, dict[str, Any]]:
    """The steps by their names."""
    return {step["name"]: step for step in action()["runs"]["steps"]}


def run(workspace: Path, temp: Path, *names: str, base_ref: str = "", **inputs: str) -> Done:
    """Run these steps in a workspace, until one fails.

    The rest is ours: folders of the runner in ``temp``, and of the inputs what is not given by default.
    """
    known = action()["inputs"]
    assert set(inputs) <= set(known)
    given = {name: inputs.get(name, said["default"]) for name, said in known.items()}
    files = {name: temp / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        file.write_text("", encoding="utf-8")
    runner = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "TFCALC_"))},
        **ALONE,
        **{name: str(path) for name, path in files.items()},
        "GITHUB_ACTIONS": "true",
        "GITHUB_ACTION_PATH": str(TOP),
        "GITHUB_BASE_REF": base_ref,
        "GITHUB_WORKSPACE": str(workspace),
        "RUNNER_TEMP": str(temp),
    }
    code, log = 0, ""
    for name in names:
        step = steps()[name]
        script = temp / "step.sh"
        script.write_text(step["run"], encoding="utf-8")
        own = {key: INPUT.sub(lambda match: given[match[1]], value) for key, value in step.get("env", {}).items()}
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]  # what `shell: bash` is
        done = subprocess.run(
            command, cwd=workspace, env={**runner, **own}, capture_output=True, text=True, encoding="utf-8", check=False
        )
        code, log = done.returncode, log + done.stdout + done.stderr
        if code:
            break
    written = files["GITHUB_OUTPUT"].read_text(encoding="utf-8").splitlines()
    outputs = dict(line.split("=", 1) for line in written)
    return Done(code, log, outputs, files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8"))
