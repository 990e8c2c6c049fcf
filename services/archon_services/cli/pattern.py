"""Patterns of work among agents on the command line: `committee:3`, `settled`, `auction:3` and so on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from archon_services.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    from archon_mesh.planning import SubTask

FORMS: Final = (
    "committee:MEMBERS, settled:ANSWERS, auction:BIDDERS, debate:ROUNDS, swarm:MEMBERS, redundant:COPIES, "
    "hedged:SECONDS or hedged:p95"
)
SWARM: Final = "swarm"
_WITH_ARBITER: Final = ("committee", "settled", "debate")
_OF_SEVERAL_ROLES: Final = (*_WITH_ARBITER, "auction", SWARM)


def plan_of(
    pattern: str, goal: str, roles: Sequence[str], arbiter: str, *, items: Sequence[str] = (), gather: str = ""
) -> str:
    """Returns the plan of a pattern as JSON. Only a swarm has `items` and `gather`.

    Raises CliError if the pattern is unknown, its number is wrong, or a role is missing.
    """
    import json

    from archon.errors import InvalidArgument

    name, _, number = pattern.partition(":")
    if name != SWARM and name not in _MAKE:
        raise CliError(f"there is no pattern {name!r}", hint=f"Use {FORMS}.", code=USAGE)
    if not roles:
        raise CliError(f"--pattern {name} needs a --role", code=USAGE)
    if arbiter and name not in _WITH_ARBITER:
        raise CliError(f"--pattern {name} takes no --arbiter", code=USAGE)
    if len(roles) > 1 and name not in _OF_SEVERAL_ROLES:
        raise CliError(f"--pattern {name} takes one --role", code=USAGE)
    if (items or gather) and name != SWARM:
        raise CliError(f"--pattern {name} takes no --{'item' if items else 'gather'}", code=USAGE)
    try:
        steps = (
            _swarm(number, goal, roles, items, gather) if name == SWARM else _MAKE[name](number, goal, roles, arbiter)
        )
    except InvalidArgument as error:
        raise CliError(f"--pattern {pattern}: {error.message}", code=USAGE) from None
    except ValueError:
        raise CliError(f"--pattern {pattern}: {number!r} is not a number", hint=f"Use {FORMS}.", code=USAGE) from None
    return json.dumps({"goal": goal, "subtasks": [asdict(step) for step in steps]}, ensure_ascii=False)


def _committee(number: str, goal: str, roles: Sequence[str], arbiter: str) -> tuple[SubTask, ...]:
    from archon_mesh.planning import committee

    return committee(goal, members=int(number or 3), roles=roles, arbiter=arbiter)


def _settled(number: str, goal: str, roles: Sequence[str], arbiter: str) -> tuple[SubTask, ...]:
    from archon_mesh.planning import settled

    answers = int(number or max(len(roles), 2))
    return settled(goal, roles=[roles[index % len(roles)] for index in range(min(answers, 100))], arbiter=arbiter)


def _auction(number: str, goal: str, roles: Sequence[str], arbiter: str) -> tuple[SubTask, ...]:
    from archon_mesh.planning import SubTask, auction

    count = int(number or max(len(roles), 2))
    return auction(SubTask("auction", goal, role=roles[0], critical=True), roles=roles, bidders=count)


def _debate(number: str, goal: str, roles: Sequence[str], arbiter: str) -> tuple[SubTask, ...]:
    from archon.errors import InvalidArgument
    from archon_mesh.planning import debate

    if len(roles) > 2 or not arbiter:
        raise InvalidArgument("give one or two --role, and the --arbiter that decides")
    return debate(goal, roles=(roles[0], roles[-1]), judge=arbiter, rounds=int(number or 2))


def _swarm(number: str, goal: str, roles: Sequence[str], items: Sequence[str], gather: str) -> tuple[SubTask, ...]:
    from archon_mesh.planning import swarm

    return swarm(goal, members=int(number or 3), roles=roles, items=items or None, gather=gather)


def _redundant(number: str, goal: str, roles: Sequence[str], arbiter: str) -> tuple[SubTask, ...]:
    from archon_mesh.planning import SubTask, redundant

    return redundant(SubTask("redundant", goal, role=roles[0], critical=True), int(number or 2))


def _hedged(number: str, goal: str, roles: Sequence[str], arbiter: str) -> tuple[SubTask, ...]:
    from archon_mesh.planning import SubTask, hedged
    from archon_mesh.planning.patterns import HEDGE_SECONDS, P95

    subtask = SubTask("hedged", goal, role=roles[0], critical=True)
    return hedged(subtask, after=P95) if number == P95 else hedged(subtask, float(number or HEDGE_SECONDS))


_MAKE: Final[dict[str, Callable[[str, str, Sequence[str], str], tuple[SubTask, ...]]]] = {
    "committee": _committee,
    "settled": _settled,
    "auction": _auction,
    "debate": _debate,
    "redundant": _redundant,
    "hedged": _hedged,
}
