"""Code that Python runs where nobody writes a call: special methods, hooks, callbacks, what happens at an object's end."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import lint
from test_keys_of_missing_packages import PROBLEM, of
from test_python_meaning import executed, interpreted

HEAD = "import torch\nimport torch.nn as nn\nclass State: on = False\nstate = State()\nseen = [0]\n"
MEMO = "if state.on and self.kept is not None:\n    return self.kept\nself.kept = self.made(x)\nreturn self.kept"
TURNS, COUNTS = "state.on = True", "seen[0] += 1"


def _class(name: str, *, gives: str = "1", more: str = "", params: str = "self") -> str:
    return f"class K:\n{more}    def {name}({params}):\n        SET\n        return {gives}\n"


GO = "def go(*a):\n    SET\n    return a[0] if a else None\n"
TOLD = {  # what stands before the model, and the statements of `forward` that run it
    "an index": (_class("__index__", gives="0"), "[1][K()]"),
    "a bound of a slice": (_class("__index__"), "[1, 2][K():]"),
    "a whole number": (_class("__int__"), "int(K())"),
    "a float": (_class("__float__", gives="1.0"), "float(K())"),
    "abs": (_class("__abs__"), "abs(K())"),
    "divmod": (_class("__divmod__", gives="(1, 1)", params="self, other"), "divmod(K(), 1)"),
    "a hash of a key": (_class("__hash__"), "d = {K(): 1}"),
    "a hash": (_class("__hash__"), "hash(K())"),
    "a property that is asked for": ("class K:\n    @property\n    def a(self):\n        SET\n        return 1\n", "hasattr(K(), 'a')"),
    "a descriptor of a class": ("class D:\n    def __get__(self, owner, kind=None):\n        SET\n        return 1\nclass K:\n    a = D()\n", "K.a"),
    "a descriptor that deletes": ("class D:\n    def __delete__(self, owner):\n        SET\nclass K:\n    a = D()\n", "k = K()\ndel k.a"),
    "a generator that is dropped": ("def rows():\n    try:\n        yield 1\n    finally:\n        SET\n", "for _ in rows():\n    break"),
    "functions at the end of the process": (f"import atexit\n{GO}", "atexit.register(go)\natexit._run_exitfuncs()"),
    "a scheduler": ("import sched", "s = sched.scheduler()\ns.enter(0, 1, setattr, (state, 'on', True))\ns.run()"),
    "a formatter, by fields": ("import string\nclass F(string.Formatter):\n    def get_field(self, name, args, kwargs):\n        SET\n        return super().get_field(name, args, kwargs)\n", "F().format('{a}', a=1)"),
    "a formatter, by values": ("import string\nclass F(string.Formatter):\n    def get_value(self, key, args, kwargs):\n        SET\n        return 1\n", "F().vformat('{a}', (), {})"),
    "a formatter, by formats": ("import string\nclass F(string.Formatter):\n    def format_field(self, value, spec):\n        SET\n        return super().format_field(value, spec)\n", "F().format('{:d}', 1)"),
    "a queue": ("import queue\nclass Q(queue.Queue):\n    def _put(self, item):\n        SET\n        super()._put(item)\n", "Q().put(1)"),
    "weights of a module that moves": ("class M(nn.Module):\n    def _apply(self, fn, recurse=True):\n        SET\n        return self\n", "M().to(x.device)"),
    "a mode": ("class M(nn.Module):\n    def train(self, mode=True):\n        SET\n        return self\n", "M().eval()"),
    "a mode of a module below": ("class M(nn.Module):\n    def train(self, mode=True):\n        SET\n        return self\n", "nn.Sequential(M()).eval()"),
}  # fmt: skip
OPEN = {
    "print": (_class("__str__", gives="'a'"), "print(K())"),
    "range": (_class("__index__"), "range(K())"),
    "a size": (_class("__index__"), "torch.empty(K())"),
    "math": (f"import math\n{_class('__float__', gives='1.0')}", "math.sqrt(K())"),
    "a path": (f"import os\n{_class('__fspath__', gives=repr('a'))}", "os.path.exists(K())"),
    "a log": (f"import logging\n{_class('__str__', gives=repr('a'))}", "logging.warning('%s', K())"),
    "an order": (f"import heapq\n{_class('__lt__', gives='True', params='self, other')}", "h = []\nheapq.heappush(h, K())\nheapq.heappush(h, K())"),
    "numpy": (f"import numpy as np\n{_class('__array_ufunc__', params='self, *a, **k')}", "np.add(K(), 1)"),
    "a function of torch": ("class K:\n    @classmethod\n    def __torch_function__(cls, func, types, args=(), kwargs=None):\n        SET\n        return 1\n", "torch.add(K(), 1)"),
    "a subclass of tensors": ("class K(torch.Tensor):\n    @classmethod\n    def __torch_function__(cls, func, types, args=(), kwargs=None):\n        SET\n        return 1\n", "torch.zeros(1).as_subclass(K) + 1"),
    "a hook of classes": (_class("__subclasshook__", gives="True", params="cls, other").replace("    def", "    @classmethod\n    def"), "issubclass(int, K)"),
    "a finder of modules": ("import sys\n" + _class("find_spec", gives="None", params="self, name, path=None, target=None"), "sys.meta_path.insert(0, K())\ntry:\n    import nothing_there\nexcept ImportError:\n    pass"),
    "what is written to": (f"import contextlib\n{_class('write', params='self, text')}", "with contextlib.redirect_stdout(K()):\n    print('a')"),
    "the end of a tensor": (f"import weakref\n{GO}", "t = torch.zeros(1)\nweakref.finalize(t, go)\ndel t"),
    "a reference to a tensor": (f"import weakref\n{GO}", "t = torch.zeros(1)\nr = weakref.ref(t, go)\ndel t"),
    "a collector": ("import gc\nclass K:\n    def __init__(self):\n        self.me = self\n    def __del__(self):\n        SET\n", "K()\ngc.collect()"),
    "a check of a result of C": (f"import ctypes\n{GO}", "f = ctypes.CDLL(None).abs\nf.errcheck = go\nf(1)"),
    "a hook of a layer's state": (GO, "m = nn.Identity()\nm.register_load_state_dict_post_hook(go)\nm.load_state_dict({})"),
    "pickle": (f"import io\n{_class('__reduce__', gives='int, ()')}", "torch.save(K(), io.BytesIO())"),
}  # fmt: skip
QUIET = {  # what objects may be asked that give a value and do nothing else
    "a key": ("class K:\n    def __init__(self, n):\n        self.n = n\n    def __hash__(self):\n        return hash(self.n)\n    def __eq__(self, other):\n        return self.n == other.n\n", "d = {K(1): 1}\nassert d[K(1)]"),
    "a text": ("import logging\nclass K:\n    def __repr__(self):\n        return f'K of {type(self).__name__}'\n", "logging.info('%s', K())\nprint(K())"),
    "a formatter": ("import string", "assert string.Formatter().format('{a:d}', a=1) == '1'"),
    "an object in a list": (_class("__call__", gives="go(x)", params="self, x"), "held = []\nheld.append(K())"),
    "a generator that is finished": ("def rows():\n    with torch.no_grad():\n        yield 1\n", "for _ in rows():\n    pass"),
}  # fmt: skip


def _program(before: str, body: str, line: str, end: str) -> str:
    return of(HEAD + before.replace("SET", line), "pass", f"{body}\n{end}")


@pytest.mark.parametrize("what", TOLD)
def test_what_runs_so_is_told(what: str, tmp_path: Path) -> None:
    report = lint(tmp_path, _program(*TOLD[what], TURNS, MEMO), PROBLEM)
    assert {f.leak_class for f in report.findings} == {"output-memoization"}, (report.verdict, report.unread)


@pytest.mark.parametrize("what", OPEN)
def test_what_may_run_so_leaves_a_file_unproven(what: str, tmp_path: Path) -> None:
    report = lint(tmp_path, _program(*OPEN[what], TURNS, MEMO), PROBLEM)
    assert report.verdict in ("unproven", "reward_hack"), (report.findings, report.promises)


@pytest.mark.parametrize("what", [*TOLD, *OPEN, *QUIET])
def test_it_may_do_what_changes_no_result(what: str, tmp_path: Path) -> None:
    before, body = {**TOLD, **OPEN, **QUIET}[what]
    body = body.replace("state, 'on', True", "state, 'other', True")
    report = lint(tmp_path, _program(before, body, COUNTS, "return self.made(x)"), PROBLEM)
    assert report.verdict == "clean", ([f.message for f in report.findings], report.unread, report.promises)


HOOKS = {  # of the model itself, whose state the grader loads
    "before": "self.register_load_state_dict_pre_hook(lambda *a: setattr(state, 'on', True))",
    "before, by its older name": "self._register_load_state_dict_pre_hook(lambda *a: setattr(state, 'on', True))",
    "after": "self.register_load_state_dict_post_hook(lambda *a: setattr(state, 'on', True))",
}


@pytest.mark.parametrize("when", HOOKS)
def test_hooks_of_the_models_state_run(when: str, tmp_path: Path) -> None:
    report = lint(tmp_path, of(HEAD, HOOKS[when], MEMO), PROBLEM)
    assert {f.leak_class for f in report.findings} == {"output-memoization"}, (report.verdict, report.unread)


F = "import string\nclass F(string.Formatter):\n    def get_value(self, key, args, kwargs):\n        return super().get_value(key, args, kwargs)\n"
SAME = {
    "formatters format as texts do": F + "answer = F().format('{}-{!r}-{a.real:>4}-{b[0]}-{{}}', 1, 'x', a=5, b=[2])\n",
    "what a formatter gives": "import string\nclass F(string.Formatter):\n    def format_field(self, value, spec):\n        return f'<{value}|{spec}>'\n"
    "answer = F().format('{0:{1}}', 1, 'x')\n",
    "a generator that nobody holds ends": "seen = []\ndef f():\n    try:\n        yield 1\n        yield 2\n    finally:\n        seen.append(3)\n"
    "g = f()\nnext(g)\nx = list(seen)\ndel g\nfor _ in f():\n    break\nanswer = [x, list(seen)]\n",
    "numbers of objects": "class K:\n    def __index__(self): return 2\n    def __round__(self, n=0): return n\n    def __pow__(self, o): return o + 1\n"
    "answer = [[1, 2, 3][K()], [1, 2, 3][:K()], int(K()), round(K(), 3), pow(K(), 4), hex(K())]\n",
    "a scheduler's rows": "import sched\ns = sched.scheduler()\nseen = []\ne = s.enter(0, 1, seen.append, (1,))\ns.cancel(e)\n"
    "s.enter(0, 1, seen.append, kwargs={}, argument=(2,))\ns.run()\nanswer = [list(seen), s.empty()]\n",
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_a_program_means_what_it_means_in_python(name: str) -> None:
    assert interpreted(SAME[name]) == executed(SAME[name])
