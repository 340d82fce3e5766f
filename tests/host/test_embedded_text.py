"""A finding in CUDA text points at the place in the .py file where that text was written, however it was built."""

# ruff: noqa: E501

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from host_support import BINDING, CUDA, MARK, SIGNATURE, classes, lint, model, place, reasons, states

from kbh_lint.source.spans import Span

BUILD = f'ext = load_inline(name="e", cpp_sources="{SIGNATURE}", cuda_sources=SOURCE, functions=["run"])\n'
IMPORTS = """\
import functools, os, string, textwrap
from pathlib import Path
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load, load_inline
"""
RUN = model("return ext.run(x, self.weight, self.weight_scale)")
BRACES = CUDA.replace("{", "{{").replace("}", "}}")
LINES = CUDA.splitlines()
HALF = CUDA.index("__global__"), CUDA.index("torch::Tensor run")


def quoted(lines: list[str]) -> str:
    return "\n".join(f'    "{line}\\n"' for line in lines)


FORMS = {
    "one literal": f'SOURCE = r"""{CUDA}"""\n',
    "escapes before it on the same line": 'SOURCE = "// \\t\\x41\\u00e9\\N{BULLET}\\060' + "\\n".join(LINES) + '"\n',
    "text that is not ASCII before it": f'SOURCE = """// größe ✓ \U0001f600{CUDA}"""; é = "ü"\n',
    "continued lines": 'SOURCE = """\\\n' + CUDA.replace("float total", "float \\\ntotal") + '"""\n',
    "literals side by side": f"SOURCE = (  # ' not a string\n{quoted(LINES)}\n)\n",
    "sums": f'SOURCE = r"""{CUDA[: HALF[0]]}"""\nSOURCE += r"""{CUDA[HALF[0] : HALF[1]]}""" + r"""{CUDA[HALF[1] :]}"""\n',
    "a join of lines": "SOURCE = '\\n'.join([\n" + "".join(f"    {line!r},\n" for line in LINES) + "])\n",
    "an f-string": f'T = "float"\nSOURCE = f"""{BRACES.replace("float total", "{T} total")}"""\n',
    "an f-string with fields of every kind": 'A = 3\nSOURCE = f"""// {A=} {A!r:>9} {A:{A}d} {{}} {A\n + 1}"""'
    + f' f"{{A}}" "{{A}}" fr"""{BRACES}"""\n',
    "an f-string inside another": f'BODY = """{CUDA}"""\nSOURCE = f"// {{1 + 1}}\\n{{BODY}}"\n',
    "format": f'SOURCE = """{BRACES.replace("float total", "{kind} {0}")}""".format("total", kind="float")\n',
    "replace": f'SOURCE = """{CUDA.replace("float total", "@T@ total")}""".replace("@T@", "float")\n',
    "percent": f'SOURCE = """{CUDA.replace("float total", "%s total")}""" % "float"\n',
    "percent by name": f'SOURCE = """{CUDA.replace("float total", "%(t)s total")}""" % {{"t": "float"}}\n',
    "dedent": f'SOURCE = textwrap.dedent("""{textwrap.indent(CUDA, "        ")}""")\n',
    "strip and slices": f'SOURCE = ("xx" + """{CUDA}  """).strip()[2:]\n',
    "a loop over parts": f'PARTS = [r"""{CUDA[: HALF[0]]}""", r"""{CUDA[HALF[0] :]}"""]\nSOURCE = ""\n'
    "for i, part in enumerate(PARTS):\n    SOURCE += f'// part {i}\\n' + part\n",
    "a comprehension": f'SOURCE = "".join(line + "\\n" for line in """{CUDA}""".splitlines())\n',
    "a function with defaults": f'def source(t="float", *, n=2):\n    head = "\\n".join(f"// {{i}}" for i in range(n))\n'
    f'    return head + f"""{BRACES.replace("float total", "{t} total")}"""\nSOURCE = source()\n',
    "a table": f'TABLE = {{"a": "", "b": """{CUDA}"""}}\nSOURCE = TABLE.get("b", "")\n',
    "a class attribute": f'class Text:\n    body = """{CUDA}"""\nSOURCE = Text.body\n',
    "a partial": f'def put(a, b):\n    return a + b\nSOURCE = functools.partial(put, "// x\\n")("""{CUDA}""")\n',
    "a try": f'try:\n    SOURCE = """{CUDA}"""\nexcept Exception:\n    SOURCE = ""\n',
    "a conditional": f'SOURCE = """{CUDA}""" if os.environ.get("SLOW") is None else ""\n',
}


@pytest.mark.parametrize("form", FORMS)
def test_a_finding_points_where_the_text_was_written(tmp_path: Path, form: str) -> None:
    report = lint(tmp_path, IMPORTS + FORMS[form] + BUILD + RUN)
    finding = next(f for f in report.findings if f.leak_class == "fp8-upcast-bf16-gemm")
    assert finding.span == place(tmp_path / "solution.py", MARK), reasons(report)


