"""Stored versions of learned weights, the evidence behind them, and marks of the outcomes that it holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Protocol

from archon_mesh.core.value import value

MAX_VERSIONS: Final = 200
"""Versions of a tenant that are kept; the oldest are deleted."""


@value
class LearnedRow:
    """A version of the learned weights of a tenant, numbered from 1; `time` is in wall seconds, `data` its content."""

    tenant: str
    version: int
    time: float
    data: bytes


@value
class EvidenceRow:
    """The evidence of a tenant, and how often it was stored; revision 0 is the empty evidence of the beginning."""

    revision: int
    data: bytes


@value
class UnlearnedRow:
    """An outcome that no evidence holds: the end of a run if `identity` and `stars` are empty, else a rating of it.
    `time` is when the run ended or was rated, in wall seconds."""

    run_id: str
    tenant: str
    time: float
    rated: bool = False
    identity: str = ""
    stars: int = 0

    @property
    def source(self) -> str:
        """Names the outcome within its run."""
        return f"rating/{self.identity}" if self.rated else ""


class LearningStore(Protocol):
    """The part of a journal that keeps learned weights. Raises the errors of the journal."""

    async def learned_versions(self, tenant: str, before: int = 0, limit: int = 100) -> list[LearnedRow]:
        """Returns versions, newest first: the ones below `before`, or all if that is 0."""
        ...

    async def learned_evidence(self, tenant: str) -> EvidenceRow:
        """Returns the evidence of a tenant."""
        ...

    async def learned_tenants(self) -> list[str]:
        """Returns the tenants that have a version, sorted."""
        ...

    async def unlearned(self, after: float, limit: int, without: Collection[str] = ()) -> list[UnlearnedRow]:
        """Returns outcomes after a time (wall seconds), oldest first, that no evidence holds: first the ends of runs
        with details, then ratings, up to `limit` of each. An identity's rating counts once, even if it is replaced.
        Outcomes of the tenants `without` are left out."""
        ...

    async def learn(
        self,
        tenant: str,
        revision: int,
        evidence: bytes,
        outcomes: Sequence[UnlearnedRow] = (),
        version: LearnedRow | None = None,
    ) -> bool:
        """Stores evidence in place of the one with `revision`, marks of the outcomes that it adds, and a new version,
        in one transaction, durable on return. Returns False, and stores nothing, if the evidence has
        another revision, an outcome is marked already, or the version exists: another replica was first. Keeps the
        newest MAX_VERSIONS versions."""
        ...
