"""The error of a reply that cannot be read."""

from __future__ import annotations

from archon.errors import InvalidArgument
from archon.failure_kinds import MODEL_FORMAT
from archon_mesh.llm.base import ModelReply


class ParsingError(InvalidArgument):
    """A model's reply has neither a call nor a final answer that can be read, or a text has no JSON."""

    default_kind = MODEL_FORMAT

    reply: ModelReply | None = None
    """The reply, with the usage of all replies to the call; None for a text that is not a reply."""
