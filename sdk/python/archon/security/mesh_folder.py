"""The folder of a mesh on this machine, as programs outside of the mesh find it: its token, its public keys, and the
addresses of its services."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from archon.loopback import is_loopback
from archon.private_files import fault_of

NAME: Final = ".archon"

chosen: list[Callable[[], Path | None]] = []
"""Functions of the program that choose a folder before the nearest one, such as the folder of a context of the command
line."""

_INTERVAL: Final = 0.1
"""Seconds between two looks for a folder: a mesh writes its addresses before it serves."""


@dataclass(frozen=True, slots=True)
class MeshFolder:
    """The folder at `root`. It need not exist."""

    root: Path

    @property
    def lock_file(self) -> Path:
        """Is locked by the supervisor while the mesh runs."""
        return self.root / "lock"

    @property
    def state_file(self) -> Path:
        """The state of the mesh as JSON."""
        return self.root / "state.json"

    @property
    def token_file(self) -> Path:
        """The tokens of the user who started the mesh."""
        return self.root / "token"

    @property
    def keys_file(self) -> Path:
        """The public keys that verify the tokens of the mesh."""
        return self.root / "keys.json"

    @property
    def audit_keys_file(self) -> Path:
        """The public keys that verify the histories of the mesh, the newest first."""
        return self.root / "audit.pub.pem"

    def holder(self) -> int:
        """Returns the id of the process that holds the lock; 0 if it is free, -1 if the id is not written yet."""
        try:
            with self.lock_file.open() as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(handle.read() or 0) or -1
        except OSError:
            pass
        return 0

    @property
    def user_certificate(self) -> Path:
        """The folder of the certificate of the user who started the mesh, if its connections are encrypted."""
        return self.root / "tls" / "user"

    def live_state(self) -> dict[str, Any] | None:
        """Returns the state of the mesh; None if it does not run, or another user could have written it."""
        try:
            if fault_of(self.root) or not (pid := self.holder()):
                return None
            state = json.loads(self.state_file.read_text())
        except (OSError, ValueError):
            return None
        return state if isinstance(state, dict) and state.get("pid") == pid else None

    def serves(self, target: str) -> bool:
        """Returns whether a running mesh of this folder has a service at `target` (host:port). Another program may
        listen there while the mesh does not run: it would get the token."""
        return _has(self.live_state(), target, ("service",))

    def encrypts(self, target: str) -> bool:
        """Returns whether a running mesh of this folder has a service or an agent at `target` (host:port), and encrypts
        its connections."""
        state = self.live_state()
        return state is not None and bool(state.get("tls")) and _has(state, target, ("service", "agent"))


def _has(state: dict[str, Any] | None, target: str, kinds: tuple[str, ...]) -> bool:
    host, _, port = target.rpartition(":")
    if state is None or not port.isdecimal() or not is_loopback(host):
        return False
    try:
        addresses = [process["address"] for process in state["processes"] if process["kind"] in kinds]
        return any(address.rpartition(":")[2] == port for address in addresses)
    except (AttributeError, TypeError, KeyError):
        return False


class ServingFolder:
    """The folder of the mesh whose service is at `target`: looked for until it is found, in intervals."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._found: MeshFolder | None = None
        self._looked = -_INTERVAL

    def find(self) -> MeshFolder | None:
        """Returns the folder; None if none is found now."""
        now = time.monotonic()
        if self._found is None and now - self._looked >= _INTERVAL:
            self._looked = now
            self._found = next((folder for folder in candidates() if folder.serves(self._target)), None)
        return self._found


def candidates() -> list[MeshFolder]:
    """Returns the folders in which a program looks for its mesh: ARCHON_HOME, else those that it chooses, and the
    nearest."""
    if configured := os.environ.get("ARCHON_HOME", ""):
        return [MeshFolder(Path(configured).absolute())]
    roots = [root for choose in chosen if (root := choose()) is not None]
    try:
        nearest = nearest_folder(Path.cwd())
        roots += [] if nearest.is_symlink() else [nearest]
    except FileNotFoundError:  # the current directory has been removed
        pass
    return [MeshFolder(root) for root in roots]


def nearest_folder(start: Path) -> Path:
    """Returns the nearest folder NAME. Outside of a repository and of the user's home only `start` is searched: a
    folder above it may be another user's."""
    searched: list[Path] = []
    for folder in (start, *start.parents):
        searched.append(folder / NAME)
        if folder == Path.home() or (folder / ".git").exists():
            return next((found for found in searched if found.is_dir()), start / NAME)
    return start / NAME
