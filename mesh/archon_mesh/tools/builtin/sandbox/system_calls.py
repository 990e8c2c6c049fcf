"""The filter of system calls under which a sandboxed program runs: a list of those that are allowed, as a program of
classic BPF for seccomp(2).

The omitted calls reach beyond the limits of the sandbox (shared memory and queues of System V, memfd_create, io_uring),
beyond its processes (ptrace, keyrings), or belong to parts of the kernel that ordinary programs do not need.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_ALLOWED: Final = {
    "files": """
        read:0:63 write:1:64 pread64:17:67 pwrite64:18:68 readv:19:65 writev:20:66 preadv:295:69 pwritev:296:70
        preadv2:327:286 pwritev2:328:287 open:2: openat:257:56 openat2:437:437 creat:85: close:3:57
        close_range:436:436 lseek:8:62 stat:4: lstat:6: fstat:5:80 newfstatat:262:79 statx:332:291 statfs:137:43
        fstatfs:138:44 access:21: faccessat:269:48 faccessat2:439:439 getdents:78: getdents64:217:61
        getcwd:79:17 chdir:80:49 fchdir:81:50 mkdir:83: mkdirat:258:34 rmdir:84: unlink:87: unlinkat:263:35
        rename:82: renameat:264:38 renameat2:316:276 link:86: linkat:265:37 symlink:88: symlinkat:266:36
        readlink:89: readlinkat:267:78 chmod:90: fchmod:91:52 fchmodat:268:53 chown:92: fchown:93:55 lchown:94:
        fchownat:260:54 umask:95:166 utime:132: utimes:235: utimensat:280:88 futimesat:261: truncate:76:45
        ftruncate:77:46 fallocate:285:47 fadvise64:221:223 readahead:187:213 fsync:74:82 fdatasync:75:83
        sync:162:81 syncfs:306:267 sync_file_range:277:84 sendfile:40:71 copy_file_range:326:285 mknod:133:
        mknodat:259:33 flock:73:32 fcntl:72:25 dup:32:23 dup2:33: dup3:292:24 pipe:22: pipe2:293:59
        getxattr:191:8 lgetxattr:192:9 fgetxattr:193:10 listxattr:194:11 llistxattr:195:12 flistxattr:196:13
        inotify_init:253: inotify_init1:294:26 inotify_add_watch:254:27 inotify_rm_watch:255:28
    """,
    "waiting": """
        select:23: pselect6:270:72 poll:7: ppoll:271:73 epoll_create:213: epoll_create1:291:20 epoll_ctl:233:21
        epoll_wait:232: epoll_pwait:281:22 epoll_pwait2:441:441 eventfd:284: eventfd2:290:19 signalfd:282:
        signalfd4:289:74 timerfd_create:283:85 timerfd_settime:286:86 timerfd_gettime:287:87 nanosleep:35:101
        clock_nanosleep:230:115 pause:34:
    """,
    "memory": """
        mmap:9:222 munmap:11:215 mprotect:10:226 mremap:25:216 madvise:28:233 msync:26:227 mincore:27:232
        brk:12:214 mlock:149:228 munlock:150:229 membarrier:324:283
    """,
    "processes": """
        fork:57: vfork:58: execve:59:221 execveat:322:281 exit:60:93 exit_group:231:94 wait4:61:260
        waitid:247:95 kill:62:129 tkill:200:130 tgkill:234:131 pidfd_open:434:434 pidfd_send_signal:424:424
        getpid:39:172 getppid:110:173 gettid:186:178 getpgid:121:155 getpgrp:111: setpgid:109:154 getsid:124:156
        setsid:112:157 set_tid_address:218:96 arch_prctl:158: futex:202:98 futex_waitv:449:449
        set_robust_list:273:99 get_robust_list:274:100 rseq:334:293 restart_syscall:219:128 prctl:157:167
        sched_yield:24:124 sched_getaffinity:204:123 sched_setaffinity:203:122 sched_getparam:143:121
        sched_getscheduler:145:120 sched_getattr:315:275 sched_get_priority_max:146:125
        sched_get_priority_min:147:126 sched_rr_get_interval:148:127 getcpu:309:168 getpriority:140:141
        setpriority:141:140 getrlimit:97:163 setrlimit:160:164 prlimit64:302:261 getrusage:98:165 times:100:153
    """,
    "signals": """
        rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigpending:127:136 rt_sigsuspend:130:133
        rt_sigtimedwait:128:137 rt_sigqueueinfo:129:138 rt_tgsigqueueinfo:297:240 rt_sigreturn:15:139
        sigaltstack:131:132 alarm:37: getitimer:36:102 setitimer:38:103 timer_create:222:107
        timer_settime:223:110 timer_gettime:224:108 timer_getoverrun:225:109 timer_delete:226:111
    """,
    "users": """
        getuid:102:174 geteuid:107:175 getgid:104:176 getegid:108:177 getresuid:118:148 getresgid:120:150
        getgroups:115:158 setuid:105:146 setgid:106:144 setreuid:113:145 setregid:114:143 setresuid:117:147
        setresgid:119:149 setfsuid:122:151 setfsgid:123:152 capget:125:90 capset:126:91
    """,
    "system": """
        uname:63:160 sysinfo:99:179 time:201: gettimeofday:96:169 clock_gettime:228:113 clock_getres:229:114
        getrandom:318:278
    """,
    "sockets": """
        bind:49:200 listen:50:201 accept:43:202 accept4:288:242 connect:42:203 getsockname:51:204
        getpeername:52:205 sendto:44:206 recvfrom:45:207 sendmsg:46:211 recvmsg:47:212 sendmmsg:307:269
        recvmmsg:299:243 shutdown:48:210 setsockopt:54:208 getsockopt:55:209
    """,
}
"""Names of system calls by topic, with their numbers on x86_64 and aarch64; no number if there is none."""

NEWEST: Final = 450
"""The highest number that was looked at. Above it, a call does not exist for the program (ENOSYS), so that its C
library falls back to an older one."""

MACHINES: Final = ("x86_64", "aarch64")
_ARCHITECTURES: Final = (0xC000003E, 0xC00000B7)  # AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64

FAMILIES: Final = (1, 2, 10)
"""Sockets: AF_UNIX, AF_INET, AF_INET6. Without devices in its network, the program reaches no other process by them."""

NEW_NAMESPACES: Final = 0x7E020080
"""Flags of clone(2) that make namespaces."""

TERMINAL_INPUT: Final = (0x5412, 0x541C)
"""ioctl(2): TIOCSTI, TIOCLINUX."""

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
ERROR: Final = 0x00050000
REFUSED: Final = ERROR | errno.EPERM
MISSING: Final = ERROR | errno.ENOSYS

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ABOVE: Final = 0x25  # BPF_JMP | BPF_JGT | BPF_K
_ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K

# struct seccomp_data: the lower halves of the first two arguments.
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24


class Instruction(NamedTuple):
    """struct sock_filter: `yes` and `no` are the instructions to skip."""

    code: int
    yes: int
    no: int
    value: int


def filter_program(machine: str) -> list[Instruction]:
    """Returns the seccomp program for a machine, one of MACHINES: a call of another architecture kills the process."""
    column = MACHINES.index(machine)
    numbers = dict(_numbers(column))
    program = [
        Instruction(_LOAD, 0, 0, _ARCHITECTURE),
        Instruction(_EQUAL, 1, 0, _ARCHITECTURES[column]),  # else the numbers mean something else
        Instruction(_RETURN, 0, 0, KILL),
        Instruction(_LOAD, 0, 0, _NUMBER),
        Instruction(_ABOVE, 0, 1, NEWEST),
        Instruction(_RETURN, 0, 0, MISSING),
    ]
    for first, last in _runs(numbers.values()):
        program += [
            Instruction(_AT_LEAST, 0, 2, first),
            Instruction(_ABOVE, 1, 0, last),
            Instruction(_RETURN, 0, 0, ALLOW),
        ]
    families = [Instruction(_EQUAL, len(FAMILIES) - index, 0, family) for index, family in enumerate(FAMILIES)]
    allowed_by_family = [
        Instruction(_LOAD, 0, 0, _FIRST),
        *families,
        Instruction(_RETURN, 0, 0, REFUSED),
        Instruction(_RETURN, 0, 0, ALLOW),
    ]
    for socket_call in ((41, 198), (53, 199)):
        program += _for_call(socket_call[column], allowed_by_family)
    program += _for_call((56, 220)[column], _unless([Instruction(_ANY_BIT, 0, 1, NEW_NAMESPACES)], _FIRST))
    # clone3 has its flags in memory, which a filter cannot read: the C library takes clone in its place.
    program += _for_call(435, [Instruction(_RETURN, 0, 0, MISSING)])
    inputs = [Instruction(_EQUAL, 1 - index, index, value) for index, value in enumerate(TERMINAL_INPUT)]
    program += _for_call((16, 29)[column], _unless(inputs, _SECOND))
    return [*program, Instruction(_RETURN, 0, 0, REFUSED)]


def as_bytes(program: list[Instruction]) -> bytes:
    """Returns a program as the kernel reads it."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _numbers(column: int) -> Iterator[tuple[str, int]]:
    for topic in _ALLOWED.values():
        for cell in topic.split():
            name, *numbers = cell.split(":")
            if numbers[column]:
                yield name, int(numbers[column])


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yields first and last of the numbers that follow each other."""
    first = last = -1
    for number in sorted(numbers):
        if number != last + 1 or first < 0:
            if first >= 0:
                yield first, last
            first = number
        last = number
    yield first, last


def _for_call(number: int, then: list[Instruction]) -> list[Instruction]:
    return [Instruction(_EQUAL, 0, len(then), number), *then]


def _unless(conditions: list[Instruction], argument: int) -> list[Instruction]:
    """Refuses a call if one of the conditions on an argument holds. The last one skips the refusal if it does not."""
    return [
        Instruction(_LOAD, 0, 0, argument),
        *conditions,
        Instruction(_RETURN, 0, 0, REFUSED),
        Instruction(_RETURN, 0, 0, ALLOW),
    ]
