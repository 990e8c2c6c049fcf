"""Typed answers: how a model is asked for JSON of a schema, and how its reply is read."""

from archon_mesh.llm.structured.asked_schema import AskedSchema
from archon_mesh.llm.structured.final_answer import FinalAnswer
from archon_mesh.llm.structured.read import json_values
from archon_mesh.llm.structured.response_format import json_schema_format
from archon_mesh.llm.structured.strict_schema import strict_schema
from archon_mesh.llm.structured.typed_output import TypedOutput

__all__ = ["AskedSchema", "FinalAnswer", "TypedOutput", "json_schema_format", "json_values", "strict_schema"]
