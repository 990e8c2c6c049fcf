"""A swarm: several members take the items of one list, each item once, until all are done.

The members are subtasks whose arguments have the items. Each member adds them to the same work list, which has every
item once, and serves it; the first member that finds the list at its end has the results of all.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from archon.agent.work_item import MAX_ITEMS, MAX_TRIES, WorkItem, WorkResults
from archon.agent.work_list import TRIES, WorkList
from archon.errors import ArchonError, BudgetExhausted, InvalidArgument, LeaseExpired, OperationCancelled
from archon.failure_kinds import RetryAdvice
from archon_mesh.engine.plan import MAX_SUBTASKS, SubTask
from archon_mesh.engine.plan.templates import MAX_CHARACTERS, as_text, escaped
from archon_mesh.planning.patterns import first_of

MAX_SWARM: Final = MAX_SUBTASKS - 1
"""Members of a swarm; less one each if its items are listed by a step, or its results are gathered."""

MAX_SHOWN_BYTES: Final = 1024 * 1024
"""Bytes of the results in the result of a swarm, as JSON; the ids of those that exceed it are listed without them."""

ITEMS_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["items"],
    "properties": {"items": {"type": "array", "maxItems": MAX_ITEMS}},
}
"""The result of the step that lists the items."""

RESULTS_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["results", "failed"],
    "properties": {
        "results": {"type": "object"},
        "failed": {"type": "object"},
        "left_out": {"type": "array", "items": {"type": "string"}},
    },
}
"""The result of each member. One that knows no work lists is not taken for a member that has found its list done."""

LIST: Final = (
    "List the items of work that this takes. Each is done by itself, by an agent that sees the goal and this item only."
)
MEMBER: Final = "\n\nYou are member {} of {} of a swarm: take items of its work list until all are done."
GATHER: Final = "All items are done; you have their results. Make one answer of them, and say which items failed."

_WORK: Final = "work_list"


@dataclass(frozen=True, slots=True)
class SwarmPart:
    """The part of a member in a swarm: the name of its list, and the items by their ids."""

    name: str
    items: Mapping[str, Any]
    tries: int

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> SwarmPart | None:
        """Returns the part in the filled arguments of a subtask, None if it is no member of a swarm. Raises
        InvalidArgument if its items are no list."""
        name = arguments.get(_WORK)
        if not isinstance(name, str):
            return None
        items, tries = arguments.get("items"), arguments.get("tries", TRIES)
        if not isinstance(items, list):
            raise InvalidArgument(f"the items of the swarm {name[:100]!r} are no list")
        digest = hashlib.sha256(json.dumps(items, sort_keys=True).encode()).hexdigest()[:12]
        plain = re.sub(r"[^\w.-]", "-", name, flags=re.ASCII)[:40]
        by_id = {str(number): item for number, item in enumerate(items, 1)}
        return cls(f"{plain}.{digest}", by_id, tries if type(tries) is int else TRIES)


def swarm(
    goal: str,
    *,
    members: int = 3,
    roles: Sequence[str] = ("",),
    items: Sequence[Any] | str | None = None,
    lister: str | None = None,
    gather: str = "",
    tries: int = TRIES,
    id: str = "swarm",
    dependencies: Sequence[str] = (),
) -> tuple[SubTask, ...]:
    """Returns subtasks by which several members take the items of one list until all are done, each item once.

    `roles` are given to the members in turn; an empty one only thinks. `items` are JSON values, or a template such as
    `"{list.items}"` for a list in the result of a dependency; without them a first step of the role `lister`, by
    default the first role, lists them. The result is `{"results": {...}, "failed": {...}}` by the number of the item,
    from "1" on; with `gather` that role makes one answer of it. An item that fails is tried by another member, `tries`
    times in all, and is then reported in `failed`. A member that fails or dies leaves its items to the others.

    Raises InvalidArgument if there are no members or more than MAX_SWARM, `tries` is out of range, or there are more
    than 1,000 items, or more of them than the arguments of a plan may have.
    """
    most = MAX_SWARM - (items is None) - bool(gather)
    if not 1 <= members <= most:
        raise InvalidArgument(f"a swarm of this form has 1 to {most} members, not {members:,}")
    if not roles:
        raise InvalidArgument("a swarm needs at least one role; an empty one only thinks")
    if not 1 <= tries <= MAX_TRIES:
        raise InvalidArgument(f"an item is tried 1 to {MAX_TRIES} times, not {tries}")
    listed: tuple[SubTask, ...] = ()
    before = tuple(dependencies)
    given: Any = items
    if items is None:
        name = f"{id}-items"
        role = roles[0] if lister is None else lister
        listed = (
            SubTask(
                name,
                f"{goal}\n\n{LIST}",
                dependencies=before,
                role=role,
                output_schema=ITEMS_SCHEMA,
                critical=True,
            ),
        )
        before, given = (*before, name), f"{{{name}.items}}"
    elif not isinstance(items, str):
        given = _checked(items, members)
    names = [f"{id}-{number}" for number in range(1, members + 1)]
    served = [
        SubTask(
            name,
            f"{goal}{MEMBER.format(number, members)}",
            tool_args={_WORK: id, "items": given, "tries": tries},
            dependencies=before,
            role=roles[(number - 1) % len(roles)],
            output_schema=RESULTS_SCHEMA,
        )
        for number, name in enumerate(names, 1)
    ]
    if not gather:
        return (*listed, *served, first_of(SubTask(id, goal, critical=True), names))
    done = first_of(SubTask(f"{id}-results", goal, critical=True), names)
    gathered = SubTask(id, f"{goal}\n\n{GATHER}", dependencies=(done.id,), role=gather, critical=True)
    return (*listed, *served, done, gathered)


async def serve_list(
    work: WorkList,
    part: SwarmPart,
    do: Callable[[WorkItem], Awaitable[Any]],
    tell: Callable[[WorkItem, str], None] = lambda item, error: None,
) -> dict[str, Any]:
    """Serves a list as a member until all its items have ended, and returns the results of all of them.

    `do` returns the result of an item; an error that it raises is the failure of the item, final if it advises no
    retry. `tell` is called after each item, with its error if it has failed. Raises OperationCancelled and
    BudgetExhausted as `do` does, and the errors of the list.
    """
    await work.add(part.items, tries=part.tries)
    async for item in work:
        error = ""
        try:
            result = await do(item)
            await work.done(item, result)
        except (OperationCancelled, BudgetExhausted):
            raise
        except LeaseExpired:
            error = "another member has it"
        except Exception as raised:  # noqa: BLE001 - the item has failed, and not the member
            error = str(raised) or type(raised).__name__
            is_final = isinstance(raised, ArchonError) and raised.retry is RetryAdvice.NEVER
            try:
                await work.fail(item, error, is_final=is_final)
            except LeaseExpired:
                error = "another member has it"
        tell(item, error)
    return shown_results(await work.results())


def shown_results(results: WorkResults) -> dict[str, Any]:
    """Returns the results of a list as a JSON object of at most about MAX_SHOWN_BYTES."""
    shown: dict[str, Any] = {"results": {}, "failed": dict(results.failed)}
    room = MAX_SHOWN_BYTES
    left_out: list[str] = []
    for id_, result in results.done.items():
        size = len(json.dumps(result, ensure_ascii=False).encode())
        if size > room:
            left_out.append(id_)
            continue
        room -= size
        shown["results"][id_] = result
    return {**shown, "left_out": left_out} if left_out else shown


def item_message(goal: str, item: WorkItem) -> str:
    """Returns the message to the agent that does one item."""
    return (
        f"{goal}\n\nThis is item {item.number} of {item.total}. Do this item only, and reply with its result:\n"
        f"{as_text(item.value)}"
    )


def goal_of(description: str) -> str:
    """Returns the goal in the description of a member."""
    return description.rpartition(MEMBER.partition("{")[0])[0] or description


def _checked(items: Sequence[Any], members: int) -> list[Any]:
    if len(items) > MAX_ITEMS:
        raise InvalidArgument(f"a swarm has at most {MAX_ITEMS:,} items, not {len(items):,}")
    try:
        encoded = json.dumps(list(items), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the items of a swarm are JSON values: {error}") from None
    if len(encoded) * members > MAX_CHARACTERS:
        raise InvalidArgument(
            f"the items of a swarm have {len(encoded):,} characters for each of {members} members, at most "
            f"{MAX_CHARACTERS:,} together: have a first step list them"
        )
    filled: list[Any] = escaped(json.loads(encoded))
    return filled
