"""Four roles in four languages in one run: `make demo-polyglot`. The Go agent is killed in the middle of its task.

Builds the agents of this folder, starts a mesh in a temporary folder and the agents beside it, submits a run, kills the
designer with SIGKILL as soon as it works, and starts it again. With Jaeger (`make tools`) it shows the run's trace.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from archon.client import Client, answer_text
from archon.registry import RegistryClient

HERE: Final = Path(__file__).resolve().parent
SDK: Final = HERE.parents[1] / "sdk"
TOOLS: Final = HERE.parents[1] / ".tools"
ARCHON: Final = Path(sys.executable).with_name("archon")

BUILT: Final = {"node_modules", "dist", "target"}
"""Folders of files that builds write."""

ORCHESTRATOR: Final = "archon-orchestrator"
"""The name of the orchestrator's service in traces."""

BUILT_WITHIN: Final = 900.0
"""Seconds that one command of a build may take: it fetches packages."""

REGISTERED_WITHIN: Final = 30.0
"""Seconds that the agents have to register."""

ENDS_WITHIN: Final = 60.0
"""Seconds that the run may take."""


@dataclass(frozen=True, slots=True)
class Part:
    """An agent: the programs that its build needs, the commands of the build with their folders, and its program."""

    role: str
    language: str
    needs: tuple[str, ...]
    build: tuple[tuple[Path, tuple[str, ...]], ...]
    program: tuple[str, ...]


PARTS: Final = (
    Part("requirements", "Python", (), (), (sys.executable, str(HERE / "requirements" / "requirements.py"))),
    Part(
        "designer",
        "Go",
        ("go",),
        ((HERE / "designer", ("go", "build", "-o", "dist/designer", ".")),),
        (str(HERE / "designer" / "dist" / "designer"),),
    ),
    Part(
        "implementer",
        "TypeScript",
        ("node", "npm"),
        (
            (SDK / "typescript", ("npm", "ci", "--no-audit", "--no-fund")),
            (SDK / "typescript", ("npm", "run", "build")),
            (HERE / "implementer", ("npm", "ci", "--no-audit", "--no-fund")),
            (HERE / "implementer", ("npm", "run", "build")),
        ),
        ("node", str(HERE / "implementer" / "dist" / "implementer.js")),
    ),
    Part(
        "reviewer",
        "Java",
        ("java", "mvn"),
        (
            (SDK / "java", ("mvn", "-q", "-B", "install", "-Dmaven.test.skip=true")),
            (HERE / "reviewer", ("mvn", "-q", "-B", "package", "dependency:copy-dependencies")),
        ),
        (
            "java",
            f"-Djava.util.logging.config.file={HERE}/reviewer/logging.properties",
            "-cp",
            f"{HERE}/reviewer/target/classes:{HERE}/reviewer/target/dependency/*",
            "example.Reviewer",
        ),
    ),
)


def say(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def sources(part: Part) -> float:
    """Returns when a source of the part was last changed, in wall seconds."""
    folders = {HERE / part.role, *(folder for folder, _ in part.build)}
    files = (path for folder in folders for path in folder.rglob("*") if not BUILT.intersection(path.parts))
    return max(path.stat().st_mtime for path in files if path.is_file())


def stamp_of(part: Part) -> Path:
    """Returns the file that is as old as the last build of a part."""
    return HERE / part.role / "dist" / ".built"


def build(part: Part) -> None:
    """Builds a part. Raises RuntimeError with the output if a command fails."""
    began = time.monotonic()
    for folder, command in part.build:
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILT_WITHIN)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{' '.join(command)} in {folder} took more than {BUILT_WITHIN:.0f} s") from None
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} in {folder} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    stamp_of(part).parent.mkdir(exist_ok=True)
    stamp_of(part).touch()
    say(f"built {part.role} ({part.language}) in {time.monotonic() - began:.0f} s")


def build_all() -> None:
    """Builds the parts that are older than their sources, at the same time. Raises SystemExit if a build fails."""
    stale = [part for part in PARTS if part.build and not is_current(part)]
    if not stale:
        return
    names = ", ".join(f"{part.role} ({part.language})" for part in stale)
    say(f"building {names}: the first time they fetch their packages, which takes a few minutes")
    with ThreadPoolExecutor(len(stale)) as threads:
        builds = [threads.submit(build, part) for part in stale]
    if failed := [str(error) for each in builds if (error := each.exception()) is not None]:
        sys.exit("\n".join(failed))


def is_current(part: Part) -> bool:
    """Returns whether a part is built, and newer than its sources."""
    return stamp_of(part).exists() and stamp_of(part).stat().st_mtime > sources(part)


