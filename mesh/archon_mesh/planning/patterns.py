"""Patterns of work among agents, as subtasks of a plan: several work at once, and one result is chosen.

Each function returns subtasks; the last one has the id that is asked for, and its result is the result of the pattern.
They can be used in any plan, whether it is executed in a process or in the mesh.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from archon.errors import InvalidArgument
from archon_mesh.engine.decisions import BID_SCHEMA, decision_fault
from archon_mesh.engine.plan import MAX_SUBTASKS, SubTask

MAX_MEMBERS: Final = MAX_SUBTASKS - 1
"""Members of a committee, and copies of a subtask."""

BID_SECONDS: Final = 10.0
"""How long bids are waited for, unless an auction says otherwise."""

HEDGE_SECONDS: Final = 10.0
"""When a hedged subtask is executed once more, unless a hedge says otherwise."""

P95: Final = "p95"
"""The time within which 95 % of the role's attempts ended."""

BID_REQUEST: Final = (
    "Do not do this yet. Reply only with what you expect of doing it, as one JSON object: cost_micro_usd (millionths "
    "of a US dollar, a whole number), seconds, and quality of your result (0 to 1)."
)
"""The request to a candidate that has neither a function for bids nor a profile."""

MAX_ROUNDS: Final = (MAX_SUBTASKS - 1) // 2
"""Rounds of a debate."""

ALONE: Final = "Answer on your own: others answer the same question."

OPENING: Final = "Answer with your reasons. Another agent answers the same question."
REPLY: Final = (
    "You have both answered. Reply to the other answer: say what is right in it, what is wrong, and give your answer "
    "again, changed or not."
)
JUDGE: Final = "Two agents have discussed this. Decide which answer is right, and reply with it alone."

MAJORITY: Final = 0.5
"""The part of the votes that an answer of a committee needs."""


def committee(
    question: str,
    *,
    members: int = 3,
    roles: Sequence[str] = ("",),
    id: str = "committee",
    dependencies: Sequence[str] = (),
    arbiter: str = "",
    by: str = "",
    weight: str = "equal",
    weights: Mapping[str, float] | str | None = None,
    least: float = MAJORITY,
    output_schema: Mapping[str, Any] | None = None,
) -> tuple[SubTask, ...]:
    """Returns subtasks by which several members answer one question, and the answer of most counts.

    `roles` are given to the members in turn; an empty one only thinks. Answers are compared as `by`, `weight`,
    `weights` and `least` of the rule `vote` say: `by` names the field of a JSON answer that is compared, `weight` may
    be `confidence`, `weights` has numbers by step or role, or is `record`: then the track record of its instance weighs
    each member. `least` is the part of all votes that the answer needs. If no answer has enough, the role `arbiter`
    decides; without one, the plan is made anew, or fails. A member that fails has no vote.

    Raises InvalidArgument if there are less than 2 or more than MAX_MEMBERS members, or the rule's arguments are wrong.
    """
    _check_count("members", members)
    if not roles:
        raise InvalidArgument("a committee needs at least one role; an empty one only thinks")
    names = [f"{id}-{number}" for number in range(1, members + 1)]
    asked = [
        SubTask(
            name,
            f"{question}\n\nYou are member {number} of {members} of a committee: answer on your own.",
            dependencies=tuple(dependencies),
            role=roles[(number - 1) % len(roles)],
            output_schema=output_schema or {},
        )
        for number, name in enumerate(names, 1)
    ]
    arguments: dict[str, Any] = {"least": least}
    arguments |= {"by": by} if by else {}
    arguments |= {"weight": weight} if weight != "equal" else {}
    arguments |= {"weights": weights if isinstance(weights, str) else dict(weights)} if weights else {}
    decided = SubTask(
        id,
        question,
        tool_args=arguments,
        dependencies=tuple(names),
        role=arbiter,
        decision="vote",
        critical=True,
        partial_input=True,
    )
    return (*asked, _checked(decided))


