"""The span of a command that submits a run: the run's trace begins with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from archon.telemetry import export, spans

SERVICE: Final = "archon-cli"


@contextmanager
def command_span(name: str, otlp: str = "") -> Iterator[None]:
    """Makes a span named `archon NAME` current within the block, if the environment asks for spans or the mesh has a
    receiver for them at `otlp` (host:port)."""
    if otlp:
        from archon_services.local_mesh.jaeger import exporting_to

        for variable, value in exporting_to(otlp).items():
            os.environ.setdefault(variable, value)
    export.start(SERVICE)
    try:
        with spans.root_span(f"archon {name}"):
            yield
    finally:
        export.stop()
