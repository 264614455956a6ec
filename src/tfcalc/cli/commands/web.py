"""``tfcalc web``."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tfcalc.cli.commands import Command
from tfcalc.cli.local_server import LOOPBACK, local_server
from tfcalc.cli.options import SHOW, Option
from tfcalc.cli.output import show
from tfcalc.errors import UsageError
from tfcalc.files import content
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.report.sheet import Sheet

if TYPE_CHECKING:
    from tfcalc.cli.settings import Settings

BUILT = "site/calculator"
"""The folder that `make page` builds."""
PORT = 8650
MANIFEST = "manifest.json"
"""What its files are called."""
LARGEST = 1 << 20
"""Bytes of that."""
FOLDER = Option("folder", (), f"the folder of the page, as make page builds it [default: {BUILT}]", argument=True)
OPTIONS = (
    Option(
        "port",
        ("--port",),
        f"port on {LOOPBACK}; 0: any that is free [default: {PORT}]",
        number=True,
        least=0,
        most=65_535,
        front=True,
    ),
)


class ServedPage(NamedTuple):
    """The page that is served: its ``folder``, the ``port``, and how many ``files`` and ``size`` bytes it has."""

    folder: Path
    port: int
    files: int
    size: int

    @property
    def url(self) -> str:
        """The address for a browser on this machine."""
        return f"http://{LOOPBACK}:{self.port}/"

    def to_dict(self) -> dict[str, object]:
        """The answer for programs."""
        return {"url": self.url, "folder": str(self.folder), "files": self.files, "bytes": self.size}

    def sheet(self) -> Sheet:
        """The address, and what is served there."""
        return Sheet(
            title=f"{self.url} serves the page in {self.folder}",
            columns=(),
            rows=(),
            quiet=self.url,
            notes=[f"{self.files} files, {self.size / 1e6:.1f} MB; for this machine alone; Ctrl-C ends it"],
        )


def answer(settings: Settings) -> ServedPage:
    """The page, where all of its files are there. Raises UsageError with how it is built."""
    folder = Path(settings.get("folder", BUILT))
    try:
        files = json.loads(content(folder / MANIFEST, LARGEST))["files"]
        size = sum((folder / name).stat().st_size for name in files)
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(
            f"the page is not in {quoted(str(folder))}, and no package contains it",
            f"build it in a clone of tfcalc with make page, then: tfcalc web {BUILT}",
        ) from None
    return ServedPage(folder, settings.get("port", PORT), len(files), size)


def serve(page: ServedPage, settings: Settings) -> None:
    """Serve the page until it is interrupted. Raises UsageError where the port is taken."""
    try:
        server = local_server(page.folder, page.port)
    except OSError as error:
        raise UsageError(f"port {page.port} cannot be used: {error.strerror}", "name another one: --port 0") from None
    with server, suppress(KeyboardInterrupt):
        show(page._replace(port=server.server_port), settings)
        server.serve_forever()


COMMAND = Command(
    answer,
    (FOLDER, *OPTIONS, *(option for option in SHOW if option.name in ("quiet", "ascii", "color", "debug"))),
    (
        "tfcalc web",
        f"tfcalc web {BUILT} --port 8000",
    ),
    write=serve,
)
