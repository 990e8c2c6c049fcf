"""The offer of an MCP server besides tools, and the notices of its changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from archon.errors import AlreadyExists, InvalidArgument, ResourceExhausted
from archon_mesh.tools.change_hub import ChangeHub
from archon_mesh.tools.mcp.serving.prompts import Prompt
from archon_mesh.tools.mcp.serving.resources import ResourceProvider

MAX_PROMPTS: Final = 200
MAX_PROVIDERS: Final = 200
"""Prompts of a server, and resources or folders of it."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A change of the offer: `kind` is `prompts`, `resources`, or `resource` for the content of the resource of this
    `uri`."""

    kind: str
    uri: str = ""


class McpOffer:
    """The offer of `archon mcp`: the tools of an agent, or a list of tools, with resources and prompts.

        office = McpOffer(agent, resources=[note, ResourceFolder("docs://", "documents")], prompts=[review])

    It may change while it is served. Safe for several threads.
    """

    def __init__(
        self, tools: Any = (), *, resources: Iterable[ResourceProvider] = (), prompts: Iterable[Prompt] = ()
    ) -> None:
        """`tools` is an Agent, a tool, or a list of tools. Raises the errors of `add`."""
        self.tools = tools
        self._lock = threading.Lock()
        self._providers: tuple[ResourceProvider, ...] = ()
        self._prompts: dict[str, Prompt] = {}
        self._watchers: ChangeHub[[Changed]] = ChangeHub()
        for provider in resources:
            self.add(provider)
        for prompt in prompts:
            self.add(prompt)

    @property
    def providers(self) -> tuple[ResourceProvider, ...]:
        """The resources and folders, in the order in which they were added: the first that knows a URI is read."""
        return self._providers

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts, in the order in which they were added."""
        return tuple(self._prompts.values())

    def prompt(self, name: str) -> Prompt | None:
        """Returns the prompt of a name, or None."""
        return self._prompts.get(name)

    def add(self, item: ResourceProvider | Prompt) -> None:
        """Offers a resource, a folder or a prompt. Raises AlreadyExists if there is a prompt of this name,
        ResourceExhausted above MAX_PROMPTS or MAX_PROVIDERS, and InvalidArgument if it is something else."""
        with self._lock:
            if isinstance(item, Prompt):
                if item.name in self._prompts:
                    raise AlreadyExists(f"there is a prompt {item.name!r} already")
                if len(self._prompts) >= MAX_PROMPTS:
                    raise ResourceExhausted(f"more than {MAX_PROMPTS} prompts")
                self._prompts = {**self._prompts, item.name: item}
            elif isinstance(item, ResourceProvider):
                if len(self._providers) >= MAX_PROVIDERS:
                    raise ResourceExhausted(f"more than {MAX_PROVIDERS} resources and folders")
                self._providers = (*self._providers, item)
            else:
                raise InvalidArgument(
                    f"not a resource or a prompt: {item!r}; decorate a function with @resource or @prompt"
                )
        self._watchers.tell(Changed("prompts" if isinstance(item, Prompt) else "resources"))

    def remove(self, item: ResourceProvider | Prompt) -> None:
        """Offers a resource, a folder or a prompt no longer; does nothing if it is not offered."""
        with self._lock:
            if isinstance(item, Prompt):
                self._prompts = {name: each for name, each in self._prompts.items() if each is not item}
            else:
                self._providers = tuple(each for each in self._providers if each is not item)
        self._watchers.tell(Changed("prompts" if isinstance(item, Prompt) else "resources"))

    def updated(self, uri: str) -> None:
        """Tells the clients that have subscribed to a resource that its content has changed."""
        self._watchers.tell(Changed("resource", uri))

    def watch(self, watcher: Callable[[Changed], None]) -> Callable[[], None]:
        """Calls `watcher` after each change, in the thread of the change; returns a function that ends that."""
        return self._watchers.add(watcher)
