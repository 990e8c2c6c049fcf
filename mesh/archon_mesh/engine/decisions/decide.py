"""The rules, by their names, and the arguments that each has.

    first   {}                                   the first result
    vote    {by, weight, weights, least}         the answer with the greatest support
    best    {by, weights}                        the answer of the greatest weight
    settle  {order, by, weights, least}          the first of several ways that decides
    award   {cost, time, quality, most_micro_usd, most_seconds, least_quality}   the best of several bids

`by` names the field of JSON answers that is compared; without it, whole answers are. `weight` is `equal` or
`confidence`, the `confidence` of a JSON answer. `weights` has numbers by step or role, which multiply it: an authority,
or are `record`: the candidate's instance has a weight by its track record, in a process 1. `least` is the
part of all weights, from 0 to 1, that the winner needs; steps without a result count there.
`order` lists ways of `settle`: `majority` (a vote of more than half), `confidence` (the most confident answer, if all
state their confidence) and `authority` (the answer of the greatest weight). The arguments of `award` are in its module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

from archon.answers import (
    agree,
    confidence_of,
    field_of,
    is_number,
    states_confidence,
    supports,
    weight_of,
)
from archon_mesh.engine.decisions.award import CRITERIA, award, limit_fault, weight_fault
from archon_mesh.engine.decisions.candidate import Candidate, Resolution, Vote

EQUAL: Final = "equal"
CONFIDENCE: Final = "confidence"
RECORD: Final = "record"
MAJORITY: Final = "majority"
WAYS: Final = (MAJORITY, CONFIDENCE, "authority")
"""The ways of the rule `settle`, in the order in which they are tried unless another is given."""

MAX_SHOWN: Final = 5
"""Different answers, and steps that gave each, that a conflict shows."""

MAX_QUOTED: Final = 60
"""Characters of an answer that a conflict shows."""

_ROUNDING: Final = 1e-9


def resolve(
    rule: str, arguments: Mapping[str, Any], candidates: Sequence[Candidate], absent: Sequence[Candidate] = ()
) -> Resolution:
    """Decides by a rule; `absent` are the steps without a result, whose texts are empty. The same candidates, in the
    same order, always give the same resolution.

    Raises KeyError for a rule that does not exist. Its arguments must be without faults (`decision_fault`).
    """
    if not candidates:
        return Resolution(rule, "", "there is no bid" if rule == "award" else "there is no result to decide about")
    if rule == "vote":
        made = _vote(arguments, candidates, absent)
    elif rule == "settle":
        made = _settle(arguments, candidates, absent)
    else:
        made = _RULES[rule](arguments, candidates)
    return replace(made, conflict=_conflict(arguments, candidates)) if rule in _COMPARING else made


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


def _settle(arguments: Mapping[str, Any], candidates: Sequence[Candidate], absent: Sequence[Candidate]) -> Resolution:
    """Tries the ways in their order: the first that decides counts."""
    failed: list[str] = []
    made = Resolution("settle", "", "")
    for way in arguments.get("order", WAYS):
        made = _way(way, arguments, candidates, absent)
        if made.winner:
            return replace(made, rule="settle", reason=f"by {way}: {made.reason}")
        failed.append(f"{way}: {made.reason}")
    return replace(made, rule="settle", reason="; ".join(failed) or "there is no way to decide")


def _way(
    way: str, arguments: Mapping[str, Any], candidates: Sequence[Candidate], absent: Sequence[Candidate]
) -> Resolution:
    compared = {"by": arguments.get("by", "")}
    if way == MAJORITY:
        made = _vote({**compared, "least": arguments.get("least", 0.5)}, candidates, absent)
        half = sum(vote.weight for vote in made.votes) / 2
        supported = max((vote.support for vote in made.votes), default=0.0)
        if made.winner and supported <= half + _ROUNDING:
            return replace(made, winner="", reason="no answer has more than half of the votes")
        return made
    if way == CONFIDENCE:
        if not all(states_confidence(each.text) for each in candidates):
            return Resolution("best", "", "not every answer states its confidence")
        return _best(compared, candidates)
    if not arguments.get("weights"):
        return Resolution("best", "", "no weights are given")
    return _best({**compared, "weights": arguments["weights"]}, candidates)


def _conflict(arguments: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """A sentence with the answers that differ, and whose they are; empty if all say the same."""
    answers = [field_of(each.text, arguments.get("by", "")) for each in candidates]
    groups: list[tuple[str, list[str]]] = []
    for answer, each in zip(answers, candidates, strict=True):
        for other, names in groups:
            if agree(answer, other):
                names.append(each.step_id)
                break
        else:
            if len(groups) == MAX_SHOWN:
                break
            groups.append((answer, [each.step_id]))
    if len(groups) < 2:
        return ""
    texts = [" ".join(answer.split()) for answer, _ in groups]
    alike = takewhile(lambda characters: len(set(characters)) == 1, zip(*texts, strict=False))
    start = max(0, sum(1 for _ in alike) - MAX_QUOTED // 2)
    parts = [
        f"{_listed(names)} {'say' if len(names) > 1 else 'says'} {_quoted(text, start)}"
        for text, (_, names) in zip(texts, groups, strict=True)
    ]
    return "; ".join(parts)


def _listed(names: Sequence[str]) -> str:
    shown = [*names[:MAX_SHOWN], *([f"{len(names) - MAX_SHOWN} more"] if len(names) > MAX_SHOWN else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _quoted(text: str, start: int) -> str:
    shown = text[start : start + MAX_QUOTED]
    return f'"{"..." if start else ""}{shown}{"..." if len(text) > start + MAX_QUOTED else ""}"'


def _weights(arguments: Mapping[str, Any], candidates: Sequence[Candidate], by_confidence: bool) -> list[float]:
    given = arguments.get("weights", {})
    if given == RECORD:
        given = {}
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
    if value == RECORD:
        return ""
    if isinstance(value, Mapping) and all(is_number(each) and 0 <= each <= 1e6 for each in value.values()):
        return ""
    return f"must have a number from 0 to 1,000,000 for each step or role, or be {RECORD}"


def _least_fault(value: Any) -> str:
    return "" if is_number(value) and 0 <= value <= 1 else "must be a number from 0 to 1"


def _order_fault(value: Any) -> str:
    if isinstance(value, (list, tuple)) and value and all(each in WAYS for each in value):
        return ""
    return f"must list ways to decide: {', '.join(WAYS)}"


DECISIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "first": (),
    "vote": ("by", "weight", "weights", "least"),
    "best": ("by", "weights"),
    "settle": ("order", "by", "weights", "least"),
    "award": (*CRITERIA, "most_micro_usd", "most_seconds", "least_quality"),
}
"""The names of the rules, and of the arguments of each."""

_RULES: Final[Mapping[str, Callable[[Mapping[str, Any], Sequence[Candidate]], Resolution]]] = {
    "first": _first,
    "vote": _vote,
    "best": _best,
    "award": award,
}
_COMPARING: Final = frozenset({"vote", "best", "settle"})
"""The rules whose candidates answer one question."""

_ARGUMENTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "by": _text_fault,
    "weight": _weight_fault,
    "weights": _weights_fault,
    "least": _least_fault,
    "order": _order_fault,
    **dict.fromkeys(CRITERIA, weight_fault),
    "most_micro_usd": limit_fault,
    "most_seconds": limit_fault,
    "least_quality": _least_fault,
}
