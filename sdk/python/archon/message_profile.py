"""The messages that the profile of a role allows: its types, each with the roles that exchange it."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def message_fault(role: str, allowed: Mapping[str, str], kind: str, others: Collection[str]) -> str:
    """Returns why the profile of a role does not allow it to exchange messages of a type with the others; empty if it
    does. `allowed` is as `message_types` in a Profile: empty, it allows all."""
    if not allowed:
        return ""
    if kind not in allowed:
        return f"the profile of {role} does not allow messages of the type {kind}"
    roles = {name.strip() for name in allowed[kind].split(",")} - {""}
    if roles and (excluded := sorted(set(others) - roles)):
        named = ", ".join(name or "a sender without credentials" for name in excluded)
        return f"the profile of {role} does not allow messages of the type {kind} with {named}"
    return ""
