"""What building the Go tools says while it lasts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import cache, tools


def test_each_build_is_reported_before_and_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(tools, "BIN", tmp_path)
    monkeypatch.setattr(tools, "TOOLS", tmp_path)
    lines: list[str] = []

    def install(name: str) -> None:
        assert lines[-1].startswith(f"building {tools.PACKAGES[name]} "), "the line comes before the build"
        (tmp_path / name).write_text("a program")

    monkeypatch.setattr(tools, "_install", install)
    assert tools.build(["grpcurl", "kustomize"], lines.append) == ["grpcurl", "kustomize"]
    assert [line.split()[:2] for line in lines[1::2]] == [["built", "grpcurl"], ["built", "kustomize"]]
    assert len(lines) == 4
