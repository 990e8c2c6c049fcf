"""The process that forks others: `python -m archon_services.local_mesh.forks.server DESCRIPTOR PARENT MODULE ...`.

It imports the modules, then serves requests from a socket until the other end is closed. A forked process is a child of
PARENT, a child subreaper (prctl(2)): the process in between, which forked it, ends at once.
"""

from __future__ import annotations

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
        _run(request)


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
            _redirect(request["log"])
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


def _redirect(log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for standard in (1, 2):
        os.dup2(file, standard)
    os.close(file)


def _run(request: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(request["environment"])
    module, *arguments = request["arguments"]
    sys.argv = [module, *arguments]
    set_command_line(request["command"])
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
