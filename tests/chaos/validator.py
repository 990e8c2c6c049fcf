"""Checks of every run after chaos, by the numbers of docs/durability.md ("Validator")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.engine import RunState
from tests.chaos.journal import Archive, Ledger, Stored
from tests.failures.load import Course
from tests.simulation.check import Execution
from tests.simulation.validator import Violation, must, validate_journal


@dataclass(frozen=True, slots=True)
class Finding:
    """A violated check, and the run that violates it."""

    run_id: str
    what: str


async def validate(archive: Archive, courses: Sequence[Course], ledger: Ledger) -> tuple[list[Finding], list[RunState]]:
    """Returns the findings, and the state of each run of the journal that has none."""
    watched: dict[str, list[Course]] = {}
    for course in courses:
        watched.setdefault(course.run_id, []).append(course)
    known = set(await archive.run_ids())
    requests = await archive.requests()
    findings = [Finding(name, "V1: acknowledged, and not in the journal") for name in watched.keys() - known]
    findings += [
        Finding(name, "V5: agents worked at it, and it is not in the journal") for name in ledger.begun.keys() - known
    ]
    findings += [
        Finding(course.run_id, f"V1: the request {course.request_id} made {requests.get(course.request_id)}")
        for course in courses
        if requests.get(course.request_id) != course.run_id
    ]
    runs = []
    for run_id in sorted(known):
        stored = await archive.run(run_id)
        begun, finished = ledger.begun.get(run_id, []), ledger.finished.get(run_id, [])
        try:
            runs.append(validate_run(stored, watched.get(run_id, []), begun, finished))
        except Violation as violation:
            findings.append(Finding(run_id, str(violation)))
    return findings, runs


def validate_run(
    stored: Stored, watched: Iterable[Course], begun: Iterable[Execution], finished: Iterable[Execution]
) -> RunState:
    """Checks the journal of one run, alone and against its watchers and the agents' ledger. Raises Violation."""
    run = validate_journal(stored.events, stored.inputs, finished)
    must("V1", stored.ended, "its last event ends the run, its row does not")
    must("V1", len(stored.request_ids) == 1, f"it is remembered for {stored.request_ids}")
    request_id = stored.events[0].submitted.request_id
    must(
        "V1",
        stored.request_ids == (request_id,),
        f"it was submitted as {request_id}, its rows have {stored.request_ids}",
    )
    must("V2", run.epoch <= stored.epoch, f"an event of epoch {run.epoch}, the last claim was {stored.epoch}")
    dispatched = {(event.task.task_id, event.task.attempt) for event in stored.events if event.HasField("dispatched")}
    for execution in begun:
        must(
            "V5",
            (execution.task_id, execution.attempt) in dispatched,
            f"{execution} was never dispatched",
        )
    for course in watched:
        _seen(course, stored.events)
        _told(course, stored.events)
    return run


def _told(course: Course, events: Sequence[run_pb2.RunEvent]) -> None:
    """Checks that each person was told what became of an answer."""
    given = [event.input_given.request_id for event in events if event.HasField("input_given")]
    must("V8", len(given) == len(set(given)), f"an answer counted twice: {given}")
    for request_id, accepted in course.answers.items():
        told = "accepted" if accepted else "refused"
        must("V8", (request_id in given) is accepted, f"the answer {request_id!r} was {told}; the journal has {given}")


def _seen(course: Course, events: Sequence[run_pb2.RunEvent]) -> None:
    seqs = [event.seq for event in course.events]
    must("V12", seqs == list(range(1, len(seqs) + 1)), f"a watcher saw {seqs}")
    must("V12", len(seqs) == len(events), f"a watcher saw {len(seqs)} of {len(events)} events")
    for received, stored in zip(course.events, events, strict=True):
        if received != stored:  # formatting each event would take longer than all other checks
            must("V12", False, f"a watcher saw event {received.seq}, which is not durable: {received}")
