"""Answers from a cassette, without a provider."""

from __future__ import annotations

import difflib
import json
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Final

from archon.errors import InvalidArgument, NotFound
from archon_mesh.llm.base import ModelChunk, ModelReply, ModelRequest
from archon_mesh.llm.chunks import stream_reply
from archon_mesh.llm.media import EVERYTHING
from archon_mesh.llm.wrappers.cassette import MAX_BYTES, decode_reply, redacted, secrets_of_environment
from archon_mesh.llm.wrappers.request_content import canonical, request_content

MAX_COMPARED: Final = 200
"""Requests of the cassette, the newest, among which the one nearest to an unknown request is looked for."""

MAX_DIFFERENCE: Final = 40
"""Lines of the difference that an error shows."""


class ReplayModel:
    """Answers each request with the reply that a RecordingModel has recorded for the same content: the same messages,
    tools, temperature and limit.

    Replies to the same request are given in their order, and the last one again and again. An unknown request raises
    NotFound, with the difference from the nearest one that is known. `model` is the model of the first reply.
    """

    media = EVERYTHING

    def __init__(self, path: Path | str, *, secrets: Iterable[str] = ()) -> None:
        """`secrets` are the recording's. Raises NotFound or InvalidArgument if the file cannot be used."""
        self._path = Path(path)
        self._secrets = [secret for secret in secrets if secret]
        self._replies: dict[str, deque[tuple[ModelReply, str]]] = {}
        self.model = "replay"
        for number, line in enumerate(self._lines(), start=1):
            if not line.strip():
                continue
            try:
                data = json.loads(line)
                entry = decode_reply(data["reply"])
                key = canonical(data["request"])
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                raise InvalidArgument(f"{self._path}:{number}: not a line of a cassette: {error}") from None
            if not self._replies:
                self.model = entry[0].model
            self._replies.setdefault(key, deque()).append(entry)

    async def generate(self, request: ModelRequest) -> ModelReply:
        return self._next(request)[0]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        reply, thinking = self._next(request)
        if thinking:
            yield ModelChunk(thinking_delta=thinking)
        async for chunk in stream_reply(reply):
            yield chunk

    async def close(self) -> None:
        pass

    def _lines(self) -> list[str]:
        try:
            if self._path.stat().st_size > MAX_BYTES:
                raise InvalidArgument(f"the cassette {self._path} has more than {MAX_BYTES:,} bytes")
            return self._path.read_text(encoding="utf-8").split("\n")
        except OSError as error:
            raise NotFound(f"cannot read the cassette {self._path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InvalidArgument(f"the cassette {self._path} is not UTF-8") from None

    def _next(self, request: ModelRequest) -> tuple[ModelReply, str]:
        content = redacted(request_content(request), [*self._secrets, *secrets_of_environment()])
        key = canonical(content)
        replies = self._replies.get(key)
        if replies is None:
            raise NotFound(f"the cassette {self._path} has no such request{self._difference(key)}")
        return replies.popleft() if len(replies) > 1 else replies[0]

    def _difference(self, key: str) -> str:
        """Describes how a request differs from the nearest one that is known."""
        lines = key.splitlines()
        nearest, best = None, -1.0
        for known in list(self._replies)[-MAX_COMPARED:]:
            ratio = difflib.SequenceMatcher(None, lines, known.splitlines(), autojunk=False).quick_ratio()
            if ratio > best:
                nearest, best = known.splitlines(), ratio
        if nearest is None:
            return ": it is empty"
        changes = [*difflib.unified_diff(nearest, lines, "recorded", "requested", lineterm="", n=1)]
        shown = changes[:MAX_DIFFERENCE] + (["..."] if len(changes) > MAX_DIFFERENCE else [])
        return "; the nearest differs by\n" + "\n".join(line[:200] for line in shown)
