"""Leaks made inside kernels and at their launches."""

from __future__ import annotations

import re
from random import Random

import libcst as cst

from kbh_lint.base.dtypes import NARROW
from kbh_lint.problems.promise_kinds import ON_A_GROUP, PromiseKind
from kbh_lint.rewrite.cuda.text import change_texts, tokens
from kbh_lint.rewrite.kernels import KernelTransformer
from kbh_lint.rewrite.nodes import code, expression
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.reference import contract_of, model_of
from kbh_lint.rewrite.tree import HostTransformer, Source, source_of

_SUMS = frozenset({PromiseKind.COMPENSATED_SUM})
# A difference of a difference, in operators or in rounded intrinsics, up to the end of its statement.
_NESTED = r"\([^;={}()]*-[^;={}()]*\)\s*-|-\s*\([^;={}()]*-|__[fd]sub_rn\([^;={}]*__[fd]sub_rn\("
_RESIDUAL = re.compile(rf"([+-]?)=\s*([^;={{}}]*(?:{_NESTED})[^;={{}}]*);")
# The same of a sum: `t = s + v`, and a statement with `(s - t) + v` somewhere in what it assigns or adds.
_SUM = re.compile(r"(?<![\w.])(\w+)\s*=\s*(\w+)\s*\+\s*(\w+)\s*[,;]")
_LESS_SUM = re.compile(r"\(\s*(\w+)\s*-\s*(\w+)\s*\)\s*\+\s*(\w+)")
_STATEMENT = re.compile(r"(?<![=<>!])([+-]?)=(?!=)\s*((?:[^;={}]|[=<>!]=)*);")
_LAUNCH = re.compile(r"\b\w+\s*(?:<[^;{}<>]*>)?\s*<<<[^;{}]*>>>\s*\([^;{}]*\)\s*;")


def cast_before_dot(program: Program, rng: Random) -> Program:
    """Both operands of `tl.dot` are widened to bf16."""
    source = source_of(program)
    return _WideDot(source).run(program, "no kernel has a dot")


class _WideDot(KernelTransformer):
    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if not self.inside or self.source.path(original_node.func) != "triton.language.dot":
            return updated_node
        self.count += 1
        args = [
            arg.with_changes(value=expression(f"({code(arg.value)}).to({self.tl}.bfloat16)")) if at < 2 else arg
            for at, arg in enumerate(updated_node.args)
        ]
        return updated_node.with_changes(args=args)


def cast_on_host(program: Program, rng: Random) -> Program:
    """The narrow input and weight are launched as fp16."""
    source, contract = source_of(program), contract_of(program)
    if source.attributes["dot_scaled"]:
        raise NotApplicable("dot_scaled is told the formats of its operands and takes no others")
    model = model_of(program)
    narrow = {param for arg, param in zip(contract.forward, model.params, strict=False) if arg.dtype in NARROW}
    narrow |= {f"self.{entry.name}" for entry in contract.state if entry.dtype in NARROW}
    work = _WideLaunch(source, narrow)
    result = work.run(program, "no kernel is launched on a narrow tensor by its name")
    if work.seen != narrow:
        raise NotApplicable("not all narrow tensors are launched by their names")
    return result


class _WideLaunch(HostTransformer):
    def __init__(self, source: Source, narrow: set[str]) -> None:
        super().__init__(source)
        self.narrow = narrow
        self.seen: set[str] = set()

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if not isinstance(updated_node.func, cst.Subscript):
            return updated_node
        args = []
        for arg in updated_node.args:
            text = code(arg.value)
            if text in self.narrow:
                self.seen.add(text)
                self.count += 1
                arg = arg.with_changes(value=expression(f"{text}.half()"))
            args.append(arg)
        return updated_node.with_changes(args=args)


def no_launch(program: Program, rng: Random) -> Program:
    """Kernels are not launched: the results are what was in the buffers."""
    try:
        changed = _NoLaunch(source_of(program)).run(program, "no Triton kernel is launched by a statement of its own")
    except NotApplicable:
        changed = program
    try:
        changed = change_texts(changed, source_of(changed), lambda text: _LAUNCH.sub(";", text))
    except NotApplicable:
        if changed is program:
            raise
    if other := next((way for way in _OTHER_LAUNCHES if way in changed.bundle()), ""):
        raise NotApplicable(f"kernels may be launched in another way too ({other})")
    return changed


class _NoLaunch(HostTransformer):
    def leave_Expr(self, original_node: cst.Expr, updated_node: cst.Expr) -> cst.BaseSmallStatement:
        value = original_node.value
        if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Subscript):
            return updated_node
        self.count += 1
        return cst.Pass(semicolon=updated_node.semicolon)


# How kernels are launched besides; where one of these is left, that may be what a graded call does.
_OTHER_LAUNCHES = ("<<<", "cutlass", "LaunchKernel", ".compile(")

Sums = dict[str, set[str]]  # names of sums, with what is added


def _is_residual(node: cst.BaseExpression, sums: Sums) -> bool:
    """Whether an expression is a rounding error in the form of Kahan or of TwoSum, a difference of a difference, or in
    that of Neumaier: a number less a sum of it and another, plus that other."""
    if isinstance(node, cst.Call):  # a choice between two
        return any(_is_residual(arg.value, sums) for arg in node.args)
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Subtract):
            for side in (node.left, node.right):
                if isinstance(side, cst.BinaryOperation) and isinstance(side.operator, cst.Subtract) and side.lpar:
                    return True
        if isinstance(node.operator, cst.Add):
            pairs = ((node.left, node.right), (node.right, node.left))
            return any(_is_residual(one, sums) or _less_sum(one, other, sums) for one, other in pairs)
    return False


