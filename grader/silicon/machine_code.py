"""The machine code that a submission's compilers left behind: every cubin in its caches, kernel by kernel.

Triton keeps a cubin and a description beside it, CuPy one behind a digest, torch's extension builder a shared object
with cubins inside. All of it was written by the submission's own process: only plain files count, each is copied before
a tool opens it in a sandbox, and sizes, numbers and times are bounded. What cannot be read is said in `notes`, never
left out silently.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from grader.sandbox import Sandbox, choose
from grader.silicon.sass.census import Census, SassError, census
from grader.silicon.sass.elf import ElfError, calls_runtime_alone, cut_off
from grader.silicon.sass.normal import plain_name
from grader.silicon.sass.opcodes import family_of
from grader.silicon.tools import MOST_TEXT, ToolError, Tools, find_tools, run_tool

__all__ = ["Kernel", "MachineCode", "collect", "disassemble", "may_run", "private_copy"]

MOST_ENTRIES = 20_000
MOST_DEPTH = 12
MOST_FILE = 256 << 20
MOST_BYTES = 1 << 30
MOST_CUBIN = 64 << 20
MOST_CUBINS = 512
MOST_DESCRIPTION = 1 << 20
MOST_HEADER = 4096  # bytes in which code begins
MAGIC = b"\x7fELF"
LISTED = 64  # notes about single files
THREADS = 4
LEFT_OUT = frozenset({"inductor"})  # kernels that torch.compile wrote are not the submission's
_CUBIN, _BUNDLED, _LINKABLE = (".cubin",), (".so",), (".fatbin",)
_LISTED = re.compile(r"^ELF file\s+\d+: ([\w.+][\w.+-]*\.(sm_\d{2,3}[af]?)\.cubin)$", re.MULTILINE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: its census, the file that holds it (relative to the folder) and that cubin's SHA-256.

    `threads` a block and `shared` bytes that a launch asks for, where a description says them.
    """

    census: Census
    file: str
    sha256: str
    threads: int | None = None
    shared: int | None = None

    @property
    def name(self) -> str:
        """The kernel's name as it stands in the machine code: mangled for C++, plain for Triton."""
        return self.census.kernel


@dataclass(frozen=True, slots=True)
class MachineCode:
    """All kernels that were found, and what could not be read, a sentence each."""

    kernels: tuple[Kernel, ...]
    notes: tuple[str, ...]
    disassembler: str

    @property
    def names(self) -> frozenset[str]:
        """The names of all kernels."""
        return frozenset(kernel.name for kernel in self.kernels)

    @property
    def digests(self) -> frozenset[tuple[str, str]]:
        """The name and the code of every kernel, both without what differs from build to build."""
        return frozenset((plain_name(kernel.name), kernel.census.digest) for kernel in self.kernels)

    def find(self, name: str, *, threads: int | None = None, shared: int | None = None) -> tuple[Kernel, ...]:
        """The kernels that a launch of `name` with these sizes can have run.

        One source compiled twice has one name: a description that differs from the launch rules its kernel out.
        """
        found = [kernel for kernel in self.kernels if kernel.name == name]
        fitting = [one for one in found if one.threads in (None, threads or one.threads)]
        fitting = [one for one in fitting if one.shared in (None, one.shared if shared is None else shared)]
        return tuple(fitting or found)


