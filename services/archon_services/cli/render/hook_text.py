"""Hooks and their deliveries as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from archon_services.cli.render.output import print_table
from archon_services.cli.when import duration_text
from archon_services.reports.texts import local_time, one_line, strip_controls

if TYPE_CHECKING:
    from archon.types import Hook, HookDelivery

GOAL: Final = 60
REASON: Final = 60
EVENT: Final = 30
"""Characters of a goal, a reason and an event in lines."""

_LIST: Final = ("hook", "state", "scheme", "last delivery", "accepted", "refused")
_DELIVERIES: Final = ("time", "state", "run", "event")


def print_hooks(hooks: Sequence[Hook]) -> None:
    """Prints a line for each hook."""
    if not hooks:
        print("There is no hook. `archon hook add` adds one.")
        return
    print_table(_LIST, [_row(each) for each in hooks], right=(4, 5))


def _row(hook: Hook) -> tuple[str, ...]:
    last = local_time(hook.last_delivery_time) if hook.last_delivery_time is not None else "-"
    return hook.name, hook.state, hook.scheme, last, str(hook.accepted), str(hook.refused)


def print_hook(hook: Hook, base: str, deliveries: Sequence[HookDelivery], states: Mapping[str, str]) -> None:
    """Prints a hook with its URL below `base`, and deliveries to it with the states of their runs by id."""
    lines = list(_lines(hook, base))
    width = max(len(name) for name, _ in lines)
    print(f"{hook.name}: {hook.state}")
    for name, text in lines:
        print(f"  {name:{width}}  {text}")
    if deliveries:
        print()
        print_table(_DELIVERIES, [_delivery_row(each, states) for each in deliveries], folded=(3,))


def print_secret(name: str, secret: str) -> None:
    """Prints the secret of a hook, which is shown once."""
    print(f"\nIts secret is not shown again; `archon hook rotate {name}` makes another one:\n\n  {secret}\n")


def _lines(hook: Hook, base: str) -> Iterator[tuple[str, str]]:
    yield "url", f"{base}{hook.path}" if base else f"{hook.path} at the HTTP gateway"
    yield "scheme", hook.scheme
    if hook.events:
        yield "events", one_line(", ".join(hook.events), GOAL)
    yield "goal", one_line(hook.goal, GOAL) + (", with the body" if hook.attach_body else "")
    if hook.roles:
        yield "roles", ", ".join(map(strip_controls, hook.roles))
    yield "limit", f"{hook.max_per_minute} a minute"
    if hook.replay_window is not None:
        yield "replays", f"the same body within {duration_text(hook.replay_window)} is the same delivery"
    if hook.paused and hook.pause_reason:
        yield "paused", one_line(hook.pause_reason, GOAL)
    if hook.note:
        yield "note", one_line(hook.note, GOAL)
    yield "owner", strip_controls(hook.identity)
    before = hook.previous_secret_until
    yield "secret", f"of {local_time(hook.secret_time)}"
    if before is not None:
        yield "", f"the one before is valid until {local_time(before)}"
    counts = f"{hook.accepted} accepted, {hook.repeated} came again, {hook.ignored} ignored, {hook.refused} refused"
    yield "deliveries", counts


def _delivery_row(delivery: HookDelivery, states: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the cells of a delivery: the state of its run, or its own if there is none."""
    reason = delivery.failure.message if delivery.failure is not None else ""
    event = ": ".join(filter(None, (one_line(delivery.event, EVENT), one_line(reason, REASON)))) or "-"
    state = states.get(delivery.run_id, delivery.state)
    return local_time(delivery.receive_time)[: len("2026-01-31 12:00")], state, delivery.run_id or "-", event


def values(hook: Hook) -> dict[str, Any]:
    """Returns a hook as JSON has it: times in seconds since the epoch."""
    names = (
        "name", "state", "scheme", "path", "goal", "roles", "attach_body", "events", "max_per_minute", "replay_window",
        "note", "paused", "pause_reason", "identity", "etag", "create_time", "update_time", "secret_time",
        "previous_secret_until", "accepted", "repeated", "ignored", "refused", "last_delivery_time",
    )  # fmt: skip
    return {name: getattr(hook, name) for name in names}


def delivery_values(delivery: HookDelivery, states: Mapping[str, str]) -> dict[str, Any]:
    """Returns a delivery as JSON has it, with the state of its run."""
    names = ("delivery_id", "state", "event", "run_id", "receive_time")
    reason = delivery.failure.message if delivery.failure is not None else ""
    own = {name: getattr(delivery, name) for name in names}
    return {**own, "run_state": states.get(delivery.run_id, ""), "reason": reason}