def settled(
    question: str | Sequence[SubTask],
    *,
    roles: Sequence[str] = (),
    id: str = "settled",
    dependencies: Sequence[str] = (),
    order: Sequence[str] = (),
    by: str = "",
    weights: Mapping[str, float] | str | None = None,
    least: float | None = None,
    arbiter: str = "",
    output_schema: Mapping[str, Any] | None = None,
) -> tuple[SubTask, ...]:
    """Returns subtasks by which each of `roles` answers a question, and conflicts among the answers are settled.
    Instead of a question, the subtasks whose results are compared may be given, without `roles`.

    `order`, `by`, `weights` and `least` are the arguments of the rule `settle`. A conflict that it leaves goes to the
    role `arbiter`; without one, the plan is made anew, or fails. An answer that fails does not count.

    Raises InvalidArgument if there are less than 2 or more than MAX_MEMBERS answers, or the rule's arguments are wrong.
    """
    if isinstance(question, str):
        names = [f"{id}-{number}" for number in range(1, len(roles) + 1)]
        asked = tuple(
            SubTask(
                name,
                f"{question}\n\n{ALONE}",
                dependencies=tuple(dependencies),
                role=role,
                output_schema=output_schema or {},
            )
            for name, role in zip(names, roles, strict=True)
        )
    elif roles or dependencies or output_schema:
        raise InvalidArgument("subtasks have roles, dependencies and schemas of their own: give a question, or these")
    else:
        asked = tuple(question)
    _check_count("answers", len(asked))
    arguments: dict[str, Any] = {"order": list(order)} if order else {}
    arguments |= {"by": by} if by else {}
    arguments |= {"weights": weights if isinstance(weights, str) else dict(weights)} if weights else {}
    arguments |= {"least": least} if least is not None else {}
    decided = SubTask(
        id,
        question if isinstance(question, str) else asked[0].description,
        tool_args=arguments,
        dependencies=tuple(each.id for each in asked),
        role=arbiter,
        decision="settle",
        critical=True,
        partial_input=True,
    )
    return (*asked, _checked(decided))


def auction(
    subtask: SubTask,
    *,
    roles: Sequence[str],
    bidders: int = 0,
    seconds: float = BID_SECONDS,
    cost: float = 1.0,
    time: float = 1.0,
    quality: float = 1.0,
    most_micro_usd: int | None = None,
    most_seconds: float | None = None,
    least_quality: float = 0.0,
) -> tuple[SubTask, ...]:
    """Returns subtasks by which several candidates bid for a subtask, and the one with the best bid executes it.

    Each of `roles` bids once, or `bidders` of them, in turn; bids of one role come from different instances if there
    are enough. A bid that has not come within `seconds` does not count. `cost`, `time` and `quality` are
    the weights in the comparison; bids above `most_micro_usd` (millionths of a US dollar) or `most_seconds`, or below
    `least_quality`, do not count. If no bid does, the subtask goes to its own role or capability, as without an
    auction.

    Raises InvalidArgument if there are less than 2 or more than MAX_MEMBERS bids, no role, or a number is out of range.
    """
    count = bidders or len(roles)
    _check_count("bidders", count)
    if not all(roles):
        raise InvalidArgument("the candidates of an auction are roles")
    if not 0 < seconds < 1e9:
        raise InvalidArgument(f"bids have more than 0 s, not {seconds:g} s")
    names = [f"{subtask.id}-bid-{number}" for number in range(1, count + 1)]
    bids = [
        SubTask(
            name,
            f"Bid for: {subtask.description}\n\n{BID_REQUEST}",
            dependencies=subtask.dependencies,
            role=roles[number % len(roles)],
            capability=subtask.capability,
            output_schema=BID_SCHEMA,
            timeout_seconds=seconds,
            bid_for=subtask.id,
        )
        for number, name in enumerate(names)
    ]
    arguments: dict[str, Any] = {"cost": cost, "time": time, "quality": quality}
    arguments |= {} if most_micro_usd is None else {"most_micro_usd": most_micro_usd}
    arguments |= {} if most_seconds is None else {"most_seconds": most_seconds}
    arguments |= {"least_quality": least_quality} if least_quality else {}
    awarded = SubTask(
        f"{subtask.id}-award",
        f"Award: {subtask.description}",
        tool_args=arguments,
        dependencies=tuple(names),
        decision="award",
        partial_input=True,
    )
    executed = replace(subtask, dependencies=(*subtask.dependencies, awarded.id), assigned_by=awarded.id)
    return (*bids, _checked(awarded), executed)


