"""Build the page into a folder: ``python -m tools.page site/calculator`` (``make page``). It needs npm and the network.

With ``--optional`` (``make site``) a page that says why stands there where it cannot be built, as the site links to it.

The page is what lies here, Pyodide from the npm registry (one version, by its hash), tfcalc's own wheel, and the wheels
that the command line imports. Whoever opens the page loads nothing from anywhere else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from tfcalc.render.picture import colours_of

HERE = Path(__file__).parent
TOP = HERE.parents[1]
PYODIDE = "314.0.7"
HASH = "sha512-0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
"""Of the package in the npm registry, as npm's lock files write it."""
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
"""What a browser loads of it."""
STATIC = ("index.html", "app.js", "app.css", "worker.js", "icon.svg")
PICTURES = "pictures.css"
"""Colours of the pictures, which are those of reports."""
IMPORTED = ("typer", "annotated-doc", "shellingham")
"""What the command line imports, but for rich and sympy: the page asks for no table in a terminal."""
FOLDER = "/tfcalc"
"""Where the page's file system has the wheels."""


def from_npm(package: str, known: str, names: Sequence[str], into: Path) -> None:
    """Fetch a package (``name@version``), and unpack these files. Raises ValueError where its hash is another one."""
    if shutil.which("npm") is None:
        raise FileNotFoundError(f"npm is not installed, and {package} comes from its registry")
    with tempfile.TemporaryDirectory() as room:
        subprocess.run(["npm", "pack", "--silent", package], cwd=room, check=True, stdout=sys.stderr)
        (archive,) = Path(room).glob("*.tgz")
        found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != known:
            raise ValueError(f"{package} has the hash {found}, and not {known}")
        with tarfile.open(archive) as packed:
            for name in names:
                member = packed.extractfile(f"package/{name}")
                assert member is not None, name
                (into / name).write_bytes(member.read())


def wheels(into: Path) -> Iterator[Path]:
    """Build tfcalc's wheel, and fetch those of what it imports, at the versions that pip chooses."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", into, TOP], check=True, stdout=sys.stderr)
    wanted = [str(requirement) for requirement in _requirements()]
    subprocess.run(
        [*pip, "download", "--no-deps", "--only-binary", ":all:", "--dest", into, *wanted],
        check=True,
        stdout=sys.stderr,
    )
    yield from sorted(into.glob("*.whl"))


def _requirements() -> Iterator[str]:
    """What is imported, in the versions that pyproject.toml asks for."""
    import tomllib

    stated = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    for name in IMPORTED:
        yield next((each for each in stated if each.startswith(name)), name)


def build(site: Path) -> dict[str, object]:
    """Build the page in this folder, which is replaced; return its manifest."""
    with tempfile.TemporaryDirectory() as room:
        new = Path(room) / "page"
        (new / "pyodide").mkdir(parents=True)
        from_npm(f"pyodide@{PYODIDE}", HASH, RUNTIME, new / "pyodide")
        (new / "wheels").mkdir()
        archives = [{"file": f"wheels/{path.name}", "format": "wheel"} for path in wheels(new / "wheels")]
        for name in STATIC:
            shutil.copy(HERE / name, new / name)
        (new / PICTURES).write_text(colours_of("figure") + "\n", encoding="utf-8")
        files = sorted(str(path.relative_to(new)) for path in new.rglob("*") if path.is_file())
        sizes = {name: (new / name).stat().st_size for name in files}
        digest = hashlib.sha256(b"".join((new / name).read_bytes() for name in files)).hexdigest()[:16]
        (new / "sw.js").write_text(
            (HERE / "sw.js").read_text(encoding="utf-8").replace("BUILD", digest), encoding="utf-8"
        )
        manifest = {
            "pyodide": PYODIDE,
            "folder": FOLDER,
            "archives": archives,
            "files": [*files, "manifest.json"],
            "bytes": sum(sizes.values()),
            "build": digest,
        }
        (new / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        site.parent.mkdir(parents=True, exist_ok=True)
        if site.exists():
            shutil.rmtree(site)
        shutil.copytree(new, site)
    return manifest


NOTE = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>tfcalc in a browser</title>
<h1>The calculator is not part of this copy of the site</h1>
<p>{reason}</p>
<p>Whoever builds the site where npm is, and the network, has it here. <a href="../page.html">What it is</a></p>
</html>
"""


def note(site: Path, reason: str) -> None:
    """Write a page in its place that says why it is not there; nothing of an earlier one stays."""
    if site.exists():
        shutil.rmtree(site)
    site.mkdir(parents=True)
    (site / "index.html").write_text(NOTE.format(reason=escape(reason)), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Build it, and say how large it is."""
    optional = "--optional" in arguments
    site = Path(next((word for word in arguments if word != "--optional"), "site/calculator"))
    try:
        manifest = build(site)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"the page is not built: {error}", file=sys.stderr)
        if optional:
            note(site, f"It was not built: {error}.")
        return 0 if optional else 1
    print(f"{site}: {len(list(site.rglob('*')))} files, {manifest['bytes']:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
