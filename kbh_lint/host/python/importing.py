"""`import`: modules beside the submission, extensions, and packages that are there, or that nobody knows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.host.datamodel import exceptions, modules, names
from kbh_lint.host.effects import artifacts
from kbh_lint.host.python import own_modules
from kbh_lint.host.values.frames import Frame
from kbh_lint.host.values.objects import Blob
from kbh_lint.host.values.packages import PACKAGES, STDLIB_OR_PRESENT
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def import_(interp: Run, node: ir.Import, frame: Frame) -> None:
    """Binds the value of one name in an import statement."""
    root = node.module.split(".")[0]
    if own_modules.import_own(interp, node, frame):
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
        names.store(node.asname or node.name or root, modules.resolve(interp, _relative(node)), frame)
    elif node.name is None:
        path = node.module if node.asname else root
        names.store(node.asname or root, modules.resolve(interp, path), frame)
    elif node.name == "*":
        interp.note("star-import", {"module": node.module}, node.loc)
    else:
        names.store(node.asname or node.name, modules.resolve(interp, f"{node.module}.{node.name}"), frame)


def _relative(node: ir.Import) -> str:
    """The path of what a relative import names, which no package has."""
    return "." + ".".join(part for part in (node.module, node.name or "") if part)


def is_present(interp: Run, root: str, loc: ir.Loc | None) -> bool:
    """Whether a package is installed; for an unknown package, the decision taken for this import."""
    if root in PACKAGES or registry.of_path(root) is not None or root in sys.stdlib_module_names:
        return True
    likely = Unknown((), "likely: the package is installed", likely=True)
    return bool(interp.decisions.choice(("import", root, interp.place(loc)), likely))


def import_extension(interp: Run, node: ir.Import, frame: Frame) -> None:
    """Binds a name imported from an extension module beside the submission, which is machine code without source."""
    root = node.module.split(".")[0]
    name = artifacts.without_source(interp, interp.files.extensions[root], node.loc)
    if node.name is None:
        names.store(node.asname or root, Blob(name, node.loc), frame)
    elif node.name != "*":
        names.store(node.asname or node.name, Blob(f"{name}:{node.name}", node.loc), frame)
