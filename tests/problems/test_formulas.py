import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbh_lint.base.formulas import FormulaError, evaluate, evaluate_int, names

SYMBOLS = {"M": 32, "N": 8192, "K": 4127, "flag": True, "parts": (1, 2)}


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("2*M*N*K", 2 * 32 * 8192 * 4127),
        ("K//128", 32),
        ("-M + 2**3 % 5", -29),
        ("max(M*((K + 15)//16) + 8, 64)", 32 * 258 + 8),
        ("M/64", 0.5),
        ("M", 32),
        ("flag", True),
        ("parts", (1, 2)),
        (7, 7),
    ],
)
def test_a_formula_has_the_value_that_arithmetic_gives_it(formula: str | int, value: object) -> None:
    assert evaluate(formula, SYMBOLS) == value


@pytest.mark.parametrize(
    ("formula", "part"),
    [
        ("M*L", "`L`"),
        ("M//(K-4127)", "divides by zero"),
        ("2**9999", "too large"),
        ("2**2.0**70", "too large"),
        ("10**60*10**60", "too large"),
        ("(-M)**(1/2)", "no real value"),
        ("parts*2", "not a number"),
        ("flag + 1", "not a number"),
        ("M +", "not an arithmetic formula"),
        ("__import__('os').system('true')", "calls something other than min or max"),
        ("M.real", "not an arithmetic formula"),
        ("[M]", "not an arithmetic formula"),
        ("'a'*9", "not a number"),
        ("M << 4", "operator"),
        ("~M", "operator"),
        ("(" * 300 + "M" + ")" * 300, "longer than"),
        ("+".join("M" * 90), "more than"),
    ],
)
def test_what_is_not_bounded_arithmetic_is_refused_with_a_reason(formula: str, part: str) -> None:
    with pytest.raises(FormulaError, match=r".*" + part.replace("(", r"\(")):
        evaluate(formula, SYMBOLS)


def test_a_size_is_a_whole_number_that_is_not_negative() -> None:
    assert evaluate_int("N/2", SYMBOLS) == 4096
    for formula in ("M/64", "-M", "flag", "parts"):
        with pytest.raises(FormulaError, match="not a size"):
            evaluate_int(formula, SYMBOLS)


def test_the_symbols_of_a_formula_are_known_without_evaluating_it() -> None:
    assert names("max(batch*pages, 64)") == {"batch", "pages"}
    assert names("M") == {"M"}
    assert names("128") == names(128) == frozenset()


@given(st.text(max_size=60))
def test_no_text_makes_evaluation_fail_otherwise_than_by_formula_error(text: str) -> None:
    try:
        value = evaluate(text, {"a": 3})
    except FormulaError:
        return
    assert isinstance(value, (int, float))


@given(st.recursive(
    st.sampled_from(["a", "b", "3", "0", "1.5"]),
    lambda part: st.tuples(part, st.sampled_from(["+", "-", "*", "//", "%", "/", "**"]), part).map(
        lambda t: f"({t[0]} {t[1]} {t[2]})"
    ),
    max_leaves=12,
))  # fmt: skip
def test_formulas_agree_with_python_where_both_have_a_value(text: str) -> None:
    try:
        value = evaluate(text, {"a": 5, "b": 2})
    except FormulaError:
        return
    assert value == eval(text, {"__builtins__": {}}, {"a": 5, "b": 2})
