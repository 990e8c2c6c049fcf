"""The folder of one mesh on this machine, and the lock that says whether it is up."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from archon.errors import ArchonError
from archon_services.local_mesh.errors import AlreadyUp

_TRIES = 10  # a reader holds the lock for an instant


@dataclass(frozen=True, slots=True)
class Home:
    """Where a mesh keeps its state, data and logs: `ARCHON_HOME`, else `.archon` in the current directory."""

    root: Path

    @classmethod
    def find(cls, environment: Mapping[str, str] | None = None) -> Home:
        """The folder that the environment names. It need not exist yet."""
        named = (os.environ if environment is None else environment).get("ARCHON_HOME", "")
        return cls(Path(named or ".archon").absolute())

    @property
    def state_file(self) -> Path:
        """What runs, as JSON."""
        return self.root / "state.json"

    @property
    def logs(self) -> Path:
        """One file per process."""
        return self.root / "logs"

    @property
    def etcd(self) -> Path:
        """etcd's data."""
        return self.root / "etcd"

    @property
    def journal(self) -> Path:
        """The orchestrator's journal."""
        return self.root / "journal.db"

    @property
    def memory(self) -> Path:
        """What agents published."""
        return self.root / "memory.db"

    def log_file(self, name: str) -> Path:
        """The log of one process."""
        return self.logs / f"{name}.log"

    def ready_file(self, name: str) -> Path:
        """Where a process writes its address once it serves."""
        return self.root / "run" / name

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Holds the folder for this process, so that no second mesh starts in it. The system lets go of it when the
        process ends, however it ends. Raises AlreadyUp; ArchonError where the folder can't be written."""
        try:
            for folder in (self.root, self.logs, self.root / "run"):
                folder.mkdir(parents=True, exist_ok=True)
            handle = self._lock_file.open("a+")
        except OSError as error:
            raise ArchonError(f"the folder {self.root} can't be used: {error.strerror}") from error
        with handle:
            for left in range(_TRIES - 1, -1, -1):
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not left:
                        pid = str(self.holder())
                        raise AlreadyUp(
                            f"a mesh is already up in {self.root} (process {pid})", metadata={"pid": pid}
                        ) from None
                    time.sleep(0.01)
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
            yield

    def holder(self) -> int:
        """The process that runs the mesh; 0 where none does."""
        try:
            with self._lock_file.open() as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(handle.read() or 0) or -1
        except OSError:
            pass
        return 0

    @property
    def _lock_file(self) -> Path:
        return self.root / "lock"
