"""kbh-lint: what a GPU kernel's benchmark score really measures, read from its source.

`kbh_lint.lint(paths)` is the whole of it; `kbh_lint.findings` has the types of what it returns. A submission is read,
never imported or executed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base.errors import UsageError
from kbh_lint.base.version import __version__

if TYPE_CHECKING:
    from kbh_lint.service.api import lint as lint

__all__ = ["UsageError", "__version__", "lint"]


def __getattr__(name: str) -> object:
    # Looked up when first used: `import kbh_lint` stays cheap for the modules that need only a part.
    if name == "lint":
        from kbh_lint.service.api import lint  # start-up: looked up when it is asked for

        return lint
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
