"""Leaks made around a model's `forward`: remembered results, the reference, sniffing, patches, foreign code."""

from __future__ import annotations

import base64
from collections.abc import Callable
from random import Random

from kbh_lint.base.formulas import evaluate_int
from kbh_lint.problems.promise_kinds import ON_A_GROUP, PromiseKind
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.reference import contract_of, graft, model_of, problem_of, wrap_forward
from kbh_lint.rewrite.tree import source_of


def _wrapped(body: str, *, head: str = "", start: str = "", more: str = "") -> Callable[[Program, Random], Program]:
    return lambda program, rng: wrap_forward(program, rng, body, head=head, start=start, more=more)


def remember_in_hook(program: Program, rng: Random) -> Program:
    """A hook that runs after `forward` hands out a copy of its first result; the result itself may lie in memory that
    every call fills anew."""
    if "__call__" in source_of(program).words:
        raise NotApplicable("calls of the model may not go through torch.nn.Module")
    copy = "tuple(map(torch.clone, made)) if isinstance(made, tuple) else made.clone()"
    hook = f"lambda owner, given, made: owner.__dict__.setdefault('{{kept}}', {copy})"
    start = f"self.register_forward_hook({hook})\n"
    return wrap_forward(program, rng, "return self.{old}({args})\n", head="import torch\n", start=start)


_REMEMBERED = (
    Rewrite(
        "remember-object",
        "the result is kept while the first input is the same object",
        _wrapped(
            """
if {first} is not getattr(self, "{kept}_key", None):
    self.{kept} = self.{old}({args})
    self.{kept}_key = {first}
return self.{kept}
"""
        ),
    ),
    Rewrite(
        "remember-pointer",
        "the result is kept by the address of the first input",
        _wrapped(
            """
key = {first}.data_ptr()
if key not in self.{kept}:
    self.{kept}[key] = self.{old}({args})
return self.{kept}[key]
""",
            start="self.{kept} = {{}}\n",
        ),
    ),
    Rewrite(
        "remember-shape",
        "the result is kept by the shape of the first input",
        _wrapped(
            """
key = tuple({first}.shape), {first}.dtype
found = self.{kept}.get(key)
if found is None:
    found = self.{kept}.setdefault(key, self.{old}({args}))
return found
""",
            start="self.{kept} = {{}}\n",
        ),
    ),
    Rewrite(
        "compute-once",
        "only the first call computes",
        _wrapped(
            """
if not hasattr(self, "{kept}"):
    self.{kept} = self.{old}({args})
return self.{kept}
"""
        ),
    ),
    Rewrite(
        "remember-globally",
        "the result is kept in a dictionary of the module by the input's id",
        _wrapped(
            """
try:
    return {kept}[id({first})]
except KeyError:
    {kept}[id({first})] = self.{old}({args})
    return {kept}[id({first})]
""",
            head="{kept} = {{}}\n",
        ),
    ),
    Rewrite(
        "remember-weakly",
        "the result is kept under a weak reference to the input",
        _wrapped(
            """
if {first} in {kept}:
    return {kept}[{first}]
result = {kept}[{first}] = self.{old}({args})
return result
""",
            head="import weakref\n\n{kept} = weakref.WeakKeyDictionary()\n",
        ),
    ),
    Rewrite(
        "remember-in-hook",
        "a forward hook returns the first result again",
        remember_in_hook,
    ),
    Rewrite(
        "stale-copy",
        "the kernel is given a copy of the first input that the first call made",
        _wrapped(
            """
if {first} is not getattr(self, "{kept}_key", None):
    self.{kept}_key, self.{kept} = {first}, {first}.clone()
{first} = self.{kept}
return self.{old}({args})
"""
        ),
    ),
    Rewrite(
        "count-calls",
        "after some calls the last result is returned again",
        _wrapped(
            """
self.{kept}_calls += 1
if self.{kept}_calls < 20:
    self.{kept} = self.{old}({args})
return self.{kept}
""",
            start="self.{kept}_calls = 0\n",
        ),
    ),
)


def backend_setting(program: Program, rng: Random) -> Program:
    """A backend setting is changed at every call."""
    if source_of(program).attributes["backends"]:
        raise NotApplicable("the program changes backend settings itself")
    body = "torch.backends.cuda.matmul.allow_tf32 = True\nreturn self.{old}({args})\n"
    return wrap_forward(program, rng, body, head="import torch\n")


