"""Working memory of a task: the same rules as the served form."""

from __future__ import annotations

from typing import Any

import pytest

from archon.errors import Aborted, InvalidArgument, ResourceExhausted
from archon_mesh.memory import WorkingMemory


def test_values_are_set_updated_cleared_and_versions_continue() -> None:
    memory = WorkingMemory(clock=lambda: 7.0)
    assert (memory.get("k"), memory.get("k", "none"), memory.version("k")) == (None, "none", 0)
    assert memory.set("k", None) == 1
    assert memory.get("k", "none") is None
    memory.update({"k": [1], "other": 2})
    assert memory.to_dict() == {"k": [1], "other": 2}
    value = memory.get_value("k")
    assert value is not None and (value.version, value.timestamp) == (2, 7.0)
    assert [value.key for value in memory.list_values("o")] == ["other"]
    assert memory.delete("other") and not memory.delete("other")
    memory.clear()
    assert (memory.to_dict(), memory.version("k")) == ({}, 0)
    assert memory.set("k", 1) == 3


def test_each_task_has_its_own_working_memory() -> None:
    memory, other = WorkingMemory(), WorkingMemory()
    memory.set("k", 1)
    assert other.to_dict() == {}


def test_write_with_a_wrong_expected_version_changes_nothing() -> None:
    memory = WorkingMemory()
    assert memory.set("k", 1, 0) == 1
    for expected in (0, 2):
        with pytest.raises(Aborted) as refused:
            memory.set("k", 2, expected)
        assert (refused.value.reason, refused.value.metadata["version"]) == ("CONFLICT", "1")
    with pytest.raises(Aborted):
        memory.delete("k", 2)
    assert memory.delete("k", 1) and not memory.delete("k", 1)
    assert memory.set("k", 1, 0) == 2


def test_values_are_copied_on_read_and_on_write() -> None:
    memory, value = WorkingMemory(), {"deep": [1]}
    memory.set("k", value)
    value["deep"].append(2)
    memory.get("k")["deep"].append(3)
    assert memory.get("k") == {"deep": [1]}


@pytest.mark.parametrize(
    "value", [pytest.param(object(), id="object"), {1: 2}, (1,), float("inf"), b"x", "\ud800", {"k": {1}}], ids=repr
)
def test_value_that_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument):
        WorkingMemory().set("k", value)


@pytest.mark.parametrize("key", ["", "x" * 257, "\0", 1])
def test_invalid_key_is_refused(key: Any) -> None:
    with pytest.raises(InvalidArgument):
        WorkingMemory().set(key, 1)
    with pytest.raises(InvalidArgument):
        WorkingMemory().get(key)


def test_values_and_keys_are_bounded_as_in_the_served_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_mesh.memory.working.MAX_KEYS", 2)
    memory = WorkingMemory()
    with pytest.raises(ResourceExhausted) as refused:
        memory.set("k", "x" * 1024 * 1024)
    assert refused.value.reason == "MESSAGE_TOO_LARGE"
    memory.update({"a": 1, "b": 2})
    memory.delete("a")
    with pytest.raises(ResourceExhausted):
        memory.set("c", 3)
    assert memory.set("a", 1) == 2
