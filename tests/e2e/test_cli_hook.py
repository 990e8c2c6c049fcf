"""`archon hook`: its output, its mistakes, and a test delivery through an HTTP gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.small_mesh import small_mesh
from tests.e2e.terminal import PATIENCE, Result, Terminal
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.slow

WIDTH = 80


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with small_mesh(tmp_path_factory.mktemp("mesh"), "designer", "workflow") as terminal:
        yield terminal


def done(terminal: Terminal, *arguments: str) -> Result:
    result = terminal.archon(*arguments)
    assert result.code == 0, result.err
    return result


def test_a_hook_from_its_first_to_its_last_command(terminal: Terminal) -> None:
    assert done(terminal, "hook", "list").out == "There is no hook. `archon hook add` adds one.\n"
    github = ("--scheme", "github", "--event", "pull_request", "--role", "designer", "--note", "n")
    added = done(terminal, "hook", "add", "review", "Review {{ body.url }}.", *github)
    assert added.out.startswith("review: active\n  url         ") and "/hooks/review" in added.out
    assert "  replays     the same body within 1d is the same delivery\n" in added.out
    secret = added.out.splitlines()[-2].strip()
    assert len(secret) == 64 and all(len(line) <= WIDTH for line in added.out.splitlines())
    again = terminal.archon("hook", "add", "review", "x")
    assert (again.code, again.error_lines[-1]) == (1, "hint: `archon hook edit` changes it.")
    listed = done(terminal, "hook", "list").out.splitlines()
    assert listed[1].split() == ["review", "active", "github", "-", "0", "0"]

    changes = ("--goal", "Look at {{ body.url }}.", "--event", "push", "--max-per-minute", "9", "--timeout", "60")
    edited = done(terminal, "hook", "edit", "review", *changes, "--note", "").out
    assert "  events      push\n" in edited and "  goal        Look at {{ body.url }}.\n" in edited
    assert "  limit       9 a minute\n" in edited and "  roles       designer\n" in edited and "note" not in edited
    assert "events" not in done(terminal, "hook", "edit", "review", "--all-events", "--reseal").out
    changed = terminal.archon("hook", "edit", "review", "--note", "n", "--etag", "0-1")
    assert (changed.code, changed.error_lines[-1]) == (1, "hint: `archon hook show --json` has its etag.")
    etag = json.loads(done(terminal, "hook", "show", "review", "--json").out)["etag"]
    assert (
        json.loads(done(terminal, "hook", "edit", "review", "--note", "n", "--etag", etag, "--json").out)["note"] == "n"
    )

    rotated = done(terminal, "hook", "rotate", "review", "--overlap", "1h").out
    assert "the one before is valid until" in rotated and secret not in rotated
    assert done(terminal, "hook", "pause", "review", "--reason", "holidays").out == "Paused review.\n"
    shown = done(terminal, "hook", "show", "review").out
    assert "  paused      holidays\n" in shown and secret not in shown
    assert done(terminal, "hook", "resume", "review").out == "Resumed review.\n"
    assert done(terminal, "hook", "remove", "review").out == "Removed review.\n"
    unknown = terminal.archon("hook", "show", "review")
    assert (unknown.code, unknown.error_lines[-1]) == (4, "hint: `archon hook list` lists the hooks.")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("{{ other }}",), "hook.run.goal: the template of a hook reads 'other'"),
        (("x", "--scheme", "slack"), "the sender makes the secret of such a hook"),
        (("x", "--replay-window", "1h"), "--replay-window is for --scheme github"),
        (("x", "-p", "a=b"), "-p is a parameter of --workflow"),
        (("x", "--secret-file", "/nowhere"), "cannot read /nowhere"),
        ((), "Pass it as an argument after the name."),
    ],
)
def test_a_wrong_hook_says_why(terminal: Terminal, arguments: tuple[str, ...], error: str) -> None:
    result = terminal.archon("hook", "add", "wrong", *arguments)
    assert result.code in (1, 2) and error in " ".join(result.err.split())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "nothing to change: give an option"),
        (("--event", "a", "--all-events"), "--event and --all-events exclude each other"),
        (("--goal", "{{ other }}"), "the template of a hook reads 'other'"),
        (("--replay-window", "1h"), "only GITHUB signs no id"),
        (("--replay-window", "soon"), "--replay-window 'soon' is no duration"),
        (("--budget-cost", "0"), "--budget-cost must be"),
    ],
)
def test_a_wrong_edit_says_why(terminal: Terminal, arguments: tuple[str, ...], error: str) -> None:
    if "edited" not in done(terminal, "hook", "list").out:
        done(terminal, "hook", "add", "edited", "x")
    result = terminal.archon("hook", "edit", "edited", *arguments)
    assert result.code in (1, 2) and error in " ".join(result.err.split())
    assert terminal.archon("hook", "edit", "none", "--note", "n").code == 4


def test_parameters_of_a_workflow_are_checked_before(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "trip.yaml"
    file.write_text(
        "name: trip\nparameters: {city: {}, nights: {type: integer}}\nsteps: [{task: 'Go to {{ city }}'}]\n"
    )
    options = ("--workflow", str(file), "--json", "-p", "city={{ body.city }}")
    missing = terminal.archon("hook", "add", "trip", *options)
    assert missing.code != 0 and "nights: is missing" in missing.err
    unknown = terminal.archon("hook", "add", "trip", *options, "-p", "nights=2", "-p", "x={{ body.x }}")
    assert unknown.code != 0 and "x: is no parameter" in unknown.err


def test_a_hook_is_edited_to_another_workflow(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "stay.yaml"
    file.write_text("name: stay\nparameters: {city: {}}\nsteps: [{task: 'Stay in {{ city }}', role: designer}]\n")
    secret = json.loads(done(terminal, "hook", "add", "stays", "x", "--role", "designer", "--json").out)["secret"]
    edited = done(terminal, "hook", "edit", "stays", "--workflow", str(file), "-p", "city={{ body.city }}", "--json")
    assert json.loads(edited.out)["goal"].startswith("Workflow stay") and secret not in edited.out
    refused = terminal.archon("hook", "edit", "stays", "--workflow", str(file), "-p", "x=1")
    assert refused.code != 0 and "x: is no parameter" in refused.err
    done(terminal, "hook", "remove", "stays")


def test_json_has_the_secret_when_it_is_made_alone(terminal: Terminal) -> None:
    added = json.loads(done(terminal, "hook", "add", "made", "x", "--json").out)
    assert added["secret"].startswith("whsec_")
    assert "secret" not in json.loads(done(terminal, "hook", "show", "made", "--json").out)


def test_no_gateway_at_the_url_is_an_error(terminal: Terminal) -> None:
    done(terminal, "hook", "add", "far", "x", "--role", "designer")
    result = terminal.archon("hook", "test", "far", "--url", "http://127.0.0.1:9")
    assert (result.code, "no answer of http://127.0.0.1:9/hooks/far" in result.err) == (3, True)
    wait_until(lambda: "0 accepted" in done(terminal, "hook", "show", "far").out, PATIENCE)
