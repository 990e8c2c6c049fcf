"""The shared memory as clients see it, over gRPC, with its store in a file."""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import aclosing
from typing import TYPE_CHECKING

import grpc
import pytest

from archon.errors import FailedPrecondition, GraphCycle, InvalidArgument
from archon.memory import MemoryGraphClient, MemoryItem, PropagationPolicy, PublishItem
from archon_mesh.agent import Agent
from archon_mesh.core.memory_graph import SharedMemoryGraph
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.tools import tool
from tests.fixtures.memory_mesh import published
from tests.fixtures.scripted_model import says

if TYPE_CHECKING:
    from tests.fixtures.memory_mesh import Mesh
    from tests.fixtures.waiting import Eventually

FINAL, TOOLS, FULL = PropagationPolicy
PUBLIC = ("source_id", "content", "timestamp", "version", "policy", "metadata", "ttl")


def texts(items: list[MemoryItem]) -> list[tuple[str, str]]:
    return [(item.source_id, item.content) for item in items]


def event(role: str, seq: int, content: str = "x", *, epoch: int = 1, run_id: str = "run-1") -> PublishItem:
    return PublishItem(role=role, content=content, run_id=run_id, epoch=epoch, seq=seq)


async def test_role_reads_its_predecessors_or_all_ancestors(client: MemoryGraphClient) -> None:
    for role in "cba":
        await client.publish(role, f"by {role}")
    assert texts(await client.pull_for("b")) == [("a", "by a")]
    assert texts(await client.pull_for("c")) == [("a", "by a"), ("b", "by b")]
    assert texts(await client.pull_for_indirect("c")) == [("a", "by a"), ("b", "by b")]
    assert await client.pull_for("a") == await client.pull_for("unknown") == []
    assert not await client.has_node("unknown")


async def test_role_unknown_to_the_registry_exists_in_its_scope_only(mesh: Mesh, client: MemoryGraphClient) -> None:
    await client.publish("newcomer", "x")
    assert await client.has_node("newcomer")
    async with mesh.client("elsewhere") as other:
        assert not await other.has_node("newcomer")


async def test_item_comes_back_as_it_was_published(client: MemoryGraphClient) -> None:
    published = PublishItem("a", "naïve 𝄞\x00", {"k": "v"}, ttl=60, run_id="run-9", epoch=2, seq=7)
    await client.publish_items([published])
    (item,) = await client.pull_for("b")
    assert (item.source_id, item.content, item.version, item.policy) == ("a", "naïve 𝄞\x00", 1, FINAL)
    assert (item.metadata, item.ttl, item.run_id, item.seq) == ({"k": "v"}, 60.0, "run-9", 7)


async def test_only_the_last_item_is_kept_and_its_metadata_merged(client: MemoryGraphClient) -> None:
    await client.publish("a", "one", {"kept": "1", "replaced": "1"})
    await client.publish("a", "two", {"replaced": "2"})
    (item,) = await client.pull_for("b")
    assert (item.content, item.version, item.metadata) == ("two", 2, {"kept": "1", "replaced": "2"})


async def test_publish_returns_the_item(client: MemoryGraphClient) -> None:
    before = time.time()
    item = await client.publish("a", "one", {"k": "v"}, ttl=60)
    assert item is not None
    assert item == MemoryItem("a", "one", item.timestamp, 1, FINAL, {"k": "v"}, 60)
    assert before <= item.timestamp <= time.time()
    pure = SharedMemoryGraph(clock=lambda: item.timestamp).publish("a", "one", {"k": "v"}, ttl=60)
    assert pure is not None
    assert {name: getattr(pure, name) for name in PUBLIC} == {name: getattr(item, name) for name in PUBLIC}


async def test_added_role_is_in_the_graph_of_its_client(client: MemoryGraphClient) -> None:
    pure = SharedMemoryGraph()
    for edge in (("a", "b"), ("b", "c"), ("a", "c")):
        pure.add_edge(*edge)
    for role in ("aa", "zz", "b", "0"):
        await client.add_agent(role)
        await client.add_agent(role)
        pure.add_agent(role)
        assert await client.has_node(role)
    roles = ["0", "a", "aa", "b", "c", "zz"]
    assert await client.get_topological_order(roles) == pure.get_topological_order() == roles
    assert await client.pull_for("zz") == []
    with pytest.raises(InvalidArgument, match="the name of a role is empty"):
        await client.add_agent("")


