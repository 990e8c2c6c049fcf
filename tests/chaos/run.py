"""`make chaos ROUNDS=200` kills, freezes, restarts and cuts off real processes at random; described in
docs/testing/chaos.md."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from archon.server import run_loop
from tests.chaos.mesh import PIPELINE, ChaosMesh
from tests.chaos.reign import Outcome, Reign
from tests.chaos.report import keep, summary
from tests.fixtures.require import find
from tests.interop.builds import GO_SDK, JAVA_SDK, TYPESCRIPT_SDK


async def chaos(
    rounds: int,
    seed: int,
    home: Path,
    tell: Callable[[str], None],
    programs: Mapping[str, Sequence[str]] | None = None,
) -> Outcome:
    """Runs the rounds on a new mesh in `home`, with agents of some roles in other languages. If there are findings,
    their journals are left in `home`."""
    async with ChaosMesh(home, programs).open() as mesh:
        tell(f"the mesh is up: {len(mesh.targets)} processes, logs in {home}")
        outcome = await Reign(mesh, seed, tell).last(rounds)
        tell(summary(outcome, seed))
        if outcome.findings:
            tell(f"their journals: {await keep(outcome, mesh)}")
    return outcome


def other_languages() -> dict[str, list[str]]:
    """Returns the command of each role of the pipeline, one in each language. Builds what is not built."""
    built = [[str(GO_SDK.run())], ["node", str(TYPESCRIPT_SDK.run())], [str(JAVA_SDK.run())]]
    return {role: [*command, "echo"] for role, command in zip(PIPELINE, built, strict=True)}


def main() -> int:
    """Returns 0 if there are no findings, 1 if there are, and 130 if it was interrupted."""
    parser = argparse.ArgumentParser(prog="tests.chaos.run", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="seed of the faults; random unless given")
    parser.add_argument("--mixed", action="store_true", help="the pipeline's roles in Go, TypeScript and Java")
    options = parser.parse_args()
    if find("etcd-3.6") is None:
        print("error: etcd-3.6 is neither in .tools/bin nor on PATH: `make tools`", file=sys.stderr)
        return 1
    programs = other_languages() if options.mixed else None
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)
    home = Path(tempfile.mkdtemp(prefix="archon-chaos-"))
    print(f"seed {seed}", flush=True)

    async def interruptible() -> Outcome:
        task = asyncio.current_task()
        assert task is not None

        def interrupt() -> None:
            if not task.cancelling():  # a second signal must not stop the first from ending every process
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, interrupt)
        return await chaos(options.rounds, seed, home, lambda line: print(line, flush=True), programs)

    try:
        outcome = run_loop(interruptible())
    except asyncio.CancelledError:
        print("interrupted; every process is ended", flush=True)
        shutil.rmtree(home, ignore_errors=True)
        return 130
    if outcome.findings:
        return 1
    shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
