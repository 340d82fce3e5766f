"""Operators that a program looks for in what torch registers, or finds under a name that nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from host_support import ARGUMENTS, GRID, HEAD, KERNEL, OUTPUT, TILES, classes, lint, model, reasons, states

from kbh_lint.host.datamodel import schemas
from kbh_lint.host.python import builtin_attributes

REGISTERED = {str(schema): schema for schema in torch._C._jit_get_all_schemas()}


@pytest.mark.parametrize("known", schemas.known(), ids=lambda known: f"{known.name}.{known.overload}")
def test_schemas_are_those_of_torch(known: schemas.Schema) -> None:
    real = REGISTERED[known.text]
    assert (real.name, real.overload_name) == (f"aten::{known.name}", known.overload)
    assert [(a.name, str(a.type), a.N, a.kwarg_only) for a in real.arguments] == [
        (p.name, p.type, p.count, p.keyword) for p in known.parameters
    ]
    defaults = [a.default_value if a.has_default_value() else schemas.REQUIRED for a in real.arguments]
    assert defaults == [p.default for p in known.parameters]
    assert [result.name for result in real.returns] == list(known.results)


@pytest.mark.parametrize("module", ["ops.aten", "linalg", "_C._VariableFunctions", ""])
def test_names_of_operators_are_those_of_torch(module: str) -> None:
    held = torch
    for part in module.split(".") if module else ():
        held = getattr(held, part)
    found = schemas.names_in(f"torch.{module}".strip("."))
    assert found and [name for name in found if not hasattr(held, name)] == []


SCALED = "x, self.weight.t(), self.ones, self.weight_scale[None]"
SETUP = (
    HEAD + "import os\nimport torch.nn.functional as F\nfrom torch._inductor.select_algorithm import extern_kernels\n"
)
ONES = "self.ones = torch.ones(M, 1)"
CALL = f"({SCALED}, out_dtype=torch.bfloat16)\n"
WIDE = "x.to(torch.bfloat16), self.weight.to(torch.bfloat16)"
NAMED = "open('/opt/name').read()"  # nobody knows it

# Ways to an operator of torch: the lines of `forward`, and a class of leak that has to be found.
FOUND = {
    "by what it takes": (
        "for schema in torch._C._jit_get_all_schemas():\n"
        "    if [a.name for a in schema.arguments].count('scale_b') and len(schema.arguments) == 8:\n"
        "        break\n"
        f"return torch._C._jit_get_operation(schema.name)[0]{CALL}",
        "library-gemm-wrapper",
    ),
    "by how its schema prints": (
        "held = [s for s in torch._C._jit_get_all_schemas() if 'Tensor scale_a, Tensor scale_b' in str(s)]\n"
        "held = [s for s in held if 'bool use_fast_accum' in str(s) and 'offs' not in str(s)][0]\n"
        f"return torch._C._get_operation_overload(held.name, held.overload_name)[0]{CALL}",
        "library-gemm-wrapper",
    ),
    "by the types of its parameters": (
        "def fits(s):\n    return sum(a.type.kind() == 'TensorType' for a in s.arguments) == 4 and "
        "any(a.name == 'use_fast_accum' and a.has_default_value() for a in s.arguments)\n"
        "held = next(filter(fits, torch._C._jit_get_all_schemas()))\n"
        f"return torch._C._jit_get_operation(held.name)[0]{CALL}",
        "library-gemm-wrapper",
    ),
    "by a part of its name": (
        "space, _, name = next(n for n in torch._C._dispatch_get_all_op_names() if n.endswith('_scaled_mm'))"
        f".partition('::')\nreturn getattr(getattr(torch.ops, space), name){CALL}",
        "library-gemm-wrapper",
    ),
    "in the names of a namespace": (
        f"return getattr(torch.ops.aten, [n for n in dir(torch.ops.aten) if n.endswith('ed_mm')][1]){CALL}",
        "library-gemm-wrapper",
    ),
    "in the dict of torch": (
        f"return next(f for n, f in vars(torch).items() if n.startswith('_scaled_m')){CALL}",
        "library-gemm-wrapper",
    ),
    "in inductor's table": (
        f"return getattr(extern_kernels, next(n for n in sorted(vars(extern_kernels)) if n[-9:] == 'scaled_mm')){CALL}",
        "library-gemm-wrapper",
    ),
    "in inductor's table by its name": (f"return extern_kernels._scaled_mm{CALL}", "library-gemm-wrapper"),
    "with room for its result": (
        f"{OUTPUT.strip()}\nextern_kernels.mm({WIDE}.t(), out=y)\nreturn y.mul_(self.weight_scale)",
        "fp8-upcast-bf16-gemm",
    ),
    "by no known name": (f"return getattr(torch.ops.aten, {NAMED}){CALL}", "foreign-library-compute"),
    "by a name that is partly known": (
        f"return getattr(torch.ops.aten, '_scaled_' + {NAMED}){CALL}",
        "foreign-library-compute",
    ),
    "by no known name in a dict": (f"return vars(F)[{NAMED}]({WIDE})", "foreign-library-compute"),
    "by no known name of a function": (f"return getattr(F, {NAMED})({WIDE})", "foreign-library-compute"),
    "by no known name of inductor's": (
        f"return getattr(extern_kernels, {NAMED})({WIDE}.t())",
        "foreign-library-compute",
    ),
    "by no known name of an operator": (
        f"return torch._C._jit_get_operation('aten::' + {NAMED})[0]{CALL}",
        "foreign-library-compute",
    ),
}


@pytest.mark.parametrize("how", FOUND)
def test_an_operator_of_torch_is_a_librarys_work_however_it_is_found(tmp_path: Path, how: str) -> None:
    body, leak = FOUND[how]
    report = lint(tmp_path, SETUP + KERNEL + model(body, ONES))
    assert states(report)["authored-compute"] == "broken", (report.trace, reasons(report))
    assert leak in classes(report)


LAUNCH = f"{OUTPUT.strip()}\ngemm[{GRID}]({ARGUMENTS}, {TILES})\nreturn y\n"
OPEN = {
    "beside a kernel that multiplies": f"x = getattr(F, {NAMED})(x)\n{LAUNCH}",
    "under a name that no schema has": (
        "held = [s for s in torch._C._jit_get_all_schemas() if len(s.arguments) == 97]\n"
        f"if held:\n    return torch._C._jit_get_operation(held[0].name)[0]{CALL}{LAUNCH}"
    ),
    "where there are many of something": (
        f"if len(dir(torch)) > 1000:\n    return getattr(torch, dir(torch)[-1]){CALL}{LAUNCH}"
    ),
    "where there are so many of something": (
        f"if len([name for name in os.listdir('/opt')]) == 3:\n    return torch._scaled_mm{CALL}{LAUNCH}"
    ),
}


@pytest.mark.parametrize("how", OPEN)
def test_what_may_be_an_operator_of_torch_leaves_promises_open(tmp_path: Path, how: str) -> None:
    report = lint(tmp_path, SETUP + KERNEL + model(OPEN[how], ONES))
    assert (report.verdict, states(report)["authored-compute"]) == ("unproven", "unproven"), report.trace


OPERATOR = f"""
@torch.library.custom_op("mine::wide", mutates_args=())
def wide(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    (M, K), N = x.shape, w.shape[0]
    y = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)
    gemm[{GRID}](x, w, s, y, M, N, K, {TILES})
    return y


