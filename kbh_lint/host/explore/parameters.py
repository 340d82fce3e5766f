"""What a parameter of an entry point takes, from its annotation, its default and what the body does with it.

A deck that names entry points of its own (`run`, `prefill`, `Model.step`) gives no shapes: a parameter that is sized,
sliced or multiplied is a tensor, one that is asked for text keys a dict of tensors, one that is iterated a list, one
that counts iterations or sizes a number. What is passed on to another function of the file is what that one takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.frontends.walk import walk

MAX_PASSED_ON = 3
MAX_KEYS = 16
KINDS = ("tensor", "list", "tuple", "dict", "int", "float", "bool", "str", "object", "default", "unknown")

# Of a tensor, and of nothing else that is passed around.
_TENSOR = frozenset(
    "shape dtype device size stride numel dim ndim data_ptr is_cuda is_contiguous contiguous view reshape clone copy_ "
    "_version untyped_storage transpose permute unsqueeze squeeze float half bfloat16 sum mean amax max min T mT t "
    "flatten expand new_empty new_zeros detach item tolist scatter_ index_copy_ requires_grad storage_offset type_as "
    "element_size masked_fill nbytes itemsize is_floating_point narrow chunk split unbind".split()
)
_SIZES = frozenset(
    "range torch.zeros torch.empty torch.ones torch.randn torch.rand torch.full torch.arange torch.eye "
    "torch.manual_seed torch.cuda.manual_seed triton.cdiv triton.next_power_of_2 math.sqrt math.ceil math.log2 "
    "int".split()
)
_COUNTS = frozenset(
    "n num size len length pos seed step steps horizon count dim idx index layer rank id k batch".split()
)
_PLURAL_OF_INDICES = frozenset("indices ids idx positions lens lengths offsets table tables slots seqlens".split())


@dataclass(slots=True)
class Param:
    """What a parameter takes. `keys` are those of a dict, `attrs` the attributes that an object is asked for, `methods`
    those of them that are called, `rank` the least number of dimensions that a tensor has (0: nothing says), `exact`
    whether it has no more."""

    name: str
    kind: str
    dtype: str = "f32"
    keys: tuple[str, ...] = ()
    attrs: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()
    rank: int = 0
    exact: bool = False
    keyword: bool = False
    cls: str = ""  # the class that the annotation names
    text: str = ""  # of a string that is compared


@dataclass(slots=True)
class _Uses:
    """What the body of a function does with one parameter (see `Param`)."""

    attrs: set[str] = field(default_factory=set)
    methods: set[str] = field(default_factory=set)
    keys: dict[str, None] = field(default_factory=dict)
    texts: dict[str, None] = field(default_factory=dict)
    rank: int = 0
    exact: bool = False
    mapping: bool = False
    iterated: bool = False
    called: bool = False
    counts: bool = False

    def add(self, other: _Uses) -> None:
        """Merges other uses of the same parameter into these."""
        self.attrs |= other.attrs
        self.methods |= other.methods
        self.keys |= other.keys
        self.texts |= other.texts
        self.rank, self.exact = max(self.rank, other.rank), self.exact or other.exact
        self.mapping, self.iterated = self.mapping or other.mapping, self.iterated or other.iterated
        self.called, self.counts = self.called or other.called, self.counts or other.counts


_Own = Callable[[object], bool]  # whether a node is the name that is looked at
Functions = Mapping[str, ir.FuncDef]  # of a file, by bare name; methods too


def parameters(func: ir.FuncDef, functions: Functions, method: bool) -> list[Param]:
    """Returns the parameters that a caller must or may pass: without `self`, `*args` and `**kwargs`."""
    given = [p for p in func.params if p.kind in ("positional", "keyword")]
    return [_param(p, func, functions) for p in given[1 if method else 0 :]]


def _param(param: ir.Param, func: ir.FuncDef, functions: Functions) -> Param:
    uses = _uses(param.name, func, functions, 0)
    made = Param(param.name, "unknown", keyword=param.kind == "keyword", attrs=frozenset(uses.attrs))
    made.methods = frozenset(uses.methods)
    made.keys = tuple(uses.keys)[:MAX_KEYS]
    made.rank, made.exact = uses.rank, uses.exact
    made.text = next(iter(uses.texts), "")
    tokens = param.name.lower().split("_")
    made.dtype = "i64" if _PLURAL_OF_INDICES & set(tokens) else "f32"
    default = param.default
    if default is not None and not (isinstance(default, ir.Const) and default.value is None):
        made.kind = "default"
        return made
    said = annotated(param.type)
    told = said[0] if said else _by_use(uses, tokens)
    shown = bool(said or uses.attrs & _TENSOR or uses.rank or made.keys)
    # None stands for what the function makes itself, unless it takes tensors there
    left_out = default is not None and not (shown and told in ("tensor", "dict", "list", "tuple"))
    made.kind = "default" if left_out else told
    made.cls = said[1] if said and said[0] != "tensor" else ""
    made.dtype = (_TENSORS.get(said[1]) if said else "") or made.dtype
    if made.kind == "dict" and not made.keys:
        made.keys = ("first", "second")
    return made


def _by_use(uses: _Uses, tokens: list[str]) -> str:
    if uses.mapping or uses.keys:
        return "dict"
    if uses.attrs & _TENSOR or uses.rank:
        return "list" if uses.iterated and not uses.attrs & _TENSOR and not uses.exact else "tensor"
    if uses.attrs or uses.called:
        return "object"
    if uses.counts or counts(tokens):
        return "int"
    if uses.texts:
        return "str"
    return "list" if uses.iterated else "tensor"


def counts(tokens: list[str]) -> bool:
    """Whether the words of a parameter's name say that it is a count or position: `num_heads`, `start_pos`."""
    return tokens[-1] in _COUNTS or tokens[0] in ("n", "num", "max", "min")