@pytest.mark.parametrize("blank", ["", " \n\t"])
async def test_blank_text_is_not_published(client: MemoryGraphClient, blank: str) -> None:
    await client.publish("a", "before")
    assert await client.publish("a", blank) is None
    assert texts(await client.pull_for("b")) == [("a", "before")]
    assert await published(client, "a", "after") == 2


async def test_clear_deletes_items_and_keeps_graph_and_versions(client: MemoryGraphClient) -> None:
    await client.publish("a", "one", {"old": "1"})
    await client.publish("b", "one")
    assert await client.clear_published_data() == 2
    assert await client.pull_for("c") == []
    assert await client.get_topological_order("abc") == ["a", "b", "c"]
    assert await client.clear_published_data() == 0
    assert await published(client, "a", "two") == 2
    (item,) = await client.pull_for("b")
    assert item.metadata == {}


async def test_item_expires_after_its_ttl_and_its_version_stays(
    client: MemoryGraphClient, eventually: Eventually
) -> None:
    assert await published(client, "a", "short-lived", ttl=0.3) == 1
    assert texts(await client.pull_for("b")) == [("a", "short-lived")]

    async def expired() -> bool:
        return await client.pull_for("b") == []

    await eventually(expired, within=60)
    assert (await client.to_dict())["items"] == []
    assert await published(client, "a", "next") == 2


async def test_edge_passes_what_its_policy_allows(mesh: Mesh, client: MemoryGraphClient) -> None:
    for policy, role in ((FINAL, "p-final"), (TOOLS, "p-tools"), (FULL, "p-full")):
        await mesh.pin(("p-source", role), policy=policy)
    seen = {}
    for policy in PropagationPolicy:
        await client.publish("p-source", policy, policy=policy)
        seen[policy] = [(await client.pull_for(role))[0].content for role in ("p-final", "p-tools", "p-full")]
    assert seen == {FINAL: [FINAL] * 3, TOOLS: [FINAL, TOOLS, TOOLS], FULL: [FINAL, TOOLS, FULL]}
    data = await client.to_dict()
    assert [(item["policy"], item["version"]) for item in data["items"]] == [(FINAL, 1), (TOOLS, 2), (FULL, 3)]
    assert data["versions"] == {"p-source": 3}
    assert await client.clear_published_data() == 3
    assert await published(client, "p-source", "next", policy=TOOLS) == 4
    assert [len(await client.pull_for(role)) for role in ("p-final", "p-tools", "p-full")] == [0, 1, 1]


async def test_agent_with_a_served_graph_publishes_for_its_edges(mesh: Mesh, client: MemoryGraphClient) -> None:
    for policy, role in ((FINAL, "q-final"), (TOOLS, "q-tools"), (FULL, "q-full")):
        await mesh.pin(("q-source", role), policy=policy)
    assert await client.policies_from("q-source") == {FINAL, TOOLS, FULL}
    assert await client.policies_from("q-full") == await client.policies_from("unknown") == set()
    look = tool(name="look")(lambda: "a door")
    model = ScriptedModel([says("", ToolCall("c", "look", "{}")), says("done")])
    await Agent("q-source", model=model, tools=[look], memory_graph=client).run_async("?")
    received = []
    for role in ("q-final", "q-tools", "q-full"):
        reader = ScriptedModel([says("ok")])
        await Agent(role, model=reader, memory_graph=client).run_async("?")
        received.append(reader.requests[0].messages[0].content.removeprefix("Shared context from q-source:\n"))
    assert received == [
        "done",
        "Result of look {}:\na door\n\nAnswer:\ndone",
        "user: ?\nassistant calls look: {}\ntool: a door\nassistant: done",
    ]


