"""Iterators give each item once, generators run only as far as they are asked, pools run beside the caller."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, LEAK, WORK, classes, lint, model, reasons, states

STEPS = "def steps():\n    how = 0\n    while True:\n        got = yield how\n        how = 2 if got else how + 1\n"

# What stands before the class, what forward does first, and what then holds.
FOUND = {
    "a list is gone through again": ("", "it = iter([1, 2])\nlist(it)\n", "not list(it)"),
    "pairs are gone through again": ("", "it = zip([1], enumerate([2]))\nlist(it)\n", "not list(it)"),
    "an expression is gone through again": ("", "it = (i for i in [1])\nlist(it)\n", "not list(it)"),
    "a call of forward before has drawn it": ("items = iter([1])\n", "", "not list(items)"),
    "an iterator with nothing left": ("", "", "map(abs, [])"),
    "a loop that is left": ("", "it = iter([1, 2, 3])\nfor i in it:\n    if i == 2: break\n", "list(it) == [3]"),
    "a search": ("", "it = iter([1, 2, 3])\n", "2 in it and list(it) == [3]"),
    "a part": ("import itertools\n", "it = iter([1, 2, 3])\nlist(itertools.islice(it, 2))\n", "list(it) == [3]"),
    "a call that nobody draws from": ("seen = []\n", "map(seen.append, [1])\n", "not seen"),
    "a variable that changes meanwhile": ("", "k = 1\nit = (k for _ in [0])\nk = 2\n", "list(it) == [2]"),
    "a generator that was never started": (
        "seen = []\ndef prepare():\n    seen.append(1)\n    yield\n", "prepare()\n", "not seen",
    ),
    "a generator between two values": (STEPS, "it = steps()\nnext(it)\n", "next(it) == 1 and it.send(1) == 2"),
    "a generator that ends": (
        "def two():\n    try:\n        yield 1\n    finally:\n        yield 2\n",
        "it = two()\n", "[*it, next(it, 3)] == [1, 2, 3]",
    ),
    "a generator that is closed": (
        "seen = []\ndef one():\n    try:\n        yield 1\n    finally:\n        seen.append(2)\n",
        "seen.clear()\nit = one()\nnext(it)\nit.close()\n", "seen == [2] and not list(it)",
    ),
    "an exception in a generator": (
        "def one():\n    try:\n        yield 1\n    except KeyError:\n        yield 2\n",
        "it = one()\nnext(it)\n", "it.throw(KeyError) == 2",
    ),
    "a generator of a generator": (
        f"import itertools\n{STEPS}def inner():\n    yield from steps()\n",
        "", "list(itertools.islice(inner(), 3)) == [0, 1, 2]",
    ),
}  # fmt: skip
HONEST = {
    "pairs in a loop": ("", "for i, (a, b) in enumerate(zip([1, 2], [M, M])):\n    M = b\n"),
    "two by two": ("", "it = iter([1, 64, 2, 64])\nfor a in it:\n    assert next(it) == 64\n"),
    "a generator of sizes": (
        "def sizes(n):\n    while n:\n        yield n\n        n //= 2\n", "assert list(sizes(4)) == [4, 2, 1]\n",
    ),
    "bytes of an expression": ("", "assert bytes(i for i in [75]) == b'K'\n"),
}  # fmt: skip
POOL = "import concurrent.futures as futures\npool = futures.ThreadPoolExecutor(1)\ndef work(y): return y.mul_(2.0)\n"
BESIDE = {
    "a map that is not waited for": "pool.map(work, [y])\npool.shutdown(wait=False)\n",
    "what follows a future": "pool.submit(int).add_done_callback(lambda done: work(y))\n",
    "a wait that may have ended": "futures.wait([pool.submit(work, y)], timeout=0)\n",
    "the first of two": "futures.wait([pool.submit(int), pool.submit(work, y)], return_when=futures.FIRST_COMPLETED)\n",
    "a thread without a name": "import _thread\n_thread.start_new_thread(work, (y,))\n",
    "a timer": "import threading\nthreading.Timer(0.01, work, [y]).start()\n",
}
WAITED = {
    "the result of a future": "pool.submit(work, y).result()\n",
    "all futures": "futures.wait([pool.submit(work, y)])\n",
    "futures as they end": "for done in futures.as_completed([pool.submit(work, y)]):\n    done.result()\n",
    "the items of a map": "list(pool.map(work, [y]))\n",
    "the end of a with": "with futures.ThreadPoolExecutor(1) as own:\n    own.map(work, [y])\n",
}


@pytest.mark.parametrize("what", FOUND)
def test_what_an_iterator_has_left_decides(tmp_path: Path, what: str) -> None:
    before, first, holds = FOUND[what]
    report = lint(tmp_path, HEAD + before + KERNEL + model(f"{first}if {holds}:\n    {LEAK}{WORK}return y\n"))
    assert classes(report) & {"library-gemm-wrapper", "reference-resubmission"}, (classes(report), reasons(report))


@pytest.mark.parametrize("what", HONEST)
def test_iterators_on_the_way_to_an_honest_kernel_are_no_leak(tmp_path: Path, what: str) -> None:
    before, first = HONEST[what]
    report = lint(tmp_path, HEAD + before + KERNEL + model(f"{first}{WORK}return y\n"))
    assert not classes(report), classes(report)
    assert set(states(report).values()) == {"kept"}, reasons(report)


def test_a_generator_that_another_call_goes_on_with_is_followed_step_by_step(tmp_path: Path) -> None:
    ways = "def ways():\n    while True:\n        yield 'first'\n        yield 'second'\n"
    body = f"if next(self.ways) == 'second':\n    {LEAK}{WORK}return y\n"
    report = lint(tmp_path, HEAD + ways + KERNEL + model(body, "self.ways = ways()\n"))
    assert states(report) and set(states(report).values()) != {"kept"}


@pytest.mark.parametrize("what", BESIDE)
def test_work_that_nothing_waits_for_is_found(tmp_path: Path, what: str) -> None:
    report = lint(tmp_path, HEAD + POOL + KERNEL + model(WORK + BESIDE[what] + "return y\n"))
    assert "unjoined-work" in classes(report), (classes(report), reasons(report))


@pytest.mark.parametrize("what", WAITED)
def test_work_that_is_waited_for_is_no_leak(tmp_path: Path, what: str) -> None:
    report = lint(tmp_path, HEAD + POOL + KERNEL + model(WORK + WAITED[what] + "return y\n"))
    assert classes(report) <= {"torch-beside-kernels"}, classes(report)  # what waits is a pass of torch
    assert set(states(report).values()) == {"kept"}, reasons(report)


def test_the_exception_of_a_future_is_raised_where_its_result_is_asked_for(tmp_path: Path) -> None:
    body = f"try:\n    pool.submit(fails).result()\nexcept KeyError:\n    {LEAK}{WORK}return y\n"
    report = lint(tmp_path, HEAD + POOL + "def fails(): raise KeyError\n" + KERNEL + model(body))
    assert "reference-resubmission" in classes(report), (classes(report), reasons(report))
