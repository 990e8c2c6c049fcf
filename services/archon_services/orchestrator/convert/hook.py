"""Hooks between the contract and the domain."""

from __future__ import annotations

from typing import Any

from archon.api.orchestrator.v1 import hook_service_pb2 as pb
from archon.wire import set_seconds, to_seconds
from archon_services.orchestrator.hooks.hook import PER_MINUTE, REPLAY_WINDOW, Delivery, Hook


def settings_from_proto(message: pb.Hook) -> dict[str, Any]:
    """Returns the fields of a hook that its callers write. Those that are not set have the defaults."""
    return {
        "run": message.run.SerializeToString(deterministic=True),
        "attach_body": message.attach_body,
        "events": tuple(message.events),
        "per_minute": message.max_per_minute or PER_MINUTE,
        "replay_window": to_seconds(message.replay_window) if message.HasField("replay_window") else REPLAY_WINDOW,
        "note": message.note,
    }


def hook_to_proto(hook: Hook, now: float, *, details: bool = True) -> pb.Hook:
    """Returns the message of a hook, without its secrets; without `details` it has no goal and no plan."""
    out = pb.Hook(
        name=hook.name,
        scheme=pb.HookScheme.ValueType(int(hook.scheme)),
        attach_body=hook.attach_body,
        events=hook.events,
        max_per_minute=hook.per_minute,
        note=hook.note,
        paused=hook.paused,
        pause_reason=hook.pause_reason,
        identity=hook.owner.identity,
        path=hook.path,
        etag=hook.etag,
        accepted=hook.accepted,
        repeated=hook.repeated,
        ignored=hook.ignored,
        refused=hook.refused,
    )
    out.run.ParseFromString(hook.run)
    if not hook.scheme.signs_id:
        set_seconds(out.replay_window, hook.replay_window)
    set_seconds(out.create_time, hook.created)
    set_seconds(out.update_time, hook.updated)
    set_seconds(out.secret_time, hook.secret_set)
    if hook.previous and now < hook.previous_until:
        set_seconds(out.previous_secret_until, hook.previous_until)
    if hook.last_delivery:
        set_seconds(out.last_delivery_time, hook.last_delivery)
    if not details:
        out.run.ClearField("goal")
        out.run.ClearField("plan_json")
    return out


def delivery_to_proto(delivery: Delivery) -> pb.HookDelivery:
    """Returns the message of a delivery."""
    out = pb.HookDelivery(
        delivery_id=delivery.delivery_id,
        state=pb.DeliveryState.ValueType(int(delivery.state)),
        event=delivery.event,
        run_id=delivery.run_id,
    )
    set_seconds(out.receive_time, delivery.received)
    if delivery.failure:
        out.failure.ParseFromString(delivery.failure)
    return out