def debate(
    question: str,
    *,
    roles: tuple[str, str],
    judge: str,
    rounds: int = 2,
    id: str = "debate",
    dependencies: Sequence[str] = (),
) -> tuple[SubTask, ...]:
    """Returns subtasks by which two roles answer a question, each then replies to the other's last answer, and a third
    role decides. There are `rounds` of answers, the first one included; both sides of a round work at the same time.

    Raises InvalidArgument if there are no rounds or more than MAX_ROUNDS, or a role is missing.
    """
    if len(roles) != 2 or not all((*roles, judge)):
        raise InvalidArgument("a debate needs two roles and a judge")
    if not 1 <= rounds <= MAX_ROUNDS:
        raise InvalidArgument(f"a debate has 1 to {MAX_ROUNDS} rounds, not {rounds:,}")
    steps: list[SubTask] = []
    before: tuple[str, ...] = tuple(dependencies)
    for number in range(1, rounds + 1):
        request = OPENING if number == 1 else REPLY
        names = tuple(f"{id}-{number}-{side}" for side in ("a", "b"))
        steps += [
            SubTask(name, f"{question}\n\n{request}", dependencies=before, role=role)
            for name, role in zip(names, roles, strict=True)
        ]
        before = names
    return (*steps, SubTask(id, f"{question}\n\n{JUDGE}", dependencies=before, role=judge, critical=True))


def redundant(subtask: SubTask, copies: int = 2) -> tuple[SubTask, ...]:
    """Returns subtasks by which a subtask is executed several times at once; the first result counts, and the other
    copies are cancelled. Raises InvalidArgument if there are less than 2 or more than MAX_MEMBERS copies."""
    _check_count("copies", copies)
    names = [f"{subtask.id}-{number}" for number in range(1, copies + 1)]
    return (*(replace(subtask, id=name, critical=False) for name in names), first_of(subtask, names))


def hedged(
    subtask: SubTask, after_seconds: float = HEDGE_SECONDS, *, after: str = "", is_idempotent: bool = False
) -> tuple[SubTask, ...]:
    """Returns subtasks by which a subtask is executed once more if it has not completed after some seconds, or at once
    if it fails; the first result counts, and the other attempt is cancelled.

    With `after="p95"`, it is executed once more after the time within which 95 % of the role's attempts ended, and
    after `after_seconds` while fewer than 20 are measured.

    Raises InvalidArgument if `after_seconds` is not above 0, `after` is something else, or the subtask has a tool and
    is not said to be idempotent: a tool may act twice."""
    if after not in ("", P95):
        raise InvalidArgument(f"a second attempt starts after {P95!r} or after seconds, not after {after[:20]!r}")
    if not 0 < after_seconds < 1e9:
        raise InvalidArgument(f"a second attempt starts after more than 0 s, not {after_seconds:g} s")
    if subtask.tool_name and not is_idempotent:
        raise InvalidArgument(
            f"subtask {subtask.id[:100]!r} calls the tool {subtask.tool_name[:100]!r}, which may act twice: say that "
            "it is idempotent"
        )
    names = [f"{subtask.id}-1", f"{subtask.id}-2"]
    first, second = (replace(subtask, id=name, critical=False) for name in names)
    second = replace(
        second, delay_seconds=subtask.delay_seconds + after_seconds, delay_quantile=0.95 if after == P95 else 0.0
    )
    return first, second, first_of(subtask, names)


def first_of(subtask: SubTask, names: Sequence[str]) -> SubTask:
    """Returns a subtask whose result is the first one of those with the names; the others are cancelled."""
    return SubTask(
        subtask.id,
        subtask.description,
        dependencies=tuple(names),
        decision="first",
        critical=subtask.critical,
        quorum=1,
    )


def _check_count(noun: str, count: int) -> None:
    if not 2 <= count <= MAX_MEMBERS:
        raise InvalidArgument(f"there must be 2 to {MAX_MEMBERS} {noun}, not {count:,}")


def _checked(subtask: SubTask) -> SubTask:
    if problem := decision_fault(subtask.decision, subtask.tool_args):
        raise InvalidArgument(problem)
    return subtask
