"""`sys.modules`, as far as it holds what a submission put there: code that is made at run time is kept under a name of
its own, as `importlib` does for files. What else is loaded nobody knows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel.modules import GRADER_NAMES
from kbh_lint.host.values import taint
from kbh_lint.host.values.library_objects import OwnModule
from kbh_lint.host.values.packages import PACKAGES, PUBLISHED, STDLIB_OR_PRESENT
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MISSING = object()
_DIGEST = re.compile(r"(?<![0-9a-f])(?=[a-f]*[0-9])[0-9a-f]{8,}(?![0-9a-f])")
# Parts of names that graders have: what is kept under such a name may stand for a module of theirs.
_OF_GRADERS = re.compile(
    r"bench|check|correct|eval|grad|harness|judge|kernelbench|measur|oracle|problem|profil|ref(?:erence)?(?![a-z])|run|"
    r"scor|solution|submission|test|tim(?:e|ing)|tol|util|valid|verif|conftest|main"
)


def is_table(owner: Value) -> bool:
    """Whether a value is `sys.modules`."""
    return isinstance(owner, Unknown) and taint.symbol_of(owner) == "sys.modules"


def put(run: Run, name: Value, module: Value) -> bool:
    """Keeps a module that the submission made under a name that is nobody else's; returns whether it is such a one."""
    if not isinstance(name, str) or not isinstance(module, OwnModule) or not (_made_up(name) or _free(name)):
        return False
    run.process.loaded[str(name)] = module
    return True


def find(run: Run, name: Value) -> Value:
    """What the submission itself keeps under a name; MISSING where that is a name which nobody else can have made, and
    NotImplemented where others may have."""
    if not isinstance(name, str):
        return NotImplemented
    return run.process.loaded.get(str(name), MISSING if _made_up(name) else NotImplemented)


def _made_up(name: str) -> bool:
    """Whether a name holds a hash, of a text for instance."""
    return _DIGEST.search(name) is not None and not set(name.split(".")) & GRADER_NAMES


def _free(name: str) -> bool:
    """Whether a name is that of no package, and of nothing that a grader has."""
    root = name.partition(".")[0]
    known = root in STDLIB_OR_PRESENT | PACKAGES | PUBLISHED or root.startswith("__")
    return not known and _OF_GRADERS.search(name.lower()) is None
