"""Checks messages between agents against the profiles of their roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from archon.message_profile import message_fault
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
    faults = [message_fault(sender.role, message_types(sender.role), given.type, receivers)]
    faults += [message_fault(role, message_types(role), given.type, {sender.role}) for role in sorted(receivers)]
    reason = next(filter(None, faults), "")
    return replace(given, forbidden=reason) if reason else given
