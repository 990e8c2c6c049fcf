"""What replaces a file's settings of model calls."""

from __future__ import annotations

from dataclasses import dataclass

from archon_mesh.llm.base import ModelClient


@dataclass(frozen=True, slots=True)
class ModelOverrides:
    """Settings that win over those of a file, for all of its agents. None keeps what the file says.

    `timeout` is in seconds of one model call; the others are those of an agent.
    """

    model: ModelClient | str | None = None
    timeout: float | None = None
    retries: int | None = None
    fallback_model: ModelClient | str | None = None
    idle_timeout: float | None = None
    first_token_timeout: float | None = None
