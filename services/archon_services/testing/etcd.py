"""A real etcd for tests, which can be killed, frozen and wiped."""

from __future__ import annotations

import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from archon.errors import Unavailable
from archon.security.certificates import AUTHORITY, CERTIFICATE, KEY
from archon_services.local_mesh.etcd_server import etcd_command
from archon_services.testing import child_signals

_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens URLs of this machine, through no proxy."""


def free_ports(host: str, count: int) -> list[int]:
    """Returns distinct ports that are free now, and that the system gives to no outgoing connection: a process that is
    down for a while finds its port free."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(10_000, _first_outgoing_port())
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


def _first_outgoing_port() -> int:
    """Returns the lowest port that the system may give to an outgoing connection."""
    try:
        return max(11_000, int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]))
    except OSError:
        return 32_768


class EtcdProcess:
    """A single-member etcd as a child process, with the same ports and data over all restarts.

    With the folder of a `certificate`, clients connect with TLS: `arguments` have the certificate of etcd, and the
    folder the one of its health checks. `close` removes the data unless `data_dir` is given. Usable as a context
    manager. Methods block for fractions of a second and need no event loop."""

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        peer_port: int = 0,
        arguments: Sequence[str] = (),
        certificate: Path | None = None,
    ) -> None:
        self._certificate = certificate
        self._keep = data_dir is not None
        self.data_dir = data_dir or Path(tempfile.mkdtemp(prefix="archon-etcd-"))
        self.log_file = self.data_dir / "etcd.log"
        self._arguments = tuple(arguments)
        client, peer = free_ports(host, 2)
        self.address = f"{host}:{port or client}"
        """The address for clients, host:port."""
        self._peer = f"{host}:{peer_port or peer}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; 0 if there is no process."""
        return self._process.pid if self._process is not None else 0

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of a process that has ended by itself, negative for a signal; None if it runs, or none does."""
        return self._process.poll() if self._process is not None else None

    def start(self, timeout: float = 15.0) -> str:
        """Starts etcd, waits until it answers, and returns its address. Idempotent.

        Raises Unavailable with the end of the log if it does not answer within `timeout` seconds.
        """
        if self.running:
            return self.address
        self.launch()
        self.wait(timeout)
        return self.address

    def launch(self) -> None:
        """Starts etcd without waiting: a member of a cluster answers only once a majority is up. Idempotent."""
        if self.running:
            return
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            # its own session, so that Ctrl-C in the terminal does not reach it before the services
            self._process = subprocess.Popen(
                [*self._command(), *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, timeout: float = 15.0) -> None:
        """Waits after `launch` until etcd answers. Raises Unavailable as `start` does."""
        end = time.monotonic() + timeout
        while not self._answers():
            if not self.running or time.monotonic() > end:
                self.kill()
                raise Unavailable(f"etcd does not start; end of {self.log_file}: {self.log_end()}")
            time.sleep(0.02)

    def _command(self) -> Sequence[str]:
        command = etcd_command(self.data_dir / "data", self.address, self._peer)
        if self._certificate is None:
            return command
        return [word.replace(f"http://{self.address}", f"https://{self.address}") for word in command]

    def stop(self, timeout: float = 5.0) -> None:
        """Sends SIGTERM, and SIGKILL after `timeout` seconds. Keeps the data. Idempotent."""
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
        """Sends SIGKILL, as if the machine failed. Keeps the data. Idempotent."""
        if self._process is not None:
            if self.running:
                self._process.kill()
            self._process.wait(10)
            self._process = None

    def freeze(self) -> None:
        """Sends SIGSTOP: the ports stay open, but nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Sends SIGCONT: continues after `freeze`."""
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        """Kills etcd and starts it again with the same data."""
        self.kill()
        self.start()

    def wipe(self) -> None:
        """Kills etcd and starts it again without data on the same ports."""
        self.kill()
        shutil.rmtree(self.data_dir / "data", ignore_errors=True)
        self.start()

    def close(self) -> None:
        """Stops etcd and removes its temporary folder. Idempotent."""
        self.stop()
        if not self._keep:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> EtcdProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _signal(self, signum: signal.Signals) -> None:
        if self._process is not None:
            child_signals.send(self._process, signum)

    @property
    def _scheme(self) -> str:
        return "http" if self._certificate is None else "https"

    def _opener(self) -> urllib.request.OpenerDirector:
        if self._certificate is None:
            return _DIRECT
        context = ssl.create_default_context(cafile=str(self._certificate / AUTHORITY))
        context.load_cert_chain(self._certificate / CERTIFICATE, self._certificate / KEY)
        return urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def _answers(self) -> bool:
        try:
            with self._opener().open(f"{self._scheme}://{self.address}/health", timeout=1.0) as response:
                return b'"true"' in response.read()
        except (urllib.error.URLError, OSError):
            return False

    def log_end(self) -> str:
        """Returns the last characters of its log."""
        return self.log_file.read_text(errors="replace")[-500:]
