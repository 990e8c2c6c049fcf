"""Which tools may be called: by name or pattern, per session; a denial wins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from archon.errors import PermissionDenied
from archon.failure_kinds import TOOL_PERMISSION


@dataclass(frozen=True, slots=True)
class ToolPermissions:
    """`allowed` and `denied` list names of tools, or patterns that end with `*`, such as `math.*`.

    With `allowed` None, all tools are allowed that are not dangerous. A dangerous tool is allowed by its name only,
    never by a pattern. `sessions` has further permissions by session id: names that these allow are allowed in this
    session too; if they allow names, and the others allow all, only their names are. A tool that either denies is
    denied.
    """

    allowed: frozenset[str] | None = None
    denied: frozenset[str] = frozenset()
    sessions: Mapping[str, ToolPermissions] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Self | Mapping[str, object] | None) -> Self:
        """Also accepts a mapping, such as `{"allowed": [...], "sessions": {"s1": {"denied": [...]}}}`. Raises TypeError
        for any other key."""
        if fields is None:
            return cls()
        if not isinstance(fields, Mapping):
            return fields
        values: dict[str, Any] = dict(fields)
        for name in ("allowed", "denied"):
            if values.get(name) is not None:
                values[name] = _as_names(values[name])
        if "sessions" in values:
            values["sessions"] = {key: ToolPermissions.of(each) for key, each in values["sessions"].items()}
        return cls(**values)

    def refusal(self, name: str, *, dangerous: bool = False, session_id: str = "") -> str | None:
        """Returns why a tool may not be called, or None if it may be."""
        session = self.sessions.get(session_id) if session_id else None
        if _matches(self.denied, name) or (session is not None and _matches(session.denied, name)):
            return f"tool {name} is denied"
        lists = [each.allowed for each in (self, session) if each is not None and each.allowed is not None]
        if dangerous:
            is_named = any(name in allowed for allowed in lists)
            return None if is_named else f"tool {name} is dangerous and not allowed by its name"
        if not lists or any(_matches(allowed, name) for allowed in lists):
            return None
        return f"tool {name} is not allowed"

    def ever_allows(self, name: str, *, dangerous: bool = False) -> bool:
        """Tells whether a tool may be called in any session."""
        return any(
            self.refusal(name, dangerous=dangerous, session_id=session_id) is None
            for session_id in ("", *self.sessions)
        )

    def check(self, name: str, *, dangerous: bool = False, session_id: str = "") -> None:
        """Raises PermissionDenied if a tool may not be called."""
        if (refusal := self.refusal(name, dangerous=dangerous, session_id=session_id)) is not None:
            raise PermissionDenied(refusal, kind=TOOL_PERMISSION, metadata={"tool": name})


def _matches(names: Collection[str], name: str) -> bool:
    return name in names or any(each.endswith("*") and name.startswith(each[:-1]) for each in names)


def _as_names(names: object) -> frozenset[str]:
    if isinstance(names, str) or not isinstance(names, Collection):
        raise TypeError(f"expected a list of names of tools, got {names!r}")
    return frozenset(map(str, names))
