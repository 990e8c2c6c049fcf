"""Revoked tokens: the newest are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archon_services.local_mesh import Home, tokens
from archon_services.local_mesh.tokens import TokenIssuer


def test_above_the_limit_the_tokens_revoked_first_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_REVOKED", 3)
    issuer = TokenIssuer(Home(tmp_path))
    issuer.prepare()
    for token_id in ("z-first", "y", "x", "a-last", "y"):
        issuer.revoke(token_id)
    assert json.loads((tmp_path / "keys.json").read_text())["revoked"] == ["x", "a-last", "y"]
