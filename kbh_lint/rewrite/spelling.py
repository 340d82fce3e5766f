"""Other spellings of tensor operations and element types that torch defines to be the same."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import libcst as cst

from kbh_lint.rewrite.nodes import code, expression, plain_arguments
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import HostTransformer, Source, patches, source_of

# Functions of torch whose first argument is a tensor, and which tensors have as a method with the same arguments.
_METHODS = frozenset(
    """abs amax argsort baddbmm bmm clamp cumsum exp flatten gather log logsumexp matmul mm mul permute reshape
    rsqrt sigmoid softmax squeeze sum topk transpose unsqueeze""".split()
)
# Of those the ones that nothing but a tensor has.
_ONLY_TENSORS = frozenset("addmm baddbmm bmm logsumexp matmul mm mv topk".split())
# Overloads with the function's own positional arguments that return one tensor.
_ATEN = {
    "matmul": "matmul.default", "mm": "mm.default", "bmm": "bmm.default", "exp": "exp.default", "relu": "relu.default",
    "sigmoid": "sigmoid.default", "empty_like": "empty_like.default", "zeros_like": "zeros_like.default",
}  # fmt: skip
_DTYPES = {
    "float16": "half",
    "float32": "float",
    "float64": "double",
    "int64": "long",
    "int32": "int",
    "int16": "short",
}
_SHORT = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "double": "float64", "long": "int64",
          "int": "int32"}  # fmt: skip


def operator_calls(program: Program, rng: Random) -> Program:
    """`a @ b` becomes `operator.matmul(a, b)`, and so do sums and products of two values."""
    source = source_of(program)
    tool = source.fresh(rng)
    return _Operators(source, tool).run(program, "the host code multiplies nothing", f"import operator as {tool}\n")


class _Operators(HostTransformer):
    def __init__(self, source: Source, tool: str) -> None:
        super().__init__(source)
        self.tool = tool

    def leave_BinaryOperation(
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BaseExpression:
        name = {cst.MatrixMultiply: "matmul", cst.Multiply: "mul", cst.FloorDivide: "floordiv"}.get(
            type(original_node.operator)
        )
        if name is None:
            return updated_node
        self.count += 1
        return expression(f"{self.tool}.{name}(({code(updated_node.left)}), ({code(updated_node.right)}))")


def method_calls(program: Program, rng: Random) -> Program:
    """`torch.matmul(a, b)` becomes `a.matmul(b)`."""
    source = source_of(program)
    if patches(source):
        raise NotApplicable("the program changes attributes of modules")
    return _Methods(source).run(program, "no function of torch has a method of the same name here")


class _Methods(HostTransformer):
    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        path = self.source.path(original_node.func) or ""
        home, _, name = path.rpartition(".")
        args = updated_node.args
        if home != "torch" or name not in _METHODS or not args or args[0].keyword or args[0].star:
            return updated_node
        self.count += 1
        return expression(f"({code(args[0].value)}).{name}({_rest(args[1:])})")


def _rest(args: Sequence[cst.Arg]) -> str:
    return ", ".join(code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in args)


def function_calls(program: Program, rng: Random) -> Program:
    """`a.matmul(b)` becomes `torch.matmul(a, b)`, for methods that only tensors have."""
    source = source_of(program)
    name = next((name for name, path in source.imports.items() if path == "torch"), None)
    if name is None or patches(source):
        raise NotApplicable("torch is not imported as a module, or is changed")
    return _Functions(source, name).run(program, "no tensor method has a function of the same name here")


class _Functions(HostTransformer):
    def __init__(self, source: Source, torch: str) -> None:
        super().__init__(source)
        self.torch = torch

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func = updated_node.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in _ONLY_TENSORS:
            return updated_node
        receiver = original_node.func.value if isinstance(original_node.func, cst.Attribute) else func.value
        if self.source.bindings[func.attr.value] or _is_module(self.source, receiver):
            return updated_node
        self.count += 1
        rest = _rest(updated_node.args)
        return expression(f"{self.torch}.{func.attr.value}({code(func.value)}{', ' + rest if rest else ''})")


def _is_module(source: Source, node: cst.BaseExpression) -> bool:
    """Whether a receiver may be no tensor: a module, an extension that was built, an object of the submission."""
    if isinstance(node, (cst.Name, cst.Attribute)):
        return True if source.path(node) else not (isinstance(node, cst.Name) and _is_parameter(source, node.value))
    return not isinstance(node, (cst.BinaryOperation, cst.Subscript))


def _is_parameter(source: Source, name: str) -> bool:
    found = _Inputs()
    source.module.visit(found)
    return name in found.names and source.bindings[name] == found.names.count(name)


class _Inputs(cst.CSTVisitor):
    """The arguments of `forward`: tensors."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        if node.name.value == "forward":
            self.names += [p.name.value for p in node.params.params[1:]]


