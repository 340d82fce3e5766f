"""Classes and functions of the standard library, and of torch.func, that are followed as Python of their own: the files
in `interpreted` say what they do to what they are given. Each is run when a program first names something in it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Env
from kbh_lint.frontends import python
from kbh_lint.host.values.frames import Frame

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

# Modules of ours that have names beside those of a text: `NAMES`, which `fill` binds in its scope, and `NATIVE`. They
# are loaded when a program names something in them.
_BESIDE = {"ast": "kbh_lint.host.datamodel.trees.module"}
NATIVE: dict[str, Callable[..., Any]] = {}  # what the texts call of ours, by name; filled where it is written
LANGUAGE = "library"  # of places in these texts, which are no places of the submission

_FOLDER = Path(__file__).parent.parent / "interpreted"
_DEFINED = re.compile(r"^(?:class|def) (\w+)", re.MULTILINE)
MODULES = frozenset(name.removesuffix(".py") for name in os.listdir(_FOLDER) if name.endswith(".py") and name[0] != "_")


@cache
def _text(module: str) -> str:
    return (_FOLDER / f"{module}.py").read_text(encoding="utf-8")


@cache
def names(module: str) -> frozenset[str]:
    """Returns the names that a file of `interpreted` defines, or a module of ours beside it."""
    more = beside(module).NAMES if module in _BESIDE else ()
    return frozenset((*_DEFINED.findall(_text(module)), *more))


def beside(module: str) -> ModuleType:
    """Returns the module of ours that has more names of a library."""
    return import_module(_BESIDE[module])


def has(path: str) -> bool:
    """Whether a dotted path (`collections.deque`) names a class or function that a file of `interpreted` defines."""
    module, _, name = path.rpartition(".")
    return module in MODULES and name in names(module)


@cache
def _lowered(module: str) -> ir.Module:
    text = _text(module)
    return python.lower(text, unit=python.PythonUnit(module, text, language=LANGUAGE))


def value(interp: Run, path: str) -> Any:
    """Returns the function or class that a file of `interpreted` defines under a path; a run interprets each file once,
    when it is first needed."""
    module, _, name = path.rpartition(".")
    known: dict[str, Env] = interp.scopes.library
    if module not in known:
        known[module] = env = Env(dict(NATIVE))
        if module in _BESIDE:
            env.vars.update(beside(module).NATIVE)
            beside(module).fill(env)
        interp.block(_lowered(module).body, Frame(env, env, None, None))
    return known[module].vars[name]
