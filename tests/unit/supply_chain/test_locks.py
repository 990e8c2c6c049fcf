"""The locks: what is not locked, or locked otherwise than required, is named; each pin has hashes."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.supply_chain.lockfile import BUILD, EVERYTHING, IMAGE, LockfileError, read
from tests.supply_chain.locks import check, declared, project, unmet

HASH = "a" * 64


def locked(folder: Path, text: str) -> Path:
    path = folder / "locked.txt"
    path.write_text(text)
    return path


def test_the_committed_locks_satisfy_the_project() -> None:
    assert check(read(EVERYTHING), read(IMAGE), project()) == []


def test_no_lock_names_an_index() -> None:
    assert [path.name for path in (EVERYTHING, IMAGE, BUILD) if "://" in path.read_text()] == []


def test_an_extra_of_the_project_brings_what_it_names() -> None:
    names = {requirement.name for requirement in declared(project(), ["dev"])}
    assert {"grpcio", "pytest", "mypy", "pydantic-ai-slim"} <= names


@pytest.mark.parametrize(
    ("required", "line"),
    [
        ("a>=2", "a>=2 is locked as 1.5"),
        ("b", "b is not locked"),
        ("c; python_version < '3.12'", 'c; python_version < "3.12" is not locked'),
    ],
)
def test_what_a_lock_lacks_is_named(tmp_path: Path, required: str, line: str) -> None:
    pins = read(locked(tmp_path, f"a==1.5 \\\n    --hash=sha256:{HASH}\n    # via archon-mesh\n"))
    assert unmet(pins, [Requirement(required)]) == [line]


def test_a_pin_for_some_pythons_is_missing_on_the_others(tmp_path: Path) -> None:
    pins = read(locked(tmp_path, f"a==1 ; python_full_version < '3.12' \\\n    --hash=sha256:{HASH}\n"))
    assert unmet(pins, [Requirement("a")]) == ["a is not locked"]
    assert unmet(pins, [Requirement("a; python_version < '3.12'")]) == []


@pytest.mark.parametrize(
    "text", ["a==1\n", "a>=1 --hash=sha256:" + HASH, "a==1 --hash=md5:abc\n", "-e .\n", "git+https://x/y\n"]
)
def test_a_line_without_version_or_hash_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(LockfileError):
        read(locked(tmp_path, text))