def collect(
    folder: Path, arch: str, sandbox: Sandbox | None = None, known: dict[str, tuple[Census, ...]] | None = None
) -> MachineCode:
    """The machine code for `arch` (such as `sm_90a`) under a folder of compiler caches.

    The tools run in `sandbox`, by default the best of this machine. Code that such a chip cannot run is left out.
    `known` has what was read for this chip, by the SHA-256 of cubins, and gets what is read now. Raises ToolError when
    the tools are missing, and SandboxError.
    """
    tools = _Reader(find_tools(), sandbox or choose(device="cpu"))
    if family_of(arch) is None:
        raise ToolError(f"{arch} is not an architecture whose machine code is known here")
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="kbh-sass-") as scratch:
        Path(scratch).chmod(0o755)  # the tools run as another user
        jobs: list[tuple[Path, str, str, tuple[int | None, int | None]]] = []
        held = 0
        for number, (path, relative) in enumerate(_files(folder, notes)):
            if held > MOST_BYTES or len(jobs) > MOST_CUBINS:
                notes.append("the caches hold more machine code than is looked at")
                break
            place = Path(scratch) / str(number)
            place.mkdir(mode=0o755)
            try:
                for cubin in _cubins(tools, path, arch, place):
                    jobs.append((cubin, relative, _hash(cubin), _described(path)))
                    held += cubin.stat().st_size
            except (OSError, ToolError) as error:
                notes.append(f"{relative[-200:]} cannot be read: {error}")
        with ThreadPoolExecutor(tools.threads) as pool:
            results = list(pool.map(lambda job: _kernels(tools, job[0], arch, job[2], known), jobs))
    kernels = []
    for (_, relative, sha, (threads, shared)), result in zip(jobs, results, strict=True):
        if isinstance(result, str):
            notes.append(f"{relative[-200:]}: {result}")
        else:
            kernels += [Kernel(one, relative, sha, threads, shared) for one in result if one.entry]
    shown = notes if len(notes) <= LISTED else [*notes[:LISTED], f"{len(notes) - LISTED} more files cannot be read"]
    return MachineCode(tuple(kernels), tuple(shown), tools.programs.version)


def may_run(built: str, arch: str) -> bool:
    """Whether a chip of `arch` can run code built for `built`: that of its own major version and no later minor one;
    code for one chip alone (`sm_100a`) only on that chip."""
    one, other = (int(re.sub(r"\D", "", name) or 0) for name in (built, arch))
    return one == other if built.endswith("a") else one // 10 == other // 10 and one <= other


def disassemble(cubin: Path, sandbox: Sandbox | None = None) -> tuple[Census, ...]:
    """Takes the census of one cubin's kernels. Raises ToolError, SandboxError, SassError and OSError."""
    return _Reader(find_tools(), sandbox or choose(device="cpu")).census(cubin.absolute())


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads machine code with NVIDIA's tools, each started in a sandbox."""

    programs: Tools
    sandbox: Sandbox

    @property
    def threads(self) -> int:
        """How many tools run at a time: one in a sandbox without a process table of its own, where ending one could end
        all of its user.
        """
        return THREADS if self.sandbox.record.traits.own_processes else 1

    def disassembled(self, cubin: Path) -> str:
        """The text of nvdisasm. Raises ToolError."""
        return run_tool([str(self.programs.nvdisasm), "-c", "-ndf", str(cubin)], self.sandbox, read=(cubin,))

    def census(self, cubin: Path) -> tuple[Census, ...]:
        """The census of a cubin. Raises ToolError, SassError and OSError."""
        text = self.disassembled(cubin)
        try:
            runtime = calls_runtime_alone(cubin)
        except ElfError:
            runtime = False
        return census(text, runtime=runtime)

    def dumped(self, file: Path, *options: str, work: Path | None = None, most: int = MOST_TEXT) -> str:
        """What cuobjdump prints of a file; what it takes out of it lies in `work`. Raises ToolError."""
        argv = [str(self.programs.cuobjdump), *options, str(file)]
        return run_tool(argv, self.sandbox, read=(file,), work=work, most=most)


def _kernels(
    tools: _Reader, cubin: Path, arch: str, sha256: str, known: dict[str, tuple[Census, ...]] | None
) -> tuple[Census, ...] | str:
    """The kernels of a cubin, none if it is for other chips, or why it cannot be read."""
    if known is not None and sha256 in known:
        return known[sha256]
    try:
        found = tuple(one for one in tools.census(cubin) if may_run(one.arch, arch))
        if known is not None:
            known[sha256] = found
        return found
    except (OSError, ToolError, SassError) as error:
        return str(error)


# --- files -------------------------------------------------------------------------------------------------


