"""The overrides of a file's settings of model calls."""

from __future__ import annotations

from dataclasses import dataclass

from archon_mesh.llm.base import ModelClient


@dataclass(frozen=True, slots=True)
class ModelOverrides:
    """Settings that override a file's, for all of its agents. None keeps the file's value.

    `timeout` is in seconds of one model call; the others are as in an agent's configuration.
    """

    model: ModelClient | str | None = None
    timeout: float | None = None
    retries: int | None = None
    fallback_model: ModelClient | str | None = None
    idle_timeout: float | None = None
    first_token_timeout: float | None = None
