"""`archon login`, `logout` and `whoami`: people of an OpenID provider at the command line."""

from __future__ import annotations

import asyncio
import json
import re
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from archon_services.cli.login import device_flow
from tests.e2e.terminal import Result, Terminal
from tests.fixtures.openid_mesh import OpenIdMesh, openid_mesh


class Person:
    """A person with a context of the mesh in use, at a terminal elsewhere."""

    def __init__(self, mesh: OpenIdMesh, folder: Path) -> None:
        self.mesh = mesh
        self.openid = mesh.openid
        self.openid.answers["/device"] = self._device
        self.terminal = Terminal(folder / "elsewhere", XDG_CONFIG_HOME=str(folder / "config"))
        del self.terminal.environment["ARCHON_HOME"]
        self.file = folder / "config" / "archon" / "logins" / "prod.json"

    def _device(self, form: dict[str, str]) -> tuple[int, Any]:
        page = {"verification_uri": self.openid.url("/activate"), "user_code": "WDJB-MJHT"}
        return 200, {**page, "device_code": "device-code", "expires_in": 600, "interval": 0.01}

    async def archon(self, *arguments: str) -> Result:
        return await asyncio.to_thread(self.terminal.archon, *arguments)

    def login(self, **values: Any) -> dict[str, Any]:
        """Changes values of the file of the login. Returns its content."""
        content: dict[str, Any] = {**json.loads(self.file.read_text()), **values}
        self.file.write_text(json.dumps(content))
        return content


@pytest.fixture
async def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Person]:
    monkeypatch.setattr(device_flow, "MIN_INTERVAL", 0.01)
    async with openid_mesh(tmp_path, monkeypatch) as mesh:
        person = Person(mesh, tmp_path)
        address = mesh.mesh.orchestrator.address
        provider = ("--issuer", mesh.openid.issuer, "--client-id", "archon-cli")
        assert (await person.archon("context", "set", "prod", "--orchestrator", address, *provider)).code == 0
        assert (await person.archon("context", "use", "prod")).code == 0
        yield person