def _files(folder: Path, notes: list[str]) -> Iterator[tuple[Path, str]]:
    """Plain files that hold machine code, with their names relative to the folder, within bounds."""
    entries, total = 0, 0
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        try:
            found = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError as error:
            notes.append(f"a folder cannot be read: {error.strerror}")
            continue
        for entry in found:
            entries += 1
            if entries > MOST_ENTRIES:
                notes.append(f"the caches hold more than {MOST_ENTRIES} files, and the rest was not looked at")
                return
            status = entry.stat(follow_symlinks=False)
            path = Path(entry.path)
            if stat.S_ISDIR(status.st_mode):
                if depth == 0 and entry.name in LEFT_OUT:
                    continue
                if depth < MOST_DEPTH:
                    waiting.append((path, depth + 1))
                else:
                    notes.append(f"folders deeper than {MOST_DEPTH} were not looked at")
            elif entry.name.endswith(_CUBIN + _BUNDLED + _LINKABLE):
                relative = str(path.relative_to(folder))
                total += status.st_size
                if not stat.S_ISREG(status.st_mode):
                    notes.append(f"{relative[-200:]} is not a plain file")
                elif status.st_size > MOST_FILE or total > MOST_BYTES:
                    notes.append(f"{relative[-200:]} is too large to be looked at")
                else:
                    yield path, relative


def _cubins(tools: _Reader, path: Path, arch: str, place: Path) -> list[Path]:
    """Copies of the cubins for a chip that a file is or holds. A shared object without any is host code: that is fine.

    They are taken out one by one, since a small file can hold much that is compressed.
    """
    copy = place / ("code" + path.suffix)
    private_copy(path, copy)
    if path.suffix == ".cubin":
        return [bare(copy)]
    try:
        listed = tools.dumped(copy, "-lelf", most=MOST_DESCRIPTION)
    except ToolError as error:
        if "does not contain device code" in str(error):
            return []
        raise
    names = _LISTED.findall(listed)
    if not names and ".entry" in _ptx(tools, copy):
        raise ToolError("it holds PTX alone, which the driver compiles when it is loaded")
    wanted = [name for name, built in names if may_run(built, arch)]
    if len(wanted) > MOST_CUBINS:
        raise ToolError(f"it holds {len(wanted)} cubins for {arch}")
    return _extracted(tools, copy, wanted, place)


def _extracted(tools: _Reader, file: Path, names: Sequence[str], place: Path) -> list[Path]:
    """The cubins of these names in a file, as copies that no tool can write to any more."""
    inside, taken = place / "inside", place / "taken"
    inside.mkdir()
    taken.mkdir(mode=0o755)
    for name in names:
        tools.dumped(file, "-xelf", name, work=inside, most=MOST_CUBIN)
        for found in sorted(inside.iterdir()):
            private_copy(found, taken / found.name)
            found.unlink()
        if sum(cubin.stat().st_size for cubin in taken.iterdir()) > MOST_FILE:
            raise ToolError(f"its cubins are larger than {MOST_FILE} bytes")
    return sorted(taken.iterdir())


def _ptx(tools: _Reader, path: Path) -> str:
    try:
        return tools.dumped(path, "-ptx")
    except ToolError:
        return ""


def private_copy(source: Path, target: Path) -> None:
    """A private copy of a plain file; a link in its place is refused."""
    handle = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream, target.open("wb") as out:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError("it is not a plain file")
        left = MOST_FILE
        while left and (piece := stream.read(min(left, 1 << 20))):
            out.write(piece)
            left -= len(piece)
    target.chmod(0o644)


def bare(cubin: Path) -> Path:
    """A copied cubin, without what a cache put in front of it and with what it cut off: CuPy writes a digest of 40
    characters there, and drops the last byte, a zero, as if the code were a text. A file that holds no code near its
    start stays as it is."""
    with cubin.open("rb") as stream:
        start = stream.read(MOST_HEADER).find(MAGIC)
        stream.seek(max(start, 0))
        rest = stream.read()
    short = cut_off(rest) == 1
    if start > 0 or short:
        cubin.write_bytes(rest + b"\0" * short)
    return cubin


def _hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _described(path: Path) -> tuple[int | None, int | None]:
    """Threads a block and shared memory, from the description that Triton writes beside a cubin."""
    beside = path.with_suffix(".json")
    if path.suffix != ".cubin":
        return None, None
    try:
        handle = os.open(beside, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as stream:
            data = json.loads(stream.read(MOST_DESCRIPTION))
    except (OSError, ValueError, RecursionError):
        return None, None
    if not isinstance(data, dict):
        return None, None
    warps, shared = data.get("num_warps"), data.get("shared")
    threads = warps * 32 if type(warps) is int and 0 < warps <= 32 else None
    return threads, shared if type(shared) is int and 0 <= shared <= 1 << 20 else None
