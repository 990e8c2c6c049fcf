"""Steps, entries and links of histories as their messages."""

from __future__ import annotations

import json
from typing import Final

from archon.api.audit.v1 import audit_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2
from archon.history import AuditEntry, AuditLink, RecordedStep
from archon.wire import set_seconds

_INT64: Final = 2**63


def step_to_proto(step: RecordedStep) -> orchestrator_service_pb2.RunStep:
    """Returns a step as it is. A number that another program has written, and that no message has, becomes -1."""
    base, last_seq = (number if 0 <= number < _INT64 else -1 for number in (step.base, step.last_seq))
    return orchestrator_service_pb2.RunStep(
        base=base, last_seq=last_seq, data=step.data, inputs=step.inputs, link=step.link, seal=step.seal
    )


def entry_to_proto(entry: AuditEntry) -> pb.Entry:
    """Returns an entry for its readers."""
    out = pb.Entry(
        tenant=entry.tenant,
        identity=entry.identity,
        actors=entry.actors,
        action=entry.action,
        run_id=entry.run_id,
        target=entry.target,
        details_json=json.dumps(entry.details) if entry.details else "",
    )
    set_seconds(out.time, entry.time)
    return out


def link_to_proto(link: AuditLink, *, readable: bool) -> pb.Link:
    """Returns a link; without its entry unless it is `readable`."""
    return pb.Link(
        chain=link.chain,
        number=link.number,
        digest=link.digest,
        link=link.link,
        seal=link.seal,
        data=link.data if readable else b"",
    )
