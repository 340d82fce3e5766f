"""Which kernel languages written in Python are modelled, and in which folder: a row each.

A language is a folder with two modules, and a third one where it has numbers of its own: `host` (`LIBRARY`: what the
host does with the package), `kernel` (`MACHINE`: what a kernel does) and `numeric` (`DIALECT`: what its operations do
to numbers). All are found by these names, and imported when a submission needs them: most need none.

Triton, on which the others build, and CUDA C++ are no rows: they are `kernels.languages` and `host.libs`.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True)
class Language:
    """One row. `name` begins the `language` of its functions, which is `kernel` for those that are kernels; `packages`
    are what programs import; `folder` is the package with its modules; `on_tensors` are names of attributes and methods
    that its package adds to tensors."""

    name: str
    kernel: str
    packages: tuple[str, ...]
    folder: str
    on_tensors: tuple[str, ...] = ()

    @property
    def library(self) -> Any:
        """The `host.values.modelled.Library` of its package."""
        return _part(self.folder, "host").LIBRARY

    @property
    def machine(self) -> Any:
        """The class of `kernels` that runs its kernels, made with a name, fuel, and what turns values of the host into
        those that kernels know."""
        return _part(self.folder, "kernel").MACHINE

    @property
    def dialect(self) -> Any:
        """Its `kernels.numeric.dialect.Dialect`; None where its numbers are Triton's."""
        found = _part(self.folder, "numeric")
        return None if found is None else found.DIALECT


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


def of_path(path: str) -> Language | None:
    """The language to which a path like `tilelang.language.gemm` belongs."""
    return _PACKAGES.get(path.partition(".")[0])


def of_function(language: str) -> Language | None:
    """That of a function with this `language`."""
    return _NAMES.get(language.partition(".")[0])


def of_object(path: str) -> Language | None:
    """That of what its package made for kernels (`values.Made`): paths begin with its name, or with a package."""
    return of_function(path) or of_path(path)


def of_tensor(name: str) -> Language | None:
    """That which adds an attribute or a method of this name to tensors."""
    return _ON_TENSORS.get(name)


def is_kernel(language: str) -> bool:
    """Whether functions with this `language` are kernels."""
    found = of_function(language)
    return found is not None and found.kernel == language


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
    )
)
register(Language("tilelang", "tilelang", ("tilelang",), "kbh_lint.dsl.tilelang"))