_NAMED = {
    "int": "int", "float": "float", "bool": "bool", "str": "str",
    "list": "list", "List": "list", "Sequence": "list", "Iterable": "list", "tuple": "tuple", "Tuple": "tuple",
    "dict": "dict", "Dict": "dict", "Mapping": "dict",
}  # fmt: skip
# Classes of tensors, and what is in them where they say so.
_TENSORS = {
    "Tensor": "", "Parameter": "", "FloatTensor": "f32", "DoubleTensor": "f64", "HalfTensor": "f16",
    "BFloat16Tensor": "bf16", "LongTensor": "i64", "IntTensor": "i32", "ShortTensor": "i16", "CharTensor": "i8",
    "ByteTensor": "u8", "BoolTensor": "bool",
}  # fmt: skip


def annotated(node: object) -> tuple[str, str] | None:
    """Returns the kind of value that an annotation names, and the class name for tensors and unknown classes; None
    where it says nothing."""
    if isinstance(node, ir.Const) and isinstance(node.value, str):
        word = node.value.replace("Optional[", "").replace("|", " ").split("[")[0].split()
        last = word[0].rpartition(".")[2].rstrip("]") if word else ""
        return _named(last) if last.isidentifier() else None
    if isinstance(node, ir.Binary) and node.op == "|":
        return annotated(node.left) or annotated(node.right)
    if isinstance(node, ir.Index):
        outer = _last(node.value)
        if outer in ("Optional", "Union", "Annotated", "Final"):
            inner = node.index.items if isinstance(node.index, ir.Seq) else (node.index,)
            return next((said for said in map(annotated, inner) if said), None)
        return annotated(node.value)
    return _named(_last(node))


def _named(name: str) -> tuple[str, str] | None:
    if name in _TENSORS:
        return "tensor", name
    if name in _NAMED:
        return _NAMED[name], ""
    return None if name in ("", "Any", "object", "None", "Callable") else ("object", name)


def _last(node: object) -> str:
    return node.id if isinstance(node, ir.Name) else node.name if isinstance(node, ir.Attr) else ""


def dotted(node: object) -> str:
    """Returns the dotted name of a chain of attributes, as `torch.zeros`; empty for anything else."""
    if isinstance(node, ir.Attr):
        before = dotted(node.value)
        return f"{before}.{node.name}" if before else ""
    return node.id if isinstance(node, ir.Name) else ""


