"""``tfcalc web``: the page that was built, served to this machine alone."""

from __future__ import annotations

import gzip
import http.client
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Program
from tests.page.sample import ended_at_once, sample_page
from tfcalc.cli.local_server import local_server


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    sample_page(tmp_path / "page")
    (tmp_path / "secret").write_text("not of the page", encoding="utf-8")
    with local_server(tmp_path / "page", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def got(port: int, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers={"Host": f"127.0.0.1:{port}", **headers})
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def test_files_come_with_the_policy_that_lets_nothing_out(port: int) -> None:
    status, headers, body = got(port, "/")
    assert (status, b"a page" in body) == (200, True)
    policy = headers["Content-Security-Policy"]
    assert "connect-src 'self'" in policy
    assert "default-src 'none'" in policy
    status, headers, body = got(port, "/app.js", **{"Accept-Encoding": "gzip"})
    assert (status, headers["Content-Encoding"], gzip.decompress(body)) == (200, "gzip", b"export {};\n")
    assert headers["Content-Type"] == "text/javascript"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{}", "127.0.0.1", "127.0.0.1:1", "", "[::1]:{}"])
def test_a_name_that_leads_here_from_elsewhere_is_refused(port: int, host: str) -> None:
    assert got(port, "/", Host=host.format(port))[0] == 421
    assert got(port, "/", Host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize("path", ["/../secret", "/..%2fsecret", "/%2e%2e/secret", "//secret", "/nothing"])
def test_nothing_outside_of_the_folder_is_served(port: int, path: str) -> None:
    status, _, body = got(port, path)
    assert (status, b"not of the page" in body) == (404, False)


def test_a_folder_is_not_listed(port: int, tmp_path: Path) -> None:
    (tmp_path / "page" / "wheels").mkdir()
    assert got(port, "/wheels/")[0] == 404


def test_a_browser_that_hangs_up_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample_page(tmp_path / "page")
    with local_server(tmp_path / "page", 0) as server:
        for sent in (b"", b"GET / HT", b"GET /app.js HTTP/1.1\r\nHost: "):
            before = set(threading.enumerate())
            browser = socket.create_connection(("127.0.0.1", server.server_port), timeout=10)
            browser.sendall(sent)
            server.handle_request()
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed at once: a reset
            browser.close()
            for answering in set(threading.enumerate()) - before:
                answering.join(10)
    assert capsys.readouterr() == ("", "")


def test_it_says_where_the_page_is(tfcalc: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample_page(tmp_path / "built")
    monkeypatch.setattr("tfcalc.cli.commands.web.local_server", ended_at_once)
    done = tfcalc("web", "built")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("http://127.0.0.1:8650/ serves the page in built\n3 files")
    assert tfcalc("web", "built", "-q").stdout == "http://127.0.0.1:8650/\n"


def test_without_a_page_it_says_how_one_is_built(tfcalc: Program, tmp_path: Path) -> None:
    done = tfcalc("web")
    assert (done.returncode, done.stdout) == (2, "")
    assert "make page" in done.stderr
    assert done.stderr.count("\n") == 1
    sample_page(tmp_path / "built")
    (tmp_path / "built" / "app.js").unlink()  # half of one
    assert tfcalc("web", "built").returncode == 2
    (tmp_path / "built" / "manifest.json").write_text("[]", encoding="utf-8")
    assert tfcalc("web", "built").returncode == 2


def test_a_port_that_is_taken_is_refused(tfcalc: Program, tmp_path: Path, port: int) -> None:
    done = tfcalc("web", "page", "--port", str(port), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"port {port} cannot be used" in done.stderr
    assert tfcalc("web", "page", "--port", "65536", cwd=tmp_path).returncode == 2
