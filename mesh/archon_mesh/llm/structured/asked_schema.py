"""The schema that a model is asked for: providers take objects only, so that any other value is asked for in one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from archon_mesh.core.messages import ORIGIN, ChatMessage

KEY: Final = "answer"
"""The only property of an object that has another value in it."""

OUTPUT: Final = "output"
"""The origin of the message that asks for the schema."""

_NOTE: Final = (
    "Your final answer must be one JSON object that matches this JSON Schema, without a code block or any text around "
    "it. Before it, you may call tools as usual.\n\n"
)
_DEFINITIONS: Final = ("$defs", "definitions", "$schema")


@dataclass(frozen=True, slots=True)
class AskedSchema:
    """The JSON Schema of an object. `is_wrapped`: the answer is the property KEY of that object."""

    schema: Mapping[str, Any]
    is_wrapped: bool = False

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> AskedSchema:
        """Returns the schema that is asked for if the answer has this one."""
        schema = _at_root(schema)
        if schema.get("type") == "object" or ("type" not in schema and "properties" in schema):
            return cls({**schema, "type": "object"})
        definitions = {key: schema[key] for key in _DEFINITIONS if key in schema}
        answer = {key: value for key, value in schema.items() if key not in definitions}
        return cls(
            {
                "type": "object",
                "properties": {KEY: _moved(answer)},
                "required": [KEY],
                "additionalProperties": False,
                **_moved(definitions),
            },
            is_wrapped=True,
        )

    def answers_in(self, value: Any) -> Iterator[Any]:
        """Yields the possible answers in a JSON value that a model wrote: models leave out the object around it, or
        write one more, such as `{"result": ...}`."""
        is_single = isinstance(value, dict) and len(value) == 1
        if self.is_wrapped and is_single and KEY in value:
            yield value[KEY]
        yield value
        if is_single:
            yield from value.values()

    def note(self) -> ChatMessage:
        """Returns the message that asks for the schema in words."""
        text = _NOTE + json.dumps(self.schema, ensure_ascii=False)
        return ChatMessage("system", text, metadata={ORIGIN: OUTPUT})


def is_note(message: ChatMessage) -> bool:
    """Whether a message is the one that asks for a schema in words."""
    return message.metadata.get(ORIGIN) == OUTPUT


def _at_root(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a schema that is a reference to one of its definitions as that definition, with all of them."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    for name in ("$defs", "definitions"):
        target = schema.get(name, {}).get(reference.removeprefix(f"#/{name}/"))
        if isinstance(target, Mapping) and "$ref" not in target:
            return {**{key: value for key, value in schema.items() if key != "$ref"}, **target}
    return schema


def _moved(value: Any) -> Any:
    """Returns a part of a schema with its references to the root, except to definitions, as they are below KEY."""
    if isinstance(value, list):
        return [_moved(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    moved = {key: _moved(each) for key, each in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        is_definition = reference.startswith(("#/$defs/", "#/definitions/"))
        moved["$ref"] = reference if is_definition else f"#/properties/{KEY}{reference[1:]}"
    return moved
