"""The model client of an agent, created on first use."""

from __future__ import annotations

from archon_mesh.llm.base import ModelClient
from archon_mesh.llm.create import ModelSpec, create_model


class LazyModel:
    """Holds the model client that an agent shares with its forks.

    `model` is a client, which its creator closes, or a spec for `create_model`.
    """

    def __init__(self, model: ModelClient | ModelSpec | str) -> None:
        self._model = model
        self._created: ModelClient | None = None

    @property
    def client(self) -> ModelClient:
        """The client, created if necessary. Raises the errors of `create_model`."""
        if not isinstance(self._model, (str, ModelSpec)):
            return self._model
        if self._created is None:
            self._created = create_model(self._model)
        return self._created

    async def close(self) -> None:
        """Closes the client if this object created it; the next use creates another. Idempotent."""
        created, self._created = self._created, None
        if created is not None:
            await created.close()
