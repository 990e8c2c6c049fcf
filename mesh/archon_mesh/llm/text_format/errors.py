"""The error of a reply that cannot be read."""

from __future__ import annotations

from archon.errors import InvalidArgument
from archon.failure_kinds import MODEL_FORMAT


class ParsingError(InvalidArgument):
    """A model's reply has neither a call nor a final answer that can be read, or a text has no JSON."""

    default_kind = MODEL_FORMAT
