"""Prompts for MCP clients: functions whose texts a person picks in the client, such as a command of an editor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, overload

from archon.errors import ResourceExhausted, ResultRefused
from archon_mesh.core.media import Media
from archon_mesh.tools.mcp.serving.functions import CALL_SECONDS, Complete, OfferedFunction

MAX_MESSAGES: Final = 100
MAX_PROMPT_BYTES: Final = 2 * 1024 * 1024
"""Messages of a prompt, and bytes of all of them."""


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """A message of a prompt: a text or a file (Image, Audio, EmbeddedResource), said by `role`."""

    content: str | Media
    role: Literal["user", "assistant"] = "user"


class Prompt:
    """A function whose result an MCP client gets as messages, created by `@prompt`."""

    def __init__(self, function: OfferedFunction) -> None:
        self.function = function
        self.name = function.name
        self.description = function.description

    async def messages(self, arguments: Mapping[str, str]) -> list[PromptMessage]:
        """Returns the messages for the arguments. Raises InvalidArgument if they do not match the signature,
        ResultRefused if the function returns something else, ResourceExhausted above MAX_MESSAGES or MAX_PROMPT_BYTES,
        DeadlineExceeded, and the function's errors."""
        value = await self.function.call(arguments)
        items: Sequence[Any] = value if isinstance(value, (list, tuple)) else (value,)
        if len(items) > MAX_MESSAGES:
            raise ResourceExhausted(f"prompt {self.name} has {len(items):,} messages; the limit is {MAX_MESSAGES:,}")
        for item in items:
            if not isinstance(item, (str, Media, PromptMessage)):
                kind = type(item).__name__
                raise ResultRefused(f"prompt {self.name} returns {kind}: expected a text, a file, or a list of these")
        messages = [item if isinstance(item, PromptMessage) else PromptMessage(item) for item in items]
        size = sum(_size(message.content) for message in messages)
        if size > MAX_PROMPT_BYTES:
            raise ResourceExhausted(f"prompt {self.name} has {size:,} bytes; the limit is {MAX_PROMPT_BYTES:,}")
        return messages


@overload
def prompt(function: Callable[..., Any], /) -> Prompt: ...
@overload
def prompt(
    *,
    name: str = "",
    description: str = "",
    seconds: float = CALL_SECONDS,
    complete: Mapping[str, Complete] | None = None,
) -> Callable[[Callable[..., Any]], Prompt]: ...
def prompt(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    seconds: float = CALL_SECONDS,
    complete: Mapping[str, Complete] | None = None,
) -> Prompt | Callable[[Callable[..., Any]], Prompt]:
    """Makes a function, sync or async, a prompt: `@prompt`, or `@prompt(complete={"language": ["de", "en"]})`.

    Its parameters are the arguments of the prompt; it returns a text, a file, a PromptMessage, or a list of these. It
    has `seconds` for that. `complete` has the values of arguments, or a function from the typed text to values.

    Raises InvalidArgument if a parameter cannot be described, or if an argument to complete is not a parameter.
    """

    def made(plain: Callable[..., Any]) -> Prompt:
        return Prompt(OfferedFunction(plain, name, description, seconds, complete))

    return made if function is None else made(function)


def _size(content: str | Media) -> int:
    return len(content.encode(errors="replace")) if isinstance(content, str) else len(content.data)
