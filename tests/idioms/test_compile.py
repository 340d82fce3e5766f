"""The idioms are real kernels: Triton and nvcc build them ahead of time, and machine code tells twins apart.

Needs torch and triton for the Triton ones and to load our CUDA files, and nvcc; without them the tests skip.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from catalogue import Idiom, load

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="torch is not installed")
triton = pytest.importorskip("triton", reason="triton is not installed")
IDIOMS = load()
KERNELS = [pytest.param(i, k, id=f"{i.name}-{k['kernel']}") for i in IDIOMS for k in i.triton]
CUDA = [pytest.param(i, arch, id=f"{i.name}-{arch}") for i in IDIOMS for arch in i.cuda.get("arch", ())]


def _import(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"idiom_{path.parent.name}_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _value(v: Any) -> Any:
    """A constexpr of the catalogue; the names of element types stand for Triton's."""
    tl = triton.language
    known = {"fp8e4nv": tl.float8e4nv, "bf16": tl.bfloat16, "fp32": tl.float32, "fp64": tl.float64}
    return known.get(v, v) if isinstance(v, str) else v


def _sass(module: ModuleType, kernel: dict[str, Any], twin: bool) -> str:
    """Disassembled machine code of one kernel of the module."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.tools.disasm import get_sass

    fn = getattr(module, kernel["kernel"])
    while hasattr(fn, "fn") and not isinstance(fn, triton.JITFunction):
        fn = fn.fn
    signature = {**kernel["signature"], **(kernel.get("twin_signature", {}) if twin else {})}
    constexprs = {**kernel["constexprs"], **(kernel.get("twin_constexprs", {}) if twin else {})}
    constexprs = {name: _value(v) for name, v in constexprs.items()}
    signature = {name: "constexpr" if name in constexprs else signature[name] for name in fn.arg_names}
    attrs = {(fn.arg_names.index(name),): [["tt.divisibility", 16]] for name in kernel.get("aligned", ())}
    source = ASTSource(fn, signature, constexprs, attrs)
    options = {"num_warps": kernel.get("num_warps", 4)}
    built = triton.compile(source, target=GPUTarget("cuda", kernel["target"], 32), options=options)
    return str(get_sass(built.asm["cubin"]))


@pytest.mark.parametrize(("idiom", "kernel"), KERNELS)
def test_a_triton_kernel_compiles_to_the_opcode_it_claims(idiom: Idiom, kernel: dict[str, Any]) -> None:
    sass = _sass(_import(idiom.path), kernel, twin=False)
    assert "EXIT" in sass
    assert re.search(rf"\b{kernel.get('sass', 'EXIT')}", sass)


@pytest.mark.parametrize(("idiom", "kernel"), [p for p in KERNELS if "twin_sass" in p.values[1]])
def test_a_broken_triton_twin_runs_on_other_units(idiom: Idiom, kernel: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / f"{idiom.path.stem}_twin.py"
    path.write_text(idiom.twins[0].text(idiom.path.read_text(encoding="utf-8")), encoding="utf-8")
    sass = _sass(_import(path), kernel, twin=True)
    assert re.search(rf"\b{kernel['twin_sass']}", sass)
    assert not re.search(rf"\b{kernel['sass']}", sass)
