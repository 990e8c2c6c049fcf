"""The output of an agent or of one step: the schema in requests to its model, and the check of replies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from archon.errors import FieldViolation, OutputMismatch
from archon.output import OutputType
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.structured.asked_schema import AskedSchema
from archon_mesh.llm.structured.read import json_values, with_parsed_texts


class TypedOutput:
    """A type of answers, ready for requests. `type` reads answers, `note` asks for the schema in words."""

    def __init__(self, output_type: OutputType) -> None:
        self.type = output_type
        self._asked = AskedSchema.of(output_type.schema)
        self.note: ChatMessage = self._asked.note()

    @classmethod
    def of(cls, declared: object) -> TypedOutput | None:
        """Returns the output for a type, as in `OutputType.of`; None for text. Raises InvalidArgument."""
        if isinstance(declared, TypedOutput):
            return declared
        output_type = OutputType.of(declared)
        return None if output_type is None else cls(output_type)

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema for requests, which describes an object."""
        return self._asked.schema

    def to_json(self, answer: Any) -> str:
        """Returns an object of the type as JSON text."""
        return self.type.to_json(answer)

    def read(self, text: str) -> str:
        """Returns the answer in a reply as JSON that matches the type. Raises OutputMismatch."""
        mismatch: OutputMismatch | None = None
        values = json_values(text)
        parsed = (with_parsed_texts(value) for value in values if isinstance(value, dict | list))
        for value in (*values, *parsed):
            for answer in self._asked.answers_in(value):
                try:
                    return self._as_json(answer, text)
                except OutputMismatch as error:
                    mismatch = mismatch or error
        if mismatch is None or all(isinstance(value, str) for value in values):
            raise OutputMismatch.of([FieldViolation("(all)", "the answer has no JSON that can be read")], text)
        raise mismatch

    def fits(self, text: str) -> bool:
        """Whether a reply has an answer of the type."""
        try:
            self.read(text)
        except OutputMismatch:
            return False
        return True

    def _as_json(self, answer: Any, text: str) -> str:
        """Returns the JSON text of an answer. Raises OutputMismatch if the type refuses it."""
        checked = self.type.validate(answer, text)
        try:
            written = self.type.to_json(checked)
            self.type.parse(written)
        except (OutputMismatch, ValueError):  # the type writes other JSON than it reads, or none
            return json.dumps(answer, ensure_ascii=False)
        return written
