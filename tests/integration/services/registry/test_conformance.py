"""Behaviour that every store of the registry must have, tested over a real server."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import networkx as nx
import pytest

from archon.errors import AlreadyExists, GraphCycle, InvalidArgument, UnknownCapability, UnknownRole
from archon.registry import (
    Capability,
    DependsOn,
    Edge,
    Graph,
    Profile,
    PropagationPolicy,
    Registration,
    RegistrationHandle,
    RegistryClient,
    Tool,
    ToolShare,
)
from tests.fixtures.registry import Make
from tests.fixtures.waiting import Eventually, until


def pairs(graph: Graph) -> set[tuple[str, str]]:
    return {(edge.upstream, edge.downstream) for edge in graph.edges}


async def test_registration_comes_back_complete(client: RegistryClient) -> None:
    registration = Registration(
        role="writer",
        version="1.2.0",
        address="10.0.0.1:7000",
        description="schreibt Texte ✍",
        capabilities=(Capability("text.write", "Write", "writes", ("t",), ("e",), ("text/plain",), ("text/html",)),),
        tools=(
            Tool("search", "finds", '{"type": "object"}', '{"type": "object"}', "Search", True, False, True, True),
            Tool("count", share=ToolShare(60, 1_000_000, 0.9876, 1.25)),
        ),
        depends_on=(DependsOn("planner", PropagationPolicy.FULL_HISTORY),),
        tags={"zone": "a"},
        max_tasks=4,
        ttl=30.0,
        profile=Profile("be kind", 20, 30, 0.5, {"help_request": "planner"}),
    )
    handle = await client.register(registration)
    assert handle.registered.is_set()
    (resolved,) = await client.resolve("writer")
    assert resolved == replace(registration, tenant="default", identity="anonymous", revision=resolved.revision)
    assert resolved.revision > 0


async def test_defaults_are_one_task_and_a_lease_of_ten_seconds(client: RegistryClient, make: Make) -> None:
    handle = await client.register(replace(make("r"), max_tasks=0))
    (instance,) = await client.resolve("r")
    assert (instance.max_tasks, instance.ttl, handle.ttl) == (1, 10.0, 10.0)


async def test_a_lease_is_listed_with_the_time_it_has_left(
    client: RegistryClient, make: Make, eventually: Eventually
) -> None:
    for role, ttl in (("r", 3600.0), ("s", 60.0)):
        await client.register(replace(make(role), ttl=ttl))
    leases = await client.list_leases()
    assert [instance.role for instance, _ in leases] == ["r", "s"]
    assert all(0 < left <= instance.ttl for instance, left in leases)
    assert [instance.role for instance, _ in await client.list_leases("s")] == ["s"]

    async def is_shorter() -> bool:  # which it would not become if listing renewed it
        return all(left < instance.ttl - 1 for instance, left in await client.list_leases())

    await eventually(is_shorter)


async def test_registering_the_same_again_writes_nothing(client: RegistryClient, make: Make) -> None:
    registration = make("r", "u")
    await client.register(registration)
    before = await client.resolve("r")
    for _ in range(3):
        await client.register(registration)
    assert await client.resolve("r") == before


async def test_registering_other_content_updates_the_registration(client: RegistryClient, make: Make) -> None:
    handle = await client.register(make("r", "u"))
    await handle.update(replace(handle.registration, description="new", depends_on=[DependsOn("v")], ttl=5.0))
    (instance,) = await client.resolve("r")
    assert (instance.description, instance.ttl) == ("new", 5.0)
    assert pairs(await client.get_graph()) == {("v", "r")}


async def test_refused_update_leaves_the_registration_unchanged(
    client: RegistryClient, make: Make, eventually: Eventually
) -> None:
    handle = await client.register(make("r"))
    with pytest.raises(InvalidArgument):
        await handle.update(replace(handle.registration, version="one"))
    await asyncio.wait_for(handle.registered.wait(), 60)
    assert [instance.version for instance in await client.resolve("r")] == ["1"]


async def test_instance_id_under_another_role_is_a_conflict(client: RegistryClient, make: Make) -> None:
    registration = make("r")
    await client.register(registration)
    with pytest.raises(AlreadyExists) as caught:
        await client.register(replace(registration, role="other"))
    assert caught.value.reason == "CONFLICT"
    assert len(await client.resolve("r")) == 1, "the first registration is unchanged"


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("role", "Writer"),
        ("role", "a" * 64),
        ("instance_id", "a/b"),
        ("instance_id", "i" * 129),
        ("version", "1.x"),
        ("address", ""),
        ("address", "host"),
        ("address", "host:0"),
        ("max_tasks", -1),
        ("ttl", 0.0),
        ("ttl", 3601.0),
        ("description", "x" * 20_000),
        ("capabilities", [Capability("Not Good")]),
        ("tools", [Tool("t"), Tool("t")]),
        ("tools", [Tool("t", input_schema_json="{")]),
        ("depends_on", [DependsOn("Bad")]),
        ("depends_on", [DependsOn("a"), DependsOn("a")]),
        ("tags", {"": "x"}),
    ],
)
async def test_invalid_field_is_named(client: RegistryClient, make: Make, field: str, wrong: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await client.register(replace(make("r"), **{field: wrong}))  # type: ignore[arg-type]
    assert caught.value.field_violations[0].field.startswith(f"registration.{field}")


async def test_resolve_selects_by_role_capability_version_and_tags(client: RegistryClient, make: Make) -> None:
    writes = [Capability("text.write")]
    old = await client.register(replace(make("r", version="1.9"), capabilities=writes, tags={"zone": "a"}))
    new = await client.register(replace(make("r", version="1.10"), capabilities=writes))
    other = await client.register(replace(make("q", version="2"), capabilities=writes))

    async def ids(role: str = "r", **more: object) -> list[str]:
        return [instance.instance_id for instance in await client.resolve(role, **more)]  # type: ignore[arg-type]

    assert await ids() == [new.instance_id, old.instance_id]
    assert await ids("", capability="text.write") == [other.instance_id, new.instance_id, old.instance_id]
    assert await ids(version="1.9") == [old.instance_id]
    assert await ids(version="1.*") == [new.instance_id, old.instance_id]
    assert await ids(version="1.1.*") == []
    assert await ids(tags={"zone": "a"}) == [old.instance_id]
    assert await ids(tags={"zone": "b"}) == []
    with pytest.raises(UnknownRole):
        await client.resolve("unknown")
    with pytest.raises(UnknownCapability):
        await client.resolve(capability="nothing")
    with pytest.raises(InvalidArgument):
        await client.resolve()


async def test_closing_a_handle_removes_the_registration_and_its_edges(client: RegistryClient, make: Make) -> None:
    handle = await client.register(make("r", "u"))
    await handle.close()
    await handle.close()
    assert not handle.registered.is_set()
    assert await client.list_instances() == []
    assert await client.get_graph() == Graph(revision=(await client.get_graph()).revision)


async def test_closing_the_client_deregisters_its_instances(registry: str, client: RegistryClient, make: Make) -> None:
    async with RegistryClient(registry) as other:
        await other.register(make("r"))
        assert await client.list_instances()
    assert not await client.list_instances()


async def test_durability_29_cycle_refuses_the_edge_not_the_instance(client: RegistryClient, make: Make) -> None:
    await client.register(make("b", "a"))
    handle = await client.register(make("a", "b", "x"))
    assert [(refusal.edge.upstream, refusal.cycle) for refusal in handle.refused] == [("b", "b -> a -> b")]
    graph = await client.get_graph()
    assert pairs(graph) == {("a", "b"), ("x", "a")}
    assert graph.roles == ("x", "a", "b")
    assert graph.refused == handle.refused
    assert await client.resolve("a")


async def test_refused_edge_is_accepted_with_a_later_heartbeat(
    client: RegistryClient, make: Make, eventually: Eventually
) -> None:
    first = await client.register(make("b", "a"))
    await client.register(make("a", "b", ttl=1.0))
    await first.close()

    async def accepted() -> bool:
        graph = await client.get_graph()
        return pairs(graph) == {("b", "a")} and not graph.refused

    await eventually(accepted, 60)


async def test_pins_outlive_instances_and_are_written_all_or_none(client: RegistryClient, make: Make) -> None:
    graph = await client.pin_edges([("a", "b"), Edge("b", "c", PropagationPolicy.TOOL_RESULTS)])
    assert pairs(graph) == {("a", "b"), ("b", "c")}
    again = await client.pin_edges([("a", "b")])
    assert replace(again, revision=graph.revision) == graph, "pinning again changes nothing but the log of the registry"
    with pytest.raises(GraphCycle) as caught:
        await client.pin_edges([("x", "y"), ("c", "a")])
    assert caught.value.metadata["cycle"] == "c -> a -> b -> c"
    assert pairs(await client.get_graph()) == {("a", "b"), ("b", "c")}
    handle = await client.register(make("a", "c"))
    assert handle.refused[0].cycle == "c -> a -> b -> c"
    left = await client.unpin_edges([("a", "b"), ("never", "there")])
    assert [(edge.upstream, edge.downstream, edge.policy, edge.pinned) for edge in left.edges] == [
        ("b", "c", PropagationPolicy.TOOL_RESULTS, True)
    ]


async def test_pin_over_a_declared_edge_keeps_the_declaration(client: RegistryClient, make: Make) -> None:
    handle = await client.register(make("b", "a"))
    await client.pin_edges([("a", "b")])
    (edge,) = (await client.unpin_edges([("a", "b")])).edges
    assert (edge.pinned, edge.declared_by) == (False, (handle.instance_id,))


@pytest.mark.parametrize("edges", [[], [("A", "b")], [("a", "")], [("a", f"r{i}") for i in range(101)]])
async def test_invalid_edges_to_pin_are_refused(client: RegistryClient, edges: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidArgument):
        await client.pin_edges(edges)


async def test_durability_29_newer_version_supersedes_older_edges(client: RegistryClient, make: Make) -> None:
    await client.register(make("r", "old", "both", version="1.9"))
    newer = await client.register(make("r", "both", "new", version="1.10"))
    assert pairs(await client.get_graph()) == {("both", "r"), ("new", "r")}
    await newer.close()
    assert ("both", "r") in pairs(await client.get_graph())


async def test_durability_29_two_halves_of_a_cycle_never_both_succeed(
    registry: str, client: RegistryClient, make: Make
) -> None:
    async with RegistryClient(registry) as other:
        for number in range(25):
            a, b, c = (f"{name}{number}" for name in "abc")
            results = await asyncio.gather(
                client.pin_edges([(a, b), (b, c)]), other.pin_edges([(c, a)]), return_exceptions=True
            )
            assert sorted(type(result).__name__ for result in results) == ["Graph", "GraphCycle"]
            d, e = f"d{number}", f"e{number}"
            first, second = await asyncio.gather(client.register(make(d, e)), other.register(make(e, d)))
            assert len(first.refused) + len(second.refused) == 1
    assert nx.is_directed_acyclic_graph(nx.DiGraph(list(pairs(await client.get_graph()))))


async def test_lease_without_renewals_expires(
    registry: str, client: RegistryClient, make: Make, eventually: Eventually
) -> None:
    other = RegistryClient(registry)
    handle = await other.register(make("r", "u", ttl=1.0))
    handle.lost = handle.lapse = lambda: None  # type: ignore[method-assign]
    await other._keepalive.close()

    async def expired() -> bool:
        return not await client.list_instances() and not (await client.get_graph()).edges

    await eventually(expired, 60)
    await other.close()


async def test_client_keeps_many_leases_alive_beyond_their_ttl(
    client: RegistryClient, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewals: Counter[str] = Counter()
    renewal = RegistrationHandle.renewal

    def counted(handle: RegistrationHandle, sent: float, left: float) -> None:
        renewals[handle.instance_id] += 1
        renewal(handle, sent, left)

    monkeypatch.setattr(RegistrationHandle, "renewal", counted)
    handles = [await client.register(make(f"r{number}", ttl=1.0)) for number in range(20)]
    await until(lambda: len(renewals) == 20 and min(renewals.values()) == 5, 60)  # each a third of the TTL later
    assert len(await client.list_instances()) == 20
    assert all(handle.registered.is_set() for handle in handles)


async def test_pages_hold_each_instance_once_and_tokens_bind_filters(
    registry: str, client: RegistryClient, make: Make
) -> None:
    from archon.api.registry.v1 import registry_service_pb2 as pb

    for number in range(7):
        await client.register(make("r" if number % 2 else "q"))
    listed: list[tuple[str, str]] = []
    token = first = ""
    while True:
        response = await client._stub.ListInstances(pb.ListInstancesRequest(page_size=3, page_token=token))
        listed += [(instance.role, instance.instance_id) for instance in response.instances]
        token = response.next_page_token
        first = first or token
        if not token:
            break
    assert listed == sorted(set(listed))
    assert len(listed) == 7
    for request in (
        pb.ListInstancesRequest(page_token=first, role="r"),
        pb.ListInstancesRequest(page_token="nonsense"),
        pb.ListInstancesRequest(page_token="W10="),
        pb.ListInstancesRequest(page_token="é"),
    ):
        with pytest.raises(InvalidArgument) as caught:
            await client._stub.ListInstances(request)
        assert caught.value.reason == "INVALID_PAGE_TOKEN"
    for size in (-1, 1001):
        with pytest.raises(InvalidArgument) as caught:
            await client._stub.ListInstances(pb.ListInstancesRequest(page_size=size))
        assert caught.value.field_violations[0].field == "page_size"
