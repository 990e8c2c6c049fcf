"""Keys that seal secrets of hooks: replicas whose file changes at different times, and the end of a key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from archon.errors import FailedPrecondition
from archon_services.orchestrator.hooks import SecretSealer
from archon_services.orchestrator.hooks.hook import Hook, Scheme
from archon_services.orchestrator.schedules.schedule import Owner


def keys(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def hook(sealer: SecretSealer, **fields: object) -> Hook:
    made = Hook("t", "h", "u", Scheme.GITHUB, b"run", Owner("ann"), 1.0, 1.0, sealer.seal("t", "u", "secret"), 1.0)
    return replace(made, **fields)  # type: ignore[arg-type]


def test_a_replica_with_the_file_of_before_reads_it_when_it_needs_the_new_key(tmp_path: Path) -> None:
    old, new = Fernet.generate_key(), Fernet.generate_key()
    path = keys(tmp_path / "hooks.key", old)
    first = SecretSealer(path)
    assert first.current(hook(first)) == "secret"
    keys(path, new, old)
    second = SecretSealer(path)
    assert first.current(hook(second)) == "secret", "sealed with the new key by a replica that has it"
    assert second.current(hook(first)) == "secret"


def test_a_resealed_hook_opens_without_the_key_of_before(tmp_path: Path) -> None:
    old, new = Fernet.generate_key(), Fernet.generate_key()
    path = keys(tmp_path / "hooks.key", old)
    sealer = SecretSealer(path)
    before = hook(sealer, previous=sealer.seal("t", "u", "earlier"), previous_until=10.0)
    keys(path, new, old)
    after = sealer.resealed(before, 5.0)
    keys(path, new)
    fresh = SecretSealer(path)
    assert fresh.valid(after, 5.0) == ["secret", "earlier"]
    with pytest.raises(FailedPrecondition, match="ARCHON_HOOK_KEY"):
        fresh.current(before)
    assert sealer.resealed(after, 11.0).previous == "", "it is not valid any more"


@pytest.mark.parametrize("content", [b"", b"no key\n", b"\xff\xfe"])
def test_a_file_that_breaks_while_it_changes_leaves_open_what_opens(tmp_path: Path, content: bytes) -> None:
    path = keys(tmp_path / "hooks.key", Fernet.generate_key())
    sealer, other = SecretSealer(path), SecretSealer(keys(tmp_path / "other.key", Fernet.generate_key()))
    mine, foreign = hook(sealer), hook(other)
    path.write_bytes(content)
    with pytest.raises(FailedPrecondition):
        sealer.current(foreign)
    assert sealer.current(mine) == "secret"


def test_a_file_that_was_taken_away_is_not_made_anew(tmp_path: Path) -> None:
    path = keys(tmp_path / "hooks.key", Fernet.generate_key())
    sealer, other = SecretSealer(path), SecretSealer(keys(tmp_path / "other.key", Fernet.generate_key()))
    mine, foreign = hook(sealer), hook(other)
    path.unlink()
    with pytest.raises(FailedPrecondition, match="ARCHON_HOOK_KEY"):
        sealer.current(foreign)
    assert (sealer.current(mine), path.exists()) == ("secret", False)


def test_a_folder_that_cannot_be_written_refuses_hooks_alone_until_it_has_the_file(tmp_path: Path) -> None:
    path = tmp_path / "nothing" / "hooks.key"
    path.parent.write_text("no folder")
    sealer = SecretSealer(path)
    with pytest.raises(FailedPrecondition, match="cannot use the key"):
        sealer.seal("t", "u", "secret")
    path.parent.unlink()
    path.parent.mkdir()
    keys(path, b"  " + Fernet.generate_key() + b" \r\n")
    assert sealer.current(hook(sealer)) == "secret", "blanks and line ends of an editor do not count"
