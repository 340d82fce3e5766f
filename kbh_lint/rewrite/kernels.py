"""Rewrites inside Triton kernels."""

from __future__ import annotations

from random import Random

import libcst as cst

from kbh_lint.rewrite.nodes import code, expression, plain_arguments, statements
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import Source, Transformer, insert, source_of


class KernelTransformer(Transformer):
    """Visits the bodies of `@triton.jit` functions only. `tl` is the file's name for triton.language."""

    def __init__(self, source: Source, rng: Random | None = None) -> None:
        super().__init__(source, rng)
        self.inside = 0
        found = [name for name, path in source.imports.items() if path == "triton.language"]
        if not found or not any(path == "triton" for path in source.imports.values()):
            raise NotApplicable("the file has no Triton kernel")
        self.tl = found[0]
        self.triton = next(name for name, path in source.imports.items() if path == "triton")

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool | None:
        self.inside += self._is_kernel(node)
        return True

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        self.inside -= self._is_kernel(original_node)
        return updated_node

    def visit_Decorator(self, node: cst.Decorator) -> bool | None:
        return False

    def visit_Annotation(self, node: cst.Annotation) -> bool | None:
        return False

    def _is_kernel(self, node: cst.FunctionDef) -> bool:
        return any(self.source.path(d.decorator) == "triton.jit" for d in node.decorators)

    def put(self, module: cst.Module, helper: str) -> cst.Module:
        """Device functions stand before the first function that stands behind the imports of Triton."""
        names = {self.tl, self.triton}
        first = max((i for i, s in enumerate(module.body) if _bound(s) & names), default=-1) + 1
        behind = enumerate(module.body[first:], first)
        defined = (i for i, s in behind if isinstance(s, (cst.FunctionDef, cst.ClassDef)))
        return insert(module, next(defined, len(module.body)), helper)


def _bound(statement: cst.BaseStatement) -> set[str]:
    """The names that an import binds."""
    found: set[str] = set()
    for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
        if isinstance(part, (cst.Import, cst.ImportFrom)) and not isinstance(part.names, cst.ImportStar):
            found |= {a.evaluated_alias or a.evaluated_name.partition(".")[0] for a in part.names}
    return found


def cast_functions(program: Program, rng: Random) -> Program:
    """`x.to(tl.bfloat16)` becomes `tl.cast(x, tl.bfloat16)`."""
    source = source_of(program)
    return _Cast(source, None).run(program, "no kernel casts")


def cast_helpers(program: Program, rng: Random) -> Program:
    """`x.to(tl.bfloat16)` in a kernel becomes a call of a helper kernel."""
    source = source_of(program)
    name = source.fresh(rng)
    work = _Cast(source, name)
    helper = f"\n\n@{work.triton}.jit\ndef {name}(v, t: {work.tl}.constexpr):\n    return v.to(t)\n"
    return work.run(program, "no kernel casts", helper)


class _Cast(KernelTransformer):
    def __init__(self, source: Source, helper: str | None) -> None:
        super().__init__(source)
        self.helper = helper

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func, args = updated_node.func, updated_node.args
        if not self.inside or not isinstance(func, cst.Attribute) or func.attr.value != "to" or len(args) != 1:
            return updated_node
        path = self.source.path(original_node.args[0].value) or ""
        if not plain_arguments(args) or not path.startswith("triton.language."):
            return updated_node
        self.count += 1
        name = self.helper or f"{self.tl}.cast"
        return expression(f"{name}({code(func.value)}, {code(args[0].value)})")


def dot_helpers(program: Program, rng: Random) -> Program:
    """`tl.dot(a, b, c)` becomes a call of a helper kernel that calls it."""
    source = source_of(program)
    names = {count: source.fresh(rng) for count in (2, 3)}
    work = _Dot(source, names)
    helper = "".join(
        f"\n\n@{work.triton}.jit\ndef {name}({', '.join('abc'[:count])}):\n"
        f"    return {work.tl}.dot({', '.join('abc'[:count])})\n"
        for count, name in names.items()
    )
    return work.run(program, "no kernel has a plain dot", helper)


class _Dot(KernelTransformer):
    def __init__(self, source: Source, names: dict[int, str]) -> None:
        super().__init__(source)
        self.names = names

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        args = updated_node.args
        if not self.inside or self.source.path(original_node.func) != "triton.language.dot":
            return updated_node
        if len(args) not in self.names or not plain_arguments(args):
            return updated_node
        self.count += 1
        return updated_node.with_changes(func=cst.Name(self.names[len(args)]))


