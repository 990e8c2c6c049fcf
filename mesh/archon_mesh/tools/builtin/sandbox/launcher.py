"""Starts a program in namespaces of its own: the process that `sandbox.run_sandboxed` starts, with `python -I -S`.

It uses the standard library alone, since the rest of Archon is not importable here. The program is read from standard
input. Four processes: this one, which stays outside and maps the user; the builder, which enters the namespaces and
builds the file system; the first process of the new process namespace, with whose end everything in there ends; and the
program. Each dies with the one before it.

Linux interfaces: namespaces(7), user_namespaces(7), pivot_root(2), mount_setattr(2), capabilities(7).
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any, Final

UNPRIVILEGED: Final = 65534
"""The user and the group that own nothing, by the custom of Linux systems."""
FAILED: Final = 125
"""Exit code if the sandbox cannot be built; the pipe for errors says why, which the program does not have."""

CPU: Final = "the limit of CPU time"
"""The text in the pipe for errors if that limit has ended the program."""
CPU_PART: Final = 0.3
"""The part of that limit which it has taken at least, since it may send itself the signal. The system counts time for
the limit by ticks of its clock: on a loaded machine it may count twice the program's time."""

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWCGROUP: Final = 0x02000000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000
NAMESPACES: Final = (
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP
)

MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
MNT_DETACH: Final = 2

SYS_MOUNT_SETATTR: Final = 442
"""The same number on all architectures. Since Linux 5.12."""

MOUNT_ATTR_RDONLY: Final = 1
MOUNT_ATTR_NOSUID: Final = 2
MOUNT_ATTR_NODEV: Final = 4
AT_RECURSIVE: Final = 0x8000
AT_FDCWD: Final = -100

PR_SET_PDEATHSIG: Final = 1
PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38
PR_SET_SECCOMP: Final = 22
SECCOMP_MODE_FILTER: Final = 2
KEYCTL_JOIN_SESSION_KEYRING: Final = 1
SYS_KEYCTL: Final = {"x86_64": 250, "aarch64": 219}
LAST_CAPABILITY: Final = 63

DEVICES: Final = ("null", "zero", "random", "urandom")

_libc = ctypes.CDLL(None, use_errno=True)


class MountAttr(ctypes.Structure):
    """struct mount_attr of mount_setattr(2)."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


class Filter(ctypes.Structure):
    """struct sock_fprog of seccomp(2)."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def main() -> int:
    """Runs the program and returns its exit code, 128 + N after signal N."""
    config = json.loads(sys.argv[1])
    os.set_inheritable(config["errors"], False)
    code = sys.stdin.buffer.read()
    entered, mapped = os.pipe(), os.pipe()
    builder = os.fork()
    if not builder:
        os.close(entered[0])
        os.close(mapped[1])
        _exit_with(config["errors"], lambda: _build(config, code, entered[1], mapped[0]))
    os.close(entered[1])
    os.close(mapped[0])
    if os.read(entered[0], 1):
        _map_user(builder)
        _forbid_shared_memory(config["errors"], builder)
        os.write(mapped[1], b"x")
    return _exit_code(os.waitpid(builder, 0)[1])


def _exit_with(errors: int, work: Any) -> None:
    """Ends this process with the number that `work` returns."""
    code = FAILED
    try:
        code = work()
    except Exception as error:  # noqa: BLE001 - none may pass into the code of the parent, which this process copies
        os.write(errors, f"the sandbox cannot be built: {error}\n".encode())
    finally:
        os._exit(code)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _map_user(pid: int) -> None:
    """Maps user 0 of the namespace to the caller. If that is root, user 0 is UNPRIVILEGED, and root is user 1, as which
    the builder creates files; the program has not the right to become it."""
    if os.geteuid() == 0:
        users = groups = f"0 {UNPRIVILEGED} 1\n1 0 1\n"
    else:
        users, groups = f"0 {os.geteuid()} 1", f"0 {os.getegid()} 1"
        _write(f"/proc/{pid}/setgroups", "deny")
    _write(f"/proc/{pid}/uid_map", users)
    _write(f"/proc/{pid}/gid_map", groups)


def _build(config: dict[str, Any], code: bytes, entered: int, mapped: int) -> int:
    """Enters the namespaces, builds the file system and starts the program in it. Returns its exit code."""
    _die_with_parent()
    is_root = os.geteuid() == 0
    _call("unshare", NAMESPACES)
    os.write(entered, b"x")
    if not os.read(mapped, 1):
        raise OSError("the user could not be mapped")
    _forbid_nested_namespaces()
    _leave_keyring()
    _build_root(config, code)
    if is_root:
        os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    _die_with_parent()  # a change of the user forgets it
    first = os.fork()
    if not first:
        _exit_with(config["errors"], lambda: _supervise(config))
    return _exit_code(os.waitpid(first, 0)[1])


