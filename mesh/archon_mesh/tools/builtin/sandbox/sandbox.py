"""Runs Python programs in a sandbox: in user, mount, network, process, IPC, host name and cgroup namespaces of their
own, with a filter of system calls, limits on time, memory, processes, files and output, and an empty environment.

A program sees the Python interpreter with its standard library and the system's shared libraries, all read-only, and an
empty /tmp. It has no network, not even a loopback device that is up, sees no other process, and runs as a user without
rights. Linux 5.12 or newer on x86_64 or aarch64, with seccomp, and user namespaces for this user.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from archon.errors import FailedPrecondition, InvalidArgument
from archon_mesh.tools.builtin.sandbox.launcher import CPU
from archon_mesh.tools.builtin.sandbox.limits import DEFAULT, SandboxLimits
from archon_mesh.tools.builtin.sandbox.system_calls import MACHINES, as_bytes, filter_program

LAUNCHER: Final = Path(__file__).with_name("launcher.py")
PROBE_TIMEOUT: Final = 10.0
READ_BYTES: Final = 64 * 1024
MAX_ERROR: Final = 4096
"""Bytes of an error of the launcher, which a pipe takes at once."""

KILL_TIMEOUT: Final = 5.0
"""Seconds within which the processes of a killed program are gone."""

_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """The result of a program. `killed` says which limit ended it (`time`, `cpu`, `output`); empty if none did.

    `exit_code` is 128 + N if signal N ended it. Output above its limit is left out.
    """

    exit_code: int
    stdout: str
    stderr: str
    killed: str = ""


def check_available() -> None:
    """Raises FailedPrecondition, with the reason, if this machine cannot sandbox programs."""
    reason = _why_unavailable()
    if reason:
        raise FailedPrecondition(f"programs cannot be sandboxed on this machine: {reason}")


async def run_sandboxed(code: str, limits: SandboxLimits) -> SandboxResult:
    """Runs a Python program to its end, or until a limit ends it. If the caller is cancelled, the program is killed.

    Raises InvalidArgument if the program is too large, FailedPrecondition if the sandbox cannot be built.
    """
    program = code.encode("utf-8", "surrogatepass")
    if len(program) > limits.code_bytes:
        raise InvalidArgument(f"the program has {len(program):,} bytes, at most {limits.code_bytes:,} are allowed")
    with tempfile.TemporaryDirectory(prefix="archon-sandbox-") as root, _ErrorPipe() as errors:
        process = await asyncio.create_subprocess_exec(
            *_command(root, limits, errors.write_end),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            cwd="/",
            start_new_session=True,
            pass_fds=(errors.write_end,),
        )
        try:
            killed, stdout, stderr = await _finish(process, program, limits)
        finally:
            await _kill(process)
        error = errors.read()
    if error and error != CPU:
        raise FailedPrecondition(f"programs cannot be sandboxed on this machine: {error}")
    exit_code = process.returncode if process.returncode is not None and process.returncode >= 0 else 137
    killed = "cpu" if error else killed
    return SandboxResult(exit_code, stdout.decode(errors="replace"), stderr.decode(errors="replace"), killed)


async def _finish(
    process: asyncio.subprocess.Process, program: bytes, limits: SandboxLimits
) -> tuple[str, bytes, bytes]:
    """Returns which limit ended the program, and its output."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = bytearray(), bytearray()

    async def read(stream: asyncio.StreamReader, into: bytearray) -> bool:
        """Returns whether the output is within its limit."""
        while chunk := await stream.read(READ_BYTES):
            into += chunk[: limits.output_bytes - len(into)]
            if len(into) >= limits.output_bytes:
                return False
        return True

    async def feed(stdin: asyncio.StreamWriter) -> bool:
        try:
            stdin.write(program)
            await stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the launcher has ended already, and its exit code says why
        stdin.close()
        return True

    tasks = [
        asyncio.create_task(work)
        for work in (feed(process.stdin), read(process.stdout, out), read(process.stderr, err))
    ]
    killed = ""
    try:
        async with asyncio.timeout(limits.seconds):
            for ended in asyncio.as_completed(tasks):
                if not await ended:
                    killed = "output"
                    break
            if not killed:
                await process.wait()
    except TimeoutError:
        killed = "time"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return killed, bytes(out), bytes(err)


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kills the launcher, if it runs, and with it the program and all that it started. Drops further output: without
    its end, asyncio does not report the end of the process."""
    if process.returncode is None:
        process.kill()
    async with asyncio.timeout(KILL_TIMEOUT):
        for stream in (process.stdout, process.stderr):
            while stream is not None and await stream.read(READ_BYTES):
                pass
        await process.wait()


class _ErrorPipe:
    """A pipe for errors of the launcher, which the program does not have."""

    def __enter__(self) -> _ErrorPipe:
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._read_end)
        os.close(self.write_end)

    def read(self) -> str:
        """Returns the last error, empty if there is none."""
        try:
            return os.read(self._read_end, MAX_ERROR).decode(errors="replace").strip().rpartition("\n")[2]
        except BlockingIOError:
            return ""


def _command(root: str, limits: SandboxLimits, errors: int) -> list[str]:
    python = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    visible = [*_LIBRARIES, os.path.realpath(sys.base_prefix), sysconfig.get_path("stdlib"), os.path.dirname(python)]
    hard = {
        "RLIMIT_AS": limits.memory_bytes,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_NPROC": limits.processes + 2,  # the builder and the first process count, too
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
    }
    config = {
        "root": root,
        "python": python,
        "visible": _outermost(visible),
        "file_bytes": limits.file_bytes,
        "filter": _filter().hex(),
        "errors": errors,
        "limits": {
            "RLIMIT_CPU": (limits.cpu_seconds, limits.cpu_seconds + 1),  # SIGXCPU, then SIGKILL
            **{name: (value, value) for name, value in hard.items()},
        },
    }
    return [sys.executable, "-I", "-S", str(LAUNCHER), json.dumps(config)]


def _outermost(paths: list[str]) -> list[str]:
    """Returns the folders that lie in no other one of them, parents first."""
    kept: list[str] = []
    for path in sorted(set(paths), key=len):
        if not any(path.startswith(f"{parent}/") for parent in kept if not os.path.islink(parent)):
            kept.append(path)
    return kept


def _filter() -> bytes:
    return as_bytes(filter_program(platform.machine()))


@cache
def _why_unavailable() -> str:
    if sys.platform != "linux":
        return "Linux is needed"
    if (machine := platform.machine()) not in MACHINES:
        return f"no filter of system calls is known for {machine}"
    with tempfile.TemporaryDirectory(prefix="archon-sandbox-") as root, _ErrorPipe() as errors:
        try:
            done = subprocess.run(
                _command(root, DEFAULT, errors.write_end),
                input=b"print(6 * 7)",
                capture_output=True,
                env={},
                cwd="/",
                pass_fds=(errors.write_end,),
                timeout=PROBE_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        reason = errors.read() or _last_line(done.stderr) or f"exit code {done.returncode}"
    return "" if done.stdout == b"42\n" else reason


def _last_line(text: bytes) -> str:
    return text.decode(errors="replace").strip().rpartition("\n")[2]
