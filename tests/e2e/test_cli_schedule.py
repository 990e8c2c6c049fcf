"""`archon schedule` and `archon run --at`: what they print, and their mistakes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.small_mesh import killed_mesh, small_mesh
from tests.e2e.terminal import PATIENCE, Result, Terminal
from tests.fixtures.waiting import wait_until

WIDTH = 80


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with small_mesh(tmp_path_factory.mktemp("mesh"), "designer", "workflow") as terminal:
        yield terminal


def done(terminal: Terminal, *arguments: str) -> Result:
    result = terminal.archon(*arguments)
    assert result.code == 0, result.err
    return result


def states(terminal: Terminal, name: str) -> list[str]:
    shown = json.loads(done(terminal, "schedule", "show", name, "--fires", "1000", "--json").out)
    return [fire["state"] for fire in shown["fires"]]


def fires_on(terminal: Terminal, name: str, *, more: int) -> None:
    """Waits until a schedule has so many fires more."""
    before = len(states(terminal, name))
    wait_until(lambda: len(states(terminal, name)) >= before + more, PATIENCE)


def all_complete(terminal: Terminal, name: str, number: int) -> None:
    """Waits until the runs of so many fires have completed."""
    wait_until(lambda: states(terminal, name) == ["completed"] * number, PATIENCE)


def test_a_schedule_from_its_first_to_its_last_command(terminal: Terminal) -> None:
    assert "There is no schedule." in done(terminal, "schedule", "list").out
    cron = ("--cron", "30 2 * * *", "--tz", "Europe/Berlin")
    added = done(terminal, "schedule", "add", "nightly", "Draw a door.", *cron, "--role", "designer", "--note", "n")
    assert added.out.startswith("nightly: active\n  times     30 2 * * * (Europe/Berlin)\n  next      2")
    assert "  policies  overlap skip, catch up latest within 1d\n" in added.out
    again = terminal.archon("schedule", "add", "nightly", "Draw a door.", "--every", "1h")
    assert (again.code, again.error_lines[-1]) == (1, "hint: `archon schedule edit` changes it.")
    listed = done(terminal, "schedule", "list").out.splitlines()
    assert listed[0].split() == ["schedule", "state", "times", "next", "runs", "failed"]
    assert listed[1].startswith("nightly   active  30 2 * * * (Europe/Berlin)") and len(listed[1]) <= WIDTH

    assert done(terminal, "schedule", "pause", "nightly", "--reason", "holidays").out == "Paused nightly.\n"
    assert "  paused    holidays\n" in done(terminal, "schedule", "show", "nightly").out
    fired = done(terminal, "schedule", "trigger", "nightly").out
    assert fired == "Fired nightly: starting. `archon schedule show nightly` shows its run.\n"
    wait_until(lambda: states(terminal, "nightly") == ["completed"], PATIENCE)
    [fire] = json.loads(done(terminal, "schedule", "show", "nightly", "--json").out)["fires"]
    run = json.loads(done(terminal, "show", fire["run_id"], "--json").out)
    assert run["metadata"]["dev.archon/schedule"] == "nightly"
    assert "  metadata dev.archon/schedule  nightly\n" in done(terminal, "show", fire["run_id"]).out
    assert done(terminal, "why", fire["run_id"]).out.startswith("Submitted by the schedule nightly, for trigger/")
    assert done(terminal, "schedule", "resume", "nightly").out == "Resumed nightly.\n"

    edited = done(terminal, "schedule", "edit", "nightly", "--every", "2h", "--offset", "90s", "--max-runs", "9").out
    assert "  times     every 7200 s, 90 s later\n" in edited and "  runs      1 of 9, 0 failed;" in edited
    assert "  note      n\n" in edited, "it stays"
    moved = ("--cron", "0 4 * * *", "--tz", "Asia/Tokyo", "--timeout", "9", "--session", "s")
    zoned = done(terminal, "schedule", "edit", "nightly", *moved).out
    first = next(line for line in zoned.splitlines() if line.startswith("  next"))
    assert " 04:00:00 +09:00, here 2" in first and len(first) <= WIDTH
    assert "(Asia/Tokyo)" in zoned and "(UTC)" in done(terminal, "schedule", "edit", "nightly", "--tz", "UTC").out
    changed = terminal.archon("schedule", "edit", "nightly", "--note", "m", "--etag", "0-1")
    assert (changed.code, changed.error_lines[-1]) == (1, "hint: `archon schedule show --json` has its etag.")
    assert done(terminal, "schedule", "remove", "nightly").out == "Removed nightly.\n"


@pytest.mark.slow
def test_a_schedule_is_edited_to_another_workflow(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "trip.yaml"
    file.write_text("name: trip\nparameters: {city: {}}\nsteps: [{task: 'Go to {{ city }}', role: designer}]\n")
    workflow = ("--workflow", str(file))
    done(terminal, "schedule", "add", "trips", "Go.", "--every", "1h", "--role", "designer", "--user", "ada")
    refused = terminal.archon("schedule", "edit", "trips", *workflow, "--goal", "x")
    assert (refused.code, "--workflow excludes a goal" in refused.err) == (2, True)
    assert "-p is a parameter of --workflow" in terminal.archon("schedule", "edit", "trips", "-p", "city=Rome").err
    for number, city in enumerate(("Rome", "Oslo"), 1):  # from a goal to a workflow, and to other parameters
        done(terminal, "schedule", "edit", "trips", *workflow, "-p", f"city={city}")
        done(terminal, "schedule", "trigger", "trips")
        all_complete(terminal, "trips", number)
        fire = json.loads(done(terminal, "schedule", "show", "trips", "--json").out)["fires"][0]
        run = json.loads(done(terminal, "show", fire["run_id"], "--json").out)
        assert f"Go to {city}" in json.dumps(run["plan"]) and run["metadata"]["dev.archon/user"] == "ada"
    goal = terminal.archon("schedule", "edit", "trips", "--goal", "Stay.")
    assert (goal.code, "Give it another workflow (--workflow)" in goal.err) == (2, True)
    done(terminal, "schedule", "remove", "trips")


@pytest.mark.slow
def test_a_run_for_later_is_a_schedule_with_one_time(terminal: Terminal) -> None:
    said = done(terminal, "run", "--in", "1s", "--role", "designer", "Draw a door.").out
    name, _, rest = said.partition(": at ")
    assert name.startswith("run-2") and rest.endswith(
        f"`archon schedule show {name}` shows its run, `remove` cancels it.\n"
    )
    wait_until(lambda: states(terminal, name) == ["completed"], PATIENCE)
    assert done(terminal, "schedule", "show", name).out.startswith(f"{name}: ended\n  times     once\n")
    done(terminal, "schedule", "remove", name)


@pytest.mark.search
def test_an_orchestrator_that_is_killed_submits_one_run_for_each_time(tmp_path: Path) -> None:
    options = ("--every", "1s", "--overlap", "allow_all", "--catch-up", "all", "--role", "designer")
    for kill in range(4):
        mesh = killed_mesh if kill < 3 else small_mesh
        with mesh(tmp_path, "designer") as terminal:
            if not kill:
                done(terminal, "schedule", "add", "a", "Draw a door.", *options)
            fires_on(terminal, "a", more=4)
            if kill == 3:
                done(terminal, "schedule", "pause", "a")
                wait_until(lambda: set(states(terminal, "a")) == {"completed"}, PATIENCE)
                shown = json.loads(done(terminal, "schedule", "show", "a", "--fires", "1000", "--json").out)
                runs = json.loads(done(terminal, "runs", "--limit", "1000", "--json").out)
    times = sorted(fire["planned_time"] for fire in shown["fires"])
    assert [later - time for time, later in itertools.pairwise(times)] == [1.0] * (len(times) - 1)
    assert len({fire["run_id"] for fire in shown["fires"]}) == len(times) == len(runs) == shown["runs"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["add", "a", "x"], 2, "one of --cron, --every, --at and --in says when"),
        (["add", "a", "x", "--cron", "* * * * *", "--every", "1h"], 2, "--cron and --every exclude each other"),
        (["add", "a", "x", "--every", "1 hour"], 2, "--every '1 hour' is no duration: expected 90s, 30m, 2h or 7d"),
        (["add", "a", "x", "--at", "tomorrow"], 2, "--at 'tomorrow' is no time"),
        (["add", "a", "x", "--at", "2020-01-01T00:00"], 2, "--at 2020-01-01T00:00 has passed"),
        (["add", "a", "x", "--every", "1h", "--tz", "UTC"], 2, "--tz is the time zone of --cron"),
        (["add", "a", "x", "--cron", "* * * *"], 2, "expected five fields"),
        (["add", "a", "x", "--cron", "* * * * *", "--tz", "Berlin"], 2, "unknown time zone 'Berlin'"),
        (["add", "a", "--every", "1h"], 2, "goal"),
        (["add", "a", "x", "--every", "1h", "-p", "a=b"], 2, "-p is a parameter of --workflow"),
        (["edit", "a"], 2, "nothing to change"),
        (["show", "a"], 4, "there is no schedule 'a'"),
        (["trigger", "a"], 4, "there is no schedule 'a'"),
        (["backfill", "a", "--from", "2026-01-01"], 4, "there is no schedule 'a'"),
    ],
)
def test_a_mistake_is_one_sentence(terminal: Terminal, arguments: list[str], code: int, text: str) -> None:
    result = terminal.archon("schedule", *arguments)
    assert (result.code, text in result.err, result.out) == (code, True, ""), result
