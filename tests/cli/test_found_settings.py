"""A settings file is found, and anyone may have written it: it neither writes nor runs anything, and is not far off."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Program, Quick
from tfcalc.cli.budget_options import file_schema, of_model, of_scenario
from tfcalc.cli.commands import COMMANDS, command, every
from tfcalc.settings_file import find
from tfcalc.toml_lines import line_of_key

WRITES_OR_RUNS = (
    *("output", "force", "update", "baseline", "file", "reason", "calibrate"),  # what is written, and where
    *("module", "args", "inputs", "against", "via", "base"),  # the user's code, PyTorch, git
    "rates",  # what is read as the truth about a machine
)
EDITS = ("n_experts", "experts_per_token", "windows", "attention_kind")
"""What is changed of a named model, which no file means for all models."""
VALUES = {"force": True, "update": True, "via": "torch"}


def test_these_are_all_that_are_typed_only() -> None:
    assert {option.name for option in every() if option.typed} == {*WRITES_OR_RUNS, *EDITS}
    assert not [option.name for option in (*of_model(), *of_scenario()) if option.typed]
    assert {option.name for option in every() if not option.variable} == {"module", *EDITS}
    assert not set(WRITES_OR_RUNS) & set(file_schema()["properties"])  # type: ignore[call-overload]  # it is an object


@pytest.mark.parametrize("key", ["num-experts", "window"])
def test_a_file_that_changes_every_model_is_refused(quick: Quick, tmp_path: Path, key: str) -> None:
    (tmp_path / "tfcalc.toml").write_text(f'{key} = "64"\n', encoding="utf-8")
    refused = quick("params", "mixtral-8x7b")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "as it decides on a model's config; remove it, and type it: --" in refused.stderr


@pytest.mark.parametrize("key", WRITES_OR_RUNS)
@pytest.mark.parametrize("asked", ["params -q", "budget", "verify"])
def test_a_file_that_writes_or_runs_is_refused_with_its_line(
    quick: Quick, tmp_path: Path, key: str, asked: str
) -> None:
    """By every command, whether it has that option or not."""
    value = json.dumps(VALUES.get(key, "x.py"))
    for name, head in (("tfcalc.toml", "units = 'si'\n"), ("pyproject.toml", "[tool.tfcalc]\n")):
        (tmp_path / name).write_text(f"# comment\n{head}\n{key} = {value}\n", encoding="utf-8")
        refused = quick(*asked.split())
        assert (refused.returncode, refused.stdout) == (3, "")
        assert refused.stderr.startswith(f"tfcalc: {tmp_path / name}:4: {key} ")
        assert f"; remove it, and type it: -{'o' if key == 'output' else f'-{key}'}" in refused.stderr
        (tmp_path / name).unlink()


@pytest.mark.parametrize("place", ["{0}/victim", "../victim"])
def test_what_a_file_names_as_output_is_not_overwritten(tfcalc: Program, tmp_path: Path, place: str) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "victim").write_text("keep\n")
    (tmp_path / "repo" / "tfcalc.toml").write_text(f"output = {json.dumps(place.format(tmp_path))}\n")
    for words in (["params", "gpt2"], ["params", "gpt2", "-o", "-"], ["budget"], ["init", "-o", "-"], ["models"]):
        refused = tfcalc(*words, cwd=tmp_path / "repo")
        assert (refused.returncode, refused.stdout) == (3, "")
        assert refused.stderr.count("\n") == 1
    assert (tmp_path / "victim").read_text() == "keep\n"
    (tmp_path / "repo" / "tfcalc.toml").unlink()
    assert tfcalc("params", "gpt2", "-q", env={"TFCALC_OUTPUT": "../out"}, cwd=tmp_path / "repo").returncode == 0
    assert (tmp_path / "out").read_text() == "124439808\n", "a variable is the user's own"


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ('output = "x"', "output", 1),
        ('# output = 1\n\n  "output" = "x"', "output", 3),
        ('"out\\u0070ut" = "x"', "output", 1),
        ("a = '''\noutput = 1\n'''\noutput = 'x'", "output", 4),
        ('a = """\noutput = 1""""\noutput = 2', "output", 3),
        ("a = [\n 1, # ]\n '[',\n]\noutput = 2", "output", 5),
        ("[b]\noutput = 2\n[[c]]\noutput = 3", "c.output", 4),
        ("[tool.tfcalc]\r\nx = 1\r\noutput = 2", "tool.tfcalc.output", 3),
        ("[tool]\ntfcalc.output = 2", "tool.tfcalc.output", 2),
        ("tool.'tfcalc' . output = 2", "tool.tfcalc.output", 1),
        ("x = 1\ntool = {tfcalc = {a = [1, 2], output = 2}}", "tool.tfcalc.output", 2),
        ('[tool]\n[tool.other]\noutput = 1\n[tool."tfcalc"]\noutput = 2', "tool.tfcalc.output", 5),
        ("a = 1", "output", 1),
    ],
)
def test_the_line_of_a_key(text: str, path: str, line: int) -> None:
    assert line_of_key(text, tuple(path.split("."))) == line


def test_a_file_makes_nothing_reach_the_network(quick: Quick, tmp_path: Path) -> None:
    """The id of a model on the Hub is asked for by name, which a file that is found does not do."""
    (tmp_path / "tfcalc.toml").write_text('model = "nobody/nothing"\noffline = false\n')
    refused = quick("params", env={"HF_HUB_CACHE": str(tmp_path / "cache")})
    assert (refused.returncode, refused.stdout) == (4, "")
    assert "model 'nobody/nothing' is not in the cache, and no file makes tfcalc fetch it" in refused.stderr
    kept = tmp_path / "cache" / "models--nobody--nothing"
    kept.mkdir(parents=True)
    (kept / "config.json").write_text('{"model_type": "gpt2"}')
    assert quick("params", "-q", env={"HF_HUB_CACHE": str(tmp_path / "cache")}).stdout == "124439808\n"


BUDGET = """
[models.a]
preset = "gpt2"
[[budget]]
model = "a"
metric = "params.total_params"
max = "1B"
"""


def test_a_file_writes_no_summary_of_a_step(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "tfcalc.toml").write_text(f'format = "github"\n{BUDGET}')
    summary = tmp_path / "summary.md"
    env = {"GITHUB_STEP_SUMMARY": str(summary)}
    assert quick("budget", env=env).returncode == 0
    assert not summary.exists()
    assert quick("budget", env={**env, "TFCALC_FORMAT": "github"}).returncode == 0
    assert quick("budget", "--format", "github", env=env).returncode == 0
    assert summary.read_text().count("1 passed") == 2


# --- how far up a file is looked for


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder beside everything else that the tests make."""
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("USERPROFILE", str(place))
    return place


