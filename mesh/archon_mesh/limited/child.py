"""The process that answers the requests of a `LimitedProcesses`, started by its path with `python -I -S`.

A request and its reply are JSON behind a length of four bytes. Timers whose signals end the process hold its limits of
time, also within a function of the C library; RLIMIT_AS holds the limit of memory. If the parent ends while a request
is worked on, the closed pipe ends this process by SIGIO.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import resource
import select
import signal
import sys
import types
from collections.abc import Callable
from typing import Any, Final

HEADER: Final = 4
STDIN: Final = 0
STDOUT: Final = 1

# signal.setitimer(2): CPU time ends by SIGPROF, time by SIGALRM, whose default is to end the process.
_TIMERS: Final = (signal.ITIMER_PROF, signal.ITIMER_REAL)


def main() -> None:
    """Answers requests until standard input ends."""
    config = json.loads(sys.argv[1])
    sys.path[:] = config["paths"]
    _add_packages(config["packages"], config["module"])
    answer: Callable[[Any], Any] = importlib.import_module(config["module"]).answer
    sys.dont_write_bytecode = True  # later imports would be compiled into a file, which is above the limit
    for limit, value in ((resource.RLIMIT_AS, config["memory_bytes"]), (resource.RLIMIT_FSIZE, config["file_bytes"])):
        try:
            resource.setrlimit(limit, (value, value))
        except (OSError, ValueError):
            pass  # macOS has no limit of the address space
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    fcntl.fcntl(STDIN, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(STDIN, fcntl.F_GETFL)
    while header := _read(HEADER):
        request = json.loads(_read(int.from_bytes(header)))
        fcntl.fcntl(STDIN, fcntl.F_SETFL, flags | os.O_ASYNC)
        if select.select([STDIN], [], [], 0)[0]:
            return  # the parent has ended before SIGIO could tell
        for timer, seconds in zip(_TIMERS, request["seconds"], strict=True):
            signal.setitimer(timer, seconds)
        reply = _reply(answer, request["value"])
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        fcntl.fcntl(STDIN, fcntl.F_SETFL, flags)
        _write(len(reply).to_bytes(HEADER) + reply)
        if reply == _OUT_OF_MEMORY:
            return  # the rest of the memory is too little for the next one


def _add_packages(packages: dict[str, list[str]], module: str) -> None:
    """Makes the packages of a module importable without the imports of their `__init__`, which take a second."""
    names = {*packages, *(module.rsplit(".", number)[0] for number in range(1, module.count(".") + 1))}
    for name in sorted(names, key=len):
        package = types.ModuleType(name)
        parent, _, last = name.rpartition(".")
        package.__path__ = packages.get(name) or [f"{path}/{last}" for path in sys.modules[parent].__path__]
        sys.modules[name] = package


_OUT_OF_MEMORY: Final = b'{"limit": "memory"}'


def _reply(answer: Callable[[Any], Any], value: Any) -> bytes:
    try:
        return json.dumps({"value": answer(value)}).encode()
    except MemoryError:
        return _OUT_OF_MEMORY
    except Exception as error:  # noqa: BLE001 - the parent raises it
        try:
            text, name, kind = str(error), type(error).__name__, getattr(error, "kind", "")
            return json.dumps({"error": text[:4_000], "type": name, "kind": kind}).encode()
        except MemoryError:
            return _OUT_OF_MEMORY


def _read(size: int) -> bytes:
    """Reads a number of bytes; fewer at the end of standard input."""
    pieces: list[bytes] = []
    while size > 0 and (piece := os.read(STDIN, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(STDOUT, data) :]


if __name__ == "__main__":
    main()
