"""Rewrites of submissions: those that keep the meaning (`evade`) and those that change it (`leakify`).

A module a theme: spelling (of tensor operations), calls, control, names, arguments, lookups, imports, launches, kernels
(inside them), structure, places (of texts), wrappers, decoys; the first line of each says more. Each has its rewrites
as rows of `REWRITES`, of which `compose` (and `leaks.all_leaks`) is the list.
`kbh-lint evade --list` prints the rows. A further one is a function and its row in the module of its theme, as this
one, in short, is of `kernels`:

    def cast_calls(program: Program, rng: Random) -> Program:
        \"\"\"`x.to(t)` becomes `tl.cast(x, t)`.\"\"\"
        return _Cast(source_of(program), rng).run(program, "no kernel casts")

    class _Cast(KernelTransformer):
        def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
            func = updated_node.func
            if not self.inside or not isinstance(func, cst.Attribute) or func.attr.value != "to":
                return updated_node
            self.count += 1  # none counted: NotApplicable, with the words that `run` is given
            return expression(f"{self.tl}.cast({code(func.value)}, {code(updated_node.args[0])})")

    REWRITES = (..., Rewrite("kernel-casts", "casts in kernels are calls of tl.cast", cast_calls))

The class it derives from says where it goes: `tree.HostTransformer` through what Python itself runs,
`tree.BodyTransformer` through that with `depth`, how many functions are around, and `kernels.KernelTransformer`
through Triton kernels, where `inside` holds, with `tl`, the file's name for triton.language. Each knows
`self.source`: `path(node)` is the dotted path of an imported name, `fresh(rng)` a name that the file has not, `words`
and `bindings` what it has; `run(program, why, helper)` puts statements in as well. `nodes` turns texts into trees
(`expression`, `statements`) and back (`code`). CUDA text is rewritten token by token, by `cuda.text.change_texts`.

What must hold: the rewritten program computes the same bits, whoever calls it, or `NotApplicable` is raised with the
reason, where it is not certain too (names that the program looks up, callers that it looks at: `tree.framed_source`);
evaluation keeps its order and its number; the result parses. A leak (`leaks`) still gives right results, and breaks a
promise of `Rewrite.kinds`. tests/rewrite run every row on programs of each kind, also many in a row.
"""
