"""A hook and its deliveries, as the journal keeps them."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from archon_mesh.core.value import value
from archon_services.orchestrator.schedules.schedule import Owner

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

MAX_BODY: Final = 1024 * 1024
"""Bytes of the body of a delivery."""

PER_MINUTE: Final = 600
"""Deliveries a minute of a hook that does not say how many."""

REPLAY_WINDOW: Final = 86_400.0
"""Seconds for which the same body is the same delivery, if the sender signs no id and the hook names no time."""


class Scheme(IntEnum):
    """How a sender signs, with the numbers of the contract."""

    STANDARD = 1
    GITHUB = 2
    STRIPE = 3
    SLACK = 4

    @property
    def signs_id(self) -> bool:
        """Whether the id of a delivery, or its time, is signed: no copy of it can be sent under another id."""
        return self is not Scheme.GITHUB


class DeliveryState(IntEnum):
    """State of a delivery, with the numbers of the contract."""

    STARTING = 0
    ACCEPTED = 1
    REPEATED = 2
    IGNORED = 3
    REFUSED = 4
    CHALLENGED = 5


@value
class Hook:
    """A hook of a tenant. `uid` tells it from earlier hooks of its name. `secret` and `previous` are sealed; `previous`
    is valid until the time `previous_until`. `run` is a SubmitRunRequest with templates; `version` counts the changes
    by callers. Times are in wall seconds."""

    tenant: str
    name: str
    uid: str
    scheme: Scheme
    run: bytes
    owner: Owner
    created: float
    updated: float
    secret: str
    secret_set: float
    previous: str = ""
    previous_until: float = 0.0
    attach_body: bool = False
    events: tuple[str, ...] = ()
    per_minute: int = PER_MINUTE
    replay_window: float = REPLAY_WINDOW
    note: str = ""
    request_id: str = ""
    version: int = 1
    paused: bool = False
    pause_reason: str = ""
    number: int = 0
    accepted: int = 0
    repeated: int = 0
    ignored: int = 0
    refused: int = 0
    last_delivery: float = 0.0

    @property
    def etag(self) -> str:
        """Identifies this state of its settings, secrets and pause."""
        return f"{self.uid}-{self.version}"

    @property
    def path(self) -> str:
        """The path of its URL at the HTTP gateway."""
        tenant = "" if self.tenant == "default" else f"{self.tenant}/"
        return f"/hooks/{tenant}{self.name}"

    def run_request_id(self, delivery_id: str) -> str:
        """Returns the request id of the run of a delivery: however often it is sent, there is one run."""
        return f"hook/{self.uid}/{delivery_id}"

    def takes(self, event: str) -> bool:
        """Returns whether a delivery of an event submits a run."""
        if self.scheme is Scheme.GITHUB and event.partition(".")[0] == "ping":
            return False
        return not self.events or any(event == each or event.startswith(f"{each}.") for each in self.events)


@value
class Delivery:
    """A verified delivery. `key` identifies it within its hook, `number` counts from 1, `received` is when it came
    last, in wall seconds, and `failure` a message of the contract."""

    key: str
    delivery_id: str
    state: DeliveryState
    received: float
    event: str = ""
    run_id: str = ""
    number: int = 0
    failure: bytes = b""