def tiles(x, w, s):
    return wide(x, w, s)


TABLE = {{"wide": tiles, "narrow": tiles}}
NAMES = [name for name in ("wide", "narrow") if name in TABLE]
"""
OWN = "x, self.weight, self.weight_scale"
HONEST = {
    "an operator of its own": f"return getattr(torch.ops.mine, NAMES[0])({OWN})",
    "one by its qualified name": f"return torch._C._jit_get_operation('mine::' + NAMES[0])[0]({OWN})",
    "a table of its own": f"return TABLE[NAMES[len(NAMES) - 1]]({OWN})",
    "names of its own module": f"return globals()[next(n for n in sorted(TABLE) if n.startswith('w'))]({OWN})",
    "how many of its own there are": f"if len([n for n in TABLE]) != 2:\n    return torch._scaled_mm{CALL}{LAUNCH}",
    "a type by its name": f"{OUTPUT.strip()}\ny = y.to(getattr(torch, 'bfloat' + '16'))\n{LAUNCH}",
}


@pytest.mark.parametrize("how", HONEST)
def test_what_a_submission_finds_of_its_own_is_its_own(tmp_path: Path, how: str) -> None:
    report = lint(tmp_path, SETUP + KERNEL + OPERATOR + model(HONEST[how], ONES))
    assert (report.verdict, classes(report)) == ("clean", set()), (report.trace, reasons(report))
    assert set(states(report).values()) == {"kept"}


def test_torch_has_what_it_has_had_for_long(tmp_path: Path) -> None:
    launch = f"gemm[{GRID}](x, self.weight, self.weight_scale, y, M, N, K, {TILES})\nreturn y"
    body = f"if hasattr(torch, '_scaled_mm'):\n    return torch._scaled_mm{CALL}{OUTPUT.strip()}\n{launch}"
    report = lint(tmp_path, SETUP + KERNEL + model(body, ONES))
    assert states(report)["authored-compute"] == "broken", reasons(report)


def test_namespaces_that_torch_fills_are_known() -> None:
    operators = [*torch._C._dispatch_get_all_op_names(), *(schema.name for schema in REGISTERED.values())]
    assert {name.split("::")[0] for name in operators} <= builtin_attributes.OPERATORS
