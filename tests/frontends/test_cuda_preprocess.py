"""Macros, conditions and the map back to where each character was written."""

from __future__ import annotations

import pytest

from kbh_lint.frontends.cuda.conditions import ConditionError, evaluate
from kbh_lint.frontends.cuda.preprocess import preprocess


def expanded(text: str, cuda_arch: int | None = None, **defines: str) -> str:
    return " ".join(preprocess(text, defines, cuda_arch).text.split())


def test_comments_and_line_continuations_become_blanks_of_the_same_length() -> None:
    text = 'int a; // one \\\n two\nint b; /* "x\ny" */ int c = 1\\\n2;'
    prepared = preprocess(text, {}, None)
    assert len(prepared.text) == len(text)
    assert prepared.text.split() == ["int", "a;", "int", "b;", "int", "c", "=", "1", "2;"]


def test_quotes_and_comment_marks_inside_strings_are_text() -> None:
    text = 'f("// no", \'"\', R"x(/* " */)x", 1\'000\'000); // yes'
    assert expanded(text) == 'f("// no", \'"\', R"x(/* " */)x", 1\'000\'000);'


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("#define N 4\nint a[N];", "int a[ 4 ];"),
        ("#define SQ(x) ((x)*(x))\nSQ(a + 1)", "((a + 1)*(a + 1))"),
        ("#define CAT(a, b) a##b\nCAT(x, 1)", "x1"),
        ("#define STR(x) #x\nSTR(a  + b)", '"a + b"'),
        ('#define STR(x) #x\nSTR("q")', '"\\"q\\""'),
        ("#define LOG(f, ...) p(f, ##__VA_ARGS__)\nLOG(1)", "p(1)"),
        ("#define LOG(f, ...) p(f, ##__VA_ARGS__)\nLOG(1, 2, 3)", "p(1,2, 3)"),
        ("#define LOG(f, ...) p(f __VA_OPT__(,) __VA_ARGS__)\nLOG(1)", "p(1 )"),
        ("#define LOG(f, ...) p(f __VA_OPT__(,) __VA_ARGS__)\nLOG(1, 2)", "p(1 , 2)"),
        ("#define R R + 1\nR", "R + 1"),
        ("#define A B\n#define B A\nA", "A"),
        ("#define F(x) x\nF", "F"),
        ("#define F(x) g(x)\nF(F(1))", "g(g(1))"),
        ("#define NEG(x) -x\nNEG(-1)", "- -1"),
        ("#define TWO(a, b) a b\nTWO((1, 2), {3, 4})", "(1, 2) {3, 4}"),
        ("#define N 1\n#undef N\nN", "N"),
        ("#define LONG(x) \\\n  f(x); \\\n  g(x)\nLONG(2)", "f(2); g(2)"),
        ("xN N\n#define N 1\nxN N", "xN N xN 1"),
    ],
)
def test_macros_expand_as_in_c(text: str, result: str) -> None:
    assert expanded(text) == result


def test_command_line_defines_are_macros_too() -> None:
    assert expanded("int a[BM];", BM="128") == "int a[ 128 ];"
    assert expanded("#if BM > 64\nbig\n#else\nsmall\n#endif", BM="128") == "big"


@pytest.mark.parametrize(
    ("condition", "arch", "taken"),
    [
        ("__CUDA_ARCH__ >= 900", 900, True),
        ("__CUDA_ARCH__ >= 900", 800, False),
        ("__CUDA_ARCH__ >= 900", None, True),
        ("defined(__CUDACC__) && !defined(USE_ROCM)", None, True),
        ("NOT_DEFINED_ANYWHERE", None, False),
        ("defined __CUDA_ARCH_FEAT_SM90_ALL", 900, True),
        ("defined __CUDA_ARCH_FEAT_SM90_ALL", 1200, False),
        ("__has_include(<cuda_fp8.h>)", None, True),
        ("(1 + 2 * 3 == 7) ? 1 : 0", None, True),
        ("0x10 >> 4 == 1 && ~0 == -1", None, True),
        ("__cplusplus >= 201402L", None, True),
    ],
)
def test_a_condition_keeps_the_branch_that_the_build_takes(condition: str, arch: int | None, taken: bool) -> None:
    text = f"#if {condition}\nyes\n#else\nno\n#endif"
    assert expanded(text, arch) == ("yes" if taken else "no")


def test_branches_nest_and_chains_stop_at_the_first_true_one() -> None:
    text = (
        "#define V 2\n#if V == 1\na\n#elif V == 2\n#ifdef W\nb\n#else\nc\n#endif\n#elif V == 2\nd\n#else\ne\n#endif\nf"
    )
    assert expanded(text) == "c f"


def test_defines_in_a_branch_not_taken_do_not_count() -> None:
    assert expanded("#if 0\n#define N 1\n#include <no.h>\n#endif\nN") == "N"
    assert preprocess("#if 0\n#include <no.h>\n#endif", {}, None).includes == []


@pytest.mark.parametrize("text", ["1 +", "(1", "1 ? 2", "@", "1.5", "!" * 100 + "1"])
def test_a_condition_that_is_no_integer_expression_is_an_error(text: str) -> None:
    with pytest.raises(ConditionError):
        evaluate(text)


def test_a_condition_that_is_not_understood_is_reported_and_its_branch_kept() -> None:
    prepared = preprocess("#if 1 +\nint a;\n#endif", {}, None)
    assert "int a;" in prepared.text
    assert [reason.split(":")[0] for reason, _, _ in prepared.unread] == ["an #if condition was not understood"]


def test_a_token_of_a_macro_body_maps_to_the_body_and_an_argument_to_the_use() -> None:
    text = "#define ADD(x) (x + one)\nint y = ADD(two);"
    prepared = preprocess(text, {}, None)
    for word in ("one", "two"):
        assert prepared.map.source(prepared.text.index(word)) == text.index(word)


def test_a_range_over_a_whole_use_covers_the_body_where_it_starts() -> None:
    text = "#define ADD(x) (x + one)\nint y = ADD(two);"
    prepared = preprocess(text, {}, None)
    start, end = prepared.text.index("("), prepared.text.index(")") + 1
    first, last = prepared.map.range(start, end)
    assert text[first : last + 1] == "(x + one)"


def test_macros_that_explode_stop_with_a_reason_and_keep_the_rest() -> None:
    lines = ["#define A0 xxxxxxxxxx"]
    lines += [f"#define A{i} A{i - 1} A{i - 1} A{i - 1} A{i - 1}" for i in range(1, 30)]
    prepared = preprocess("\n".join([*lines, "A29", "int after;"]), {}, None)
    assert [reason for reason, _, _ in prepared.unread] == ["macros expand to too much text"]
    assert "int after;" in prepared.text


def test_macro_uses_nested_beyond_the_limit_stop_with_a_reason() -> None:
    prepared = preprocess("#define F(x) x\n" + "F(" * 150 + "1" + ")" * 150, {}, None)
    assert [reason for reason, _, _ in prepared.unread] == ["macros nest too deeply"]