def archon(home: Path, *words: str) -> str:
    """Runs a command of the command line, and returns its output. Raises SystemExit if it fails."""
    environment = {**os.environ, "ARCHON_HOME": str(home)}
    done = subprocess.run([ARCHON, *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"archon {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@asynccontextmanager
async def mesh(home: Path) -> AsyncIterator[dict[str, Any]]:
    """A mesh without roles, whose state is yielded; with Jaeger if there is one."""
    jaeger = shutil.which("jaeger") or shutil.which("jaeger", path=str(TOOLS / "bin"))
    tracing = ("--jaeger", "--jaeger-binary", jaeger) if jaeger else ()
    archon(home, "up", "--detach", "--only", "registry,memory,orchestrator", *tracing)
    try:
        yield json.loads((home / "state.json").read_text())
    finally:
        archon(home, "down")


def environment(home: Path, state: Mapping[str, Any], part: Part) -> dict[str, str]:
    """Returns the environment of an agent: the addresses of the mesh, and a token for its role."""
    addresses = {process["name"]: process["address"] for process in state["processes"]}
    own = {
        "ARCHON_REGISTRY": addresses["registry"],
        "ARCHON_MEMORY": addresses["memory"],
        "ARCHON_TOKEN": archon(home, "token", "--role", part.role).strip(),
        "ARCHON_LOG_LEVEL": "warning",
    }
    if endpoint := state.get("otlp"):
        own |= {
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint if "://" in endpoint else f"http://{endpoint}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_SERVICE_NAME": service_of(part),
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
        }
    return {**os.environ, **own}


async def start(part: Part, own: Mapping[str, str]) -> asyncio.subprocess.Process:
    """Starts the process of an agent in the environment `own`; it registers by itself."""
    return await asyncio.create_subprocess_exec(*part.program, env=own)


async def stop(agents: Sequence[asyncio.subprocess.Process]) -> None:
    """Ends agents as an operator does: they drain."""
    for agent in agents:
        if agent.returncode is None:
            agent.send_signal(signal.SIGTERM)
    await asyncio.gather(*(asyncio.wait_for(agent.wait(), 15.0) for agent in agents), return_exceptions=True)


async def registered(registry: str) -> None:
    """Waits until all roles are registered. Raises TimeoutError after REGISTERED_WITHIN."""
    async with asyncio.timeout(REGISTERED_WITHIN), RegistryClient(registry) as client:
        while len(await client.list_instances()) < len(PARTS):  # noqa: ASYNC110 - the state is the registry's
            await asyncio.sleep(0.1)


async def demo(home: Path) -> int:
    """Runs the demo. Returns 0 if the run has completed although its designer was killed."""
    async with mesh(home) as state, AsyncExitStack() as stack:
        os.environ["ARCHON_HOME"] = str(home)
        own = {part.role: environment(home, state, part) for part in PARTS}
        agents = {part.role: await start(part, own[part.role]) for part in PARTS}
        stack.push_async_callback(lambda: stop(list(agents.values())))
        say("the mesh is up; its agents start")
        await registered(own["designer"]["ARCHON_REGISTRY"])
        say("registered: " + ", ".join(f"{part.role} ({part.language})" for part in PARTS))
        orchestrator = next(each["address"] for each in state["processes"] if each["name"] == "orchestrator")
        client = await stack.enter_async_context(Client(orchestrator))
        handle = await client.submit("The clerk sees all overdue books.", roles=[part.role for part in PARTS])
        killed = False
        async with asyncio.timeout(ENDS_WITHIN):
            async for view in handle.views():
                working = next((task for task in view.tasks.values() if task.role == "designer" and task.text), None)
                if working is not None and not killed:
                    killed = True
                    agents["designer"].kill()
                    await agents["designer"].wait()
                    say(f"killed designer ({agents['designer'].pid}) with SIGKILL while it was {working.text.strip()}")
                    agents["designer"] = await start(PARTS[1], own["designer"])
        run = await client.get(handle.run_id)
        say("")
        for task in run.tasks:
            say(f"{task.role:13} {task.state.name.lower():10} after {task.attempt} attempt(s)")
        say(f"\n{answer_text(run)}\n")
        await show_trace(state, handle.run_id)
        return 0 if killed and run.state.name == "COMPLETED" else 1


async def show_trace(state: Mapping[str, Any], run_id: str) -> None:
    """Prints which services have spans in the trace of the run, if Jaeger is there."""
    if not state.get("traces"):
        say("The trace of the run needs Jaeger: `make tools`.")
        return
    expected = {service_of(part) for part in PARTS} | {ORCHESTRATOR}
    tags = urllib.parse.quote(json.dumps({"archon.run.id": run_id}))
    url = f"http://{state['traces']}/api/traces?service={ORCHESTRATOR}&tags={tags}&lookback=1h&limit=1"
    services: set[str] = set()
    spans = 0
    for _ in range(20):
        spans, services = await asyncio.to_thread(trace, url)
        if expected <= services:
            break
        await asyncio.sleep(0.5)
    say(f"One trace of {spans} spans, by {', '.join(sorted(services))}.")


def trace(url: str) -> tuple[int, set[str]]:
    """Returns the number of spans of the trace that a query finds, and the services that have made them."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        traces = json.load(answer)["data"]
    services = {process["serviceName"] for each in traces for process in each["processes"].values()}
    return sum(len(each["spans"]) for each in traces), services


def service_of(part: Part) -> str:
    """Returns the name of an agent's service in traces."""
    return f"{part.role}-{part.language.lower()}"


def main() -> int:
    """Returns the exit code."""
    os.environ["PATH"] += os.pathsep + "/usr/local/go/bin"  # Go's usual place, if it is not on PATH
    missing = sorted({name for part in PARTS for name in part.needs if shutil.which(name) is None})
    if missing:
        say(f"The demo needs {', '.join(missing)}: Go 1.24, Node.js 20, a JDK 17 and Maven.")
        return 2
    began = time.monotonic()
    build_all()
    home = Path(tempfile.mkdtemp(prefix="archon-polyglot-"))
    try:
        code = asyncio.run(demo(home))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    say(f"{time.monotonic() - began:.0f} s in all")
    return code


if __name__ == "__main__":
    sys.exit(main())
