"""sslyze finds no old version, no weak cipher and no known attack at the gateway's port of TLS."""

from __future__ import annotations

import asyncio
import datetime
import json
import re
from pathlib import Path

import pytest

from archon_services.local_mesh.authority import Authority
from tests.fixtures.http_gateway import gateway_mesh
from tests.fixtures.require import TOOLS, missing

pytestmark = pytest.mark.slow

PYTHON = TOOLS / "scanners" / "bin" / "python"
SCAN = Path(__file__).with_name("tls.py")
STRONG = re.compile(r"TLS_(AES|CHACHA20)_|TLS_(ECDHE|DHE)_\w+_(GCM|POLY1305)_?\w*")
"""Ciphers with forward secrecy and authenticated encryption."""


@pytest.mark.timeout(120)
async def test_tls_has_no_weak_version_or_cipher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not PYTHON.exists():
        missing("scanners", f"{PYTHON} does not exist: `make scanners`")
    now = datetime.datetime.now(datetime.UTC)
    Authority.create("mesh", now=now).issue_server(tmp_path / "tls", ("localhost", "127.0.0.1"), now=now, days=1.0)
    async with gateway_mesh(tmp_path, monkeypatch, http_tls=str(tmp_path / "tls")) as served:
        pipe = asyncio.subprocess.PIPE
        scan = await asyncio.create_subprocess_exec(PYTHON, SCAN, served.gateway.address, stdout=pipe, stderr=pipe)
        async with asyncio.timeout(100):
            out, errors = await scan.communicate()
    assert scan.returncode == 0, errors.decode()[-2_000:]
    found = json.loads(out)
    assert set(found["versions"]) == {"tls_1_2", "tls_1_3"}
    weak = [cipher for ciphers in found["versions"].values() for cipher in ciphers if not STRONG.match(cipher)]
    assert (weak, found["attacks"]) == ([], [])
