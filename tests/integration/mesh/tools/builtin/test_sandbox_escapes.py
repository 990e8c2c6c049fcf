"""What a hostile program gets in the sandbox. Each program tries to escape, or to take more than its limits, and prints
what it got; the test holds that output."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from archon_mesh.tools.builtin.sandbox import SandboxLimits, SandboxResult, run_sandboxed
from tests.fixtures.ports import free_ports
from tests.fixtures.waiting import until

MB = 1024 * 1024
LIMITS = SandboxLimits(seconds=20.0, cpu_seconds=1, memory_bytes=256 * MB, processes=4, file_bytes=4 * MB)

TRY = """
def attempt(work):
    try:
        print("got", work())
    except BaseException as error:
        print(type(error).__name__, getattr(error, "errno", ""))
"""
LIBC = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    result = getattr(libc, name)(*arguments)
    print(result, os.strerror(ctypes.get_errno()))
"""

ESCAPES: dict[str, tuple[str, str]] = {
    # limits
    "fork bomb": (
        """
import os, time
children = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        children += 1
except OSError as error:
    print(children, type(error).__name__)
""",
        "3 BlockingIOError",
    ),
    "thread bomb": (
        """
import threading, time
threading.stack_size(65536)
threads = 0
try:
    while True:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        threads += 1
except RuntimeError as error:
    print(threads, error)
""",
        "3 can't start new thread",
    ),
    "a gigabyte of memory": (TRY + "attempt(lambda: len(bytearray(10**9)))", "MemoryError"),
    "a gigabyte of memory by mmap": (
        TRY + "import mmap\nattempt(lambda: len(mmap.mmap(-1, 10**9)))",
        r"(OSError|MemoryError) (12)?",
    ),
    "memory in small pieces": (
        TRY + "attempt(lambda: len([bytearray(1 << 16) for _ in range(1 << 14)]))",
        "MemoryError",
    ),
    "a file of a gigabyte": (
        TRY + "attempt(lambda: [open('/tmp/x', 'ab', 0).write(bytes(1 << 20)) for _ in range(1000)])",
        "OSError (27|28)",
    ),
    "many files of a megabyte": (
        TRY + "attempt(lambda: [open(f'/tmp/{n}', 'wb', 0).write(bytes(1 << 20)) for n in range(1000)].index(0))",
        "(OSError 28|ValueError)",
    ),
    "a hundred thousand files": (
        TRY + "attempt(lambda: [open(f'/tmp/{n}', 'w') for n in range(100_000)])",
        "OSError 24",
    ),
    "a hundred thousand empty files": (
        TRY + "attempt(lambda: [open(f'/tmp/{n}', 'w').close() for n in range(100_000)])",
        "OSError 28",
    ),
    "a thousand open files": (TRY + "import os\nattempt(lambda: [os.dup(1) for _ in range(1000)])", "OSError 24"),
    "higher limits": (
        TRY + "import resource\nattempt(lambda: resource.setrlimit(resource.RLIMIT_NPROC, (9999, 9999)))",
        "ValueError",
    ),
    "a higher priority": (TRY + "import os\nattempt(lambda: os.nice(-5))", "PermissionError 1"),
    # the network
    "a TCP connection to this machine": (
        TRY + "import socket\nattempt(lambda: socket.create_connection(('127.0.0.1', PORT), 5))",
        "OSError 101",
    ),
    "a TCP connection elsewhere": (
        TRY + "import socket\nattempt(lambda: socket.create_connection(('93.184.216.34', 80), 5))",
        "OSError 101",
    ),
    "a datagram": (
        TRY
        + "import socket\nattempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 53)))",
        "OSError 101",
    ),
    "a name of a host": (
        TRY + "import socket\nattempt(lambda: socket.gethostbyname('example.com'))",
        "gaierror -?\\d+",
    ),
    "an abstract socket of this machine": (
        TRY + "import socket\nattempt(lambda: socket.socket(socket.AF_UNIX).connect('\\0ABSTRACT'))",
        "ConnectionRefusedError 111",
    ),
    "a raw socket": (
        TRY + "import socket\nattempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))",
        "PermissionError 1",
    ),
    "a packet socket": (
        TRY + "import socket\nattempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))",
        "PermissionError 1",
    ),
    "the loopback device": (
        TRY
        + """
import fcntl, socket, struct
request = struct.pack("16sh14x", b"lo", 1)
attempt(lambda: fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, request))
""",
        "PermissionError 1",
    ),
    # files
    "the users of this machine": (TRY + "attempt(lambda: open('/etc/passwd').read())", "FileNotFoundError 2"),
    "a secret file": (TRY + "attempt(lambda: open('SECRET').read())", "FileNotFoundError 2"),
    "a secret file by ..": (TRY + "attempt(lambda: open('../../../../..SECRET').read())", "FileNotFoundError 2"),
    "a secret file by a link": (
        TRY + "import os\nos.symlink('SECRET', '/tmp/link')\nattempt(lambda: open('/tmp/link').read())",
        "FileNotFoundError 2",
    ),
    "the root folder": (
        "import os\nprint(sorted(set(os.listdir('/')) - {'dev', 'lib', 'lib64', 'tmp', 'usr', 'root', 'home', 'opt'}))",
        r"\[\]",
    ),
    "a file in the root folder": (TRY + "attempt(lambda: open('/new', 'w'))", "(OSError 30|PermissionError 13)"),
    "a file in the standard library": (
        TRY + "import os\nattempt(lambda: open(os.__file__, 'a'))",
        "(OSError 30|PermissionError 13)",
    ),
    "another mode of the interpreter": (
        TRY + "import os, sys\nattempt(lambda: os.chmod(sys.executable, 0o4777))",
        "(OSError 30|PermissionError 1)",
    ),
    "a hard link to the interpreter": (
        TRY + "import os, sys\nattempt(lambda: os.link(sys.executable, '/tmp/link'))",
        "(OSError 18|PermissionError 1)",
    ),
    "the disk of this machine": (
        TRY + "import os, stat\nattempt(lambda: os.mknod('/tmp/disk', stat.S_IFBLK | 0o666, os.makedev(254, 0)))",
        "PermissionError 1",
    ),
    "the devices": ("import os\nprint(sorted(os.listdir('/dev')))", r"\['null', 'random', 'urandom', 'zero'\]"),
    "the terminal": (TRY + "attempt(lambda: open('/dev/tty'))", "FileNotFoundError 2"),
    "another root folder": (TRY + "import os\nattempt(lambda: os.chroot('/tmp'))", "PermissionError 1"),
    # processes
    "the processes of this machine": (TRY + "import os\nattempt(lambda: os.listdir('/proc'))", "FileNotFoundError 2"),
    "a signal to a process of this machine": (
        TRY + "import os\nattempt(lambda: os.kill(TESTER, 9))",
        "ProcessLookupError 3",
    ),
    "a signal to the parent": (
        "import os, time\nos.kill(os.getppid(), 9)\nos.kill(os.getppid(), 15)\ntime.sleep(0.1)\nprint(os.getppid())",
        "1",
    ),
    "a debugger on the parent": (LIBC + "call('ptrace', 16, 1, 0, 0)", "-1 Operation not permitted"),
    "a process that outlives the program": (
        """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
print("started", flush=True)
os._exit(0)
""",
        "started",
    ),
    # rights
    "the user root": (TRY + "import os\nattempt(lambda: os.setuid(1))", "(PermissionError 1|OSError 22)"),
    "other groups": (TRY + "import os\nattempt(lambda: os.setgroups([0, 1]))", "PermissionError 1"),
    "a mount": (LIBC + "call('mount', b'none', b'/tmp', b'tmpfs', 0, None)", "-1 Operation not permitted"),
    "a mount of the processes": (
        LIBC + "call('mount', b'proc', b'/tmp', b'proc', 0, None)",
        "-1 Operation not permitted",
    ),
    "a root folder that can be written": (
        LIBC + "call('mount', None, b'/', None, 32, None)",
        "-1 Operation not permitted",
    ),
    "the folders below the mounts": (LIBC + "call('umount2', b'/tmp', 2)", "-1 Operation not permitted"),
    "a user namespace with all rights": (
        LIBC + "call('unshare', 0x10000000)",
        "-1 (No space left on device|Operation .*)",
    ),
    "the namespaces of this machine": (LIBC + "call('setns', 1, 0)", "-1 .*"),
    "a file by its handle": (
        LIBC + "call('open_by_handle_at', -100, ctypes.create_string_buffer(64), 0)",
        "-1 (Operation not permitted|Invalid argument)",
    ),
    "the name of this machine": (
        TRY + "import socket\nattempt(lambda: socket.sethostname('mine'))",
        "PermissionError 1",
    ),
    "the clock of this machine": (
        TRY + "import time\nattempt(lambda: time.clock_settime(time.CLOCK_REALTIME, 0))",
        "PermissionError 1",
    ),
    "the kernel's modules": (
        LIBC + "call('syscall', 175, 0, 0, b'')",
        "-1 (Operation not permitted|Function not implemented)",
    ),
    # what the process inherits
    "the environment": ("import os\nprint(sorted(set(os.environ) - {'LC_CTYPE'}))", r"\[\]"),
    "open files of the agent": (
        """
import os
def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
print([number for number in range(3, 4096) if is_open(number)])
""",
        r"\[\]",
    ),
    "standard input": ("import sys\nprint(repr(sys.stdin.read()))", "''"),
    "packages of the agent": (TRY + "attempt(lambda: __import__('grpc'))", "ModuleNotFoundError"),
}


