"""The tables of spans and attributes in docs/observability.md, compared with what real processes emit."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from archon.telemetry import names
from archon_mesh.planning import committee
from archon_services.testing import EtcdProcess
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.span_collector import Received, SpanCollector, environment

PAGE = Path(__file__).parents[4] / "docs" / "observability.md"


def table(header: str) -> list[list[str]]:
    """Returns the cells of the page's table with this header."""
    lines = PAGE.read_text().splitlines()
    start = lines.index(header)
    rows: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def documented() -> dict[str, set[str]]:
    """Returns the attributes of the page, each with the words for the spans that have it."""
    rows = table("| attribute | spans | meaning |")
    return {name: set(spans.split(", ")) for cell, spans, _ in rows for name in re.findall(r"`([^`]+)`", cell)}


def word(received: Received) -> str:
    """Returns the page's word for a span."""
    words = {"invoke_workflow": "workflow", "invoke_agent": "agent", "execute_tool": "tool"}
    words |= {"chat": "chat", "decide": "decide"}
    return words.get(received.span.name.split()[0], "call")


@pytest.fixture
async def trace(
    span_collector: SpanCollector, etcd: EtcdProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[Received]]:
    """The spans of two runs of two agents, one of which has opted in to newer names and contents. In the second run they
    are a committee."""
    for variable, value in environment(span_collector.address).items():
        monkeypatch.setenv(variable, value)
    mesh = ProcessMesh(tmp_path, etcd.address)
    await mesh.start()
    try:
        module = "tests.fixtures.traced_agent"
        memory = mesh.memory.address
        await mesh.agent_process("scholar", module=module, SCHOLAR_ROLE="scholar", ARCHON_MEMORY=memory)
        chosen: dict[str, Any] = {names.OPT_IN: "gen_ai_latest_experimental", names.CAPTURE_CONTENT: "true"}
        await mesh.agent_process("critic", "scholar", module=module, SCHOLAR_ROLE="critic", **chosen)
        handle = await mesh.client.submit("x", roles=["scholar", "critic"], session_id="s", wait=30)
        assert handle.run is not None and not handle.run.proto.failure.message
        spans = await span_collector.trace(handle.run_id, "archon-orchestrator", "archon-memory", "scholar", "critic")
        roles = ["scholar", "critic"]
        steps = [asdict(step) for step in committee("Is it done?", roles=roles)]
        plan = json.dumps({"goal": "x", "subtasks": steps})
        decided = await mesh.client.submit("x", strategy="plan", plan=plan, roles=roles, wait=30)
        assert decided.run is not None and not decided.run.proto.failure.message
        yield [*spans, *await span_collector.trace(decided.run_id, "archon-orchestrator", "scholar", "critic")]
    finally:
        await mesh.stop()


def attributes_of(trace: list[Received]) -> Mapping[str, set[str]]:
    """Returns the attributes that were emitted, each with the words for the spans that had it."""
    emitted: dict[str, set[str]] = defaultdict(set)
    for received in trace:
        for name in received.attributes:
            emitted[name].add(word(received))
        for link in received.span.links:
            for attribute in link.attributes:
                emitted[attribute.key].add(word(received))
    return emitted


def span_form(received: Received) -> tuple[str, str]:
    """Returns a span's name with a placeholder, and its kind, as the page writes them."""
    kind = Span.SpanKind.Name(received.span.kind).removeprefix("SPAN_KIND_").lower()
    first = received.span.name.split()[0]
    inner = {"invoke_agent": "ROLE" if kind != "internal" else "NAME"}
    places = {"invoke_workflow": "STRATEGY", "chat": "MODEL", "execute_tool": "NAME", "decide": "RULE", **inner}
    return (f"{first} {places[first]}" if first in places else "PACKAGE.SERVICE/METHOD"), kind


async def test_every_span_and_attribute_is_on_the_page(trace: list[Received]) -> None:
    emitted, page = attributes_of(trace), documented()
    unknown = {
        name: spans
        for name, spans in emitted.items()
        if "all" not in page.get(name, set()) and not spans <= page.get(name, set())
    }
    assert unknown == {}, "spans that have an attribute which the page does not have for them"
    missing = {name for name, spans in page.items() if "all" not in spans and not spans <= emitted.get(name, set())}
    assert missing == set(), "attributes of the page that no span had"
    forms = {
        (name.strip("`"), each) for name, kinds, _ in table("| span | kind | process |") for each in kinds.split(" or ")
    }
    assert {span_form(received) for received in trace} == forms - {("archon run", "internal")}


def test_the_page_has_the_names_of_the_code() -> None:
    own = {value for key, value in vars(names).items() if key.isupper() and isinstance(value, str) and "." in value}
    events = {
        names.TAKEN_OVER,
        names.PAUSED,
        names.RESUMED,
        names.CANCEL_REQUESTED,
        names.INPUT_REQUESTED,
        names.INPUT_GIVEN,
    }
    assert own - events | {"gen_ai.system", "gen_ai.provider.name"} == set(documented())
    text = PAGE.read_text()
    assert [name for name in sorted(events) if f"`{name}`" not in text] == []
