"""Watches over every store: a snapshot, then each change once, resumable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import cast

from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.interceptors import translated
from archon.registry import Capability, Graph, RegistryChange, RegistryClient, Tool, ToolShare
from archon.wire import MAX_CHECKED_BYTES
from tests.fixtures.registry import Make


def pairs(graph: Graph) -> set[tuple[str, str]]:
    return {(edge.upstream, edge.downstream) for edge in graph.edges}


async def test_watch_yields_a_snapshot_then_each_change_once(client: RegistryClient, make: Make) -> None:
    first = await client.register(make("a"))
    async with aclosing(client.watch()) as changes:
        snapshot = await anext(changes)
        assert snapshot.snapshot
        assert [instance.instance_id for instance in snapshot.instances] == [first.instance_id]
        assert snapshot.graph is not None
        second = await client.register(make("b", "a"))
        change = await anext(changes)
        assert not change.snapshot
        assert [instance.instance_id for instance in change.instances] == [second.instance_id]
        assert change.graph is not None, "the edge and the instance that declares it come from one transaction"
        assert pairs(change.graph) == {("a", "b")}
        await second.close()
        change = await anext(changes)
        assert change.removed == (second.instance_id,)
        assert change.graph is not None
        assert pairs(change.graph) == set()
        await client.pin_edges([("x", "y")])
        change = await anext(changes)
        assert (change.instances, change.removed) == ((), ())
        assert change.graph is not None
        assert pairs(change.graph) == {("x", "y")}


async def test_watch_yields_only_the_requested_kinds(client: RegistryClient, make: Make) -> None:
    async with aclosing(client.watch(["edges"])) as edges, aclosing(client.watch(["instances"])) as instances:
        await asyncio.gather(anext(edges), anext(instances))
        registration = make("b", "a")
        handle = await client.register(registration)
        assert (await anext(edges)).instances == ()
        assert (await anext(instances)).graph is None
        await handle.update(replace(registration, description="other"))
        await client.pin_edges([("b", "c")])
        change = await anext(edges)
        assert change.graph is not None
        assert pairs(change.graph) == {("a", "b"), ("b", "c")}, "a change of no edge is not reported"


async def test_watch_resumes_after_a_revision(client: RegistryClient, make: Make) -> None:
    async with aclosing(client.watch()) as changes:
        await anext(changes)
        first = await client.register(make("a"))
        seen = await anext(changes)
    await client.register(make("b"))
    await first.close()
    missed: list[RegistryChange] = []
    async with aclosing(client.watch(from_revision=seen.revision)) as changes:
        missed += [await anext(changes), await anext(changes)]
    assert not any(change.snapshot for change in missed)
    assert [instance.role for instance in missed[0].instances] == ["b"]
    assert missed[1].removed == (first.instance_id,)


async def test_watch_from_a_future_revision_begins_with_a_snapshot(client: RegistryClient) -> None:
    async with aclosing(client.watch(from_revision=10**9)) as changes:
        assert (await anext(changes)).snapshot


async def test_large_snapshots_and_pages_are_split_into_messages(client: RegistryClient, make: Make) -> None:
    large = [Capability(f"c{number}", description="x" * 50_000) for number in range(4)]
    handles = [await client.register(replace(make("r"), capabilities=large)) for _ in range(24)]
    names = {handle.instance_id for handle in handles}
    watch = cast(AsyncGenerator[pb.WatchResponse, None], translated(client._stub.Watch(pb.WatchRequest())))
    async with aclosing(watch) as messages:
        parts = [await anext(messages)]
        while not parts[-1].revision:
            parts.append(await anext(messages))
    assert len(parts) > 1
    assert max(part.ByteSize() for part in parts) < MAX_CHECKED_BYTES
    assert [part.snapshot for part in parts] == [True] + [False] * (len(parts) - 1)
    page = await client._stub.ListInstances(pb.ListInstancesRequest(page_size=1_000))
    assert page.ByteSize() < MAX_CHECKED_BYTES
    assert {instance.instance_id for instance in await client.list_instances()} == names
    async with aclosing(client.watch()) as changes:
        snapshot = await anext(changes)
    assert {instance.instance_id for instance in snapshot.instances} == names, "the client puts the parts together"
    assert snapshot.graph is not None
    async with aclosing(client.watch(from_revision=parts[-1].revision)) as changes:
        handle = await client.register(make("r"))
        seen: set[str] = set()
        while handle.instance_id not in seen:  # others may have to register again on a loaded machine
            change = await anext(changes)
            assert not change.snapshot
            seen |= {instance.instance_id for instance in change.instances}
    assert seen <= names | {handle.instance_id}


async def test_new_figures_of_tools_do_not_send_the_graph_again(client: RegistryClient, make: Make) -> None:
    await client.register(make("a"))
    handle = await client.register(make("b", "a"))
    async with aclosing(client.watch()) as changes:
        snapshot = await anext(changes)
        assert snapshot.graph is not None and pairs(snapshot.graph) == {("a", "b")}
        for calls in (1, 2, 3):
            share = ToolShare(60, calls, 1.0, 0.5)
            await handle.update(replace(handle.registration, tools=(Tool("count", share=share),)))
            change = await anext(changes)
            assert [instance.tools[0].share for instance in change.instances] == [share]
            assert change.graph is None
        await handle.update(replace(handle.registration, depends_on=()))
        assert (await anext(changes)).graph is not None
