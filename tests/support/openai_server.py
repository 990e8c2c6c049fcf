"""A server that speaks the chat completions API over real HTTP, on a free port of 127.0.0.1.

Left alone it echoes the last user message, streamed where asked to. `script` sets the next answers instead.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """One scripted answer.

    `events` are streamed as SSE, `body` is sent as JSON (or as it is, where a string). `end` says how a
    stream ends: done, silent (a clean end without [DONE]), or cut (the connection breaks). `delay` is in
    seconds, before the answer and before each event.
    """

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    events: Sequence[Any] | None = None
    end: str = "done"
    delay: float = 0.0


def completion(message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The body of a whole reply."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "served-model"}
    return {**head, "choices": [choice], "usage": usage, **fields}


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """One event of a streamed reply; without a delta and a finish reason it has no choices."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    choices = [] if delta is None and finish is None else [choice]
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "served-model"}
    return {**head, "choices": choices, **fields}


USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


class OpenAIServer:
    """`async with OpenAIServer() as server:` serves until the block ends; `url` is what a client takes.

    `arrived` is set once a request is there, `idle` once the last open connection is closed.
    """

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.arrived = asyncio.Event()
        self.idle = asyncio.Event()
        self._answers: deque[Answer] = deque()
        self._handlers: set[asyncio.Task[None]] = set()

    def script(self, *answers: Answer) -> None:
        """What the next requests are answered with."""
        self._answers.extend(answers)

    async def __aenter__(self) -> OpenAIServer:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._handlers.add(handler)
        handler.add_done_callback(self._handlers.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.idle.clear()
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            if self._handlers == {asyncio.current_task()}:
                self.idle.set()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
        self.received.append(Received(head[0].split(" ")[1], headers, body))
        self.arrived.set()
        answer = self._answers.popleft() if self._answers else _echo(body)
        await asyncio.sleep(answer.delay)
        if answer.events is None:
            payload = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            kind = "text/html" if isinstance(answer.body, str) else "application/json"
            _write_head(writer, answer, kind, f"Content-Length: {len(payload.encode())}")
            writer.write(payload.encode())
            await writer.drain()
            return True
        _write_head(writer, answer, "text/event-stream", "Transfer-Encoding: chunked")
        for event in answer.events:
            await asyncio.sleep(answer.delay)
            _write_chunk(writer, event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n")
            await writer.drain()
        if answer.end == "cut":
            return False
        if answer.end == "done":
            _write_chunk(writer, "data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def _write_head(writer: asyncio.StreamWriter, answer: Answer, kind: str, length: str) -> None:
    headers = [
        f"Content-Type: {kind}",
        length,
        *(f"{name}: {value}" for name, value in answer.headers.items()),
    ]
    writer.write("\r\n".join([f"HTTP/1.1 {answer.status} Scripted", *headers, "", ""]).encode())


def _write_chunk(writer: asyncio.StreamWriter, text: str) -> None:
    data = text.encode()
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


def _echo(body: dict[str, Any]) -> Answer:
    said = [message["content"] for message in body["messages"] if message["role"] == "user"]
    text = f"echo: {said[-1] if said else ''}"
    if not body.get("stream"):
        return Answer(completion({"content": text}))
    words = re.findall(r"\s*\S+", text)
    said_words = [chunk({"content": word}) for word in words]
    return Answer(events=[*said_words, chunk(finish="stop"), chunk(usage=USAGE)])
