"""The key of a mesh on this machine that seals its histories, and its public keys."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from archon.errors import FailedPrecondition
from archon.history import AuditKey, PublicKeys
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.private_replace import replace_file

MAX_KEYS: Final = 1_000
"""Public keys that are kept: a history verifies as long as the key of its seals is among them."""


def prepare_audit_key(home: Home) -> AuditKey:
    """Makes the key of the mesh, unless there is one, and adds its public half to the public keys. Raises
    FailedPrecondition if the files of the keys cannot be used."""
    key = AuditKey.read(home.audit_key) if home.audit_key.exists() else _new_key(home)
    if key.key_id not in _public(home.folder.audit_keys_file):
        _add_public(home, key)
    return key


def rotate_audit_key(home: Home) -> AuditKey:
    """Replaces the key. Seals of the earlier one verify as before: its public half stays. Raises
    FailedPrecondition as `prepare_audit_key` does."""
    key = _new_key(home)
    _add_public(home, key)
    return key


def _new_key(home: Home) -> AuditKey:
    key = AuditKey.generate()
    replace_file(home.audit_key, key.pem)
    return key


def _public(file: Path) -> set[str]:
    return set(PublicKeys.read(file).keys) if file.exists() else set()


def _add_public(home: Home, key: AuditKey) -> None:
    file = home.folder.audit_keys_file
    if len(_public(file)) >= MAX_KEYS:
        raise FailedPrecondition(f"{file} has {MAX_KEYS:,} keys: move the oldest ones to another file")
    replace_file(file, key.public_pem + (file.read_bytes() if file.exists() else b""))
