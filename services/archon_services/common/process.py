"""Runs a service as a process: logging, event loop, ready file, and graceful shutdown on a signal."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from archon.errors import ArchonError
from archon.server import announce, run_loop, signalled, withdraw
from archon.telemetry import export, logs, metrics_export
from archon.telemetry.final_export import stop_exports
from archon_services.common.settings import ServiceSettings

_log = logging.getLogger(__name__)

GC_THRESHOLD: Final = 10_000
"""Allocations, less deallocations, between two collections of the youngest generation. A service makes few reference
cycles, and hundreds of objects for each request."""


def run(
    name: str,
    app: Callable[[], AbstractAsyncContextManager[str]],
    settings: ServiceSettings,
    *,
    service_name: str = "",
) -> int:
    """Runs an app (a context manager that yields its address while it serves) until SIGTERM or SIGINT.

    Logs, and exports spans and metrics if the environment asks for it, as the service `service_name`: by default
    `archon-` and the name. Returns the exit code: 0 after a clean stop, also during the start; 1 if the app failed to
    start or failed while it served.
    """
    service, instance_id = service_name or f"archon-{name}", f"{name}-{secrets.token_hex(6)}"
    logs.setup(service, settings.log_level, instance_id=instance_id, log_format=settings.log_format)
    export.start(service, instance_id)
    metrics_export.start(service, instance_id)
    os.umask(0o077)  # files of a service are for its owner alone

    async def main() -> int:
        stop = signalled()
        starting, this = True, asyncio.current_task()

        def give_up(_: object) -> None:
            if starting and this is not None:
                this.cancel()

        stopping = asyncio.ensure_future(stop.wait())
        stopping.add_done_callback(give_up)
        try:
            async with app() as address:
                starting = False
                _tune_gc()
                announce(settings.ready_file, address)
                _log.info("%s %s", settings.serves, address)
                await stop.wait()
                _log.info("stopping")
            withdraw(settings.ready_file)
        except ArchonError as error:
            _log.error("%s", error)
            return 1
        except asyncio.CancelledError:
            if not (starting and stop.is_set()):
                raise
            _log.info("stopped before it served")
        finally:
            stopping.cancel()
        return 0

    _leave_no_core_file()
    try:
        return run_loop(main())
    finally:
        stop_exports()
        logs.close()


def _leave_no_core_file() -> None:
    """Has a crash in native code write no core file: it would have the keys that this process holds in memory."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _tune_gc() -> None:
    """Leaves objects loaded until now out of all later collections: they live as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)
