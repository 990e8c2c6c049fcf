"""Helpers for the tests of the checks: short forms of findings, and an HTTP server with a fixed response."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from archon_services.cli.checks.finding import Finding
from tests.fixtures.ports import free_ports


def levels(findings: Sequence[Finding]) -> list[str]:
    """Returns the levels."""
    return [finding.level for finding in findings]


def texts(findings: Sequence[Finding]) -> str:
    """Returns all messages and hints."""
    return " / ".join(f"{finding.message} {finding.hint}" for finding in findings)


@contextmanager
def http_server(status: int, body: bytes, headers: Mapping[str, str]) -> Iterator[tuple[str, list[Mapping[str, str]]]]:
    """Answers every request with this response and only these headers. Yields host:port, and the headers of
    requests."""
    requests: list[Mapping[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append({**dict(self.headers), "path": self.path})
            self.send_response_only(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", free_ports(1)[0]), Handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