def torch_ops(program: Program, rng: Random) -> Program:
    """`torch.matmul(a, b)` becomes `torch.ops.aten.matmul.default(a, b)`."""
    source = source_of(program)
    if patches(source):
        raise NotApplicable("the program changes attributes of modules")
    return _Ops(source).run(program, "no torch function here has such an overload")


class _Ops(HostTransformer):
    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        path = self.source.path(original_node.func) or ""
        home, _, name = path.rpartition(".")
        func = updated_node.func
        if home != "torch" or name not in _ATEN or not isinstance(func, cst.Attribute):
            return updated_node
        if not plain_arguments(updated_node.args):
            return updated_node
        self.count += 1
        return updated_node.with_changes(func=expression(f"{code(func.value)}.ops.aten.{_ATEN[name]}"))


def dtype_names(program: Program, rng: Random) -> Program:
    """`torch.float32` becomes `torch.float`, and so on."""
    source = source_of(program)
    return _Dtypes(source).run(program, "no element type here has a second name")


class _Dtypes(HostTransformer):
    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        path = self.source.path(original_node) or ""
        home, _, name = path.rpartition(".")
        if home != "torch" or name not in _DTYPES:
            return updated_node
        self.count += 1
        return updated_node.with_changes(attr=cst.Name(_DTYPES[name]))


def cast_methods(program: Program, rng: Random) -> Program:
    """`x.float()` becomes `x.to(torch.float32)`, `x.to(torch.bfloat16)` becomes `x.to(dtype=...)`."""
    source = source_of(program)
    name = next((name for name, path in source.imports.items() if path == "torch"), None)
    if name is None:
        raise NotApplicable("torch is not imported as a module")
    return _Casts(source, name).run(program, "nothing is cast on the host")


class _Casts(HostTransformer):
    def __init__(self, source: Source, torch: str) -> None:
        super().__init__(source)
        self.torch = torch

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func = updated_node.func
        if not isinstance(func, cst.Attribute) or self.source.path(original_node.func) is not None:
            return updated_node
        name, args = func.attr.value, updated_node.args
        if name in _SHORT and not args and not self.source.bindings[name]:
            self.count += 1
            return expression(f"({code(func.value)}).to({self.torch}.{_SHORT[name]})")
        if name == "to" and len(args) == 1 and args[0].keyword is None and not args[0].star:
            path = self.source.path(args[0].value) or ""
            if path.startswith("torch.") and path.split(".")[-1][:4] in ("floa", "bflo", "int3", "int6", "uint"):
                self.count += 1
                return expression(f"({code(func.value)}).to(dtype={code(args[0].value)})")
        return updated_node


REWRITES = (
    Rewrite("operator-calls", "products and integer quotients are functions of operator", operator_calls),
    Rewrite("method-calls", "functions of torch are called as methods", method_calls),
    Rewrite("function-calls", "methods of the inputs are called as functions of torch", function_calls),
    Rewrite("torch-ops", "functions of torch are called as torch.ops.aten overloads", torch_ops),
    Rewrite("dtype-names", "element types by their other names", dtype_names),
    Rewrite("cast-methods", "casts in another form", cast_methods),
)
