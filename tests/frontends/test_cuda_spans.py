"""A place in the IR leads back to the line and column where it was written."""

from __future__ import annotations

from kbh_lint.base import ir
from kbh_lint.frontends import cuda
from kbh_lint.source.spans import Span

MMA = r"""#include <cuda_fp8.h>
#define MMA(D, A, B)                                       \
  asm volatile(                                            \
      "{ .reg .b32 t;\n"                                   \
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 " \
      "{%0}, {%1}, {%2}; }\n"                              \
      : "+f"(D) : "r"(A), "r"(B))

__global__ void k(float* out, unsigned* in) {
  float acc = 0;
  for (int i = 0; i < 4; ++i) {
    MMA(acc, in[i], in[i + 1]);
  }
  out[0] = acc;
}
"""


def lowered(text: str) -> ir.Module:
    return cuda.lower(text, cuda.lines_origin(text, "k.cu"), cuda_arch=900)


def find(module: ir.Module, kind: type, index: int = 0) -> ir.Loc:
    loc: ir.Loc = [node for node in cuda.walk(module.body) if isinstance(node, kind)][index].loc
    return loc


def cut(text: str, span: Span) -> str:
    """The text of a span."""
    lines = text.split("\n")[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)


def test_plain_text_maps_to_itself() -> None:
    text = "// a comment\n__global__ void k(int *p) {\n  p[0] = f(1, 2); /* x */ g<<<1, 2>>>(p);\n}\n"
    module = lowered(text)
    assert cut(text, module.unit.span(find(module, ir.Call))) == "f(1, 2)"
    assert cut(text, module.unit.span(find(module, ir.Launch))) == "g<<<1, 2>>>(p)"
    assert module.unit.span(find(module, ir.Assign)) == Span("k.cu", 3, 3, 3, 18)


def test_a_statement_inside_a_macro_points_into_the_macro_body() -> None:
    module = lowered(MMA)
    span = module.unit.span(find(module, ir.Asm))
    assert (span.line, span.column) == (3, 3)
    assert cut(MMA, span).startswith("asm volatile(") and cut(MMA, span).endswith('"r"(B))')


def test_an_instruction_inside_a_joined_template_inside_a_macro_points_to_its_line() -> None:
    module = lowered(MMA)
    asm = next(node for node in cuda.walk(module.body) if isinstance(node, ir.Asm))
    template = asm.template
    assert isinstance(template, ir.Const)
    span = module.unit.span(module.unit.within(template, template.value.index("mma.sync"), len("mma.sync")))
    assert cut(MMA, span) == "mma.sync" and span.line == 5
    span = module.unit.span(module.unit.within(template, template.value.index("{%0}"), len("{%0}")))
    assert cut(MMA, span) == "{%0}" and span.line == 6


def test_an_argument_of_a_macro_points_to_the_use() -> None:
    module = lowered(MMA)
    asm = next(node for node in cuda.walk(module.body) if isinstance(node, ir.Asm))
    assert cut(MMA, module.unit.span(asm.outputs[0][1].loc)) == "acc"
    span = module.unit.span(asm.inputs[1][1].loc)
    assert cut(MMA, span) == "in[i + 1]" and span.line == 12


def test_the_function_around_a_macro_use_keeps_its_whole_range() -> None:
    module = lowered(MMA)
    span = module.unit.span(find(module, ir.FuncDef))
    assert (span.line, span.end_line) == (9, 15)


def test_escapes_before_an_instruction_do_not_shift_its_place() -> None:
    text = 'void f() { asm("\\t\\x41\\n\\"q\\" cvt.f32 %0;" : "=f"(x)); }'
    module = lowered(text)
    asm = next(node for node in cuda.walk(module.body) if isinstance(node, ir.Asm))
    assert isinstance(asm.template, ir.Const) and asm.template.value == '\tA\n"q" cvt.f32 %0;'
    span = module.unit.span(module.unit.within(asm.template, asm.template.value.index("cvt"), 3))
    assert cut(text, span) == "cvt"


def test_the_origin_decides_which_file_is_shown() -> None:
    text = "int a = f(1);\nint b = g(2);\n"
    module = cuda.lower(text, lambda offset: ("solution.py", 100 + text.count("\n", 0, offset), 7 + offset))
    span = module.unit.span(find(module, ir.Call, 1))
    assert (span.path, span.line, span.column) == ("solution.py", 101, 7 + text.index("g(2)"))


def test_a_span_never_runs_over_two_files() -> None:
    text = "int a = f(1,\n 2);"
    module = cuda.lower(text, lambda offset: ("one" if offset < 12 else "two", 1, offset + 1))
    assert module.unit.span(find(module, ir.Call)) == Span("one", 1, 9, 1, 10)


def test_text_that_is_not_ascii_does_not_shift_places() -> None:
    text = '// käse\nvoid f() { const char* s = "größe ✓"; g(s); }'
    module = lowered(text)
    assert cut(text, module.unit.span(find(module, ir.Call))) == "g(s)"
    assert "größe ✓" in [node.value for node in cuda.walk(module.body) if isinstance(node, ir.Const)]
