"""The wheel and the sdist: what is in them, and that they come out the same each time."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
EPOCH = int(datetime(2026, 11, 22, tzinfo=UTC).timestamp())

pytest.importorskip("build")
pytest.importorskip("hatchling")


def built(into: Path, kind: str, epoch: int, **environment: str) -> Path:
    """The package, built in this environment into a folder that did not exist."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(into), str(TOP)]
    ours = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), **environment}
    subprocess.run(command, env=ours, cwd=into.parent, capture_output=True, check=True)
    (package,) = into.iterdir()
    return package


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel") / "dist", "wheel", EPOCH)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("sdist") / "dist", "sdist", EPOCH)


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {
        "tfcalc",
        wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info",
    }
    source = {str(path.relative_to(TOP / "src")) for path in (TOP / "src" / "tfcalc").rglob("*") if path.is_file()}
    assert {name for name in names if name.startswith("tfcalc/")} == {
        name for name in source if "__pycache__" not in name
    }


def test_the_wheel_has_what_the_program_reads(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "tfcalc/py.typed" in names
    assert {"tfcalc/hardware.csv", "tfcalc/configs/families.jsonl"} <= set(names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert sum(name.startswith("tfcalc/models/") for name in names) > 300


def test_no_module_of_the_wheel_is_for_developers(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        texts = [archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")]
    for text in texts:
        assert "from tools" not in text
        assert "import tools" not in text
        assert "from tests" not in text


def test_the_sdist_has_what_a_clone_has(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "conftest.py", "Makefile", "mkdocs.yml"}
    expected |= {"src/tfcalc/__init__.py", "tests/cli/test_manners.py", "tools/docs.py", ".ci/run", "docs/cli.md"}
    expected |= {"action.yml", ".pre-commit-hooks.yaml"}  # which tests/ci reads
    assert expected <= names
    assert not [name for name in names if "__pycache__" in name or ".venv" in name]


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_the_same_source_gives_the_same_bytes(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    first: Path = request.getfixturevalue(kind)
    again = built(tmp_path / "again", kind, EPOCH, TZ="Asia/Tokyo", PYTHONHASHSEED="7")
    assert again.name == first.name
    assert again.read_bytes() == first.read_bytes()


def test_the_files_of_the_wheel_have_the_time_that_was_asked_for(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert {info.date_time for info in archive.infolist()} == {(2026, 11, 22, 0, 0, 0)}


def test_the_files_of_the_sdist_have_the_time_that_was_asked_for(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        assert {info.mtime for info in archive.getmembers()} == {EPOCH}
