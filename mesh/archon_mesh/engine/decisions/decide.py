"""The rules, by their names, and the arguments that each has.

    first   {}                                   the first result
    vote    {by, weight, weights, least}         the answer with the greatest support
    best    {by, weights}                        the answer of the greatest weight

`by` names the field of JSON answers that is compared; without it, whole answers are. `weight` is `equal` or
`confidence`, the `confidence` of a JSON answer. `weights` has numbers by step or role, which multiply it: an authority,
or a record. `least` is the part of all weights, from 0 to 1, that the winner needs; steps without a result count there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from archon_mesh.engine.decisions.answers import agree, confidence_of, field_of, supports, weight_of
from archon_mesh.engine.decisions.candidate import Candidate, Resolution, Vote

EQUAL: Final = "equal"
CONFIDENCE: Final = "confidence"

_ROUNDING: Final = 1e-9


def resolve(
    rule: str, arguments: Mapping[str, Any], candidates: Sequence[Candidate], absent: Sequence[Candidate] = ()
) -> Resolution:
    """Decides by a rule; `absent` are the steps without a result, whose texts are empty. The same candidates, in the
    same order, always give the same resolution.

    Raises KeyError for a rule that does not exist. Its arguments must be without faults (`decision_fault`).
    """
    if not candidates:
        return Resolution(rule, "", "there is no result to decide about")
    if rule == "vote":
        return _vote(arguments, candidates, absent)
    return _RULES[rule](arguments, candidates)


def decision_fault(rule: str, arguments: Mapping[str, Any]) -> str:
    """Returns the fault of a rule or its arguments, in a clause; empty if there is none."""
    if rule not in DECISIONS:
        return f"there is no decision {rule[:100]!r}, but {', '.join(DECISIONS)}"
    for name, value in arguments.items():
        if (check := _ARGUMENTS.get(name)) is None or name not in DECISIONS[rule]:
            known = ", ".join(DECISIONS[rule]) or "none"
            return f"{name[:100]!r} is no argument of {rule}, which has {known}"
        if problem := check(value):
            return f"{name!r} {problem}"
    return ""


def _first(arguments: Mapping[str, Any], candidates: Sequence[Candidate]) -> Resolution:
    votes = tuple(Vote(each.step_id, each.role, 1.0, 1.0) for each in candidates)
    return Resolution("first", candidates[0].step_id, f"{candidates[0].step_id} had the first result", votes)


def _vote(
    arguments: Mapping[str, Any], candidates: Sequence[Candidate], absent: Sequence[Candidate] = ()
) -> Resolution:
    weights = _weights(arguments, candidates, arguments.get("weight", EQUAL) == CONFIDENCE)
    answers = [field_of(each.text, arguments.get("by", "")) for each in candidates]
    support = supports(answers, weights)
    votes = _votes(candidates, weights, support)
    most, total = max(support), sum((*weights, *_weights(arguments, absent, False)))
    leaders = [index for index, value in enumerate(support) if value >= most - _ROUNDING]
    shown = f"{_number(most)} of {_number(total)} votes"
    if most <= 0:
        return Resolution("vote", "", "no vote has a weight", votes)
    if not all(agree(answers[leaders[0]], answers[index]) for index in leaders[1:]):
        return Resolution("vote", "", f"a tie: {len(leaders)} candidates have {shown} each", votes)
    if most < float(arguments.get("least", 0)) * total - _ROUNDING:
        return Resolution("vote", "", f"the most is {shown}, less than {arguments['least']:.0%}", votes)
    winner = candidates[leaders[0]].step_id
    return Resolution("vote", winner, f"the answer of {winner} has {shown}", votes)


def _best(arguments: Mapping[str, Any], candidates: Sequence[Candidate]) -> Resolution:
    weights = _weights(arguments, candidates, "weights" not in arguments)
    answers = [field_of(each.text, arguments.get("by", "")) for each in candidates]
    votes = _votes(candidates, weights, supports(answers, weights))
    most = max(weights)
    leaders = [index for index, value in enumerate(weights) if value >= most - _ROUNDING]
    if not all(agree(answers[leaders[0]], answers[index]) for index in leaders[1:]):
        return Resolution("best", "", f"{len(leaders)} different answers have the weight {_number(most)}", votes)
    winner = candidates[leaders[0]].step_id
    return Resolution("best", winner, f"{winner} has the greatest weight, {_number(most)}", votes)


def _weights(arguments: Mapping[str, Any], candidates: Sequence[Candidate], by_confidence: bool) -> list[float]:
    given = arguments.get("weights", {})
    return [
        weight_of(each.step_id, each.role, given) * (confidence_of(each.text) if by_confidence else 1.0)
        for each in candidates
    ]


def _votes(candidates: Sequence[Candidate], weights: Sequence[float], support: Sequence[float]) -> tuple[Vote, ...]:
    rows = zip(candidates, weights, support, strict=True)
    return tuple(Vote(each.step_id, each.role, weight, weight_of_all) for each, weight, weight_of_all in rows)


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _text_fault(value: Any) -> str:
    return "" if isinstance(value, str) else "must be a text"


def _weight_fault(value: Any) -> str:
    return "" if value in (EQUAL, CONFIDENCE) else f"must be {EQUAL} or {CONFIDENCE}"


def _weights_fault(value: Any) -> str:
    if isinstance(value, Mapping) and all(_is_number(each) and 0 <= each <= 1e6 for each in value.values()):
        return ""
    return "must have a number from 0 to 1,000,000 for each step or role"


def _least_fault(value: Any) -> str:
    return "" if _is_number(value) and 0 <= value <= 1 else "must be a number from 0 to 1"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


DECISIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "first": (),
    "vote": ("by", "weight", "weights", "least"),
    "best": ("by", "weights"),
}
"""The names of the rules, and of the arguments of each."""

_RULES: Final[Mapping[str, Callable[[Mapping[str, Any], Sequence[Candidate]], Resolution]]] = {
    "first": _first,
    "vote": _vote,
    "best": _best,
}
_ARGUMENTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "by": _text_fault,
    "weight": _weight_fault,
    "weights": _weights_fault,
    "least": _least_fault,
}
