"""`forward` behind what Python and torch offer for calling one function from another."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from kbh_lint.rewrite.nodes import functions
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.reference import model_of, wrap_forward
from kbh_lint.rewrite.tree import framed_source, source_of


def _behind(body: str, *, head: str = "", start: str = "", more: str = "") -> Callable[[Program, Random], Program]:
    def apply(program: Program, rng: Random) -> Program:
        framed_source(program)
        model = model_of(program)
        if not model.params or any(param.default for param in model.forward.params.params):
            raise NotApplicable("forward has no arguments, or some that may be left out")
        if start and not any(f.name.value == "__init__" for f in functions(model.node.body.body)):
            raise NotApplicable("the model has no __init__")
        return wrap_forward(program, rng, body, head=head, start=start, more=more)

    return apply


autograd_function = _behind(
    "return {kept}Step.apply(self, {args})\n",
    head="""
import torch as {kept}_torch


class {kept}Step({kept}_torch.autograd.Function):
    @staticmethod
    def forward({kept}_ctx, {kept}_model, {args}):
        return {kept}_model.{old}({args})
""",
)

inner_module = _behind(
    "return self.{kept}({args})\n",
    head="""
import torch as {kept}_torch


class {kept}Inner({kept}_torch.nn.Module):
    def __init__(self, owner):
        super().__init__()
        self.owner = [owner]

    def forward(self, {args}):
        return self.owner[0].{old}({args})
""",
    start="self.{kept} = {kept}Inner(self)\n",
)

_hooked = _behind(
    "return None\n",
    start="self.register_forward_hook(lambda {kept}, given, result: {kept}.{old}(*given))\n",
)


def forward_hook(program: Program, rng: Random) -> Program:
    """`forward` returns nothing; a hook that runs after it does the work."""
    if "__call__" in source_of(program).words:
        raise NotApplicable("calls of the model may not go through torch.nn.Module")
    return _hooked(program, rng)


generator = _behind(
    "return next(self.{kept}({args}))\n",
    more="""
def {kept}(self, {args}):
    yield self.{old}({args})
""",
)

by_exception = _behind(
    """
try:
    raise {kept}Done(self.{old}({args}))
except {kept}Done as {kept}:
    return {kept}.args[0]
""",
    head="""
class {kept}Done(BaseException):
    pass
""",
)

callable_object = _behind(
    "return {kept}Caller(self)({args})\n",
    head="""
class {kept}Caller:
    __slots__ = ("owner",)

    def __init__(self, owner):
        self.owner = owner

    def __call__(self, *given):
        return self.owner.{old}(*given)
""",
)

closure = _behind(
    """
{kept}_results = []

def {kept}():
    nonlocal {kept}_results
    {kept}_results = [self.{old}({args})]

{kept}()
return {kept}_results.pop()
"""
)

REWRITES = (
    Rewrite("autograd-function", "forward is the forward of a torch.autograd.Function", autograd_function),
    Rewrite("inner-module", "forward is that of a module inside the model", inner_module),
    Rewrite("forward-hook", "a forward hook makes the result", forward_hook),
    Rewrite("generator", "a generator yields the result", generator),
    Rewrite("by-exception", "the result is carried by an exception", by_exception),
    Rewrite("callable-object", "an object with __call__ calls the model", callable_object),
    Rewrite("closure", "a nested function leaves the result in a variable around it", closure),
)