def _less_sum(one: cst.BaseExpression, other: cst.BaseExpression, sums: Sums) -> bool:
    """Whether the first is `s - t` with `t = s + v`, and the second is `v`."""
    if not isinstance(one, cst.BinaryOperation) or not isinstance(one.operator, cst.Subtract):
        return False
    return sums.get(code(one.right)) == {code(one.left), code(other)}


def drop_compensation(program: Program, rng: Random) -> Program:
    """Rounding errors are computed and multiplied by zero."""
    source = source_of(program)
    try:
        return _NoResidual(source).run(program, "no kernel computes a rounding error")
    except NotApplicable:
        pass

    def change(text: str) -> str:
        text = _RESIDUAL.sub(lambda match: f"{match[1]}= 0.0f * ({match[2]});", text)
        sums: Sums = {}
        for name, one, other in _SUM.findall(text):
            sums[name] = {one, other}

        def without(match: re.Match[str]) -> str:
            found = _LESS_SUM.findall(match[2])
            kept = all(sums.get(less) != {one, other} for one, less, other in found)
            return match[0] if kept or match[2].startswith("0.0f *") else f"{match[1]}= 0.0f * ({match[2]});"

        return _STATEMENT.sub(without, text)

    return change_texts(program, source, change)


class _NoResidual(KernelTransformer):
    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.sums: Sums = {}

    def visit_Assign(self, node: cst.Assign) -> None:
        value, targets = node.value, [code(target.target) for target in node.targets]
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add) and len(targets) == 1:
            self.sums[targets[0]] = {code(value.left), code(value.right)}

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        if not self.inside or not _is_residual(original_node.value, self.sums):
            return updated_node
        self.count += 1
        return updated_node.with_changes(value=expression(f"(({code(updated_node.value)}) * 0.0)"))

    def leave_AugAssign(self, original_node: cst.AugAssign, updated_node: cst.AugAssign) -> cst.AugAssign:
        if not self.inside or not _is_residual(original_node.value, self.sums):
            return updated_node
        self.count += 1
        return updated_node.with_changes(value=expression(f"(({code(updated_node.value)}) * 0.0)"))


def one_trip(program: Program, rng: Random) -> Program:
    """Loops in kernels make one trip at most."""
    source = source_of(program)
    if "reduce" in source.attributes or "associative_scan" in source.attributes:
        raise NotApplicable("lanes are added with a compensation too, so that one trip still has some")
    if source.attributes["float64"]:
        raise NotApplicable("sums in double precision need no compensation, over one block or over all")
    return _OneTrip(source).run(program, "no kernel loops over a range of blocks")


class _OneTrip(KernelTransformer):
    counts: frozenset[str] = frozenset()  # parameters of the kernel that are no constants of its compilation

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool | None:
        self.counts = frozenset(param.name.value for param in node.params.params if param.annotation is None)
        return super().visit_FunctionDef(node)

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:
        call = updated_node.iter
        if not self.inside or not isinstance(call, cst.Call) or code(call.func).rpartition(".")[2] != "range":
            return updated_node
        args = [code(arg.value) for arg in call.args if arg.keyword is None]
        if len(args) == 1 and args[0] in self.counts:
            raise NotApplicable("sums of blocks may be added in a loop by their count, which stays")
        if len(args) != 3:
            return updated_node
        self.count += 1
        return updated_node.with_changes(iter=expression(f"range({args[0]}, ({args[0]}) + 1, {args[2]})"))


def arch_pin(program: Program, rng: Random) -> Program:
    """A CUTLASS product is built for Ampere."""
    source = source_of(program)
    if source.words & {"get_device_capability", "get_device_properties"}:
        raise NotApplicable("the GPU may decide whether that product is what a graded call runs")

    def change(text: str) -> str:
        return "".join(
            re.sub(r"^Sm(89|90|100|120)$", "Sm80", piece.text) if piece.kind == "word" else piece.text
            for piece in tokens(text)
        )

    return change_texts(program, source, change)


def wide_operands(program: Program, rng: Random) -> Program:
    """mma.sync and wgmma take bf16 operands: the types in the instructions are no longer e4m3."""
    source = source_of(program)

    def change(text: str) -> str:
        if ".e4m3.e4m3" not in text:
            return text
        text = re.sub(r"\b(m\d+n\d+)k32\b", r"\1k16", text)
        return text.replace(".e4m3.e4m3", ".bf16.bf16")

    return change_texts(program, source, change)


REWRITES = (
    Rewrite(
        "cast-before-dot", "operands of the product are widened to bf16 in the kernel", cast_before_dot, ON_A_GROUP
    ),
    Rewrite("cast-on-host", "operands of the product are widened to fp16 at the launch", cast_on_host, ON_A_GROUP),
    Rewrite("wide-mma", "mma instructions run on bf16", wide_operands, ON_A_GROUP),
    Rewrite("arch-pin", "a CUTLASS product is built for sm80", arch_pin, ON_A_GROUP),
    Rewrite("drop-compensation", "rounding errors are multiplied by zero", drop_compensation, _SUMS),
    Rewrite("one-trip", "loops over blocks make one trip", one_trip, _SUMS),
    Rewrite("no-launch", "kernels are not launched", no_launch),
)
