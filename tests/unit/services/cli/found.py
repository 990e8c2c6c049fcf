"""What checks are tested with: what they found, in short, and a server that answers as it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from archon_services.cli.checks.finding import Finding


def levels(found: Sequence[Finding]) -> list[str]:
    """How bad each is."""
    return [one.level for one in found]


def said(found: Sequence[Finding]) -> str:
    """All that is told."""
    return " / ".join(f"{one.message} {one.hint}" for one in found)


@contextmanager
def answering(status: int, body: bytes, headers: Mapping[str, str]) -> Iterator[tuple[str, list[Mapping[str, str]]]]:
    """A server that answers everything alike, with these headers alone. Yields host:port, and the headers it got."""
    got: list[Mapping[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append({**dict(self.headers), "path": self.path})
            self.send_response_only(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
