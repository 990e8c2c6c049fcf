"""What a test needs of this machine. Where it is missing the test is skipped with the reason; where ARCHON_REQUIRE names
it, as in `ARCHON_REQUIRE=go,node,java,grpcurl`, the test fails instead."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final, NoReturn

import pytest

TOOLS: Final = Path(__file__).resolve().parents[2] / ".tools"
"""What was built for tests; git ignores it."""


def find(program: str) -> Path | None:
    """In .tools/bin, else on PATH."""
    found = shutil.which(program, path=str(TOOLS / "bin")) or shutil.which(program)
    return Path(found) if found else None


def is_required(name: str) -> bool:
    """Whether ARCHON_REQUIRE names it."""
    return name in (word.strip() for word in os.environ.get("ARCHON_REQUIRE", "").split(","))


def missing(name: str, reason: str) -> NoReturn:
    """Skips, or fails where `name` is required."""
    if is_required(name):
        pytest.fail(f"{reason} (ARCHON_REQUIRE names {name})", pytrace=False)
    pytest.skip(reason)


def require(name: str, *programs: str) -> Path:
    """The first of the programs that make up `name`, which are called as it is where none are given."""
    wanted = programs or (name,)
    found = [find(program) for program in wanted]
    for program, path in zip(wanted, found, strict=True):
        if path is None:
            missing(name, f"{program} is neither in .tools/bin nor on PATH: install it, or `make tools`")
    assert found[0] is not None
    return found[0]
