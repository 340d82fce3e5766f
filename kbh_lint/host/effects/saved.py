"""Values that a program writes into a file and reads again, followed without a file: what `torch.save`, `numpy.save`,
`pickle.dump` and their kin were given is what loading from the same path gives, as a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import copies, shown
from kbh_lint.host.values import keys
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.library_objects import FilePath, OpenFile
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.objects import Instance, LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

VALUE_THEN_FILE = ("torch.save", "pickle.dump", "json.dump", "joblib.dump", "safetensors.torch.save_file")
FILE_THEN_VALUE = ("numpy.save", "numpy.savez", "numpy.savez_compressed")
LOADERS = ("torch.load", "pickle.load", "json.load", "joblib.load", "safetensors.torch.load_file", "numpy.load",
           "numpy.fromfile", "numpy.memmap")  # fmt: skip
_ARCHIVES = ("numpy.savez", "numpy.savez_compressed")  # several arrays by name; the file's name ends in .npz
_READING = ("r", "c")  # modes of numpy.memmap that leave the file as it is
_MAY_WRITE = frozenset(
    ("h5py", "mmap", "multiprocessing", "numpy", "pandas", "pyarrow", "scipy", "tables", "torch", "zarr")
)
_WRITERS = ("tofile", "dump")  # methods of a numpy array
_FILES = ("f", "file", "fp", "filename", "fid")
_VALUES = ("obj", "arr", "value", "tensors")


def place(file: object) -> str:
    """Returns the path that a file, a path object or a text means; for a file-like object a made-up unique name; empty
    where nothing of the path is known."""
    if isinstance(file, OpenFile):
        file = file.attrs["name"]
    if isinstance(file, Instance):
        return f"<object {id(file)}>"
    if isinstance(file, FilePath):
        file = file.text
    text = file if isinstance(file, str) else shown.show(file)
    return "" if isinstance(file, Unknown) or text.startswith("<") and "/" not in text else text


def keep(run: Run, file: object, value: object, loc: ir.Loc | None) -> None:
    """Models writing a value to a file (torch.save, pickle.dump): replaces the file's former contents."""
    at = place(file)
    if at:
        copy = value if isinstance(value, Unknown) else copies.deep(run, value, loc)
        keys.store(run, run.files.kept, at, copy)
        if isinstance(file, Instance):
            run.files.held.append(file)  # so that its name is no other object's


def absent(run: Run, file: object, loc: ir.Loc | None) -> None:
    """Models reading a file that this run has not written: another run raises FileNotFoundError, and this one goes
    on as if an earlier process had left the file behind. A file that was given to a library may have been written by
    it."""
    if place(file) in run.files.handed:
        run.miss("a file that a library may have written", loc)
        return
    if place(file) not in run.files.asked:
        run.may_fail("FileNotFoundError", loc)
    run.files.left_over = run.files.absent = True


def note_paths(site: Site) -> None:
    """Records the paths given to a library function that may write to them; what it writes is not known."""
    if site.path.partition(".")[0] in _MAY_WRITE and not (site.path in LOADERS and _only_reads(site)):
        for value in (*site.args, *site.kwargs.values()):
            if isinstance(value, FilePath) or isinstance(value, str) and "/" in value:
                site.run.files.handed.add(place(value))


def _only_reads(site: Site) -> bool:
    mode = site.kwargs.get("mode", site.args[2] if len(site.args) > 2 else "r+")
    return mode in _READING or site.name != "memmap"


def forget(run: Run, file: object) -> None:
    """Drops what is known of a file's contents, because something else writes to it."""
    held = keys.held_key(run, run.files.kept, place(file))
    if held is not keys.MISSING:
        del run.files.kept[held]


def copied(run: Run, source: object, target: object) -> None:
    """Models copying or moving a file: the target then holds the source's contents."""
    found, at = keys.find_key(run, run.files.kept, place(source)), place(target)
    if found is not keys.MISSING and at:
        keys.store(run, run.files.kept, at, found)


def kept(run: Run, file: object) -> Any | None:
    """Returns the value that this run wrote into a file; None where it wrote none."""
    found = keys.find_key(run, run.files.kept, place(file))
    return None if found is keys.MISSING else found


def save(site: Site) -> None:
    """Models `torch.save(value, file)` and the like."""
    run, path, args, kwargs, loc = site.run, site.path, site.args, site.kwargs, site.loc
    if path in _ARCHIVES:
        names = {f"arr_{i}": value for i, value in enumerate(args[1:])}
        at = place(kwargs.get("file", args[0] if args else None))
        keep(run, at if at.endswith(".npz") else f"{at}.npz", names | kwargs, loc)
        return
    file, value = _given(args, kwargs, path in FILE_THEN_VALUE)
    keep(run, file, value, loc)


def method_of(owner: Unknown, name: str) -> Value:
    """Returns a method that writes an array into a file, as `array.tofile(file)`; None for other methods."""
    if name not in _WRITERS:
        return None

    def write(run: Run, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> None:
        file, _ = _given(args, kwargs, True)
        keep(run, file, owner, loc)

    return builtin(write)


def load(site: Site) -> Any:
    """Models loading a value from a file: returns a copy of what this run wrote there; None for any other file, which
    may not exist."""
    file, _ = _given(site.args, site.kwargs, True)
    value = kept(site.run, file)
    if value is None and isinstance(file, (str, LibObject)) and _only_reads(site):
        absent(site.run, file, site.loc)
    return value if value is None or isinstance(value, Unknown) else copies.deep(site.run, value, site.loc)


def _given(args: Sequence[Value], kwargs: Mapping[str, Value], file_first: bool) -> tuple[Any, Any]:
    named = [next((kwargs[name] for name in names if name in kwargs), None) for names in (_FILES, _VALUES)]
    first, second = (*args[:2], None, None)[:2]
    file, value = (first, second) if file_first else (second, first)
    return (named[0] if file is None else file), (named[1] if value is None else value)
