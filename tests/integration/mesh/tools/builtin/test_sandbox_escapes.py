"""What a hostile program gets in the sandbox. Each program tries to escape, or to take more than its limits, and prints
what it got; the test holds that output."""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from archon.errors import FailedPrecondition
from archon_mesh.tools.builtin.sandbox import SandboxLimits, SandboxResult, run_sandboxed
from archon_mesh.tools.builtin.sandbox import sandbox as sandbox_module
from archon_mesh.tools.builtin.sandbox.system_calls import ALLOW, Instruction, as_bytes
from tests.fixtures.ports import free_ports
from tests.fixtures.processes import is_alive
from tests.fixtures.variants import one_in
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
    # memory that no limit of a process counts
    "shared memory of System V": (LIBC + "call('shmget', 0, 10**9, 0o1600)", "-1 Operation not permitted"),
    "many small shared memories of System V": (
        """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
got = 0
for _ in range(100):
    number = libc.shmget(0, 10 << 20, 0o1600)
    if number >= 0 and (address := libc.shmat(number, None, 0)) not in (None, 2**64 - 1):
        ctypes.memset(address, 1, 10 << 20)
        libc.shmdt(ctypes.c_void_p(address))
        got += 10
print(got)
""",
        "0",
    ),
    "semaphores of System V": (LIBC + "call('semget', 0, 30_000, 0o1600)", "-1 Operation not permitted"),
    "queues of System V": (LIBC + "call('msgget', 0, 0o1600)", "-1 Operation not permitted"),
    "queues of POSIX": (
        LIBC + "call('syscall', {'x86_64': 240}.get(os.uname().machine, 180), b'queue', 0o102, 0o600, None)",
        "-1 Operation not permitted",
    ),
    "files without a name": (TRY + "import os\nattempt(lambda: os.memfd_create('x'))", "PermissionError 1"),
    "secret memory": (LIBC + "call('syscall', 447, 0)", "-1 (Operation not permitted|Function not implemented)"),
    "attributes of files": (
        TRY + "import os\nattempt(lambda: os.setxattr('/tmp/main.py', 'user.x', b'x'))",
        "PermissionError 1",
    ),
    # interfaces of the kernel
    "the keyring of the session": (
        LIBC + "call('syscall', {'x86_64': 250}.get(os.uname().machine, 219), 0, -3, 0)",  # KEYCTL_GET_KEYRING_ID
        "-1 Operation not permitted",
    ),
    "a key of its own": (
        LIBC + "call('syscall', {'x86_64': 248}.get(os.uname().machine, 217), b'user', b'x', b'x', 1, -3)",
        "-1 Operation not permitted",
    ),
    "io_uring": (LIBC + "call('syscall', 425, 8, ctypes.create_string_buffer(120))", "-1 Operation not permitted"),
    "the host of the virtual machine": (
        TRY + "import socket\nattempt(lambda: socket.socket(40, socket.SOCK_STREAM))",
        "PermissionError 1",
    ),
    "netlink": (TRY + "import socket\nattempt(lambda: socket.socket(16, socket.SOCK_RAW))", "PermissionError 1"),
    "the kernel's ciphers": (
        TRY + "import socket\nattempt(lambda: socket.socket(38, socket.SOCK_SEQPACKET))",
        "PermissionError 1",
    ),
    "programs in the kernel": (
        LIBC + "call('syscall', {'x86_64': 321}.get(os.uname().machine, 280), 0, 0, 0)",
        "-1 Operation not permitted",
    ),
    "faults of memory": (
        LIBC + "call('syscall', {'x86_64': 323}.get(os.uname().machine, 282), 1)",
        "-1 Operation not permitted",
    ),
    "a filter that lets a call pass": (
        LIBC + "call('syscall', {'x86_64': 317}.get(os.uname().machine, 277), 2, 0, None)",
        "-1 Operation not permitted",
    ),
    "the calls of another architecture": (
        """
import ctypes, mmap, os
if os.uname().machine == "x86_64" and os.fork() == 0:
    code = b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3"  # mov eax, 20 (getpid of i386); int 0x80; ret
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()
    os._exit(0)
print("killed" if os.uname().machine != "x86_64" or os.WIFSIGNALED(os.wait()[1]) else "answered")
""",
        "killed",
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


@pytest.mark.parametrize("name", one_in(5, ESCAPES))
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


@pytest.mark.parametrize("name", one_in(3, PROGRAMS_THAT_DO_NOT_END))
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


ORDINARY_PROGRAMS = {
    "a pool of threads": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "print(sum(ThreadPoolExecutor(2).map(lambda number: number * number, range(100))))",
        "328350",
    ),
    "a process of multiprocessing": (
        "import multiprocessing\n"
        "process = multiprocessing.get_context('fork').Process(target=print, args=('hello',))\n"
        "process.start(); process.join(); print(process.exitcode)",
        "hello\n0",
    ),
    "a program within the program": (
        "import subprocess, sys\n"
        "print(subprocess.run([sys.executable, '-c', 'print(3)'], capture_output=True, text=True).stdout.strip())",
        "3",
    ),
    "an event loop with a child": (
        """
import asyncio, sys
async def main():
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(4)", stdout=-1)
    print((await child.communicate())[0].decode().strip())
asyncio.run(main())
""",
        "4",
    ),
    "a database in a file": (
        "import sqlite3\nwith sqlite3.connect('/tmp/a.db') as base:\n    base.execute('PRAGMA journal_mode = WAL')\n"
        "    base.execute('CREATE TABLE t (a)'); base.execute('INSERT INTO t VALUES (1)')\n"
        "    print(base.execute('SELECT * FROM t').fetchall())",
        r"\[\(1,\)\]",
    ),
    "files and folders": (
        """
import os, shutil, tempfile
folder = tempfile.mkdtemp()
open(f"{folder}/a", "w").write("x" * 100_000)
shutil.copy2(f"{folder}/a", f"{folder}/b")
shutil.copytree(folder, f"{folder}2")
shutil.make_archive("/tmp/archive", "zip", folder)
shutil.rmtree(folder)
os.symlink("main.py", "/tmp/link"); os.mkfifo("/tmp/pipe"); os.rename("/tmp/link", "/tmp/other")
print(sorted(os.listdir("/tmp"))[0], os.path.realpath("/tmp/other"))
""",
        "archive.zip /tmp/main.py",
    ),
    "sockets within the program": (
        """
import select, socket
one, other = socket.socketpair()
one.send(b"x")
server = socket.socket(socket.AF_UNIX); server.bind("/tmp/socket"); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect("/tmp/socket")
print(other.recv(1), select.select([server], [], [])[0] == [server])
""",
        "b'x' True",
    ),
    "signals and timers": (
        """
import signal, time
signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.05)
signal.pause()
print(signal.sigtimedwait([signal.SIGUSR1], 0.01))
""",
        "alarm\nNone",
    ),
    "what is known of the machine": (
        "import os, platform, resource, time\n"
        "print(os.cpu_count() > 0, bool(os.sched_getaffinity(0)), platform.system(), os.getuid() >= 0,\n"
        "      resource.getrusage(0).ru_maxrss > 0, time.process_time() > 0, os.nice(1) > 0, len(os.getrandom(5)))",
        "True True Linux True True True True 5",
    ),
    "compression and hashes": (
        "import bz2, gzip, hashlib, lzma, zlib\nprint(lzma.decompress(lzma.compress(b'x')), "
        "hashlib.scrypt(b'x', salt=b'y', n=2, r=8, p=1).hex()[:2] != '')",
        "b'x' True",
    ),
    "memory that is mapped": (
        "import mmap\nmemory = mmap.mmap(-1, 1 << 20)\nmemory[0] = 1\nmemory.madvise(mmap.MADV_DONTNEED)\n"
        "file = open('/tmp/m', 'w+b'); file.truncate(4096)\nshared = mmap.mmap(file.fileno(), 4096)\n"
        "shared[0] = 7; shared.flush(); print(shared[0])",
        "7",
    ),
    "another program in its place": (
        "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'print(9)'])",
        "9",
    ),
}


