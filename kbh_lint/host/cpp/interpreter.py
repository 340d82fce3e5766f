"""The C++ host side of an extension: from the call in Python to launches and library calls.

The same bounded walk as for Python, over the same IR: sizes, template arguments and aliases are real, tensors abstract.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import CppType, Env, Func, Overloads, TypeValue, Value
from kbh_lint.cpp.overloads import Choice
from kbh_lint.frontends.cuda import refused as cuda_refused
from kbh_lint.frontends.walk import walk
from kbh_lint.host.cpp import arguments as cpp_arguments
from kbh_lint.host.cpp import bindings as cpp_bindings
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp import construction as cpp_construction
from kbh_lint.host.cpp import expressions as cpp_expressions
from kbh_lint.host.cpp import launches as cpp_launches
from kbh_lint.host.cpp import libraries as cpp_libraries
from kbh_lint.host.cpp import names as cpp_names
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp import places as cpp_places
from kbh_lint.host.cpp import python_objects as cpp_python
from kbh_lint.host.cpp import statements as cpp_statements
from kbh_lint.host.cpp import templates as cpp_templates
from kbh_lint.host.cpp import texts as cpp_texts
from kbh_lint.host.cpp.std import texts as cpp_std_texts
from kbh_lint.host.datamodel import operators
from kbh_lint.host.python import lifetimes
from kbh_lint.host.values.cpp_objects import CStruct, Pack, Pointer, Slot
from kbh_lint.host.values.frames import MAX_FRAMES, CallSite, Raised, Returned, target_names
from kbh_lint.host.values.objects import Extension, ExtFunction, LibObject
from kbh_lint.host.values.tensors import CutlassType, Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def _first_type(overloads: Overloads) -> str:
    """The type of the first parameter: `PyObject` marks a function written against Python's own C interface."""
    params = overloads.funcs[-1].node.params
    return params[0].type.name if params and isinstance(params[0].type, ir.TypeRef) else ""


_OF_NUMBERS = frozenset(("%", "&", "|", "^", ">>"))  # what no pointer has


