"""The courses that a seed can play, what must happen in each, and the seeds that `make test` plays."""

from __future__ import annotations

from typing import Any, Final

COURSES: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "plans with people": {"plans": True, "people": True},
    "stateful": {"stateful": True},
    "plans": {"plans": True},
    "forks and stops": {"forks": 8, "stops": 6},
}
"""The arguments of `run_seed` by the name of the course."""

NAMES: Final = tuple(COURSES)

FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "plain": (
        "agent frozen",
        "agent killed",
        "agent's machine gone",
        "agent's own failure",
        "answer to a submit lost",
        "clock jumps",
        "delay",
        "delegation cancelled",
        "disk full for a while",
        "frame of a lower epoch refused",
        "journal fails after the commit",
        "journal fails before the commit",
        "journal gone for 30 s",
        "journal out of a replica's reach",
        "journal read fails",
        "journal slow",
        "journal slow for a while",
        "left without waiting",
        "item published",
        "living owner expired",
        "message of an agent doubled",
        "message to an agent doubled",
        "newer answer sent",
        "order at a replica that is not the owner",
        "partition both ways",
        "partition to the agent",
        "partition to the replica",
        "person asked",
        "person asked meanwhile",
        "question answered",
        "question left open",
        "replica frozen",
        "replica killed",
        "replica restarted",
        "rolling restart",
        "run cancelled",
        "run of a short time",
        "run paused",
        "slow work",
        "stream of an agent lost",
        "stream to an agent lost",
        "submitted at two replicas at once",
    ),
    "plans with people": (
        "late answer",
        "person answered twice",
        "person asked under terms",
        "person decided approve",
        "person decided modify",
        "person decided reject",
        "person gave a plan",
        "person silent",
        "time-out: abort",
        "time-out: default",
        "time-out: escalate",
        "wrong person answered",
    ),
    "stateful": ("turn that came second",),
    "plans": (
        "plan edited",
        "plan expanded",
        "plan made anew",
        "planner's reply has a cycle",
        "planner's reply is no plan",
        "step answered what was not expected",
        "step failed",
    ),
    "forks and stops": ("answer reused by a fork", "agent stopped on purpose", "attempt given back"),
}
"""Faults, and consequences of faults, each of which occurs in some seed of the course."""

OFTEN: Final[dict[str, tuple[str, ...]]] = {
    "stateful": FAULTS["stateful"],
    "forks and stops": FAULTS["forks and stops"],
}
"""Those that occur in most seeds: more often than there are seeds."""

SEEDS: Final[dict[str, tuple[int, ...]]] = {
    "plain": (2, 7, 8, 13, 22, 23, 32, 34, 35, 38, 42, 47, 48, 49, 52, 56, 64, 65, 66, 67, 79, 84, 93, 95, 98),
    "plans with people": (
        3,
        5,
        7,
        8,
        11,
        16,
        17,
        25,
        27,
        35,
        36,
        41,
        48,
        59,
        62,
        66,
        68,
        70,
        72,
        79,
        80,
        84,
        87,
        97,
        99,
    ),
    "stateful": (2, 6, 7, 15, 21, 22, 23, 25, 29, 32, 35, 36, 38, 39, 46, 47, 48, 52, 57, 59, 64, 65, 80, 95, 99),
    "plans": (0, 7, 11, 16, 25, 29, 33, 36, 41, 43, 45, 48, 50, 54, 59, 65, 70, 72, 77, 82, 87, 88, 93, 95, 97),
    "forks and stops": (
        6,
        7,
        15,
        16,
        17,
        21,
        22,
        23,
        25,
        28,
        32,
        35,
        36,
        38,
        46,
        47,
        48,
        64,
        66,
        75,
        79,
        88,
        90,
        96,
        99,
    ),
}
"""The seeds that `make test` plays: `python -m tests.simulation.run --faults` finds them."""


def course_of(seed: int) -> str:
    """Returns the name of the course that a seed plays if many are played: the courses take turns."""
    return NAMES[seed % len(NAMES)]
