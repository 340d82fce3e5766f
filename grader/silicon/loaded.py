"""The machine code that the driver had loaded for each launch, as Nsight Compute saw it, instruction by instruction.

What lies in a compiler cache need not be what ran: a process can load code from anywhere. Nsight Compute keeps the code
of each kernel that it profiled in its report, and prints it with addresses of the device's memory. It is read by the
same census as disassembled files. The report was written inside the submission's sandbox and is read in one.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from grader.sandbox import Sandbox, SandboxError
from grader.silicon.machine_code import private_copy
from grader.silicon.ncu import Launch, Ncu
from grader.silicon.sass.census import Census, SassError, census
from grader.silicon.tools import ToolError, run_tool

__all__ = ["blocks", "disassembly", "loaded_code", "one_each"]

MOST_CODE = 64 << 20  # bytes of text
MOST_INSTRUCTIONS = 1 << 20
INSTRUCTION = 16  # bytes
READERS, LEAST_PART = 6, 3  # that print launches of a report at a time, and how many a part has at least
Block = tuple[str, list[tuple[int, str]]]


def loaded_code(
    report: Path, ncu: Ncu, sandbox: Sandbox, launches: Sequence[Launch], arch: str
) -> dict[int, Census] | ToolError:
    """The census of the code that each launch ran, by the launch's number, or why it cannot be had."""
    try:
        with tempfile.TemporaryDirectory(prefix="kbh-loaded-") as folder:
            Path(folder).chmod(0o755)  # the tool runs as another user
            copy = Path(folder) / "report.ncu-rep"
            private_copy(report, copy)

            def listed(part: range) -> str:
                """The listing of some of the launches."""
                return run_tool(
                    [
                        str(ncu.program), "--import", str(copy), "--csv", "--page", "source", "--print-source", "sass",
                        "--print-kernel-base", "mangled", "--launch-skip", str(part.start), "--launch-count",
                        str(len(part)),
                    ],
                    sandbox, read=(copy,), most=MOST_CODE,
                )  # fmt: skip

            with ThreadPoolExecutor(READERS) as readers:
                text = "\n".join(readers.map(listed, _parts(len(launches))))
        if len(text) > MOST_CODE:
            raise ToolError(f"Nsight Compute printed more than {MOST_CODE} characters")
        found = one_each(list(blocks(text)), [launch.kernel for launch in launches])
        known: dict[str, Census] = {}
        code = {}
        for launch, (name, lines) in zip(launches, found, strict=True):
            written = disassembly(name, lines, arch)
            if written not in known:
                (known[written],) = census(written)
            code[launch.number] = known[written]
        return code
    except (OSError, SandboxError, SassError, ToolError) as error:
        return ToolError(f"the code that was loaded cannot be read: {error}")


def _parts(count: int) -> list[range]:
    """The launches in parts, in order: printing one takes 0.2 s after the second that the program needs to begin."""
    size = max(LEAST_PART, -(-count // READERS))
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def blocks(text: str) -> Iterator[Block]:
    """Each launch's kernel with the instructions of its function and their addresses. Raises ToolError."""
    current: Block | None = None
    count = 0
    try:
        for row in csv.reader(text.splitlines(), strict=True):
            if row and row[0] == "Kernel Name":
                if current is not None:
                    yield current
                current = (row[1] if len(row) > 1 else "", [])
            elif row and row[0].startswith("0x"):
                count += 1
                if current is None or len(row) < 2 or count > MOST_INSTRUCTIONS:
                    raise ToolError("there is an instruction of no kernel, or there are too many")
                current[1].append((int(row[0], 16), row[1]))
    except (csv.Error, ValueError) as error:
        raise ToolError(f"the listing of Nsight Compute is not a table ({error})") from None
    if current is not None:
        yield current


def one_each(found: Sequence[Block], kernels: Sequence[str]) -> list[Block]:
    """Picks the code block of each launch, given the names of the launched kernels. Raises ToolError where the two do
    not match.

    Nsight Compute lists a launch's kernel as many times as its module has functions, one after the other.
    """
    listed = [(name, list(same)) for name, same in groupby(found, key=itemgetter(0))]
    launched = [(name, len(list(same))) for name, same in groupby(kernels)]
    if [name for name, _ in listed] != [name for name, _ in launched]:
        raise ToolError("the report of Nsight Compute has the code of other kernels than those which it counted")
    taken: list[Block] = []
    for (name, same), (_, count) in zip(listed, launched, strict=True):
        times, rest = divmod(len(same), count)
        parts = [same[start : start + times] for start in range(0, len(same), times)] if times and not rest else []
        if not parts or any(one != part[0] for part in parts for one in part):
            raise ToolError(f"it is not known which code of {name[:200]} a launch had")
        taken += [part[0] for part in parts]
    return taken


def disassembly(name: str, lines: Sequence[tuple[int, str]], arch: str) -> str:
    """The instructions of a function, given with addresses, in nvdisasm's format, with offsets in the function. Raises
    ToolError.
    """
    base = lines[0][0] if lines else 0
    if not lines or [address for address, _ in lines] != [base + INSTRUCTION * i for i in range(len(lines))]:
        raise ToolError(f"the code of {name[:200]} does not lie in one piece")
    end = base + INSTRUCTION * len(lines)
    targets: set[int] = set()
    shown = [(address - base, _local(text, base, end, targets)) for address, text in lines]
    written = [f"\t.target\t{arch}", f'\t.section\t.text.{name},"ax",@progbits']
    written.append(f'        .other          {name},@"STO_CUDA_ENTRY STV_DEFAULT"')
    for place, text in shown:
        written += [f".L_x_{place}:"] if place in targets else []
        written.append(f"        /*{place:04x}*/  {text} ;")
    return "\n".join([*written, ""])


def _local(text: str, base: int, end: int, targets: set[int]) -> str:
    """An instruction whose addresses within the function are labels, which are added to `targets`."""
    words = text.split()
    for number, word in enumerate(words):
        bare = word.rstrip(",")
        if len(bare) > 10 and bare.startswith("0x"):  # longer than any immediate: an address of the device's memory
            try:
                place = int(bare, 16) - base
            except ValueError:
                continue
            if 0 <= place < end - base:
                targets.add(place)
                words[number] = f"`(.L_x_{place})" + word[len(bare) :]
            else:
                words[number] = "`(elsewhere)" + word[len(bare) :]
    return " ".join(words)