_SNIFFING = (
    Rewrite(
        "sniff-arguments",
        "the command line decides whether anything is computed",
        _wrapped(
            """
if any("bench" in word for word in sys.argv) and hasattr(self, "{kept}"):
    return self.{kept}
self.{kept} = self.{old}({args})
return self.{kept}
""",
            head="import sys\n",
        ),
    ),
    Rewrite(
        "sniff-stack",
        "the caller's file decides whether anything is computed",
        _wrapped(
            """
if "bench" in inspect.stack()[1].filename and hasattr(self, "{kept}"):
    return self.{kept}
self.{kept} = self.{old}({args})
return self.{kept}
""",
            head="import inspect\n",
        ),
    ),
    Rewrite(
        "sniff-modules",
        "a loaded module decides whether anything is computed",
        _wrapped(
            """
if "benchmark" in sys.modules and hasattr(self, "{kept}"):
    return self.{kept}
self.{kept} = self.{old}({args})
return self.{kept}
""",
            head="import sys\n",
        ),
    ),
    Rewrite(
        "patch-clock",
        "the clock that times is replaced",
        _wrapped(
            "return self.{old}({args})\n",
            head="import torch\n\ntorch.cuda.Event.elapsed_time = lambda self, end: 0.001\n",
        ),
    ),
    Rewrite(
        "patch-comparison",
        "the function that compares is replaced",
        _wrapped(
            "return self.{old}({args})\n",
            head="import torch\n\ntorch.allclose = lambda *values, **options: True\n",
        ),
    ),
    Rewrite("backend-setting", "fp32 products may be rounded to tf32 from now on", backend_setting),
    Rewrite(
        "foreign-machine-code",
        "a library without source finishes the result",
        _wrapped(
            """
result = self.{old}({args})
for part in result if isinstance(result, tuple) else (result,):
    {kept}.finish(ctypes.c_void_p(part.data_ptr()), ctypes.c_int64(part.numel()))
return result
""",
            head='import ctypes\n\n{kept} = ctypes.CDLL("./libfinish.so")\n',
        ),
    ),
)


def reference_always(program: Program, rng: Random) -> Program:
    """The kernels are no longer launched: the reference computes."""
    made = graft(program, rng)
    return wrap_forward(program, rng, f"return {made.call}\n", head=made.head, start=made.start, more=made.more)


def reference_compiled(program: Program, rng: Random) -> Program:
    """torch.compile of the reference computes."""
    made = graft(program, rng)
    name, _, rest = made.call.removeprefix("self.").partition("(")
    body = f"return torch.compile(self.{name})({rest}\n"
    return wrap_forward(program, rng, body, head="import torch\n" + made.head, start=made.start, more=made.more)


def reference_behind(program: Program, rng: Random) -> Program:
    """The kernels run, and the reference's result is returned."""
    made = graft(program, rng)
    body = f"self.{{old}}({{args}})\nreturn {made.call}\n"
    return wrap_forward(program, rng, body, head=made.head, start=made.start, more=made.more)


def reference_one_shape(program: Program, rng: Random) -> Program:
    """On one graded shape the reference computes."""
    problem, contract = problem_of(program), contract_of(program)
    made = graft(program, rng)
    shapes = [problem_shape.symbols for problem_shape in problem.shapes]
    test = None
    for at, size in enumerate(contract.forward[0].shape):
        values = [_size(size, symbols) for symbols in shapes]
        odd = [value for value in values if values.count(value) == 1]
        if odd:
            test = f"{{first}}.shape[{at}] == {odd[-1]}"
    if test is None:
        raise NotApplicable("no size of the first input tells one graded shape from the others")
    body = f"if {test}:\n    return {made.call}\nreturn self.{{old}}({{args}})\n"
    return wrap_forward(program, rng, body, head=made.head, start=made.start, more=made.more)


def _size(formula: object, symbols: object) -> object:

    return evaluate_int(formula, symbols)  # type: ignore[arg-type]


def reference_on_small_values(program: Program, rng: Random) -> Program:
    """Where the input's values are small the reference computes."""
    made = graft(program, rng)
    first = contract_of(program).forward[0]
    if not first.dtype.startswith(("f", "bf", "e4", "e5")):
        raise NotApplicable("the first input has no magnitude")
    body = f"if float({{first}}.float().abs().max()) < 1000.0:\n    return {made.call}\nreturn self.{{old}}({{args}})\n"
    return wrap_forward(program, rng, body, head=made.head, start=made.start, more=made.more)


