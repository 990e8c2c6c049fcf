"""A variant of a recorded prompt: the request, with changes, and the model that it is sent to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Final

from archon.errors import InvalidArgument, NotFound
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelRequest
from archon_mesh.playground.recorded_call import INPUT, SYSTEM_PROMPT, RecordedCall
from archon_mesh.run_diff import Piece, PieceKind, word_diff

MAX_TEMPERATURE: Final = 2.0

MIN_COMMON: Final = 0.25
"""Part of the words of the longer text that two texts have in common at least, to be compared word by word."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The recorded call that a variant was made from."""

    run_id: str = ""
    role: str = ""
    task_id: str = ""
    call: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """A part of a prompt that a variant changes: `place` names it, such as `message 2 (system)`."""

    place: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Variant:
    """A prompt to send. `system` and `input` are the indexes of the messages with the agent's own prompt and with the
    task's input; None if there is none. `original` is the request that was recorded."""

    model: str
    request: ModelRequest
    origin: Origin = Origin()
    system: int | None = None
    input: int | None = None
    original: ModelRequest | None = field(default=None, compare=False)

    @classmethod
    def of(cls, call: RecordedCall) -> Variant:
        """Returns the prompt of a call, unchanged. Raises FailedPrecondition if contents of it were not recorded."""
        request = call.request
        system = call.message_of(SYSTEM_PROMPT)
        if system is None:
            roles = [message.role for message in request.messages]
            system = roles.index("system") if "system" in roles else None
        origin = Origin(call.run_id, call.role, call.task_id, call.number)
        return cls(call.model, request, origin, system, call.message_of(INPUT), request)

    def with_model(self, model: str) -> Variant:
        """Returns the variant for another model, named as `create_model` takes it."""
        return replace(self, model=model)

    def with_temperature(self, temperature: float | None) -> Variant:
        """Returns the variant with another temperature, None for the model's own. Raises InvalidArgument if it is not
        from 0 to 2."""
        if temperature is not None and not 0 <= temperature <= MAX_TEMPERATURE:
            raise InvalidArgument(f"the temperature must be from 0 to {MAX_TEMPERATURE:g}, not {temperature:g}")
        return replace(self, request=replace(self.request, temperature=temperature))

    def with_max_tokens(self, max_tokens: int | None) -> Variant:
        """Returns the variant with another limit of the reply. Raises InvalidArgument if it is not above 0."""
        if max_tokens is not None and max_tokens < 1:
            raise InvalidArgument(f"max_tokens must be at least 1, not {max_tokens}")
        return replace(self, request=replace(self.request, max_tokens=max_tokens))

    def with_system(self, text: str) -> Variant:
        """Returns the variant with another own prompt of the agent, which becomes the first message if there was
        none."""
        if self.system is not None:
            return self.with_message(self.system + 1, text)
        messages = [ChatMessage("system", text), *self.request.messages]
        moved = None if self.input is None else self.input + 1
        return replace(self, request=replace(self.request, messages=messages), system=0, input=moved)

    def with_input(self, text: str) -> Variant:
        """Returns the variant with another input of the task. Raises NotFound if no message has it."""
        if self.input is None:
            raise NotFound("no message of this prompt is recorded as the input of the task")
        return self.with_message(self.input + 1, text)

    def with_message(self, number: int, text: str) -> Variant:
        """Returns the variant with another text of the message with this number, from 1. Raises NotFound if there is
        none."""
        messages = list(self.request.messages)
        if not 1 <= number <= len(messages):
            raise NotFound(f"the prompt has {len(messages)} messages: there is no message {number}")
        # Signed thinking and other data of the provider belong to the text that it wrote.
        messages[number - 1] = replace(messages[number - 1], content=text, metadata={})
        return replace(self, request=replace(self.request, messages=messages))

    def replaced(self, old: str, new: str) -> Variant:
        """Returns the variant with a text replaced wherever a message has it. Raises NotFound if none has it."""
        if not old:
            raise InvalidArgument("the text to replace is empty")
        messages = [
            replace(message, content=message.content.replace(old, new), metadata={})
            if old in message.content
            else message
            for message in self.request.messages
        ]
        if not any(old in message.content for message in self.request.messages):
            raise NotFound(f"no message of the prompt has the text {old[:80]!r}")
        return replace(self, request=replace(self.request, messages=messages))

    def changes(self) -> list[Change]:
        """Returns the parts that differ from the recorded request; none if that is not known."""
        before, after = self.original, self.request
        if before is None:
            return []
        found = [
            Change(_place(number, new or old), tuple(text_difference(_text(old), _text(new))))
            for number, (old, new) in enumerate(zip_longest(before.messages, after.messages), 1)
            if _text(old) != _text(new) or _role(old) != _role(new)
        ]
        for name in ("temperature", "max_tokens", "is_json", "output_schema"):
            old, new = getattr(before, name), getattr(after, name)
            if old != new:
                found.append(Change(name, tuple(word_diff(_shown(old), _shown(new)))))
        if (tools := _tools(before)) != (changed := _tools(after)):
            found.append(Change("tools", tuple(word_diff(tools, changed))))
        return found


def text_difference(old: str, new: str) -> list[Piece]:
    """Returns the difference of two texts by words; as a whole, if they have few words in common."""
    pieces = word_diff(old, new)
    same = sum(len(piece.text.split()) for piece in pieces if piece.kind is PieceKind.SAME)
    if old and new and same < MIN_COMMON * max(len(old.split()), len(new.split())):
        return [Piece(PieceKind.REMOVED, old), Piece(PieceKind.ADDED, new)]
    return pieces


def _place(number: int, message: ChatMessage | None) -> str:
    return f"message {number} ({message.role if message is not None else 'removed'})"


def _text(message: ChatMessage | None) -> str:
    if message is None:
        return ""
    calls = [f"calls {call.name} {call.arguments_json}" for call in message.tool_calls]
    return "\n".join([*([message.described] if message.described else []), *calls])


def _role(message: ChatMessage | None) -> str:
    return message.role if message is not None else ""


def _shown(value: object) -> str:
    return "the default" if value is None else str(value)


def _tools(request: ModelRequest) -> str:
    tools: Sequence[object] = [(tool.name, tool.description, dict(tool.parameters_schema)) for tool in request.tools]
    return "\n".join(map(str, tools))
