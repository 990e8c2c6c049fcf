"""The examples of docs/agui.md run as they are printed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.fixtures.http_gateway import OPERATOR
from tests.integration.services.gateway.agui.conftest import Studio

ROOT: Final = Path(__file__).parents[5]
PAGE: Final = (ROOT / "docs" / "agui.md").read_text()


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_the_command_of_the_page_gives_an_answer(studio: Studio) -> None:
    [command] = re.findall(r"```bash\n(.*?)```", PAGE, re.S)
    header = studio.mesh.headers(OPERATOR)["authorization"]
    environment = {"GATEWAY": studio.mesh.url, "AUTH": f"Authorization: {header}"}
    async with studio.painter.server(studio.mesh, "writer"):
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", command, env={**os.environ, **environment}, stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(20):
            out, _ = await process.communicate()
    assert process.returncode == 0
    assert '"type":"RUN_STARTED"' in out.decode() and '"delta":"did: Write a line."' in out.decode()
    assert '"outcome":{"type":"success"}' in out.decode()


def test_the_front_end_of_the_page_is_the_tested_program() -> None:
    [printed] = re.findall(r"```typescript\n(.*?)```", PAGE, re.S)
    tested = (ROOT / "tests" / "interop" / "agui" / "chat.ts").read_text()
    assert tested.partition("\n\n")[2] == printed
