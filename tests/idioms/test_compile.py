"""The idioms are real kernels: Triton and nvcc build them ahead of time, and machine code tells twins apart.

Needs torch and triton for the Triton ones and to load our CUDA files, and nvcc; without them the tests skip.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from idiom_catalogue import HERE, Idiom, load
from idiom_reference import load_module

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="torch is not installed")
triton = pytest.importorskip("triton", reason="triton is not installed")
from grader.silicon.machine_code import disassemble  # noqa: E402

IDIOMS = load()
KERNELS = [pytest.param(i, k, id=f"{i.name}-{k['kernel']}-{k['target']}") for i in IDIOMS for k in i.triton]
TWIN_KERNELS = [
    pytest.param(i, k, id=f"{i.name}-{k['kernel']}-{k['target']}") for i in IDIOMS for k in i.triton if "twin_sass" in k
]
CUDA = [pytest.param(i, arch, id=f"{i.name}-{arch}") for i in IDIOMS for arch in i.cuda.get("arch", ())]


NVCC = shutil.which("nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")


def _value(v: Any) -> Any:
    """A constexpr of the catalogue; the names of element types stand for Triton's."""
    tl = triton.language
    known = {"fp8e4nv": tl.float8e4nv, "bf16": tl.bfloat16, "fp32": tl.float32, "fp64": tl.float64}
    return known.get(v, v) if isinstance(v, str) else v


def _disassembled(cubin: bytes) -> str:
    """The text of a cubin, whose every instruction the strict census must know."""
    from triton.tools.disasm import get_sass

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        Path(file.name).chmod(0o644)  # the tool runs as another user
        assert any(one.entry and one.opcodes["EXIT"] for one in disassemble(Path(file.name)))
    return str(get_sass(cubin))


def _sass(module: ModuleType, kernel: dict[str, Any], twin: bool) -> str:
    """Disassembled machine code of one kernel of the module."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

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
    return _disassembled(built.asm["cubin"])


@pytest.mark.share(4)
@pytest.mark.parametrize(("idiom", "kernel"), KERNELS)
def test_a_triton_kernel_compiles_to_the_opcode_it_claims(idiom: Idiom, kernel: dict[str, Any]) -> None:
    sass = _sass(load_module(idiom.path), kernel, twin=False)
    assert "EXIT" in sass
    assert re.search(rf"\b{kernel.get('sass', 'EXIT')}", sass)


@pytest.mark.share(4)
@pytest.mark.parametrize(("idiom", "kernel"), TWIN_KERNELS)
def test_a_broken_triton_twin_runs_on_other_units(idiom: Idiom, kernel: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / f"{idiom.path.stem}_twin.py"
    path.write_text(idiom.twins[0].text(idiom.path.read_text(encoding="utf-8")), encoding="utf-8")
    sass = _sass(load_module(path), kernel, twin=True)
    assert re.search(rf"\b{kernel['twin_sass']}", sass)
    assert not re.search(rf"\b{kernel['sass']}", sass)


class _Captured(Exception):
    """Raised in place of a build; holds the CUDA text and the compiler flags that the file asked for."""

    def __init__(self, text: str, flags: list[str]) -> None:
        super().__init__("captured")
        self.text = text
        self.flags = flags


def _cuda_text(idiom: Idiom, path: Path, monkeypatch: pytest.MonkeyPatch) -> _Captured:
    """What the file hands to torch's extension builder, taken from its `load_inline` or `load` call."""
    from torch.utils import cpp_extension

    def capture_inline(name: str, cpp_sources: Any, cuda_sources: Any, **options: Any) -> None:
        texts = [cuda_sources] if isinstance(cuda_sources, str) else cuda_sources
        raise _Captured("\n".join(texts), list(options.get("extra_cuda_cflags") or ()))

    def capture_files(name: str, sources: Any, **options: Any) -> None:
        texts = [Path(source).read_text(encoding="utf-8") for source in sources]
        raise _Captured("\n".join(texts), list(options.get("extra_cuda_cflags") or ()))

    monkeypatch.setattr(cpp_extension, "load_inline", capture_inline)
    monkeypatch.setattr(cpp_extension, "load", capture_files)
    with pytest.raises(_Captured) as caught:
        getattr(load_module(path), idiom.cuda["build"] or "unused")()
    return caught.value


def _cuda_sass(idiom: Idiom, arch: str, path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """Machine code of the file's CUDA text for `arch`, compiled against the stub headers of this folder."""
    captured = _cuda_text(idiom, path, monkeypatch)
    source = folder / "kernel.cu"
    source.write_text(captured.text, encoding="utf-8")
    cubin = folder / "kernel.cubin"
    include = [f"-I{HERE / 'stub'}", *(f"-I{path}" for path in _cutlass() if "cutlass" in captured.text)]
    keep = [flag for flag in captured.flags if flag.startswith(("-D", "-std", "--expt"))]
    command = [str(NVCC), "-cubin", f"-arch={arch}", "-std=c++17", *keep, *include, "-o", str(cubin), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return _disassembled(cubin.read_bytes())


def _cutlass() -> list[Path]:
    """Include folders of CUTLASS where the `nvidia-cutlass` package is installed."""
    spec = importlib.util.find_spec("cutlass_library")
    if spec is None or spec.origin is None:
        return []
    source = Path(spec.origin).parent / "source"
    return [source / "include", source / "tools" / "util" / "include"]


def _skip_without_headers(idiom: Idiom) -> None:
    if idiom.cuda.get("cutlass") and not _cutlass():
        pytest.skip("CUTLASS headers (package nvidia-cutlass) are not installed")


@pytest.mark.share(4)
@needs_nvcc
@pytest.mark.parametrize(("idiom", "arch"), CUDA)
def test_a_cuda_kernel_compiles_to_the_opcode_it_claims(
    idiom: Idiom, arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _skip_without_headers(idiom)
    sass = _cuda_sass(idiom, arch, idiom.path, monkeypatch, tmp_path)
    assert re.search(rf"\b{idiom.cuda.get('sass', 'EXIT')}", sass)


@pytest.mark.share(4)
@needs_nvcc
@pytest.mark.parametrize("idiom", [i for i in IDIOMS if "twin_sass" in i.cuda], ids=lambda idiom: idiom.name)
def test_a_broken_cuda_twin_runs_on_other_units(idiom: Idiom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _skip_without_headers(idiom)
    path = tmp_path / f"{idiom.path.stem}_twin.py"
    path.write_text(idiom.twins[0].text(idiom.path.read_text(encoding="utf-8")), encoding="utf-8")
    sass = _cuda_sass(idiom, idiom.cuda["arch"][0], path, monkeypatch, tmp_path)
    assert re.search(rf"\b{idiom.cuda['twin_sass']}", sass)
    assert not re.search(rf"\b{idiom.cuda['sass']}", sass)