async def test_a_person_signs_in_works_and_signs_out(person: Person) -> None:
    assert (await person.archon("runs")).code == 1
    person.openid.device = ["authorization_pending", "ok"]
    signed_in = await person.archon("login")
    assert signed_in.code == 0, signed_in
    assert f"  {person.openid.url('/activate')}\n" in signed_in.out
    assert "enter the code  WDJB-MJHT\n" in signed_in.out
    assert max(map(len, signed_in.out.splitlines())) <= 80 or "replaced before it ends" in signed_in.out
    assert stat.S_IMODE(person.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(person.file.parent.stat().st_mode) == 0o700
    assert (await person.archon("runs")).code == 0
    shown = await person.archon("whoami")
    assert re.search(r"^identity +alice$", shown.out, re.M)
    assert re.search(r"^from +the login of the context prod$", shown.out, re.M)
    assert (await person.archon("logout")).out == "The login of the context prod has ended.\n"
    assert person.openid.revoked == ["refresh-1"]
    assert not person.file.exists()
    assert (await person.archon("runs")).code == 1
    assert (await person.archon("logout")).out == "The context prod has no login.\n"


async def test_a_login_is_refreshed_before_the_calls_of_a_command(person: Person) -> None:
    assert (await person.archon("login")).code == 0
    person.login(expires=time.time() + 5, token=person.openid.token(exp=1))
    assert (await person.archon("runs")).code == 0
    assert person.login()["refresh_token"] == "refresh-2"
    assert person.login()["expires"] > time.time() + 300
    asked = person.openid.count("/token")
    assert (await person.archon("runs")).code == 0
    assert person.openid.count("/token") == asked


async def test_a_refresh_may_bring_an_access_token_alone(person: Person) -> None:
    assert (await person.archon("login")).code == 0
    person.openid.sends_id_token_on_refresh = False
    person.login(expires=1.0)
    assert (await person.archon("runs")).code == 0


async def test_commands_at_once_use_a_refresh_token_once(person: Person) -> None:
    assert (await person.archon("login")).code == 0
    person.login(expires=1.0)
    results = await asyncio.gather(*(person.archon("runs") for _ in range(4)))
    assert [result.code for result in results] == [0] * 4, results
    assert [form.get("refresh_token") for path, form in person.openid.requests if path == "/token"][1:] == ["refresh-1"]


@pytest.mark.parametrize("refresh_token", ["", "used-before"])
async def test_a_login_that_has_ended_says_how_to_get_another(person: Person, refresh_token: str) -> None:
    assert (await person.archon("login")).code == 0
    person.login(expires=1.0, refresh_token=refresh_token)
    ended = await person.archon("runs")
    sentence = "error: the login of the context prod has expired: `archon login --context prod` signs in again"
    assert (ended.code, ended.error_lines) == (1, [sentence])


async def test_a_provider_that_is_down_ends_no_login_that_is_valid(person: Person) -> None:
    assert (await person.archon("login")).code == 0
    person.openid.answers["/token"] = (503, b"")
    person.login(expires=time.time() + 30)
    assert (await person.archon("runs")).code == 0
    person.login(expires=1.0)
    unreachable = await person.archon("runs")
    assert (unreachable.code, "its provider cannot be reached" in unreachable.error_lines[0]) == (3, True)


async def test_a_refresh_brings_no_token_of_another_person(person: Person) -> None:
    assert (await person.archon("login")).code == 0
    person.openid.claims["sub"] = "someone else"
    person.login(expires=1.0)
    assert "has expired" in (await person.archon("runs")).err


async def test_a_login_is_presented_to_its_context_alone(person: Person) -> None:
    assert (await person.archon("login")).code == 0
    registry = person.mesh.mesh.registry.address  # which would accept the token
    refused = await person.archon("agents", "--registry", registry)
    assert (refused.code, "needs a token" in refused.err) == (1, True)
    anonymous = json.loads((await person.archon("whoami", "--orchestrator", registry, "--json")).out)
    assert anonymous["identity"] == "anonymous"
    assert (await person.archon("context", "set", "other", "--orchestrator", registry)).code == 0
    assert (await person.archon("context", "use", "other")).code == 0
    assert json.loads((await person.archon("whoami", "--json")).out)["identity"] == "anonymous"


async def test_a_login_is_not_sent_in_clear_text_to_other_machines(person: Person) -> None:
    assert (await person.archon("login")).code == 0
    assert (await person.archon("context", "set", "prod", "--orchestrator", "192.0.2.1:7100")).code == 0
    refused = await person.archon("runs")
    assert (refused.code, "192.0.2.1:7100 is not encrypted" in refused.err) == (1, True)


async def test_a_deleted_context_leaves_no_login(person: Person) -> None:
    assert (await person.archon("login")).code == 0
    assert (await person.archon("context", "delete", "prod")).code == 0
    assert not person.file.exists()


async def test_ctrl_c_ends_the_sign_in_and_leaves_nothing(person: Person) -> None:
    person.openid.device = ["authorization_pending"]

    def interrupted() -> int:
        with person.terminal.start("login") as running:
            running.until("Waiting ...")
            running.interrupt()
            return running.end(10)

    assert await asyncio.to_thread(interrupted) == 130
    assert not person.file.exists()


async def test_a_sign_in_needs_a_context_and_a_provider(person: Person) -> None:
    assert (await person.archon("login", "--context", "absent")).code == 4
    assert (await person.archon("login", "--issuer", "http://login.example.com")).code == 2
    assert (await person.archon("context", "set", "x", "--issuer", "ftp://x")).code == 2
    assert (await person.archon("context", "set", "bare", "--orchestrator", "127.0.0.1:1")).code == 0
    bare = await person.archon("login", "--context", "bare")
    assert (bare.code, "has no OpenID provider" in bare.err) == (2, True)
    person.openid.answers["/.well-known/openid-configuration"] = (503, b"")
    down = await person.archon("login")
    assert (down.code, "cannot be used" in down.err, len(down.error_lines)) == (3, True, 1)


async def test_signing_out_removes_the_login_whatever_the_provider_does(person: Person) -> None:
    for fault in ((503, b""), (400, {"error": "unsupported_token_type"})):
        assert (await person.archon("login")).code == 0
        person.openid.answers["/revoke"] = fault
        ended = await person.archon("logout")
        assert (ended.code, person.file.exists()) == (0, False)
        assert ended.err.startswith("note: the provider has not revoked the login: ")
    assert (await person.archon("login")).code == 0
    person.file.write_text("garbage")
    assert (await person.archon("runs")).error_lines[0].endswith("prod.json is invalid")
    assert (await person.archon("logout")).code == 0


async def test_whoami_knows_the_tokens_of_the_mesh(person: Person, tmp_path: Path) -> None:
    from archon.principal import Kind, Principal

    token = person.mesh.keys.token(Principal(Kind.VIEWER, "vi", "acme"))
    person.terminal.environment["ARCHON_TOKEN"] = token
    shown = json.loads((await person.archon("whoami", "--json")).out)
    assert {key: shown[key] for key in ("identity", "kind", "tenant", "source")} == {
        "identity": "vi",
        "kind": "viewer",
        "tenant": "acme",
        "source": "ARCHON_TOKEN",
    }
    del person.terminal.environment["ARCHON_TOKEN"]
    (tmp_path / "token").write_text(token)
    person.terminal.environment["ARCHON_TOKEN_FILE"] = str(tmp_path / "token")
    assert "(ARCHON_TOKEN_FILE)" in (await person.archon("whoami")).out


def test_whoami_knows_the_certificate_of_a_person(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "home")
    authority = ("--authority", str(tmp_path / "authority"))
    assert terminal.archon("certs", "init", "mesh-1", *authority).code == 0
    assert terminal.archon("certs", "issue", "operator/ann", str(tmp_path / "ann"), *authority).code == 0
    terminal.environment["ARCHON_TLS"] = str(tmp_path / "ann")
    shown = json.loads(terminal.archon("whoami", "--orchestrator", "127.0.0.1:1", "--json").out)
    assert (shown["identity"], shown["kind"], shown["tenant"]) == ("ann", "operator", "default")
    assert shown["source"] == f"the certificate in {tmp_path / 'ann'}"
    assert shown["expires"] > time.time()
