"""`import`: modules beside the submission, and packages that are there, or that nobody knows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.base.values import Env
from kbh_lint.host.datamodel import exceptions, modules
from kbh_lint.host.effects import artifacts
from kbh_lint.host.values.frames import Frame
from kbh_lint.host.values.library_objects import OwnModule
from kbh_lint.host.values.objects import Blob
from kbh_lint.host.values.packages import PACKAGES, STDLIB_OR_PRESENT
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def import_(interp: Run, node: ir.Import, frame: Frame) -> None:
    """Binds what one name of an import statement gives."""
    root = node.module.split(".")[0]
    files = interp.files.texts
    if f"{node.module}.py" in files or f"{root}.py" in files or node.level:
        if import_sidecar(interp, node, frame):
            if not node.level and (root in STDLIB_OR_PRESENT or root in sys.stdlib_module_names):
                interp.ran_unread(f"{root}.py has the name of a module that Python may have loaded already", node.loc)
            return
    if not node.level and root in interp.files.extensions:
        import_extension(interp, node, frame)
        return
    if root and root not in STDLIB_OR_PRESENT:
        interp.note("import", {"module": node.module, "name": node.name or ""}, node.loc)
        if not is_present(interp, root, node.loc):
            exceptions.raise_("ModuleNotFoundError", [f"No module named {root!r}"], node.loc)
    if node.level:  # of the submission's own package, which is not there
        interp.store_name(node.asname or node.name or root, modules.resolve(interp, _relative(node)), frame)
    elif node.name is None:
        path = node.module if node.asname else root
        interp.store_name(node.asname or root, modules.resolve(interp, path), frame)
    elif node.name == "*":
        interp.note("star-import", {"module": node.module}, node.loc)
    else:
        interp.store_name(node.asname or node.name, modules.resolve(interp, f"{node.module}.{node.name}"), frame)


def _relative(node: ir.Import) -> str:
    """The path of what a relative import names, which no package has."""
    return "." + ".".join(part for part in (node.module, node.name or "") if part)


def is_present(interp: Run, root: str, loc: ir.Loc | None) -> bool:
    """Whether a package is installed; of one that nobody knows, what was decided for it at this import."""
    if root in PACKAGES or registry.of_path(root) is not None or root in sys.stdlib_module_names:
        return True
    likely = Unknown((), "likely: the package is installed", likely=True)
    return bool(interp.decisions.choice(("import", root, interp.place(loc)), likely))


def import_extension(interp: Run, node: ir.Import, frame: Frame) -> None:
    """The same from an extension module that stands beside the submission: machine code without source."""
    root = node.module.split(".")[0]
    name = artifacts.without_source(interp, interp.files.extensions[root], node.loc)
    if node.name is None:
        interp.store_name(node.asname or root, Blob(name, node.loc), frame)
    elif node.name != "*":
        interp.store_name(node.asname or node.name, Blob(f"{name}:{node.name}", node.loc), frame)


def import_sidecar(interp: Run, node: ir.Import, frame: Frame) -> bool:
    """The same from a module that stands beside the submission, run when it is first imported; False where there is
    none."""
    from kbh_lint.frontends import python

    name = f"{node.module or node.name}.py"
    if name not in interp.files.texts:
        return False
    if name not in interp.scopes.sidecars:
        env = Env()
        interp.scopes.sidecars[name] = env
        text = interp.files.texts[name]
        first = text.literal_line if hasattr(text, "literal_line") else 1
        try:
            module = python.lower(str(text), name, first)
        except (SyntaxError, ValueError, RecursionError, python.TooDeep):
            interp.miss(f"sidecar {name} is not readable Python", node.loc)
            return True
        interp.block(module.body, Frame(env, env, node.loc, None))
    env = interp.scopes.sidecars[name]
    if node.name is None or not node.module:
        interp.store_name(node.asname or node.module or str(node.name), OwnModule(env.vars), frame)
    elif node.name == "*":
        for key, value in env.vars.items():
            interp.store_name(key, value, frame)
    else:
        interp.store_name(node.asname or node.name, env.vars.get(node.name, Unknown()), frame)
    return True
