"""Runs with questions, for the tests of the commands."""

from __future__ import annotations

from typing import Any

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2


def run_with(*input_ids: str, **fields: Any) -> run_pb2.Run:
    """Returns run `r`, whose role `clerk` asks a question for each id."""
    run = run_pb2.Run(run_id="r", **{"state": common_pb2.TASK_STATE_WORKING, **fields})
    for input_id in input_ids:
        run.questions.add(input_id=input_id, role="clerk", prompt=[common_pb2.Part(text="sure?")])
    return run
