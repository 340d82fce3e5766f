"""What of the file system a submission's process needs, and what it must not see."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grader.sandbox.base import Jail, SandboxError

__all__ = ["Places", "expand", "gpu_nodes", "interpreter", "places", "searched"]

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = tuple(Path(p) for p in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"))
_ETC_NAMES = (
    "alternatives", "group", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "nsswitch.conf", "passwd",
)  # fmt: skip
ETC = tuple(Path("/etc") / name for name in _ETC_NAMES)
# What the programs of agents look for besides: certificates, without which some do not even start
AGENT_ETC = tuple(Path("/etc") / name for name in ("os-release", "pki/tls/certs", "protocols", "services", "ssl/certs"))
OTHERS = (Path("/sys/fs"), Path("/sys/class/net"))  # where control groups of others are named, and networks
PROJECT = ("grader", "harness", "kbh_lint")
LIBRARIES = ("torch", "triton", "numpy", "yaml", "cuda")
TOOLS = ("cc", "gcc", "c++", "g++", "clang", "clang++", "ld", "as", "nvcc", "ninja")
MOST_LINKS = 20
CPU_FACTS = tuple(Path("/sys/devices/system") / name for name in ("cpu", "node"))
MOST_ENTRIES = 5000  # of a folder that is listed because something in it is hidden


@dataclass(frozen=True, slots=True)
class Places:
    """Paths by what is allowed beneath them. The deepest that holds a path decides: `hidden` may lie in `read`."""

    read: tuple[Path, ...]
    write: tuple[Path, ...]
    hidden: tuple[Path, ...]


def places(jail: Jail) -> Places:
    """Everything that the jail allows and that the interpreter, torch and the compilers need. Raises SandboxError."""
    read = {*_of_program(jail), *(p.absolute() for p in jail.read), *([Path("/sys")] if jail.gpu else CPU_FACTS)}
    read |= {path.resolve() for path in read if path.exists()}
    write = tuple(sorted({p.absolute() for p in jail.write}))
    for path in write:
        if not path.is_dir() or path.is_symlink():
            raise SandboxError(f"{path} is not a folder that the sandbox could let a process write to")
    roots = [path for path in read if path.parent == path]
    if roots:
        raise SandboxError("the sandbox would show the whole file system: Python or CUDA is installed at its root")
    return Places(tuple(sorted(p for p in read if p.exists())), write, _hidden_from(jail))


def interpreter(jail: Jail) -> str:
    """The path of the Python that starts in the sandbox; for a room without our libraries, the one that a virtual
    environment was made from.
    """
    if jail.layout is None or jail.layout.libraries:
        return sys.executable
    return str(getattr(sys, "_base_executable", sys.executable))


def _of_program(jail: Jail) -> Iterable[Path]:
    """What is read whatever the jail says."""
    if jail.layout is None:
        return {*_always(), *_toolkit()}
    if jail.layout.libraries:
        return {*_always() - {ROOT / name for name in PROJECT}, *AGENT_ETC, *_toolkit()}
    return {*SYSTEM, *ETC, *AGENT_ETC, Path(sys.base_prefix), Path(sys.base_exec_prefix)}


def _hidden_from(jail: Jail) -> tuple[Path, ...]:
    if jail.layout is None:
        return _hidden()
    others = tuple(path for path in OTHERS if jail.gpu and path.is_dir())
    return (*_hidden(), *_project(), *others, *(() if jail.layout.libraries else _packages()))


@cache
def _always() -> frozenset[Path]:
    """The system, the interpreter with its libraries, and the half of this program that a candidate imports."""
    prefixes = {Path(p) for p in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}
    return frozenset({*SYSTEM, *ETC, *prefixes, *_library_folders(), ROOT / "grader", ROOT / "kbh_lint"})


@cache
def _library_folders() -> frozenset[Path]:
    """Where the libraries of a candidate are installed; none of them is imported."""
    found = set()
    for name in LIBRARIES:
        spec = importlib.util.find_spec(name)
        if spec is not None:
            origins = spec.submodule_search_locations or ([spec.origin] if spec.origin else [])
            found |= {Path(origin).parent for origin in origins}
    return frozenset(found)


def searched() -> list[Path]:
    """The folders in which a candidate's Python finds the libraries."""
    return sorted(_library_folders())


