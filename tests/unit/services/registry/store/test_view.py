"""The registry's view: each change once to each watcher, resumable, bounded."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Graph, Registration
from archon.errors import ResourceExhausted, Unavailable
from archon_services.registry.domain.edges import build_graph
from archon_services.registry.domain.state import Change, State
from archon_services.registry.store import view as store_view
from archon_services.registry.store.view import RegistryView
from tests.fixtures.waiting import run_ready_tasks


def update(number: int) -> dict[str, Registration | Edge | None]:
    return {f"instances/i{number}": Registration(instance_id=f"i{number}", role="r")}


def make_view(changes: int, *, history: int = 10, max_queued: int = 5) -> RegistryView:
    view = RegistryView(history=history, max_queued=max_queued)
    view.reset(State(revision=1))
    for number in range(changes):
        view.apply(number + 2, update(number))
    return view


async def first_change(view: RegistryView, from_revision: int = 0) -> Change:
    async with aclosing(view.watch(from_revision)) as changes:
        return await anext(changes)


async def test_watch_resumes_as_far_back_as_changes_are_kept() -> None:
    view = make_view(25, history=10)
    assert (await first_change(view, 16)).revision == 17
    assert not (await first_change(view, 16)).snapshot
    assert (await first_change(view, 15)).snapshot, "older changes are not kept"
    assert (await first_change(view, 27)).snapshot, "a revision in the future"


async def test_up_to_date_watch_waits_for_the_next_change() -> None:
    view = make_view(3)
    async with aclosing(view.watch(4)) as changes:
        waiting = asyncio.ensure_future(anext(changes))
        await run_ready_tasks()
        assert not waiting.done()
        view.apply(5, update(9))
        assert (await waiting).revision == 5


async def test_watch_above_the_limit_is_refused_with_a_retry_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.common.feed.MAX_SUBSCRIPTIONS", 1)
    view = make_view(1)
    async with aclosing(view.watch()) as only:
        await anext(only)
        with pytest.raises(ResourceExhausted) as refused:
            await first_change(view)
        assert refused.value.retry_delay
    assert (await first_change(view)).snapshot


async def test_slow_watcher_is_disconnected_and_others_stay() -> None:
    view = make_view(0, max_queued=5)
    async with aclosing(view.watch()) as slow, aclosing(view.watch()) as quick:
        await anext(slow)
        await anext(quick)
        for number in range(6):
            view.apply(number + 2, update(number))
            assert (await anext(quick)).revision == number + 2
        with pytest.raises(ResourceExhausted) as caught:
            await anext(slow)
        assert caught.value.retry_delay


async def test_reset_yields_the_difference() -> None:
    view = make_view(3)
    async with aclosing(view.watch()) as changes:
        await anext(changes)
        view.reset(State(9, {"new": Registration(instance_id="new", role="r")}))
        change = await anext(changes)
    assert not change.snapshot
    assert (change.revision, [instance.instance_id for instance in change.instances]) == (9, ["new"])
    assert sorted(instance.instance_id for instance in change.removed) == ["i0", "i1", "i2"]


async def test_reset_to_an_earlier_revision_is_a_snapshot() -> None:
    view = make_view(3)
    async with aclosing(view.watch()) as changes:
        await anext(changes)
        view.reset(State(2))
        assert (await anext(changes)) == Change(2, True, (), (), view.graph)
    assert (await first_change(view, 4)).snapshot


async def test_end_comes_after_the_queued_changes() -> None:
    view = make_view(0)
    async with aclosing(view.watch()) as changes:
        await anext(changes)
        view.apply(2, update(1))
        view.end_watches(Unavailable("stopping"))
        assert (await anext(changes)).revision == 2
        with pytest.raises(Unavailable):
            await anext(changes)


async def test_an_instance_of_a_known_role_costs_no_new_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    view = make_view(1)
    built: list[State] = []

    def counted(state: State) -> Graph:
        built.append(state)
        return build_graph(state)

    monkeypatch.setattr(store_view, "build_graph", counted)
    for number in range(1, 20):
        view.apply(number + 2, update(number))
    assert not built
    assert view.state.roles["r"].instances == 20
    snapshot = await first_change(view)
    assert snapshot.graph is not None
    assert (len(snapshot.instances), snapshot.graph.revision) == (20, 21)
    view.apply(30, {"instances/other": Registration(instance_id="other", role="other")})
    assert built, "a role is new"