def _supervise(config: dict[str, Any]) -> int:
    """The first process, which no signal of the program ends. Returns the exit code of the program."""
    _die_with_parent()
    program = os.fork()
    if not program:
        _exit_with(config["errors"], lambda: _start(config))
    while True:
        pid, status, used = os.wait4(-1, 0)  # orphans of the program too
        if pid == program:
            limit = config["limits"]["RLIMIT_CPU"][0]
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU and _seconds(used) > CPU_PART * limit:
                os.write(config["errors"], CPU.encode())
            return _exit_code(status)


def _seconds(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


def _forbid_nested_namespaces() -> None:
    for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"):
        try:
            _write(f"/proc/sys/user/max_{kind}_namespaces", "0")
        except OSError:
            pass  # such as a /proc that is read-only: a nested namespace has no more rights than this one


def _forbid_shared_memory(errors: int, builder: int) -> None:
    """Allows none in the IPC namespace, whose limits belong to user 0 of it. The filter of system calls does so too."""
    owner = os.fork()  # not of the builder, whose first child is the first process of the new process namespace
    if not owner:
        _exit_with(errors, lambda: _limit_shared_memory(builder))
    os.waitpid(owner, 0)


def _limit_shared_memory(builder: int) -> int:
    try:
        entered = [os.open(f"/proc/{builder}/ns/{kind}", os.O_RDONLY) for kind in ("user", "ipc")]
        for namespace in entered:
            _call("setns", namespace, 0)
        os.setresuid(0, 0, 0)
        for name, limits in (("shmall", "0"), ("shmmni", "0"), ("msgmni", "0"), ("msgmnb", "0"), ("sem", "0 0 0 0")):
            _write(f"/proc/sys/kernel/{name}", limits)
    except OSError:
        pass  # such as a kernel before 5.19, which leaves them to root
    return 0


def _leave_keyring() -> None:
    """Takes a new session keyring, since the keys of the agent's session belong to the same user."""
    number = SYS_KEYCTL.get(os.uname().machine)
    if number is not None:
        _libc.syscall(*map(ctypes.c_long, (number, KEYCTL_JOIN_SESSION_KEYRING, 0)))  # fails without keyrings


def _build_root(config: dict[str, Any], code: bytes) -> None:
    """The interpreter and its libraries, read-only; four devices; and /tmp, the only place that can be written."""
    root: str = config["root"]
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    _mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    for path in config["visible"]:
        _show(root, path)
    os.mkdir(f"{root}/dev")
    for name in DEVICES:
        os.close(os.open(f"{root}/dev/{name}", os.O_CREAT | os.O_WRONLY))
        _mount(f"/dev/{name}", f"{root}/dev/{name}", None, MS_BIND)
    os.mkdir(f"{root}/tmp")
    size, files = config["file_bytes"] + len(code), 1_000
    _mount("tmpfs", f"{root}/tmp", "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},nr_inodes={files},mode=1777")
    with open(f"{root}/tmp/main.py", "wb") as file:
        file.write(code)
    os.chmod(f"{root}/tmp/main.py", 0o644)
    _set_attributes(root, MOUNT_ATTR_RDONLY, recursive=False)
    os.chdir(root)
    _call("pivot_root", b".", b".")
    _call("umount2", b".", MNT_DETACH)
    os.chdir("/tmp")


def _show(root: str, path: str) -> None:
    """Makes a folder visible, read-only; a link at its place stays a link."""
    target = root + path
    if os.path.islink(path):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(os.readlink(path), target)
    elif os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
        _mount(path, target, None, MS_BIND | MS_REC)
        _set_attributes(target, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, recursive=True)


def _start(config: dict[str, Any]) -> int:
    """Gives up every right, and becomes the program."""
    _die_with_parent()
    os.setsid()
    _call("sethostname", b"sandbox", 7)
    for capability in range(LAST_CAPABILITY + 1):
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails for numbers that this kernel does not know
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    errors: int = config["errors"]  # closed by execve
    os.closerange(3, errors)
    os.closerange(errors + 1, 1 << 16)
    for name, (soft, hard) in config["limits"].items():
        resource.setrlimit(getattr(resource, name), (soft, hard))
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    python = config["python"]
    _filter_system_calls(bytes.fromhex(config["filter"]))
    os.execve(python, [python, "-I", "-S", "-B", "-X", "utf8", "/tmp/main.py"], {})


def _filter_system_calls(instructions: bytes) -> None:
    program = Filter(len(instructions) // 8, instructions)
    try:
        _call("prctl", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)
    except OSError as error:
        raise OSError(error.errno, f"system calls cannot be filtered: {error.strerror}") from None


def _die_with_parent() -> None:
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    arguments = (source.encode(), target.encode(), kind.encode() if kind else None, flags, data.encode() or None)
    _call("mount", *arguments, subject=target)


def _set_attributes(path: str, attributes: int, *, recursive: bool) -> None:
    attr = MountAttr(attributes, 0, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    size = ctypes.sizeof(attr)
    _call("syscall", SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, ctypes.byref(attr), size, subject=path)


def _call(name: str, *arguments: Any, subject: str = "") -> None:
    """Calls a function of the C library. Raises OSError if it fails."""
    longs = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    if getattr(_libc, name)(*longs) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}", subject or None)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main())
