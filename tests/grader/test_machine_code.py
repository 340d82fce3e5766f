"""Machine code in compiler caches: found within bounds, and settled for or against a promise.

The kernels are the deck's own, compiled for chips that need not be here. Needs triton and, for CUDA, nvcc.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="triton is not installed, which brings the disassembler")
from grader.deck.code import problems_dir
from grader.sandbox import choose
from grader.silicon import machine_code
from grader.silicon.loaded import blocks, disassembly
from grader.silicon.machine_code import MachineCode, collect
from grader.silicon.promises import Ran, settle
from grader.silicon.rebuild import Comparison
from grader.silicon.sass.census import Census, census
from grader.silicon.sass.products import Product
from grader.silicon.tools import ToolError, find_tools, run_tool
from kbh_lint.base import dtypes
from kbh_lint.cli import kbh_main
from kbh_lint.problems import Promise, load_problem

NVCC = shutil.which("nvcc")
E4M3, BF16, F16 = (
    Product("QGMMA", "64x64x32", "e4m3", "e4m3", "f32"), Product("HGMMA", "64x64x16", "bf16", "bf16", "f32"),
    Product("HMMA", "16816", "f16", "f16", "f32"),
)  # fmt: skip

# Builds kernels with Triton for a chip that is not here, in a process of its own: the interpreter that other tests of
# the process may have switched on is chosen when triton is imported.
BUILD = """
import importlib.util, json, os, sys
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
types = {"bf16": tl.bfloat16, "fp32": tl.float32}
for job in json.load(sys.stdin):
    os.environ["TRITON_CACHE_DIR"] = job["cache"]
    spec = importlib.util.spec_from_file_location("solution", job["file"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = getattr(module, job["kernel"])
    constexprs = job["constexprs"]
    signature = {name: "constexpr" if name in constexprs else job["signature"][name] for name in kernel.arg_names}
    aligned = {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in job["aligned"]}
    source = ASTSource(kernel, signature, constexprs, aligned)
    triton.compile(source, target=GPUTarget("cuda", job["chip"], 32), options={"num_warps": 4})
"""
FP8_SIGNATURE = {
    "x": "*fp8e4nv",
    "weight": "*fp8e4nv",
    "scale": "*fp32",
    "y": "*bf16",
    "M": "i32",
    "N": "i32",
    "depth": "i32",
}
FP8_ALIGNED = ["x", "weight", "scale", "y", "N", "depth"]


def fp8_job(chip: int, rows: int) -> dict[str, Any]:
    """The honest fp8 product with tiles of so many rows."""
    return {
        "file": str(problems_dir() / "01_fp8_gemm/honest/triton.py"), "kernel": "fp8_gemm", "chip": chip,
        "signature": FP8_SIGNATURE, "aligned": FP8_ALIGNED,
        "constexprs": {"BLOCK_M": rows, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP": 8},
    }  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of caches by what was built into them."""
    root = tmp_path_factory.mktemp("built")
    jobs = {
        "hopper": fp8_job(90, 64),
        "again": fp8_job(90, 64),
        "decode": fp8_job(90, 16),
        "blackwell": fp8_job(120, 64),
    }
    todo = [{**job, "cache": str(root / name / "triton")} for name, job in jobs.items()]
    done = subprocess.run(
        [sys.executable, "-c", BUILD], input=json.dumps(todo), text=True, capture_output=True, timeout=300,
        env={"PATH": "/usr/bin:/bin", "HOME": str(root)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    for name in ("hopper", "decode"):
        shutil.copytree(root / name, root / "both", dirs_exist_ok=True)
    return root


def promise(problem: str, kind: str) -> Promise:
    deck = load_problem(problems_dir() / problem / "problem.yaml")
    return next(each for each in deck.promises if each.kind == kind)


FP8, INT4 = promise("01_fp8_gemm", "fp8-products"), promise("07_w4a16_gemm", "int4-packed")
BOX = choose(device="cpu")
KAHAN, AUTHORED = promise("04_kahan_softmax", "compensated-sum"), promise("07_w4a16_gemm", "authored-compute")


def ran(code: MachineCode, *names: str) -> list[Ran]:
    return [Ran(name, tuple(kernel.census for kernel in code.find(name))) for name in names]


# --- real kernels ---


def test_the_honest_fp8_product_is_fp8_in_the_machine_code_of_hopper(built: Path) -> None:
    code = collect(built / "hopper", "sm_90a")
    assert code.names == {"fp8_gemm"} and code.notes == ()
    found = settle(FP8, "kept", ran(code, "fp8_gemm"))
    assert found is not None and found.state == "kept" and "QGMMA of e4m3" in found.reason


def test_code_that_was_read_is_not_read_again_and_is_told_by_its_bytes(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: dict[str, tuple[Census, ...]] = {}
    first = collect(built / "hopper", "sm_90a", BOX, known)
    assert set(known) == {kernel.sha256 for kernel in first.kernels}
    monkeypatch.setattr(machine_code, "run_tool", lambda *_, **__: pytest.fail("it is known"))
    assert collect(built / "hopper", "sm_90a", BOX, known) == first


def test_the_same_source_with_tiles_of_sixteen_rows_is_emulated_on_hopper(built: Path) -> None:
    code = collect(built / "decode", "sm_90a")
    assert all(kernel.census.unpacked(dtypes.FP8) for kernel in code.kernels)
    found = settle(FP8, "kept", ran(code, "fp8_gemm"))
    assert found is not None and found.state == "emulated" and "HMMA of f16" in found.reason
    broken = settle(FP8, "broken", ran(code, "fp8_gemm"))
    assert broken is not None and broken.state == "broken"


def test_two_versions_of_one_name_leave_it_open_until_a_launch_tells_them_apart(built: Path) -> None:
    code = collect(built / "both", "sm_90a")
    assert len(code.find("fp8_gemm")) == 2
    found = settle(FP8, "kept", ran(code, "fp8_gemm"))
    assert found is not None and found.state == "unproven" and "versions" in found.reason
    for kernel in code.kernels:
        assert code.find("fp8_gemm", threads=128, shared=kernel.shared) == (kernel,)


def test_a_chip_runs_code_of_its_own_major_version() -> None:
    assert machine_code.may_run("sm_80", "sm_89") and machine_code.may_run("sm_90a", "sm_90a")
    assert machine_code.may_run("sm_100f", "sm_103a") and machine_code.may_run("sm_100", "sm_103a")
    assert not machine_code.may_run("sm_100a", "sm_103a") and not machine_code.may_run("sm_89", "sm_86")
    assert not machine_code.may_run("sm_80", "sm_90a") and not machine_code.may_run("sm_100a", "sm_120a")


def test_code_that_the_chip_cannot_run_is_left_out(built: Path) -> None:
    assert collect(built / "blackwell", "sm_90a").kernels == ()
    (kernel,) = collect(built / "blackwell", "sm_120a").kernels
    assert {product.family for product in kernel.census.matrix} == {"QMMA"}


@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
def test_a_shared_object_is_opened_and_its_compensated_sum_found(tmp_path: Path) -> None:
    text = """
    __global__ void kahan(const float* x, float* y, int n) {
        float s = 0.f, c = 0.f;
        for (int i = 0; i < n; ++i) { float v = expf(x[i]) - c; float t = s + v; c = (t - s) - v; s = t; }
        y[0] = s;
    }
    __global__ void signs(const float* x, float* y, int n) {
        float s = 0.f, c = 0.f;
        for (int i = 0; i < n; ++i) {
            float v = fmaf(c, -1.f, expf(x[i])), t = fmaf(s, 1.f, v);
            c = fmaf(v, -1.f, fmaf(s, -1.f, t)); s = t;
        }
        y[0] = s;
    }
    __global__ void plain(const float* x, float* y, int n) {
        float s = 0.f;
        for (int i = 0; i < n; ++i) s += expf(x[i]);
        y[0] = s;
    }
    __global__ void differences(const float* x, float* y, int n) {
        float s = 0.f, c = 0.f;
        for (int i = 0; i < n; ++i) { float v = expf(x[i]); s = fmaf(v, -1.f, s); c = fmaf(s, -1.f, v); }
        y[0] = s + c;
    }
    __global__ void wide(const float* x, float* y, int n) {
        double s = 0.;
        for (int i = 0; i < n; ++i) s += expf(x[i]);
        y[0] = s;
    }
    """
    folder = tmp_path / "caches/extensions/sums"
    folder.mkdir(parents=True)
    (tmp_path / "sums.cu").write_text(text, encoding="utf-8")
    command = [str(NVCC), "-shared", "-Xcompiler", "-fPIC", "-o", str(folder / "sums.so"), "sums.cu"]
    command += [f"-gencode=arch=compute_{chip},code=sm_{chip}" for chip in ("80", "90a")]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    code = collect(tmp_path / "caches", "sm_90a")
    assert {kernel.census.arch for kernel in code.kernels} == {"sm_90a"}
    states = {name: settle(KAHAN, "unproven", ran(code, name)) for name in code.names}
    assert {name: found.state for name, found in states.items() if found} == {
        "_Z5kahanPKfPfi": "kept", "_Z5signsPKfPfi": "kept", "_Z5plainPKfPfi": "broken",
        "_Z11differencesPKfPfi": "broken", "_Z4widePKfPfi": "kept-by-precision",
    }  # fmt: skip


@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
def test_code_that_the_driver_will_compile_is_said_to_be_unseen(tmp_path: Path) -> None:
    (tmp_path / "late.cu").write_text("__global__ void late(float* x) { x[0] *= 2.f; }", encoding="utf-8")
    command = [
        str(NVCC),
        "-shared",
        "-Xcompiler",
        "-fPIC",
        "-gencode",
        "arch=compute_90a,code=compute_90a",
        "-o",
        "late.so",
    ]
    subprocess.run([*command, "late.cu"], cwd=tmp_path, check=True, capture_output=True, timeout=300)
    code = collect(tmp_path, "sm_90a")
    assert code.kernels == ()
    assert code.notes == ("late.so cannot be read: it holds PTX alone, which the driver compiles when it is loaded",)


# --- caches that a submission's process wrote ---


def test_what_cannot_be_read_is_a_note_and_no_kernel(tmp_path: Path) -> None:
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton/noise.cubin").write_bytes(b"\x7fELF" + bytes(100))
    (tmp_path / "text.cubin").write_text("not machine code", encoding="utf-8")
    (tmp_path / "link.cubin").symlink_to("/etc/hostname")
    (tmp_path / "folder.cubin").mkdir()
    (tmp_path / "host.so").write_bytes(Path(shutil.which("true") or "/bin/true").read_bytes())
    code = collect(tmp_path, "sm_90a")
    assert code.kernels == ()
    assert {note.split(" ")[0].rstrip(":") for note in code.notes} >= {"text.cubin", "link.cubin", "triton/noise.cubin"}
    assert not any("host.so" in note or "\n" in note for note in code.notes)


def test_code_behind_the_digest_that_a_cache_writes_is_the_code(built: Path, tmp_path: Path) -> None:
    (cubin,) = (built / "hopper").rglob("*.cubin")
    code = cubin.read_bytes()
    (tmp_path / "elsewhere").mkdir()
    short = code[:-1]  # CuPy takes the last byte for the end of a text
    (tmp_path / "elsewhere/0.cubin").write_bytes(hashlib.sha1(short).hexdigest().encode() + short)
    (tmp_path / "whole.cubin").write_bytes(hashlib.sha1(code).hexdigest().encode() + code)
    plain, kept = collect(built / "hopper", "sm_90a"), collect(tmp_path, "sm_90a")
    assert kept.notes == () and kept.digests == plain.digests
    assert {kernel.sha256 for kernel in kept.kernels} == {hashlib.sha256(code).hexdigest()}


def test_code_far_from_the_start_is_none(built: Path, tmp_path: Path) -> None:
    (cubin,) = (built / "hopper").rglob("*.cubin")
    (tmp_path / "far.cubin").write_bytes(bytes(machine_code.MOST_HEADER) + cubin.read_bytes())
    code = collect(tmp_path, "sm_90a")
    assert code.kernels == () and len(code.notes) == 1


def test_a_large_file_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "MOST_FILE", 10)
    (tmp_path / "large.cubin").write_bytes(bytes(11))
    code = collect(tmp_path, "sm_90a")
    assert code.kernels == () and code.notes == ("large.cubin is too large to be looked at",)


def test_more_cubins_than_are_looked_at_are_said(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "MOST_CUBINS", 1)
    (cubin,) = (built / "hopper").rglob("*.cubin")
    for number in range(4):
        shutil.copy(cubin, tmp_path / f"{number}.cubin")
    code = collect(tmp_path, "sm_90a")
    assert len(code.kernels) == 2
    assert code.notes == ("the caches hold more machine code than is looked at",)


def test_many_files_and_deep_folders_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "MOST_ENTRIES", 5)
    monkeypatch.setattr(machine_code, "MOST_DEPTH", 1)
    (tmp_path / "a/b/c").mkdir(parents=True)
    for number in range(9):
        (tmp_path / "a" / f"x{number}").write_bytes(b"")
    notes = " ".join(collect(tmp_path, "sm_90a").notes)
    assert "deeper than 1" in notes and "more than 5 files" in notes


def test_kernels_that_torch_compile_wrote_are_not_the_submissions(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built / "hopper/triton", tmp_path / "inductor")
    assert collect(tmp_path, "sm_90a").kernels == ()


def test_an_architecture_that_is_not_known_is_said(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="sm_70"):
        collect(tmp_path, "sm_70")


@pytest.mark.parametrize("size", [0, 3, 4096, 1 << 16])
def test_a_damaged_or_cut_cubin_is_a_note_and_no_kernel(built: Path, tmp_path: Path, size: int) -> None:
    good = next((built / "hopper").rglob("*.cubin")).read_bytes()
    (tmp_path / "cut.cubin").write_bytes(good[:size])
    noise = random.Random(size)
    headed = good[:64] + noise.randbytes(size)  # a header that leads nowhere
    (tmp_path / "headed.cubin").write_bytes(headed)
    code = collect(tmp_path, "sm_90a", BOX)
    for note in code.notes:
        assert re.match(r"(cut|headed)\.cubin: (nvdisasm ended with|kernel |line )", note), note
    assert {kernel.name for kernel in code.kernels} <= {"fp8_gemm"}


# --- the command ---


def test_the_command_prints_a_census_and_what_it_shows_of_the_promises(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cubin = next((built / "decode").rglob("*.cubin"))
    assert kbh_main(["sass", str(cubin), "--arch", "sm_90a", "--problem", "01_fp8_gemm"]) == 0
    said = capsys.readouterr().out
    assert "fp8_gemm  sm_90a" in said and "HMMA of f16" in said
    assert "promise fp8-products: emulated (fp8 was written" in said
    assert kbh_main(["sass", str(built / "hopper"), "--arch", "sm_90a", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["kernels"]
    assert row["matrix"].endswith("QGMMA of e4m3") and row["fp8_unpacked"] == 0
    (tmp_path / "bad.cubin").write_bytes(b"no machine code")
    assert kbh_main(["sass", str(tmp_path / "bad.cubin"), "--arch", "sm_90a"]) == 1
    assert "note: file.cubin: nvdisasm ended with" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.cubin", "--arch", "sm_90a"], "cannot be read"),
        (["README.md", "--arch", "sm_90a"], "holds no machine code"),
        (["README.md", "--arch", "sm_12"], "not an architecture"),
        (["README.md", "--arch", "sm_90a", "--problem", "11"], "there is no problem `11`"),
    ],
)
def test_the_command_refuses_in_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert kbh_main(["sass", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("kbh: error: ") and said in error and error.count("\n") == 1


# --- built again ---


def test_the_same_source_built_again_has_the_same_digest_and_another_variant_has_not(built: Path) -> None:
    first, other = collect(built / "hopper", "sm_90a", BOX), collect(built / "decode", "sm_90a", BOX)
    again = Comparison(collect(built / "again", "sm_90a", BOX))
    assert not again.differs(first.kernels) and [
        row.again for row in again.rows(("a", [one], None) for one in first.kernels)
    ] == [True]
    assert "other instructions" in again.differs(other.kernels)


def test_a_cubin_that_was_put_into_the_cache_does_not_come_out_of_a_second_build(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built / "hopper", tmp_path / "cache")
    planted = next((tmp_path / "cache").rglob("*.cubin"))
    planted.write_bytes(next((built / "decode").rglob("*.cubin")).read_bytes())
    swapped = collect(tmp_path / "cache", "sm_90a", BOX)
    assert swapped.names == {"fp8_gemm"}
    again = Comparison(collect(built / "again", "sm_90a", BOX))
    assert "has other instructions than" in again.differs(swapped.kernels)
    assert "does not come out" in Comparison(MachineCode((), (), "1")).differs(swapped.kernels)


def listing(cubin: Path, base: int = 0x7F3DE77A3400) -> str:
    """A disassembly as Nsight Compute lists loaded code: addresses of memory for labels, other orders of operands."""
    text = run_tool([str(find_tools().nvdisasm), "-c", "-ndf", str(cubin)], BOX, read=[cubin])
    places: dict[str, int] = {}
    rows: list[tuple[int, str]] = []
    waiting: list[str] = []
    for line in text.splitlines():
        found = re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line)
        if found is not None:
            places |= dict.fromkeys(waiting, base + int(found[1], 16))
            rows.append((base + int(found[1], 16), found[2].replace(".reuse", "")))
            waiting = []
        elif re.fullmatch(r"\S+:", line.strip()):
            waiting.append(line.strip()[:-1])
    said = ['"Kernel Name","fp8_gemm",', '"Address","Source"']
    for address, instruction in rows:
        shown = re.sub(r"`\((.*?)\)", lambda match: f"{places[match[1]]:#x}", instruction)
        shown = re.sub(r"^(LDGSTS\S*) (\[.*?\]), (.*)$", r"\1 \3, \2", shown)
        said.append(f'"{address:#x}","      {shown}"')
    return "\n".join(said)


def test_loaded_code_has_the_digest_of_the_file_that_it_came_from(built: Path) -> None:
    (kernel,) = collect(built / "hopper", "sm_90a", BOX).kernels
    said = listing(next((built / "hopper").rglob("*.cubin")))
    ((name, lines),) = blocks(said)
    (loaded,) = census(disassembly(name, lines, "sm_90a"))
    assert loaded.digest == kernel.census.digest and loaded.matrix == kernel.census.matrix
    again = Comparison(collect(built / "again", "sm_90a", BOX))
    assert not again.differs([kernel], loaded) and not again.differs([], loaded)
    ((_, changed),) = blocks(said.replace("IMAD.", "IMAD.U32.", 1))
    (other,) = census(disassembly(name, changed, "sm_90a"))
    assert "was loaded with other instructions" in again.differs([kernel], other)
    (named,) = census(disassembly("elsewhere", lines, "sm_90a"))
    assert "does not come out" in again.differs([], named)


@pytest.mark.parametrize(
    "text",
    ['"0x7f3de77a3400","NOP"', '"Kernel Name","k"\n"0x7f3de77a3400"', '"Kernel Name","k"\n"0xzz","NOP"', '"Kernel'],
)
def test_a_listing_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ToolError):
        list(blocks(text))


def test_code_with_a_gap_is_refused() -> None:
    lines = [(0x7F3DE77A3400, "NOP"), (0x7F3DE77A3420, "EXIT")]
    with pytest.raises(ToolError, match="one piece"):
        disassembly("k", lines, "sm_90a")
    with pytest.raises(ToolError, match="one piece"):
        disassembly("k", [], "sm_90a")


@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
def test_where_a_source_lies_changes_names_of_internal_linkage_and_no_digest(tmp_path: Path) -> None:
    text = """
    namespace { __global__ void hidden(float* x) { for (int i = 0; i < x[9]; ++i) x[threadIdx.x] *= 2.f; } }
    __global__ void other(float* x) { x[0] = FACTOR * x[1]; }
    void go(float* x) { hidden<<<1, 32>>>(x); }
    """
    codes = {}
    for name, factor in (("one", "2.5f"), ("two", "2.5f"), ("three", "3.5f")):
        (tmp_path / name).mkdir()
        source = tmp_path / name / "code.cu"
        source.write_text(text)
        cubin = source.with_suffix(".cubin")
        command = [str(NVCC), "-cubin", "-arch=sm_90a", f"-DFACTOR={factor}", "-o", str(cubin), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        codes[name] = collect(tmp_path / name, "sm_90a", BOX)
    one, two, three = codes["one"], codes["two"], codes["three"]
    assert one.names != two.names and one.digests == two.digests
    assert len(one.digests & three.digests) == 1 and len(one.digests) == 2
