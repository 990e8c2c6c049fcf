"""A registry of tools by name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from archon.errors import InvalidArgument
from archon_mesh.llm.base import ToolSpec
from archon_mesh.tools.change_hub import ChangeHub
from archon_mesh.tools.errors import DuplicateTool
from archon_mesh.tools.function import FunctionTool
from archon_mesh.tools.tool import Tool, check_declared

SEPARATOR: Final = "."
"""Between a namespace and the name of a tool."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Registration:
    """A tool under the name with its namespace; `spec` is its description for model clients."""

    name: str
    tool: Tool
    spec: ToolSpec


class _Snapshot:
    """The tools at one time. A change makes a new one, so that readers need no lock."""

    def __init__(self, by_name: Mapping[str, Registration]) -> None:
        self.by_name = by_name
        self.specs = tuple(each.spec for each in by_name.values())


class ToolRegistry:
    """Tools by name, in order of registration. Plain functions can be registered too. Safe for several threads."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self._lock = threading.Lock()
        self._snapshot = _Snapshot({})
        self._watchers: ChangeHub[[]] = ChangeHub()
        for tool in tools:
            self.register_tool(tool)

    def register_tool(self, tool: Tool | Callable[..., Any], namespace: str = "") -> Tool:
        """Registers a tool, as `namespace.name` if a namespace is given.

        Raises DuplicateTool if the name is taken, and InvalidArgument if it is not a tool, or declares something that
        is out of range.
        """
        registered = tool if isinstance(tool, Tool) else FunctionTool(tool) if callable(tool) else None
        if registered is None or not registered.name:
            raise InvalidArgument(f"not a tool: {tool!r}; derive from Tool, or decorate a function with @tool")
        if namespace:
            check_namespace(namespace)
        check_declared(registered)
        name = f"{namespace}{SEPARATOR}{registered.name}" if namespace else registered.name
        spec = ToolSpec(name, registered.description, registered.parameters_schema)
        with self._lock:
            if name in self._snapshot.by_name:
                raise DuplicateTool(f"tool {name!r} is already registered")
            registration = Registration(name, registered, spec)
            self._snapshot = _Snapshot({**self._snapshot.by_name, name: registration})
        self._watchers.tell()
        return registered

    def replace_tool(self, tool: Tool, namespace: str = "") -> None:
        """Registers a tool, or registers it anew if its description has changed. Raises DuplicateTool if another tool
        has its name."""
        name = f"{namespace}{SEPARATOR}{tool.name}" if namespace else tool.name
        spec = ToolSpec(name, tool.description, tool.parameters_schema)
        with self._lock:
            known = self._snapshot.by_name.get(name)
            if known is not None and known.tool is not tool:
                raise DuplicateTool(f"tool {name!r} is already registered")
            if known is not None and known.spec == spec:
                return
            self._snapshot = _Snapshot({**self._snapshot.by_name, name: Registration(name, tool, spec)})
        self._watchers.tell()

    def set_namespace(self, namespace: str, tools: Iterable[Tool]) -> None:
        """Makes these the only tools of a namespace. A tool that is there already keeps its registration, and so its
        health."""
        check_namespace(namespace)
        prefix = f"{namespace}{SEPARATOR}"
        wanted = {f"{prefix}{tool.name}": tool for tool in tools}
        with self._lock:
            before = self._snapshot.by_name
            kept = {name: each for name, each in before.items() if not name.startswith(prefix)}
            for name, tool in wanted.items():
                known = before.get(name)
                spec = ToolSpec(name, tool.description, tool.parameters_schema)
                kept[name] = known if known is not None and known.tool is tool else Registration(name, tool, spec)
            self._snapshot = _Snapshot(kept)
        self._watchers.tell()

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Calls `watcher` after each change of the tools, in the thread of the change; returns a function that ends
        that. Copies of the registry are not watched."""
        return self._watchers.add(watcher)

    @classmethod
    def of(cls, registrations: Iterable[Registration]) -> ToolRegistry:
        """Returns a registry of tools that are registered elsewhere, under the same names."""
        registry = cls()
        registry._snapshot = _Snapshot({each.name: each for each in registrations})
        return registry

    def copy(self) -> ToolRegistry:
        """Returns an independent registry with the same tools."""
        copy = ToolRegistry()
        copy._snapshot = self._snapshot
        return copy

    def find(self, name: str) -> Registration | None:
        """Returns the registration of a tool by its name, with its namespace."""
        return self._snapshot.by_name.get(name)

    def get_tool(self, name: str) -> Tool | None:
        """Returns a tool by its name, with its namespace, or None."""
        registration = self.find(name)
        return registration.tool if registration is not None else None

    def list_tools(self) -> list[Tool]:
        """Returns the tools in order of registration."""
        return [each.tool for each in self._snapshot.by_name.values()]

    @property
    def registrations(self) -> Iterable[Registration]:
        """The tools with their names, in order of registration."""
        return self._snapshot.by_name.values()

    @property
    def names(self) -> list[str]:
        """The names of the tools, with their namespaces, in order of registration."""
        return list(self._snapshot.by_name)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model client gets them."""
        return self._snapshot.specs

    def __contains__(self, name: object) -> bool:
        return name in self._snapshot.by_name

    def __len__(self) -> int:
        return len(self._snapshot.by_name)


def check_namespace(namespace: str) -> None:
    """Raises InvalidArgument unless a namespace consists of identifiers, separated by dots."""
    if not all(part.isidentifier() for part in namespace.split(SEPARATOR)):
        raise InvalidArgument(f"invalid namespace {namespace!r}: expected identifiers, separated by dots")
