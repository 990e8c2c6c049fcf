"""Checks messages between agents against the profiles of their roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from archon_mesh.engine import RunState
from archon_mesh.engine import inputs as inp

MessageTypes = Callable[[str], Mapping[str, str]]
"""Returns the types of messages that a role may exchange, and with which roles: as in its profile, empty for any."""


def with_message_rules(run: RunState, given: inp.Input, message_types: MessageTypes) -> inp.Input:
    """Returns the input; if it is a message that a profile does not allow, with the reason."""
    if type(given) is not inp.SendIn:
        return given
    sender = run.tasks.get(given.task_id)
    if sender is None:
        return given
    receivers = {
        task.role
        for task in run.tasks.values()
        if task is not sender and given.receiver and given.receiver in (task.role, task.step_id, task.task_id)
    }
    reason = _fault(sender.role, given.type, receivers, message_types) or next(
        filter(None, (_fault(role, given.type, {sender.role}, message_types) for role in sorted(receivers))), ""
    )
    return replace(given, forbidden=reason) if reason else given


def _fault(role: str, kind: str, others: set[str], message_types: MessageTypes) -> str:
    """Why the profile of a role does not allow it to exchange messages of this type with the others; empty if it
    does."""
    allowed = message_types(role)
    if not allowed:
        return ""
    if kind not in allowed:
        return f"the profile of {role} does not allow messages of the type {kind}"
    roles = {name.strip() for name in allowed[kind].split(",")} - {""}
    if roles and (excluded := sorted(others - roles)):
        return f"the profile of {role} does not allow messages of the type {kind} with {', '.join(excluded)}"
    return ""
