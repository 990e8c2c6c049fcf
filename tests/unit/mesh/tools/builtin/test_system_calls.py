"""The filter of system calls, interpreted as the kernel does it, on both machines."""

from __future__ import annotations

import errno
from typing import Final

import pytest

from archon_mesh.tools.builtin.sandbox.system_calls import ALLOW, ERROR, KILL, MACHINES, as_bytes, filter_program

ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
REFUSED: Final = ERROR | errno.EPERM
MISSING: Final = ERROR | errno.ENOSYS

CALLS: Final = {
    # name: number on x86_64, number on aarch64, arguments, outcome
    "read": (0, 63, (), ALLOW),
    "mmap": (9, 222, (), ALLOW),
    "execve": (59, 221, (), ALLOW),
    "exit_group": (231, 94, (), ALLOW),
    "futex": (202, 98, (), ALLOW),
    "getdents64": (217, 61, (), ALLOW),
    "clone of a thread": (56, 220, (0x3D0F00,), ALLOW),
    "clone of a process": (56, 220, (17,), ALLOW),
    "clone into a user namespace": (56, 220, (0x10000011,), REFUSED),
    "clone into a network namespace": (56, 220, (0x40000011,), REFUSED),
    "clone3": (435, 435, (), MISSING),
    "a socket of this machine": (41, 198, (1,), ALLOW),
    "a socket of IPv4": (41, 198, (2,), ALLOW),
    "a socket of IPv6": (41, 198, (10,), ALLOW),
    "a socket of netlink": (41, 198, (16,), REFUSED),
    "a socket of the virtual machine": (41, 198, (40,), REFUSED),
    "a socket of the kernel's ciphers": (41, 198, (38,), REFUSED),
    "a pair of sockets": (53, 199, (1,), ALLOW),
    "a pair of sockets of TIPC": (53, 199, (30,), REFUSED),
    "ioctl": (16, 29, (0, 0x5401), ALLOW),
    "ioctl TIOCSTI": (16, 29, (0, 0x5412), REFUSED),
    "ioctl TIOCSTI with high bits": (16, 29, (0, 0x1_0000_5412), REFUSED),
    "ioctl TIOCLINUX": (16, 29, (0, 0x541C), REFUSED),
    "shmget": (29, 194, (), REFUSED),
    "shmat": (30, 196, (), REFUSED),
    "semget": (64, 190, (), REFUSED),
    "msgget": (68, 186, (), REFUSED),
    "mq_open": (240, 180, (), REFUSED),
    "memfd_create": (319, 279, (), REFUSED),
    "memfd_secret": (447, 447, (), REFUSED),
    "keyctl": (250, 219, (), REFUSED),
    "add_key": (248, 217, (), REFUSED),
    "request_key": (249, 218, (), REFUSED),
    "io_uring_setup": (425, 425, (), REFUSED),
    "io_uring_enter": (426, 426, (), REFUSED),
    "bpf": (321, 280, (), REFUSED),
    "userfaultfd": (323, 282, (), REFUSED),
    "perf_event_open": (298, 241, (), REFUSED),
    "ptrace": (101, 117, (), REFUSED),
    "process_vm_readv": (310, 270, (), REFUSED),
    "pidfd_getfd": (438, 438, (), REFUSED),
    "seccomp": (317, 277, (), REFUSED),
    "unshare": (272, 97, (), REFUSED),
    "setns": (308, 268, (), REFUSED),
    "mount": (165, 40, (), REFUSED),
    "fsopen": (430, 430, (), REFUSED),
    "personality": (135, 92, (), REFUSED),
    "vmsplice": (278, 75, (), REFUSED),
    "setxattr": (188, 5, (), REFUSED),
    "a call of a later kernel": (463, 463, (), MISSING),
    "a call of the 32-bit numbers": (0x40000000, 0x40000000, (), MISSING),
}


def outcome(machine: str, architecture: int, number: int, arguments: tuple[int, ...]) -> int:
    """Interprets the filter as the kernel does."""
    data = number.to_bytes(4, "little") + architecture.to_bytes(4, "little") + bytes(8)
    data += b"".join(argument.to_bytes(8, "little") for argument in (*arguments, *[0] * (6 - len(arguments))))
    program = filter_program(machine)
    position, accumulator = 0, 0
    while True:
        code, yes, no, value = program[position]
        position += 1
        if code == 0x06:
            return value
        if code == 0x20:
            accumulator = int.from_bytes(data[value : value + 4], "little")
            continue
        holds = {
            0x15: accumulator == value,
            0x25: accumulator > value,
            0x35: accumulator >= value,
            0x45: bool(accumulator & value),
        }[code]
        position += yes if holds else no


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", CALLS)
def test_a_system_call_is_allowed_only_by_the_list(name: str, machine: str) -> None:
    *numbers, arguments, expected = CALLS[name]
    number = numbers[MACHINES.index(machine)]
    assert outcome(machine, ARCHITECTURES[machine], number, arguments) == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_of_another_architecture_end_the_program(machine: str) -> None:
    assert outcome(machine, 0x40000003, 3, ()) == KILL  # i386


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_is_one_that_the_kernel_takes(machine: str) -> None:
    program = filter_program(machine)
    assert len(as_bytes(program)) == 8 * len(program) <= 8 * 4096
    for position, instruction in enumerate(program):
        assert position + 1 + max(instruction.yes, instruction.no) < len(program) or instruction.code == 0x06
