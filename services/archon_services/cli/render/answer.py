"""The answers of a run as they are printed: JSON with a line for each value."""

from __future__ import annotations

import json

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.client import answer_text
from archon.types import Run
from archon.wire import is_text


def has_json(run: run_pb2.Run) -> bool:
    """Whether an answer of the run is JSON."""
    return any(part.data_json and is_text(part) for answer in run.answers for part in answer.parts)


def shown_answer(run: run_pb2.Run) -> str:
    """Returns the text of the answers, as `answer_text` does, with JSON indented."""
    if not has_json(run):
        return answer_text(Run(run))
    shown = run_pb2.Run(run_id=run.run_id, answers=run.answers, truncated=run.truncated)
    for answer in shown.answers:
        for part in answer.parts:
            _indent(part)
    return answer_text(Run(shown))


def _indent(part: common_pb2.Part) -> None:
    if not part.data_json or not is_text(part):
        return
    try:
        part.data_json = json.dumps(json.loads(part.data_json), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return  # shown as it is
