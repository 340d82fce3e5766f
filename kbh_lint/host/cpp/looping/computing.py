"""Loops of C++ host code that only compute with numbers and texts: what they may write to.

`of_loop` says whether a loop is one: whether no name in it, or in a function that it calls, leads to a tensor, an
address of the GPU, a class of a library or a function that does more than compute. Such a loop can do nothing but
change the variables and containers that it writes to. Nothing is said of loops where that is not sure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import CppType, DType, Env, Func, Overloads, Sym, TypeValue, Value
from kbh_lint.frontends.walk import by_node, children, walk
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp.std import outputs as cpp_outputs
from kbh_lint.host.cpp.std import pure
from kbh_lint.host.values.cpp_objects import CStruct, OwnMethod, Slot, Template
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

MOST_HELD = 4096  # containers and objects that one writes to
_DEEP = 6


class More(Exception):
    """A loop that does, or may do, more than compute."""


@dataclass(slots=True)
class Computing:
    """What a loop that only computes may write to: places of values, and the containers and objects themselves."""

    run: Cpp
    places: dict[tuple[int, Any], Slot]
    held: dict[int, Any]
    seen: set[int]
    read: list[Any]
    known: dict[int, Any]  # containers that were looked through
    methods: dict[str, list[tuple[Func, frozenset[str]]]]  # of classes of the text that are met, with their fields
    leaving: list[ir.Stmt]  # statements by which it may end otherwise than its test says

    # --- what is written

    def writes(self, node: ir.Expr, env: Env, own: frozenset[str]) -> None:
        """Notes that a place may be written to."""
        root = node
        while not isinstance(root, ir.Name):
            match root:
                case ir.Attr() | ir.Index() | ir.Cast() | ir.Unary():
                    root = root.value
                case ir.AssignE():
                    root = root.target
                case ir.Call(func=ir.Attr() as method):
                    root = method.value
                case ir.Call(func=ir.TypeRef(name="std::get"), args=(first,)):
                    root = first
                case ir.Seq():
                    for item in root.items:
                        self.writes(item, env, own)
                    return
                case ir.Const():
                    return
                case _:
                    raise More
        if root.id in own:
            return
        if root.id == "this":
            self.whole(env.get("this"))
            return
        slot = self.run.place(root, env)
        if slot is None:
            raise More
        self.places[id(slot.env), slot.name] = slot
        self.whole(slot.get())

    def whole(self, value: Value) -> None:
        """Notes that what a value holds may be written to."""
        if isinstance(value, Slot):
            self.places[id(value.env), value.name] = value
            value = value.get()
        if isinstance(value, dict) or len(self.held) > MOST_HELD:
            raise More  # which keys come to it is not told
        if not isinstance(value, (list, CStruct)) or id(value) in self.held:
            return
        self.held[id(value)] = value
        for part in value if isinstance(value, list) else value.attrs.values():
            if isinstance(part, (list, dict, CStruct, Slot)):
                self.whole(part)

    # --- what is named

    def plain(self, value: Value, depth: int = 0) -> None:
        """Refuses a value from which a tensor, an address of the GPU or an object of a library may be reached."""
        if isinstance(value, Slot):
            value = value.get()
        if value is None or cpp_numbers.is_number(value) or isinstance(value, (str, DType)):
            return
        if isinstance(value, Unknown):
            if value.taint is not None:
                raise More
            self.read.append(value)
            return
        parts: Iterable[Any]
        if isinstance(value, (list, tuple)):
            parts = value
        elif isinstance(value, dict):
            parts = [*value.keys(), *value.values()]
        elif isinstance(value, CStruct):
            parts = value.attrs.values()
            self.of_class(value)
        else:
            raise More
        if depth > _DEEP:
            raise More
        if id(value) in self.known:
            return
        self.known[id(value)] = value
        for part in parts:
            self.plain(part, depth + 1)

    def of_class(self, value: CStruct) -> None:
        """Notes the methods of an object's class; its operators may be called anywhere."""
        kind = cpp_classes.of(value)
        if kind is None or id(kind) in self.known:
            return
        self.known[id(kind)] = kind
        for name, member in kind.members.items():
            for func in member.funcs:
                self.method_of(name, func, frozenset(value.attrs))

    def method_of(self, name: str, func: Func, fields: frozenset[str]) -> None:
        """Notes a method of a class of the text."""
        self.methods.setdefault(name, []).append((func, fields))
        if name.startswith("operator"):
            self.function(func.node, func.env, fields)

    def name(self, node: ir.Name, env: Env, own: frozenset[str]) -> None:
        if node.id in own or node.id.removeprefix("::") in pure.OF_STREAMS:
            return
        value = self.run.lookup(node.id, env)
        if isinstance(value, Sym) and not pure.is_constant(value.path):
            raise More
        if not isinstance(value, (CppType, TypeValue, Sym)):
            self.plain(value)

    # --- what is done

    def block(self, nodes: Iterable[object], env: Env, own: frozenset[str], deep: bool) -> None:
        for node in nodes:
            self.visit(node, env, own, deep)

    def visit(self, node: object, env: Env, own: frozenset[str], deep: bool) -> None:
        """Looks through a statement or an expression; `own` are names that are declared in the loop or function, and
        `deep` says whether it stands in a function that the loop calls."""
        match node:
            case ir.Name():
                self.name(node, env, own)
                return
            case ir.Const() | ir.TypeRef():
                return
            case ir.Launch() | ir.Opaque() | ir.With() | ir.Asm() | ir.Import() | ir.ClassDef() | ir.Try():
                raise More
            case ir.Jump(kind="goto"):
                raise More
            case ir.Jump(kind="break") | ir.Return() if not deep:
                self.leaving.append(node)
            case ir.Raise():
                self.leaving.append(node)
                return
            case ir.Assign():
                for target in node.targets:
                    self.writes(target, env, own)
            case ir.AugAssign() | ir.AssignE():
                self.writes(node.target, env, own)
            case ir.Decl():
                self.declaration(node, env, own)
            case ir.For() if node.reference:
                self.writes(node.iterable, env, own)
            case ir.Unary(op="&"):
                self.writes(node.value, env, own)
            case ir.Lambda():
                inner = own | {param.name for param in node.func.params} | declared(node.func)
                self.block(node.func.body or (), env, inner, True)
                return
            case ir.Call():
                self.call(node, env, own, deep)
                return
            case ir.Attr():
                self.visit(node.value, env, own, deep)
                return
        if isinstance(node, (ir.While, ir.CFor, ir.For, ir.Switch)):
            self.inside(node, env, own, deep)
            return
        self.block(children(node), env, own, deep)

    def inside(self, node: object, env: Env, own: frozenset[str], deep: bool) -> None:
        """A loop or a switch in the loop: `break` ends that."""
        before = len(self.leaving)
        self.block(children(node), env, own, deep)
        self.leaving[before:] = [one for one in self.leaving[before:] if not isinstance(one, ir.Jump)]

    def declaration(self, node: ir.Decl, env: Env, own: frozenset[str]) -> None:
        """A variable of a number, a text, a container of the standard library or a class of the text."""
        kind = node.type
        if node.storage & {"static", "thread_local", "extern"} and not (kind is not None and kind.const):
            raise More
        if kind is not None and (kind.reference or kind.pointers) and not kind.const and node.init is not None:
            self.writes(node.init, env, own)
        if kind is not None:
            self.made(kind, env, own)

    def made(self, kind: ir.TypeRef, env: Env, own: frozenset[str]) -> None:
        """What making an object of a type does."""
        if kind.name.startswith("std::") and kind.name.startswith(pure.ACTING):
            raise More
        if kind.name in ("auto", "void", "") or kind.name in own or kind.name.startswith("std::"):
            return
        if dtypes.from_cpp(kind.name) is not None or dtypes.vector_from_cpp(kind.name) is not None:
            return
        found = env.get(kind.name)
        node = found.node if isinstance(found, CppType) else None
        if isinstance(found, TypeValue):
            self.made(found.ref, found.env, frozenset())
        elif isinstance(found, CppType) and isinstance(node, ir.Using) and node.type is not None:
            self.made(node.type, found.env, frozenset())
        elif isinstance(found, CppType) and isinstance(node, ir.ClassDef) and not node.bases:
            self.made_of_class(node, found.env)
        else:
            raise More

    def made_of_class(self, node: ir.ClassDef, env: Env) -> None:
        """What making an object of a class of the text does: its constructors, and its destructor in the end."""
        if id(node) in self.seen:
            return
        self.seen.add(id(node))
        fields = frozenset(part.name for part in node.body if isinstance(part, ir.Decl))
        for part in node.body:
            if isinstance(part, ir.Decl) and part.type is not None:
                self.made(part.type, env, frozenset())
            if isinstance(part, ir.FuncDef):
                self.method_of(part.name, Func(part, env), fields)
                if part.name in (node.name, f"~{node.name}"):
                    self.function(part, env, fields)

    def function(self, node: ir.FuncDef, env: Env, own: frozenset[str]) -> None:
        """What a function of the text does besides writing to what it is given."""
        if node.kind in ("global", "device"):
            raise More
        if node.body is None:
            if node.name.startswith("operator") or "default" in node.attributes:
                return
            raise More
        if id(node) in self.seen:
            return
        self.seen.add(id(node))
        inner = own | {param.name for param in node.params} | declared(node)
        self.block(node.body, env, inner | {param.name for param in node.template}, True)

    def call(self, node: ir.Call, env: Env, own: frozenset[str], deep: bool) -> None:
        """What a call does."""
        func = node.func
        if isinstance(func, ir.Attr):
            if func.name in pure.SIZES and isinstance(func.value, ir.Name) and func.value.id not in own:
                if isinstance(self.run.lookup(func.value.id, env), Tensor):
                    self.block(node.args, env, own, deep)
                    return
            self.method(node, func, env, own, deep)
        elif isinstance(func, ir.TypeRef):
            short = func.name.removeprefix("std::")
            if func.member or not (short in pure.COMPUTING or short in pure.WRITING):
                called = env.get(func.name)
                if isinstance(called, Overloads):
                    self.called(called.funcs, node, env, own)
                elif func.member and not func.name.startswith("std::"):
                    raise More
                else:
                    self.made(func, env, own)
        elif isinstance(func, ir.Lambda):
            self.visit(func, env, own, deep)
            for arg in node.args:
                self.handed(arg, env, own)
        elif isinstance(func, ir.Name):
            self.named(func, node, env, own)
        else:
            raise More
        self.block(node.args, env, own, deep)

    def method(self, node: ir.Call, func: ir.Attr, env: Env, own: frozenset[str], deep: bool) -> None:
        """A method of a container, of a text, or of an object of the text."""
        self.visit(func.value, env, own, deep)
        if func.name in self.methods:
            self.writes(func.value, env, own)
            self.of_object(func.name, node, env, own)
            return
        if func.name in pure.READING:
            return
        if func.name not in pure.CHANGING:
            raise More
        self.writes(func.value, env, own)
        for arg in node.args:
            self.handed(arg, env, own)

    def named(self, func: ir.Name, node: ir.Call, env: Env, own: frozenset[str]) -> None:
        """A function by its name."""
        if func.id.startswith(pure.CHECKS):
            return
        if func.id in own:
            return  # a lambda that is declared there, which was looked through
        if func.id in self.methods:
            self.whole(env.get("this"))
            self.of_object(func.id, node, env, own)
            return
        target = self.run.lookup(func.id, env)
        target = target.get() if isinstance(target, Slot) else target
        if isinstance(target, Template):
            target = target.attrs["overloads"]
        if isinstance(target, OwnMethod):
            self.plain(target.attrs["this"])
            self.whole(target.attrs["this"])
            target = target.attrs["overloads"]
        if isinstance(target, (Overloads, Func)):
            self.called(target.funcs if isinstance(target, Overloads) else [target], node, env, own)
            return
        if isinstance(target, (CppType, TypeValue, DType)):
            self.made(ir.TypeRef(func.id, (), func.loc), env, own)
            return
        if not isinstance(target, Sym):
            raise More
        short = target.path.removeprefix("std::")
        if short in pure.WRITING:
            for arg in node.args:
                self.handed(arg, env, own)
        elif short not in pure.COMPUTING and short not in cpp_outputs.C_FUNCTIONS - pure.OF_EFFECT:
            raise More
        else:
            for arg in node.args:
                if isinstance(arg, ir.Unary) and arg.op == "&" or not short.islower():
                    self.handed(arg, env, own)

    def of_object(self, name: str, node: ir.Call, env: Env, own: frozenset[str]) -> None:
        """A method of a class of the text that is met: any of that name."""
        for func, fields in self.methods[name]:
            self.function(func.node, func.env, fields)
            self.given(func, node, env, own)

    def called(self, funcs: Iterable[Func], node: ir.Call, env: Env, own: frozenset[str]) -> None:
        """A function of the text."""
        for func in funcs:
            this = func.env.get("this")
            if isinstance(this, CStruct):
                self.plain(this)
                self.whole(this)
            self.function(func.node, func.env, frozenset(this.attrs) if isinstance(this, CStruct) else frozenset())
            self.given(func, node, env, own)

    def given(self, func: Func, node: ir.Call, env: Env, own: frozenset[str]) -> None:
        """What a function of the text may write to by reference or by address."""
        for at, arg in enumerate(node.args):
            kind = func.node.params[at].type if at < len(func.node.params) else None
            if not isinstance(kind, ir.TypeRef) or not kind.const and _may_write(kind):
                self.handed(arg, env, own)

    def handed(self, arg: ir.Expr, env: Env, own: frozenset[str]) -> None:
        """What is written to where somebody writes to an argument."""
        if isinstance(arg, ir.Star):
            arg = arg.value
        if isinstance(arg, ir.Binary):
            self.handed(arg.left, env, own)
            self.handed(arg.right, env, own)
        elif isinstance(arg, (ir.Name, ir.Attr, ir.Index, ir.Unary, ir.Cast)):
            self.writes(arg, env, own)
        elif isinstance(arg, ir.Call) and isinstance(arg.func, ir.Attr):
            self.writes(arg.func.value, env, own)


def _may_write(kind: ir.TypeRef) -> bool:
    """Whether a function may write to what it takes as a parameter of a type."""
    return bool(kind.reference or kind.pointers or kind.name.startswith("std::span"))


@by_node
def declared(node: object) -> frozenset[str]:
    """The names that are declared in a loop or a function, those of its lambdas too."""
    found = set[str]()
    for part in walk(node):
        if isinstance(part, ir.Decl):
            found.add(part.name)
        elif isinstance(part, ir.For):
            found |= {one.id for one in walk(part.target) if isinstance(one, ir.Name)}
    return frozenset(found)
