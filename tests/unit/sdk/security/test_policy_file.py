"""A policy of a file, in place of the built-in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.errors import FailedPrecondition, InvalidArgument, PermissionDenied
from archon.principal import Kind, Principal
from archon.security.authenticator import MemberAuthenticator, own_authenticator
from archon.security.keys import KeyFile
from archon.security.policy import POLICY
from archon.security.policy_file import own_policy, policy_text, read_policy
from tests.fixtures.tokens import TestKeys

SUBMIT = "/archon.api.orchestrator.v1.OrchestratorService/SubmitRun"


def test_the_built_in_policy_reads_back_as_it_is_written() -> None:
    assert read_policy(policy_text()) == POLICY


def test_a_row_replaces_its_own_and_no_other() -> None:
    policy = read_policy("orchestrator.v1.OrchestratorService:\n  SubmitRun: [admin, service]\n")
    assert policy[SUBMIT] == {Kind.ADMIN, Kind.SERVICE}
    assert {name: kinds for name, kinds in policy.items() if name != SUBMIT} == {
        name: kinds for name, kinds in POLICY.items() if name != SUBMIT
    }


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[", "no YAML"),
        ("- a", "mapping of services"),
        ("", "mapping of services"),
        ("orchestrator.v1.OrchestratorService: [a]", "mapping of RPCs"),
        ("orchestrator.v1.OrchestratorService: {SubmitRuns: [admin]}", "did you mean .*/SubmitRun?"),
        ("a: {b: [admin]}", "there is no such RPC"),
        ("orchestrator.v1.OrchestratorService: {SubmitRun: admin}", "expected a list of kinds"),
        ("orchestrator.v1.OrchestratorService: {SubmitRun: [admins, service]}", "did you mean admin?"),
        ("orchestrator.v1.OrchestratorService: {SubmitRun: [admin]}", "add `service`"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_place(text: str, fault: str) -> None:
    with pytest.raises(InvalidArgument, match=fault):
        read_policy(text)


def test_a_server_takes_the_policy_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("orchestrator.v1.OrchestratorService:\n  SubmitRun: [admin, service]\n")
    monkeypatch.setenv("ARCHON_POLICY", str(file))
    keys = TestKeys(tmp_path)
    server = MemberAuthenticator(KeyFile(keys.file), "services")
    for kind, allowed in ((Kind.ADMIN, True), (Kind.OPERATOR, False)):
        metadata = [("authorization", f"Bearer {keys.token(Principal(kind, 'ann'))}")]
        if allowed:
            assert server.caller(SUBMIT, metadata, dict).identity == "ann"
        else:
            with pytest.raises(PermissionDenied, match="kinds that may: admin, service"):
                server.caller(SUBMIT, metadata, dict)
    monkeypatch.delenv("ARCHON_KEYS", raising=False)
    with pytest.raises(FailedPrecondition, match="without them every caller is let in"):
        own_authenticator()
    file.write_text("x")
    with pytest.raises(FailedPrecondition, match=r"policy\.yaml \(ARCHON_POLICY\) cannot be used"):
        own_policy()
    monkeypatch.setenv("ARCHON_POLICY", str(tmp_path / "none.yaml"))
    with pytest.raises(FailedPrecondition, match="No such file"):
        own_policy()
