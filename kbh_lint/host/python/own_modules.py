"""Modules and packages of Python that stand beside the submission, each run when it is first imported.

`a/b.py` is the module `a.b`, whether or not `a/__init__.py` is there; a package's names are those of its `__init__.py`
and the modules in it that something has imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Env
from kbh_lint.frontends import python
from kbh_lint.host.datamodel import names
from kbh_lint.host.values.frames import Frame
from kbh_lint.host.values.library_objects import OwnModule
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.source.embedded import FileText, pieces_of

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_PACKAGE = "__package__"


def import_own(interp: Run, node: ir.Import, frame: Frame) -> bool:
    """Binds one name of an import statement to a module beside the submission, or to a name in it; False where no such
    module exists."""
    module = _absolute(node, frame)
    env = load(interp, module, node.loc) if module else None
    if node.level == 1 and not module:  # `from . import name` in a folder that is no package
        env = load(interp, str(node.name), node.loc)
        if env is not None:
            names.store(node.asname or str(node.name), OwnModule(env.vars), frame)
        return env is not None
    if env is None:
        return False
    if node.name is None:
        top = env if node.asname else load(interp, module.split(".")[0], node.loc)
        names.store(node.asname or module.split(".")[0], OwnModule((top or env).vars), frame)
    elif node.name == "*":
        for name in _public(env):
            names.store(name, env.vars[name], frame)
    else:
        if node.name not in env.vars:
            load(interp, f"{module}.{node.name}", node.loc)
        names.store(node.asname or node.name, env.vars.get(node.name, Unknown()), frame)
    return True


def load(interp: Run, module: str, loc: ir.Loc | None) -> Env | None:
    """Returns the scope of a module beside the submission, by its dotted path, after running it and the packages it is
    in; None where there is none."""
    path = module.replace(".", "/")
    files = interp.files.texts
    name = next((name for name in (f"{module}.py", f"{path}.py", f"{path}/__init__.py") if name in files), None)
    if name is None and not any(file.startswith(f"{path}/") and file.endswith(".py") for file in files):
        return None
    package, _, last = module.rpartition(".")
    above = load(interp, package, loc) if package else None
    key = name or f"{path}/"
    if key not in interp.scopes.sidecars:
        own = module if key != f"{path}.py" and key != f"{module}.py" else package
        env = Env({"__name__": module, _PACKAGE: own})
        interp.scopes.sidecars[key] = env
        if name is not None:
            _run(interp, name, env, loc)
        if above is not None:
            above.vars[last] = OwnModule(env.vars)
    return interp.scopes.sidecars[key]


def _run(interp: Run, name: str, env: Env, loc: ir.Loc | None) -> None:
    text = interp.files.texts[name]
    whole = [piece.literal for piece in pieces_of(text) if len(text) == piece.end - piece.start]
    file = next((literal for literal in whole if isinstance(literal, FileText)), FileText(name, text))
    try:
        module = python.lower(str(text), file.path, file.first_line)
    except (SyntaxError, ValueError, RecursionError, python.TooDeep):
        interp.miss(f"sidecar {name} is not readable Python", loc)
        return
    interp.block(module.body, Frame(env, env, loc, None))


def _absolute(node: ir.Import, frame: Frame) -> str:
    """The path of the module that a statement names, its dots counted from the package that it stands in."""
    if not node.level:
        return node.module
    package = frame.globals.vars.get(_PACKAGE, "")
    parts = package.split(".") if isinstance(package, str) and package else []
    if node.level > max(len(parts), 1):
        return ""
    kept = parts[: len(parts) - (node.level - 1)]
    return ".".join([*kept, node.module] if node.module else kept)


def _public(env: Env) -> list[str]:
    """The names that `import *` takes."""
    listed = env.vars.get("__all__")
    if isinstance(listed, (list, tuple)) and all(isinstance(name, str) for name in listed):
        return [name for name in listed if name in env.vars]
    return [name for name in env.vars if not name.startswith("_")]
