"""What holds for a watch over every store: a snapshot, then each change once, resumable."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

from archon.registry import Graph, RegistryChange, RegistryClient
from tests.fixtures.registry import Make


def pairs(graph: Graph) -> set[tuple[str, str]]:
    return {(edge.upstream, edge.downstream) for edge in graph.edges}


async def test_a_watch_begins_with_a_snapshot_and_tells_each_change_once(client: RegistryClient, make: Make) -> None:
    first = await client.register(make("a"))
    async with aclosing(client.watch()) as changes:
        snapshot = await anext(changes)
        assert snapshot.snapshot
        assert [one.instance_id for one in snapshot.instances] == [first.instance_id]
        assert snapshot.graph is not None
        second = await client.register(make("b", "a"))
        change = await anext(changes)
        assert not change.snapshot
        assert [one.instance_id for one in change.instances] == [second.instance_id]
        assert change.graph is not None, "the edge comes with the instance that declares it: one transaction"
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


async def test_a_watch_tells_only_the_kinds_it_follows(client: RegistryClient, make: Make) -> None:
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
        assert pairs(change.graph) == {("a", "b"), ("b", "c")}, "a change that moves no edge isn't told"


async def test_a_watch_resumes_after_a_revision(client: RegistryClient, make: Make) -> None:
    async with aclosing(client.watch()) as changes:
        await anext(changes)
        first = await client.register(make("a"))
        seen = await anext(changes)
    await client.register(make("b"))
    await first.close()
    told: list[RegistryChange] = []
    async with aclosing(client.watch(from_revision=seen.revision)) as changes:
        told += [await anext(changes), await anext(changes)]
    assert not any(change.snapshot for change in told)
    assert [one.role for one in told[0].instances] == ["b"]
    assert told[1].removed == (first.instance_id,)


async def test_a_watch_from_a_revision_that_never_was_begins_with_a_snapshot(client: RegistryClient) -> None:
    async with aclosing(client.watch(from_revision=10**9)) as changes:
        assert (await anext(changes)).snapshot
