"""The host interpreter: runs the Python of a submission with real scalars, strings and containers and abstract tensors.

It executes nothing of the submission: it walks the IR. What it cannot know is `Unknown`; a branch on an unknown is a
decision, remembered by place, so that a run is one path and another run can take the other side. Work is bounded by
fuel; `OutOfFuel` ends a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbh_lint import ir
from kbh_lint.host import bounds, operators
from kbh_lint.host.objects import (
    Bound,
    ClassV,
    Compiled,
    Configured,
    ExtFunction,
    Instance,
    Memo,
    Method,
    Partial,
)
from kbh_lint.host.tensors import Content, Event, Tensor, Unknown
from kbh_lint.source.embedded import Literal, Piece, Text, concat
from kbh_lint.values import Env, Func, JitFunction, Sym

MAX_FRAMES = 60
FULL_ITERATIONS = 6  # of a loop that works on tensors; the rest is taken to be like them
MAPPED_STRING = 24  # shorter literals carry no map: none holds code


class OutOfFuel(Exception):
    """The run was stopped at its bound."""


class Raised(Exception):
    """An exception of the interpreted program."""

    def __init__(self, value: Any, loc: ir.Loc | None) -> None:
        super().__init__(value)
        self.value = value
        self.loc = loc


class Returned:
    """A `return` on its way out."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


BREAK = object()
CONTINUE = object()


class Frame:
    """One call: its variables, and where it was called from."""

    __slots__ = ("env", "globals", "outer", "loc", "func", "cls")

    def __init__(self, env: Env, globals_: Env, loc: ir.Loc | None, func: Func | None) -> None:
        self.env = env
        self.globals = globals_
        self.outer: dict[str, Env] = {}  # names declared global or nonlocal -> the scope that holds them
        self.loc = loc
        self.func = func
        self.cls: ClassV | None = func.cls if func is not None else None


