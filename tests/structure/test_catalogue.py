"""The catalogue of operations: a name and a spelling mean one thing, and the tables of interpreters come from it."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import get_args

import pytest

from kbh_lint.kernels.languages.cuda import builtins
from kbh_lint.kernels.numeric import cuda
from kbh_lint.ops.catalogue import MODULES, OPERATIONS, shown, spellings
from kbh_lint.ops.operation import Kind, op, spelled

LANGUAGES = sorted({language for row in OPERATIONS for language in row.spellings})
ROWS = 250


def test_no_two_rows_have_one_name() -> None:
    assert [name for name, count in Counter(row.name for row in OPERATIONS).items() if count > 1] == []
    assert len(OPERATIONS) >= ROWS


@pytest.mark.parametrize("module", MODULES)
def test_a_row_stands_in_the_module_of_its_kind(module: str) -> None:
    rows = vars(importlib.import_module(f"kbh_lint.ops.{module}"))[module.upper()]
    assert {row.name: row.kind for row in rows if row.kind not in MODULES[module]} == {}


def test_every_kind_has_one_module_and_a_spelling_is_found_with_it() -> None:
    assert sorted(kind for kinds in MODULES.values() for kind in kinds) == sorted(get_args(Kind))
    assert [line.split()[0] for line in shown("arange")] == ["kbh_lint/ops/control.py"]
    assert {line.split()[0] for line in shown("dot")} == {"kbh_lint/ops/lanes.py"}
    assert shown("no_such_word") == []


@pytest.mark.parametrize("word", ["__nv_cvt_float2_to_fp8x2", "__nv_cvt_e8m0_to_bf16raw", "__half_as_ushort"])
def test_a_conversion_whose_name_says_what_it_converts_needs_no_row(word: str) -> None:
    assert [line.split()[0] for line in shown(word) if "no row is needed" in line] == ["kbh_lint/ops/conversions.py"]


@pytest.mark.parametrize("word", ["__nv_cvt_fp6_to_halfraw", "__float_of_half", "float2half"])
def test_a_name_that_says_no_conversion_is_none(word: str) -> None:
    assert shown(word) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_spelling_is_of_one_operation(language: str) -> None:
    words = Counter(word for row in OPERATIONS for word in spellings(row.name, languages=(language,)))
    assert [word for word, count in words.items() if count > 1] == []


def test_a_spelling_is_in_a_language_that_is_registered() -> None:
    assert op("near", "function", cutile="near").spellings == {"cutile": ("near",)}
    with pytest.raises(ValueError, match="no language"):
        op("near", "function", cutiles="near")


def test_what_an_interpreter_says_nothing_of_is_in_none_of_its_tables() -> None:
    rows = (op("near", "function", cuda="near nearf"), op("far", "move", cuda="far"), op("other", "move", ptx="other"))
    assert spelled(rows, "cuda", {"near": 1}) == {"near": 1, "nearf": 1}
    assert spelled(rows, "cuda", {"near": 1}, {"move": lambda row: len(row.name)}) == {"near": 1, "nearf": 1, "far": 3}


def test_both_interpreters_of_cuda_know_a_spelling_that_is_added_to_a_row() -> None:
    assert set(spellings("load", "shuffle_masked", "atomic_add", languages=("cuda",))) <= set(builtins._TABLE)
    assert set(spellings("load", "shuffle_masked", "atomic_add", languages=("cuda",))) <= set(cuda.FUNCTIONS)
