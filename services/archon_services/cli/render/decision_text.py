"""How a result was chosen, as text: the conflict among the results, or the bids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from archon.api.common.v1 import plan_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.plain_text import duration
from archon.types.bid import Bid
from archon.types.resolution import Resolution
from archon.types.verdict import Verdict
from archon_services.reports.texts import cost_text, one_line

SHOWN: Final = 200
"""Characters of each text of a verdict."""


def decision_lines(resolution: Resolution) -> Iterator[str]:
    """Yields the conflict among the results, and a line for each bid with its score."""
    if resolution.conflict:
        yield f"in conflict: {resolution.conflict}"
    for vote in resolution.votes:
        if vote.bid is not None:
            chosen = "  awarded" if vote.step_id == resolution.winner_step_id else ""
            yield f"{vote.step_id} of {vote.role}: {bid_text(vote.bid)}  score {vote.weight:.2f}{chosen}"


def settled_text(verdict: Verdict) -> str:
    """Returns the way in which an arbiter has decided, and for which step."""
    return f"settled by {verdict.way}{f' for {verdict.winner}' if verdict.winner else ''}"


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Yields the reason of an arbiter, the ways that did not decide, and the work that was done again."""
    yield f"{settled_text(verdict)}: {one_line(verdict.reason, SHOWN)}"
    for way, reason in verdict.tried.items():
        yield f"not settled by {way}: {one_line(reason, SHOWN)}"
    for step_id, text in verdict.redone.items():
        yield f"{step_id} was done again: {one_line(text, SHOWN)}"


def winning_bid(run: run_pb2.Run, step: plan_pb2.PlanStep) -> Bid | None:
    """Returns the bid for which a step was assigned; None if it was not assigned by a bid."""
    if not step.assigned_by:
        return None
    for task in run.tasks:
        if task.step_id == step.assigned_by and task.HasField("resolution"):
            resolution = Resolution.from_proto(task.resolution)
            return next((vote.bid for vote in resolution.votes if vote.step_id == resolution.winner_step_id), None)
    return None


def bid_text(bid: Bid) -> str:
    """Returns cost, time and quality of a bid."""
    pieces = [cost_text(bid.cost_micro_usd), duration(bid.seconds) if bid.seconds else ""]
    pieces.append(f"quality {bid.quality:.2g}" if bid.quality else "")
    return ", ".join(filter(None, pieces)) or "nothing stated"
