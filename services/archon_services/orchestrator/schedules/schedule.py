"""A schedule with its open fires: the object that a decision changes as a whole."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from archon_mesh.core.value import value
from archon_services.orchestrator.schedules.times import Times

MAX_RUNNING: Final = 100
"""Runs of a schedule that are in progress at once."""

MAX_WAITING: Final = 1_000
"""Fires of a schedule that wait."""

MAX_STARTING: Final = 8
"""Fires of a schedule whose runs are being submitted at once: each has a copy of the request."""

KEPT: Final = 30 * 86_400.0
"""Seconds for which a schedule is kept after its end."""


class FireState(IntEnum):
    """State of a fire, with the numbers of the contract."""

    STARTING = 1
    WAITING = 2
    RUNNING = 3
    COMPLETED = 4
    FAILED = 5
    CANCELLED = 6
    SKIPPED = 7
    MISSED = 8
    REFUSED = 9


OPEN: Final = frozenset({FireState.STARTING, FireState.WAITING, FireState.RUNNING})


class Overlap(IntEnum):
    """The policy of fires while a run is in progress, with the numbers of the contract."""

    SKIP = 1
    BUFFER_ONE = 2
    BUFFER_ALL = 3
    CANCEL_OTHER = 4
    ALLOW_ALL = 5


class CatchUp(IntEnum):
    """The policy about times that have passed, with the numbers of the contract."""

    LATEST = 1
    ALL = 2
    SKIP = 3


@value
class Policies:
    """The policies of a schedule; `window` is in seconds."""

    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LATEST
    window: float = 86_400.0
    pause_on_failure: bool = False


@value
class Owner:
    """The caller whose rights the runs of a schedule have. `identity` is on whose behalf the schedule was written, the
    other fields are of the credentials that were presented; `kind` is empty if the mesh knows no callers."""

    identity: str
    kind: str = ""
    name: str = ""
    token_id: str = ""


@value
class Fire:
    """One fire. Times are in wall seconds.

    `planned` is its time without jitter, `due` when its run is submitted or tried again, `since` when it first was
    tried. `request` is the submit as it was when the fire started, `failure` is of the last try, both as messages."""

    fire_id: str
    number: int
    planned: float
    state: FireState
    overlap: Overlap = Overlap.SKIP
    due: float = 0.0
    since: float = 0.0
    tries: int = 0
    run_id: str = ""
    started: float = 0.0
    reason: str = ""
    failure: bytes = b""
    request: bytes = b""
    times: int = 0
    times_more: bool = False
    manual: bool = False
    """Whether a caller triggered it; `identity` is that caller's."""

    identity: str = ""


@value
class Schedule:
    """A schedule of a tenant. `uid` tells it from earlier schedules of its name; `cursor` is the last time that was
    decided about; `version` counts the changes by callers; `ended` is 0 while it may fire."""

    tenant: str
    name: str
    uid: str
    times: Times
    run: bytes
    owner: Owner
    created: float
    updated: float
    cursor: float
    policies: Policies = Policies()
    note: str = ""
    request_id: str = ""
    version: int = 1
    paused: bool = False
    pause_reason: str = ""
    ended: float = 0.0
    open_fires: tuple[Fire, ...] = ()
    number: int = 0
    runs: int = 0
    skipped: int = 0
    missed: int = 0
    refused: int = 0
    failed: int = 0

    def run_request_id(self, fire_id: str) -> str:
        """Returns the request id of the run of a fire: however often it is submitted, there is one run."""
        return f"schedule/{self.uid}/{fire_id}"
