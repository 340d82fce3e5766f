"""ctypes: numbers and addresses of C, and libraries that are loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.datamodel import c_structs, shown
from kbh_lint.host.gpu import images
from kbh_lint.host.libs import driver, extensions
from kbh_lint.host.values.cpp_objects import Slot
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.named_objects import CCell
from kbh_lint.host.values.objects import Instance, LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


class Ctypes(Library):
    """The module `ctypes`."""

    @models("CDLL", "PyDLL", "LoadLibrary")
    def load(self, site: Site, name: Value = "", *how: Value, **named: Value) -> Value:
        """Models `ctypes.CDLL(name)` and the like: a shared library."""
        return extensions.load_library(site.run, shown.show(name), site.loc)

    @models("CFUNCTYPE", "PYFUNCTYPE")
    def prototype(self, site: Site, *types: Value, **how: Value) -> Value:
        """Models `ctypes.CFUNCTYPE(result, *arguments)`, of which `((name, library))` makes a function of a library."""
        unread = LibObject.by_path(site.path, {}, types)

        @builtin
        def made(interp: Run, args: list[Value], kwargs: dict[str, Value], loc: ir.Loc | None) -> Value:
            named = args[0] if args else None
            if isinstance(named, tuple) and len(named) == 2 and isinstance(named[0], str):
                return interp.get_attr(named[1], named[0], loc)
            return interp.call(unread, args, kwargs, loc)

        return made

    @models("find_library")
    def find_library(self, site: Site, name: Value) -> str:
        """Models `ctypes.util.find_library(name)`: the file name of a system library."""
        return f"lib{shown.show(name)}.so"

    @models("create_string_buffer")
    def buffer(self, site: Site, init: Value = 0, size: Value = None) -> Value:
        """Models `ctypes.create_string_buffer(init)`: bytes that C functions may fill."""
        return driver.cell(init if isinstance(init, (str, bytes)) or images.is_image(init) else 0)

    @models("byref", "pointer", "addressof")
    def address(self, site: Site, obj: Value, offset: Value = 0) -> Value:
        """Models `ctypes.byref(obj)` and the like: the place of a value, which a C function may overwrite."""
        return Slot(obj.attrs, "value") if isinstance(obj, CCell) else obj

    @models("POINTER")
    def pointer(self, site: Site, kind: Value) -> Value:
        """Models `ctypes.POINTER(T)`: the type of an address, whatever lies there."""
        return Sym("ctypes.c_void_p")

    @models("sizeof", "alignment")
    def size(self, site: Site, what: Value) -> Value:
        """Models `ctypes.sizeof(T)` and `ctypes.alignment(T)`, of a type or of a struct."""
        kind = what.cls if isinstance(what, Instance) else what
        known = c_structs.size(kind, aligned=site.name == "alignment")
        return Unknown((), site.path) if known is None else known

    @models("cast", "string_at", "memmove")
    def same(self, site: Site, obj: Value, *more: Value) -> Value:
        """Models `ctypes.cast(obj, type)` and the like: the same address."""
        return obj

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): a C number, `c_int(3)`, or an object of another
        class."""
        if site.name.startswith("c_") or site.name == "py_object":
            return site.args[0] if site.args else driver.cell()
        return super().other(site)
