"""Versions of learned weights, and how each follows from the one before: by outcomes, or by a person.

Versions are only added. A proposed version is not in use; it is always the newest one, since nothing is learned while
it waits. All functions are pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Final

from archon_mesh.core.value import value
from archon_services.orchestrator.learning.weights import (
    NEUTRAL,
    Evidence,
    Subject,
    Tally,
    Weights,
    bounded,
    largest_change,
    moved,
)


class Origin(IntEnum):
    """How a version came about; the numbers are as in `LearnedOrigin` of the contract."""

    LEARNED = 1
    PROPOSED = 2
    APPROVED = 3
    REJECTED = 4
    REVERTED = 5


@value
class Version:
    """A version of a tenant's weights, with the evidence as of then. `approved` are the weights that a person approved
    or went back to last, from which the size of a change is measured. `before` are the weights in use before."""

    number: int
    origin: Origin
    time: float
    weights: Weights
    evidence: Evidence
    approved: Weights
    before: Weights
    of_version: int = 0
    identity: str = ""
    comment: str = ""


NOTHING: Final = Version(0, Origin.APPROVED, 0.0, {}, {}, {}, {})
"""The neutral weights of the beginning."""


def in_use(newest: Sequence[Version]) -> Version:
    """Returns the version that new runs use, of a tenant's two newest versions, newest first."""
    return next((version for version in newest if version.origin is not Origin.PROPOSED), NOTHING)


def proposed(newest: Sequence[Version]) -> Version | None:
    """Returns the version that waits for a person, None if none does."""
    return newest[0] if newest and newest[0].origin is Origin.PROPOSED else None


def learned(newest: Sequence[Version], evidence: Evidence, now: float, approve_above: float) -> Version | None:
    """Returns the version that follows from evidence: proposed if a weight would differ by more than `approve_above`
    from the weight that a person approved last. None if no weight changes, or while a version waits."""
    if proposed(newest) is not None:
        return None
    present = in_use(newest)
    weights = moved(present.weights, evidence)
    if weights == dict(present.weights):
        return None
    waits = largest_change(present.approved, weights) > approve_above + 1e-9
    origin = Origin.PROPOSED if waits else Origin.LEARNED
    return Version(_next(newest), origin, now, weights, evidence, present.approved, present.weights)


def decided(newest: Sequence[Version], now: float, identity: str, comment: str, *, approve: bool) -> Version:
    """Returns the version that a decision about the proposed one makes: with its weights, or with those in use and
    their evidence. The newest version must be a proposed one."""
    asked, present = newest[0], in_use(newest)
    chosen = asked if approve else present
    return replace(
        chosen,
        number=_next(newest),
        origin=Origin.APPROVED if approve else Origin.REJECTED,
        time=now,
        approved=chosen.weights if approve else present.approved,
        before=present.weights,
        of_version=asked.number,
        identity=identity,
        comment=comment,
    )


def reverted(newest: Sequence[Version], to: Version, now: float, identity: str, comment: str) -> Version:
    """Returns a version with exactly the weights and the evidence of `to`, which counts as approved."""
    return replace(
        to,
        number=_next(newest),
        origin=Origin.REVERTED,
        time=now,
        approved=to.weights,
        before=in_use(newest).weights,
        of_version=to.number,
        identity=identity,
        comment=comment,
    )


def _next(newest: Sequence[Version]) -> int:
    return newest[0].number + 1 if newest else 1


# Stored form ----------------------------------------------------------------------------------------------------------


def encode_evidence(evidence: Evidence) -> bytes:
    """Returns the stored form of evidence."""
    return _json(_evidence_rows(evidence))


def decode_evidence(data: bytes) -> dict[Subject, Tally]:
    """Reads the stored form; raises ValueError or TypeError if it is damaged."""
    return _evidence_of(json.loads(data)) if data else {}


def encode(version: Version) -> bytes:
    """Returns the stored form of a version, without its number and its time."""
    return _json(
        {
            "origin": int(version.origin),
            "weights": _weight_rows(version.weights),
            "evidence": _evidence_rows(version.evidence),
            "approved": _weight_rows(version.approved),
            "before": _weight_rows(version.before),
            "of": version.of_version,
            "identity": version.identity,
            "comment": version.comment,
        }
    )


def decode(number: int, time: float, data: bytes) -> Version:
    """Reads the stored form; raises ValueError, KeyError or TypeError if it is damaged."""
    fields = json.loads(data)
    return Version(
        number,
        Origin(fields["origin"]),
        time,
        _weights_of(fields["weights"]),
        _evidence_of(fields["evidence"]),
        _weights_of(fields["approved"]),
        _weights_of(fields["before"]),
        int(fields["of"]),
        str(fields["identity"]),
        str(fields["comment"]),
    )


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _weight_rows(weights: Weights) -> list[list[object]]:
    return [[*subject, weight] for subject, weight in sorted(weights.items())]


def _weights_of(rows: list[list[object]]) -> dict[Subject, float]:
    found = {Subject(str(row[0]), str(row[1]), str(row[2])): bounded(float(str(row[3]))) for row in rows}
    return {subject: weight for subject, weight in found.items() if weight != NEUTRAL}


def _evidence_rows(evidence: Evidence) -> list[list[object]]:
    return [[*subject, tally.count, tally.score, tally.time] for subject, tally in sorted(evidence.items())]


def _evidence_of(rows: list[list[object]]) -> dict[Subject, Tally]:
    return {
        Subject(str(row[0]), str(row[1]), str(row[2])): Tally(*(float(str(number)) for number in row[3:6]))
        for row in rows
    }
