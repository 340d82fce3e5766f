"""Functions are known again under other names, and only where they are really there."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kbh_lint.base import paths
from kbh_lint.fingerprints.functions import Function, cpp_functions, python_functions
from kbh_lint.fingerprints.store import MIN_TOKENS, Library, grams, load, matches, unpack
from kbh_lint.rules import load_rules

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import fingerprint  # noqa: E402

SAMPLE = ROOT / "tests/fingerprints/sample"
PYTHON, CUDA = (SAMPLE / "softmax.py").read_text(), (SAMPLE / "softmax.cu").read_text()
MINE = Library("mine", "1", ("mine",), "MIT")
KEPT = {"def", "for", "in", "range", "float", "mask", "other", "axis"}


def renamed(text: str) -> str:
    """Every name that is no attribute, keyword or argument's name gets another one, every number another value."""
    names = set(re.findall(r"(?<![.\w])[a-zA-Z_]\w*", text)) - KEPT
    for index, name in enumerate(sorted(names)):
        text = re.sub(rf"(?<![.\w]){name}\b", f"v{index}", text)
    return re.sub(r"(?<![\w.])\d+(?![\w.])", "77", text)


def codes(functions: list[Function]) -> list[bytes]:
    """The token streams."""
    return [function.code for function in functions]


def test_names_numbers_comments_and_layout_do_not_change_a_function() -> None:
    body = PYTHON[PYTHON.index("def ") :].replace('"-inf"', "'high'")
    assert codes(python_functions(renamed(body))) == codes(python_functions(body))
    spread = body.replace("tl.load(", "tl.load(  # read\n            ").replace("'high'", '"low"')
    assert codes(python_functions(spread)) == codes(python_functions(body))


def test_words_that_have_a_meaning_of_their_own_do() -> None:
    after = PYTHON.replace("tl.maximum", "tl.minimum")
    assert codes(python_functions(after))[0] != codes(python_functions(PYTHON))[0]
    assert codes(cpp_functions(CUDA.replace("int step", "float step")))[1] != codes(cpp_functions(CUDA))[1]


def test_cuda_functions_are_found_in_text_that_is_not_whole() -> None:
    text = "template <int N>\n__global__ void __launch_bounds__(N) one(int a) { if (a) { a = N; } }\n"
    text += 'struct S { int f() const { return 1; } };\nextern "C" {\nvoid two() { while (1) {\n'
    assert [(f.name, f.line) for f in cpp_functions(text)] == [("one", 2), ("f", 3), ("two", 5)]


@pytest.mark.parametrize(
    "text",
    ["/*" * 100_000, '\\"' * 100_000, "'" * 200_001, ") {" * 60_000, "f() {" * 60_000, "#define a \\\n" * 50_000],
    ids=["comments", "quotes", "apostrophes", "brackets", "functions", "directives"],
)
def test_a_hostile_text_is_read_in_time_that_grows_with_its_length(text: str) -> None:
    began = time.process_time()
    cpp_functions(text)
    assert time.process_time() - began < 5


def test_a_licence_header_with_many_years_is_read_at_once() -> None:
    from kbh_lint.analyses.whole_file.vendored import _headers
    from kbh_lint.frontends.python import PythonUnit

    began = time.process_time()
    rows = "# Copyright " + "2020,2021, " * 2000 + "\n# Copyright (c) 2019-2024, Some Authors.\n# copyright is a word\n"
    assert [seed.fact.attrs()["holder"] for seed in _headers(PythonUnit("a.py", rows))] == ["Some Authors"]
    assert time.process_time() - began < 1


def test_another_name_for_a_type_changes_nothing() -> None:
    aliased = "using real = float;\ntypedef int number;\n" + CUDA.replace("float", "real").replace("int ", "number ")
    assert codes(cpp_functions(aliased)) == codes(cpp_functions(CUDA))


def test_cuda_text_in_a_python_string_has_lines_of_the_file() -> None:
    text = f'import torch\nSOURCE = r"""{CUDA}"""\n'
    (found,) = (f for f in python_functions(text) if f.name == "row_normalize")
    assert text.splitlines()[found.line - 1].startswith("__global__ void row_normalize")


def test_a_large_function_is_enough_and_of_small_ones_it_takes_two() -> None:
    text = "def f(a, b):\n" + "".join(f"    a.step{i}(b, a[{i}] + b * {i}, keep=a.x{i})\n" for i in range(40))
    large = python_functions(text)
    small, other = (
        [replace(f, name=word, code=f.code[: 2 * MIN_TOKENS]) for f in python_functions(text.replace("step", word))]
        for word in ("go", "run")
    )
    store = unpack(fingerprint.make([MINE], [(0, f) for f in (*large, *small, *other)], set()))
    most = [replace(large[0], code=large[0].code[: len(large[0].code) * 3 // 4])]
    assert [match.function for match in matches(large, store)] == ["f"]
    assert matches(most, store) and not matches([replace(large[0], code=large[0].code[:200])], store)
    assert not matches(small, store) and len(matches([*small, *other], store)) == 2


def test_what_is_common_is_not_kept() -> None:
    found = python_functions(PYTHON)
    common = grams(found[0]) | grams(found[1])
    assert not unpack(fingerprint.make([MINE], [(0, f) for f in found], common)).functions


def test_what_a_library_copied_from_another_is_the_others() -> None:
    first, second = python_functions(PYTHON)[:2]
    grown = replace(first, name="grown", code=first.code[:200] + second.code)  # most of it is theirs
    theirs = replace(MINE, name="theirs")
    store = unpack(
        fingerprint.make([MINE, theirs], [(0, first), (1, first), (1, grown)], set(), grams(first), {"mine"})
    )
    wanted = [("mine", first.name), ("theirs", "grown")]
    assert [(store.libraries[f.origin].name, f.name) for f in store.functions] == wanted
    assert {match.origin.name for match in matches([first], store)} <= {"mine"}
    before = unpack(fingerprint.make([theirs], [(0, first), (0, grown)], set()))
    added = unpack(fingerprint.make([theirs, MINE], [(1, first)], set(), grams(first), {"mine"}, before))
    assert sorted((added.libraries[f.origin].name, f.name) for f in added.functions) == wanted


@pytest.mark.parametrize("data", [b"", b"kbhfp0\n", b"kbhfp1\nnothing"])
def test_a_file_of_another_version_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no fingerprints of this version"):
        unpack(data)


def test_our_own_kernels_are_nobody_elses() -> None:
    store = load()
    deck = [path.read_text() for path in sorted(paths.problems_dir().glob("*/honest/*.py"))]
    rules = [rule for rule in load_rules(paths.rules_dir()) if rule.id not in ("KBH505", "KBH506")]
    examples = {example.code for rule in rules if not rule.id.startswith("KBH9") for example in rule.good}
    assert len(deck) > 8 and len(examples) > 25
    for text in (*deck, *examples):
        assert not matches(python_functions(text), store)


def test_the_committed_file_names_libraries_and_holds_the_sample() -> None:
    store = load()
    assert {"flash-linear-attention", "flash-attention", "vllm", "marlin", "torch"} <= {x.name for x in store.libraries}
    assert store.hashes.tolist() == sorted(store.hashes) and max(store.owners) < len(store.functions)
    found = matches(python_functions(renamed(PYTHON[PYTHON.index("def ") :])), store)
    assert {match.function for match in found} == {"row_statistics", "row_normalize"}
    assert "kbh-sample" in fingerprint.listing(store)