pytestmark = pytest.mark.usefixtures("sandbox")


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A TCP server that must not see a connection."""
    with socket.create_server(("127.0.0.1", free_ports(1)[0])) as listening:
        listening.setblocking(False)
        yield listening
        with pytest.raises(BlockingIOError):
            listening.accept()


@pytest.fixture
def abstract() -> Iterator[str]:
    """The name of an abstract socket that accepts connections."""
    name = f"archon-{os.getpid()}-{threading.get_ident()}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{name}")
        listening.listen()
        yield name


LOOK = 0.1
"""Seconds between two looks at the processes."""


async def run_and_watch(code: str, limits: SandboxLimits) -> SandboxResult:
    """Runs a program, and holds that none of its processes that were seen meanwhile runs on."""
    running = asyncio.create_task(run_sandboxed(code, limits))
    seen: set[psutil.Process] = set()
    while not (await asyncio.wait({running}, timeout=LOOK))[0]:
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "/tmp/main.py" in child.cmdline():
                    seen.add(child)
    ran = await running
    await until(lambda: not any(map(is_alive, seen)))
    return ran


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("name", ESCAPES)
async def test_an_escape_fails(
    name: str, tmp_path: Path, server: socket.socket, abstract: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    monkeypatch.setenv("ARCHON_SECRET", "the secret")
    code, expected = ESCAPES[name]
    for word, value in (
        ("SECRET", str(secret)),
        ("PORT", str(server.getsockname()[1])),
        ("TESTER", str(os.getpid())),
        ("ABSTRACT", abstract),
    ):
        code = code.replace(word, value)
    with secret.open() as file:
        os.set_inheritable(file.fileno(), True)
        ran = await run_and_watch(code, LIMITS)
    assert re.search(rf"^{expected}\s*$", ran.stdout, re.M), ran
    assert "the secret" not in ran.stdout + ran.stderr
    assert secret.read_text() == "the secret"


PROGRAMS_THAT_DO_NOT_END = {
    "endless loop": ("while True: pass", "cpu"),
    "endless loop that ignores signals": (
        "import signal\nfor number in set(range(1, 64)) - {9, 19, 32, 33}: signal.signal(number, signal.SIG_IGN)\n"
        "while True: pass",
        "",
    ),
    "endless sleep": ("import time\ntime.sleep(600)", "time"),
    "endless output": ("while True: print('x' * 1000)", "output"),
    "endless output of errors": ("import sys\nwhile True: sys.stderr.write('x' * 1000)", "output"),
    "stopped": ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", "time"),
    "a child that keeps the output open": (
        "import os, time\nif os.fork() == 0:\n    time.sleep(600)\nprint('started', flush=True)\ntime.sleep(600)",
        "time",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS_THAT_DO_NOT_END)
async def test_a_program_that_does_not_end_is_killed(name: str) -> None:
    code, killed = PROGRAMS_THAT_DO_NOT_END[name]
    limits = SandboxLimits(seconds=1.0 if killed == "time" else 30.0, cpu_seconds=1, output_bytes=10_000)
    ran = await run_and_watch(code, limits)
    assert (ran.killed, ran.exit_code != 0) == (killed, True)
    assert max(len(ran.stdout), len(ran.stderr)) <= 10_000


async def test_a_program_of_several_processes_may_use_its_share_of_each() -> None:
    """The limits leave room for honest work."""
    code = """
import os, sys, json, math, random, subprocess, threading
done = []
worker = threading.Thread(target=lambda: done.append(math.factorial(200)))
worker.start(); worker.join()
child = os.fork()
if child == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(str(done[0])), len(bytearray(50 << 20)))
open('/tmp/notes', 'w').write('x' * 1_000_000)
print(json.dumps({"size": os.path.getsize('/tmp/notes')}), random.random() < 1, sys.version_info[0])
"""
    ran = await run_sandboxed(code, LIMITS)
    assert ran == SandboxResult(0, '7 375 52428800\n{"size": 1000000} True 3\n', "")


async def test_nothing_is_kept_from_program_to_program() -> None:
    await run_sandboxed("open('/tmp/kept', 'w').write('x')", LIMITS)
    ran = await run_sandboxed("import os\nprint(os.listdir('/tmp'))", LIMITS)
    assert ran.stdout == "['main.py']\n"