async def test_concurrent_publishers_get_contiguous_versions_in_order(mesh: Mesh, client: MemoryGraphClient) -> None:
    scope = f"busy-{uuid.uuid4().hex}"
    publishers = [mesh.client(scope) for _ in range(4)]
    watched: list[int] = []

    async def publish(publisher: MemoryGraphClient) -> list[int]:
        return [await published(publisher, "a", f"{id(publisher)} {number}") for number in range(25)]

    try:
        async with asyncio.timeout(60), aclosing(publishers[0].watch()) as changes:
            assert (await anext(changes)).snapshot
            versions = await asyncio.gather(*map(publish, publishers))
            while len(watched) < 100:
                watched += [item.version for item in (await anext(changes)).items]
    finally:
        for publisher in publishers:
            await publisher.close()
    assert sorted(version for own in versions for version in own) == list(range(1, 101))
    assert watched == list(range(1, 101))
    assert all(own == sorted(own) for own in versions)


async def test_watch_yields_a_snapshot_then_each_publish_of_its_scope(mesh: Mesh, client: MemoryGraphClient) -> None:
    await client.publish("b", "current")
    async with asyncio.timeout(60), aclosing(client.watch()) as changes, mesh.client("other scope") as other:
        first = await anext(changes)
        assert (first.snapshot, texts(list(first.items))) == (True, [("b", "current")])
        await other.publish("a", "elsewhere")
        await client.publish_items([event("a", 1), event("b", 2, "y"), PublishItem(role="c")])
        await client.publish_items([event("a", 1)])
        await client.publish("c", "z")
        second, third = await anext(changes), await anext(changes)
        assert (second.snapshot, texts(list(second.items))) == (False, [("a", "x"), ("b", "y")])
        assert texts(list(third.items)) == [("c", "z")]


async def test_served_graph_reads_back_as_the_pure_one(mesh: Mesh, client: MemoryGraphClient) -> None:
    for role in ("a", "b", "stranger"):
        await client.publish(role, f"by {role}", {"k": role}, ttl=60)
    served = await client.to_dict()
    pure = SharedMemoryGraph.from_dict(served)
    assert pure.to_dict() == served
    for role in ("b", "c", "stranger"):
        for pure_items, served_items in (
            (pure.pull_for(role), await client.pull_for(role)),
            (pure.pull_for_indirect(role), await client.pull_for_indirect(role)),
        ):
            assert [(item.source_id, item.version) for item in pure_items] == [
                (item.source_id, item.version) for item in served_items
            ]
    nodes = ["c", "b", "a", "unknown"]
    assert await client.get_edges_for_nodes(nodes) == pure.get_edges_for_nodes(nodes)
    assert await client.get_topological_order() == pure.get_topological_order()
    assert await client.get_topological_order(["c", "a", "unknown"]) == ["a", "c"]


async def test_added_edge_is_written_to_the_registry(
    mesh: Mesh, client: MemoryGraphClient, eventually: Eventually
) -> None:
    await client.publish("from", "x")
    await client.add_edge("from", "to")

    async def edge_known() -> bool:
        return texts(await client.pull_for("to")) == [("from", "x")]

    await eventually(edge_known)
    with pytest.raises(GraphCycle):
        await client.add_edge("to", "from")
    async with MemoryGraphClient(mesh.memory.address, "s") as alone:
        with pytest.raises(FailedPrecondition):
            await alone.add_edge("a", "b")


def test_reflection_is_served(mesh: Mesh) -> None:
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    with grpc.insecure_channel(mesh.memory.address) as channel:
        services = ProtoReflectionDescriptorDatabase(channel).get_services()
    names = ("MemoryGraphService", "WorkingMemoryService", "LongTermMemoryService")
    assert {f"archon.api.memory.v1.{name}" for name in names} <= set(services)


async def test_published_answers_are_searched_as_far_as_a_role_may_see(client: MemoryGraphClient) -> None:
    await client.publish("a", "We store all orders in SQLite.\n\nThe colour of the logo is green.")
    await client.publish("b", "The orders are shipped by bicycle.")
    [best, *_] = await client.search("Which database stores orders?")
    assert (best.item.source_id, best.item.content) == ("a", "")
    assert "SQLite" in best.passage
    assert {found.item.source_id for found in await client.search("orders", node_id="c")} == {"a", "b"}
    assert {found.item.source_id for found in await client.search("orders", node_id="b")} == {"a"}
    assert await client.search("orders", scope="another scope") == []
    assert await client.search("quarterly revenue", threshold=0.9) == []
