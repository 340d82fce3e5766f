"""The run: walks the Python of a submission with real scalars, strings and containers and abstract tensors.

It executes nothing of the submission: it walks the IR. What it cannot know is `Unknown`; a branch on an unknown is a
decision, remembered by place, so that a run is one path and another run can take the other side. Work is bounded by
fuel; `OutOfFuel` ends a run.

The world is the one a benchmark run would meet: CUDA inputs, a GPU of the declared target, builds and imports succeed,
checks against a reference pass. What even that does not settle is a decision that runs can take both ways.

`Run` is what evaluates: truth, statements, expressions, and calls of any value. It stands above the modules that say
what each of them means: they take it as an argument, and reach each other's meaning through its methods. What it holds
and writes down is the `Recorder` it derives from; names and targets are `datamodel.names`, loops `python.loops`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.base.errors import SetupError
from kbh_lint.base.values import DType, Func, JitFunction, Made, Single, Sym, Value
from kbh_lint.host.datamodel import enums, iteration, modules, names, subscripts
from kbh_lint.host.effects import asking, decoding, foreign, handing
from kbh_lint.host.gpu import compiled, launches
from kbh_lint.host.gpu.kernel_cache import analyse
from kbh_lint.host.libs import decorators, extensions, lib_objects, libraries
from kbh_lint.host.python import (
    attributes,
    calls,
    classes,
    contexts,
    coroutines,
    expressions,
    importing,
    lifetimes,
    pybuiltins,
    statements,
)
from kbh_lint.host.recorder import Recorder
from kbh_lint.host.torch import tensor_attributes
from kbh_lint.host.values import bounds, checksums, equality, taint, unknowns
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import (
    Frame,
    Leave,
    OutOfFuel,
    Raised,
    target_names,
)
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.objects import (
    Blob,
    Bound,
    ClassV,
    Compiled,
    Configured,
    ExtFunction,
    Instance,
    LibObject,
    Memo,
    Method,
    Partial,
    ProcessNumber,
    Specialized,
    find_method,
    meta_method,
)
from kbh_lint.host.values.run_state import HoleKind
from kbh_lint.host.values.session import Session
from kbh_lint.host.values.tensors import Tensor, Unknown
from kbh_lint.kernels.core.facts import KernelFacts

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp


class Run(Recorder):
    """One run of a submission along one path. `forced` holds the decisions that differ from the default; with
    `as_drawn` lengths are what they are in timed runs."""

    def __init__(self, session: Session, forced: dict[Any, bool], as_drawn: bool = False) -> None:
        super().__init__(session, forced, as_drawn)
        session.runs.append(self)
        self.builtins = pybuiltins.table()
        self.cpp_side: Cpp | None = None  # the C++ host functions, once one was met

    @property
    def cpp(self) -> Cpp:
        """Returns the interpreter of C++ host functions, made when first needed."""
        if self.cpp_side is None:
            from kbh_lint.host.cpp.interpreter import Cpp  # start-up: what has no C++ does without it

            self.cpp_side = Cpp(self)
        return self.cpp_side

    def analyse_kernel(self, kernel: Func, bindings: Sequence[dict[str, Any]]) -> list[KernelFacts]:
        """Returns the facts of one kernel at each binding of a launch; runs that agree on what decided a branch share
        them."""
        self.burn(20 * len(bindings))
        return analyse(self.session, kernel, bindings)

    # --- truth

    def truth(self, value: Value, loc: ir.Loc | None) -> bool:
        """Returns the truth of a value; for an unknown one, the side decided for this place."""
        if isinstance(value, Tensor):
            known = checksums.comparison(self, value.storage.content)
            if known is not None:
                return known
            drawn = tensor_attributes.as_drawn(self, value)
            if drawn is not None:
                return bool(drawn)
            if "holds" in value.attrs:
                return self.assume(loc, bool(value.attrs["holds"]), (value.storage.content,))
            value = Unknown((value.storage.content,), "a tensor's value", made=self.trace.round)
        elif type(value) is ProcessNumber:
            value = unknowns.of_process(value)
        elif taint.of_library(value) and not equality.is_success(value):
            value = taint.presumed(True)
        if isinstance(value, Unknown):
            self.decisions.places.setdefault(self.place(loc), loc)
            return self.decide(self.place(loc), value)
        if isinstance(value, Instance):
            return self.truth_of(value, loc)
        if isinstance(value, Sym):
            return not equality.is_success(value)
        try:
            return bool(value)
        except Exception:
            return True

    def truth_of(self, value: Instance, loc: ir.Loc | None) -> bool:
        """Returns the truth of an object, as its class defines it."""
        for name in ("__bool__", "__len__"):
            found = find_method(value, name)
            if found is not None:
                answer = self.call(found, [], {}, loc)
                return isinstance(answer, Instance) or self.truth(answer, loc)
        return value.items is None or bool(value.items)

    # --- statements

    def block(self, body: tuple[ir.Stmt, ...], frame: Frame) -> Any:
        """Runs statements in order; returns the signal (a return, a break) that ended them, or None."""
        for node in body:
            signal = self.statement(node, frame)
            if signal is not None:
                return signal
        return None

    def statement(self, node: ir.Stmt, frame: Frame) -> Any:
        """Runs one statement; one that cannot be followed makes its targets unknown. Returns its signal, or None."""
        self.fuel -= 1
        if self.fuel < 0:
            raise OutOfFuel
        handler = statements.STATEMENTS.get(type(node))
        if handler is None:
            self.lost(f"statement {type(node).__name__}", node.loc)
            return None
        try:
            signal = handler(self, node, frame)
            if self.dying:
                lifetimes.run_endings(self)
            return signal
        except (Raised, OutOfFuel, MemoryError, SetupError):
            raise
        except RecursionError:
            self.lost("recursion too deep", node.loc)
            return None
        except Exception as error:
            if not isinstance(error, bounds.TooLarge):
                self.may_fail(type(error).__name__, node.loc)
            self.miss(
                f"could not follow this statement ({type(error).__name__}: {str(error)[:80]})", node.loc, HoleKind.LOST
            )
            self.havoc(node, frame)
            return None

    def havoc(self, node: ir.Stmt, frame: Frame) -> None:
        """Makes the plain targets of a statement unknown, since it could not be followed."""
        targets = getattr(node, "targets", None) or ([node.target] if hasattr(node, "target") else [])
        for target in targets:
            for name in target_names(target):
                names.store(name, Unknown((), "not followed"), frame)

    # --- expressions

    def eval(self, node: ir.Expr, frame: Frame) -> Any:
        """Evaluates an expression."""
        return expressions.EXPRESSIONS[type(node)](self, node, frame)

    def arguments(self, node: ir.Call | ir.Launch, frame: Frame) -> tuple[list[Any], dict[str, Any]]:
        """Evaluates the positional and keyword arguments of a call."""
        args: list[Any] = []
        spread = False
        kinds, here = expressions.EXPRESSIONS, {} if frame.outer else frame.env.vars
        for arg in node.args:
            if isinstance(arg, ir.Name) and arg.id in here:  # as `e_name`, of which most calls would be made here
                args.append(here[arg.id])
            elif isinstance(arg, ir.Star):
                several = self.eval(arg.value, frame)
                spread = spread or not isinstance(several, (list, tuple))
                args.extend(iteration.materialise(self, several, arg.loc))
            else:
                args.append(kinds[type(arg)](self, arg, frame))
        kwargs: dict[str, Any] = {}
        for key, value in getattr(node, "keywords", ()):
            got = kinds[type(value)](self, value, frame)
            if key is not None:
                kwargs[key] = got
            else:
                spread = spread or not isinstance(got, dict)
                held = subscripts.mapping(self, got, node.loc) or {}
                kwargs.update({k: v for k, v in held.items() if isinstance(k, str)})
        self.spread = spread
        return args, kwargs

    # --- calls

    def call(self, func: Value, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        """Calls any value."""
        if type(func) is Method or type(func) is Sym:
            plain = asking.OBJECTS.isdisjoint(map(type, args))
            if plain and (not kwargs or asking.OBJECTS.isdisjoint(map(type, kwargs.values()))):
                return self.call_library(func, args, kwargs, loc)
            return asking.call(self, func, args, kwargs, loc)
        if isinstance(func, Func):
            return calls.call_function(self, func, args, kwargs, loc)
        if isinstance(func, Bound):
            return self.call(func.func, [func.self, *args], kwargs, loc)
        if isinstance(func, Partial):
            return self.call(func.func, [*func.args, *args], {**func.kwargs, **kwargs}, loc)
        if isinstance(func, Memo):
            return calls.call_memo(self, func, args, kwargs, loc)
        if isinstance(func, ClassV):
            return self.instantiate(func, args, kwargs, loc)
        if isinstance(func, Instance):
            return self.call_instance(func, args, kwargs, loc)
        if isinstance(func, Compiled):
            self.compiling += 1
            try:
                return self.call(func.func, args, kwargs, loc)
            finally:
                self.compiling -= 1
        if isinstance(func, (Configured, JitFunction)):
            return self.launch(func, args, kwargs, loc)
        if isinstance(func, ExtFunction):
            return self.cpp.call_export(func, args, kwargs, loc)
        if kwargs or not asking.OBJECTS.isdisjoint(map(type, args)):
            return asking.call(self, func, args, kwargs, loc)
        if callable(func) and getattr(func, "__kbh_builtin__", False):
            return func(self, args, kwargs, loc)
        return self.call_library(func, args, kwargs, loc)

    def call_library(self, func: Value, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Value:
        """Calls a method of a value, a symbol of a library, or an object that a library made."""
        for arg in args:
            if isinstance(arg, Once) and not getattr(func, "path", "").startswith("itertools."):
                arg.filled()
        if isinstance(func, Method):
            return lib_objects.call_method(self, func.self, func.name, args, kwargs, loc)
        if isinstance(func, Sym):
            return libraries.call(Site(self, func.path, loc, args, kwargs))
        if isinstance(func, LibObject):
            return lib_objects.call_object(Site(self, func.path, loc, args, kwargs), func)
        if isinstance(func, Blob):
            return foreign.call_blob(self, func, args, kwargs, loc)
        if isinstance(func, DType):
            return _of_type(func, args[0]) if args else Unknown()
        if isinstance(func, Specialized):
            return compiled.call(self, func, args, kwargs, loc)
        row = registry.of_object(func.path) if isinstance(func, Made) else None
        if row is not None and isinstance(func, Made):
            return row.library.made_call(Site(self, func.path, loc, args, kwargs), func)
        if isinstance(func, Unknown):
            return foreign.call_unknown(self, func, args, kwargs, loc)
        return foreign.call_data(self, func, args, kwargs, loc)

    def may_call(self, path: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> None:
        """Lets a function that is not followed call what it is given, in a run of its own."""
        handing.may_call(self, path, args, kwargs, loc)

    def launch(
        self, func: Configured | JitFunction, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
    ) -> Any:
        """Calls a kernel: `kernel[grid](...)`, or one that needs no grid."""
        return launches.launch(self, func, args, kwargs, loc)

    def instantiate(
        self, cls: ClassV, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None, plainly: bool = False
    ) -> Any:
        """Evaluates `cls(...)`; with `plainly`, ignores the `__call__` of its metaclass."""
        return classes.instantiate(self, cls, args, kwargs, loc, plainly)

    def call_instance(self, owner: Instance, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        """Calls an object of the submission: its `__call__`, torch's call of a module's `forward`, or the `forward` of
        a class that is no module."""
        return classes.call_instance(self, owner, args, kwargs, loc)

    def super_(self, args: Sequence[Value], frame: Frame) -> Value:
        """Evaluates `super()` or `super(cls, owner)`."""
        return classes.super_(self, args, frame)

    def decorate(self, decorator: Value, target: Value, loc: ir.Loc | None) -> Any:
        """Applies a decorator to a function or class; returns the decorated value."""
        return decorators.decorate(self, decorator, target, loc)

    def awaited(self, value: Value, loc: ir.Loc | None) -> Any:
        """Evaluates `await value`."""
        return coroutines.awaited(self, value, loc)

    def enter(self, manager: Value, exits: list[Leave], loc: ir.Loc | None) -> Value:
        """Enters `with manager`: returns what `as` binds, and appends to `exits` what undoes it."""
        return contexts.enter(self, manager, exits, loc)

    def import_(self, node: ir.Import, frame: Frame) -> None:
        """Binds the value of one name in an import statement."""
        importing.import_(self, node, frame)

    def load_library(self, name: str, loc: ir.Loc | None) -> Value:
        """Loads a shared library: one that the submission built from its own sources is read, another is machine
        code."""
        return extensions.load_library(self, name, loc)

    def run_text(self, source: Value, scope: Value, loc: ir.Loc | None, own: Value = None) -> Value:
        """Models exec and eval: a known text is run here, an unknown one is a hole. `own` is the dict for what it
        binds, where that is another than its globals."""
        known = own if isinstance(own, dict) and own is not scope else None
        return decoding.run_text(self, source, scope if isinstance(scope, dict) else None, loc, known)

    def watch(self, value: Instance | LibObject | Once, then: Callable[[], Any]) -> Callable[[], Any]:
        """Has `then` run after the statement that ends an object; returns what finds the object while it lives."""
        return lifetimes.watch(self, value, then)

    # --- attributes and items

    def get_attr(self, owner: Value, name: str, loc: ir.Loc | None) -> Any:
        """Evaluates `owner.name`."""
        return attributes.READERS[type(owner)](self, owner, name, loc)

    def plain_attr(self, owner: Instance, name: str, loc: ir.Loc | None) -> Value:
        """Returns `owner.name` as `object.__getattribute__` finds it."""
        return attributes.plain_attr(self, owner, name, loc)

    def set_attr(self, owner: Value, name: str, value: Value, loc: ir.Loc | None) -> None:
        """Evaluates `owner.name = value`."""
        attributes.set_attr(self, owner, name, value, loc)

    def set_plain(self, owner: Value, name: str, value: Value, loc: ir.Loc | None) -> None:
        """Evaluates `object.__setattr__(owner, name, value)`."""
        attributes.set_plain(self, owner, name, value, loc)

    def del_attr(self, owner: Value, name: str, loc: ir.Loc | None) -> None:
        """Evaluates `del owner.name`, by the class's own `__delattr__` where it has one."""
        attributes.del_attr(self, owner, name, loc)

    def get_item(self, owner: Value, key: Value, loc: ir.Loc | None) -> Value:
        """Evaluates `owner[key]` of an object that a library made."""
        return lib_objects.get_item(self, owner, key, loc)

    def set_item(self, owner: Value, key: Value, value: Value, loc: ir.Loc | None) -> None:
        """Evaluates `owner[key] = value` of an object that a library made."""
        lib_objects.set_item(self, owner, key, value, loc)

    def items_of(self, value: Value, loc: ir.Loc | None) -> Any:
        """Returns the items of an iterable object of the submission, of a library or of an enumeration; None for
        anything else."""
        if isinstance(value, Instance):
            found = find_method(value, "__iter__") or find_method(value, "__aiter__")
            if found is not None:
                made = self.call(found, [], {}, loc)
                return (
                    iteration.drawn(self, made, loc)
                    if isinstance(made, Instance)
                    else iteration.iterate(self, made, loc)
                )
            if value.items is not None:
                return list(value.items)
            if find_method(value, "__getitem__") is not None:
                return iteration.by_index(self, value, loc)
            if not value.cls.dataclass and value.cls.field_names():
                return [value.attrs[f] for f in value.cls.field_names()]
        if isinstance(value, LibObject):
            return lib_objects.items_of(value)
        if isinstance(value, Sym):
            return modules.members(value.path) or None
        own = meta_method(value, "__iter__")
        if own is not None:
            return iteration.iterate(self, self.call(own, [], {}, loc), loc)
        if isinstance(value, ClassV) and enums.is_enum(value):
            return list(enums.members(value).values())
        return None


def _of_type(dtype: DType, value: Value) -> Value:
    """`float32(value)`, of a number of the host."""
    return Single(value) if dtype.name == Single.dtype and isinstance(value, (int, float)) else value
