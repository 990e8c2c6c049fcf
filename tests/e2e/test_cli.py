"""The commands on the shared mesh of real processes with two designers."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.shared_mesh import GOAL, completed
from tests.e2e.terminal import ARCHON, PATIENCE, Terminal
from tests.fixtures.media import PNG
from tests.fixtures.waiting import wait_until

PIPELINE = ("requirements", "designer", "implementer")
OWN = ("coordinator", "designer", "designer", "implementer", "planner", "requirements")
"""The roles of the processes of the mesh. Agents of other tests may be registered, too."""


@contextmanager
def frozen(terminal: Terminal, name: str) -> Iterator[None]:
    pid = terminal.pid(name)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def own(agents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [agent for agent in agents if agent["role"] in OWN]


def last_run(terminal: Terminal) -> dict[str, str]:
    runs: list[dict[str, str]] = json.loads(terminal.archon("runs", "--limit", "1", "--json").out)
    return runs[0]


def test_agents_lists_every_instance_with_its_dependencies(terminal: Terminal) -> None:
    agents = own(json.loads(terminal.archon("agents", "--json").out))
    assert sorted(agent["role"] for agent in agents) == list(OWN)
    [implementer] = [agent for agent in agents if agent["role"] == "implementer"]
    assert [dependency["role"] for dependency in implementer["depends_on"]] == ["requirements", "designer"]
    lines = terminal.archon("agents").out.splitlines()
    assert sum(line.split()[0] in OWN for line in lines) == len(OWN)
    assert all(agent["address"] in "\n".join(lines) for agent in agents)
    assert {(agent["answers"], agent["tags"]["model"]) for agent in agents} == {(True, "offline")}


def test_agents_marks_an_instance_that_does_not_answer(terminal: Terminal) -> None:
    address = terminal.state().process("designer-2").address

    def cells() -> dict[str, tuple[str, str, str]]:
        """Returns tasks, state and model of each instance by its address."""
        rows = [line.split() for line in terminal.archon("agents").out.splitlines()[1:]]
        # role, instance, address, version, tasks, state, heartbeat as "3 s ago", model
        rows = [row for row in rows if row[0] in OWN]
        assert all(row[7:9] == ["s", "ago"] and int(row[6]) >= 0 for row in rows)
        return {row[2]: (row[4], row[5], row[9]) for row in rows}

    expected = dict.fromkeys(cells(), ("0/8", "healthy", "offline"))
    assert len(expected) == len(OWN)
    with frozen(terminal, "designer-2"):
        wait_until(lambda: cells() == {**expected, address: ("-/8", "silent", "offline")})


def test_status_shows_every_process_with_its_model(terminal: Terminal) -> None:
    result = terminal.archon("status")
    assert result.code == 0
    head, _, *rows = result.out.splitlines()
    assert head.startswith("Archon ") and head.endswith(f"mesh in {terminal.home}: ready")
    cells = {row.split()[0]: row.split() for row in rows}
    assert len(cells) == len(terminal.state().processes)
    assert cells["designer-2"][1::5] == ["healthy", "0"]
    assert cells["designer-2"][-1] == "offline"
    assert cells["registry"][-1] == "-"
    assert json.loads(terminal.archon("status", "--json").out)["processes"][0]["condition"] == "healthy"
    assert "serving on" in terminal.archon("logs", "registry").out


def test_graph_shows_the_edges_in_every_format(terminal: Terminal, tmp_path: Path) -> None:
    text = terminal.archon("graph").out
    for edge in ("requirements -> designer", "requirements -> implementer", "designer -> implementer"):
        assert edge in text
    assert "designer (2 instances)" in text
    assert "declared by 2 instances" in text
    graph = json.loads(terminal.archon("graph", "--format", "json").out)
    roles = [role["role"] for role in own(graph["roles"]) if not role["coordinator"]]
    assert roles == ["planner", *PIPELINE]
    assert [role["role"] for role in graph["roles"] if role["coordinator"]] == ["coordinator"]
    assert "coordinator (1 instance, coordinator)" in text
    edges = [edge for edge in graph["edges"] if {edge["upstream"], edge["downstream"]} <= {*OWN}]
    assert len(edges) == 3
    assert terminal.archon("graph", "--format", "mermaid").out.startswith("flowchart LR")
    assert terminal.archon("graph", "--format", "dot").out.startswith("digraph")
    picture = tmp_path / "mesh.svg"
    assert terminal.archon("graph", "--output", str(picture)).code == 0
    assert picture.read_text().startswith("<svg")


def test_run_prints_progress_answer_and_summary(terminal: Terminal) -> None:
    result = terminal.archon("run", GOAL)
    assert result.code == 0
    for role in ("requirements", "designer", "implementer"):
        assert any(role in line and "working  on" in line for line in result.error_lines)
    assert "\nFrom requirements: R1. " in result.out
    header, *rows, _, total = result.out[result.out.index("role  ") :].splitlines()
    assert header.split() == ["role", "state", "time", "attempts", "memory", "tokens", "in", "out", "instance"]
    assert [row.split()[0] for row in rows] == ["requirements", "designer", "implementer"]
    assert all("completed" in row and "  1      v1  " in row and "~" in row for row in rows)
    assert last_run(terminal)["run_id"] in total


def test_prompts_prints_context_after_the_system_prompt(terminal: Terminal, finished: str) -> None:
    [record] = json.loads(terminal.archon("prompts", finished, "--role", "implementer", "--json").out)
    messages = record["request"]["messages"]
    assert [message["role"] for message in messages] == ["system", "system", "system", "user"]
    assert messages[1]["content"].startswith("Shared context from requirements:\n")
    assert messages[2]["content"].startswith("Shared context from designer:\n")
    assert messages[3]["content"] == GOAL
    text = terminal.archon("prompts", finished[:12]).out
    places = [text.index(f"=== {role}, call 1, attempt 1") for role in ("requirements", "designer", "implementer")]
    assert places == sorted(places)
    assert text.count("Shared context from requirements:") == 2
    assert text.count("Shared context from designer:") == 1


def test_trace_shows_a_run_in_every_form(terminal: Terminal, finished: str, tmp_path: Path) -> None:
    for width in (80, 140):
        lines = terminal.archon("trace", finished, "--width", str(width)).out.splitlines()
        assert all(len(line) <= width for line in lines)
        for role in ("requirements", "designer", "implementer"):
            assert any(line.startswith(f"* {role}") for line in lines)
        assert sum(line.startswith("*   model offline") for line in lines) == 3
    data = json.loads(terminal.archon("trace", finished, "--json").out)
    assert (data["run_id"], data["state"], data["strategy"]) == (finished, "completed", "pipeline")
    assert sum(kind["critical_path_share"] for kind in data["time"].values()) == pytest.approx(1.0, abs=0.01)
    assert data["time"]["waiting"]["critical_path_seconds"] == 0
    for form, start in {".svg": "<svg", ".json": "{", ".txt": "run "}.items():
        file = tmp_path / f"run{form}"
        assert terminal.archon("trace", finished, "--save", str(file)).out == f"Wrote {file}.\n"
        assert file.read_text().startswith(start)
    refused = terminal.archon("trace", finished, "--save", str(tmp_path / "run.png"))
    assert (refused.code, "the suffix must be one of .txt, .json, .svg" in refused.err) == (2, True)


def test_prompts_are_saved_to_a_file(terminal: Terminal, finished: str, tmp_path: Path) -> None:
    text, data = tmp_path / "prompts.txt", tmp_path / "prompts.json"
    assert terminal.archon("prompts", finished, "--save", str(text)).out == f"Wrote {text}.\n"
    assert text.read_text() == terminal.archon("prompts", finished).out
    assert terminal.archon("prompts", finished, "--json", "--save", str(data)).code == 0
    assert [record["role"] for record in json.loads(data.read_text())] == ["requirements", "designer", "implementer"]
    refused = terminal.archon("prompts", finished, "--save", str(tmp_path / "absent" / "x"))
    assert (refused.code, "cannot write" in refused.err) == (1, True)


def test_quiet_prints_only_the_answer_to_a_goal_from_stdin(terminal: Terminal) -> None:
    result = terminal.program("run", "-", "--quiet", "--role", "requirements", stdin="It must be blue.")
    assert result.code == 0
    assert result.err == ""
    assert result.out.rstrip().endswith("R1. It must be blue.")


def test_file_is_attached_to_the_goal(terminal: Terminal, tmp_path: Path) -> None:
    brief = tmp_path / "brief.md"
    brief.write_text("It must be green.")
    out = terminal.archon("run", "It must be round.", "--file", str(brief), "--role", "requirements", "--quiet").out
    assert "R1. It must be round." in out
    assert "R2. It must be green." in out


def test_files_are_attached_and_a_model_may_take_none(terminal: Terminal, tmp_path: Path) -> None:
    brief, picture = tmp_path / "brief.md", tmp_path / "a.png"
    brief.write_text("It must be green.")
    picture.write_bytes(PNG)
    files = [argument for file in (brief, picture) for argument in ("--file", str(file))]
    result = terminal.archon("run", "It must be round.", *files, "--role", "requirements", "--quiet")
    assert result.code == 1
    assert "the model offline does not take the file [a.png, image/png, 70 bytes]" in result.err


def test_json_prints_one_event_per_line_and_nothing_else(terminal: Terminal) -> None:
    events = [json.loads(line) for line in terminal.archon("run", GOAL, "--json").out.splitlines()]
    durable = [int(event["seq"]) for event in events if "seq" in event]
    assert durable == list(range(1, len(durable) + 1))
    assert "submitted" in events[0]
    assert events[-1]["run_state"]["state"] == "TASK_STATE_COMPLETED"
    assert any("text_delta" in event for event in events)


def test_runs_are_listed_newest_first_and_by_session(terminal: Terminal) -> None:
    for _ in range(2):
        terminal.archon("run", "It must be blue.", "--role", "requirements", "--session", "blue", "--quiet")
    runs = json.loads(terminal.archon("runs", "--session", "blue", "--json").out)
    assert [run["session_id"] for run in runs] == ["blue", "blue"]
    assert runs[0]["create_time"] > runs[1]["create_time"]
    [line] = terminal.archon("runs", "--limit", "1").out.splitlines()[1:]
    assert line.split()[:2] == [runs[0]["run_id"][:12], "completed"]
    assert line.endswith("requirements  It must be blue.")


def test_a_detached_run_prints_its_id_and_the_same_request_submits_it_once(terminal: Terminal) -> None:
    arguments = ("run", "It must be blue.", "--role", "requirements", "--detach", "--request-id", "blue-1")
    first = terminal.archon(*arguments)
    assert (first.code, len(first.out.split())) == (0, 1)
    assert terminal.archon(*arguments).out == first.out
    assert terminal.archon("watch", first.out.strip()).code == 0
    refused = terminal.archon(*arguments, "--json")
    assert (refused.code, refused.error_lines[0]) == (
        2,
        "error: --detach prints the run's id only: it excludes --json and --quiet",
    )


def test_runs_are_listed_by_state_and_age(terminal: Terminal) -> None:
    terminal.archon("run", "It must be blue.", "--role", "requirements", "--session", "listed", "--quiet")
    own = ("--session", "listed")
    failed = terminal.archon("runs", "--state", "failed", "--state", "paused", *own)
    assert failed.out == "There are no runs in session listed in state failed or paused.\n"
    assert len(terminal.archon("runs", "--state", "completed", "--since", "1h", "--limit", "1").out.splitlines()) == 2
    assert terminal.archon("runs", "--since", "2099-01-01").out == "There are no runs since then.\n"
    assert "It must be blue." in terminal.archon("runs", "--search", "MUST BE BLUE", *own).out
    assert (
        terminal.archon("runs", "--search", "no such text").out == "There are no runs with the text 'no such text'.\n"
    )
    assert terminal.archon("runs", "--search", "x" * 201).code == 2


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["run", "x", "--role", "absent"], 4, "'absent'"),
        (["run", "x", "--orchestrator", "127.0.0.1:1"], 3, "cannot reach the"),
        (["run", "x", "--orchestrator", "nowhere"], 2, "host:port"),
        (["chat", "designer", "--orchestrator", "127.0.0.1:1"], 3, "cannot reach the orchestrator at 127.0.0.1:1"),
        (["agents", "--registry", "127.0.0.1:1"], 3, "cannot reach the"),
        (["run"], 2, "missing goal"),
        (["run", " "], 2, "missing goal"),
        (["run", "--file", "/does/not/exist"], 2, "cannot read"),
        (["run", "x", "--timeout", "-1"], 2, "--timeout"),
        (["run", "x", "--strategy", "fly"], 2, "pipeline"),
        (["run", "x", "--strategy", "agent", "--role", "designer", "--role", "implementer"], 2, "one --role"),
        (["run", "x", "--budget-tokens", "0"], 2, "--budget-tokens"),
        (["run", "x", "--budget-cost", "nan"], 2, "--budget-cost"),
        (["run", "x", "--budget-depth", "-1"], 2, "--budget-depth"),
        (["run", "x", "--timeout", "0.001"], 1, ""),
        (["prompts", "zzz"], 4, "'zzz'"),
        (["trace", "zzz"], 4, "'zzz'"),
        (["trace", "last", "--format", "png"], 2, "png"),
        (["up"], 1, "already running"),
        (["up", "--detach"], 1, "already running"),
        (["up", "--replicas", "painter=2"], 2, "'painter'"),
        (["up", "--replicas", "designer=many"], 2, "'designer=many'"),
        (["up", "--replicas", "designer=1000"], 2, "1000"),
        (["up", "--only", "kitchen"], 2, "'kitchen'"),
        (["fly"], 2, "fly"),
    ],
)
def test_errors_are_one_line_with_an_exit_code(terminal: Terminal, arguments: list[str], code: int, text: str) -> None:
    result = terminal.archon(*arguments)
    assert result.code == code
    if text:
        assert result.error_lines[0].startswith("error: ")
        assert text in result.error_lines[0]
        assert [line for line in result.error_lines[1:] if not line.startswith("hint: ")] == []


def test_a_program_ends_with_the_exit_code_of_its_error(terminal: Terminal) -> None:
    result = terminal.program("run", "x", "--role", "absent")
    assert (result.code, result.out) == (4, "")
    assert "'absent'" in result.error_lines[0]


def test_ctrl_c_cancels_the_run(terminal: Terminal) -> None:
    with frozen(terminal, "requirements-1"), terminal.start("run", GOAL, program=True) as running:
        running.until("requirements")
        running.interrupt()
        assert running.end() == 130
    assert "canceled" in running.text
    assert last_run(terminal)["state"] == "TASK_STATE_CANCELED"


def test_second_ctrl_c_detaches_from_the_run(terminal: Terminal) -> None:
    with frozen(terminal, "requirements-1"), terminal.start("run", GOAL) as running:
        running.until("requirements")
        with frozen(terminal, "orchestrator"):
            running.interrupt()
            running.until("Ctrl-C again to detach")
            running.interrupt()
            assert running.end() == 130
    assert "which may still be running" in running.text


def test_closed_pipe_causes_no_traceback(terminal: Terminal) -> None:
    command = f"{shlex.join([*ARCHON, 'graph', '--format', 'json'])} | true"
    result = subprocess.run(["sh", "-c", command], env=terminal.environment, capture_output=True, text=True)
    assert "Traceback" not in result.stderr


def test_crashed_process_is_restarted_and_serves(terminal: Terminal) -> None:
    before = terminal.state().process("implementer-1")
    os.kill(before.pid, signal.SIGKILL)
    wait_until(lambda: terminal.state().process("implementer-1").restarts > before.restarts)
    wait_until(lambda: terminal.state().process("implementer-1").condition == "healthy", within=PATIENCE)
    assert terminal.archon("run", GOAL, "--quiet").code == 0


def test_trace_has_colours_on_a_terminal_unless_refused(
    terminal: Terminal, finished: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coloured = terminal.on_screen("trace", finished, columns=80)[1]
    monkeypatch.setitem(terminal.environment, "NO_COLOR", "1")
    plain = terminal.on_screen("trace", finished, columns=80)[1]
    assert re.search(r"\x1b\[[0-9;]*3\dm#+", coloured)
    assert not re.search(r"\x1b\[[0-9;]*[34]\dm", plain)
    assert "model offline" in plain


@pytest.mark.parametrize(
    "arguments",
    [
        ["agents"],
        ["tools"],
        ["runs"],
        ["status"],
        ["graph"],
        ["doctor"],
        ["show", "last"],
        ["trace", "last"],
        ["run", GOAL],
        ["run", "x", "--role", "a-role-that-does-not-exist-anywhere-in-this-mesh"],
        ["graph", "-o", "/tmp/archon-graph.png"],
        ["logs", "absent"],
        ["logs", "last"],
        ["logs"],
        ["memory", "get"],
        ["up"],
        ["--help"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("finished")
def test_no_line_is_wider_than_a_terminal_of_80_columns(terminal: Terminal, arguments: list[str]) -> None:
    _, written = terminal.on_screen(*arguments, columns=80, program=arguments == ["--help"])
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written)
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", plain)]
    # A word that is longer than a line, such as a path, stays whole, so that it can be copied.
    wide = [line for line in lines if len(line) > 80 and max(map(len, line.split())) < 60]
    assert wide == []


def test_logs_of_the_newest_run_are_those_of_its_agents(terminal: Terminal) -> None:
    run_id = completed(terminal)
    logs = terminal.archon("logs", "last", "--json")
    assert logs.code == 0
    lines = [json.loads(line) for line in logs.out.splitlines()]
    assert {line["run_id"] for line in lines} == {run_id}
    assert [line["role"] for line in lines] == list(PIPELINE), "in the order of time"
    assert len(terminal.archon("logs", run_id[:20]).out.splitlines()) == 3


def test_a_run_without_lines_of_a_level_is_reported(terminal: Terminal, finished: str) -> None:
    logs = terminal.archon("logs", finished, "--level", "error")
    assert logs.code != 0
    assert logs.error_lines[0].endswith(" at level error or above")


def test_terminal_shows_a_tree_and_restores_the_cursor(terminal: Terminal) -> None:
    code, text = terminal.on_screen("run", GOAL, columns=120, program=True)
    assert code == 0
    assert "└── " in text
    assert "✔" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
