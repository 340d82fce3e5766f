"""Triton kernels, and Gluon's: what their names mean."""

from __future__ import annotations

from kbh_lint.base import dtypes
from kbh_lint.dsl.triton import gluon, helpers
from kbh_lint.dsl.triton.functions import BUILTINS, METHODS
from kbh_lint.dsl.triton.names import is_missing
from kbh_lint.kernels.core.value import UNKNOWN_V, V
from kbh_lint.kernels.languages.python.arithmetic import elementwise_name
from kbh_lint.kernels.languages.python.call import Call
from kbh_lint.kernels.languages.python.language import KernelLanguage

_PREFIXES = (
    "triton.language.extra.cuda.libdevice.", "triton.language.extra.libdevice.", "triton.language.extra.cuda.",
    "triton.language.math.", "triton.language.standard.", "triton.language.core.", "triton.language.libdevice.",
    "triton.language.", "triton.tools.ragged_tma.",
)  # fmt: skip
_MODULES = ("triton.language", "triton.language.core", gluon.LANGUAGE)


class Triton(KernelLanguage):
    """`@triton.jit` functions."""

    packages = ("triton",)
    operations = BUILTINS
    methods = METHODS

    def element_type(self, path: str, name: str) -> str | None:
        """The element type that `name`, as in `tl.float32`, stands for in the module `path`; None for other names."""
        return dtypes.from_triton(name) if path in _MODULES else super().element_type(path, name)

    def symbol(self, path: str, call: Call) -> V:
        """The result of calling a function of triton.language or of Gluon by its full path."""
        path = helpers.again(path)
        for prefix in _PREFIXES:
            if path.startswith(prefix):
                return call.m.calls.builtin(path[len(prefix) :].rsplit(".", 1)[-1], path, call)
        if path.startswith(gluon.PREFIX):
            own = gluon.symbol(path, call)
            return own if own is not None else call.m.calls.builtin(path.rpartition(".")[2], path, call)
        if path in ("triton.cdiv", "triton.next_power_of_2"):
            return BUILTINS[path[7:]](call)
        made = helpers.symbol(path, call)
        return call.m.calls.not_read(f"a call of {path}", call) if made is None else made

    def function(self, name: str, call: Call) -> V | None:
        """The result of calling an operation or a mathematical function; None for other names."""
        found = super().function(name, call)
        made = elementwise_name(call, name) if found is None else found
        return made if found is not None or made is not UNKNOWN_V else None

    def method(self, base: V, name: str, call: Call) -> V | None:
        """The result of calling a method of a tile, of a descriptor or of Gluon's memory; None for other names."""
        if gluon.is_memory(base) and name in gluon.METHODS:
            return gluon.METHODS[name](base, call)
        return super().method(base, name, call)

    def lacks(self, path: str) -> bool:
        """Whether no version of triton.language has a name with this path."""
        return is_missing(path)


LANGUAGE = Triton()
