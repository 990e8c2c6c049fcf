"""The library of JSON Schema is loaded beside the event loop, and only for tools that need it."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from archon_mesh.tools import tool
from archon_mesh.tools.builtin import Calculator
from archon_mesh.tools.function import FunctionTool
from archon_mesh.tools.schema_library import LIBRARY, load_schema_library

SLOW = """
import builtins
builtins.importing.set()
builtins.go_on.wait(10)
"""


@tool
def look() -> str:
    """Looks."""
    return "a door"


@pytest.fixture
def slow_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """A library whose import waits: events of its begin, and to let it end."""
    (tmp_path / f"{LIBRARY}.py").write_text(SLOW)
    importing, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr("builtins.importing", importing, raising=False)
    monkeypatch.setattr("builtins.go_on", go_on, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, LIBRARY, raising=False)
    yield importing, go_on
    go_on.set()
    sys.modules.pop(LIBRARY, None)


async def test_the_event_loop_goes_on_while_the_library_is_imported(
    slow_library: tuple[threading.Event, threading.Event],
) -> None:
    importing, go_on = slow_library
    loading = asyncio.create_task(load_schema_library([Calculator()]))
    assert await asyncio.to_thread(importing.wait, 10)
    assert not loading.done()
    go_on.set()
    await loading
    assert LIBRARY in sys.modules


async def test_functions_need_no_library(slow_library: tuple[threading.Event, threading.Event]) -> None:
    await load_schema_library([look if isinstance(look, FunctionTool) else FunctionTool(look)])
    assert LIBRARY not in sys.modules
