"""Other spellings of the launch of a Triton kernel."""

from __future__ import annotations

from random import Random

import libcst as cst

from kbh_lint.rewrite.nodes import code, expression, functions
from kbh_lint.rewrite.program import Program, Rewrite
from kbh_lint.rewrite.tree import BodyTransformer, Source, source_of


def starred_launch(program: Program, rng: Random) -> Program:
    """`kernel[grid](a, b, K=1)` becomes `kernel[grid](*(a, b), **{"K": 1})`."""
    source = source_of(program)
    return _Starred(source).run(program, "no kernel is launched")


class _Launch(BodyTransformer):
    """Knows the kernels of the module, with or without `autotune` and `heuristics` on top."""

    def __init__(self, source: Source, rng: Random | None = None) -> None:
        super().__init__(source, rng)
        self.kernels = {
            f.name.value
            for f in functions(source.module.body)
            if any(source.path(d.decorator) == "triton.jit" for d in f.decorators)
            and source.bindings[f.name.value] == 1
        }

    def grid(self, node: cst.Call) -> cst.BaseExpression | None:
        """The grid of a launch in a function; None when the call is none, or binds names on its way."""
        func = node.func
        if not self.depth or not isinstance(func, cst.Subscript) or len(func.slice) != 1:
            return None
        if not isinstance(func.value, cst.Name) or func.value.value not in self.kernels:
            return None
        only = func.slice[0].slice
        return only.value if isinstance(only, cst.Index) and not only.star and ":=" not in code(node) else None


class _Starred(_Launch):
    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        args = updated_node.args
        if self.grid(original_node) is None or any(arg.star for arg in args):
            return updated_node
        plain = [code(arg.value) for arg in args if arg.keyword is None]
        named = [f'"{arg.keyword.value}": {code(arg.value)}' for arg in args if arg.keyword is not None]
        given = [f"*({', '.join(plain)},)"] if plain else []
        given += [f"**{{{', '.join(named)}}}"] if named else []
        if not given:
            return updated_node
        self.count += 1
        return expression(f"{code(updated_node.func)}({', '.join(given)})")


def grid_function(program: Program, rng: Random) -> Program:
    """`kernel[(m, n)](...)` becomes `kernel[lambda meta: (m, n)](...)`."""
    source = source_of(program)
    return _GridFunction(source, source.fresh(rng)).run(
        program, "no kernel is launched on a grid that is written there"
    )


class _GridFunction(_Launch):
    def __init__(self, source: Source, meta: str) -> None:
        super().__init__(source)
        self.meta = meta

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        grid = self.grid(original_node)
        if not isinstance(grid, cst.Tuple) or not isinstance(updated_node.func, cst.Subscript):
            return updated_node
        self.count += 1
        kernel, text = code(updated_node.func.value), code(grid)
        text = text if text.startswith("(") else f"({text})"
        return updated_node.with_changes(func=expression(f"{kernel}[lambda {self.meta}: {text}]"))


def run_launch(program: Program, rng: Random) -> Program:
    """`kernel[grid](a, K=1)` becomes `kernel.run(a, K=1, grid=grid, warmup=False)`, which is what it does."""
    source = source_of(program)
    return _Run(source).run(program, "no kernel is launched")


class _Run(_Launch):
    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        grid = self.grid(original_node)
        if grid is None or not isinstance(updated_node.func, cst.Subscript):
            return updated_node
        self.count += 1
        text = code(grid)
        text = f"({text})" if isinstance(grid, cst.Tuple) and not text.startswith("(") else text
        given = "".join(f"{code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT))}, " for arg in updated_node.args)
        return expression(f"{code(updated_node.func.value)}.run({given}grid={text}, warmup=False)")


REWRITES = (
    Rewrite("starred-launch", "kernels get their arguments from a tuple and a dictionary", starred_launch),
    Rewrite("grid-function", "the grid of a launch is a function", grid_function),
    Rewrite("run-launch", "kernels are launched by their method run", run_launch),
)
