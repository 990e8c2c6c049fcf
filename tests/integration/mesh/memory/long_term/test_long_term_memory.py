"""LongTermMemory over a real SQLite store: store, query, fall back, forget, export."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from archon.errors import DataLoss, InvalidArgument, NotFound, RequestIdReused, ResourceExhausted, Unavailable
from archon.memory.long_term.context import Template
from archon.memory.long_term.entry import MAX_CONTENT_BYTES, Source
from archon_mesh.memory.long_term import LongTermMemory, NewEntry, OfflineEmbedder, Outbox, SqliteLongTermStore
from archon_mesh.memory.long_term.port import Vector
from archon_mesh.memory.long_term.weaviate import WeaviateLongTermStore
from tests.fixtures.weaviate import WeaviateProcess

DAY = 86_400.0


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000_000.0

    def __call__(self) -> float:
        return self.now


class FragileEmbedder(OfflineEmbedder):
    """The offline embedder under another name, except while it is down."""

    def __init__(self, name: str = "fragile/1") -> None:
        self.name = name
        self.down = False
        self.refused = ""
        self.embedded: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if self.down:
            raise Unavailable("the embedder is down")
        if self.refused in texts:
            raise InvalidArgument("a text is refused")
        self.embedded += texts
        return await super().embed(texts)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def embedder() -> FragileEmbedder:
    return FragileEmbedder()


@pytest.fixture
async def memory(tmp_path: Path, clock: Clock, embedder: FragileEmbedder) -> AsyncIterator[LongTermMemory]:
    store = SqliteLongTermStore(tmp_path / "long_term.db")
    outbox = Outbox(tmp_path / "outbox.db")
    # A slow machine is not an outage.
    async with LongTermMemory(store, embedder, outbox=outbox, clock=clock, monotonic=clock, timeout=30) as opened:
        await opened.upkeep.close()  # tests call its rounds: the clock jumps
        yield opened


async def contents(memory: LongTermMemory, query: str, **arguments: Any) -> list[str]:
    """Returns the texts that a query finds."""
    return [found.content for found in await memory.query(query, **arguments)]


async def test_a_stored_text_is_found_by_its_meaning(memory: LongTermMemory) -> None:
    entry_id = await memory.store("Ana is vegetarian and loves mushrooms", {"user": "ana", "role": "user"}, 0.9)
    await memory.store("The invoice number is 4711", {"user": "ana"})
    (found, *_) = await memory.query("vegetarian dishes for Ana", filters={"user": "ana"})
    assert (found.entry.id, found.entry.importance, found.source) == (entry_id, 0.9, Source.HYBRID)
    assert 0.3 <= found.score <= 1
    assert await memory.delete(entry_id) is True
    assert await memory.delete(entry_id) is False
    assert "vegetarian" not in str(await contents(memory, "vegetarian dishes for Ana"))


async def test_a_repeated_request_stores_once(memory: LongTermMemory) -> None:
    first = await memory.store("tea with milk", {"user": "ana"}, request_id="r1")
    assert await memory.store("tea with milk", {"user": "ana"}, request_id="r1") == first
    assert (await memory.stats()).active == 1
    with pytest.raises(RequestIdReused):
        await memory.store("coffee", {"user": "ana"}, request_id="r1")
    assert await memory.of_tenant("other").store("tea with milk", {"user": "ana"}, request_id="r1") != first


@pytest.mark.parametrize("content", ["", "  ", "a\0b", "x" * (MAX_CONTENT_BYTES + 1), None])
async def test_an_invalid_text_is_refused(memory: LongTermMemory, content: Any) -> None:
    with pytest.raises((InvalidArgument, ResourceExhausted)):
        await memory.store(content)
    assert (await memory.stats()).active == 0


async def test_an_explicit_threshold_is_a_hard_limit(memory: LongTermMemory) -> None:
    await memory.store("The cat sleeps on the red sofa")
    assert await contents(memory, "quarterly revenue forecast", threshold=0.3) == []
    assert await contents(memory, "Does the cat sleep on the sofa?", threshold=0.7) != []
    for threshold in (1.5, -0.1, float("nan")):
        with pytest.raises(InvalidArgument):
            await memory.query("x", threshold=threshold)


async def test_the_default_threshold_is_lowered_step_by_step(memory: LongTermMemory) -> None:
    await memory.store("Ben wrote the importer for parcels in Leeds")
    result = await memory.search("Who maintains the parcel importer these days, and since when?")
    assert [found.source for found in result.found] == [Source.HYBRID]
    assert 0.3 <= result.threshold < 0.7
    assert result.found[0].score >= result.threshold


async def test_weak_hits_by_words_come_before_recent(memory: LongTermMemory) -> None:
    await memory.store("Lunch on Fridays is at noon in the canteen beside the river")
    query = (
        "Explain quantum chromodynamics lectures, symmetry breaking, renormalisation groups, lattice simulations, gauge "
        "fields, hadron spectroscopy, perturbation series, scattering amplitudes, string dualities, canteen"
    )
    result = await memory.search(query)
    assert (result.source, result.threshold) == (Source.KEYWORD, 0.0)


async def test_recent_entries_are_the_last_resort(memory: LongTermMemory, clock: Clock) -> None:
    await memory.store("alpha", {"user": "ana"})
    clock.now += 60
    await memory.store("beta", {"user": "ana"})
    await memory.store("gamma", {"user": "ben"})
    result = await memory.search("zzz qqq", filters={"user": "ana"})
    assert [found.content for found in result.found] == ["beta", "alpha"]
    assert result.source is Source.RECENT


async def test_words_decide_while_the_embedder_is_down(memory: LongTermMemory, embedder: FragileEmbedder) -> None:
    embedder.down = True
    await memory.store("The wifi password is on the fridge")
    (found,) = await memory.query("wifi password")
    assert (found.source, found.entry.embedding) == (Source.KEYWORD, "pending")
    assert (await memory.stats()).pending == 1


async def test_a_text_is_stored_whatever_its_embedder_raises(
    memory: LongTermMemory, embedder: FragileEmbedder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Sequence[str]) -> list[Vector]:
        raise RuntimeError("CUDA out of memory")

    with monkeypatch.context() as broken:
        broken.setattr(embedder, "embed", fail)
        entry_id = await memory.store("The wifi password is on the fridge")
        assert [found.entry.id for found in await memory.query("wifi password")] == [entry_id]
        await memory.upkeep.round()
    clock.now += 120
    await memory.upkeep.round()
    assert (await memory.stats()).pending == 0


async def test_a_failed_embedding_is_made_up_for(
    memory: LongTermMemory, embedder: FragileEmbedder, clock: Clock
) -> None:
    embedder.down = True
    await memory.store("The wifi password is on the fridge")
    embedder.down = False
    clock.now += 120
    await memory.upkeep.round()
    assert (await memory.stats()).pending == 0
    (found,) = await memory.query("wify pasword frige")
    assert (found.source, found.entry.embedding) == (Source.HYBRID, "embedded")


async def test_a_text_that_the_embedder_refuses_holds_up_no_other(
    memory: LongTermMemory, embedder: FragileEmbedder
) -> None:
    embedder.down = True
    for text in ("first", "refused", "third"):
        await memory.store(text)
    embedder.down, embedder.refused = False, "refused"
    assert await memory.upkeep.embed_missing() == 2
    assert (await memory.stats()).pending == 1


async def test_a_new_embedder_embeds_all_entries_again(tmp_path: Path) -> None:
    file = tmp_path / "long_term.db"
    async with LongTermMemory(SqliteLongTermStore(file), FragileEmbedder("first/1"), timeout=30) as memory:
        for number in range(70):
            await memory.store(f"Parcel {number} went to depot {number % 7}")
    second = FragileEmbedder("second/1")
    second.down = True
    clock = Clock()
    async with LongTermMemory(SqliteLongTermStore(file), second, monotonic=clock, timeout=30) as memory:
        result = await memory.search("parcel 12 depot", limit=3)
        assert {found.entry.embedder for found in result.found} == {"first/1"}
        assert result.source is Source.KEYWORD, "vectors of the first embedder are not compared"
        second.down = False
        clock.now += 120
        await memory.upkeep.embed_missing()
        result = await memory.search("parcel 12 depot", limit=3)
        assert {found.entry.embedder for found in result.found} == {"second/1"}
        assert result.source is Source.HYBRID
        assert len(set(second.embedded)) >= 70


async def test_near_duplicates_are_returned_once(memory: LongTermMemory, clock: Clock) -> None:
    await memory.store("Ana prefers an aisle seat on flights.")
    clock.now += 1
    await memory.store("Ana prefers an aisle seat on flights")
    await memory.store("Ana sat in seat 12 on flight TP 430")
    await memory.store("Ana sat in seat 14 on flight TP 430")
    found = await contents(memory, "Which seat does Ana prefer on flights?", threshold=0.0)
    assert len([text for text in found if "aisle" in text]) == 1
    assert len([text for text in found if "TP 430" in text]) == 2, "other numbers are other facts"


async def test_newer_more_important_and_useful_come_first(memory: LongTermMemory, clock: Clock) -> None:
    ids = {}
    for name in ("old", "plain", "vital", "useless"):
        ids[name] = await memory.store(f"The meeting room code {name}", importance=0.9 if name == "vital" else 0.4)
        clock.now += 400 * DAY if name == "old" else 1
    for _ in range(3):
        assert await memory.feedback(ids["useless"], False)
    order = [text.split()[-1] for text in await contents(memory, "meeting room code", threshold=0.0)]
    assert order[0] == "vital"
    assert order.index("plain") < order.index("old")
    assert order.index("plain") < order.index("useless")
    for _ in range(6):
        await memory.feedback(ids["useless"], True)
    assert await memory.feedback(str(uuid.uuid4()), True) is False


async def test_several_aspects_of_a_query_are_found(memory: LongTermMemory) -> None:
    for number in range(12):
        await memory.store(f"Hannah of the sales department discussed the travel budget of month {number}")
    await memory.store("Hannah is allergic to peanuts")
    question = "Who of the sales department discussed the travel budget of month 3?"
    found = await contents(memory, f"{question} Which allergies does Hannah have?", threshold=0)
    assert "Hannah is allergic to peanuts" in found
    assert "Hannah of the sales department discussed the travel budget of month 3" in found


async def test_a_write_invalidates_cached_queries(memory: LongTermMemory, embedder: FragileEmbedder) -> None:
    await memory.store("red apples")
    assert await contents(memory, "apples") == ["red apples"]
    embedder.embedded.clear()
    assert await contents(memory, "apples") == ["red apples"]
    assert embedder.embedded == [], "the second answer is from the cache"
    await memory.store("green apples")
    assert set(await contents(memory, "apples")) == {"red apples", "green apples"}


async def test_uses_are_counted_also_from_the_cache(memory: LongTermMemory, clock: Clock) -> None:
    entry_id = await memory.store("red apples")
    for _ in range(3):
        await memory.query("apples")
    clock.now += 5
    await memory.upkeep.write_uses()
    entry = await memory.get(entry_id)
    assert entry is not None
    assert (entry.use_count, entry.last_used) == (3, clock.now - 5)


async def test_tenants_share_neither_entries_nor_cache(memory: LongTermMemory) -> None:
    await memory.store("the alarm code is 4711")
    assert len(await memory.query("alarm code")) == 1
    assert await memory.of_tenant("other").query("alarm code") == []


async def test_a_batch_returns_ids_in_order(memory: LongTermMemory) -> None:
    ids = await memory.store_batch([NewEntry(f"fact number {number}", importance=0.1) for number in range(30)])
    entry = await memory.get(ids[17])
    assert entry is not None
    assert entry.content == "fact number 17"
    assert await memory.store_batch([]) == []


async def test_forget_leaves_nothing_in_the_files(tmp_path: Path, clock: Clock) -> None:
    secret = "Xylophon4711"
    folder = tmp_path / "store"
    memory = LongTermMemory(
        SqliteLongTermStore(folder / "long_term.db"), outbox=Outbox(folder / "outbox.db"), clock=clock, timeout=30
    )
    async with memory:
        for number in range(50):
            await memory.store(f"An ordinary sentence with number {number}", {"user": "ben"})
        ids = [
            await memory.store(f"{secret} and number {number}", {"user": "ana", "session": f"s{number % 2}"})
            for number in range(20)
        ]
        await memory.archive(ids[0])
        await memory.query(secret)
        assert await memory.forget(user="ana", session="s1") == 10
        assert len(await contents(memory, secret, threshold=0.5, limit=20)) > 0
        assert await memory.forget(user="ana") == 10
        assert await contents(memory, secret, threshold=0.5, with_archived=True) == []
        assert (await memory.stats()).active == 50
        for file in sorted(folder.iterdir()):
            content = file.read_bytes().lower()
            assert secret.lower().encode() not in content, file.name
            assert b"xylophon" not in content, file.name
    with pytest.raises(InvalidArgument):
        await memory.forget()


async def test_an_export_restores_every_entry(memory: LongTermMemory, clock: Clock, tmp_path: Path) -> None:
    facts = (
        "Rui teaches physics",
        "The bridge was opened in 1998",
        "Ana plays the cello",
        "Invoices are due in May",
        "The office moves to Porto",
    )
    ids = [await memory.store(fact, {"user": "ana"}, 0.1 * number) for number, fact in enumerate(facts)]
    await memory.feedback(ids[1], True)
    await memory.archive(ids[2])
    file = tmp_path / "export.jsonl"
    assert await memory.export_to(file) == 5
    assert file.stat().st_mode & 0o077 == 0
    # The same clock: upkeep archives entries that are years old by the other one.
    store = SqliteLongTermStore(tmp_path / "second.db")
    async with LongTermMemory(store, clock=clock, monotonic=clock, timeout=30) as second:
        assert await second.import_from(file) == 5
        assert await second.import_from(file) == 0
        await second.upkeep.round()  # archives near-duplicates, which these are not
        before = {entry.id: entry for entry in await memory.page()}
        for entry in await second.page():
            old = before[entry.id]
            assert (
                entry.content,
                entry.metadata,
                entry.create_time,
                entry.importance,
                entry.useful,
                entry.archived,
            ) == ((old.content, old.metadata, old.create_time, old.importance, old.useful, old.archived))


@pytest.mark.search
async def test_an_export_is_restored_to_the_other_store(
    memory: LongTermMemory, clock: Clock, tmp_path: Path, weaviate_server: WeaviateProcess
) -> None:
    await memory.store("Rui teaches physics", {"user": "ana"})
    await memory.export_to(tmp_path / "export.jsonl")
    store = WeaviateLongTermStore(weaviate_server.url, collection=f"Test{uuid.uuid4().hex}")
    async with LongTermMemory(store, clock=clock, monotonic=clock, timeout=30) as other:
        assert await other.import_from(tmp_path / "export.jsonl") == 1
        await other.upkeep.round()
        assert await contents(other, "Who teaches physics?", filters={"user": "ana"}) == ["Rui teaches physics"]
        await other.export_to(tmp_path / "back.jsonl")
    assert await memory.import_from(tmp_path / "back.jsonl") == 0


async def test_a_changed_export_stores_nothing(memory: LongTermMemory, tmp_path: Path) -> None:
    await memory.store("the price is 100 euros")
    file = tmp_path / "export.jsonl"
    await memory.export_to(file)
    whole = file.read_text()
    async with LongTermMemory(SqliteLongTermStore(tmp_path / "second.db"), timeout=30) as second:
        for changed in (
            whole.replace("100", "900"),
            whole.replace('"importance": 0.5', '"importance": 0.9'),
            whole[: len(whole) // 2],
            whole.rsplit("\n", 2)[0],
            "{}\n",
            "",
        ):
            assert changed != whole
            file.write_text(changed)
            with pytest.raises((DataLoss, InvalidArgument)):
                await second.import_from(file)
        with pytest.raises(NotFound):
            await second.import_from(tmp_path / "missing")
        assert (await second.stats()).active == 0


async def test_a_damaged_entry_is_listed_and_not_fatal(memory: LongTermMemory, tmp_path: Path) -> None:
    sound, broken = await memory.store("a sound memory"), await memory.store("a broken memory")
    other = apsw.Connection(str(tmp_path / "long_term.db"))
    other.execute("UPDATE entries SET content = 'changed' WHERE id = ?", (broken,))
    other.close()
    assert [found.entry.id for found in await memory.query("memory")] == [sound]
    assert await memory.damaged() == [broken]
    assert (await memory.stats()).damaged == 1


async def test_a_summary_without_a_model_is_an_extract(memory: LongTermMemory, clock: Clock) -> None:
    for number in range(30):
        await memory.store(f"Small talk {number}", importance=0.1)
        clock.now += 1
    await memory.store("Anniversary with Hannah is on 9 May 2026 in Leeds", {"role": "user"}, 0.9)
    summary = await memory.summarize_recent()
    assert "[Memory from 2001-09-09, user] Anniversary with Hannah is on 9 May 2026 in Leeds" in summary
    assert summary == await memory.summarize_recent()
    assert len(summary.splitlines()) == 20


async def test_a_model_summarises_what_it_is_given(memory: LongTermMemory) -> None:
    prompts = []

    async def model(prompt: str) -> str:
        prompts.append(prompt)
        return " a summary "

    assert await memory.summarize_recent(model=model) == ""
    await memory.store("Ana lives in Lisbon")
    assert await memory.summarize_recent(model=model) == "a summary"
    assert "Ana lives in Lisbon" in prompts[0]


async def test_a_context_stays_within_its_budget(memory: LongTermMemory) -> None:
    for number in range(20):
        await memory.store(f"Ana said in talk {number} that the launch of Brasa is in June", {"role": "user"})
    await memory.store("Ana is vegetarian", {"role": "user"})
    context = await memory.retrieve_context(
        "Book a vegetarian dinner for Ana",
        200,
        history=[f"turn {number}: about the launch" for number in range(50)],
        template=Template("You are helpful.", "city: Lisbon", "Answer briefly."),
    )
    assert context.tokens <= 200
    lines = context.text.splitlines()
    assert lines[0] == "You are helpful."
    assert lines[-1] == "Answer briefly."
    assert any(line.endswith(", user] Ana is vegetarian") for line in lines)
    assert "turn 49: about the launch" in lines
    assert "turn 0: about the launch" not in lines
    assert json.dumps([memory.content for memory in context.memories])


async def test_a_full_outbox_is_refused_with_its_limits(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db", max_entries=2)
    # Nothing listens on these ports.
    store = WeaviateLongTermStore("weaviate://127.0.0.1:9?grpc_port=10")
    async with LongTermMemory(store, outbox=outbox) as memory:
        await memory.store("one")
        await memory.store("two")
        with pytest.raises(ResourceExhausted, match="2 of 2 entries"):
            await memory.store("three")
        with pytest.raises(Unavailable):
            await memory.query("one")
        assert await outbox.count("default") == 2
