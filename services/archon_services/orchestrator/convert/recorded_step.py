"""The steps of a history as their messages."""

from __future__ import annotations

from typing import Final

from archon.api.orchestrator.v1 import orchestrator_service_pb2
from archon.history import RecordedStep

_INT64: Final = 2**63


def step_to_proto(step: RecordedStep) -> orchestrator_service_pb2.RunStep:
    """Returns a step as it is. A number that another program has written, and that no message has, becomes -1."""
    base, last_seq = (number if 0 <= number < _INT64 else -1 for number in (step.base, step.last_seq))
    return orchestrator_service_pb2.RunStep(
        base=base, last_seq=last_seq, data=step.data, inputs=step.inputs, link=step.link, seal=step.seal
    )
