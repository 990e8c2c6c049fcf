"""`archon certs`, and a mesh of `archon up --tls`."""

from __future__ import annotations

import json
import re
import ssl
from pathlib import Path

import httpx2
import pytest

from archon.errors import FailedPrecondition
from archon.security.certificates import CertificateFolder
from tests.e2e.terminal import Terminal
from tests.fixtures.waiting import wait_until


@pytest.fixture
def authority(tmp_path: Path) -> tuple[Terminal, Path]:
    """A terminal, and the folder of the authority of the mesh prod.example.com."""
    terminal = Terminal(tmp_path / "home")
    folder = tmp_path / "authority"
    made = terminal.archon("certs", "init", "prod.example.com", "--authority", str(folder))
    assert (made.code, "The authority of the mesh prod.example.com is in" in made.out) == (0, True), made
    return terminal, folder


def test_a_member_gets_a_certificate_which_is_shown_and_renewed(
    authority: tuple[Terminal, Path], tmp_path: Path
) -> None:
    terminal, issuer = authority
    folder, option = str(tmp_path / "reviewer"), ("--authority", str(issuer))
    issued = terminal.archon("certs", "issue", "agent/reviewer", folder, *option, "--days", "2", "--name", "10.1.2.3")
    assert re.match(r"spiffe://prod\.example\.com/ns/default/agent/reviewer is in .*, valid until 20", issued.out)
    shown = json.loads(terminal.archon("certs", "show", folder, "--json").out)
    assert shown["member"] == "spiffe://prod.example.com/ns/default/agent/reviewer"
    assert (shown["name of DNS"], shown["other names"]) == ("reviewer.agent.default.prod.example.com", "10.1.2.3")
    assert shown["left"] == "2.0 days"
    first = CertificateFolder(tmp_path / "reviewer").read()
    assert "has more than 1 days left" in terminal.archon("certs", "renew", folder, *option, "--left", "1").out
    renewed = terminal.archon("certs", "renew", folder, *option, "--left", "30")
    assert (renewed.code, renewed.out.startswith(str(first.identity))) == (0, True)
    again = CertificateFolder(tmp_path / "reviewer").read()
    assert (again.identity, again.other_names) == (first.identity, first.other_names)
    assert again.expires > first.expires + 80 * 86_400
    assert max(map(len, terminal.archon("certs", "show", folder).out.splitlines())) <= 80


def test_wrong_arguments_issue_no_certificate(authority: tuple[Terminal, Path], tmp_path: Path) -> None:
    terminal, issuer = authority
    option = ("--authority", str(issuer))
    folder = str(tmp_path / "x")
    for wrong in (
        ("init", "prod", *option),
        ("init", "Not A Name"),
        ("issue", "reviewer", folder, *option),
        ("issue", "root/x", folder, *option),
        ("issue", "agent/x", folder, *option, "--days", "0"),
        ("issue", "agent/x", folder, *option, "--tenant", "a/b"),
        ("issue", "agent/x", folder, "--authority", str(tmp_path / "nothing")),
        ("renew", folder, *option),
        ("show", folder),
    ):
        refused = terminal.archon("certs", *wrong)
        assert (refused.code in (1, 2), refused.err.startswith("error: "), refused.out) == (True, True, ""), wrong
    assert not (tmp_path / "x").exists()


def chain_of(folder: Path) -> bytes:
    """The certificate of a folder; empty while its files are being replaced."""
    try:
        return CertificateFolder(folder).read().chain
    except FailedPrecondition:
        return b""


@pytest.mark.slow
def test_a_mesh_with_encrypted_connections_works_as_any_other(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "home")
    try:
        up = terminal.archon(
            "up", "--detach", "--tls", "--only", "registry,memory,orchestrator,gateway,requirements,designer"
        )
        assert up.code == 0, up.err
        assert "once: https://127.0.0.1:" in up.out
        for command in (
            ("status",),
            ("agents",),
            ("doctor",),
            ("run", "x", "--role", "requirements"),
            ("show", "last"),
        ):
            result = terminal.archon(*command)
            assert result.code == 0, (command, result.err)
        assert "0/8" in terminal.archon("agents").out  # the agents answered the command themselves
        trusted = ssl.create_default_context(cafile=str(terminal.home / "tls" / "user" / "ca.crt"))
        link = terminal.archon("token", "--browser").out.strip()
        with httpx2.Client(verify=trusted, follow_redirects=False) as http:
            assert http.get(link).status_code == 303
            assert http.get(f"https://{terminal.state().address('gateway')}/session").json()["kind"] == "admin"
        other = Terminal(tmp_path / "other", ARCHON_ORCHESTRATOR=terminal.state().address("orchestrator"))
        other.environment["ARCHON_TOKEN"] = terminal.archon("token").out.strip()
        unreachable = other.archon("runs")
        assert (unreachable.code, "cannot reach the orchestrator" in unreachable.err) == (3, True)
        other.environment["ARCHON_TLS"] = str(terminal.home / "tls" / "user")
        assert other.archon("runs").code == 0
        before = CertificateFolder(terminal.home / "tls" / "designer-1").read()
        for folder in (terminal.home / "tls").iterdir():
            if folder.name != "authority":
                (folder / "tls.key").unlink()  # the supervisor issues it anew, as it does before it expires
        wait_until(lambda: chain_of(terminal.home / "tls" / "designer-1") not in (b"", before.chain))
        wait_until(lambda: (terminal.home / "tls" / "user" / "tls.key").exists())
        wait_until(lambda: (terminal.home / "tls" / "https" / "tls.key").exists())
        assert terminal.archon("run", "again", "--role", "requirements").code == 0
        assert terminal.archon("restart", "designer").code == 0
    finally:
        terminal.archon("down")
        assert not terminal.processes()


def test_a_server_that_others_reach_does_not_start_without_tls(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "home", ARCHON_HOST="0.0.0.0")
    clerk = Path(__file__).parents[2] / "examples" / "clerk.yaml"
    refused = terminal.archon("serve", str(clerk), "--registry", "127.0.0.1:1", "--host", "0.0.0.0")
    assert refused.code == 1
    assert "traffic would be in clear text: set ARCHON_TLS" in refused.err
