"""Secrets that a user gives to a mesh, in every place where one can be given, are found nowhere in what it produces:
files, logs, journals, memory, traces, metrics, errors, what commands print, and command lines of processes."""

from __future__ import annotations

import base64
import datetime
import json
import re
import signal
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from archon.principal import Kind
from archon.security.spiffe import SpiffeId
from archon_services.local_mesh.authority import Authority
from tests.e2e.planted import Counterparts, Search, plant
from tests.e2e.terminal import COMMAND, PATIENCE, Process, Terminal
from tests.fixtures.fork_server import fork_server
from tests.fixtures.ports import free_ports
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.search

TOOLS = '''
import logging
import os

from archon_mesh.tools import Secret, tool

@tool(credentials=["vault_key"])
def open_vault(door: str, vault_key: Secret) -> str:
    """Opens the vault."""
    logging.getLogger("vault").warning("opening %s with %s", door, vault_key)
    return f"opened {door} with {vault_key.reveal()}"

@tool(credentials=["vault_key"])
def open_broken(door: str, vault_key: Secret) -> str:
    """Opens the broken vault."""
    raise RuntimeError(f"the key {vault_key.reveal()} does not turn")
'''

KEEPER = """
name: keeper
description: Opens vaults.
system_prompt: Open it.
model: openai/planted
tools: [planted_tools:open_vault, planted_tools:open_broken]
credentials: {vault_key: "${VAULT_KEY}"}
retries: 0
"""

AGENTS = ("keeper", "broken", "distant", "asker")

BROKEN = """
name: broken
description: Its servers refuse it.
system_prompt: Open it.
model: openai/planted
mcp:
  local:
    command: PYTHON
    args: ["-c", "import os, sys; sys.exit('bad token ' + os.environ['LOCAL_TOKEN'])"]
    env: {LOCAL_TOKEN: "${LOCAL_TOKEN}"}
"""

DISTANT = """
name: distant
description: Its server refuses it.
system_prompt: Open it.
model: openai/planted
mcp:
  far:
    url: URL/mcp
    headers: {Authorization: "Bearer ${FAR_TOKEN}"}
    connect_timeout: 5
"""

ASKER = """
import asyncio
import os

from archon import AgentServer, TaskContext
from archon.server import signalled

async def main() -> None:
    agent = AgentServer("asker")

    @agent.task
    async def ask(task: TaskContext) -> str:
        answer = await task.ask_secret("What is the word?")
        if "crash" in task.text:
            raise RuntimeError("it was " + answer[:0] + "wrong")
        return f"{len(answer)} letters"

    async with agent:
        await signalled().wait()

asyncio.run(main())
"""


