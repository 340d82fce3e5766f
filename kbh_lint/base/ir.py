"""The one intermediate form that Python, Triton, CUDA C++ and inline PTX lower to.

It keeps the shape of the program (functions, loops, calls), not of the language: a C++ `a->b` and a Python
`a.b` are both an `Attr`. A node's `loc` is a tuple whose first item is the `Unit` it came from; only the unit
knows how to turn the rest into a line and a column (`Unit.span(loc)`), so lowering never computes a position.
The node types are a closed set, which stands in one file so that whoever walks it sees all of them.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Protocol, Union

from kbh_lint.base.records import dataclass
from kbh_lint.source.spans import Span


class Unit(Protocol):
    """A text that was lowered: a Python file, or C++ text rebuilt from strings inside one."""

    language: str  # "python" or "cuda"

    def span(self, loc: Loc) -> Span:
        """The place of `loc` in the file the reader can open."""
        ...


# (unit, ...): for Python (unit, line, column, end line, end column); for C++ (unit, start offset, end offset).
Loc = tuple[Any, ...]


# --- expressions -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Const:
    """A literal: int, float, complex, str, bytes, bool, None or Ellipsis. C++ nullptr is None.

    `dt` is the type of a C++ integer that is no `int`.
    """

    value: Any
    loc: Loc
    dt: str = ""


@dataclass(slots=True)
class Name:
    """A name. C++ keeps its qualification in one string: `at::cuda::getCurrentCUDAStream`."""

    id: str
    loc: Loc


VARIABLE = "<value>"


class TemplateName(str):
    """A member that has template arguments of its own, in a qualified name: `rebind<U>` in `A<T>::rebind<U>`.

    The string is its whole text, `name` and `args` are `rebind` and (U,).
    """

    __slots__ = ("args", "name")

    name: str
    args: tuple[Expr, ...]

    @staticmethod
    def made(text: str, name: str, args: tuple[Expr, ...]) -> TemplateName:
        """The member that is written `text`: `name`, with the template arguments `args`."""
        made = TemplateName(text)
        made.name, made.args = name, args
        return made


@dataclass(slots=True)
class TypeRef:
    """A C++ type, or a template-id used as a value (`run<Tile128>`), or a plain type name in an expression.

    `name` is without `const`, `typename`, `struct` and reference or pointer marks: `unsigned int` is
    `unsigned int`, `const float* __restrict__` is name `float`, pointers 1. `member` holds what follows a
    template-id: `GemmCfg<A, B>::Gemm` is name `GemmCfg`, args (A, B), member ("Gemm",), each a `TemplateName` where it
    has arguments itself.
    """

    name: str
    args: tuple[Expr, ...]
    loc: Loc
    member: tuple[str, ...] = ()
    pointers: int = 0
    reference: bool = False
    const: bool = False
    dims: tuple[Expr, ...] = ()

    def inside(self, member: tuple[str, ...]) -> TypeRef:
        """This type with other members after it; `dataclasses.replace` takes six times as long."""
        return TypeRef(self.name, self.args, self.loc, member, self.pointers, self.reference, self.const, self.dims)


@dataclass(slots=True)
class Attr:
    """`value.name`, `value->name`."""

    value: Expr
    name: str
    loc: Loc
    args: tuple[Expr, ...] | None = None  # explicit template arguments: x.data_ptr<float>


@dataclass(slots=True)
class Index:
    """`value[index]`. Several indices are one TupleE."""

    value: Expr
    index: Expr
    loc: Loc


@dataclass(slots=True)
class SliceE:
    """`lower:upper:step` inside an index."""

    lower: Expr | None
    upper: Expr | None
    step: Expr | None
    loc: Loc


@dataclass(slots=True)
class Star:
    """`*value` among arguments, items or targets; `**value` is a keyword without a name."""

    value: Expr
    loc: Loc


@dataclass(slots=True)
class Call:
    """`func(args, key=value)`. C++ constructor calls `T(a)` and `T{a}` are calls of a Name or TypeRef too."""

    func: Expr
    args: tuple[Expr, ...]
    keywords: tuple[tuple[str | None, Expr], ...]  # a None key is `**value`
    loc: Loc
    braces: bool = False  # `T{a}`


@dataclass(slots=True)
class Launch:
    """`kernel<<<grid, block, shared, stream>>>(args)`; missing configuration items are None."""

    func: Expr
    grid: Expr | None
    block: Expr | None
    shared: Expr | None
    stream: Expr | None
    args: tuple[Expr, ...]
    loc: Loc


@dataclass(slots=True)
class Binary:
    """`left op right`; op in + - * / // % ** @ << >> & | ^ and `,` (C++ comma)."""

    op: str
    left: Expr
    right: Expr
    loc: Loc


@dataclass(slots=True)
class Unary:
    """op in `-`, `+`, `~`, `not`; C++ also `*` (dereference) and `&` (address of)."""

    op: str
    value: Expr
    loc: Loc


