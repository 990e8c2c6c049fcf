"""Watches over every store: a snapshot, then each change once, resumable."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

from archon.registry import Graph, RegistryChange, RegistryClient
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
