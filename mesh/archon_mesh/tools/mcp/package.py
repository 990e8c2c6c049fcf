"""The optional package `mcp`."""

from __future__ import annotations

from importlib.util import find_spec

from archon.errors import FailedPrecondition


def check_installed() -> None:
    """Raises FailedPrecondition, with the command that installs it, if the package `mcp` is missing."""
    if find_spec("mcp") is None:
        raise FailedPrecondition("the package mcp is not installed: pip install 'archon-mesh[mcp]'")
