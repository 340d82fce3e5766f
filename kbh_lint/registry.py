"""Which kernel languages written in Python are modelled, and in which folder: a row each, at the end of this file.

A row and a folder are all that a language needs (`docs/contributing/new-dsl.md` adds one). The folder has two modules,
and others where it has them: `host` (`LIBRARY`: what the host does with the package), `kernel` (`LANGUAGE`: what a
kernel does), `numeric` (`DIALECT`: what its operations do to numbers), `extent` (`stored_elements`: how much a program
stores at most), `reads` (`read_parts`: which part of a tensor a kernel reads at most) and `series` (`short_series`:
series that end too soon). All are found by these names, and imported when a submission needs them.

CUDA C++ is no row: it is `kernels.languages`, and `host.cpp`.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any

from kbh_lint.base.records import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """One row. `name` begins the `language` of its functions, which is `kernel` for those that are kernels (nothing for
    Triton's, which are known by being `values.JitFunction`); `packages` are what programs import, in one part or two;
    `folder` is the package with its modules; `on_tensors` are names of attributes and methods that its package adds to
    tensors; `backends` are the backends of KernelBench whose kernels may be in it; `refusal` is what its compiler
    raises for a kernel that it refuses (where that is not known, none is held to be refused), `no_room` what its
    launcher raises for one that takes more shared memory than there is; `on_a_cpu` says that the grader's CPU target
    runs it, which it refuses for all others; `by_pointers` says that its kernels read and write as Triton's do, at
    pointers and offsets under masks (`load(pointer, mask, other)`, `store(pointer, value, mask)`), so that it can be
    followed where in a tensor that is (`kernels.extents`) - one whose kernels name tensors and indices says no, and may
    have `extent` and `reads` of its own. Its `name` is also that of its spellings in the catalogue of operations
    (`ops`)."""

    name: str
    kernel: str
    packages: tuple[str, ...]
    folder: str
    on_tensors: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    refusal: str = ""
    no_room: str = ""
    on_a_cpu: bool = False
    by_pointers: bool = False

    @property
    def library(self) -> Any:
        """The `host.values.modelled.Library` that models the language's package on the host."""
        return _part(self.folder, "host").LIBRARY

    @property
    def kernel_language(self) -> Any:
        """The `kernels.languages.python.language.KernelLanguage` that analyses the language's kernels."""
        return _part(self.folder, "kernel").LANGUAGE

    @property
    def dialect(self) -> Any:
        """The `kernels.numeric.dialect.Dialect` that evaluates the language's kernels on numbers; None where it has
        none."""
        found = _part(self.folder, "numeric")
        return None if found is None else found.DIALECT

    @property
    def stored_elements(self) -> Any:
        """The function that counts how many elements one program of a kernel stores; None where the language has
        none."""
        found = _part(self.folder, "extent")
        return None if found is None else found.stored_elements

    @property
    def read_parts(self) -> Any:
        """The function that bounds which part of each tensor a kernel reads; None where the language has none."""
        found = _part(self.folder, "reads")
        return None if found is None else found.read_parts

    @property
    def staged_bytes(self) -> Any:
        """The function that bounds from below what the stages of a kernel's loops take of shared memory; None where the
        language has none."""
        found = _part(self.folder, "stages")
        return None if found is None else found.copied

    @property
    def short_series(self) -> Any:
        """The function that finds series of matrix powers that end too soon; None where the language has none."""
        found = _part(self.folder, "series")
        return None if found is None else found.short_series


@cache
def _part(folder: str, name: str) -> Any:
    """A module of a language; None where there is none of that name."""
    full = f"{folder}.{name}"
    return importlib.import_module(full) if importlib.util.find_spec(full) is not None else None


_NAMES: dict[str, Language] = {}
_PACKAGES: dict[str, Language] = {}
_ON_TENSORS: dict[str, Language] = {}


def register(row: Language) -> None:
    """Adds a language. Raises ValueError where its name or one of its packages is taken."""
    if row.name in _NAMES or any(package in _PACKAGES for package in row.packages):
        raise ValueError(f"the language {row.name}, or a package of it, is registered already")
    _NAMES[row.name] = row
    _PACKAGES.update(dict.fromkeys(row.packages, row))
    _ON_TENSORS.update(dict.fromkeys(row.on_tensors, row))


def forget(row: Language) -> None:
    """Takes back what `register` added."""
    del _NAMES[row.name]
    for package in row.packages:
        del _PACKAGES[package]
    for name in row.on_tensors:
        del _ON_TENSORS[name]


def rows() -> tuple[Language, ...]:
    """All that are registered."""
    return tuple(_NAMES.values())


def of_path(path: str) -> Language | None:
    """The language to which a path like `tilelang.language.gemm` or `cuda.tile.mma` belongs."""
    root, _, rest = path.partition(".")
    found = _PACKAGES.get(root)
    return _PACKAGES.get(f"{root}.{rest.partition('.')[0]}") if found is None and rest else found


def of_function(language: str) -> Language | None:
    """The row of the language whose mark a function carries; None for a function of no kernel language."""
    return _NAMES.get(language.partition(".")[0])


def of_kernel(language: str) -> Language:
    """The row of the language of a kernel that is written in Python, by its mark; a kernel without one is Triton's."""
    return of_function(language) or _UNMARKED


def is_opaque(path: str) -> bool:
    """Whether `path` belongs to a registered kernel language, so that a call of it which is not read may launch
    kernels."""
    found = of_path(path)
    return found is not None and found.kernel != ""


def of_object(path: str) -> Language | None:
    """The row of the language whose package made an object for kernels (`values.Made`), by the `path` of the object."""
    return of_function(path) or of_path(path)


def of_tensor(name: str) -> Language | None:
    """The row of the language that adds an attribute or a method of this name to tensors; None where none does."""
    return _ON_TENSORS.get(name)


def is_kernel(language: str) -> bool:
    """Whether functions with this `language` are kernels."""
    found = of_function(language)
    return found is not None and found.kernel == language


def by_pointers(language: str) -> bool:
    """Whether kernels of this `language` ("" for CUDA and Triton) read and write at pointers and offsets;
    `kernels.extents` follows the addresses of these alone."""
    found = of_function(language)
    return not language or found is not None and found.by_pointers


_UNMARKED = Language(
    "triton",
    "",
    ("triton",),
    "kbh_lint.dsl.triton",
    backends=("triton",),
    refusal="triton.compiler.errors.CompilationError",
    no_room="triton.runtime.errors.OutOfResources",
    on_a_cpu=True,
    by_pointers=True,
)
register(_UNMARKED)

register(
    Language(
        "cute",
        "cute.kernel",
        ("cutlass",),
        "kbh_lint.dsl.cute",
        on_tensors=(
            "element_type",
            "iterator",
            "memspace",
            "leading_dim",
            "mark_layout_dynamic",
            "mark_compact_shape_dynamic",
        ),
        backends=("cute", "cutlass"),
        no_room="cutlass.base_dsl.common.DSLCudaRuntimeError",
    )
)
register(
    Language(
        "tilelang",
        "tilelang",
        ("tilelang",),
        "kbh_lint.dsl.tilelang",
        backends=("tilelang",),
        no_room="builtins.RuntimeError",
    )
)
register(Language("cutile", "cutile.kernel", ("cuda.tile", "cuda.tile_experimental"), "kbh_lint.dsl.cutile"))
register(
    Language(
        "numba",
        "numba.kernel",
        ("numba",),
        "kbh_lint.dsl.numba",
        on_tensors=("copy_to_host",),
        no_room="numba.cuda.cudadrv.error.CudaDriverError",
    )
)
