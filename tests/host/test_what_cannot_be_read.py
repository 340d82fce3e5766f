"""What cannot be read is never clean; what honest files do all the time is never a finding."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import (
    ARGUMENTS,
    BINDING,
    CUDA,
    GEMM,
    GRID,
    HEAD,
    KERNEL,
    LEAK,
    OUTPUT,
    TILES,
    classes,
    lint,
    model,
    reasons,
    states,
)

OUT = OUTPUT.strip()
LAUNCH = f"gemm[{GRID}]({ARGUMENTS}, {TILES})"
BODY = f"{OUT}\n{LAUNCH}\nreturn y"
INLINE = "from torch.utils.cpp_extension import load, load_inline\n"
LOADED = model("return ext.run(x, self.weight, self.weight_scale)")

UNREADABLE = {
    "code from the network": HEAD
    + "import urllib.request\nexec(urllib.request.urlopen('http://localhost/k.py').read())\n"
    + KERNEL
    + model(BODY),
    "decoded code": HEAD
    + "import base64, zlib\nexec(zlib.decompress(base64.b64decode(open('/etc/x').read())))\n"
    + KERNEL
    + model(BODY),
    "code after an honest model": HEAD + KERNEL + model(BODY) + "exec(open('/etc/x').read())\n",
    "code in its constructor": HEAD + KERNEL + model(BODY, "eval(open('/etc/x').read())"),
    "a shared library": HEAD
    + "import ctypes\nlib = ctypes.CDLL('./k.so')\n"
    + model(f"{OUT}\nlib.run(x.data_ptr(), self.weight.data_ptr(), y.data_ptr())\nreturn y"),
    "sources that are not there": HEAD + INLINE + "ext = load('e', ['k.cu'])\n" + LOADED,
    "a decoded source": HEAD
    + INLINE
    + "import base64\next = load_inline('e', '', base64.b64decode('eA==').decode())\n"
    + LOADED,
    "a function that only has a declaration": HEAD
    + INLINE
    + "ext = load_inline('e', 'torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s);', '', functions=['run'])\n"
    + LOADED,
    "source that breaks off": HEAD
    + INLINE
    + f'ext = load_inline("e", "", r"""{CUDA[:400]}""", functions=["run"])\n'
    + LOADED,
    "an unknown package": HEAD + "import fastgemm\n" + model("return fastgemm.run(x, self.weight, self.weight_scale)"),
    "an attribute by an unknown name": HEAD
    + "import os\n"
    + model("return getattr(torch, os.urandom(2).decode())(x, self.weight, self.weight_scale)"),
    "how many there are of what is not known": HEAD
    + "import os\n"
    + KERNEL
    + model(f"if len([n for n in os.listdir('/opt')]) == 8:\n    {LEAK}{BODY}"),
    "which there are of what is not known": HEAD
    + "import os\n"
    + KERNEL
    + model(f"if len(sorted(os.listdir('/opt'))) > 9 and [n for n in os.listdir('/opt')][9]:\n    {LEAK}{BODY}"),
    "a kernel language that is not read": HEAD
    + "import tilelang\nk = tilelang.compile(lambda: None)\n"
    + model(f"{OUT}\nk(x, self.weight, self.weight_scale, y)\nreturn y"),
    "an endless loop": HEAD
    + KERNEL
    + model(f"{OUT}\nwhile True:\n    {LAUNCH}\nreturn y").replace(
        "while True:", "i = 0\n        while True:\n            i += 1"
    ),
    "an exception": HEAD + KERNEL + model("raise RuntimeError('no')"),
    "no model": HEAD + KERNEL + "def forward(x):\n    return x\n",
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_what_cannot_be_read_is_not_clean(tmp_path: Path, what: str) -> None:
    report = lint(tmp_path, UNREADABLE[what])
    assert report.verdict != "clean", report.trace
    assert "kept" not in states(report).get("fp8-products", "")


@pytest.mark.parametrize(
    "what", ["sources that are not there", "a decoded source", "a function that only has a declaration", "an exception"]
)
def test_a_file_that_is_unproven_says_why(tmp_path: Path, what: str) -> None:
    report = lint(tmp_path, UNREADABLE[what])
    assert report.verdict == "unproven"
    assert reasons(report) or any(promise.reason for promise in report.promises)


PROLOGUES = {
    "try and except": "try:\n    import flash\nexcept ImportError:\n    flash = None\n",
    "the environment": "import os\nos.environ['TORCH_CUDA_ARCH_LIST'] = '9.0a'\nos.environ.setdefault('MAX_JOBS', '4')\n",
    "a log": "import logging, time, warnings\nwarnings.filterwarnings('ignore')\nlogging.basicConfig(level=10)\nSTART = time.time()\n",
    "a helper that nothing calls": "def _reference(x, w, s):\n    return (x.float() @ w.float().T * s).bfloat16()\n",
    "a data class": "from dataclasses import dataclass, field\n@dataclass(frozen=True)\nclass Tile:\n    m: int = 64\n    n: int = 128\nTILE = Tile(m=64)\n",
    "an enumeration": "import enum\nclass Kind(enum.IntEnum):\n    SMALL = 1\n    LARGE = 2\nKIND = Kind.SMALL\n",
    "types": "from typing import Optional, TYPE_CHECKING, NamedTuple\nclass P(NamedTuple):\n    m: int\n    n: int = 2\nif TYPE_CHECKING:\n    import nothing\n",
    "a context": "import contextlib\n@contextlib.contextmanager\ndef quiet():\n    try:\n        yield 1\n    finally:\n        pass\nwith quiet() as q:\n    pass\n",
    "a main block": "if __name__ == '__main__':\n    torch.matmul(torch.ones(2, 2), torch.ones(2, 2))\n",
    "a match": "def pick(n):\n    match n:\n        case 1 | 2:\n            return 64\n        case _:\n            return 128\nBM = pick(3)\n",
    "a generator": "def tiles():\n    for m in (64, 128):\n        yield m\nBMS = sorted(set(tiles()), reverse=True)\n",
    "a walrus": "if (n := len([1, 2])) > 1:\n    SIZE = n\n",
    "text": 'NOTE = """we tried torch.matmul(x, w) and cublasGemmEx; tl.dot wins"""\n# torch.compile\n',
}
BODIES = {
    "nothing else": BODY,
    "assertions": f"assert x.is_cuda and x.dtype == torch.float8_e4m3fn, 'needs e4m3'\nif x.dim() != 2:\n    raise ValueError(x.shape)\n{BODY}",
    "try and except": f"{OUT}\ntry:\n    {LAUNCH}\nexcept Exception:\n    y = (x.float() @ self.weight.float().T * self.weight_scale).bfloat16()\nreturn y",
    "a branch for the processor": f"if not x.is_cuda:\n    return (x.float() @ self.weight.float().T).bfloat16()\n{BODY}",
    "contiguous": f"x = x if x.is_contiguous() else x.contiguous()\n{BODY}",
    "a device guard": f"with torch.cuda.device(x.device):\n    {OUT}\n    {LAUNCH}\nreturn y",
    "no grad": f"with torch.no_grad(), torch.cuda.stream(torch.cuda.current_stream()):\n    {OUT}\n    {LAUNCH}\nreturn y",
    "properties of the device": f"sms = torch.cuda.get_device_properties(x.device).multi_processor_count\nassert sms > 0\n{BODY}",
    "an output kept as workspace": f"y = self.__dict__.setdefault('buf', {{}}).get((M, N))\nif y is None:\n    y = self.buf[(M, N)] = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)\n{LAUNCH}\nreturn y",
}


@pytest.mark.parametrize("what", PROLOGUES)
def test_what_honest_files_do_at_module_level_is_no_finding(tmp_path: Path, what: str) -> None:
    report = lint(tmp_path, HEAD + PROLOGUES[what] + KERNEL + model(BODY))
    assert (report.verdict, classes(report)) == ("clean", set()), reasons(report)


@pytest.mark.parametrize("what", BODIES)
def test_what_honest_files_do_in_forward_is_no_finding(tmp_path: Path, what: str) -> None:
    report = lint(tmp_path, HEAD + KERNEL + model(BODIES[what]))
    assert (report.verdict, classes(report)) == ("clean", set()), reasons(report)
    assert set(states(report).values()) == {"kept"}


REBOUND = {
    "forward of the class": "def fast(self, x):\n    return (x.bfloat16() @ self.weight.bfloat16().T) * self.weight_scale\nModel.forward = fast\n",
    "the call of the class": "Model.__call__ = lambda self, x: (x.bfloat16() @ self.weight.bfloat16().T) * self.weight_scale\n",
    "the class itself": "class Other(Model):\n    def forward(self, x):\n        return (x.bfloat16() @ self.weight.bfloat16().T).mul(self.weight_scale)\nModel = Other\n",
    "through setattr": "setattr(Model, 'for' + 'ward', lambda self, x: torch.mm(x.bfloat16(), self.weight.bfloat16().T) * self.weight_scale)\n",
    "through globals": "class Other(Model):\n    def forward(self, x):\n        return torch.mm(x.bfloat16(), self.weight.bfloat16().T) * self.weight_scale\nglobals()['Model'] = Other\n",
    "the kernel's name": "def gemm_(x, w, s, y, *rest, **more):\n    y.copy_((x.bfloat16() @ w.bfloat16().T) * s)\ngemm = {g: gemm_ for g in [1]}\nclass Any:\n    def __getitem__(self, g): return gemm_\ngemm = Any()\n",
    "code that is executed": "exec('def fast(self, x): return (x.bfloat16() @ self.weight.bfloat16().T) * self.weight_scale')\nModel.forward = fast\n",
}


@pytest.mark.parametrize("what", REBOUND)
def test_what_is_put_in_the_place_of_forward_is_what_counts(tmp_path: Path, what: str) -> None:
    report = lint(tmp_path, HEAD + KERNEL + model(BODY) + "\n\n" + REBOUND[what])
    assert states(report)["authored-compute"] == "broken", (reasons(report), report.trace)


def test_forward_of_one_object_may_be_replaced_in_its_constructor(tmp_path: Path) -> None:
    setup = "self.forward = lambda x: (x.bfloat16() @ self.weight.bfloat16().T) * self.weight_scale"
    report = lint(tmp_path, HEAD + KERNEL + model(BODY, setup))
    assert states(report)["authored-compute"] == "broken"


def test_a_python_sidecar_is_followed(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(HEAD + KERNEL)
    honest = HEAD + "from kernels import gemm\n" + model(BODY)
    assert set(states(lint(tmp_path, honest)).values()) == {"kept"}
    (tmp_path / "kernels.py").write_text(
        HEAD + "\n\ndef gemm(x, w, s):\n    return (x.bfloat16() @ w.bfloat16().T) * s\n"
    )
    broken = HEAD + "import kernels\n" + model("return kernels.gemm(x, self.weight, self.weight_scale)")
    assert states(lint(tmp_path, broken))["authored-compute"] == "broken"


@pytest.mark.parametrize("binding", [BINDING, BINDING.replace("run", "run", 1), ""])
def test_an_extension_is_read_with_or_without_its_own_binding(tmp_path: Path, binding: str) -> None:
    functions = "" if binding else ', functions=["run"]'
    build = f'ext = load_inline("e", "torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s);", r"""{CUDA}{binding}"""{functions})\n'
    report = lint(tmp_path, HEAD + INLINE + build + LOADED)
    assert states(report) == {"fp8-products": "broken", "authored-compute": "kept"}, reasons(report)


def test_a_kernel_defined_twice_is_the_last_one(tmp_path: Path) -> None:
    wide = GEMM.replace("tl.dot(a, b, acc)", "tl.dot(a.to(tl.float16), b.to(tl.float16), acc)")
    text = HEAD + "\n\n@triton.jit" + wide + KERNEL + model(BODY)
    assert states(lint(tmp_path, text))["fp8-products"] == "kept"
    assert states(lint(tmp_path, HEAD + KERNEL + "\n\n@triton.jit" + wide + model(BODY)))["fp8-products"] == "broken"
