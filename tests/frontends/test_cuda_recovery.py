"""Broken, hostile and unusual text: the rest of the file survives and everything stays bounded."""

from __future__ import annotations

import time

import pytest

from kbh_lint.base import ir
from kbh_lint.frontends import cuda

GOOD = "__global__ void good(float* p) { p[threadIdx.x] = helper(1.0f); }\n"


def lowered(text: str) -> ir.Module:
    return cuda.lower(text, cuda.lines_origin(text, "k.cu"), cuda_arch=900)


def calls_in(module: ir.Module) -> list[ir.Call]:
    """All calls in a module, in order of text."""
    return [node for node in cuda.walk(module.body) if isinstance(node, ir.Call)]


def kernels(module: ir.Module) -> dict[str, int]:
    """Kernel names to the number of their statements."""
    return {
        node.name: len(node.body or ())
        for node in cuda.walk(module.body)
        if isinstance(node, ir.FuncDef) and node.kind == "global"
    }


@pytest.mark.parametrize(
    "broken",
    [
        "__global__ void bad(float* p) { p[0] = = 2; }\n",
        "__global__ void bad(float* p) { @@ p[0] = 1; }\n",
        "struct { int a; } ; ) ;\n",
        "template <class T class U> void bad(T t) { t(); }\n",
        "int x = ;\n",
        "@NAME@ @TYPE@ something;\n",
    ],
)
@pytest.mark.parametrize("order", ["before", "after", "in a namespace"])
def test_an_error_spoils_only_the_piece_it_is_in(broken: str, order: str) -> None:
    text = {"before": broken + GOOD, "after": GOOD + broken, "in a namespace": f"namespace a {{\n{broken}{GOOD}}}\n"}[
        order
    ]
    assert kernels(lowered(text))["good"] == 1


def test_a_kernel_with_a_broken_statement_keeps_its_other_statements() -> None:
    text = "__global__ void k(float* p) { float a = p[0]; int b = [ ; ]]; p[1] = sink(a); }"
    module = lowered(text)
    assert list(kernels(module)) == ["k"]
    assert "sink" in [call.func.id for call in calls_in(module) if isinstance(call.func, ir.Name)]


def test_what_is_inside_an_error_is_kept_below_an_opaque_node() -> None:
    module = lowered("void f() { x = ( a @ b ; g(1); }")
    assert any(isinstance(node, ir.Opaque) for node in cuda.walk(module.body))
    assert "g" in [call.func.id for call in calls_in(module) if isinstance(call.func, ir.Name)]


@pytest.mark.parametrize(
    "text",
    [
        "HEADER_MACRO_FN void good(float* p) { run(p); }",
        "void good(Tensor t, Options o = {}) { run(t); }",
        "LIST_OF_WRAPPERS\n\nvoid good() {\n  BEGIN_SCOPE\n  run();\n  END_SCOPE\n}",
        "struct S : B { using typename B::X; void good() { run(); } };",
    ],
)
def test_what_only_the_grammar_stops_at_is_no_error(text: str) -> None:
    module = lowered(text)
    assert not [node for node in cuda.walk(module.body) if isinstance(node, ir.Opaque)]
    assert [call.func.id for call in calls_in(module) if isinstance(call.func, ir.Name)] == ["run"]


@pytest.mark.parametrize(
    "text", ["", "\n", "\\", '"', "'", "/*", "#", "#define", "#if", 'R"(', "<<<", "asm(", "}", "[["]
)
def test_text_that_ends_too_early_is_lowered(text: str) -> None:
    assert isinstance(lowered(text).body, tuple)
    assert kernels(lowered(GOOD + text))["good"] == 1


HOSTILE = {
    "brackets": "int a = " + "(" * 100_000 + "1" + ")" * 100_000 + ";",
    "operators": "int a = 1" + " + 1" * 20_000 + ";",
    "negations": "bool a = " + "!" * 5_000 + "b;",
    "conditionals": "int a = " + "b ? c : " * 5_000 + "d;",
    "else": "void f() { " + "if (a) b(); else " * 3_000 + "c(); }",
    "templates": "int a = " + "A<" * 3_000 + "int" + ">" * 3_000 + "::x;",
    "loops": "void f() { " + "for (;;) " * 3_000 + "; }",
    "pointers": "int " + "*" * 5_000 + "p;",
    "commas": "void f() { " + "a, " * 5_000 + "b; }",
    "calls": "void f() { m" + ".def(1)" * 3_000 + "; }",
    "launches": "void f() { " + "a<<<" * 20_000 + " }",
    "comments": "/*" * 200_000,
    "raw strings": 'R"(' * 100_000,
    "macro uses": "#define F(x) x\n" + "F(" * 20_000,
    "asm": "asm(" * 20_000,
    "attributes": "__attribute__((" * 20_000,
    "conditions": "#if 1\n" * 5_000,
    "casts": "x = " + "(a)*" * 100_000,
    "ambiguous calls": "a(b)(c)" * 3_000,
    "namespaces": "namespace a{}" * 10_000,
    "a long namespace": "namespace " + "a" * 5_000 + " = b {",
    "typedefs": "typedef " * 5_000,
    "words": "__global__ void k(){}\n" + "int x;" * 5_000,
    "overloads": "T a(b);" * 5_000,
    "macro names": "#define F(x) x\nF(" + "F " * 20_000 + ")",
    "unbalanced bodies": "#define F(x) x\n#define G " + "F( " * 20_000 + "\nG",
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_ends_soon_and_the_tree_is_not_too_deep(name: str) -> None:
    start = time.process_time()
    module = lowered(HOSTILE[name])
    cuda.module_env(module)
    assert time.process_time() - start < 15
    assert depth(module.body) < 700


def depth(nodes: object) -> int:
    """The depth of the deepest node."""
    level = list(nodes) if isinstance(nodes, tuple) else [nodes]
    count = 0
    while level:
        count += 1
        level = [child for node in level for child in cuda.children(node)]
    return count


def test_brackets_nested_too_deep_are_reported_with_their_place() -> None:
    module = lowered("int a;\nint b = " + "(" * 300 + "1" + ")" * 300 + ";")
    ((reason, loc),) = module.unread
    assert reason == "brackets nest more than 200 deep"
    assert module.unit.span(loc).line == 2


def test_a_chain_that_is_too_deep_is_reported_once() -> None:
    module = lowered("int a = 1" + " + 1" * 400 + ";\nint b = 1" + " + 1" * 400 + ";\nint c = f();")
    assert [reason for reason, _ in module.unread] == ["nested more than 120 deep"]
    assert len(calls_in(module)) == 1


def test_text_that_is_too_ambiguous_to_parse_is_reported_and_includes_are_kept() -> None:
    module = lowered("#include <a.h>\nx = " + "(a)*" * 100_000 + ";")
    assert [reason for reason, _ in module.unread] == ["the text is too ambiguous to be parsed"]
    assert [type(node) for node in module.body] == [ir.Import]


def test_text_of_more_than_two_megabytes_is_not_read() -> None:
    module = lowered("int a;\n" * 400_000)
    assert module.body == () and [reason for reason, _ in module.unread] == ["C++ text of more than 2 MB"]
