"""Tokens of a mesh of `archon up`: who is let in, and with what sentence others are refused."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from archon.client import Client
from archon.errors import ArchonError, TokenExpired, TokenInvalid, TokenMissing
from archon.security.credentials import Tokens
from archon.security.keys import KeySet
from archon.security.tokens import claims_of, verify
from tests.e2e.terminal import PATIENCE, Terminal
from tests.fixtures.waiting import eventually, wait_until

REMEDY = "needs a token: `archon token`, in the folder of the mesh, prints one; set ARCHON_TOKEN to it"


def elsewhere(terminal: Terminal, folder: Path, **environment: str) -> Terminal:
    """A terminal of the same user in another folder, which knows the addresses of the mesh."""
    state = terminal.state()
    addresses = {"ARCHON_ORCHESTRATOR": state.address("orchestrator"), "ARCHON_REGISTRY": state.registry}
    return Terminal(folder, **addresses, **environment)


async def refusal(terminal: Terminal, token: str) -> ArchonError | None:
    """Returns why the orchestrator refuses a token; None if it lists runs for it."""
    async with Client(terminal.state().address("orchestrator"), credentials=Tokens(token)) as client:
        try:
            await client.list_runs(limit=1)
        except ArchonError as error:
            return error
    return None


def test_commands_find_the_token_in_the_folder_of_the_mesh_alone(terminal: Terminal, tmp_path: Path) -> None:
    assert terminal.archon("runs").code == 0
    for command in (("runs",), ("agents",), ("inbox",), ("show", "last")):
        refused = elsewhere(terminal, tmp_path).archon(*command)
        assert (refused.code, len(refused.error_lines), REMEDY in refused.err) == (1, 1, True), refused
    token = terminal.archon("token").out.strip()
    assert elsewhere(terminal, tmp_path, ARCHON_TOKEN=token).archon("runs").code == 0
    (tmp_path / "token").write_text(token)
    assert elsewhere(terminal, tmp_path, ARCHON_TOKEN_FILE=str(tmp_path / "token")).archon("runs").code == 0


def test_something_else_than_a_token_is_named(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hello")
    for variable, value, named in (
        ("ARCHON_TOKEN", "hello", "ARCHON_TOKEN"),
        ("ARCHON_TOKEN_FILE", str(tmp_path / "token"), str(tmp_path / "token")),
    ):
        wrong = elsewhere(terminal, tmp_path, **{variable: value}).archon("runs")
        assert (wrong.code, wrong.out) == (1, "")
        assert wrong.error_lines == [f"error: {named} has no token: it is not a JSON Web Token"]


def test_a_token_says_who_it_is_for_and_until_when(terminal: Terminal) -> None:
    issued = terminal.archon("token", "--kind", "viewer", "--name", "vi", "--expires", "30m").out.strip()
    claims = claims_of(issued)
    assert (claims["sub"], claims["kind"], claims["aud"]) == ("vi", "viewer", "services")
    assert claims["exp"] - claims["iat"] == 1800
    shown = terminal.archon("token", "show", issued)
    assert re.search(r"^kind +viewer$", shown.out, re.M)
    assert json.loads(terminal.archon("token", "show", "-", "--json", stdin=issued).out) == claims
    services, agents = terminal.archon("token", "--role", "reviewer", "--role", "critic").out.strip().split(",")
    assert [claims_of(each)["aud"] for each in (services, agents)] == ["services", "agents"]
    assert claims_of(services)["roles"] == ["critic", "reviewer"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--kind", "root"),
        ("--role", "a", "--kind", "admin"),
        ("--role", "not a role"),
        ("--expires", "soon"),
        ("--expires", "0h"),
        ("--expires", "9999d"),
        ("--name", "a b"),
        ("show", "x.y"),
        ("--role", "a", "--for-agents"),
    ],
)
def test_wrong_arguments_issue_no_token(terminal: Terminal, arguments: tuple[str, ...]) -> None:
    wrong = terminal.archon("token", *arguments)
    assert (wrong.code in (1, 2), wrong.out, wrong.err.startswith("error: ")) == (True, "", True), wrong


def test_what_is_no_id_of_a_token_is_not_written_to_the_keys(terminal: Terminal) -> None:
    refused = terminal.archon("token", "revoke", "hunter2+/secret")
    assert (refused.code, "neither a token nor the id of one" in refused.err) == (2, True)
    assert "hunter2" not in refused.out + refused.err + (terminal.home / "keys.json").read_text()


def test_a_folder_without_a_mesh_has_no_key(tmp_path: Path) -> None:
    for command in (("token",), ("token", "revoke", "x"), ("token", "rotate")):
        missing = Terminal(tmp_path / "home").archon(*command)
        assert (missing.code, "no mesh was started in" in missing.err) == (1, True), missing


def test_keys_are_made_for_services_that_are_started_otherwise(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "home")
    assert terminal.archon("token", "init").out == f"The keys are in {terminal.home}. `archon token` issues tokens.\n"
    assert terminal.archon("token", "init").out.startswith("There are keys in")
    tokens = terminal.archon("token", "--service", "orchestrator").out.strip().split(",")
    assert [(claims_of(each)["kind"], claims_of(each)["aud"]) for each in tokens] == [
        ("service", "services"),
        ("service", "agents"),
    ]
    keys = KeySet.parse((terminal.home / "keys.json").read_text())
    assert verify(tokens[0], keys, "services").identity == "service:orchestrator"


def test_a_viewer_reads_and_changes_nothing(terminal: Terminal, tmp_path: Path, finished: str) -> None:
    token = terminal.archon("token", "--kind", "viewer", "--name", "vi").out.strip()
    viewer = elsewhere(terminal, tmp_path, ARCHON_TOKEN=token)
    for command in (("runs",), ("show", finished), ("agents",), ("graph",)):
        assert viewer.archon(*command).code == 0, command
    for command in (("run", "x"), ("ask", "x"), ("plan", "x")):
        refused = viewer.archon(*command)
        assert (refused.code, "vi is of kind viewer and may not call" in refused.err) == (1, True), refused


def test_the_files_of_keys_and_tokens_are_the_users_alone(terminal: Terminal) -> None:
    files = [*(terminal.home / "tokens").iterdir(), *(terminal.home / name for name in ("signing-key.json", "token"))]
    assert len(files) > 4
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    tokens = [file for file in files if not file.name.startswith(".") and file.name != "signing-key.json"]
    secrets = {part for file in tokens for part in re.findall(r"[\w-]+\.[\w-]+\.[\w-]+", file.read_text())}
    for log in (terminal.home / "logs").iterdir():
        text = log.read_text()
        assert not [secret for secret in secrets if secret in text], log


async def test_an_agent_of_another_folder_joins_with_a_token_for_its_role(terminal: Terminal, tmp_path: Path) -> None:
    program = tmp_path / "reviewer.py"
    program.write_text(
        "from archon.agent import AgentServer, AgentSettings\n"
        "import sys\n"
        "agent = AgentServer(sys.argv[1], handler=lambda task: 'joined', settings=AgentSettings.from_environment())\n"
        "sys.exit(agent.run())\n"
    )
    token = terminal.archon("token", "--role", "joiner").out.strip()
    environment = elsewhere(terminal, tmp_path, ARCHON_TOKEN=token).environment

    def start(role: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(program), role]
        return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)

    with start("pretender") as refused:
        assert refused.wait(PATIENCE) == 1
        assert refused.stderr is not None
        assert "may not register the role 'pretender'; roles of its credentials: joiner" in refused.stderr.read()
    with start("joiner") as joined:
        try:
            async with Client(terminal.state().address("orchestrator"), credentials=terminal.credentials) as client:

                async def done() -> bool:
                    run = await (await client.submit("x", roles=["joiner"])).result(PATIENCE)
                    return [answer.text for answer in run.answers] == ["joined"]

                wait_until(lambda: "joiner" in terminal.archon("graph", "--json").out + terminal.archon("agents").out)
                await eventually(done)
        finally:
            joined.terminate()


async def test_tokens_of_another_mesh_and_another_audience_are_refused(terminal: Terminal, tmp_path: Path) -> None:
    with_a_key = Terminal(tmp_path / "other")
    assert with_a_key.archon("up", "--only", "registry", "--detach").code == 0
    try:
        foreign = with_a_key.archon("token").out.strip()
    finally:
        with_a_key.archon("down")
    error = await refusal(terminal, foreign)
    assert isinstance(error, TokenInvalid)
    assert "was signed by another mesh than" in str(error)
    for_agents = terminal.archon("token", "--for-agents").out.strip()
    assert isinstance(await refusal(terminal, for_agents), TokenMissing)  # it is not presented to a service
    expired = terminal.archon("token", "--expires", "1s").out.strip()

    async def refused() -> bool:
        return isinstance(await refusal(terminal, expired), TokenExpired)

    await eventually(refused)


async def test_a_revoked_token_is_refused_and_the_others_are_not(terminal: Terminal) -> None:
    token = terminal.archon("token").out.strip()
    assert await refusal(terminal, token) is None
    assert terminal.archon("token", "revoke", token).out == f"The token {claims_of(token)['jti']} is revoked.\n"

    async def revoked() -> bool:
        error = await refusal(terminal, token)
        return error is not None and error.reason == "TOKEN_REVOKED"

    await eventually(revoked)
    assert terminal.archon("runs").code == 0


@pytest.mark.slow
async def test_a_mesh_goes_on_with_a_new_key(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "home")
    try:
        assert terminal.archon("up", "--detach").code == 0
        token = terminal.archon("token").out.strip()
        running = terminal.archon("run", "Write a page", "--detach")
        assert terminal.archon("token", "rotate").code == 0

        async def refused() -> bool:
            return isinstance(await refusal(terminal, token), TokenInvalid)

        await eventually(refused)
        wait_until(lambda: terminal.archon("runs").code == 0, PATIENCE)
        assert terminal.archon("watch", running.out.strip()).code == 0
        wait_until(lambda: terminal.archon("run", "Write another page").code == 0, PATIENCE)
    finally:
        terminal.archon("down")
        assert not terminal.processes()


def test_the_policy_is_shown_and_asked(terminal: Terminal) -> None:
    shown = terminal.archon("policy", "show").out
    assert re.search(r"^OrchestratorService/SubmitRun +admin, operator, service$", shown, re.M)
    assert terminal.archon("policy", "test", "viewer", "GetRun").out == "viewer may call OrchestratorService/GetRun\n"
    denied = terminal.archon("policy", "test", "viewer", "SubmitRun")
    assert (denied.code, denied.out) == (1, "viewer may not call OrchestratorService/SubmitRun\n")
    assert terminal.archon("policy", "test", "root", "GetRun").code == 2
    assert terminal.archon("policy", "test", "viewer", "Nothing").code == 4
