"""Texts remember where each of their characters was written, through everything that builds strings."""

from __future__ import annotations

import ast
import textwrap

from hypothesis import given, settings
from hypothesis import strategies as st

from kbh_lint.frontends.python import PythonUnit
from kbh_lint.source import embedded
from kbh_lint.source.embedded import FileText, Literal, Piece, Text

FILES = st.text(st.sampled_from("ab{} \t\n%xé"), min_size=1, max_size=60)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["cut", "replace", "strip", "dedent", "lines", "add", "twice"]),
        st.integers(0, 60),
        st.integers(0, 60),
        st.sampled_from(["a", "b", "ab", " ", "\n", "zz", ""]),
    ),
    max_size=6,
)


def mapped(content: str, path: str = "f.cu", first_line: int = 1) -> Text:
    return Text(content, (Piece(0, len(content), FileText(path, content, first_line), 0),))


def step(text: str, kind: str, a: int, b: int, words: str) -> tuple[str, str]:
    """One way to build a text from another, and what Python itself makes of it."""
    plain = str(text)
    if kind == "cut":
        return embedded.cut(text, min(a, len(text)), max(min(b, len(text)), min(a, len(text)))), plain[a : max(a, b)]
    if kind == "replace":
        return embedded.replace(text, words or "a", "__", a % 4 - 1), plain.replace(words or "a", "__", a % 4 - 1)
    if kind == "strip":
        chars = words or None
        return embedded.strip(text, chars, True, bool(b % 2)), plain.strip(chars) if b % 2 else plain.lstrip(chars)
    if kind == "dedent":
        return embedded.dedent(text), textwrap.dedent(plain)
    if kind == "lines":
        return embedded.concat(embedded.split_lines(text)), plain
    if kind == "add":
        return embedded.concat((words, text, words)), words + plain + words
    return embedded.concat((text, text)), plain + plain


@settings(deadline=None)
@given(FILES, STEPS)
def test_a_text_is_what_python_makes_and_each_mapped_character_is_the_one_in_the_file(
    content: str, steps: list[tuple[str, int, int, str]]
) -> None:
    text: str = mapped(content)
    for kind, a, b, words in steps:
        made, expected = step(text, kind, a, b, words)
        if kind != "dedent" or "\t" not in content:  # Python normalises lines of blanks in its own way
            assert str(made) == expected
        text = made
    lines = content.split("\n")
    for piece in embedded.pieces_of(text):
        for at in range(piece.start, piece.end):
            assert isinstance(text, Text)
            path, line, column = text.origin(at) or ("", 0, 0)
            assert path == "f.cu"
            char = lines[line - 1][column - 1 : column] or "\n"
            assert char == str(text)[at]


VALUES = st.text(st.sampled_from("abc'\"\\\n\t{}é\U0001f600 "), min_size=1, max_size=30)
WAYS = st.sampled_from(["repr", "triple", "raw", "f", "two"])


def written(value: str, way: str) -> str | None:
    """A literal that has this value, written in one of several ways."""
    if way == "triple" and '"""' not in value and not value.endswith('"'):
        return '"""' + value.replace("\\", "\\\\") + '"""'
    if way == "raw" and "\\" not in value and "'" not in value and "\n" not in value:
        return f"r'{value}'"
    if way == "f":
        return "f" + repr(value).replace("{", "{{").replace("}", "}}")
    if way == "two":
        return f"({value[:3]!r}  # '\n    u{value[3:]!r})"
    return repr(value)


@settings(deadline=None, max_examples=200)
@given(VALUES, WAYS, st.sampled_from(["x = ", "é = ", "if 1:\n    x = f(1, "]))
def test_a_character_of_a_literal_is_found_where_it_stands(value: str, way: str, before: str) -> None:
    source = before + (written(value, way) or "") + (")" if before.endswith(", ") else "") + "\n"
    if way == "f" and "\\N" in source:
        return
    node = next(
        n
        for n in ast.walk(ast.parse(source))
        if isinstance(n, ast.JoinedStr if way == "f" else ast.Constant) and (way == "f" or isinstance(n.value, str))  # type: ignore[attr-defined]
    )
    unit = PythonUnit("s.py", source)
    literal = Literal(unit, (unit, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset))
    lines = source.split("\n")
    for offset, char in enumerate(value):
        path, line, column = literal.place(offset)
        assert path == "s.py"
        found = lines[line - 1][column - 1 : column] or "\n"
        assert found in (char, "\\")  # itself, or the escape that stands for it


def test_a_place_in_text_without_a_map_is_that_of_the_mapped_text_before_it() -> None:
    text = embedded.concat(("// made\n", mapped("one\ntwo", first_line=10), "\n// end"))
    assert isinstance(text, Text)
    assert text.origin(0) == ("f.cu", 10, 1)
    assert text.origin(str(text).index("two")) == ("f.cu", 11, 1)
    assert text.origin(len(text) - 1) == ("f.cu", 11, 3)
    assert Text("plain").origin(0) is None


def test_a_text_past_its_bound_is_refused() -> None:
    half = "a" * (embedded.MAX_TEXT // 2 + 1)
    try:
        embedded.concat((half, half))
    except ValueError as error:
        assert "past the bound" in str(error)
    else:
        raise AssertionError("no bound")
