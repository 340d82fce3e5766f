# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""The Python beside a problem.yaml: reference, oracle, legal model, structures and mutants, imported from our files."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from grader.deck.precision import FORMATS
from kbh_lint.base import dtypes, paths
from kbh_lint.problems import Problem

if TYPE_CHECKING:
    from grader.authoring.mutation import Mutant
    from grader.deck.structure import Structure

__all__ = [
    "TORCH_DTYPES", "BoundaryRows", "Code", "DeckError", "Legal", "Oracle", "OracleRows", "load_code", "ours",
    "problems_dir",
]  # fmt: skip

Oracle = Callable[[Mapping[str, Any], Mapping[str, Tensor], Mapping[str, Tensor]], tuple[Tensor, ...]]
OracleRows = Callable[[Mapping[str, Any], Mapping[str, Tensor], Mapping[str, Tensor], Tensor], tuple[Tensor, ...]]
BoundaryRows = Callable[[Mapping[str, Any], Mapping[str, Tensor]], Iterable[int]]
Legal = Callable[[Mapping[str, Any], Mapping[str, Tensor], Mapping[str, Tensor], Mapping[str, str]], tuple[Tensor, ...]]

# Of the types that torch stores one value an element of.
TORCH_DTYPES: Mapping[str, torch.dtype] = {
    row.name: getattr(torch, row.torch[0]) for row in dtypes.ROWS if row.torch and row.bits >= 8
}


_IMPORTING = threading.RLock()


class DeckError(Exception):
    """Something is wrong with a problem of ours, not with a submission; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Code:
    """What a problem's Python files define. `structures` are by case id; `legal` is None while there is no legal.py.

    `variants` are all legal models by name, `legal` among them; `inputs_format`
    is what an input may be rounded to before it is used, where that is not its own type.

    `oracle_rows` gives the oracle's outputs at some rows [n] i64 of their first dimension, and `boundary_rows` the rows
    that are never left out; both come from rows.py, where there is one.
    """

    Model: type[nn.Module]
    oracle: Oracle
    legal: Legal | None = None
    variants: Mapping[str, Legal] = field(default_factory=dict)
    inputs_format: str | None = None
    structures: Mapping[str, Structure] = field(default_factory=dict)
    mutants: tuple[Mutant, ...] = ()
    oracle_rows: OracleRows | None = None
    boundary_rows: BoundaryRows | None = None


def problems_dir() -> Path:
    """The folder of the deck: the one of this checkout, or the one bundled with the package."""
    return paths.problems_dir()


@contextmanager
def ours(what: str) -> Iterator[None]:
    """Turns what our own code raises into a DeckError, so that it is not laid at a submission's door."""
    try:
        yield
    except DeckError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise DeckError(f"{what} cannot be made: {type(error).__name__}: {reason}") from error


def load_code(problem: Problem) -> Code:
    """Import a problem's own files, once; they may import one another (`from .reference import rotate`).

    Raises DeckError when reference.py lacks `Model` or `oracle`, or a file cannot be imported.
    """
    with _IMPORTING:  # a module is in sys.modules before it is whole
        return _load_code(problem)


def _load_code(problem: Problem) -> Code:
    if not problem.path:
        raise DeckError(f"{problem.id} was not read from a folder, so there is no Python beside it")
    folder = Path(problem.path).resolve().parent
    reference = _import(folder, "reference")
    if reference is None:
        raise DeckError(f"{problem.id} has no reference.py")
    model, oracle = getattr(reference, "Model", None), getattr(reference, "oracle", None)
    if not (isinstance(model, type) and issubclass(model, nn.Module)) or not callable(oracle):
        raise DeckError(f"reference.py of {problem.id} must define the module `Model` and the function `oracle`")
    return Code(
        Model=model,
        oracle=oracle,
        legal=_attribute(folder, "legal", "legal", None),
        variants=_variants(folder),
        inputs_format=_inputs_format(folder),
        structures=dict(_attribute(folder, "cases", "STRUCTURES", {})),
        mutants=tuple(_attribute(folder, "mutants", "MUTANTS", ())),
        oracle_rows=_attribute(folder, "rows", "oracle_rows", None),
        boundary_rows=_attribute(folder, "rows", "boundary_rows", None),
    )


def _variants(folder: Path) -> dict[str, Legal]:
    """The legal models by name: `VARIANTS` of legal.py, and `legal` where that does not have it."""
    module = _import(folder, "legal")
    if module is None:
        return {}
    own, found = module.legal, getattr(module, "VARIANTS", {})
    if not isinstance(found, Mapping) or not all(isinstance(n, str) and n and callable(f) for n, f in found.items()):
        raise DeckError(f"VARIANTS in legal.py of {folder.name} must map names to functions")
    if found.get("legal", own) is not own:
        raise DeckError(f"VARIANTS in legal.py of {folder.name} has a `legal` that is not the function `legal`")
    return {**({} if own in found.values() else {"legal": own}), **found}


def _inputs_format(folder: Path) -> str | None:
    """`INPUTS` of legal.py, a format of grader.deck.precision."""

    found: str | None = getattr(_import(folder, "legal"), "INPUTS", None)
    if found is not None and found not in FORMATS:
        raise DeckError(f"INPUTS in legal.py of {folder.name} must be one of {', '.join(FORMATS)}")
    return found


def _attribute(folder: Path, stem: str, name: str, default: object) -> Any:
    """What a file that may be missing defines; a file that is there must define it."""
    module = _import(folder, stem)
    if module is None:
        return default
    if not hasattr(module, name):
        raise DeckError(f"{stem}.py of {folder.name} does not define `{name}`")
    return getattr(module, name)


def _import(folder: Path, stem: str) -> ModuleType | None:
    file = folder / f"{stem}.py"
    if not file.is_file():
        return None
    package = "kbh_deck_" + hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    if package not in sys.modules:
        parent = ModuleType(package)
        parent.__path__ = [str(folder)]
        sys.modules[package] = parent
    name = f"{package}.{stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise DeckError(f"{stem}.py of {folder.name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        reason = str(error).splitlines()[0] if str(error) else "no message"
        raise DeckError(f"{stem}.py of {folder.name} cannot be imported: {type(error).__name__}: {reason}") from error
    return module