class Interp:
    """One run of a submission along one path."""

    def __init__(self, world: Any, fuel: int) -> None:
        self.world = world
        self.fuel = fuel
        self.frames: list[Frame] = []
        self.events: list[Event] = []
        self.call_index = 0
        self.unread: list[tuple[str, ir.Loc | None]] = []
        self.decided: dict[Any, bool] = {}
        self.asked: dict[Any, int] = {}  # places in this call of forward
        self.capturing: list[Any] = []
        self.compiling = 0
        self.weight = 1
        self.ids: dict[int, tuple[int, Any]] = {}
        self.builtins: dict[str, Any] = {}
        self.notes: list[tuple[str, dict[str, Any], ir.Loc | None]] = []  # facts seen on the way
        self.cpp: Any = None

    # --- bookkeeping

    def burn(self, amount: int = 1) -> None:
        self.fuel -= amount
        if self.fuel < 0:
            raise OutOfFuel

    def miss(self, reason: str, loc: ir.Loc | None) -> None:
        """Remember something that could not be followed."""
        if len(self.unread) < 400:
            self.unread.append((reason, loc))

    def note(self, kind: str, attrs: dict[str, Any], loc: ir.Loc | None) -> None:
        """Remember a fact about the program itself, such as a symbol it reached."""
        if len(self.notes) < 4000:
            self.notes.append((kind, attrs, loc))

    def stack(self) -> tuple[ir.Loc, ...]:
        return tuple(f.loc for f in self.frames if f.loc is not None)

    def emit(self, event: Event) -> None:
        """Record an event, also in a graph that is being captured."""
        event.call = self.call_index
        event.stack = self.stack()
        event.weight = self.weight
        if self.compiling:
            event.attrs["compiled"] = True
        self.burn(3)
        self.events.append(event)
        for graph in self.capturing:
            graph.events.append(event)

    def identity(self, value: Any) -> int:
        """What id() gives: one number an object."""
        if id(value) not in self.ids:
            self.ids[id(value)] = (0x7F00_0000_0000 + 48 * len(self.ids), value)
        return self.ids[id(value)][0]

    # --- truth

    def truth(self, value: Any, loc: ir.Loc | None) -> bool:
        """The truth of a value; of an unknown one, what was decided for this place."""
        if isinstance(value, Tensor):
            value = Unknown((value.storage.content,), "a tensor's value")
        if isinstance(value, Unknown):
            return self.decide(self.place(loc), value)
        if isinstance(value, (Instance, Sym)):
            return not operators.is_success(value)
        try:
            return bool(value)
        except Exception:
            return True

    def decide(self, key: Any, value: Unknown) -> bool:
        """The side of a branch on an unknown: one a place and run, but for a loop that asks it of many elements.

        No real run answers all elements alike, so the second time one call of a function asks, it is the other side.
        """
        if key not in self.decided:
            self.decided[key] = self.world.choice(key, value)
        if value.why.startswith("likely: the path"):  # files are all there, or none is yet
            return self.decided[key]
        here = (key, id(self.frames[-1]) if self.frames else 0)
        self.asked[here] = self.asked.get(here, 0) + 1
        if self.asked[here] == 2:
            self.world.mixed.add(key)
            return not self.decided[key]
        return self.decided[key]

    @staticmethod
    def place(loc: ir.Loc | None) -> Any:
        return None if loc is None else (loc[0].language, *loc[1:])

    # --- statements

    def block(self, body: tuple[ir.Stmt, ...], frame: Frame) -> Any:
        for node in body:
            signal = self.statement(node, frame)
            if signal is not None:
                return signal
        return None

    def statement(self, node: ir.Stmt, frame: Frame) -> Any:
        self.fuel -= 1
        if self.fuel < 0:
            raise OutOfFuel
        handler = STATEMENTS.get(type(node))
        if handler is None:
            self.miss(f"statement {type(node).__name__}", node.loc)
            return None
        try:
            return handler(self, node, frame)
        except (Raised, OutOfFuel, MemoryError):
            raise
        except RecursionError:
            self.miss("recursion too deep", node.loc)
            return None
        except Exception as error:
            self.miss(f"could not follow this statement ({type(error).__name__}: {str(error)[:80]})", node.loc)
            self.havoc(node, frame)
            return None

    def havoc(self, node: ir.Stmt, frame: Frame) -> None:
        """After a statement that could not be followed: its plain targets are unknown."""
        targets = getattr(node, "targets", None) or ([node.target] if hasattr(node, "target") else [])
        for target in targets:
            for name in _names(target):
                self.store_name(name, Unknown((), "not followed"), frame)

    def s_expr(self, node: ir.ExprS, frame: Frame) -> None:
        self.eval(node.value, frame)

    def s_assign(self, node: ir.Assign, frame: Frame) -> None:
        value = self.eval(node.value, frame)
        for target in node.targets:
            self.assign(target, value, frame)

    def s_aug(self, node: ir.AugAssign, frame: Frame) -> None:
        old = self.eval(node.target, frame)
        value = self.eval(node.value, frame)
        self.assign(node.target, operators.inplace(self, node.op, old, value, node.loc), frame)

    def s_decl(self, node: ir.Decl, frame: Frame) -> None:
        if frame.env.vars.get("__class_fields__") is not None:
            frame.env.vars["__class_fields__"].append(node.name)

    def s_if(self, node: ir.If, frame: Frame) -> Any:
        test = self.truth(self.eval(node.test, frame), node.test.loc)
        return self.block(node.body if test else node.orelse, frame)

    def s_while(self, node: ir.While, frame: Frame) -> Any:
        rounds = 0
        while True:
            value = self.eval(node.test, frame)
            if isinstance(value, (Unknown, Tensor)):
                if rounds:
                    break
            elif not self.truth(value, node.test.loc) and not (node.once and rounds == 0):
                break
            before = len(self.events)
            signal = self.block(node.body, frame)
            if signal is BREAK:
                return None
            if isinstance(signal, Returned):
                return signal
            rounds += 1
            if rounds > FULL_ITERATIONS and len(self.events) > before:
                if isinstance(node.test, ir.Const) and not _leaves(node.body):
                    raise OutOfFuel  # nothing in it ends it
                break
            self.burn(2)
        return self.block(node.orelse, frame)

    def s_for(self, node: ir.For, frame: Frame) -> Any:
        iterable = self.eval(node.iterable, frame)
        items = operators.iterate(self, iterable, node.loc)
        return self.loop(items, lambda item: self.assign(node.target, item, frame), node.body, node.orelse, frame)

    def loop(self, items: Any, bind: Callable[[Any], None], body: Any, orelse: Any, frame: Frame) -> Any:
        """Run a loop body for each item; once a few rounds have worked on tensors, go on with the last item."""
        total = len(items) if hasattr(items, "__len__") else None
        worked, index, outer = 0, 0, self.weight
        it = iter(items)
        try:
            for item in it:
                before = len(self.events)
                bind(item)
                signal = self.block(body, frame)
                if signal is BREAK:
                    return None
                if isinstance(signal, Returned):
                    return signal
                self.burn(2)
                index += 1
                worked += len(self.events) > before
                if (
                    worked >= FULL_ITERATIONS
                    and total is not None
                    and total - index > 1
                    and hasattr(items, "__getitem__")
                ):
                    self.weight = outer * (total - index)
                    bind(items[-1])
                    signal = self.block(body, frame)
                    if isinstance(signal, Returned):
                        return signal
                    return None
        finally:
            self.weight = outer
        return self.block(orelse, frame)

    def s_return(self, node: ir.Return, frame: Frame) -> Any:
        return Returned(self.eval(node.value, frame) if node.value is not None else None)

    def s_jump(self, node: ir.Jump, frame: Frame) -> Any:
        return BREAK if node.kind == "break" else CONTINUE

    def s_raise(self, node: ir.Raise, frame: Frame) -> None:
        raise Raised(self.eval(node.value, frame) if node.value is not None else None, node.loc)

    def s_with(self, node: ir.With, frame: Frame) -> Any:
        exits: list[Callable[[], None]] = []
        try:
            for context, target in node.items:
                manager = self.eval(context, frame)
                entered = self.world.enter(self, manager, exits, node.loc)
                if target is not None:
                    self.assign(target, entered, frame)
            return self.block(node.body, frame)
        finally:
            for leave in reversed(exits):
                leave()

    def s_try(self, node: ir.Try, frame: Frame) -> Any:
        signal = None
        try:
            try:
                signal = self.block(node.body, frame)
            except Raised as raised:
                for kind, name, body in node.handlers:
                    if kind is not None and not self.world.catches(self, self.eval(kind, frame), raised.value):
                        continue
                    if name is not None:
                        self.store_name(name, raised.value, frame)
                    signal = self.block(body, frame)
                    break
                else:
                    raise
            else:
                if signal is None:
                    signal = self.block(node.orelse, frame)
        finally:
            last = self.block(node.final, frame) if node.final else None
        return last if last is not None else signal

    def s_import(self, node: ir.Import, frame: Frame) -> None:
        self.world.import_(self, node, frame)

    def s_scope(self, node: ir.Scope, frame: Frame) -> None:
        for name in node.names:
            if node.kind == "global":
                frame.outer[name] = frame.globals
                continue
            env = frame.env.parent
            while env is not None and name not in env.vars:
                env = env.parent
            frame.outer[name] = env or frame.globals

    def s_delete(self, node: ir.Delete, frame: Frame) -> None:
        for target in node.targets:
            if isinstance(target, ir.Name):
                frame.env.vars.pop(target.id, None)
            elif isinstance(target, ir.Index):
                owner, key = self.eval(target.value, frame), self.eval(target.index, frame)
                if isinstance(owner, dict):
                    owner.pop(key, None)
                elif isinstance(owner, list) and isinstance(key, (int, slice)):
                    del owner[key]
            elif isinstance(target, ir.Attr):
                owner = self.eval(target.value, frame)
                if isinstance(owner, Instance):
                    owner.attrs.pop(target.name, None)

    def s_assert(self, node: ir.Assert, frame: Frame) -> None:
        self.eval(node.test, frame)

    def s_block(self, node: ir.Block, frame: Frame) -> Any:
        return self.block(node.body, frame)

    def s_func(self, node: ir.FuncDef, frame: Frame) -> None:
        func: Any = self.make_function(node, frame)
        for decorator in reversed(node.decorators):
            func = self.world.decorate(self, self.eval(decorator, frame), func, decorator.loc)
        self.store_name(node.name, func, frame)

    def make_function(self, node: ir.FuncDef, frame: Frame) -> Func:
        env = frame.env
        if "__class_fields__" in env.vars and env.parent is not None:
            func = Func(node, env.parent)  # a class body is no scope of its methods
        else:
            func = Func(node, env)
        for param in node.params:
            if param.default is not None:
                func.defaults[param.name] = self.eval(param.default, frame)
        return func

    def s_class(self, node: ir.ClassDef, frame: Frame) -> None:
        bases = tuple(self.eval(b, frame) for b in node.bases)
        env = Env({"__class_fields__": []}, frame.env)
        cls = ClassV(node.name, bases, env, node)
        inner = Frame(env, frame.globals, node.loc, None)
        self.block(node.body, inner)
        cls.fields = [
            s.targets[0].id
            if isinstance(s, ir.Assign) and isinstance(s.targets[0], ir.Name)
            else getattr(s, "name", "")
            for s in node.body
            if isinstance(s, (ir.Assign, ir.Decl))
        ]
        env.vars.pop("__class_fields__", None)
        for value in env.vars.values():
            inner_func = value.func if isinstance(value, (Memo, Compiled, Bound)) else value
            if isinstance(inner_func, Func):
                inner_func.cls = cls
        made: Any = cls
        for decorator in reversed(node.decorators):
            made = self.world.decorate(self, self.eval(decorator, frame), made, decorator.loc)
        self.store_name(node.name, made, frame)

    def s_opaque(self, node: ir.Opaque, frame: Frame) -> None:
        for child in node.children:
            if child is not None:
                self.eval(child, frame)
        self.miss(node.reason, node.loc)

    # --- names and targets

    def load_name(self, name: str, frame: Frame, loc: ir.Loc | None) -> Any:
        env: Env | None = frame.outer.get(name, frame.env)
        while env is not None:
            if name in env.vars:
                return env.vars[name]
            env = env.parent
        if name in frame.globals.vars:
            return frame.globals.vars[name]
        if name in self.builtins:
            return self.builtins[name]
        return self.world.missing_name(self, name, loc)

    def store_name(self, name: str, value: Any, frame: Frame) -> None:
        frame.outer.get(name, frame.env).vars[name] = value

    def assign(self, target: ir.Expr, value: Any, frame: Frame) -> None:
        if isinstance(target, ir.Name):
            frame.outer.get(target.id, frame.env).vars[target.id] = value
        elif isinstance(target, ir.Attr):
            self.world.set_attr(self, self.eval(target.value, frame), target.name, value, target.loc)
        elif isinstance(target, ir.Index):
            owner = self.eval(target.value, frame)
            operators.set_item(self, owner, self.eval(target.index, frame), value, target.loc)
        elif isinstance(target, ir.Seq):
            self.unpack(target.items, value, frame, target.loc)
        elif isinstance(target, ir.Star):
            self.assign(target.value, value, frame)

    def unpack(self, targets: tuple[ir.Expr, ...], value: Any, frame: Frame, loc: ir.Loc) -> None:
        items = operators.iterate(self, value, loc, len(targets))
        items = list(bounds.visited(self, items)) if not isinstance(items, list) else items
        star = next((i for i, t in enumerate(targets) if isinstance(t, ir.Star)), None)
        if star is not None:
            after = len(targets) - star - 1
            middle = items[star : len(items) - after]
            items = [*items[:star], middle, *items[len(items) - after :]]
        for i, target in enumerate(targets):
            self.assign(target, items[i] if i < len(items) else Unknown((), "not enough values"), frame)

    # --- expressions

    def eval(self, node: ir.Expr, frame: Frame) -> Any:
        return EXPRESSIONS[type(node)](self, node, frame)

    def e_const(self, node: ir.Const, frame: Frame) -> Any:
        value = node.value
        if type(value) is str and len(value) >= MAPPED_STRING and node.loc[0].language == "python":
            text = Text(value, (Piece(0, len(value), Literal(node.loc[0], node.loc), 0),))
            node.value = text  # the next visit finds it made
            return text
        return value

    def e_name(self, node: ir.Name, frame: Frame) -> Any:
        return self.load_name(node.id, frame, node.loc)

    def e_attr(self, node: ir.Attr, frame: Frame) -> Any:
        return self.world.get_attr(self, self.eval(node.value, frame), node.name, node.loc)

    def e_index(self, node: ir.Index, frame: Frame) -> Any:
        return operators.get_item(self, self.eval(node.value, frame), self.eval(node.index, frame), node.loc)

    def e_slice(self, node: ir.SliceE, frame: Frame) -> Any:
        parts = [self.eval(p, frame) if p is not None else None for p in (node.lower, node.upper, node.step)]
        return slice(*parts)

    def e_star(self, node: ir.Star, frame: Frame) -> Any:
        return self.eval(node.value, frame)

    def arguments(self, node: ir.Call | ir.Launch, frame: Frame) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        for arg in node.args:
            if isinstance(arg, ir.Star):
                args.extend(operators.materialise(self, self.eval(arg.value, frame), arg.loc))
            else:
                args.append(self.eval(arg, frame))
        kwargs: dict[str, Any] = {}
        for key, value in getattr(node, "keywords", ()):
            got = self.eval(value, frame)
            if key is not None:
                kwargs[key] = got
            elif isinstance(got, dict):
                kwargs.update({k: v for k, v in got.items() if isinstance(k, str)})
        return args, kwargs

    def e_call(self, node: ir.Call, frame: Frame) -> Any:
        func = self.eval(node.func, frame)
        args, kwargs = self.arguments(node, frame)
        if func is self.builtins.get("super"):
            return self.world.super_(self, args, frame)
        if func is self.builtins.get("locals"):
            return frame.env.vars
        if func is self.builtins.get("globals"):
            return self.world.module_dict(self, frame)
        return self.call(func, args, kwargs, node.loc)

    def e_binary(self, node: ir.Binary, frame: Frame) -> Any:
        left = self.eval(node.left, frame)
        return operators.binary(self, node.op, left, self.eval(node.right, frame), node.loc)

    def e_unary(self, node: ir.Unary, frame: Frame) -> Any:
        value = self.eval(node.value, frame)
        if node.op == "not":
            if isinstance(value, Unknown):
                return not self.truth(value, node.value.loc)
            return not self.truth(value, node.loc)
        return operators.unary(self, node.op, value, node.loc)

    def e_bool(self, node: ir.Bool, frame: Frame) -> Any:
        value: Any = None
        for item in node.values:
            value = self.eval(item, frame)
            if self.truth(value, item.loc) != (node.op == "and"):
                return value
        return value

    def e_compare(self, node: ir.Compare, frame: Frame) -> Any:
        left = self.eval(node.left, frame)
        result: Any = True
        for op, right_node in zip(node.ops, node.rights, strict=True):
            right = self.eval(right_node, frame)
            result = operators.compare(self, op, left, right, node.loc)
            if result is False:
                return False
            left = right
        return result

    def e_cond(self, node: ir.Cond, frame: Frame) -> Any:
        test = self.truth(self.eval(node.test, frame), node.test.loc)
        return self.eval(node.yes if test else node.no, frame)

    def e_seq(self, node: ir.Seq, frame: Frame) -> Any:
        items: list[Any] = []
        for item in node.items:
            if isinstance(item, ir.Star):
                items.extend(operators.materialise(self, self.eval(item.value, frame), item.loc))
            else:
                items.append(self.eval(item, frame))
        if node.kind == "tuple":
            return tuple(items)
        return set(map(operators.check_key, items)) if node.kind == "set" else items

    def e_dict(self, node: ir.DictE, frame: Frame) -> Any:
        out: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                more = self.eval(value, frame)
                if isinstance(more, dict):
                    out.update(bounds.visited(self, more))
            else:
                out[operators.check_key(self.eval(key, frame))] = self.eval(value, frame)
        return out

    def e_comp(self, node: ir.Comp, frame: Frame) -> Any:
        inner = Frame(Env({}, frame.env), frame.globals, None, frame.func)
        inner.outer = dict(frame.outer)
        out: list[Any] = []

        def clause(i: int) -> None:
            self.burn()
            if i == len(node.clauses):
                key = self.eval(node.key, inner) if node.key is not None else None
                out.append((key, self.eval(node.item, inner)) if node.kind == "dict" else self.eval(node.item, inner))
                return
            target, iterable, tests = node.clauses[i]
            for item in operators.iterate(self, self.eval(iterable, inner), node.loc):
                self.assign(target, item, inner)
                if all(self.truth(self.eval(t, inner), t.loc) for t in tests):
                    clause(i + 1)

        clause(0)
        if node.kind == "dict":
            return {operators.check_key(key): value for key, value in out}
        return set(map(operators.check_key, out)) if node.kind == "set" else out

    def e_lambda(self, node: ir.Lambda, frame: Frame) -> Any:
        return self.make_function(node.func, frame)

    def e_fstring(self, node: ir.FString, frame: Frame) -> Any:
        parts: list[str] = []
        literal, at = Literal(node.loc[0], node.loc), 0
        for part in node.parts:
            if isinstance(part, ir.Const):
                value = part.value
                if type(value) is str and len(value) >= MAPPED_STRING:
                    part.value = value = Text(value, (Piece(0, len(value), literal, at),))
                parts.append(value)
                at += len(value)
                continue
            value_node, conversion, spec = part
            value = self.eval(value_node, frame)
            if isinstance(value, str) and not conversion and spec is None:
                bounds.text(self, value)
                parts.append(value)
                continue
            if not isinstance(value, (str, int, float, bool, type(None), tuple, list)):
                parts.append(self.world.show(value))
                continue
            if not bounds.is_small(value):
                raise bounds.TooLarge("a text grew past the bound")
            text = repr(value) if conversion == "r" else value
            form = "" if spec is None else self.eval(spec, frame)
            parts.append(format(text, bounds.format_spec(form)) if form else str(text))
        return concat(parts)

    def e_assign_expr(self, node: ir.AssignE, frame: Frame) -> Any:
        value = self.eval(node.value, frame)
        self.assign(node.target, value, frame)
        return value

    def e_opaque(self, node: ir.Opaque, frame: Frame) -> Any:
        values = [self.eval(c, frame) for c in node.children if c is not None]
        if node.reason == "yield":
            if frame.env.vars.get("__yielded__") is not None:
                frame.env.vars["__yielded__"].append(values[0] if values else None)
            return None
        if node.reason == "yield from":
            frame.env.vars.setdefault("__yielded__", []).extend(operators.iterate(self, values[0], node.loc))
            return None
        self.miss(node.reason, node.loc)
        return Unknown((), node.reason)

    # --- calls

    def call(self, func: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        """Call any value."""
        if isinstance(func, Func):
            return self.call_function(func, args, kwargs, loc)
        if isinstance(func, Bound):
            return self.call(func.func, [func.self, *args], kwargs, loc)
        if isinstance(func, Partial):
            return self.call(func.func, [*func.args, *args], {**func.kwargs, **kwargs}, loc)
        if isinstance(func, Memo):
            return self.call_memo(func, args, kwargs, loc)
        if isinstance(func, ClassV):
            return self.world.instantiate(self, func, args, kwargs, loc)
        if isinstance(func, Instance):
            return self.world.call_instance(self, func, args, kwargs, loc)
        if isinstance(func, Compiled):
            self.compiling += 1
            try:
                return self.call(func.func, args, kwargs, loc)
            finally:
                self.compiling -= 1
        if isinstance(func, (Configured, JitFunction)):
            return self.world.launch(self, func, args, kwargs, loc)
        if isinstance(func, ExtFunction):
            return self.world.call_extension(self, func, args, kwargs, loc)
        if callable(func) and getattr(func, "__kbh_builtin__", False):
            return func(self, args, kwargs, loc)
        return self.world.call_library(self, func, args, kwargs, loc)

    def call_memo(self, func: Memo, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        try:
            key = (tuple(args), tuple(sorted(kwargs.items())))
            hash(operators.check_key(key))
        except (TypeError, ValueError):
            return self.call(func.func, args, kwargs, loc)
        if key not in func.results:
            func.results[key] = self.call(func.func, args, kwargs, loc)
        return func.results[key]

    def call_function(self, func: Func, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        if func.node.loc[0].language == "cuda":
            return self.cpp.call(func, args, loc)
        if len(self.frames) > MAX_FRAMES:
            self.miss("calls nest too deep", loc)
            return Unknown((), "calls nest too deep")
        self.burn(4)
        env = Env({}, func.env)
        self.bind(func, args, kwargs, env)
        if func.node.generator:
            env.vars["__yielded__"] = []
        frame = Frame(env, self.world.globals_of(func, self), loc, func)
        self.frames.append(frame)
        try:
            signal = self.block(func.node.body or (), frame)
        finally:
            self.frames.pop()
        if func.node.generator:
            return env.vars["__yielded__"]
        return signal.value if isinstance(signal, Returned) else None

    def bind(self, func: Func, args: list[Any], kwargs: dict[str, Any], env: Env) -> None:
        """Arguments to parameters, as Python does; what is missing is unknown."""
        rest = dict(kwargs)
        i = 0
        for param in func.node.params:
            if param.kind == "positional":
                if i < len(args):
                    env.vars[param.name] = args[i]
                    i += 1
                elif param.name in rest:
                    env.vars[param.name] = rest.pop(param.name)
                elif param.name in func.defaults:
                    env.vars[param.name] = func.defaults[param.name]
                else:
                    env.vars[param.name] = Unknown((), f"no argument for {param.name}")
            elif param.kind == "star":
                env.vars[param.name] = tuple(args[i:])
                i = len(args)
            elif param.kind == "keyword":
                default = func.defaults.get(param.name, Unknown((), f"no argument for {param.name}"))
                env.vars[param.name] = rest.pop(param.name, default)
            else:
                env.vars[param.name] = rest
                rest = {}

    # --- the world as seen by libraries

    def contents_of(self, value: Any, depth: int = 0) -> tuple[Content, ...]:
        """The tensor contents a value was computed from."""
        if isinstance(value, Tensor):
            return (value.storage.content,)
        if isinstance(value, Unknown):
            return value.contents
        if isinstance(value, (list, tuple, set)) and depth < 3:
            out: list[Content] = []
            for item in list(value)[:200]:
                for content in self.contents_of(item, depth + 1):
                    if content not in out:
                        out.append(content)
            return tuple(out)
        return ()

    def method(self, owner: Any, name: str) -> Method:
        return Method(owner, name)


def _leaves(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether statements can end the loop around them: a break, a return or an exception, however deep."""
    for node in body:
        if isinstance(node, (ir.Return, ir.Raise)) or isinstance(node, ir.Jump) and node.kind == "break":
            return True
        parts = [getattr(node, name, None) for name in ("body", "orelse", "final")]
        parts += [handler[2] for handler in getattr(node, "handlers", ())]
        if any(_leaves(part) for part in parts if isinstance(part, tuple)):
            return True
    return False


def _names(target: ir.Expr) -> list[str]:
    if isinstance(target, ir.Name):
        return [target.id]
    if isinstance(target, ir.Seq):
        return [n for item in target.items for n in _names(item)]
    return []


STATEMENTS: dict[type, Callable[[Interp, Any, Frame], Any]] = {
    ir.ExprS: Interp.s_expr, ir.Assign: Interp.s_assign, ir.AugAssign: Interp.s_aug, ir.Decl: Interp.s_decl,
    ir.If: Interp.s_if, ir.While: Interp.s_while, ir.For: Interp.s_for, ir.Return: Interp.s_return,
    ir.Jump: Interp.s_jump, ir.Raise: Interp.s_raise, ir.With: Interp.s_with, ir.Try: Interp.s_try,
    ir.Import: Interp.s_import, ir.Scope: Interp.s_scope, ir.Delete: Interp.s_delete, ir.Assert: Interp.s_assert,
    ir.Block: Interp.s_block, ir.FuncDef: Interp.s_func, ir.ClassDef: Interp.s_class, ir.Opaque: Interp.s_opaque,
}  # fmt: skip

EXPRESSIONS: dict[type, Callable[[Interp, Any, Frame], Any]] = {
    ir.Const: Interp.e_const, ir.Name: Interp.e_name, ir.Attr: Interp.e_attr, ir.Index: Interp.e_index,
    ir.SliceE: Interp.e_slice, ir.Star: Interp.e_star, ir.Call: Interp.e_call, ir.Binary: Interp.e_binary,
    ir.Unary: Interp.e_unary, ir.Bool: Interp.e_bool, ir.Compare: Interp.e_compare, ir.Cond: Interp.e_cond,
    ir.Seq: Interp.e_seq, ir.DictE: Interp.e_dict, ir.Comp: Interp.e_comp, ir.Lambda: Interp.e_lambda,
    ir.FString: Interp.e_fstring, ir.AssignE: Interp.e_assign_expr, ir.Opaque: Interp.e_opaque,
}  # fmt: skip
