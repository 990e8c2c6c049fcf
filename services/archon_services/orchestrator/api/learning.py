"""The versions of the learned weights, and the decisions of people about them."""

from __future__ import annotations

from typing import Final

from archon import context
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import FieldViolation, InvalidArgument, LearningOff
from archon.wire import set_seconds
from archon_services.common.paging import make_token, page_size, read_token
from archon_services.orchestrator.audit import AuditRecord
from archon_services.orchestrator.learning.learner import Learner
from archon_services.orchestrator.learning.versions import Version
from archon_services.orchestrator.learning.weights import NEUTRAL, Tally

MAX_COMMENT: Final = 4_096
"""Characters of a comment."""

MAX_PAGE: Final = 20
"""Versions of a page: each may have thousands of weights."""


class LearnedVersions:
    """Raises Archon's errors. `learner` is None if the orchestrator does not learn."""

    def __init__(self, learner: Learner | None, audit: AuditRecord) -> None:
        self._learner = learner
        self._audit = audit

    async def page(self, request: pb.ListLearnedVersionsRequest) -> pb.ListLearnedVersionsResponse:
        """Returns a page of versions, newest first. Raises InvalidArgument / INVALID_PAGE_TOKEN and the errors of the
        journal."""
        before = read_token(request.page_token, "learned", like=0) or 0
        size = min(MAX_PAGE, page_size(request.page_size))
        if self._learner is None:
            return pb.ListLearnedVersionsResponse()
        versions, in_use = await self._learner.page(context.current().tenant, before, size + 1)
        out = pb.ListLearnedVersionsResponse(learning=True)
        out.versions.extend(_to_proto(version, in_use) for version in versions[:size])
        if len(versions) > size:
            out.next_page_token = make_token(versions[size - 1].number, "learned")
        return out

    async def decide(self, request: pb.DecideLearnedVersionRequest) -> pb.LearnedVersion:
        """Approves or rejects the proposed version. Raises UnknownLearnedVersion, LearnedVersionDecided, LearningOff,
        InvalidArgument and the errors of the journal."""
        learner, caller = self._on(), context.current()
        _check(request.comment)
        version = await learner.decide(
            caller.tenant, request.version, caller.identity, request.comment, approve=request.approve
        )
        await self._noted("learning.approve" if request.approve else "learning.reject", version)
        return _to_proto(version, version.number)

    async def revert(self, request: pb.RevertLearnedVersionRequest) -> pb.LearnedVersion:
        """Goes back to a version. Raises UnknownLearnedVersion, LearningOff, InvalidArgument and the errors of the
        journal."""
        learner, caller = self._on(), context.current()
        _check(request.comment)
        version = await learner.revert(caller.tenant, request.version, caller.identity, request.comment)
        await self._noted("learning.revert", version)
        return _to_proto(version, version.number)

    def _on(self) -> Learner:
        if self._learner is None:
            raise LearningOff("this orchestrator does not learn: ARCHON_LEARNING is off")
        return self._learner

    async def _noted(self, action: str, version: Version) -> None:
        details = {"of_version": version.of_version}
        await self._audit.add(self._audit.row(action, target=str(version.number), details=details))


def _check(comment: str) -> None:
    if len(comment) > MAX_COMMENT:
        violations = [FieldViolation("comment", f"longer than {MAX_COMMENT:,} characters")]
        raise InvalidArgument(f"comment: longer than {MAX_COMMENT:,} characters", field_violations=violations)


def _to_proto(version: Version, in_use: int) -> pb.LearnedVersion:
    out = pb.LearnedVersion(
        version=version.number,
        origin=pb.LearnedOrigin.ValueType(int(version.origin)),
        of_version=version.of_version,
        identity=version.identity,
        comment=version.comment,
        in_use=version.number == in_use,
    )
    set_seconds(out.create_time, version.time)
    for subject in sorted({*version.weights, *version.before, *version.evidence}):
        tally = version.evidence.get(subject, Tally(0.0, 0.0, 0.0))
        out.weights.add(
            kind=subject.kind,
            role=subject.role,
            name=subject.name,
            weight=version.weights.get(subject, NEUTRAL),
            before=version.before.get(subject, NEUTRAL),
            outcomes=tally.count,
            score=tally.score / tally.count if tally.count else 0.0,
        )
    return out
