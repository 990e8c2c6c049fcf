"""The servers of the real model and of the real embedder, as processes of their own."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.fixtures.ports import free_ports
from tests.fixtures.require import missing
from tests.real_model.install import FOLDER, PYTHON, is_installed

CONTEXT: Final = 1024
"""Tokens of a slot's context window."""

SLOTS: Final = 4
"""Requests that are worked on at once."""

SERVE: Final = Path(__file__).with_name("serve.py")


class RealModel:
    """A running server; `url` is what a client takes."""

    def __init__(self, address: str) -> None:
        self.url = f"{address}/v1"
        self._address = address

    def busy(self) -> int:
        """Returns how many requests it works on."""
        with urllib.request.urlopen(f"{self._address}/slots", timeout=30) as response:
            slots: list[dict[str, Any]] = json.load(response)
        return sum(slot["is_processing"] for slot in slots)


def require_real_model() -> None:
    """Skips or fails the test if the environment of the model is missing."""
    if not is_installed():
        missing("real-model", f"{FOLDER} has no real model: `make real-model`")


@contextmanager
def real_model() -> Iterator[RealModel]:
    """Serves the model until the block ends."""
    require_real_model()
    command = [str(PYTHON), str(SERVE), str(free_ports(1)[0]), str(CONTEXT), str(SLOTS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            assert address, f"the server ended with {server.wait()}"
            yield RealModel(address)
        finally:
            server.kill()
