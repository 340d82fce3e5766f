"""From CUDA C++ text to an IR module. What reads texts is loaded when the first one is met."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from kbh_lint.base import ir
from kbh_lint.base.errors import SetupError
from kbh_lint.frontends.cuda.unit import CudaUnit, Origin

MAX_TEXT = 2_000_000


def lower(
    text: str,
    origin: Origin,
    *,
    defines: Mapping[str, str] | None = None,
    cuda_arch: int | None = None,
    known: dict[Hashable, ir.Module] | None = None,
) -> ir.Module:
    """Lowers CUDA C++ text to IR, as a build with the `-D` macros `defines` for `cuda_arch` (900 is sm_90) would see
    it.

    `origin(offset)` gives path, line and column of a character of `text` in the file that a reader can open. Raises
    SetupError if no usable tree-sitter is installed, and nothing else: what could not be read is in `Module.unread` and
    in `Opaque` nodes. `known` stores results by preprocessed text, as two architectures often leave the same text after
    preprocessing.
    """
    try:
        from kbh_lint.frontends.cuda import parsed, preprocess  # start-up: many submissions have no C++ text
    except ImportError as error:  # of tree-sitter; inside a run no other error would end the whole
        raise SetupError(str(error)) from error
    unit = CudaUnit(origin)
    if len(text) > MAX_TEXT:
        unit.map.add(0, 0, len(text), 0)
        return ir.Module(unit, (), None, [("C++ text of more than 2 MB", (unit, 0, 1))])
    prepared = preprocess.preprocess(text, defines or {}, cuda_arch)
    if known is None:
        return parsed.module(unit, prepared)
    key = prepared.key()
    if key not in known:
        known[key] = parsed.module(unit, prepared)
    return known[key]
