"""The CUDA C++ front end: text to `kbh_lint.base.ir`.

`lower` expands macros and conditions, blanks what only CUDA has, parses with tree-sitter and lowers the tree. It
never raises; `module_env` gives the names the text defines.
"""

from __future__ import annotations

from kbh_lint.frontends.cuda.constants import fold
from kbh_lint.frontends.cuda.env import bring_in, module_env, use
from kbh_lint.frontends.cuda.lowering import lower
from kbh_lint.frontends.cuda.unit import CudaUnit, lines_origin
from kbh_lint.frontends.walk import children, walk

__all__ = ["CudaUnit", "bring_in", "children", "fold", "lines_origin", "lower", "module_env", "use", "walk"]
