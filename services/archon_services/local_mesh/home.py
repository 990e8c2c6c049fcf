"""The folder of a mesh on this machine, and the file lock that its supervisor holds."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from archon.errors import ArchonError, FailedPrecondition
from archon.private_files import fault_of, faults_within, private_folder
from archon.security.mesh_folder import MeshFolder, nearest_folder
from archon_services.local_mesh.errors import AlreadyUp

_TRIES = 10  # `holder` takes the lock for an instant
MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Home:
    """The folder with the state, data and logs of a mesh: ARCHON_HOME, else the nearest `.archon` from the current
    directory up to the root of its repository or the user's home, else `.archon` in the current directory."""

    root: Path

    @classmethod
    def find(cls, environment: Mapping[str, str] | None = None) -> Home:
        """Returns the folder that the environment configures. It need not exist. Raises FailedPrecondition as `check`
        does, for a link that is not configured, and if the current directory is gone."""
        folder = (os.environ if environment is None else environment).get("ARCHON_HOME", "")
        try:
            home = cls(Path(folder).absolute() if folder else nearest_folder(Path.cwd()))
        except FileNotFoundError:
            raise _no_directory() from None
        if not folder and home.root.is_symlink():
            raise home._unusable("it is a link")
        home.check()
        return home

    def check(self) -> None:
        """Raises FailedPrecondition if another user could have written the folder's content."""
        try:
            fault = fault_of(self.root)
            is_own = self.root.stat().st_uid == os.geteuid()
        except OSError:
            return  # there is none, or its use says why it has none
        if fault or not is_own:
            raise self._unusable(fault or f"it belongs to user {self.root.stat().st_uid}")

    def _unusable(self, reason: str) -> FailedPrecondition:
        return FailedPrecondition(f"cannot use the folder {self.root}: {reason}; choose another one with ARCHON_HOME")

    @property
    def folder(self) -> MeshFolder:
        """The folder as programs outside of the mesh find it."""
        return MeshFolder(self.root)

    @property
    def state_file(self) -> Path:
        """The state of the mesh as JSON."""
        return self.folder.state_file

    @property
    def signing_key(self) -> Path:
        """The private key that signs the tokens of the mesh."""
        return self.root / "signing-key.json"

    @property
    def audit_key(self) -> Path:
        """The private key that seals the histories of the mesh."""
        return self.root / "audit-key.pem"

    @property
    def session_key(self) -> Path:
        """The key that seals the sessions of browsers at the HTTP gateway."""
        return self.root / "session.key"

    @property
    def hook_key(self) -> Path:
        """The key that seals the secrets of hooks in the journal."""
        return self.root / "hooks.key"

    @property
    def tls(self) -> Path:
        """The folder of the authority and of the certificates of its processes, if connections are encrypted."""
        return self.root / "tls"

    def certificate(self, name: str) -> Path:
        """Returns the folder with the certificate of a process."""
        return self.tls / name

    @property
    def https_certificate(self) -> Path:
        """The folder with the certificate that clients of the HTTP gateway see."""
        return self.tls / "https"

    def process_token(self, name: str) -> Path:
        """Returns the file with the tokens of a process."""
        return self.root / "tokens" / name

    @property
    def logins(self) -> Path:
        """The folder of one-time logins at the HTTP gateway."""
        return self.root / "logins"

    @property
    def logs(self) -> Path:
        """The folder of the logs, one file per process."""
        return self.root / "logs"

    @property
    def etcd(self) -> Path:
        """The data folder of etcd."""
        return self.root / "etcd"

    @property
    def journal(self) -> Path:
        """The database of the orchestrator's journal."""
        return self.root / "journal.db"

    @property
    def memory(self) -> Path:
        """The database of the shared memory."""
        return self.root / "memory.db"

    def log_file(self, name: str) -> Path:
        """Returns the log of a process."""
        return self.logs / f"{name}.log"

    def ready_file(self, name: str) -> Path:
        """Returns the file to which a process writes its address once it serves."""
        return self.root / "run" / name

    @property
    def workflow_role(self) -> Path:
        """Exists once the role `workflow` was started here: unfinished runs of the journal may need it."""
        return self.root / "workflow-role"

    @property
    def control_socket(self) -> Path:
        """The socket on which the supervisor takes commands."""
        return self.root / "control.sock"

    @property
    def sockets(self) -> Path:
        """The folder of the sockets by which its processes reach each other."""
        return self.root / "sockets"

    def mesh_id(self) -> str:
        """Returns the id of the mesh; empty if no mesh was ever started here."""
        try:
            return self._mesh_id_file.read_text().strip()
        except OSError:
            return ""

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Locks the folder, so that no second mesh starts in it. The system releases the lock when the process ends.

        Raises AlreadyUp if another process holds the lock, ArchonError if the folder is not writable or its disk is
        full, FailedPrecondition if it is another user's, or has links, by which files elsewhere would be written.
        """
        try:
            os.getcwd()  # in which its processes start
        except FileNotFoundError:
            raise _no_directory() from None
        self.check()
        for fault in faults_within(self.root):
            raise self._unusable(fault)
        previous = os.umask(0o077)  # state, logs and the files of child processes are for their owner alone
        try:
            yield from self._locked()
        finally:
            os.umask(previous)

    def _locked(self) -> Iterator[None]:
        try:
            for folder in (self.root, self.logs, self.root / "run"):
                private_folder(folder)
            handle = self._lock_file.open("a+")
            self.check_room(MEBIBYTE)
            (self.root / ".gitignore").write_text("*\n")
        except OSError as error:
            raise ArchonError(f"cannot use the folder {self.root}: {error.strerror}") from error
        with handle:
            for retries_left in range(_TRIES - 1, -1, -1):
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not retries_left:
                        pid = str(self.holder())
                        raise AlreadyUp(
                            f"a mesh is already running in {self.root} (process {pid})", metadata={"pid": pid}
                        ) from None
                    time.sleep(0.01)
            if not self.mesh_id():
                self._mesh_id_file.write_text(f"{secrets.token_hex(6)}\n")
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
            for left in self.sockets.glob("*.sock"):  # of processes that were killed
                left.unlink(missing_ok=True)
            yield

    def is_held(self) -> bool:
        """Whether the folder is still the one that this process locked: not removed, moved or replaced since."""
        try:
            return self._lock_file.read_text() == str(os.getpid())
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # such as EIO: it says nothing about the folder

    def check_room(self, needed: int) -> None:
        """Raises ArchonError if the disk has fewer bytes left than needed."""
        left = shutil.disk_usage(self.root).free
        if left < needed:
            raise ArchonError(
                f"the disk of {self.root} is full: {left / MEBIBYTE:.1f} MiB are left, {needed // MEBIBYTE} MiB are "
                "needed; make room and start again"
            )

    def holder(self) -> int:
        """Returns the id of the process that holds the lock; 0 if it is free, -1 if the id is not written yet."""
        return self.folder.holder()

    @property
    def _mesh_id_file(self) -> Path:
        return self.root / "mesh-id"

    @property
    def _lock_file(self) -> Path:
        return self.folder.lock_file


def _no_directory() -> FailedPrecondition:
    return FailedPrecondition("the current directory has been removed: change to another one")