@dataclass(slots=True)
class Bool:
    """`and` / `or` over two or more values, evaluated left to right with short circuit."""

    op: str
    values: tuple[Expr, ...]
    loc: Loc


@dataclass(slots=True)
class Compare:
    """`left op1 right1 op2 right2 ...`; op in == != < <= > >= is `is not` in `not in`."""

    left: Expr
    ops: tuple[str, ...]
    rights: tuple[Expr, ...]
    loc: Loc


@dataclass(slots=True)
class Cond:
    """`yes if test else no`, `test ? yes : no`."""

    test: Expr
    yes: Expr
    no: Expr
    loc: Loc


@dataclass(slots=True)
class Seq:
    """A display: kind in tuple, list, set; braces of C++ are `init`, the names of its `auto& [a, b]` are `places`."""

    kind: str
    items: tuple[Expr, ...]
    loc: Loc


@dataclass(slots=True)
class DictE:
    """`{key: value}`; a None key is `**value`."""

    keys: tuple[Expr | None, ...]
    values: tuple[Expr, ...]
    loc: Loc


@dataclass(slots=True)
class Comp:
    """A comprehension; kind in list, set, dict, generator. For dict, `key` is the key and `item` the value."""

    kind: str
    key: Expr | None
    item: Expr
    clauses: tuple[tuple[Expr, Expr, tuple[Expr, ...]], ...]  # (target, iterable, conditions)
    loc: Loc


@dataclass(slots=True)
class Lambda:
    """An anonymous function; its body is one Return in Python, statements in C++."""

    func: FuncDef
    loc: Loc


@dataclass(slots=True)
class FString:
    """An f-string: parts are Const strings and (expression, conversion, format spec) triples."""

    parts: tuple[Union[Const, tuple[Any, str, Any]], ...]
    loc: Loc


@dataclass(slots=True)
class Cast:
    """A C++ cast; kind in c, static, reinterpret, const, dynamic."""

    kind: str
    type: TypeRef
    value: Expr
    loc: Loc


@dataclass(slots=True)
class AssignE:
    """An assignment used as an expression: Python `:=`, C++ `a = b`, `a += b`, `++a` (op `+`, value 1).

    `op` is "" for a plain one. `post` is true for `a++`: the value of the expression is the old one.
    """

    target: Expr
    op: str
    value: Expr
    loc: Loc
    post: bool = False


@dataclass(slots=True)
class Opaque:
    """Something the front end could not read; `reason` says what. Its children are kept, so that facts inside
    it are not lost."""

    reason: str
    children: tuple[Any, ...]
    loc: Loc


Expr = Union[
    Const, Name, TypeRef, Attr, Index, SliceE, Star, Call, Launch, Binary, Unary, Bool, Compare, Cond, Seq, DictE,
    Comp, Lambda, FString, Cast, AssignE, Opaque,
]  # fmt: skip


# --- statements --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Assign:
    """`target1 = target2 = value`."""

    targets: tuple[Expr, ...]
    value: Expr
    loc: Loc
    annotation: Expr | None = None


@dataclass(slots=True)
class AugAssign:
    """`target op= value`."""

    target: Expr
    op: str
    value: Expr
    loc: Loc


@dataclass(slots=True)
class Decl:
    """A C++ variable declaration, one a declarator; also a Python annotated name without a value.

    `init` is the initialiser (`= e`), a `Seq("init")` for braces, or a `Seq("ctor")` for `T x(a, b)`.
    `storage` holds words such as static, extern, constexpr, __shared__, __device__, __constant__.
    """

    name: str
    type: TypeRef | None
    init: Expr | None
    storage: frozenset[str]
    loc: Loc
    annotation: Expr | None = None  # Python's
    bits: Expr | None = None  # the width of a bit field


@dataclass(slots=True)
class ExprS:
    """An expression as a statement."""

    value: Expr
    loc: Loc


@dataclass(slots=True)
class If:
    """`constexpr` marks C++ `if constexpr`. C++ `if (init; test)` puts the init before it in the block."""

    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    loc: Loc
    constexpr: bool = False


@dataclass(slots=True)
class While:
    """`once` marks C++ `do ... while`: the body runs before the first test."""

    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    loc: Loc
    once: bool = False


@dataclass(slots=True)
class For:
    """`for target in iterable`; C++ range-for too, whose target may be a `reference` to the elements."""

    target: Expr
    iterable: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    loc: Loc
    reference: bool = False


@dataclass(slots=True)
class CFor:
    """`for (init; test; step) body`."""

    init: tuple[Stmt, ...]
    test: Expr | None
    step: Expr | None
    body: tuple[Stmt, ...]
    loc: Loc


@dataclass(slots=True)
class Switch:
    """C++ `switch`: (case values, statements) in order; an empty tuple of values is `default`."""

    value: Expr
    cases: tuple[tuple[tuple[Expr, ...], tuple[Stmt, ...]], ...]
    loc: Loc


