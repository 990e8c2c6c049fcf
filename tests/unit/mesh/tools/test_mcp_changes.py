"""How clients of an MCP server learn of changes, in both ways of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged

from archon_mesh.tools import ToolExecutionEngine, ToolRegistry, tool
from archon_mesh.tools.mcp import McpOffer, prompt, resource
from archon_mesh.tools.mcp.serving import changes as changes_module
from archon_mesh.tools.mcp.serving import server as server_module
from archon_mesh.tools.mcp.serving.server import create_server
from tests.fixtures.waiting import until

PATIENCE = 30.0
OLDER = pytest.mark.filterwarnings("ignore:resources/")


@prompt
def greet() -> str:
    """Greets."""
    return "Hello."


@resource("news://today")
def news() -> str:
    """News."""
    return "none"


@tool
def later() -> str:
    """Comes later."""
    return "late"


class Served:
    """A server, and its clients."""

    def __init__(self) -> None:
        self.offer = McpOffer(prompts=[greet], resources=[news])
        self.registry = ToolRegistry()
        self.server = create_server("s", ToolExecutionEngine(self.registry), offer=self.offer)

    def client(self, **fields: Any) -> Client:
        return Client(self.server, **fields)


CHANGES: list[tuple[Callable[[Served], object], object]] = [
    (lambda served: served.registry.register_tool(later), ToolsListChanged()),
    (lambda served: served.registry.set_namespace("server", [later]), ToolsListChanged()),
    (lambda served: served.offer.remove(greet), PromptsListChanged()),
    (lambda served: served.offer.add(resource("news://old")(lambda: "old")), ResourcesListChanged()),
    (lambda served: served.offer.updated("news://today"), ResourceUpdated("news://today")),
]


@pytest.mark.parametrize(("change", "event"), CHANGES)
async def test_client_that_listens_is_told_of_a_change(change: Callable[[Served], object], event: object) -> None:
    served = Served()
    kinds = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
    async with (
        asyncio.timeout(PATIENCE),
        served.client() as client,
        client.listen(**kinds, resource_subscriptions=["news://today"]) as subscription,
    ):
        await asyncio.to_thread(change, served)  # in any thread
        assert await anext(aiter(subscription)) == event


async def test_client_is_told_only_of_what_it_listens_for() -> None:
    served = Served()
    async with (
        asyncio.timeout(PATIENCE),
        served.client() as client,
        client.listen(prompts_list_changed=True, resource_subscriptions=["news://other"]) as subscription,
    ):
        served.registry.register_tool(later)
        served.offer.updated("news://today")
        served.offer.remove(greet)
        assert await anext(aiter(subscription)) == PromptsListChanged()


async def test_client_that_listens_when_too_many_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_LISTENERS", 1)
    served = Served()
    async with (
        asyncio.timeout(PATIENCE),
        served.client() as client,
        client.listen(prompts_list_changed=True),
    ):
        with pytest.raises(MCPError, match="limit reached"):
            await client.listen(prompts_list_changed=True).__aenter__()


@OLDER
async def test_client_of_an_older_version_subscribes_to_a_resource() -> None:
    served = Served()
    updated: list[str] = []

    async def note(message: Any) -> None:
        updated.append(message.params.uri)

    async with served.client(mode="legacy", message_handler=note) as client:
        served.offer.updated("news://today")
        await client.subscribe_resource("news://today")
        served.offer.updated("news://other")
        served.offer.updated("news://today")
        await until(lambda: updated != [], PATIENCE)
        await client.unsubscribe_resource("news://today")
        served.offer.updated("news://today")
        await client.list_tools()
    assert updated == ["news://today"]


@OLDER
async def test_subscription_to_a_long_uri_is_refused() -> None:
    async with Served().client(mode="legacy") as client:
        with pytest.raises(MCPError, match="more than 2000 characters"):
            await client.subscribe_resource("news://" + "x" * 2_000)


@OLDER
async def test_oldest_subscription_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_module, "MAX_SUBSCRIPTIONS", 2)
    served = Served()
    updated: list[str] = []

    async def note(message: Any) -> None:
        updated.append(message.params.uri)

    async with served.client(mode="legacy", message_handler=note) as client:
        for uri in ("news://1", "news://2", "news://1", "news://3"):
            await client.subscribe_resource(uri)
        for uri in ("news://2", "news://1", "news://3"):
            served.offer.updated(uri)
        await until(lambda: len(updated) == 2, PATIENCE)
    assert sorted(updated) == ["news://1", "news://3"]


async def test_server_without_clients_watches_nothing() -> None:
    served = Served()
    async with served.client() as first, served.client() as second:
        await first.list_tools()
        await second.list_tools()
        assert len(served.offer._watchers) > 0
    assert len(served.offer._watchers) == 0
    served.registry.register_tool(later)


def test_watcher_of_a_registry_is_called_until_it_ends() -> None:
    registry = ToolRegistry()
    calls: list[int] = []
    end = registry.watch(lambda: calls.append(len(registry)))
    registry.register_tool(later)
    registry.copy().register_tool(later, namespace="copy")
    end()
    registry.register_tool(later, namespace="more")
    assert calls == [1]
