"""Settings of the memory service."""

from __future__ import annotations

import pytest

from archon.errors import InvalidArgument
from archon_services.common.settings import load
from archon_services.memory import MemorySettings


def test_flags_precede_environment_precedes_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARCHON_HOME", raising=False)
    assert load(MemorySettings, []).db == ".archon/memory.db"
    monkeypatch.setenv("ARCHON_HOME", "/home/of/archon")
    assert load(MemorySettings, []).db == "/home/of/archon/memory.db"
    monkeypatch.setenv("ARCHON_DB", ":memory:")
    assert load(MemorySettings, []).db == ":memory:"
    assert load(MemorySettings, ["--db", "x.db"]).db == "x.db"


@pytest.mark.parametrize("flags", [["--registry", "nowhere"], ["--sync", "sometimes"], ["--db", ""]])
def test_invalid_value_is_named(flags: list[str]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        load(MemorySettings, flags)
    assert refused.value.field_violations[0].field == flags[0].removeprefix("--")