def settings(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tfcalc.toml"
    path.write_text("units = 'si'\n")
    return path


def found(folder: Path) -> Path | None:
    folder.mkdir(parents=True, exist_ok=True)
    file = find(folder)
    return file and file.path


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("is_file", [False, True], ids=["a folder", "the file of a worktree"])
def test_the_search_ends_at_the_root_of_the_repository(tmp_path: Path, is_file: bool) -> None:
    above = settings(tmp_path)
    repository = tmp_path / "work" / "repository"
    repository.mkdir(parents=True)
    (repository / ".git").write_text("gitdir: elsewhere") if is_file else (repository / ".git").mkdir()
    assert found(repository / "a" / "b") is None
    assert found(repository) is None
    root = settings(repository)
    assert found(repository / "a" / "b") == root
    assert found(tmp_path / "work") == above, "outside of it the folders are the user's own"


def test_the_search_ends_at_the_home_folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(tmp_path)
    assert found(home / "a" / "b") is None
    assert found(home) is None
    own = settings(home)
    assert found(home / "a" / "b") == own
    (home / "a" / ".git").mkdir()
    assert found(home / "a" / "b") is None, "the repository is nearer"
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    assert found(home / "c") == own


@pytest.mark.usefixtures("home")
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have owners and modes on POSIX")
def test_elsewhere_the_search_ends_where_others_may_write(tmp_path: Path) -> None:
    above = settings(tmp_path / "shared")
    assert found(tmp_path / "shared" / "mine" / "below") == above
    (tmp_path / "shared").chmod(0o1777)  # as /tmp
    assert found(tmp_path / "shared" / "mine" / "below") is None
    assert found(tmp_path / "shared") == above, "the folder itself was chosen"
    own = settings(tmp_path / "shared" / "mine")
    assert found(tmp_path / "shared" / "mine" / "below") == own


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives folders away")
@pytest.mark.usefixtures("home")
def test_elsewhere_the_search_ends_at_folders_of_others(tmp_path: Path) -> None:
    above = settings(tmp_path / "theirs")
    assert found(tmp_path / "theirs" / "a") == above
    os.chown(tmp_path / "theirs", 65534, 65534)
    assert found(tmp_path / "theirs" / "a") is None


def test_a_home_that_is_the_root_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As users without an entry have in containers: everything would be below it."""
    monkeypatch.setenv("HOME", "/")
    settings(tmp_path)
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    assert found(tmp_path / "open" / "a") is None


# --- folders that are gone, or may not be looked into


GONE = "import os, sys\nfrom tfcalc.cli.main import main\nos.rmdir(os.getcwd())\nsys.exit(main(sys.argv[1:]))"
SAID = "tfcalc: the folder that tfcalc runs in does not exist any more; cd into one that does\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a folder that is in use is not removed there")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["budget"], 2, SAID),
        (["init"], 2, SAID),
        (["init", "--force"], 2, SAID),
        (["init", "-o", "-"], 2, SAID),
        (["params", "gpt2", "-q"], 0, ""),
        (["budget", "--file", "x.toml"], 3, "tfcalc: x.toml cannot be read: No such file or directory\n"),
        (["params", "gpt2", "-o", "x"], 2, None),
        (["params", "x.json"], 3, None),
        (["params", "HEAD:x.json"], 4, None),
        (["diff", "HEAD:x/y.json"], 4, None),
        (["verify", "--module", "x.py:C"], 3, None),
        (["verify", "gpt2", "--checkpoint", "x.safetensors"], 3, None),
    ],
)
def test_a_folder_that_is_gone_is_told_in_one_line(
    tmp_path: Path, words: list[str], code: int, said: str | None
) -> None:
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", GONE, *words], cwd=tmp_path / "gone", capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert done.stderr.count("\n") == (code > 0)
    assert said in (None, done.stderr)


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def as_nobody(folder: Path, *words: str) -> tuple[int, str, str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("TFCALC_")}
    done = subprocess.run(
        [*NOBODY, sys.executable, "-m", "tfcalc", *words],
        cwd=folder,
        env=outside | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """A folder that everyone may reach, unlike those of pytest."""
    if shutil.which("setpriv") is None or os.getuid() != 0:
        pytest.skip("only root, with setpriv, can be somebody else")
    if subprocess.run([*NOBODY, sys.executable, "-c", "import tfcalc"], check=False).returncode != 0:
        pytest.skip("others may not run this Python")
    for place in (tmp_path, *tmp_path.parents[:2]):
        place.chmod(0o755)
    return tmp_path


def test_settings_that_may_not_be_seen_are_not_found(seen: Path) -> None:
    below = seen / "closed" / "below"
    below.mkdir(parents=True)
    settings(seen / "closed")
    settings(below)
    below.chmod(0o777)
    (seen / "closed").chmod(0o700)
    assert as_nobody(below, "params", "gpt2", "-q") == (0, "124439808\n", "")
    code, out, err = as_nobody(below, "budget")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("tfcalc: no tfcalc.toml here or above")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["params", "closed/x.json"], "closed/x.json"),
        (["closed/x.json"], "closed/x.json"),
        (["params", "closed"], "closed"),
        (["params", "closed/models/"], "closed/models/"),
        (["params", "closed/x"], "closed/x"),
        (["params", "y.json"], "y.json"),
        (["compare", "gpt2", "closed/x.json"], "closed/x.json"),
        (["diff", "gpt2", "closed/x.json"], "closed/x.json"),
        (["verify", "gpt2", "--checkpoint", "closed/x.safetensors"], "closed/x.safetensors"),
        (["verify", "--module", "closed/x.py:C"], "'closed/x.py'"),
        (["budget", "--file", "closed/tfcalc.toml"], "closed/tfcalc.toml"),
    ],
)
def test_a_path_that_may_not_be_read_is_told_as_such(seen: Path, words: list[str], told: str) -> None:
    (seen / "closed").mkdir()
    for path in (seen / "closed" / "x.json", seen / "y.json"):
        path.write_text('{"model_type": "gpt2"}')
        path.chmod(0o600)
    (seen / "closed").chmod(0o700)
    code, out, err = as_nobody(seen, *words)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith(f"tfcalc: {told} cannot be read: Permission denied")


def test_a_cache_that_may_not_be_read_holds_nothing(seen: Path) -> None:
    (seen / "cache").mkdir(mode=0o700)
    code, out, err = as_nobody(seen, "params", "owner/name", "--offline")
    assert (code, out, err.count("\n")) == (4, "", 1)


def test_a_first_file_passes_over_folders_that_may_not_be_read(seen: Path) -> None:
    (seen / "closed").mkdir(mode=0o700)
    code, out, err = as_nobody(seen, "init", "-o", "-")
    assert (code, err) == (0, "")
    assert "[[budget]]" in out


# --- a file that is broken


@pytest.mark.parametrize("text", ["hello", "d_modle = 5", 'output = "x"', "color = 7", "\x00", "version = 9"])
def test_a_broken_file_is_replaced_with_force(quick: Quick, tmp_path: Path, text: str) -> None:
    path = tmp_path / "tfcalc.toml"
    path.write_text(text)
    assert quick("init").returncode == 3
    assert path.read_text() == text
    done = quick("init", "--force")
    assert (done.returncode, done.stderr) == (0, "")
    assert quick("budget").returncode == 0


# --- an empty value, of a variable of the shell that is not set


TEXTS = [
    pytest.param(name, option, id=f"{name} {option.flags[0]}")
    for name in COMMANDS
    for option in command(name).options
    if option.flags and option.name != "model_name" and not (option.switch or option.number or option.amount)
]


@pytest.mark.one_in(10)
@pytest.mark.parametrize(("name", "option"), TEXTS)
def test_an_empty_text_is_refused(quick: Quick, name: str, option: object) -> None:
    flag = option.flags[0]  # type: ignore[attr-defined]  # it is an Option
    for value in ("", " "):
        refused = quick(name, flag, value)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith(f"tfcalc: {flag} {value!r} is ")


def test_an_empty_base_compares_with_nothing_and_says_so(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "tfcalc.toml").write_text(BUDGET)
    assert quick("budget", "--base", "") == (2, "", "tfcalc: --base '' is empty; give it a value, or leave it out\n")