def reduction_methods(program: Program, rng: Random) -> Program:
    """`tl.sum(x, axis=0)` becomes `x.sum(axis=0)`."""
    source = source_of(program)
    return _Reductions(source).run(program, "no kernel reduces")


class _Reductions(KernelTransformer):
    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        path = self.source.path(original_node.func) or ""
        args = updated_node.args
        if not self.inside or path not in {f"triton.language.{name}" for name in ("sum", "max", "min")}:
            return updated_node
        if not args or args[0].keyword is not None or args[0].star:
            return updated_node
        self.count += 1
        rest = ", ".join(code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in args[1:])
        return expression(f"({code(args[0].value)}).{path.rpartition('.')[2]}({rest})")


def kernel_while(program: Program, rng: Random) -> Program:
    """`for i in range(a, b, c)` in a kernel becomes a while loop."""
    source = source_of(program)
    return _KernelWhile(source, rng).run(program, "no kernel loop over a range can be a while loop")


class _KernelWhile(KernelTransformer):
    def leave_For(
        self, original_node: cst.For, updated_node: cst.For
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        call, target, body = updated_node.iter, updated_node.target, updated_node.body
        if not self.inside or not isinstance(call, cst.Call) or code(call.func) != "range":
            return updated_node
        if (
            not plain_arguments(call.args)
            or not isinstance(target, cst.Name)
            or not isinstance(body, cst.IndentedBlock)
        ):
            return updated_node
        words = [code(arg.value) for arg in call.args]
        start, stop, step = ("0", words[0], "1") if len(words) == 1 else (words[0], words[1], (words + ["1"])[2])
        if step.startswith("-") or _assigns(original_node.body, target.value):
            return updated_node
        self.count += 1
        end = self.source.fresh(self.rng)
        name = target.value
        first, second, loop = statements(
            f"{name} = {start}\n{end} = {stop}\nwhile {name} < {end}:\n    {name} += {step}\n"
        )
        assert isinstance(loop, cst.While) and isinstance(loop.body, cst.IndentedBlock)
        block = loop.body.with_changes(body=[*body.body, *loop.body.body])
        return cst.FlattenSentinel([first, second, loop.with_changes(body=block)])


def _assigns(node: cst.CSTNode, name: str) -> bool:
    found: list[str] = []

    class Targets(cst.CSTVisitor):
        def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
            found.append(code(node.target))

        def visit_AugAssign(self, node: cst.AugAssign) -> None:
            found.append(code(node.target))

        def visit_Continue(self, node: cst.Continue) -> None:
            found.append(name)

    node.visit(Targets())
    return name in found


def constants(program: Program, rng: Random) -> Program:
    """Whole numbers become products, sums or shifts: `64` becomes `8 * 8`."""
    source = source_of(program)
    work = _Constants(rng)
    module = source.module.visit(work)
    if not work.count:
        raise NotApplicable("the file has no number worth taking apart")
    return program.with_main(module.code)


class _Constants(cst.CSTTransformer):
    def __init__(self, rng: Random) -> None:
        super().__init__()
        self.rng = rng
        self.count = 0

    def visit_FormattedString(self, node: cst.FormattedString) -> bool | None:
        return False

    def visit_MatchCase(self, node: cst.MatchCase) -> bool | None:
        return False

    def visit_Annotation(self, node: cst.Annotation) -> bool | None:
        return False

    def leave_Integer(self, original_node: cst.Integer, updated_node: cst.Integer) -> cst.BaseExpression:
        value = original_node.evaluated_value
        if not 4 <= value <= 1 << 20:
            return updated_node
        self.count += 1
        factor = next((f for f in (8, 4, 3, 2) if value % f == 0), None)
        forms = [f"({value - 3} + 3)"] + ([f"({factor} * {value // factor})"] if factor else [])
        if value & (value - 1) == 0:
            forms.append(f"(1 << {value.bit_length() - 1})")
        return cst.parse_expression(self.rng.choice(forms[-2:]))


REWRITES = (
    Rewrite("kernel-casts", "casts in kernels are calls of tl.cast", cast_functions),
    Rewrite("kernel-cast-helpers", "casts in kernels are made by a helper kernel", cast_helpers),
    Rewrite("kernel-dot-helpers", "products in kernels are made by a helper kernel", dot_helpers),
    Rewrite("kernel-reductions", "reductions in kernels are methods", reduction_methods),
    Rewrite("kernel-while", "loops over a range in kernels are while loops", kernel_while),
    Rewrite("constants", "whole numbers are products, sums and shifts", constants),
)
