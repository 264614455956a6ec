"""A folder of files served to the browsers of this machine alone."""

from __future__ import annotations

import gzip
import sys
from functools import cache, partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost")
"""What a browser on this machine may call the server; a page elsewhere that has its name lead here is refused."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; "
    "connect-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".whl": "application/octet-stream",
}
"""Of what a page has; the system's own table may say otherwise."""
COMPRESSED = (".js", ".mjs", ".wasm", ".json", ".css", ".html")


class Handler(SimpleHTTPRequestHandler):
    """Answers requests for files of the folder, to who names this machine; it logs nothing."""

    extensions_map = {  # noqa: RUF012  # an attribute of each instance, by the types of its base
        **SimpleHTTPRequestHandler.extensions_map,
        **TYPES,
    }
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send a file, compressed where the browser takes it so."""
        if self._is_ours() and not self._sends_compressed():
            super().do_GET()

    def do_HEAD(self) -> None:
        """Send the headers of a file."""
        if self._is_ours():
            super().do_HEAD()

    def _is_ours(self) -> bool:
        name, _, port = self.headers.get("Host", "").rpartition(":")
        if name in NAMES and port == str(cast(ThreadingHTTPServer, self.server).server_port):
            return True
        self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "this server is for 127.0.0.1 alone")
        return False

    def _sends_compressed(self) -> bool:
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        if path.suffix not in COMPRESSED or "gzip" not in self.headers.get("Accept-Encoding", "") or not path.is_file():
            return False
        body = _compressed(path, path.stat().st_mtime_ns)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return True

    def list_directory(self, path: object) -> None:  # noqa: ARG002  # of none
        """Refuse to list a folder."""
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        """Add the headers that hold for all files."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *_: object) -> None:
        """Log nothing: it would say what somebody asked."""


class Server(ThreadingHTTPServer):
    """Serves until it is told to end; a browser that hangs up (a tab closed as it loads) is no error of anybody's."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Tell what went wrong in answering a request, unless the browser has gone."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # typeshed's name of a socket is private


@cache
def _compressed(path: Path, _changed: int) -> bytes:
    return gzip.compress(path.read_bytes(), 6)


def local_server(folder: Path, port: int) -> Server:
    """The server of a folder on this machine; port 0 is any that is free. Raises OSError where the port is taken."""
    return Server((LOOPBACK, port), partial(Handler, directory=str(folder)))
