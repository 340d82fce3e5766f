"""The filter of system calls, run instruction by instruction, and its table against the kernel's headers."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from grader.sandbox.seccomp import ARCHITECTURES, DENIED, NUMBERS, program

KILLED, ALLOWED, NOT_PERMITTED, NO_SUCH_CALL = 0x80000000, 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), r"#define __NR_(\w+)\s+(\d+)"),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"), r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
}
STRICT = {"memory_files": False, "families": (), "reach_others": False, "shared_user": True}
LOOSE = {"memory_files": True, "families": (1,), "reach_others": True, "shared_user": False}


def decide(code: bytes, call: int, arguments: tuple[int, ...] = (), arch: int = ARCHITECTURES["x86_64"][1]) -> int:
    """What the kernel's machine for classic BPF returns for one call."""
    data = struct.pack("<IIQ6Q", call, arch, 0, *arguments, *(0,) * (6 - len(arguments)))
    steps = list(struct.iter_unpack("<HBBI", code))
    accumulator = at = 0
    while True:
        operation, yes, no, operand = steps[at]
        at += 1
        if operation == 0x06:
            return operand
        if operation == 0x20:
            accumulator = struct.unpack_from("<I", data, operand)[0]
            continue
        if operation == 0x54:
            accumulator &= operand
            continue
        tests = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}
        at += yes if tests[operation] else no


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_every_denied_call_is_refused_and_ordinary_ones_pass(machine: str) -> None:
    column, arch = ARCHITECTURES[machine]
    code = program(**STRICT, machine=machine)
    numbers = [NUMBERS[name][column] for name in (*DENIED, "socket", "connect", "memfd_create")]
    assert {decide(code, number, arch=arch) for number in numbers if number is not None} == {NOT_PERMITTED}
    assert decide(code, NUMBERS["clone3"][column], arch=arch) == NO_SUCH_CALL
    for ordinary in {"x86_64": (0, 1, 9, 59, 202, 257), "aarch64": (56, 63, 64, 98, 221, 222)}[machine]:
        assert decide(code, ordinary, arch=arch) == ALLOWED


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_another_machines_numbers_kill(machine: str) -> None:
    other = next(arch for name, (_, arch) in ARCHITECTURES.items() if name != machine)
    assert decide(program(**LOOSE, machine=machine), 0, arch=other) == KILLED


def test_the_32_bit_pointer_calls_of_x86_64_kill() -> None:
    assert decide(program(**LOOSE, machine="x86_64"), 0x40000000 | NUMBERS["ptrace"][0]) == KILLED


@pytest.mark.parametrize(
    ("call", "arguments", "strict", "loose"),
    [
        ("socket", (1, 1, 0), NOT_PERMITTED, ALLOWED),  # AF_UNIX
        ("socket", (2, 1, 0), NOT_PERMITTED, NOT_PERMITTED),  # AF_INET
        ("socket", (1 << 32 | 2, 1, 0), NOT_PERMITTED, NOT_PERMITTED),  # the kernel drops the upper half
        ("socket", (16, 3, 0), NOT_PERMITTED, NOT_PERMITTED),  # AF_NETLINK
        ("mknod", (0, 0o010600), ALLOWED, ALLOWED),  # a FIFO
        ("mknod", (0, 0o060600), NOT_PERMITTED, NOT_PERMITTED),  # a block device
        ("mknodat", (0, 0, 0o010600), ALLOWED, ALLOWED),
        ("mknodat", (0, 0, 0o020600), NOT_PERMITTED, NOT_PERMITTED),  # a character device
        ("connect", (3, 0, 16), NOT_PERMITTED, ALLOWED),
        ("socketpair", (1, 0x80001, 0), ALLOWED, ALLOWED),  # SOCK_STREAM, closed on exec
        ("socketpair", (1, 2, 0), NOT_PERMITTED, ALLOWED),  # SOCK_DGRAM can send to others
        ("memfd_create", (0, 0), NOT_PERMITTED, ALLOWED),
        ("clone", (0x01200011,), ALLOWED, ALLOWED),  # fork of libc
        ("clone", (0x3D0F00,), ALLOWED, ALLOWED),  # a thread
        ("clone", (0x10000000 | 17,), NOT_PERMITTED, NOT_PERMITTED),  # CLONE_NEWUSER
        ("clone", (0x20000000 | 17,), NOT_PERMITTED, NOT_PERMITTED),  # CLONE_NEWPID
        ("ioctl", (0, 0x5401), ALLOWED, ALLOWED),
        ("ioctl", (0, 0x5412), NOT_PERMITTED, NOT_PERMITTED),  # TIOCSTI
        ("ioctl", (0, 0x541C), NOT_PERMITTED, NOT_PERMITTED),  # TIOCLINUX
        ("personality", (0xFFFFFFFF,), ALLOWED, ALLOWED),
        ("personality", (0x0400000,), NOT_PERMITTED, NOT_PERMITTED),  # READ_IMPLIES_EXEC
        ("prlimit64", (0, 7), ALLOWED, ALLOWED),
        ("prlimit64", (4321, 7), NOT_PERMITTED, ALLOWED),
        ("sched_setaffinity", (4321,), NOT_PERMITTED, ALLOWED),
        ("setpriority", (0, 0, 5), ALLOWED, ALLOWED),
        ("setpriority", (0, 4321, 5), NOT_PERMITTED, ALLOWED),
        ("setpriority", (2, 0, 5), NOT_PERMITTED, ALLOWED),  # all processes of the user
    ],
)
def test_arguments_decide(call: str, arguments: tuple[int, ...], strict: int, loose: int) -> None:
    number = NUMBERS[call][0]
    assert decide(program(**STRICT, machine="x86_64"), number, arguments) == strict
    assert decide(program(**LOOSE, machine="x86_64"), number, arguments) == loose


def test_a_gpu_under_landlock_may_listen_but_send_to_nobody() -> None:
    code = program(memory_files=True, families=(1,), reach_others=False, shared_user=False, machine="x86_64")
    call = NUMBERS["socket"][0]
    assert [decide(code, call, (1, kind)) for kind in (1, 5, 2, 3)] == [ALLOWED, ALLOWED, NOT_PERMITTED, NOT_PERMITTED]
    assert decide(code, call, (2, 1)) == NOT_PERMITTED
    assert decide(code, NUMBERS["connect"][0], (3,)) == NOT_PERMITTED


def test_of_the_kernels_own_sockets_an_agent_gets_those_that_list_addresses() -> None:
    code = program(memory_files=True, families=(1, 2, 16), reach_others=True, shared_user=False, machine="x86_64")
    call = NUMBERS["socket"][0]
    tried = [(16, 3, 0), (16, 2, 0), (16, 3, 9), (16, 3, 15), (2, 1, 6), (2, 2, 17), (1, 1, 0), (17, 3, 0), (40, 1, 0)]
    allowed = [arguments for arguments in tried if decide(code, call, arguments) == ALLOWED]
    assert allowed == [(16, 3, 0), (16, 2, 0), (2, 1, 6), (2, 2, 17), (1, 1, 0)]


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_those_of_the_kernel_headers(machine: str) -> None:
    header, pattern = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"{header} is not installed")
    known = {name: int(number) for name, number in re.findall(pattern, header.read_text())}
    column = ARCHITECTURES[machine][0]
    table = {name: numbers[column] for name, numbers in NUMBERS.items() if numbers[column] is not None}
    assert {name: known[name] for name in table if name in known} == {n: v for n, v in table.items() if n in known}
    assert len(table.keys() & known.keys()) > 60


def test_a_machine_without_a_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="no table"):
        program(**STRICT, machine="riscv64")
