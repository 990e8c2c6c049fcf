"""Names of tools as providers take them: OpenAI and Anthropic accept [a-zA-Z0-9_-]{1,64} only.

A request is sent with accepted names, and the names in its reply are mapped back, so that neither tools nor hooks ever
see a name that a provider requires.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Final

from archon_mesh.llm.base import ModelRequest

MAX_NAME: Final = 64
"""Characters of a name."""

_ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_REJECTED_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")
_DIGITS = 8


class ToolNames:
    """Maps names to accepted ones and back, one to one. The same set of names always gives the same map.

    Accepted names stay as they are. In others `_` replaces each character that is rejected; a name that is too long, or
    would equal another tool's, ends with a hash of the original.
    """

    def __init__(self, names: Iterable[str]) -> None:
        distinct = sorted(set(names))
        rejected = [name for name in distinct if not _ACCEPTED.fullmatch(name)]
        taken = set(distinct) - set(rejected)
        plain = [_REJECTED_CHARACTER.sub("_", name) or "_" for name in rejected]
        self._accepted: dict[str, str] = {}
        for name, candidate in zip(rejected, plain, strict=True):
            is_free = candidate not in taken and plain.count(candidate) == 1 and len(candidate) <= MAX_NAME
            self._accepted[name] = candidate if is_free else ""
        taken.update(filter(None, self._accepted.values()))
        for name, candidate in zip(rejected, plain, strict=True):
            if not self._accepted[name]:
                self._accepted[name] = _with_hash(name, candidate, taken)
                taken.add(self._accepted[name])
        self._original = {accepted: name for name, accepted in self._accepted.items()}

    @classmethod
    def of(cls, request: ModelRequest) -> ToolNames:
        """Returns the map for the tools of a request and the tool calls in its messages."""
        called = [call.name for message in request.messages for call in message.tool_calls]
        return cls([*(tool.name for tool in request.tools), *called])

    def accepted(self, name: str) -> str:
        """Returns the name for the provider."""
        return self._accepted.get(name, name)

    def original(self, name: str) -> str:
        """Returns the name for the framework. A name that the map does not have stays as it is."""
        return self._original.get(name, name)

    def to_provider(self, request: ModelRequest) -> ModelRequest:
        """Returns the request with accepted names of its tools and of the tool calls in its messages."""
        if not self._accepted:
            return request
        messages = [
            replace(
                message, tool_calls=tuple(replace(call, name=self.accepted(call.name)) for call in message.tool_calls)
            )
            if message.tool_calls
            else message
            for message in request.messages
        ]
        tools = [replace(tool, name=self.accepted(tool.name)) for tool in request.tools]
        return replace(request, messages=messages, tools=tools)


def _with_hash(name: str, candidate: str, taken: set[str]) -> str:
    for number in range(len(taken) + 1):
        digest = sha256(f"{name}#{number}".encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
        unique = f"{candidate[: MAX_NAME - _DIGITS - 1]}_{digest}"
        if unique not in taken:
            return unique
    raise AssertionError("more hashes than names are taken")
