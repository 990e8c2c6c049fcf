"""The model of an agent and its forks: made when it is first needed, closed by whoever made it."""

from __future__ import annotations

from archon_mesh.llm.base import ModelClient
from archon_mesh.llm.create import create_model


class Models:
    """`given` is a client, which stays its maker's, or what `create_model` takes."""

    def __init__(self, given: ModelClient | str) -> None:
        self.given = given
        self._made: ModelClient | None = None

    @property
    def client(self) -> ModelClient:
        """Raises what `create_model` raises."""
        if not isinstance(self.given, str):
            return self.given
        if self._made is None:
            self._made = create_model(self.given)
        return self._made

    async def close(self) -> None:
        """Where one was made; another is made when it is needed again. Idempotent."""
        made, self._made = self._made, None
        if made is not None:
            await made.close()
