"""A page of two files, and a server that ends at once: for tests that need neither Pyodide nor a port."""

from __future__ import annotations

import json
from pathlib import Path


def sample_page(folder: Path) -> None:
    """A folder as ``make page`` builds it, with nothing of Pyodide."""
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>a page</title>", encoding="utf-8")
    (folder / "app.js").write_text("export {};\n", encoding="utf-8")
    files = ["index.html", "app.js", "manifest.json"]
    (folder / "manifest.json").write_text(json.dumps({"files": files}), encoding="utf-8")


class Ended:
    """A server whose user ends it at once."""

    server_port = 8650

    def __enter__(self) -> Ended:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left open."""

    def serve_forever(self) -> None:
        raise KeyboardInterrupt


def ended_at_once(_folder: Path, _port: int) -> Ended:
    return Ended()
