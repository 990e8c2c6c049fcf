"""Each grpcurl command of the README works as the README says. Only the addresses differ."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from archon_services.testing.mesh import LocalMesh
from tests.fixtures.require import require

README = Path(__file__).resolve().parents[2] / "README.md"
AUTH = "$AUTH"
"""The word of the recipes that the shell replaces by the header with the token."""

SUBMIT = "archon.api.orchestrator.v1.OrchestratorService/SubmitRun"


def recipes() -> list[list[str]]:
    """Returns the words of each grpcurl command of the README, in the order of the text."""
    lines = README.read_text().replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.startswith("grpcurl ")]


class Answered:
    """The output and the exit code of grpcurl."""

    def __init__(self, process: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    @property
    def json(self) -> dict[str, Any]:
        assert self.code == 0, self.err
        answer: dict[str, Any] = json.loads(self.out, object_pairs_hook=_as_in_the_contract)
        return answer


def _as_in_the_contract(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Converts keys to the names in the proto files: JSON of protobuf allows runId for run_id."""
    return {re.sub(r"(?<=[a-z])([A-Z])", lambda match: "_" + match[1].lower(), key): value for key, value in pairs}


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def program() -> Path:
    return require("grpcurl")


@pytest.fixture(scope="module")
def usual(program: Path, mesh: LocalMesh) -> dict[str, str]:
    """The addresses of the README, and the address of the same service in this mesh."""
    addresses = {"127.0.0.1:7100": mesh.orchestrator, "127.0.0.1:7101": mesh.registry, "127.0.0.1:7102": mesh.memory}
    return {**addresses, AUTH: f"authorization: Bearer {mesh.user_token()}"}


def grpcurl(program: Path, usual: dict[str, str], *words: str) -> Answered:
    command = [str(program), *(usual.get(word, word) for word in words)]
    return Answered(subprocess.run(command, capture_output=True, text=True, timeout=60))


@pytest.fixture(scope="module")
def answers(program: Path, usual: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The response of each recipe by method. Calls them in the order of the text; a recipe that fails, fails the
    tests."""
    return {words[-1]: grpcurl(program, usual, *words[1:]).json for words in recipes()}


def answer(answers: dict[str, dict[str, Any]], method: str) -> dict[str, Any]:
    responses = [value for name, value in answers.items() if name.endswith(f"/{method}")]
    assert len(responses) == 1, f"the README has {len(responses)} recipes for {method}"
    return responses[0]


def test_every_recipe_of_the_readme_is_asserted_on_here() -> None:
    here = Path(__file__).read_text()
    methods = [words[-1].rpartition("/")[2] for words in recipes()]
    assert len(methods) >= 7
    assert [method for method in methods if f'answer(answers, "{method}")' not in here] == []


def test_health_is_serving(answers: dict[str, dict[str, Any]]) -> None:
    assert answer(answers, "Check") == {"status": "SERVING"}


def test_the_registry_lists_instances_and_the_graph(answers: dict[str, dict[str, Any]]) -> None:
    roles = {"requirements", "designer", "implementer"}
    assert {instance["role"] for instance in answer(answers, "ListInstances")["instances"]} == roles | {
        "coordinator",
        "planner",
    }
    graph = answer(answers, "GetGraph")["graph"]
    assert [role for role in graph["roles"] if role in roles] == ["requirements", "designer", "implementer"]
    assert {(edge["upstream"], edge["downstream"]) for edge in graph["edges"]} >= {("requirements", "designer")}
    assert {instance["role"] for instance in answer(answers, "ResolveInstances")["instances"]} == {"designer"}


def test_a_run_is_submitted_waited_for_and_listed(answers: dict[str, dict[str, Any]]) -> None:
    run = answer(answers, "SubmitRun")["run"]
    assert run["state"] == "TASK_STATE_COMPLETED"
    assert "overdue books" in run["answers"][0]["parts"][0]["text"]
    assert run["run_id"] in [listed["run_id"] for listed in answer(answers, "ListRuns")["runs"]]


def test_memory_shows_what_the_implementer_sees(answers: dict[str, dict[str, Any]]) -> None:
    items = answer(answers, "PullItems")["items"]
    assert [item["source_role"] for item in items] == ["requirements", "designer"]


def test_the_details_of_an_error_can_be_read(program: Path, usual: dict[str, str]) -> None:
    data = json.dumps({"goal": [{"text": "x"}], "roles": ["absent"]})
    failed = grpcurl(program, usual, "-plaintext", "-H", AUTH, "-d", data, "127.0.0.1:7100", SUBMIT)
    assert failed.code == 64 + 5, "grpcurl adds 64 to the status code, here NOT_FOUND"
    assert "Code: NotFound" in failed.err
    details = failed.err.partition("Details:")[2]
    assert '"@type": "type.googleapis.com/google.rpc.ErrorInfo"' in re.sub(r"\s+", " ", details)
    assert '"reason": "UNKNOWN_ROLE"' in details and '"domain": "archon.dev"' in details


@pytest.mark.parametrize("service", ["127.0.0.1:7100", "127.0.0.1:7101", "127.0.0.1:7102"])
def test_a_service_describes_itself_without_a_proto_file(program: Path, usual: dict[str, str], service: str) -> None:
    listed = grpcurl(program, usual, "-plaintext", "-H", AUTH, service, "list")
    assert listed.code == 0 and "archon.api." in listed.out
    name = next(line for line in listed.out.splitlines() if line.startswith("archon.api."))
    assert (
        f"service {name.rpartition('.')[2]}"
        in grpcurl(program, usual, "-plaintext", "-H", AUTH, service, "describe", name).out
    )
