"""The courses that a seed can play, what must happen in each, and the seeds that `make test` plays."""

from __future__ import annotations

from typing import Any, Final

COURSES: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "plans with people": {"plans": True, "people": True, "forks": 4},
    "stateful": {"stateful": True},
    "plans": {"plans": True},
    "forks and stops": {"forks": 8, "stops": 6},
    "plans that are checked": {"plans": True, "alignment": True, "forks": 2},
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
        "answer reused by a fork",
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
    "plans that are checked": (
        "check of a plan stopped",
        "plan edited",
        "plan expanded",
        "plan found aligned",
        "plan found misaligned",
        "plan made anew",
        "plan replaced by a check",
    ),
}
"""Faults, and consequences of faults, each of which occurs in some seed of the course."""

OFTEN: Final[dict[str, tuple[str, ...]]] = {
    "stateful": FAULTS["stateful"],
    "forks and stops": FAULTS["forks and stops"],
}
"""Those that occur in most seeds: more often than there are seeds."""

SEEDS: Final[dict[str, tuple[int, ...]]] = {
    "plain": (2, 7, 17, 19, 21, 23, 29, 32, 39, 47, 48, 49, 50, 52, 56, 64, 65, 66, 67, 68, 69, 81, 84, 90, 95),
    "plans with people": (
        0,
        11,
        16,
        20,
        26,
        28,
        31,
        35,
        38,
        41,
        45,
        51,
        52,
        63,
        68,
        70,
        72,
        74,
        80,
        82,
        88,
        89,
        91,
        96,
        97,
    ),
    "stateful": (2, 6, 7, 16, 19, 21, 22, 23, 29, 32, 35, 43, 45, 47, 48, 49, 50, 52, 56, 62, 64, 65, 69, 81, 95),
    "plans": (7, 8, 11, 17, 25, 29, 35, 36, 38, 48, 52, 58, 59, 61, 65, 68, 70, 72, 74, 76, 77, 80, 82, 96, 97),
    "forks and stops": (
        6,
        7,
        11,
        13,
        17,
        21,
        22,
        23,
        25,
        28,
        29,
        32,
        35,
        41,
        47,
        48,
        52,
        56,
        59,
        65,
        69,
        75,
        92,
        95,
        99,
    ),
    "plans that are checked": (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
}
"""The seeds that `make test` plays: `python -m tests.simulation.run --faults` finds them."""


def course_of(seed: int) -> str:
    """Returns the name of the course that a seed plays if many are played: the courses take turns."""
    return NAMES[seed % len(NAMES)]