@dataclass(slots=True)
class Return:
    value: Expr | None
    loc: Loc


@dataclass(slots=True)
class Jump:
    """kind in break, continue, goto; a goto has its `label`."""

    kind: str
    loc: Loc
    label: str = ""


@dataclass(slots=True)
class Raise:
    value: Expr | None
    loc: Loc


@dataclass(slots=True)
class With:
    items: tuple[tuple[Expr, Expr | None], ...]
    body: tuple[Stmt, ...]
    loc: Loc


@dataclass(slots=True)
class Try:
    body: tuple[Stmt, ...]
    handlers: tuple[tuple[Expr | None, str | None, tuple[Stmt, ...]], ...]
    orelse: tuple[Stmt, ...]
    final: tuple[Stmt, ...]
    loc: Loc


@dataclass(slots=True)
class Import:
    """`import module as asname` when name is None, else `from module import name as asname`; level counts dots.
    In C++ an `#include` is an Import of the header's path."""

    module: str
    name: str | None
    asname: str | None
    level: int
    loc: Loc


@dataclass(slots=True)
class Scope:
    """kind in global, nonlocal."""

    kind: str
    names: tuple[str, ...]
    loc: Loc


@dataclass(slots=True)
class Delete:
    targets: tuple[Expr, ...]
    loc: Loc


@dataclass(slots=True)
class Assert:
    test: Expr
    loc: Loc


@dataclass(slots=True)
class Block:
    """A C++ compound statement with its own scope."""

    body: tuple[Stmt, ...]
    loc: Loc


@dataclass(slots=True)
class Using:
    """C++ `using name = type;` or `typedef`; `using namespace ns;` has no type and `namespace` set."""

    name: str
    type: TypeRef | None
    loc: Loc
    namespace: str | None = None
    template: tuple[TemplateParam, ...] = ()


@dataclass(slots=True)
class Asm:
    """Inline PTX: the joined template text and its operands as (constraint, expression)."""

    template: Expr
    outputs: tuple[tuple[str, Expr], ...]
    inputs: tuple[tuple[str, Expr], ...]
    loc: Loc


@dataclass(slots=True)
class Param:
    """kind in positional, keyword (only), star, doublestar. `type` is an annotation or a TypeRef."""

    name: str
    type: Expr | None
    default: Expr | None
    kind: str
    loc: Loc


@dataclass(slots=True)
class TemplateParam:
    """kind in type, value, template; `pack` for `...`."""

    kind: str
    name: str
    default: Expr | None
    pack: bool = False


@dataclass(slots=True)
class Capture:
    """What a C++ lambda takes from around it: a variable of that name (which `this` is too), or the value of `init`."""

    name: str
    reference: bool
    init: Expr | None
    loc: Loc


@dataclass(slots=True)
class FuncDef:
    """A function. `kind` in python, lambda, host, global (a CUDA kernel), device, method.

    `captures` are those of a C++ lambda; with `[=]` and `[&]` all names that it uses, variables around it or not.
    `explicit` marks a C++ specialisation, `template <> f<64>`, whose arguments are in `specialization`: as many as are
    written. `attributes` holds C++ attribute words that were blanked for the parser (`__launch_bounds__(128)` ...).
    `body` is None for a declaration without a body.
    """

    name: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...] | None
    loc: Loc
    kind: str = "python"
    decorators: tuple[Expr, ...] = ()
    returns: Expr | None = None
    template: tuple[TemplateParam, ...] = ()
    attributes: tuple[str, ...] = ()
    generator: bool = False
    coroutine: bool = False
    doc: str | None = None
    specialization: tuple[Expr, ...] = ()
    explicit: bool = False
    captures: tuple[Capture, ...] = ()


@dataclass(slots=True)
class ClassDef:
    """A class or struct: members are statements (FuncDef, Assign, Decl, Using, ClassDef).

    A variable template of C++ is a class template with the one constant `VARIABLE`.
    """

    name: str
    bases: tuple[Expr, ...]
    body: tuple[Stmt, ...]
    loc: Loc
    decorators: tuple[Expr, ...] = ()
    keywords: tuple[tuple[str | None, Expr], ...] = ()
    template: tuple[TemplateParam, ...] = ()
    specialization: tuple[Expr, ...] = ()
    explicit: bool = False  # also `template <> struct S<>`, of which `specialization` is empty


Stmt = Union[
    Assign, AugAssign, Decl, ExprS, If, While, For, CFor, Switch, Return, Jump, Raise, With, Try, Import, Scope,
    Delete, Assert, Block, Using, Asm, FuncDef, ClassDef, Opaque,
]  # fmt: skip


@dataclass(slots=True)
class Module:
    """A lowered text: its statements, and what could not be read."""

    unit: Any
    body: tuple[Stmt, ...]
    doc: str | None = None
    unread: list[tuple[str, Loc]] = field(default_factory=list)
