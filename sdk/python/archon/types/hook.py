"""Hooks, and their deliveries."""

from __future__ import annotations

from archon.api.orchestrator.v1 import hook_service_pb2 as pb
from archon.errors import ArchonError
from archon.status import from_failure
from archon.types.message_view import MessageView
from archon.wire import text_of, to_seconds


class HookDelivery(MessageView[pb.HookDelivery]):
    """One verified delivery to a hook."""

    __slots__ = ()

    _SHOWN = ("delivery_id", "state", "run_id")

    @property
    def delivery_id(self) -> str:
        """Id of the delivery: the one of its sender, or a digest of its body."""
        return self.proto.delivery_id

    @property
    def state(self) -> str:
        """accepted, ignored or refused; starting while its run is being submitted."""
        if not self.proto.state:
            return "starting"
        return pb.DeliveryState.Name(self.proto.state).removeprefix("DELIVERY_STATE_").lower()

    @property
    def event(self) -> str:
        """Its event; empty if the sender names none."""
        return self.proto.event

    @property
    def run_id(self) -> str:
        """Its run; empty if none was submitted."""
        return self.proto.run_id

    @property
    def receive_time(self) -> float:
        """When it came, in seconds since the epoch."""
        return to_seconds(self.proto.receive_time)

    @property
    def failure(self) -> ArchonError | None:
        """Why it was refused; None if it was not."""
        return from_failure(self.proto.failure) if self.proto.HasField("failure") else None


class Hook(MessageView[pb.Hook]):
    """A hook, without its secrets. Times are in seconds since the epoch."""

    __slots__ = ()

    _SHOWN = ("name", "scheme", "paused")

    @property
    def name(self) -> str:
        """Name of the hook, unique per tenant."""
        return self.proto.name

    @property
    def scheme(self) -> str:
        """How its sender signs: standard, github, stripe or slack."""
        return pb.HookScheme.Name(self.proto.scheme).removeprefix("HOOK_SCHEME_").lower()

    @property
    def path(self) -> str:
        """The path of its URL at the HTTP gateway."""
        return self.proto.path

    @property
    def goal(self) -> str:
        """The template of the goal of its runs; empty in lists."""
        return text_of(self.proto.run.goal)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that take part in its runs; empty if the strategy chooses."""
        return tuple(self.proto.run.roles)

    @property
    def attach_body(self) -> bool:
        """Whether the body of a delivery is a part of the goal."""
        return self.proto.attach_body

    @property
    def events(self) -> tuple[str, ...]:
        """The events that submit runs; empty: all."""
        return tuple(self.proto.events)

    @property
    def max_per_minute(self) -> int:
        """Deliveries a minute that each orchestrator takes."""
        return self.proto.max_per_minute

    @property
    def replay_window(self) -> float | None:
        """For how long the same body is the same delivery, in seconds; None if the sender signs an id or a time."""
        return to_seconds(self.proto.replay_window) if self.proto.HasField("replay_window") else None

    @property
    def note(self) -> str:
        """Note for people."""
        return self.proto.note

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self.proto.paused

    @property
    def pause_reason(self) -> str:
        """Why it is paused."""
        return self.proto.pause_reason

    @property
    def state(self) -> str:
        """active or paused."""
        return "paused" if self.paused else "active"

    @property
    def etag(self) -> str:
        """Identifies this state of its settings, secrets and pause."""
        return self.proto.etag

    @property
    def identity(self) -> str:
        """The identity whose rights its runs have."""
        return self.proto.identity

    @property
    def create_time(self) -> float:
        """When it was created."""
        return to_seconds(self.proto.create_time)

    @property
    def update_time(self) -> float:
        """When a caller changed it last."""
        return to_seconds(self.proto.update_time)

    @property
    def secret_time(self) -> float:
        """When its secret was set."""
        return to_seconds(self.proto.secret_time)

    @property
    def previous_secret_until(self) -> float | None:
        """Until when the secret before is valid; None if it is not."""
        has = self.proto.HasField("previous_secret_until")
        return to_seconds(self.proto.previous_secret_until) if has else None

    @property
    def accepted(self) -> int:
        """Number of deliveries that submitted a run."""
        return self.proto.accepted

    @property
    def repeated(self) -> int:
        """Number of deliveries that came again."""
        return self.proto.repeated

    @property
    def ignored(self) -> int:
        """Number of deliveries of other events."""
        return self.proto.ignored

    @property
    def refused(self) -> int:
        """Number of verified deliveries that were refused."""
        return self.proto.refused

    @property
    def last_delivery_time(self) -> float | None:
        """When the last verified delivery came; None if none has."""
        return to_seconds(self.proto.last_delivery_time) if self.proto.HasField("last_delivery_time") else None