class Cpp:
    """Interprets C++ host functions for one run of the host (`Run`)."""

    # what others ask of C++ through the run, which imports all of it once there is some
    pointers = staticmethod(cpp_arguments.pointers)
    bound = staticmethod(cpp_bindings.read)
    refused, unknown_header = staticmethod(cuda_refused.why), staticmethod(cuda_refused.unknown_header)

    def __init__(self, interp: Run) -> None:
        self.interp = interp
        self.types = cpp_templates.Types(self)
        self.long_loops: dict[int, ir.While | ir.CFor] = {}  # by id: those that were left before they ended
        self.statics: dict[int, dict[str, Any]] = {}
        self.globals: dict[tuple[int, str], dict[str, Any]] = {}
        self.products: dict[Any, tuple[Env, CutlassType | None]] = {}  # of types of files, with the scope of each
        self.spelled: dict[tuple[str, int], tuple[Env, str]] = {}  # names of libraries, by what a file calls them
        self.nowhere: dict[tuple[str, int], tuple[Env, bool]] = {}  # whether a file has nothing that is called so
        self.depth = 0
        self.cuda_types: list[str] = []
        self.programs: list[Env] = []  # texts compiled at run time
        self.capture: Any = None
        self.called: tuple[Any, list[Any]] | None = None  # callee and arguments of the call that was followed last
        self.by_place = False  # whether the function that runs returns a reference
        self.result_place: Slot | None = None  # what the reference that the last call returned refers to
        self.given: dict[int, Slot | None] = {}  # by the calls that stand as arguments, what theirs refer to
        self.refused_launch = False  # whether the last error, which nobody asked for yet, is that of a launch
        self.failed = False  # whether somebody did
        self.unread: Unknown | None = None  # what a function gave last that is not followed
        self.opted_in = False  # whether Python asked the driver for more dynamic shared memory of a block
        self.named: dict[CppType, TypeValue] = {}  # one type for each class that is no template, for equal launches
        self.widths: cpp_templates.OfScopes[str] = {}  # types of variables that hold numbers
        self.of_scopes = (self.widths, self.types.pointers, self.types.written)

    # --- what launches, places and values mean: the modules of this side reach each other through these

    def launch(self, node: ir.Launch, env: Env) -> Any:
        """Evaluates `kernel<<<grid, block>>>(...)`."""
        return cpp_launches.launch(self, node, env)

    def launch_value(self, target: Value, args: list[Any], grid: Value, loc: ir.Loc | None) -> Any:
        """Launches the kernel that the value `target` is; `grid` is [grid, block], or the `Settings` of a call."""
        return cpp_launches.launch_value(self, target, args, grid, loc)

    def launch_kernel(self, choice: Choice, args: list[Any], grid: Value, loc: ir.Loc | None) -> Any:
        """Records a launch of the kernel that overload resolution chose."""
        return cpp_launches.launch_kernel(self, choice, args, grid, loc)

    def library(self, name: str, given: tuple[Any, ...], args: list[Any], loc: ir.Loc | None) -> Any:
        """Calls a function that the submission's source does not define, by its C++ name."""
        return cpp_libraries.library(self, name, given, args, loc)

    def built(self, sources: list[str], flags: list[str], arch: int | None) -> tuple[Env, list[ir.Module]]:
        """Lowers the source texts of an extension, each once; returns the scope that they share, and their modules."""
        return cpp_texts.build_env(self.interp, sources, flags, arch)

    def opaque(self, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
        """Records a call of something that could not be read."""
        return cpp_libraries.opaque(self, name, args, loc)

    def place(self, node: ir.Expr, env: Env) -> Slot | None:
        """Returns where the value of an expression lies; None where it is no lvalue."""
        return cpp_places.place(self, node, env)

    def global_slot(self, decl: ir.Decl, env: Env) -> Slot:
        """Returns where a variable declared outside functions lies."""
        return cpp_places.global_slot(self, decl, env)

    def assign(self, target: ir.Expr, value: Value, env: Env) -> None:
        """Evaluates `target = value`."""
        cpp_places.assign(self, target, value, env)

    def lookup(self, name: str, env: Env) -> Any:
        """Returns what a name means in a scope."""
        return cpp_places.lookup(self, name, env)

    def outside(self, name: str, env: Env) -> str:
        """Returns the full name by which a library defines `name` (`names.outside`), cached for each file scope."""
        around = cpp_names.around(name, env)
        if around is None:
            return cpp_names.outside(name, env, self.types.classes)
        known = self.spelled.get((name, id(around)))
        if known is None or known[0] is not around:
            known = self.spelled[name, id(around)] = around, cpp_names.outside(name, around, self.types.classes)
        return known[1]

    def unbound(self, name: str, env: Env) -> bool:
        """Whether the source binds neither `name` nor its first part, as of library names; cached for each file."""
        around = cpp_names.around(name, env)
        if around is None:
            return False
        known = self.nowhere.get((name, id(around)))
        if known is None or known[0] is not around:
            known = self.nowhere[name, id(around)] = around, not cpp_names.begins_bound(name, around)
        return known[1]

    def initial(self, node: ir.Decl, env: Env, *, lasting: bool = False) -> Any:
        """Evaluates the initial value of a declared variable or field; one that is `lasting` is zero before."""
        return cpp_construction.initial(self, node, env, lasting=lasting)

    def converted(self, ref: ir.TypeRef, value: Value, env: Env) -> Any:
        """Returns `value` as a variable, parameter, field or result of the type `ref` holds it."""
        return cpp_construction.converted(self, ref, value, env)

    def construct(
        self, ref: ir.TypeRef, items: list[Value], env: Env, loc: ir.Loc | None, *, braces: bool = False
    ) -> Value:
        """Makes an object of a type from constructor arguments, or from a `braces` list."""
        return cpp_construction.construct(self, ref, items, env, loc, braces=braces)

    def exported(self, extension: Extension, name: str) -> ExtFunction | None:
        """Returns what Python finds as `extension.name`; None where nothing is bound that could be read."""
        return cpp_bindings.exported(self, extension, name)

    def of_object(self, owner: LibObject, name: str, loc: ir.Loc | None) -> Any:
        """Returns `owner.name`, as Python sees an object of a bound class; NotImplemented where nothing is bound."""
        return cpp_bindings.of_object(self, owner, name, loc)

    # --- calls

    def call_export(self, func: ExtFunction, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        """Calls, from Python, a function or class that an extension binds; returns the result as Python sees it."""
        target = func.func
        cpp_places.initialise(self, func.extension.env)
        if isinstance(target, cpp_bindings.BoundClass):
            return cpp_bindings.made(self, func, args, kwargs, loc)
        args, kwargs = cpp_bindings.arguments(self, func, args, kwargs)
        given: tuple[ir.Expr, ...] = ()
        this = None
        if isinstance(target, LibObject) and "overloads" in target.attrs:
            this, given = target.attrs.get("this"), target.attrs["args"]
            target = target.attrs["overloads"]
        args = [*args, *cpp_templates.in_order(target, len(args), kwargs)]
        if isinstance(target, Overloads) and "PyObject" in _first_type(target):
            fast = len(target.funcs[-1].node.params) == 3
            args = [None, list(args), len(args)] if fast else [None, list(args)]
        if not isinstance(target, (Func, Overloads)):
            self.interp.lost(f"{func.name} of an extension is not a function that could be read", loc)
            return Unknown((), "extension")
        choice = self.choose(target, args, given, func.extension.env)
        chosen = choice.func
        if chosen.node.body is None:
            self.interp.miss(f"the source of {func.name} is not part of what the extension is built from", loc)
        result, made = self.call(chosen, args, loc, choice.bound, this), chosen.node.returns
        kind = made.name.rpartition("::")[2] if isinstance(made, ir.TypeRef) else ""
        # `return {values, indices};` makes what the function is declared to return
        filled = isinstance(result, cpp_python.PyTuple) or isinstance(result, list) and kind in ("tuple", "pair")
        return cpp_numbers.plain(tuple(result) if filled else result)

    def choose(
        self,
        target: Overloads | Func,
        args: list[Any],
        given: tuple[ir.Expr, ...] = (),
        env: Env | None = None,
        nodes: tuple[ir.Expr, ...] = (),
    ) -> Choice:
        """Chooses the function to call by overload resolution; `given` are explicit template arguments, read in
        `env`."""
        funcs = target.funcs if isinstance(target, Overloads) else [target]
        return cpp_templates.choose(self, funcs, args, given, env, nodes)

    def call(
        self,
        func: Func,
        args: list[Any],
        loc: ir.Loc | None,
        template: dict[str, Any] | None = None,
        this: Value = None,
    ) -> Any:
        """Calls a C++ function of the submission with evaluated arguments; returns its result."""
        interp = self.interp
        if func.node.body is None:
            return cpp_libraries.declared(self, func.node.name, args, loc)
        if self.depth > MAX_FRAMES:
            interp.lost("C++ calls nest too deep", loc)
            return Unknown()
        interp.burn(4)
        env = Env(dict(template or {}), func.env)
        if this is not None:
            env.vars["this"] = this
        for i, param in enumerate(func.node.params):
            if param.kind == "star":
                env.vars[param.name] = Pack(args[i:])
            elif i < len(args):
                env.vars[param.name] = value = cpp_construction.parameter(self, param.type, args[i], env)
                if cpp_numbers.is_number(value) and isinstance(param.type, ir.TypeRef):
                    cpp_templates.note(self.widths, env.vars, param.name, dtypes.from_cpp(param.type.name) or "")
                self.types.points(param.name, param.type, value, env)
            elif param.default is not None:
                env.vars[param.name] = self.eval(param.default, env)
        self.depth += 1
        interp.frames.append(CallSite(loc))
        returns, around = func.node.returns, self.by_place
        self.by_place = isinstance(returns, ir.TypeRef) and returns.reference and not returns.const
        self.result_place = None
        try:
            signal = self.block(func.node.body, env)
        finally:
            self.depth -= 1
            interp.frames.pop()
            self.result_place = self.result_place if self.by_place else None
            self.by_place = around
        value = signal.value if isinstance(signal, Returned) else None
        plain = isinstance(returns, ir.TypeRef) and not returns.pointers and not returns.reference
        return (
            cpp_construction.converted(self, returns, value, env)
            if plain and isinstance(returns, ir.TypeRef)
            else value
        )

    # --- statements

    def block(self, body: tuple[ir.Stmt, ...], env: Env) -> Any:
        """Runs statements in order; returns the signal (a return, a break) that ended them, or None."""
        signal = None
        try:
            for node in body:
                signal = self.statement(node, env)
                if signal is not None:
                    break
        except Raised:
            cpp_classes.end_scope(self, env, None)
            raise
        cpp_classes.end_scope(self, env, signal.value if isinstance(signal, Returned) else None)
        return signal

    def statement(self, node: ir.Stmt, env: Env) -> Any:
        """Runs one statement; one that cannot be followed makes its targets unknown."""
        self.interp.burn()
        handler = cpp_statements.STATEMENTS.get(type(node))
        if handler is None:
            return None
        try:
            signal = handler(self, node, env)
            if self.interp.dying:
                lifetimes.run_endings(self.interp)
            return signal
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
            why = f"could not follow this C++ ({type(error).__name__}: {str(error)[:60]})"
            self.interp.lost(why, node.loc)
            target: Any = getattr(node, "target", None)
            for name in target_names(target) if target is not None else ():
                env.vars[name] = Unknown((), "not followed")
            if isinstance(node, ir.Decl):
                env.vars[node.name] = Unknown((), "not followed")
            return None

    # --- expressions

    def eval(self, node: object, env: Env) -> Any:
        """Evaluates an expression to a value."""
        self.interp.fuel -= 1
        handler = cpp_expressions.EXPRESSIONS.get(type(node))
        value = handler(self, node, env) if handler is not None else Unknown((), type(node).__name__)
        return value.get() if isinstance(value, Slot) and not isinstance(node, (ir.Unary, ir.Cast)) else value

    def eval_place(self, node: object, env: Env) -> Any:
        """Evaluates an argument; an address gives the place (`Slot`) that it points to, so that the callee can
        write."""
        if isinstance(node, ir.Unary) and node.op == "&":
            return cpp_expressions.e_unary(self, node, env)
        if isinstance(node, ir.Cast) and isinstance(node.value, ir.Unary) and node.value.op == "&":
            found = cpp_expressions.e_cast(self, node, env)
            return found if isinstance(found, Slot) else self.eval(node, env)
        found = cpp_arguments.address(self, node, env)
        return self.eval(node, env) if found is None else found

    def arguments(self, nodes: Sequence[ir.Expr], env: Env) -> list[Any]:
        """Evaluates the arguments of a call, with parameter packs expanded."""
        out: list[Any] = []
        for node in nodes:
            if not isinstance(node, ir.Star):
                self.result_place = None
                out.append(self.eval_place(node, env))
                if isinstance(node, ir.Call):
                    self.given[id(node)] = self.result_place
                continue
            scopes = self.each(node.value, env)
            if scopes is not None:
                out.extend(self.eval_place(node.value, scope) for scope in scopes)
                continue
            value = self.eval_place(node.value, env)
            value = value.get() if isinstance(value, Slot) else value
            out.extend(value if isinstance(value, (tuple, list)) else [value])
        return out

    def each(self, pattern: ir.Expr, env: Env) -> list[Env] | None:
        """Returns a scope for each element of the packs in `pattern`; None without packs, or of unequal lengths."""
        packs: dict[str, Pack] = {}
        for node in walk(pattern):
            name = node.id if isinstance(node, ir.Name) else node.name if isinstance(node, ir.TypeRef) else ""
            if isinstance(held := env.get(name) if name else None, Pack):
                packs[name] = held
        packs = {name: held for name, held in packs.items() if held} or packs  # types that were not deduced are none
        if len({len(pack) for pack in packs.values()}) != 1:
            return None
        return [Env(dict(zip(packs, items, strict=True)), env) for items in zip(*packs.values(), strict=True)]

    def truth(self, value: Value, loc: ir.Loc | None) -> bool:
        """Whether a condition holds; an optional or handle that holds a tensor or a function counts as true. What a
        function of torch gave that is not known may be no tensor."""
        if isinstance(value, cpp_std_texts.Stream):
            return not value.attrs["failed"]
        if isinstance(value, CStruct) and (made := cpp_classes.conversion(self, value, "bool")) is not NotImplemented:
            value = made
        if isinstance(value, Tensor) and value.is_nameless():
            value = Unknown((), "what a function of torch that is not known gave", likely=True)
        held = isinstance(value, Tensor) and value.shape != () or isinstance(value, (Func, Overloads))
        return held or self.interp.truth(value, loc)

    def equal(self, left: CStruct, right: CStruct) -> Value:
        """Compares two objects by the submission's `operator==`, as keys of a map; NotImplemented where it has none."""
        return cpp_classes.operator(self, "==", left, right, None)

    def binary(self, op: str, left: Value, right: Value, loc: ir.Loc | None) -> Any:
        """Evaluates C++ arithmetic `left op right`: integer division truncates, pointer arithmetic keeps the tensor."""
        if any(isinstance(one, CStruct) for one in (left, right)):
            found = cpp_classes.operator(self, op, left, right, loc)
            if found is not NotImplemented:
                return found
            left, right = cpp_classes.number(self, left), cpp_classes.number(self, right)
        if isinstance(left, Pointer) and op in "+-":
            by = cpp_numbers.plain(right)
            return left.moved(-by if op == "-" and type(by) is int else by if op == "+" else Unknown())
        if isinstance(right, Pointer) and op == "+":
            return right.moved(cpp_numbers.plain(left))
        if op in _OF_NUMBERS:  # a pointer that was cast to a number: `(uintptr_t)p % 16`
            left = _address(left) if isinstance(left, Pointer) else left
            right = _address(right) if isinstance(right, Pointer) else right
        if isinstance(left, int) and isinstance(right, int):
            found = cpp_numbers.binary(op, left, right)
            if found is not NotImplemented:
                return found
        if isinstance(left, cpp_std_texts.JOINED):
            found = cpp_std_texts.joined(op, left, right)
            if found is not NotImplemented:
                return found
        return operators.binary(self.interp, op, left, right, loc)


def _address(pointer: Pointer) -> Pointer | int:
    """The number that a pointer is; itself where that is not known."""
    return pointer if pointer.start is None else pointer.tensor.storage.address + pointer.start
