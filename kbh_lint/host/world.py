"""The assumed world around a submission: the state of one run, what decides a branch, and who answers lower layers.

The world is the one a benchmark run would meet: CUDA inputs, a GPU of the declared target, builds and imports succeed,
checks against a reference pass. What even that does not settle is a decision that runs can take both ways.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Any

from kbh_lint import ir
from kbh_lint.host import (
    artifacts,
    asking,
    attributes,
    classes,
    containers,
    contexts,
    coroutines,
    enums,
    exceptions,
    foreign,
    importing,
    iteration,
    lib_objects,
    lib_triton,
    libraries,
    tensor_arguments,
)
from kbh_lint.host.frames import Frame
from kbh_lint.host.interp import Interp
from kbh_lint.host.objects import (
    Blob,
    ClassV,
    ExtFunction,
    Instance,
    LibObject,
    Method,
    Once,
    Specialized,
    find_method,
    meta_method,
)
from kbh_lint.host.tensors import Content, Unknown
from kbh_lint.source.sidecars import MODULES
from kbh_lint.values import DType, Env, Func, Made, Sym


class World:
    """What one run of one submission meets. `flips` holds the decisions that differ from the default."""

    def __init__(
        self,
        sidecars: dict[str, str],
        capability: tuple[int, int] | None,
        flips: dict[Any, bool],
        binaries: Iterable[str] = (),
    ) -> None:
        self.files: dict[str, str] = dict(sidecars)
        self.extensions = {name.partition(".")[0]: name for name in sorted(binaries) if name.endswith(MODULES)}
        self.capability = capability
        self.flips = flips
        self.sites: dict[Any, Unknown] = {}
        self.mixed: set[Any] = set()
        self.places: dict[Any, ir.Loc | None] = {}
        self.settled: dict[Any, Unknown] = {}  # branches that only the inputs' legal domain, or a check, decides
        self.asserted: set[Any] = set()  # those of them that raise on the other side
        self.measured: dict[Any, None] = {}  # the work whose time was taken, in order
        self.custom_ops: dict[str, Any] = {}  # `ns.name`, or the bare name of an operator registered from C++
        self.environ: dict[str, Any] = {}  # variables of the environment that the submission set
        self.left_over = False  # this path needs a file that only an earlier run could have left behind
        self.module_env = Env()
        self.module_envs: dict[str, Env] = {}
        self.library_envs: dict[str, Env] = {}  # what modules of the library hold that are followed as Python
        self.built: dict[str, artifacts.Built] = {}  # the binaries that were built in this run, by path
        self.authored: list[Any] = []  # the extensions and the Triton kernels that were made, wherever they are kept
        self.module_hooks: dict[str, Any] = {}  # hooks of all modules, by the tables of `module_calls`
        self.asked: set[str] = set()  # paths whose existence was asked about and taken for granted

    # --- decisions

    def choice(self, key: Any, value: Unknown) -> bool:
        """Which way a branch on an unknown goes in this run."""
        if key not in self.sites or asking.decides(value):
            self.sites[key] = value
        if ("mark", value.why) in self.flips or ("mark", "all") in self.flips and value.why.startswith(asking.MARK):
            return True
        return self.flips.get(key, value.why.startswith("likely"))

    def settle(self, interp: Interp, loc: ir.Loc | None, answer: bool, contents: tuple[Content, ...]) -> bool:
        """What the legal domain of the inputs, or a check that passes, decides; a run may ask what else would do."""
        key = interp.place(loc)
        self.places.setdefault(key, loc)
        self.settled.setdefault(key, Unknown(contents, "likely" if answer else ""))
        return self.flips.get(key, answer)

    def frame_of(self, env: Env) -> Frame:
        """A frame in which the names of a scope mean what they do there."""
        return Frame(env, self.module_env, None, None)

    # --- what lower layers ask for, and cannot import

    import_ = staticmethod(importing.import_)
    get_attr = staticmethod(attributes.get_attr)
    plain_attr = staticmethod(attributes.plain_attr)
    set_attr = staticmethod(attributes.set_attr)
    set_plain = staticmethod(attributes.set_plain)
    del_attr = staticmethod(attributes.del_attr)
    instantiate = staticmethod(classes.instantiate)
    call_instance = staticmethod(classes.call_instance)
    super_ = staticmethod(classes.super_)
    enter = staticmethod(contexts.enter)
    stack_method = staticmethod(contexts.stack_method)
    decorate = staticmethod(lib_triton.decorate)
    awaited = staticmethod(coroutines.awaited)
    get_item = staticmethod(lib_objects.get_item)
    set_item = staticmethod(lib_objects.set_item)
    show = staticmethod(containers.show)

    # --- names

    def missing_name(self, interp: Interp, name: str, loc: ir.Loc | None) -> Any:
        if name.startswith("__") and name != "__import__":
            return {"__file__": "/submission/solution.py", "__name__": "solution", "__doc__": None}.get(name, Unknown())
        if hasattr(builtins, name):
            return Sym(f"builtins.{name}")
        exceptions.may_fail(interp, "NameError", loc)
        interp.miss(f"name {name} is not defined", loc)
        return Unknown((), f"undefined {name}")

    def globals_of(self, func: Func, interp: Interp) -> Env:
        env: Env | None = func.env
        while env is not None and env.parent is not None:
            env = env.parent
        return env or self.module_env

    def module_dict(self, interp: Interp, frame: Frame) -> dict[str, Any]:
        return frame.globals.vars

    # --- calls into libraries

    def call_library(
        self, interp: Interp, func: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
    ) -> Any:
        for arg in args:
            if isinstance(arg, Once) and not getattr(func, "path", "").startswith("itertools."):
                arg.filled()
        if isinstance(func, Method):
            return lib_objects.call_method(interp, func.self, func.name, args, kwargs, loc)
        if isinstance(func, Sym):
            return libraries.call(interp, func.path, args, kwargs, loc)
        if isinstance(func, LibObject):
            return lib_objects.call_object(interp, func, args, kwargs, loc)
        if isinstance(func, Blob):
            return foreign.call_blob(interp, func, args, kwargs, loc)
        if isinstance(func, DType):
            return args[0] if args else Unknown()
        if isinstance(func, (Made, Specialized)):
            from kbh_lint.host import lib_cute

            called = lib_cute.made_call if isinstance(func, Made) else lib_cute.call_compiled
            return called(interp, func, args, kwargs, loc)  # type: ignore[arg-type]
        if isinstance(func, Unknown):
            return foreign.call_unknown(interp, func, args, kwargs, loc)
        inputs = (
            tensor_arguments.tensors_in(args) + tensor_arguments.tensors_in(kwargs) + tensor_arguments.tensors_in(func)
        )
        if inputs:
            return foreign.unread_call(interp, "a value that is not a function", inputs, loc)
        if exceptions.plain(func) or isinstance(func, (str, list, dict, tuple)):
            exceptions.may_fail(interp, "TypeError", loc)
        interp.miss(f"a {type(func).__name__} was called", loc)
        return Unknown()

    def call_extension(
        self, interp: Interp, func: ExtFunction, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
    ) -> Any:
        return interp.cpp.call_export(func, args, kwargs, loc)

    def kernel_of(self, interp: Interp, func: Func, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A kernel of CuTe DSL with its arguments, not launched yet."""
        from kbh_lint.host import lib_cute

        return lib_cute.launcher(interp, func, args, kwargs)

    def launch(self, interp: Interp, func: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        from kbh_lint.host import launches

        return launches.launch(interp, func, args, kwargs, loc)

    # --- containers of libraries

    def iterate(self, interp: Interp, value: Any, loc: ir.Loc | None) -> Any:
        """The items of an object, of one that a library made, or of an enumeration; None of anything else."""
        if isinstance(value, Instance):
            found = find_method(value, "__iter__") or find_method(value, "__aiter__")
            if found is not None:
                made = interp.call(found, [], {}, loc)
                return (
                    iteration.drawn(interp, made, loc)
                    if isinstance(made, Instance)
                    else iteration.iterate(interp, made, loc)
                )
            if value.items is not None:
                return list(value.items)
            if find_method(value, "__getitem__") is not None:
                return iteration.by_index(interp, value, loc)
            if not value.cls.dataclass and value.cls.field_names():
                return [value.attrs[f] for f in value.cls.field_names()]
        if isinstance(value, LibObject):
            return lib_objects.items_of(value)
        own = meta_method(value, "__iter__")
        if own is not None:
            return iteration.iterate(interp, interp.call(own, [], {}, loc), loc)
        if isinstance(value, ClassV) and enums.is_enum(value):
            return list(enums.members(value).values())
        return None

    def path(self, text: str) -> LibObject:
        return LibObject("pathlib.Path", {"path": text})

    @staticmethod
    def join_path(left: Any, right: Any) -> str:
        return str(right) if str(right).startswith("/") else f"{left}/{right}"
