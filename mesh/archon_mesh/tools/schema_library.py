"""The library that validates arguments by JSON Schema: it is loaded when a tool needs it, beside the event loop."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Final

from archon.threads import on_thread
from archon_mesh.tools.function import FunctionTool
from archon_mesh.tools.tool import Tool

LIBRARY: Final = "jsonschema"


async def load_schema_library(tools: Iterable[Tool]) -> None:
    """Imports the library in a thread if it is not loaded and one of the tools may need it. With its optional formats
    the import takes a second, on a busy machine several: an agent whose heartbeats stop for two seconds loses its task.
    An error of the import is raised when the library is used."""
    if LIBRARY not in sys.modules and not all(isinstance(tool, FunctionTool) for tool in tools):
        await on_thread(lambda: import_module(LIBRARY), f"import {LIBRARY}")