class Planted:
    """A mesh of `archon up --tls` with secrets, agents of a user beside it, and what is outside."""

    def __init__(self, folder: Path, outside: Counterparts, secrets: dict[str, str]) -> None:
        self.folder = folder
        self.outside = outside
        self.secrets = secrets
        self.printed: list[tuple[str, str]] = []
        """Commands and what they have printed."""
        [mail] = free_ports(1)
        self.terminal = Terminal(
            folder / "home",
            PYTHONPATH=str(folder),
            OPENAI_BASE_URL=f"{outside.url}/v1",
            OPENAI_API_KEY=secrets["openai key"],
            ANTHROPIC_API_KEY=secrets["anthropic key"],
            ARCHON_EMBEDDER_KEY=secrets["embedder key"],
            ARCHON_WEBHOOK_URL=f"{outside.url}/hook",
            ARCHON_WEBHOOK_SECRET=secrets["webhook secret"],
            ARCHON_SMTP=f"127.0.0.1:{mail}",
            ARCHON_SMTP_TLS="none",
            ARCHON_SMTP_USER="archon",
            ARCHON_SMTP_PASSWORD=secrets["smtp password"],
            ARCHON_SMTP_FROM="archon@example.com",
            ARCHON_SMTP_TO="ann@example.com",
            ARCHON_OTHER_MESH_TOKEN=secrets["other mesh token"],
            VAULT_KEY=secrets["vault key"],
            LOCAL_TOKEN=secrets["mcp env"],
            FAR_TOKEN=secrets["mcp header"],
            OTEL_EXPORTER_OTLP_ENDPOINT=outside.url,
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
            OTEL_EXPORTER_OTLP_HEADERS=f"x-secret={secrets['collector header']}",
            OTEL_LOGS_EXPORTER="otlp",
            OTEL_METRICS_EXPORTER="prometheus",
            OTEL_BSP_SCHEDULE_DELAY="100",
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true",
        )

    def metrics_ports(self) -> list[int]:
        """Returns the ports of /metrics, which `archon status` shows."""
        status = json.dumps(json.loads(self.archon("status", "--json")))
        return [int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)/metrics", status)]

    def archon(self, *arguments: str, code: int | None = None, terminal: Terminal | None = None) -> str:
        """Runs a command, and keeps what it prints. Asserts its exit code, if one is given."""
        done = (terminal or self.terminal).archon(*arguments)
        self.printed.append((" ".join(arguments[:2]), done.out + done.err))
        assert code is None or done.code == code, (arguments, done)
        return done.out

    def certificate(self, name: str) -> Path:
        """Issues the certificate of an agent of the user; returns its folder."""
        authority = Authority.load(self.terminal.home / "tls" / "authority")
        folder = self.folder / "certificates" / name
        now = datetime.datetime.now(datetime.UTC)
        authority.issue(folder, SpiffeId(authority.mesh, "default", Kind.AGENT, name), now=now)
        return folder

    @contextmanager
    def agents(self) -> Iterator[dict[str, Process]]:
        """Serves the agents of the user, as processes of their own, with a log each."""
        registry = self.terminal.state().registry
        started: dict[str, Process] = {}
        try:
            for name in AGENTS:
                environment = {**self.terminal.environment, "ARCHON_REGISTRY": registry}
                environment["ARCHON_TLS"] = str(self.certificate(name))
                log = self.folder / f"{name}.log"
                if name != "asker":
                    served = ["serve", str(self.folder / f"{name}.yaml"), "--port", "0"]
                    started[name] = fork_server.fork(COMMAND, served, environment, log)
                    continue
                with log.open("wb") as file:
                    command = [sys.executable, str(self.folder / "asker.py")]
                    started[name] = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
            wait_until(lambda: all(name in self.archon("agents") for name in AGENTS), PATIENCE)
            yield started
        finally:
            for process in started.values():
                process.send_signal(signal.SIGTERM)
                process.wait(PATIENCE)

    def keys(self) -> tuple[dict[str, bytes], dict[str, tuple[str, ...]]]:
        """Returns the private keys and tokens that the mesh has made, and the files of mode 0600 that may have each."""
        found: dict[str, bytes] = {}
        allowed: dict[str, tuple[str, ...]] = {}
        for path in [path for path in self.folder.rglob("*") if path.is_file()]:
            place = str(path.relative_to(self.folder))
            if path.name.endswith(".key"):
                found[place] = path.read_bytes().splitlines()[2]
            elif path.name == "signing-key.json":
                found[place] = json.loads(path.read_text())["d"].encode()
            elif path.name == "token" or path.parent.name == "tokens":
                for number, token in enumerate(re.findall(r"[\w-]+\.[\w-]+\.([\w-]+)", path.read_text())):
                    found[f"{place} {number}"] = token.encode()
                    allowed[f"{place} {number}"] = (place,)
            else:
                continue
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, place
            allowed.setdefault(place, (place,))
        return found, allowed


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Planted]:
    secrets = plant()
    with Counterparts(secrets["argument"]) as outside:
        texts = {"planted_tools.py": TOOLS, "keeper.yaml": KEEPER, "asker.py": ASKER}
        texts["broken.yaml"] = BROKEN.replace("PYTHON", sys.executable)
        texts["distant.yaml"] = DISTANT.replace("URL", outside.url)
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        planted = Planted(tmp_path, outside, secrets)
        try:
            planted.archon("up", "--tls", "--only", "etcd,registry,orchestrator,memory", "--detach", code=0)
            yield planted
        finally:
            planted.terminal.archon("down")


def is_asking(planted: Planted, run: str) -> bool:
    return "What is the word?" in planted.archon("show", run)


