"""The files of a mesh's logs: following, excerpts, and their size."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from archon_services.local_mesh import logs
from archon_services.local_mesh.logs import follow_logs, last_lines, limit_size
from tests.fixtures.waiting import until

LINE = json.dumps({"time": "2026-11-23T14:02:11.5Z", "level": "error", "message": "a\u2028b", "run_id": "r"})


def test_an_excerpt_is_text_for_people(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(f"earlier\n{LINE}\nValueError: x\n")
    first, second = last_lines(log, lines=2).split("\n")
    assert first[12:] == " error   ab run=r"
    assert second == "ValueError: x"
    assert last_lines(log, offset=log.stat().st_size) == ""


def test_a_log_above_its_limit_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_LOG", 10)
    log = tmp_path / "x.log"
    with log.open("a") as appending:  # as a process does
        appending.write("0123456789")
        appending.flush()
        assert not limit_size(log)
        appending.write("more")
        appending.flush()
        assert limit_size(log)
        appending.write("again")
    assert log.read_text() == "again", "the process goes on in the same file"
    assert (tmp_path / "x.old.log").read_text() == "0123456789more"


async def test_a_log_that_begins_anew_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_POLL", 0.01)
    log, shown = tmp_path / "x.log", list[str]()
    log.write_text("a long first line\n")
    following = asyncio.create_task(follow_logs(lambda: [("x", log)], lambda _, line: shown.append(line)))
    await until(lambda: shown == ["a long first line"])
    log.write_text("new\n")
    await until(lambda: shown == ["a long first line", "new"])
    following.cancel()
    await asyncio.wait([following])