def _toolkit() -> set[Path]:
    """Compilers with what lies beside them, CUDA, and the folders of the loader."""
    found = {Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)}
    for name in (*TOOLS, *(os.environ[name] for name in ("CC", "CXX", "CUDAHOSTCXX") if os.environ.get(name))):
        tool = shutil.which(name)
        if tool is not None:
            found |= {path for step in _links(Path(tool)) for path in (step, _installation(step))}
    found |= {Path(p) for p in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if p}
    return {path for path in found if path.is_absolute() and path.exists()}


def _links(tool: Path) -> Iterator[Path]:
    """The tool, and where its symbolic links lead, step by step."""
    for _ in range(MOST_LINKS):
        yield tool
        if not tool.is_symlink():
            return
        tool = Path(os.path.normpath(tool.parent / os.readlink(tool)))


def _installation(tool: Path) -> Path:
    """The folder that a tool is installed in with its parts; the tool alone where that would show a home or more."""
    folder = tool.parent.parent
    home = Path(os.path.expanduser("~"))
    kept_apart = {Path("/"), home, home / ".local", *home.parents, *ROOT.parents}
    return folder if tool.parent.name == "bin" and folder not in kept_apart else tool


@cache
def _hidden() -> tuple[Path, ...]:
    """The repository where this program runs from one, and every installed deck."""
    libraries = _library_folders()
    repository = () if ROOT in libraries else (ROOT,)
    installed = {Path(entry or ".").absolute() for entry in sys.path} | {ROOT} | libraries
    decks = sorted(path for folder in installed if (path := folder / "kbh_lint" / "_data").is_dir())
    return (*repository, *decks)


@cache
def _project() -> tuple[Path, ...]:
    """This program's own code, wherever it is installed."""
    folders = {Path(entry or ".").absolute() for entry in sys.path} | {ROOT} | _library_folders()
    found = {folder / name for folder in folders for name in PROJECT}
    found |= {path for folder in folders for path in folder.glob("kbh-*.dist-info")}
    return tuple(sorted(path for path in found if path.is_dir()))


def _packages() -> tuple[Path, ...]:
    """The folders of the interpreter's packages, below its own prefix."""
    scheme = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    folders = {Path(sysconfig.get_path(kind, vars=scheme)) for kind in ("purelib", "platlib")}
    return tuple(sorted(path for path in folders if path.is_dir()))


def expand(where: Places) -> tuple[list[Path], list[Path]]:
    """The `read` paths for a sandbox that cannot hide: a folder with something hidden in it becomes its entries.

    Links are followed first, since a rule holds for the folder that a path leads to, by whatever name it is reached.
    The second list has those folders: Python must be able to list them, since it searches some of them.
    """
    read, hidden = ({path.resolve() for path in paths} for paths in (where.read, where.hidden))  # rules are for files
    shown: list[Path] = []
    listed: list[Path] = []
    queue = list(read)
    while queue:
        path = queue.pop()
        if path in hidden and path not in read:
            continue
        if not _strictly_above(path, hidden):
            shown.append(path)
            continue
        listed.append(path)
        entries = sorted(path.iterdir())[: MOST_ENTRIES + 1]
        if len(entries) > MOST_ENTRIES:
            raise SandboxError(f"{path} has too many entries to show all but the hidden ones")
        queue += [entry for entry in entries if not entry.is_symlink()]
    return sorted(set(shown)), sorted(set(listed))


def _strictly_above(path: Path, others: Iterable[Path]) -> bool:
    return any(path in other.parents for other in others)


def gpu_nodes(profiler: bool) -> list[Path]:
    """The device nodes of NVIDIA's driver that exist here."""
    names = ["nvidiactl", "nvidia-uvm", "nvidia-caps", *(["nvidia-uvm-tools"] if profiler else [])]
    nodes = [Path("/dev") / name for name in names]
    nodes += sorted(p for p in Path("/dev").glob("nvidia[0-9]*") if p.name.removeprefix("nvidia").isdigit())
    return [node for node in nodes if node.exists()]
