"""The schema of an answer in the form of OpenAI's APIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from archon_mesh.llm.structured.strict_schema import strict_schema

NAME: Final = "answer"
"""The name of the schema, which the APIs require."""


def json_schema_format(schema: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
    """Returns name, schema and whether it is strict. A schema that does not meet the rules of strict ones is sent as it
    is."""
    enforced = strict_schema(schema) if strict else None
    return {"name": NAME, "schema": enforced or dict(schema), "strict": enforced is not None}