def use(planted: Planted, search: Search) -> None:
    """The main flows of a user, failures included."""
    archon, secrets = planted.archon, planted.secrets
    with planted.agents() as agents:
        archon("run", "open the vault", "--role", "keeper", code=0)
        archon("run", "be refused", "--role", "keeper", code=1)
        for role in ("broken", "distant"):
            archon("run", "open it", "--role", role, code=1)
        for goal in ("say the word", "crash"):
            asking = archon("run", goal, "--role", "asker", "--detach", code=0).strip()
            wait_until(partial(is_asking, planted, asking), PATIENCE)
            archon("inbox")
            archon("respond", asking, secrets["answer"], code=0)
            archon("watch", asking, code=0 if goal != "crash" else 1)
        runs = [run["run_id"] for run in json.loads(archon("runs", "--json", code=0))]
        assert len(runs) == 6
        for run in runs:
            for command in ("show", "prompts", "why", "trace"):
                archon(command, run)
        for port in planted.metrics_ports():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                search.look("metrics", answer.read())
        search.look_at_processes([process.pid for process in psutil.process_iter()])
        agents["keeper"].send_signal(signal.SIGKILL)
        agents["keeper"].wait(PATIENCE)
        archon("run", "open the vault again", "--role", "keeper", "--timeout", "1", code=1)


def look_around(planted: Planted) -> None:
    """Commands that show the state of a mesh, and those that a wrong secret makes fail."""
    archon, secrets, home = planted.archon, planted.secrets, planted.terminal
    for command in ("status", "doctor", "agents", "graph", "tools", "whoami", "logs", "inbox", "memory", "token list"):
        archon(*command.split())
    archon("policy", "show")
    archon("context", "set", "prod", "--orchestrator", "127.0.0.1:1", "--token-file", str(planted.folder / "typed"))
    archon("context", "list")
    (planted.folder / "typed").write_text(secrets["typed token"])
    wrong = {"ARCHON_TOKEN": secrets["typed token"], "ARCHON_HOME": str(planted.folder / "elsewhere")}
    state = home.state()
    orchestrator = next(process.address for process in state.processes if process.name == "orchestrator")
    stranger = Terminal(planted.folder / "elsewhere", **wrong)
    archon("runs", "--orchestrator", orchestrator, terminal=stranger, code=1)
    archon("token", "revoke", secrets["typed token"])
    for url in (
        f"postgresql://archon:{quote(secrets['postgres password'], safe='')}@127.0.0.1:1/archon",
        f"postgresql://archon:{secrets['lost password']}#x@127.0.0.1:1/archon",
    ):
        lost = Terminal(planted.folder / "lost", ARCHON_JOURNAL=url)
        archon("doctor", terminal=lost)
        planted.printed.append(("orchestrator", first_line(lost, state.registry)))


def first_line(terminal: Terminal, registry: str) -> str:
    """Returns the first line that an orchestrator logs whose database cannot be used."""
    process = subprocess.Popen(
        [sys.executable, "-m", "archon_services.orchestrator", "--port", "0"],
        env={**terminal.environment, "ARCHON_REGISTRY": registry},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        return process.stderr.readline()
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("hidden", ["{}", "a {} b", "Basic {b64}", "user={b64}x", "?key={url}", "{hex}"])
def test_a_secret_is_found_in_each_of_its_forms(hidden: str) -> None:
    secret = plant()["openai key"]
    coded = base64.b64encode(f"u:{secret}".encode()).decode()
    text = hidden.format(secret, b64=coded, url=quote(secret, safe=""), hex=secret.encode().hex())
    search = Search({"key": secret.encode(), "other": b"pl4nted+other/1"})
    search.look("a log", text.encode())
    assert len(search.found) == 1 and search.found[0].startswith("key is in a log")


def test_planted_secrets_are_found_nowhere(planted: Planted) -> None:
    search = Search({name: value.encode() for name, value in planted.secrets.items()})
    search.allowed["typed token"] = ("typed",)
    use(planted, search)
    look_around(planted)
    keys, places = planted.keys()
    search.secrets |= keys
    search.allowed |= places
    for name in ("openai key", "mcp header"):
        assert any(planted.secrets[name] in given for given in planted.outside.refused), name
    planted.terminal.archon("down")
    search.look_below(planted.folder)
    for command, text in planted.printed:
        search.look(f"archon {command}", text.encode())
    for exported in planted.outside.collected:
        search.look("exported telemetry", exported)
    assert len(planted.outside.collected) > 3
    assert search.searched > 1_000_000
    assert search.found == []
