"""The standard variables of OpenTelemetry that spans, metrics and logs read alike."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from archon.loopback import is_loopback
from archon.telemetry import export_failures

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

OTLP: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""The entry points of the exporters over OTLP, by protocol."""


END_TIMEOUT: Final = 0.5
"""Seconds that the end of a process waits for its last spans, metrics and records of logs to be exported, all
together."""

_CREDENTIALS: Final = "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER"


def is_disabled() -> bool:
    """Returns whether OTEL_SDK_DISABLED turns everything off."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def otlp_entry_point(signal: str) -> str:
    """Returns the entry point of the exporter over OTLP for a signal such as `TRACES`: over HTTP unless a variable says
    otherwise."""
    given = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    return OTLP.get((given or "http/protobuf").strip().lower(), f"otlp over {given}")


def exporter_class(signal: str, name: str) -> Callable[..., Any]:
    """Returns the factory of exporters for a signal such as `TRACES`, by its entry point. Raises LookupError if no
    installed package offers one of this name."""
    from importlib import metadata

    entries = metadata.entry_points(group=f"opentelemetry_{signal.lower()}_exporter")
    for entry in entries.select(name=name):
        created: Callable[..., Any] = entry.load()
        return created
    known = ", ".join(sorted(entries.names))
    raise LookupError(f"no installed package offers the exporter {name!r}; there are {known}")


def resource_of(service: str, instance_id: str) -> Resource:
    """Returns the resource of this process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence."""
    from importlib import metadata

    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    given = OTELResourceDetector().detect().attributes
    own = {
        "service.namespace": "archon",
        "service.version": metadata.version("archon-mesh"),
        "service.name": service,
        "service.instance.id": instance_id,
    }
    return Resource.create({key: value for key, value in own.items() if value and key not in given})


def otlp_arguments(signal: str, entry_point: str) -> dict[str, Any]:
    """Returns arguments for an exporter over OTLP, none for other exporters: it reaches a collector on this machine
    without the proxy of the environment."""
    endpoint = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    endpoint = endpoint or "localhost"
    if not is_loopback(urlsplit(endpoint if "//" in endpoint else f"//{endpoint}").hostname or ""):
        return {}
    if entry_point == OTLP["grpc"]:
        return {"channel_options": (("grpc.enable_http_proxy", 0),)}
    provider = _CREDENTIALS.replace("HTTP_", f"HTTP_{signal}_")
    if entry_point != OTLP["http/protobuf"] or os.environ.get(_CREDENTIALS) or os.environ.get(provider):
        return {}
    import requests

    session = requests.Session()
    session.trust_env = False
    return {"session": session}


def begin(what: str, end: Callable[[], object], timeout: float, exporters: Sequence[Any] = ()) -> Callable[[], bool]:
    """Calls `end`, which exports the last of `what`, on a thread. Returns a function that waits for it, until `timeout`
    seconds from now have passed, and says whether it has ended; if it has not, `exporters` are shut down. An error is
    reported."""

    def run() -> None:
        try:
            end()
        except Exception as error:  # noqa: BLE001 - whatever an exporter raises
            export_failures.report("the last %s could not be exported: %s", what, error)

    thread = threading.Thread(target=run, name=f"flush-{what}", daemon=True)
    deadline = time.monotonic() + timeout
    try:
        thread.start()
    except RuntimeError:
        return lambda: False  # the interpreter is ending

    def wait() -> bool:
        thread.join(max(0.0, deadline - time.monotonic()))
        is_over = not thread.is_alive()
        if not is_over:
            export_failures.report("the last %s could not be exported within %g s", what, timeout)
            for exporter in exporters:
                exporter.shutdown()
            _skip_exit_handlers()
        return is_over

    return wait


@cache
def _skip_exit_handlers() -> None:
    """Makes the process end as soon as the interpreter has ended, with its exit code: a handler of gRPC that follows
    would wait 2 s for handshakes of the exporter that was given up. On systems with glibc only."""
    try:
        libc = ctypes.CDLL(None)
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)
    except (OSError, AttributeError):
        pass