def test_a_finding_in_a_macro_points_into_the_macro(tmp_path: Path) -> None:
    macro = "#define MULTIPLY(p, q) \\\n  (float(p) * float(q))\n__global__"
    text = CUDA.replace("__global__", macro).replace(
        f"{MARK} * float(w[col * K + k])", "MULTIPLY(x[row * K + k], w[col * K + k])"
    )
    report = lint(tmp_path, IMPORTS + f'SOURCE = r"""{text}"""\n' + BUILD + RUN)
    finding = next(f for f in report.findings if f.leak_class == "fp8-upcast-bf16-gemm")
    body = place(tmp_path / "solution.py", "  (float(p) * float(q))")
    assert (finding.span.line, finding.span.column) == (body.line, body.column + 3)


def test_instructions_in_a_joined_asm_template_are_found_at_their_line(tmp_path: Path) -> None:
    product = """
  unsigned a = 0, b = 0; float d[4];
  asm volatile("{ .reg .b32 t;\\n"
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3}; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a), "r"(b));
  y[0] = __float2bfloat16(d[0]);
"""
    text = CUDA.replace("  float total", "  unsigned short h = 0;" + product + "  float total")
    text = text.replace(
        "unsigned a = 0",
        "__nv_bfloat162 g = __floats2bfloat162_rn(float(x[row]), float(x[col])); unsigned a = *(unsigned*)&g",
    )
    report = lint(tmp_path, IMPORTS + f'SOURCE = r"""{text}"""\n' + BUILD + RUN)
    places = {related.span.line for f in report.findings for related in f.related}
    assert place(tmp_path / "solution.py", '"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "').line in places | {
        f.span.line for f in report.findings
    }


def test_a_file_that_is_written_and_then_built_keeps_its_places(tmp_path: Path) -> None:
    build = (
        'here = Path("/tmp/build")\nhere.mkdir(exist_ok=True)\n(here / "k.cu").write_text(SOURCE)\n'
        'ext = load(name="e", sources=[str(here / "k.cu")])\n'
    )
    report = lint(tmp_path, IMPORTS + f'SOURCE = r"""{CUDA}{BINDING}"""\n' + build + RUN)
    (finding,) = [f for f in report.findings if f.leak_class == "fp8-upcast-bf16-gemm"]
    assert finding.span == place(tmp_path / "solution.py", MARK)


def test_a_file_written_through_open_keeps_its_places(tmp_path: Path) -> None:
    build = 'with open("/tmp/k.cu", "w") as file:\n    file.write("// made\\n")\n    file.write(SOURCE)\next = load("e", ["/tmp/k.cu"])\n'
    report = lint(tmp_path, IMPORTS + f'SOURCE = r"""{CUDA}{BINDING}"""\n' + build + RUN)
    assert place(tmp_path / "solution.py", MARK) in {f.span for f in report.findings}


@pytest.mark.parametrize(
    "build",
    [
        'ext = load("e", [str(Path(__file__).parent / "k.cu")])\n',
        'ext = load(name="e", sources=[os.path.join(os.path.dirname(__file__), "k.cu")])\n',
        'ext = load_inline("e", [""], [Path(__file__).with_name("k.cu").read_text()])\n',
        'ext = load_inline("e", [""], [open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "k.cu")).read()])\n',
        'HEADER = "// x\\n"\next = load_inline("e", "", HEADER + (Path(__file__).resolve().parent / "k.cu").read_text())\n',
    ],
)
def test_a_finding_in_a_sidecar_points_into_the_sidecar(tmp_path: Path, build: str) -> None:
    sidecar = tmp_path / "k.cu"
    sidecar.write_text(CUDA + BINDING)
    report = lint(tmp_path, IMPORTS + build + RUN)
    assert place(sidecar, MARK) in {f.span for f in report.findings}, reasons(report)


def test_a_finding_in_a_sidecar_block_of_a_bundle_points_at_the_bundle_s_line(tmp_path: Path) -> None:
    body = CUDA + BINDING
    text = IMPORTS + 'ext = load("e", ["k.cu"])\n' + RUN
    report = lint(tmp_path, f"{text}# ===== sidecar: k.cu ({len(body)} bytes, loaded by solution.py) =====\n{body}")
    assert place(tmp_path / "solution.py", MARK) in {f.span for f in report.findings}


def test_text_that_is_decoded_at_run_time_is_a_hole_and_not_a_verdict(tmp_path: Path) -> None:
    build = 'import base64\nSOURCE = base64.b64decode(open("kernel.b64").read()).decode()\n'
    report = lint(tmp_path, IMPORTS + build + BUILD + RUN)
    assert report.verdict == "unproven"
    assert "broken" not in states(report).values() and not classes(report)
    assert any("sources of an extension are not known" in reason for reason in reasons(report))


def test_the_call_of_the_launch_is_shown_beside_the_finding(tmp_path: Path) -> None:
    report = lint(tmp_path, IMPORTS + f'SOURCE = r"""{CUDA}"""\n' + BUILD + RUN)
    (finding,) = [f for f in report.findings if f.leak_class == "fp8-upcast-bf16-gemm"]
    path = tmp_path / "solution.py"
    shown: dict[str, Span] = {related.message: related.span for related in finding.related}
    assert shown["reached from here"] == place(path, "ext.run(x, self.weight, self.weight_scale)")
    assert shown["launched here"].line == place(path, "gemm<<<M, N>>>").line