@pytest.mark.parametrize("name", one_in(3, ORDINARY_PROGRAMS))
async def test_an_ordinary_program_works(name: str) -> None:
    code, expected = ORDINARY_PROGRAMS[name]
    ran = await run_sandboxed(code, SandboxLimits(seconds=20.0))
    assert ran.exit_code == 0, ran
    assert re.fullmatch(expected, ran.stdout.strip()), ran


async def test_a_program_cannot_forge_an_error_of_the_launcher() -> None:
    code = "import sys\nprint('\\nthe sandbox cannot be built: no', file=sys.stderr)\nsys.exit(125)"
    ran = await run_sandboxed(code, LIMITS)
    assert (ran.exit_code, ran.killed) == (125, "")


@pytest.mark.parametrize(
    "ending", ["sys.exit(152)", "os.kill(os.getpid(), signal.SIGXCPU)", "os._exit(137)", "os.abort()"]
)
async def test_a_program_cannot_forge_the_end_by_a_limit(ending: str) -> None:
    ran = await run_sandboxed(f"import os, signal, sys\n{ending}", LIMITS)
    assert (ran.exit_code > 128, ran.killed) == (True, "")


async def test_shared_memory_is_limited_without_the_filter_too(monkeypatch: pytest.MonkeyPatch) -> None:
    allowing = as_bytes([Instruction(0x06, 0, 0, ALLOW)])
    monkeypatch.setattr(sandbox_module, "_filter", lambda: allowing)
    code = LIBC + "call('shmget', 0, 4096, 0o1600)\ncall('semget', 0, 1, 0o1600)\ncall('msgget', 0, 0o1600)"
    ran = await run_sandboxed(code, LIMITS)
    if tuple(map(int, re.findall(r"\d+", platform.release())[:2])) >= (5, 19):
        assert re.fullmatch(r"(-1 .*\n){3}", ran.stdout), ran


async def test_the_program_has_a_keyring_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    allowing = as_bytes([Instruction(0x06, 0, 0, ALLOW)])
    monkeypatch.setattr(sandbox_module, "_filter", lambda: allowing)
    number = {"x86_64": 250}.get(platform.machine(), 219)
    code = f"import ctypes\nprint(ctypes.CDLL(None).syscall({number}, 0, -3, 0))"  # KEYCTL_GET_KEYRING_ID
    keyrings = [int((await run_sandboxed(code, LIMITS)).stdout) for _ in range(2)]
    own = ctypes.CDLL(None).syscall(number, 0, -3, 0)
    assert own < 0 or len({own, *keyrings}) == 3  # -1 where the kernel has no keyrings


async def test_a_sandbox_that_cannot_be_built_is_an_error_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "_filter", lambda: b"not a filter")
    with pytest.raises(FailedPrecondition, match=r"cannot be sandboxed on this machine: .*system calls"):
        await run_sandboxed("print(1)", LIMITS)


def test_a_machine_without_a_filter_cannot_sandbox_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert sandbox_module._why_unavailable.__wrapped__() == "no filter of system calls is known for riscv64"
