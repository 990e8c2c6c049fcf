"""Checks, while a plan is being executed, whether it still serves its query.

A check is asked after a subtask has completed, beside everything else: subtasks start and end meanwhile. Whatever goes
wrong with a check, the plan counts as aligned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from archon_mesh.engine.plan import Task
from archon_mesh.engine.plan.alignment import alignment_messages, read_misalignment
from archon_mesh.llm import deadline
from archon_mesh.llm.base import ModelClient, ModelRequest
from archon_mesh.llm.text_format import ParsingError, extract_json_from_text

ALIGNMENT_TIMEOUT: Final = 60.0
"""Seconds of a check; then the plan counts as aligned."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Alignment:
    """The outcome of a check: why the plan does not serve its query any more, or an empty text if it does."""

    problem: str = ""


AlignmentCheck = Callable[[Task], Awaitable[Alignment]]
"""Checks whether a plan, with its results so far, still serves `original_query`."""


def align_by_model(model: ModelClient) -> AlignmentCheck:
    """Returns a check by a model. After a reply that cannot be read, or a call that fails, which is logged, the plan
    counts as aligned."""

    async def check(task: Task) -> Alignment:
        messages = tuple(alignment_messages(task))
        request = ModelRequest(
            messages, temperature=0.0, timeout=ALIGNMENT_TIMEOUT, idle_timeout=ALIGNMENT_TIMEOUT, is_json=True
        )
        try:
            verdict = extract_json_from_text((await deadline.generate(model, request)).text)
        except ParsingError:
            return Alignment()
        except Exception as error:  # noqa: BLE001 - whatever a model raises, the plan goes on
            _log.warning("task %s: the model did not say whether the plan serves the query: %s", task.id, error)
            return Alignment()
        return Alignment(read_misalignment(verdict))

    return check


async def misalignment(check: AlignmentCheck, task: Task, *, timeout: float = ALIGNMENT_TIMEOUT) -> str:
    """Returns why the plan does not serve its query, as the check says; an empty text if it does, or if the check fails
    or takes longer than `timeout` seconds."""
    try:
        async with asyncio.timeout(timeout):
            return (await check(task)).problem.strip()
    except asyncio.CancelledError:
        if (current := asyncio.current_task()) is None or current.cancelling():
            raise
        return ""  # the check has cancelled itself
    except Exception as error:  # noqa: BLE001 - a check that fails must not fail the plan
        _log.warning("task %s: the check of the plan's alignment failed: %r", task.id, error)
        return ""
