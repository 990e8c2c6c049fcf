"""The rule `award`: it chooses among bids by cost, time and quality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from archon.answers import is_number
from archon.json_text import json_object
from archon_mesh.engine.decisions.candidate import Bid, Candidate, Resolution, Vote

BID_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "cost_micro_usd": {"type": "integer", "minimum": 0},
        "seconds": {"type": "number", "minimum": 0},
        "quality": {"type": "number", "minimum": 0, "maximum": 1},
    },
}
"""The JSON Schema of a bid."""

CRITERIA: Final = ("cost", "time", "quality")
"""The properties by which bids are compared; an argument of the rule weighs each, from 0 on, 1 unless it is given."""


def award(arguments: Mapping[str, Any], candidates: Sequence[Candidate]) -> Resolution:
    """Chooses the bid with the best score; of equal ones the first. Without a winner if no candidate is a bid within
    the limits.

    The score of a bid is the weighted mean of three parts from 0 to 1: the lowest cost of all bids over its own, the
    shortest time over its own, and its quality over the highest one. A property that a bid does
    not state, or states as 0, counts half as much as in the worst bid that states it.
    """
    bids = [(each, bid) for each in candidates if (bid := bid_of(each.text)) is not None]
    within = [(each, bid) for each, bid in bids if _is_within(bid, arguments)]
    if not within:
        found = f"{len(bids)} bids, none" if bids else "no bid, so none"
        return Resolution("award", "", f"{found} within the limits", _votes(bids, {}))
    scores = {each.step_id: _score(bid, [other for _, other in within], arguments) for each, bid in within}
    winner = max(scores, key=lambda id_: scores[id_])
    role = next(each.role for each, _ in within if each.step_id == winner)
    reason = f"{winner}{f' of {role}' if role else ''} has the best of {len(within)} bids: {scores[winner]:.2f}"
    return Resolution("award", winner, reason, _votes(bids, scores))


def bid_of(text: str) -> Bid | None:
    """Returns the bid in the text of a result; None if there is no valid one."""
    data = json_object(text)
    if data is None or not any(key in data for key in BID_SCHEMA["properties"]):
        return None
    cost, seconds, quality = (data.get(key, 0) for key in BID_SCHEMA["properties"])
    if not all(is_number(value) and value >= 0 for value in (cost, seconds, quality)) or quality > 1:
        return None
    return Bid(int(min(cost, 1e15)), float(seconds), float(quality))


def weight_fault(value: Any) -> str:
    """Returns the fault of the weight of a criterion; empty if there is none."""
    return "" if is_number(value) and 0 <= value <= 1e6 else "must be a number from 0 to 1,000,000"


def limit_fault(value: Any) -> str:
    """Returns the fault of a limit; empty if there is none."""
    return "" if is_number(value) and value >= 0 else "must be a number, 0 or more"


def _is_within(bid: Bid, arguments: Mapping[str, Any]) -> bool:
    cheap = bid.cost_micro_usd <= float(arguments.get("most_micro_usd", math.inf))
    fast = bid.seconds <= float(arguments.get("most_seconds", math.inf))
    return cheap and fast and bid.quality >= float(arguments.get("least_quality", 0))


def _score(bid: Bid, bids: Sequence[Bid], arguments: Mapping[str, Any]) -> float:
    parts = (
        _lowest_over(bid.cost_micro_usd, [each.cost_micro_usd for each in bids]),
        _lowest_over(bid.seconds, [each.seconds for each in bids]),
        _over_highest(bid.quality, [each.quality for each in bids]),
    )
    weights = [float(arguments.get(name, 1.0)) for name in CRITERIA]
    total = sum(weights)
    return sum(weight * part for weight, part in zip(weights, parts, strict=True)) / total if total else 0.0


def _lowest_over(value: float, values: Sequence[float]) -> float:
    stated = [each for each in values if each]
    return min(stated) / (value or 2 * max(stated)) if stated else 1.0


def _over_highest(value: float, values: Sequence[float]) -> float:
    stated = [each for each in values if each]
    return (value or min(stated) / 2) / max(stated) if stated else 1.0


def _votes(bids: Sequence[tuple[Candidate, Bid]], scores: Mapping[str, float]) -> tuple[Vote, ...]:
    return tuple(
        Vote(each.step_id, each.role, scores.get(each.step_id, 0.0), scores.get(each.step_id, 0.0), bid)
        for each, bid in bids
    )
