"""Hooks in a journal that two replicas change at the same time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from archon.errors import UnknownHook
from archon_services.orchestrator.hooks import DeliveryLog, HookStore
from archon_services.orchestrator.hooks.hook import Delivery, DeliveryState, Hook, Scheme
from archon_services.orchestrator.journal import TriggerRow
from archon_services.orchestrator.journal.memory.journal import MemoryJournal
from archon_services.orchestrator.schedules.schedule import Owner


def hook(name: str = "h", uid: str = "u") -> Hook:
    return Hook("t", name, uid, Scheme.GITHUB, b"run", Owner("ann"), 1.0, 1.0, "sealed", 1.0, events=("push",))


def delivery(key: str, delivery_id: str, state: DeliveryState = DeliveryState.STARTING, at: float = 10.0) -> Delivery:
    return Delivery(key, delivery_id, state, at, "push", failure=b"\x00f")


class Interrupted(MemoryJournal):
    """A journal in which another replica is first at the next change."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Any = None

    async def put_trigger(self, row: TriggerRow, fires: Any = (), owner: str = "") -> bool:
        before, self.before = self.before, None
        if before is not None:
            await before()
        return await super().put_trigger(row, fires, owner)


@pytest.fixture
async def journal() -> Interrupted:
    journal = Interrupted()
    assert await HookStore(journal, lambda: 10.0).add(hook())
    return journal


async def test_of_two_replicas_with_one_body_one_is_first(journal: Interrupted) -> None:
    one, two = HookStore(journal, lambda: 10.0), HookStore(journal, lambda: 10.0)
    firsts: list[str] = []

    async def other() -> None:
        firsts.append((await two.claim(hook(), delivery("body/1", "b"))).delivery_id)

    journal.before = other
    firsts.append((await one.claim(hook(), delivery("body/1", "a"))).delivery_id)
    assert firsts == ["b", "b"]
    again = await one.claim(hook(), delivery("body/1", "c", at=10.0 + 86_400))
    assert (again.delivery_id, again.number) == ("c", 1)


async def test_counts_and_a_pause_at_once_are_both_kept(journal: Interrupted) -> None:
    one, two = HookStore(journal, lambda: 10.0), HookStore(journal, lambda: 10.0)
    states = Counter({DeliveryState.ACCEPTED: 2, DeliveryState.REPEATED: 5})
    both = [delivery("1", "a", DeliveryState.ACCEPTED), delivery("2", "b", DeliveryState.ACCEPTED, at=12.0)]

    async def other() -> None:
        await two.record(hook(), [delivery("1", "a", DeliveryState.REFUSED)], Counter({DeliveryState.REFUSED: 1}))

    journal.before = other
    await one.record(hook(), both, states)
    stored = await one.get("t", "h")
    assert (stored.accepted, stored.repeated, stored.refused, stored.last_delivery) == (2, 5, 1, 12.0)
    assert stored.events == ("push",) and stored.run == b"run" and stored.scheme is Scheme.GITHUB
    found = await one.deliveries("t", "h", 0, 10)
    assert [(each.number, each.delivery_id, each.state.name) for each in found] == [
        (2, "b", "ACCEPTED"),
        (1, "a", "ACCEPTED"),
    ]
    assert found[0].failure == b"\x00f"


async def test_a_hook_that_was_made_anew_has_no_old_deliveries(journal: Interrupted) -> None:
    store = HookStore(journal, lambda: 10.0)
    await store.delete("t", "h")
    await store.record(hook(), [delivery("1", "a")], Counter())
    with pytest.raises(UnknownHook):
        await store.claim(hook(), delivery("1", "a"))
    assert await store.add(hook(uid="new")) and not await store.add(hook())
    await store.record(hook(), [delivery("1", "a")], Counter())
    assert await store.deliveries("t", "h", 0, 10) == []
    assert await store.find("t", "x" * 101) is None and await store.find("t", "\x00") is None


async def test_an_unreadable_hook_holds_up_no_other_and_can_be_deleted(journal: Interrupted) -> None:
    store = HookStore(journal, lambda: 10.0)
    await store.add(hook("bad", "v"))
    await journal.put_trigger(TriggerRow("t", "hook", "bad", 2, float("inf"), b"{"))
    log = DeliveryLog(store)
    log.note(hook("bad", "v"), delivery("1", "a", DeliveryState.ACCEPTED))
    log.note(hook(), delivery("1", "a", DeliveryState.ACCEPTED))
    await log.write()
    assert (await store.get("t", "h")).accepted == 1
    assert [each.name for each in await store.page("t", "", 10)] == ["h"] and await store.find("t", "bad") is None
    await store.delete("t", "bad")
    assert await store.count("t") == 1


async def test_what_a_full_list_leaves_out_is_counted(journal: Interrupted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.orchestrator.hooks.delivery_log.MAX_PENDING", 3)
    store = HookStore(journal, lambda: 10.0)
    log = DeliveryLog(store)
    for number in range(5):
        log.note(hook(), delivery(str(number), str(number), DeliveryState.IGNORED))
    log.note(hook(), delivery("0", "0", DeliveryState.REPEATED))
    await log.close()
    stored = await store.get("t", "h")
    assert (stored.ignored, stored.repeated, len(await store.deliveries("t", "h", 0, 10))) == (5, 1, 3)