def _uses(name: str, func: ir.FuncDef, functions: Functions, depth: int) -> _Uses:
    """What a body does with a name."""
    found = _Uses()

    def own(node: object) -> bool:
        return isinstance(node, ir.Name) and node.id == name

    for node in walk(func.body or ()):
        if isinstance(node, ir.Attr) and own(node.value):
            found.attrs.add(node.name)
        elif isinstance(node, ir.Index):
            _subscript(found, node, own)
        elif isinstance(node, ir.Assign) and isinstance(node.targets[0], ir.Seq) and _is_shape(node.value, own):
            found.rank, found.exact = len(node.targets[0].items), True
        elif isinstance(node, (ir.For, ir.Comp)):
            clauses = [node.iterable] if isinstance(node, ir.For) else [clause[1] for clause in node.clauses]
            for iterable in clauses:
                found.iterated |= _iterates(iterable, own)
        elif isinstance(node, ir.Compare):
            _compared(found, node, own)
        elif isinstance(node, ir.Call):
            _call(found, node, own, functions, depth)
    if {"items", "keys", "values"} & found.attrs:
        found.mapping = True
    if found.mapping or found.keys:
        found.attrs -= {"get", "items", "keys", "values", "setdefault", "pop", "update"}
    return found


def _subscript(found: _Uses, node: ir.Index, own: _Own) -> None:
    if own(node.value):
        if isinstance(node.index, ir.Const) and isinstance(node.index.value, str):
            found.keys[node.index.value] = None
        elif isinstance(node.index, ir.Seq):
            found.rank = max(found.rank, sum(1 for item in node.index.items if not isinstance(item, ir.Const)))
    elif _is_shape(node.value, own):
        found.rank = max(found.rank, _at_least(node.index))


def _is_shape(node: object, own: _Own) -> bool:
    """`x.shape` and `x.size()`."""
    if isinstance(node, ir.Call) and not node.args:
        node = node.func if isinstance(node.func, ir.Attr) and node.func.name == "size" else None
        return node is not None and own(node.value)
    return isinstance(node, ir.Attr) and node.name == "shape" and own(node.value)


def _at_least(index: object) -> int:
    """How many dimensions a tensor has at least whose dimension `index` is asked for."""
    if isinstance(index, ir.Unary) and index.op == "-" and isinstance(index.value, ir.Const):
        return index.value.value if type(index.value.value) is int and index.value.value < 8 else 0
    value = index.value if isinstance(index, ir.Const) else None
    return (-value if value < 0 else value + 1) if type(value) is int and abs(value) < 8 else 0


def _iterates(node: object, own: _Own) -> bool:
    if isinstance(node, ir.Call) and _last(node.func) in ("enumerate", "zip", "reversed", "list", "tuple", "iter"):
        return any(_iterates(arg, own) for arg in node.args)
    return bool(own(node))


def _compared(found: _Uses, node: ir.Compare, own: _Own) -> None:
    sides = (node.left, *node.rights)
    consts = [side.value for side in sides if isinstance(side, ir.Const)]
    if "in" in node.ops or "not in" in node.ops:
        if own(node.rights[-1]):
            found.keys |= {value: None for value in consts if isinstance(value, str)}
    elif any(map(own, sides)):
        found.texts |= {value: None for value in consts if isinstance(value, str)}
        found.counts |= any(type(value) is int for value in consts)


def _call(found: _Uses, node: ir.Call, own: _Own, functions: Functions, depth: int) -> None:
    if own(node.func):
        found.called = True
    owner = node.func.value if isinstance(node.func, ir.Attr) else None
    name = _last(node.func)
    if own(owner):
        found.methods.add(name)
    if own(owner) and name in ("size", "stride") and node.args:
        found.rank = max(found.rank, _at_least(node.args[0]))
    if own(owner) and name in ("get", "pop", "setdefault") and node.args and isinstance(node.args[0], ir.Const):
        found.keys |= {node.args[0].value: None} if isinstance(node.args[0].value, str) else {}
    if dotted(node.func) in _SIZES:
        found.counts |= any(_plainly_in(arg, own) for arg in node.args)
    target = functions.get(name)
    if target is None or depth >= MAX_PASSED_ON:
        return
    params = [p.name for p in target.params if p.kind == "positional"]
    if isinstance(node.func, ir.Attr) and params[:1] == ["self"]:
        params = params[1:]
    for param, arg in [*zip(params, node.args, strict=False), *node.keywords]:
        if param is not None and own(arg):
            found.add(_uses(param, target, functions, depth + 1))


def _plainly_in(node: object, own: _Own) -> bool:
    """Whether a number is computed from a name itself, not from what it is asked for."""
    if isinstance(node, (ir.Binary, ir.Unary, ir.Seq)):
        parts = {ir.Binary: ("left", "right"), ir.Unary: ("value",)}.get(type(node), ())
        items: Iterable[Any] = node.items if isinstance(node, ir.Seq) else [getattr(node, part) for part in parts]
        return any(_plainly_in(item, own) for item in items)
    return bool(own(node))
