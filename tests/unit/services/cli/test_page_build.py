"""The build of the web page beside a mesh that starts."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from archon_services.cli import page_build
from tests.fixtures.waiting import until


def prepare(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(page_build, "needs_build", lambda: True)
    monkeypatch.setattr(page_build, "COMMAND", (sys.executable, "-I", "-S", "-c", program))


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("print('built')", page_build.READY),
        ("import sys; sys.exit('error: no Node.js\\nis here')", "The web page is not built: no Node.js is here"),
    ],
)
async def test_a_build_says_how_it_ended(monkeypatch: pytest.MonkeyPatch, program: str, line: str) -> None:
    prepare(monkeypatch, program)
    lines: list[str] = []
    async with page_build.building_page(lines.append):
        await until(lambda: len(lines) == 2)
    assert lines == [page_build.BUILDING, line]


async def test_a_build_ends_with_its_mesh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = tmp_path / "started"
    prepare(monkeypatch, f"import pathlib, signal; pathlib.Path({str(started)!r}).touch(); signal.pause()")
    lines: list[str] = []
    async with asyncio.timeout(20), page_build.building_page(lines.append):
        await until(started.exists)
    assert lines == [page_build.BUILDING]


async def test_a_current_page_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_build, "needs_build", lambda: False)
    lines: list[str] = []
    async with page_build.building_page(lines.append):
        pass
    assert lines == []
