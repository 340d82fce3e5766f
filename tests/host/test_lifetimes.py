"""What happens when nothing holds an object any more, and numbers that each process has another of."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, LEAK, WORK, lint, model, states
from test_python_meaning import executed, interpreted

A = "class A:\n    def __init__(self, n=1): self.n = n\n    def __del__(self): seen.append(self.n)\nseen = []\n"
SAME = {
    "an object ends when its name does": A
    + "a = A()\nb = a\ndel a\nx = list(seen)\nb = A(2)\nanswer = [x, list(seen)]\n",
    "an object ends with what held it": A + "x = [A()]\nx.pop()\ndef f():\n    a = A(2)\nf()\nanswer = list(seen)\n",
    "objects that hold themselves stay": A + "a = A()\na.me = a\ndel a\nanswer = list(seen)\n",
    "references and finalizers learn of the end": "import weakref\nclass A: pass\nseen = []\na = A()\n"
    "r = weakref.ref(a, lambda _: seen.append(1))\nf = weakref.finalize(a, seen.append, 2)\nx = r() is a\n"
    "del a\nanswer = [x, r() is None, sorted(seen), f.alive]\n",
    "hashes and identities are keys": "x = []\nd = {hash('a') & 255: 1, id(x): 2}\n"
    "answer = [d[hash('a') & 255], d[id(x)], id(x) == None, id(x) == 0, hash('a') == hash('a')]\n",
}


@pytest.mark.parametrize("name", SAME)
def test_a_program_means_what_it_means_in_python(name: str) -> None:
    assert interpreted(SAME[name]) == executed(SAME[name])


@pytest.mark.parametrize("holds", ["hash('abc') % 2", "(hash('abc') & 1) == 0", "[0, 1][hash('q') % 2]"])
def test_a_hash_of_a_text_decides_either_way(tmp_path: Path, holds: str) -> None:
    for condition in (holds, f"not ({holds})"):
        report = lint(tmp_path, HEAD + KERNEL + model(f"if {condition}:\n    {LEAK}{WORK}return y\n"))
        assert set(states(report).values()) != {"kept"}
