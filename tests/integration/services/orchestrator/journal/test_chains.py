"""The chains of every journal: links and seals of steps as they were stored, and the audit log."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest

from archon.history import AuditEntry, anchor_of, link_of, verify_chain
from archon.history.audit import audit_link, first_audit_link
from archon_services.orchestrator.journal import AuditFilter, AuditRow, Journal, LinkedRow, Outcome, OwnerRow, Step
from tests.fixtures.journal import commit_group, create, creation, new_run, step, store

FILTER = AuditFilter("default")


def linked(previous: bytes, plain: Step, seal: bytes = b"", audit: tuple[AuditRow, ...] = ()) -> Step:
    link = link_of(previous, plain.run_id, plain.base, plain.last_seq, plain.data, plain.inputs)
    return replace(plain, link=link, seal=seal, audit=audit)


def row(number: int, *, owner: str = "me", tenant: str = "default", **fields: object) -> AuditRow:
    values = {"identity": "alice", "action": "run.submit", "run_id": f"r{number}", **fields}
    entry = AuditEntry(tenant, float(number), **values)  # type: ignore[arg-type]
    return AuditRow(owner, tenant, entry.time, entry.identity, entry.action, entry.run_id, entry.encode())


async def link_due(journal: Journal, chain: str, *, seal: bytes = b"") -> bool:
    """Links the entries that are due to a chain without entries, the last one with a seal."""
    rows, link, previous = await journal.unlinked_audit(chain, 100), [], first_audit_link(chain)
    for number, (row_id, data) in enumerate(rows, 1):
        digest = sha256(data).digest()
        previous = audit_link(previous, number, digest)
        link.append(LinkedRow(row_id, number, digest, previous, seal if number == len(rows) else b""))
    return await journal.link_audit(chain, link)


async def last_link(journal: Journal) -> tuple[int, bytes]:
    """Returns the last event of the last step, and the link of that step: 0 and empty if there is no step."""
    steps = await journal.recorded_steps("r")
    return (steps[-1].last_seq, steps[-1].link) if steps else (0, b"")


async def test_links_and_seals_come_back_as_they_were_stored(journal: Journal) -> None:
    assert await last_link(journal) == (0, b"")
    first = linked(anchor_of("r"), creation(new_run("r"), 3))
    second = linked(first.link, step("r", 3, 2))
    last = linked(second.link, step("r", 5, ended=True), b"seal")
    assert await journal.recorded_steps("r") == []
    for each in (first, second, last):
        assert await store(journal, each) is Outcome.DONE
        assert await last_link(journal) == (each.last_seq, each.link)
    recorded = await journal.recorded_steps("r")
    stored = [(s.base, s.last_seq, s.data, s.inputs, s.link, s.seal) for s in recorded]
    assert stored == [(s.base, s.last_seq, s.data, s.inputs, s.link, s.seal) for s in (first, second, last)]
    assert [s.base for s in await journal.recorded_steps("r", 3)] == [3, 5]
    assert [s.base for s in await journal.recorded_steps("r", 1, limit=1)] == [3]
    assert [s.base for s in await journal.recorded_steps("r", max_bytes=1)] == [0]


async def test_a_step_without_a_link_is_stored_and_read_as_such(journal: Journal) -> None:
    await create(journal, "r", count=2)
    assert await last_link(journal) == (2, b"")
    (recorded,) = await journal.recorded_steps("r")
    assert (recorded.link, recorded.seal) == (b"", b"")


async def test_a_claim_leaves_the_last_link_to_the_new_owner(journal: Journal) -> None:
    first = linked(anchor_of("r"), creation(new_run("r"), 3))
    await store(journal, first)
    claimed = await journal.claim("r", "other")
    assert claimed is not None
    assert await last_link(journal) == (3, first.link)
    late = linked(first.link, step("r", 3))
    assert await store(journal, late) is Outcome.DEPOSED
    assert await last_link(journal) == (3, first.link)
    assert await store(journal, linked(first.link, step("r", 3, epoch=claimed.epoch))) is Outcome.DONE


async def test_an_entry_is_stored_with_its_step_or_not_at_all(journal: Journal) -> None:
    first = linked(anchor_of("r"), creation(new_run("r", "q")), audit=(row(1), row(2)))
    again = linked(anchor_of("s"), creation(new_run("s", "q")), audit=(row(3),))
    stale = linked(b"\0" * 32, step("r", 7), audit=(row(4),))
    assert await store(journal, first) is Outcome.DONE
    await commit_group(journal, again)
    assert await store(journal, stale) is Outcome.STALE
    assert await store(journal, first) is Outcome.DONE, "sent again"
    await journal.add_audit([row(5)])
    entries = [AuditEntry.decode(data).run_id for _, data in await journal.audit_entries(FILTER, 0, 10)]
    assert entries == ["r5", "r2", "r1"]


async def test_entries_are_filtered_and_paged(journal: Journal) -> None:
    await journal.add_audit([row(1), row(2, identity="bob"), row(3, action="run.cancel"), row(4, tenant="other")])

    async def found(below: int = 0, limit: int = 10, **fields: object) -> list[str]:
        wanted = AuditFilter(**{"tenant": "default", **fields})  # type: ignore[arg-type]
        return [AuditEntry.decode(data).run_id for _, data in await journal.audit_entries(wanted, below, limit)]

    assert await found() == ["r3", "r2", "r1"]
    assert await found(tenant="other") == ["r4"]
    assert await found(identity="bob") == ["r2"]
    assert await found(action="run.cancel") == ["r3"]
    assert await found(run_id="r1") == ["r1"]
    assert await found(after=2.0) == ["r3", "r2"]
    assert await found(before=2.0) == ["r1"]
    (newest, _), *_ = await journal.audit_entries(FILTER, 0, 1)
    assert await found(newest, 1) == ["r2"]


async def test_entries_are_linked_once_by_their_owner_or_after_its_end(journal: Journal) -> None:
    for owner in ("me", "other"):
        await journal.enter(OwnerRow(owner, "", 1, 0))
    alive = {each.owner for each in await journal.live_owners()}
    await journal.add_audit([row(1), row(2), row(3, owner="other"), row(4, owner="dead")])
    due = [AuditEntry.decode(data).run_id for _, data in await journal.unlinked_audit("me", 10)]
    assert due == (["r1", "r2", "r4"] if "me" in alive and "other" in alive else due)
    assert len(await journal.unlinked_audit("me", 1)) == 1
    taken = await journal.unlinked_audit("me", 10)
    assert await link_due(journal, "me", seal=b"s")
    twice = LinkedRow(taken[0][0], 9, b"d", b"l", b"")
    assert not await journal.link_audit("me", [twice])
    (chain, number, link), *_ = await journal.audit_heads(10)
    assert (chain, number) == ("me", len(taken))
    links = await journal.audit_links(("", 0), 100)
    assert links[-1].link == link
    assert verify_chain("me", links).fault is not None, "the seal is invalid"
    assert [each.number for each in await journal.audit_links(("me", 1), 1)] == [2]


async def test_old_entries_leave_the_anchor_of_their_chain(journal: Journal) -> None:
    await journal.enter(OwnerRow("me", "", 1, 0))
    await journal.add_audit([row(number) for number in range(1, 6)])
    assert await journal.trim_audit(4.0) == 0, "they are not linked yet"
    assert await link_due(journal, "me")
    assert await journal.trim_audit(4.0) == 3
    links = await journal.audit_links(("", 0), 10)
    assert [(each.number, bool(each.data)) for each in links] == [(3, False), (4, True), (5, True)]
    assert verify_chain("me", links).fault is None
    assert [AuditEntry.decode(data).run_id for _, data in await journal.audit_entries(FILTER, 0, 10)] == ["r5", "r4"]
    assert await journal.trim_audit(4.0) == 0


@pytest.mark.parametrize("sealed", [2, 5])
async def test_a_chain_with_seals_is_trimmed_up_to_a_seal(journal: Journal, sealed: int) -> None:
    await journal.enter(OwnerRow("me", "", 1, 0))
    await journal.add_audit([row(number) for number in range(1, 6)])
    rows = await journal.unlinked_audit("me", 10)
    seals = {sealed: b"seal"}
    await journal.link_audit(
        "me", [LinkedRow(row_id, n, b"d" * 32, b"l" * 32, seals.get(n, b"")) for n, (row_id, _) in enumerate(rows, 1)]
    )
    await journal.trim_audit(4.0)
    kept = [each.number for each in await journal.audit_links(("", 0), 10)]
    assert kept == ([2, 3, 4, 5] if sealed == 2 else [1, 2, 3, 4, 5])
