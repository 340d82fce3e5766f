"""What a memo is found by, and what counts calls, in the less plain types of Python."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import GRID, HEAD, KERNEL, OUTPUT, TILES, classes, lint, model, reasons

LAUNCH = f"{OUTPUT.strip()}\ngemm[{GRID}](x, self.weight, self.weight_scale, y, M, N, K, {TILES})\n"
TYPES = """
import collections, dataclasses, itertools, typing

@dataclasses.dataclass(frozen=True)
class Base:
    p: int

@dataclasses.dataclass(frozen=True)
class Data(Base):
    m: int = 0

@dataclasses.dataclass(eq=False)
class Apart:
    p: int

class Named(typing.NamedTuple):
    p: int
    m: int = 0

Plain = collections.namedtuple("Plain", "p m")

class Richer(collections.namedtuple("Richer", ["p", "m"])):
    pass
"""


def memo(held: str, key: str) -> str:
    """A model that hands out its first result under a key, from the dict `held`."""
    body = f"key = {key}\nif key in {held}:\n    return {held}[key]\n{LAUNCH}{held}[key] = y\nreturn y"
    return (
        HEAD
        + TYPES
        + KERNEL
        + model(body, "self.held = {}\nself.deep = [[[[[[[[{}]]]]]]]]\nself.wide = {i: i for i in range(70)}")
    )


@pytest.mark.parametrize("key", ["Data(x.data_ptr(), M)", "Named(x.data_ptr())", "Plain(x.data_ptr(), m=M)", "Richer(x.data_ptr(), M)", "(M, Data(x.data_ptr()))", "hash(Named(x.data_ptr()))"])  # fmt: skip
def test_objects_are_found_in_a_dict_by_their_fields(tmp_path: Path, key: str) -> None:
    report = lint(tmp_path, memo("self.held", key))
    assert "output-memoization" in classes(report), reasons(report)


def test_objects_that_are_equal_only_to_themselves_are_not_found_by_their_fields(tmp_path: Path) -> None:
    assert classes(lint(tmp_path, memo("self.held", "Apart(x.data_ptr())"))) == set()


@pytest.mark.parametrize("held", ["self.wide", "self.deep[0][0][0][0][0][0][0][0]"])
def test_a_memo_is_found_late_in_a_dict_and_deep_in_lists(tmp_path: Path, held: str) -> None:
    assert "unchanged-input-output-memo" in classes(lint(tmp_path, memo(held, "(x.data_ptr(), x._version)")))


COUNTERS = {
    "items of a list": ("[]", "self.n.append(1)", "len(self.n) > 30"),
    "items of a set": ("set()", "self.n.add(len(self.n))", "len(self.n) > 30"),
    "items of a dict": ("{}", "self.n[len(self.n)] = 1", "len(self.n) > 30"),
    "items that go": ("[0] * 30", "self.n.pop()", "not self.n"),
    "characters": ("''", "self.n += 'a'", "len(self.n) > 30"),
    "a tuple": ("()", "self.n += (1,)", "len(self.n) > 30"),
    "a float": ("0.0", "self.n += 0.5", "self.n > 30"),
    "a number that doubles": ("1", "self.n *= 2", "self.n > 1 << 30"),
    "itertools.count": ("itertools.count(step=2)", "seen = next(self.n)", "seen > 60"),
    "its __next__": ("itertools.count(1)", "seen = self.n.__next__()", "seen > 30"),
}


def counted(way: str, old: str) -> str:
    start, step, many = COUNTERS[way]
    body = f"{step}\nif {many}:\n    return {old}\n{LAUNCH}self.y = y\nreturn y"
    return HEAD + TYPES + KERNEL + model(body, f"self.n, self.y = {start}, None")


@pytest.mark.parametrize("way", COUNTERS)
def test_a_result_that_is_handed_out_after_many_calls_is_found(tmp_path: Path, way: str) -> None:
    assert "output-memoization" in classes(lint(tmp_path, counted(way, "self.y")))


@pytest.mark.parametrize("way", ["items of a list", "a float", "itertools.count"])
def test_counting_calls_alone_is_no_finding(tmp_path: Path, way: str) -> None:
    start, step, many = COUNTERS[way]
    report = lint(
        tmp_path,
        HEAD
        + TYPES
        + KERNEL
        + model(f"{step}\nif {many}:\n    self.n = {start}\n{LAUNCH}return y", f"self.n = {start}"),
    )
    assert (classes(report), report.verdict) == (set(), "clean"), reasons(report)
