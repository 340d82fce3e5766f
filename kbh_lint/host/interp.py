"""The host interpreter: runs the Python of a submission with real scalars, strings and containers and abstract tensors.

It executes nothing of the submission: it walks the IR. What it cannot know is `Unknown`; a branch on an unknown is a
decision, remembered by place, so that a run is one path and another run can take the other side. Work is bounded by
fuel; `OutOfFuel` ends a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbh_lint import ir
from kbh_lint.host import (
    asking,
    bounds,
    calls,
    equality,
    exceptions,
    expressions,
    iteration,
    lifetimes,
    prelude,
    remembered,
    rounds,
    statements,
    subscripts,
    unknowns,
)
from kbh_lint.host.frames import BREAK, FULL_ITERATIONS, Frame, OutOfFuel, Raised, Returned, target_names
from kbh_lint.host.lanes import Lanes
from kbh_lint.host.objects import (
    Bound,
    Chance,
    ClassV,
    Compiled,
    Configured,
    ExtFunction,
    Instance,
    Memo,
    Partial,
    find_method,
)
from kbh_lint.host.tensors import Content, Event, Tensor, Unknown
from kbh_lint.source.embedded import Text, doubts
from kbh_lint.values import Env, Func, JitFunction, Sym


class Interp:
    """One run of a submission along one path."""

    def __init__(self, world: Any, fuel: int) -> None:
        self.world = world
        self.fuel = fuel
        self.frames: list[Frame] = []
        self.events: list[Event] = []
        self.call_index = 0
        self.round = 0  # calls of forward so far, over all shapes; 0 while none runs
        self.colliding = False  # sums and samples of changed contents are taken to be equal
        self.around: Any = None  # what the next generator yields to, when that is the body of a with statement
        self.cut = False  # some of what outlives calls was not looked at
        self.rewritten = ""  # code ran that could not be read: why
        self.compared = False  # one was compared with what an earlier call saw
        self.given: set[int] = set()  # storages of inputs and state that calls were given
        self.unread: list[tuple[str, ir.Loc | None]] = []
        self.decided: dict[Any, bool] = {}
        self.asked: dict[Any, int] = {}  # places in this call of forward
        self.capturing: list[Any] = []
        self.trying = 0  # blocks around this place that may catch an exception
        self.handling: list[Any] = []  # the exceptions whose handlers run
        self.compiling = 0
        self.weight = 1
        self.done: dict[Any, tuple[int, int]] = {}  # how often, and with how many operations, a place had its turn
        self.ids: dict[int, tuple[int, Any]] = {}
        self.builtins: dict[str, Any] = {}
        self.notes: list[tuple[str, dict[str, Any], ir.Loc | None]] = []  # facts seen on the way
        self.cpp_side: Any = None  # the C++ host functions, once one was met
        self.lanes = Lanes()
        self.tasks: list[Any] = []  # of asyncio's loop, that have not had their turn
        self.watched: list[Any] = []  # weak references to objects whose end brings something about
        self.dying: list[Any] = []  # what the ends of objects bring about, after this statement
        self.hooks: dict[tuple[str, str], list[Any]] = {}  # hooks of the process, with all they were set to
        self.children: list[tuple[str, str, ir.Loc | None]] = []  # processes that nothing waited for
        self.numbers: dict[int, Any] = {}  # of tensors of one whole number, by storage
        self.plans: dict[int, Any] = {}  # which statements of a generator function yield, by its node
        self.device_memory: dict[int, Tensor] = {}  # __device__ variables, by declaration

    @property
    def cpp(self) -> Any:
        """What runs C++ host functions."""
        if self.cpp_side is None:
            from kbh_lint.host.cpp import Cpp

            self.cpp_side = Cpp(self)
        return self.cpp_side

    # --- bookkeeping

    def burn(self, amount: int = 1) -> None:
        self.fuel -= amount
        if self.fuel < 0:
            raise OutOfFuel

    def miss(self, reason: str, loc: ir.Loc | None) -> None:
        """Remember something that could not be followed."""
        if len(self.unread) < 400:
            self.unread.append((reason, loc))

    def ran_unread(self, reason: str, loc: ir.Loc | None) -> None:
        """Remember code that ran and was not read: any name may mean something else from here on."""
        self.miss(reason, loc)
        self.rewritten = self.rewritten or reason

    def note(self, kind: str, attrs: dict[str, Any], loc: ir.Loc | None) -> None:
        """Remember a fact about the program itself, such as a symbol it reached."""
        if len(self.notes) < 4000:
            self.notes.append((kind, attrs, loc))

    def stack(self) -> tuple[ir.Loc, ...]:
        return tuple(f.loc for f in self.frames if f.loc is not None and f.loc[0].language != prelude.LANGUAGE)

    def emit(self, event: Event) -> None:
        """Record an event, also in a graph that is being captured."""
        event.call = self.call_index
        event.stack = self.stack()
        event.weight = self.weight
        # A set: at every depth of a recursion the place is the same.
        place = (self.round, event.name, event.loc, frozenset(event.stack))
        times, flops = self.done.get(place, (0, 0))
        event.times = times + self.weight
        event.flops = flops + (event.attrs.get("flops") or 0) * self.weight
        self.done[place] = (event.times, event.flops)
        if self.compiling:
            event.attrs["compiled"] = True
        self.burn(3)
        self.lanes.emitted(event, bool(self.capturing))
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
            known = remembered.comparison(self, value.storage.content)
            if known is not None:
                return known
            if "holds" in value.attrs:
                return bool(self.world.settle(self, loc, value.attrs["holds"], (value.storage.content,)))
            value = Unknown((value.storage.content,), "a tensor's value", made=self.round)
        elif type(value) is Chance:
            value = unknowns.of_process(value)
        elif asking.of_library(value) and not equality.is_success(value):
            value = asking.presumed(True)
        if isinstance(value, Unknown):
            self.world.places.setdefault(self.place(loc), loc)
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
        """The truth of an object, as its class says."""
        for name in ("__bool__", "__len__"):
            found = find_method(value, name)
            if found is not None:
                answer = self.call(found, [], {}, loc)
                return isinstance(answer, Instance) or self.truth(answer, loc)
        return value.items is None or bool(value.items)

    def decide(self, key: Any, value: Unknown) -> bool:
        """The side of a branch on an unknown: one a place and run, but for a loop that asks it of many elements.

        No real run answers all elements alike, so the second time one call of a function asks, it is the other side.
        """
        if key not in self.decided or value.why.startswith(asking.MARK):
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
        handler = statements.STATEMENTS.get(type(node))
        if handler is None:
            self.miss(f"statement {type(node).__name__}", node.loc)
            return None
        try:
            signal = handler(self, node, frame)
            if self.dying:
                lifetimes.settle(self)
            return signal
        except (Raised, OutOfFuel, MemoryError):
            raise
        except RecursionError:
            self.miss("recursion too deep", node.loc)
            return None
        except Exception as error:
            if not isinstance(error, bounds.TooLarge):
                exceptions.may_fail(self, type(error).__name__, node.loc)
            self.miss(f"could not follow this statement ({type(error).__name__}: {str(error)[:80]})", node.loc)
            self.havoc(node, frame)
            return None

    def havoc(self, node: ir.Stmt, frame: Frame) -> None:
        """After a statement that could not be followed: its plain targets are unknown."""
        targets = getattr(node, "targets", None) or ([node.target] if hasattr(node, "target") else [])
        for target in targets:
            for name in target_names(target):
                self.store_name(name, Unknown((), "not followed"), frame)

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
                    differing, left = rounds.Differing(self, body, frame), total - index
                    while differing.left and index < total - 1:
                        bind(items[index])
                        index += 1
                        if not differing.next():
                            continue
                        left -= 1
                        signal = self.block(body, frame)
                        if signal is BREAK:
                            return None
                        if isinstance(signal, Returned):
                            return signal
                    self.weight = outer * left
                    bind(items[-1])
                    signal = self.block(body, frame)
                    if signal is BREAK:
                        return None
                    if isinstance(signal, Returned):
                        return signal
                    break
        finally:
            self.weight = outer
        return self.block(orelse, frame)

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
            subscripts.set_item(self, owner, self.eval(target.index, frame), value, target.loc)
        elif isinstance(target, ir.Seq):
            self.unpack(target.items, value, frame, target.loc)
        elif isinstance(target, ir.Star):
            self.assign(target.value, value, frame)

    def unpack(self, targets: tuple[ir.Expr, ...], value: Any, frame: Frame, loc: ir.Loc) -> None:
        items = iteration.iterate(self, value, loc, len(targets))
        items = list(bounds.visited(self, items)) if not isinstance(items, list) else items
        if isinstance(value, (list, tuple)) and (
            len(items) < len(targets) - 1
            or len(items) != len(targets)
            and not any(isinstance(t, ir.Star) for t in targets)
        ):
            exceptions.may_fail(self, "ValueError", loc)
        star = next((i for i, t in enumerate(targets) if isinstance(t, ir.Star)), None)
        if star is not None:
            after = len(targets) - star - 1
            middle = items[star : len(items) - after]
            items = [*items[:star], middle, *items[len(items) - after :]]
        for i, target in enumerate(targets):
            self.assign(target, items[i] if i < len(items) else Unknown((), "not enough values"), frame)

    # --- expressions

    def eval(self, node: ir.Expr, frame: Frame) -> Any:
        return expressions.EXPRESSIONS[type(node)](self, node, frame)

    def arguments(self, node: ir.Call | ir.Launch, frame: Frame) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        for arg in node.args:
            if isinstance(arg, ir.Star):
                args.extend(iteration.materialise(self, self.eval(arg.value, frame), arg.loc))
            else:
                args.append(self.eval(arg, frame))
        kwargs: dict[str, Any] = {}
        for key, value in getattr(node, "keywords", ()):
            got = self.eval(value, frame)
            if key is not None:
                kwargs[key] = got
            else:
                held = subscripts.mapping(self, got, node.loc) or {}
                kwargs.update({k: v for k, v in held.items() if isinstance(k, str)})
        return args, kwargs

    # --- calls

    def call(self, func: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        """Call any value."""
        if isinstance(func, Func):
            return calls.call_function(self, func, args, kwargs, loc)
        if isinstance(func, Bound):
            return self.call(func.func, [func.self, *args], kwargs, loc)
        if isinstance(func, Partial):
            return self.call(func.func, [*func.args, *args], {**func.kwargs, **kwargs}, loc)
        if isinstance(func, Memo):
            return calls.call_memo(self, func, args, kwargs, loc)
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

    # --- the world as seen by libraries

    def contents_of(self, value: Any, depth: int = 0) -> tuple[Content, ...]:
        """The tensor contents a value was computed from."""
        if isinstance(value, Tensor):
            return (value.storage.content,)
        if isinstance(value, Unknown):
            return value.contents
        if isinstance(value, Text):
            value = doubts(value)
        if isinstance(value, (list, tuple, set)) and depth < 3:
            out: list[Content] = []
            for item in list(value)[:200]:
                if item is None or type(item) is int:
                    continue
                for content in self.contents_of(item, depth + 1):
                    if content not in out:
                        out.append(content)
            return tuple(out)
        return ()
