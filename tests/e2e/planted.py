"""Secrets that are planted in a mesh, and everything that it produces, in which they are searched."""

from __future__ import annotations

import base64
import gzip
import json
import secrets
import threading
import urllib.parse
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

NAMES: Final = (
    *("openai key", "anthropic key", "embedder key", "smtp password", "postgres password", "vault key", "mcp env"),
    *(
        "mcp header",
        "answer",
        "argument",
        "other mesh token",
        "collector header",
        "lost password",
        "typed token",
        "webhook secret",
    ),
)


def plant() -> dict[str, str]:
    """Returns a new secret for each name: texts that occur nowhere else, with a letter that URLs encode."""
    return {name: f"pl4nted+{name.split()[0]}/{secrets.token_hex(12)}" for name in NAMES}


def forms(value: bytes) -> list[bytes]:
    """Returns a secret as it is, and in the encodings in which it could be hidden: URL, hexadecimal, JSON, and base64 from
    each of the three positions that it can have in a longer text."""
    text = value.decode()
    found = [value, urllib.parse.quote(text, safe="").encode(), urllib.parse.quote(text).encode(), value.hex().encode()]
    found.append(json.dumps(text)[1:-1].encode())
    for shift in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            coded = encode(b"\0" * shift + value)
            # The first letters contain bits of what is before, the last ones of what follows.
            found.append(coded[(0, 2, 3)[shift] : len(coded) - 4])
    return list(dict.fromkeys(found))


@dataclass
class Search:
    """Finds secrets in what was produced. `allowed` says in which places a secret may be: by its name."""

    secrets: dict[str, bytes]
    allowed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    searched: int = 0

    def look(self, place: str, content: bytes) -> None:
        """Notes each secret in the content of a place."""
        self.searched += len(content)
        for name, value in self.secrets.items():
            if place not in self.allowed.get(name, ()) and any(form in content for form in forms(value)):
                at = next(content.find(form) for form in forms(value) if form in content)
                around = content[max(0, at - 120) : at + 20]
                self.found.append(f"{name} is in {place}: ...{around.decode(errors='replace')}")

    def look_below(self, folder: Path) -> None:
        """Searches all files below a folder."""
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                self.look(str(path.relative_to(folder)), path.read_bytes())

    def look_at_processes(self, pids: list[int]) -> None:
        """Searches the command lines of processes, which every user of a machine can read."""
        for pid in pids:
            try:
                self.look(f"command line of {pid}", Path(f"/proc/{pid}/cmdline").read_bytes())
            except FileNotFoundError:
                continue


class Counterparts:
    """What is outside of a mesh: a provider of models that repeats the key of a refused call, an MCP server that does
    the same, a mail server's address, and a collector that keeps what it gets."""

    def __init__(self, argument: str) -> None:
        self.collected: list[bytes] = []
        self.refused: list[str] = []
        """The headers of refused calls."""
        outside = self

        class Handler(BaseHTTPRequestHandler):
            """Answers one request."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if self.path.startswith("/v1/traces") or self.path.startswith("/v1/metrics") or "/v1/logs" in self.path:
                    outside.collected.append(_plain(body))
                    self._answer(200, b"")
                elif self.path.startswith("/mcp") or b"be refused" in body:
                    given = self.headers.get("authorization", "") + self.headers.get("x-api-key", "")
                    outside.refused.append(given)
                    words = f"Incorrect API key provided: {given} and {urllib.parse.quote(given, safe='')}"
                    self._answer(401, json.dumps({"error": {"message": words, "type": "auth"}}).encode())
                else:
                    self._answer(200, json.dumps(_reply(json.loads(body), argument)).encode())

            def _answer(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            @override
            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Counterparts:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def url(self) -> str:
        """The address of all of it."""
        return f"http://127.0.0.1:{self.port}"


def _plain(body: bytes) -> bytes:
    return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body


def _reply(request: dict[str, Any], argument: str) -> dict[str, Any]:
    """The model calls each tool that it is offered once, with a password as argument, and then answers."""
    message: dict[str, Any] = {"role": "assistant", "content": "It is open."}
    tools = [tool["function"]["name"] for tool in request.get("tools", ())]
    if tools and not any(each["role"] == "tool" for each in request["messages"]):
        message["content"] = None
        message["tool_calls"] = [
            {
                "id": f"c{n}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps({"door": "north", "password": argument})},
            }
            for n, name in enumerate(tools)
            if name.startswith("open_")
        ]
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
