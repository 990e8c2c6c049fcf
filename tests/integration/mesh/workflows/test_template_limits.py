"""The limits of templates that are rendered in a process of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from archon.errors import InvalidArgument, ResourceExhausted
from archon_mesh.limited import LimitedProcesses, processes
from archon_mesh.workflows import Workflow, WorkflowPlanner, load_workflow, sandbox
from archon_mesh.workflows.evaluate import MAX_RENDERED
from archon_mesh.workflows.expand import expand_on_thread
from archon_mesh.workflows.sandbox import template
from tests.fixtures.processes import is_alive
from tests.fixtures.variants import one_in
from tests.fixtures.waiting import hold, run_ready_tasks, until, wait_until

VALUES = {"big": "x" * 100_000, "flights": [{"number": "A1", "price": 120}]}
ENDLESS = "{% for a in range(10 ** 9) %}{% endfor %}"
TOO_LARGE = "{{ ([[['x'] * 1000] * 1000] * 1000) | string | length }}"


@pytest.fixture(autouse=True)
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "CPU_SECONDS", 0.3)


MULTIPLYING = [
    "{{ 'x' * 100000000000 }}",
    "{{ 100000000000 * 'x' }}",
    "{{ [0] * 100000000000 }}",
    "{{ 10 ** 1000000000 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ big * 11 }}",
    "{{ (big + big) * 6 }}",
    "{{ big | replace('x', big) }}",
    "{{ big | replace('', big) }}",
    "{{ [big, big, big, big, big, big, big, big, big, big, big] | join }}",
    "{{ [1, 2, 3] | join(big * 10) | replace(',', big * 10) }}",
    "{{ 'a' | indent(1000000000, true) }}",
    "{{ ('a\n' * 1000) | indent(big) }}",
    "{{ range(1000000000) | list }}",
    "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
    "{% for a in range(5000) %}{{ big }}{% endfor %}",
    "{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}{{ big }}",
    "{{ [big] * 20 }}",
    "{{ flights | sum(start=[big]) }}",
    "{{ 1.5 | round(1000000000, 'ceil') }}",
    "{{ 9.9 ** 10000 }}",
    "{{ ([[['x']*1000]*1000]*1000) | string | length }}",
    "{{ ([['x' * 1000] * 1000] * 100000) | tojson | length }}",
    "{{ ([1] * 1000000) | map('string') | map('string') | list | sort | join | replace('1', big) }}",
    "{{ (range(5000000) | list) | unique | list | length }}",
    "{{ ('a ' * 1000000) | wordcount * ('b' * 100000000) }}",
    "{{ ('x' * 1000000) | title | upper | replace('X', big) | length }}",
    "{{ range(10 ** 10) | max }}",
    "{{ (7 ** 3000000) % 10 ** 3000000 }}",
    "{{ 10 ** 5000 }}",
    "{{ big.split('x') * 1000 | length }}",
    "{{ {'a': big * 100} | dictsort * 100 }}",
]


@pytest.mark.parametrize("source", one_in(4, MULTIPLYING))
def test_no_template_multiplies_beyond_the_limits(source: str) -> None:
    with pytest.raises(InvalidArgument):
        template(source).value(VALUES)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (ENDLESS, "s of CPU time"),
        ("{{ range(10 ** 9) | list }}", "the template takes more than 256 MiB of memory"),
        ("{{ 'x' * 2000000 }}", f"a template gives more than {MAX_RENDERED:,} characters"),
    ],
)
def test_an_error_names_the_limit(source: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        template(source).value({})


def test_a_template_that_was_ended_does_not_disturb_the_next() -> None:
    for number in range(3):
        with pytest.raises(InvalidArgument):
            template(ENDLESS + str(number)).value({})
        assert template("{{ number + 1 }}").value({"number": number}) == number + 1


def test_a_killed_process_is_started_anew() -> None:
    assert template("{{ 1 + 1 }}").value({}) == 2
    for process in _children(psutil.Process()):
        process.kill()
        wait_until(lambda: not _is_limited(process))  # noqa: B023 - called at once
    assert template("{{ 1 + 2 }}").value({}) == 3


def test_a_process_that_is_killed_as_it_is_asked_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert template("{{ 1 + 3 }}").value({}) == 4
    monkeypatch.setattr(processes._Process, "is_alive", True)  # it is asked before its end can be seen
    for process in _children(psutil.Process()):
        process.kill()
    assert template("{{ 1 + 4 }}").value({}) == 5


def workflow(folder: Path, task: str) -> Workflow:
    path = folder / "hostile.yaml"
    path.write_text(f"name: hostile\nsteps: [{{id: first, task: {task!r}}}]\n")
    return load_workflow(path)


async def test_an_error_names_the_step_and_the_loop_goes_on(tmp_path: Path) -> None:
    expanding = asyncio.create_task(expand_on_thread(workflow(tmp_path, TOO_LARGE), {}, {}))
    await run_ready_tasks()
    assert not expanding.done()
    with pytest.raises(InvalidArgument, match=r"workflow hostile@1, step first: the template takes more than"):
        await expanding


async def test_a_workflow_in_a_process_has_the_same_limit(tmp_path: Path) -> None:
    planning = asyncio.create_task(WorkflowPlanner(workflow(tmp_path, TOO_LARGE)).create_plan("go"))
    await run_ready_tasks()
    assert not planning.done()
    with pytest.raises(InvalidArgument, match=r"workflow hostile@1, step first: the template takes more than"):
        await planning


async def test_templates_of_one_expansion_have_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 0.0)
    monkeypatch.setattr(sandbox, "_processes", _Answering())
    with pytest.raises(InvalidArgument, match="the templates of the workflow take more than 0 s"):
        await expand_on_thread(workflow(tmp_path, "{{ 1 + 1000 }}"), {}, {})


async def test_waiting_for_a_process_is_not_time_of_an_expansion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 2.0)
    limited = LimitedProcesses("archon_mesh.workflows.evaluate", memory_bytes=256 << 20, at_once=1)
    monkeypatch.setattr(sandbox, "_processes", limited)
    assert limited._free.acquire()
    expanding = asyncio.create_task(expand_on_thread(workflow(tmp_path, "{{ 7 * 191 }}"), {}, {}))
    await hold(2.5)
    assert not expanding.done()
    limited._free.release()
    assert (await expanding).subtasks[0].description == "1337"


class _Answering(LimitedProcesses):
    def __init__(self) -> None:
        super().__init__("archon_mesh.workflows.evaluate", memory_bytes=1, at_once=1)


def test_what_was_rendered_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = template("{{ ['remembered'] * 2 }}")
    assert remembered.value({}) == ["remembered"] * 2
    monkeypatch.setattr(sandbox, "_render", lambda _: pytest.fail("it is rendered again"))
    assert remembered.value({}) == ["remembered"] * 2


def test_the_oldest_results_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MAX_REMEMBERED", 1_000)
    remembered = sandbox._Remembered()
    for number in range(100):
        remembered.add(str(number), "x")
    assert remembered.get("0") is None
    assert remembered.get("99") == "x"


async def test_a_request_waits_for_a_free_process(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = LimitedProcesses("archon_mesh.workflows.evaluate", memory_bytes=256 << 20, at_once=1)

    async def answer(text: str) -> object:
        request = f'{{"source": "{text}", "expression": null, "values": {{}}, "is_condition": false}}'
        return await limited.call_on_thread(request, cpu_seconds=60, seconds=60)

    assert await asyncio.gather(*(answer(f"{number}") for number in range(5))) == [f'"{n}"' for n in range(5)]
    monkeypatch.setattr(processes, "WAIT_SECONDS", 0.1)
    busy = asyncio.create_task(answer("{{ 10 ** (10 ** 9) }}"))
    await until(lambda: limited._free._value == 0)
    with pytest.raises(ResourceExhausted, match="became free"):
        await answer("late")
    busy.cancel()
    with pytest.raises(asyncio.CancelledError):
        await busy


PARENT = """
import sys
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may make a background job ignore it
from archon_mesh.workflows import sandbox
sandbox.CPU_SECONDS = 60.0
sandbox.SECONDS = 60.0
sandbox.template("{{ 1 + 1 }}").value({})
print("ready", flush=True)
if sys.argv[1] == "busy":
    sandbox.template("{{ 10 ** (10 ** 9) }}").value({})
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("state", "end"),
    [
        ("idle", signal.SIGTERM),
        ("busy", signal.SIGKILL),
        pytest.param("idle", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("idle", None, marks=pytest.mark.slow),
        pytest.param("busy", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("busy", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_no_process_outlives_its_parent(state: str, end: signal.Signals | None) -> None:
    command = [sys.executable, "-c", PARENT, state]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        children = _children(psutil.Process(parent.pid))
        assert len(children) == 1
        if state == "busy":
            before = children[0].cpu_times().user
            wait_until(lambda: children[0].cpu_times().user > before + 0.1)
        if end is None:
            assert parent.stdin is not None
            parent.stdin.close()
        else:
            os.kill(parent.pid, end)
        wait_until(lambda: not is_alive(children[0]))


async def test_a_cancelled_request_ends_its_process() -> None:
    limited = LimitedProcesses("archon_mesh.workflows.evaluate", memory_bytes=256 << 20, at_once=1)
    request = '{"source": "{{ 10 ** (10 ** 9) }}", "expression": null, "values": {}}'
    before = _children(psutil.Process())
    running = asyncio.create_task(limited.call_on_thread(request, cpu_seconds=60, seconds=60))
    async with asyncio.timeout(20):
        while not (started := [child for child in _children(psutil.Process()) if child not in before]):
            await run_ready_tasks(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    wait_until(lambda: not is_alive(started[0]))


def _children(process: psutil.Process) -> list[psutil.Process]:
    return [child for child in process.children() if _is_limited(child)]


def _is_limited(process: psutil.Process) -> bool:
    try:
        return "limited/child.py" in " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