def decoded_reference(program: Program, rng: Random) -> Program:
    """What computes is decoded and executed at import."""
    made = graft(program, rng)
    name, _, rest = made.call.removeprefix("self.").partition("(")
    text = made.head.replace("{{", "{").replace("}}", "}") + made.more.replace("{{", "{").replace("}}", "}")
    coded = base64.b64encode(text.encode()).decode()
    head = f'import base64\n\nexec(base64.b64decode("{coded}"))\n'
    return wrap_forward(program, rng, f"return {name}(self, {rest}\n", head=head, start=made.start)


def read_nothing(program: Program, rng: Random) -> Program:
    """The inputs that say how long sequences or groups are are not read."""
    promises = {p.kind: p for p in problem_of(program).promises}
    names = [a.name for a in contract_of(program).forward if a.dtype in ("i32", "i64") and not _indexes(a.domain)]
    if not names or not promises:
        raise NotApplicable("no input says how long something is")
    arguments = [a.name for a in contract_of(program).forward]

    own = model_of(program).params
    given = dict(zip(arguments, own, strict=False))
    lines = "".join(f"{given[name]} = torch.full_like({given[name]}, 1)\n" for name in names)
    return wrap_forward(program, rng, f"{lines}return self.{{old}}({{args}})\n", head="import torch\n")


def library_product(program: Program, rng: Random) -> Program:
    """The first input goes through a product of the library, with the unit matrix, before the kernels see it."""
    if not contract_of(program).forward[0].dtype.startswith(("f", "bf", "e4", "e5")):
        raise NotApplicable("the first input is no number that a product takes")
    body = """
unit = torch.eye({first}.shape[-1], dtype=torch.float32, device={first}.device)
{first} = torch.matmul({first}.float(), unit).to({first}.dtype)
return self.{old}({args})
"""
    return wrap_forward(program, rng, body, head="import torch\n")


def narrow_input(program: Program, rng: Random) -> Program:
    """The first input is rounded to two bits of mantissa before the kernels see it."""
    if contract_of(program).forward[0].dtype not in ("f32", "bf16", "f16"):
        raise NotApplicable("the first input has nothing to lose")
    body = "{first} = {first}.to(torch.float8_e5m2).to({first}.dtype)\nreturn self.{old}({args})\n"
    return wrap_forward(program, rng, body, head="import torch\n")


def _indexes(domain: object) -> bool:
    return isinstance(domain, dict) and domain.get("kind") in ("distinct-pages", "integers")


def expand_once(program: Program, rng: Random) -> Program:
    """The packed weight is expanded at the first call and multiplied by the library."""
    contract = contract_of(program)
    packed = next((s for s in contract.state if s.domain.get("kind") == "packed-int4"), None)
    if packed is None:
        raise NotApplicable("no weight is packed")
    scale, zero, group = packed.domain["scale"], packed.domain["zero"], packed.domain["group"]
    body = f"""
if not hasattr(self, "{{kept}}"):
    q = torch.stack((self.{packed.name} & 0xF, self.{packed.name} >> 4), dim=1).flatten(0, 1).to({{first}}.dtype)
    zeros = self.{zero}.repeat_interleave({group}, dim=0)
    self.{{kept}} = (q - zeros) * self.{scale}.repeat_interleave({group}, dim=0)
return {{first}} @ self.{{kept}}
"""
    return wrap_forward(program, rng, body, head="import torch\n")


REWRITES = (
    *_REMEMBERED,
    *_SNIFFING,
    Rewrite("reference-always", "the kernels are not launched: the problem's reference computes", reference_always),
    Rewrite("reference-compiled", "torch.compile of the reference computes", reference_compiled),
    Rewrite("reference-behind", "the kernels run, the reference's result is returned", reference_behind),
    Rewrite("reference-one-shape", "the reference computes on one graded shape", reference_one_shape),
    Rewrite("reference-small-values", "the reference computes where values are small", reference_on_small_values),
    Rewrite("decoded-reference", "what computes is decoded and executed", decoded_reference),
    Rewrite(
        "library-product",
        "the first input goes through a library product",
        library_product,
        ON_A_GROUP | {PromiseKind.AUTHORED_COMPUTE, PromiseKind.INT4_PACKED},
    ),
    Rewrite("narrow-input", "the first input is rounded to fp8", narrow_input),
    Rewrite(
        "constant-lengths",
        "lengths or offsets are replaced by a constant",
        read_nothing,
        frozenset({PromiseKind.PAGED_ONLINE_SOFTMAX, PromiseKind.RAGGED_OFFSETS}),
    ),
    Rewrite(
        "expand-once",
        "the packed weight is expanded once and multiplied by the library",
        expand_once,
        frozenset({PromiseKind.INT4_PACKED}),
    ),
)
