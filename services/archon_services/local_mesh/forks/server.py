"""The process that forks others: `python -m archon_services.local_mesh.forks.server DESCRIPTOR PARENT MODULE ...`.

It imports the modules, then serves requests from a socket until the other end is closed. A forked process is a child of
PARENT, a child subreaper (prctl(2)): the process in between, which forked it, ends at once.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from archon_services.local_mesh.forks.command_line import set_command_line
from archon_services.local_mesh.parent_death import PR_SET_PDEATHSIG

MAX_REQUEST: Final = 1024 * 1024
"""Bytes of a request: mostly environment variables."""


def main() -> None:
    """Serves; in a forked process runs the requested module."""
    connection, parent = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    for module in sys.argv[3].split(","):
        import_module(module)
    if threading.active_count() > 1:
        sys.exit("a module has started a thread: it would be missing after a fork")
    gc.collect()
    gc.freeze()
    request = _serve(connection, parent)
    if request is not None:
        os._exit(_run(request))


def _serve(connection: socket.socket, parent: int) -> dict[str, Any] | None:
    """Returns the request in a forked process; None in the server, when the other end is closed."""
    while message := connection.recv(MAX_REQUEST):
        request: dict[str, Any] = json.loads(message)
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            if os.fork():
                os._exit(0)
            connection.close()
            os.close(reading)
            _become_child(parent)
            _redirect(request["files"])
            os.write(writing, str(os.getpid()).encode())
            os.close(writing)
            return request
        os.close(writing)
        os.waitpid(between, 0)
        with os.fdopen(reading, "rb") as pipe:
            connection.send(pipe.read() or b"0")
    return None


def _become_child(parent: int) -> None:
    """Waits until this process is a child of `parent`, with which it ends."""
    between = os.getppid()
    while os.getppid() == between != parent:
        time.sleep(0.0002)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    os.setsid()


def _redirect(files: Mapping[str, str]) -> None:
    for descriptor, path in files.items():
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(file, int(descriptor))
        os.close(file)


def _run(request: dict[str, Any]) -> int:
    """Returns the exit code. Ends as Python does, except that it does not free the memory: that copies the memory
    shared with the others, and takes longer than many commands."""
    os.environ.clear()
    os.environ.update(request["environment"])
    module, *arguments = request["arguments"]
    sys.argv = [module, *arguments]
    set_command_line(request["command"])
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for the threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it is closed, or a pipe without a reader
            stream.flush()
    return code


if __name__ == "__main__":
    main()
