"""An eval in a test: cases over a mesh, an own scorer, and a baseline."""

from __future__ import annotations

from pathlib import Path

from archon import AgentServer, TaskContext
from archon_mesh.evals import Case, Contains, Python, Seconds, Trajectory, compare, evaluate, read_report, write_report
from archon_mesh.testing import InProcessMesh


async def greet(task: TaskContext) -> str:
    return f"Hello {task.text}!"


def is_short(trajectory: Trajectory) -> float:
    return 1 / max(1, len(trajectory.answer.split()) - 1)


async def greetings(home: Path) -> tuple[bool, bool]:
    cases = [
        Case(
            id=name,
            goal=name,
            roles=["greeter"],
            expect=[
                Contains(texts=["Hello", name]),
                Seconds(most=5),
                Python(function=f"{__name__}:is_short", threshold=0.3),
            ],
        )
        for name in ("Ann", "Bob", "Cleo")
    ]
    async with InProcessMesh(home) as mesh, AgentServer("greeter", handler=greet, settings=mesh.agent_settings()):
        report = await evaluate(cases, mesh.client, repeat=3, parallel=4)
    write_report(report, home / "baseline.json")
    comparison = compare(report, read_report(home / "baseline.json"))
    return report.passed, comparison.regressed
