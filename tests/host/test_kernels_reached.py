"""However a Triton kernel is made, kept and launched, it is the one whose products are judged."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import (
    ARGUMENTS,
    DOT,
    GEMM,
    GRID,
    HEAD,
    KERNEL,
    OUTPUT,
    TILES,
    WIDE,
    classes,
    lint,
    model,
    place,
    reasons,
    states,
)

IMPORTS = HEAD + "import functools, importlib\nfrom functools import partial\n"
OUT = OUTPUT.strip()
CALL = f"({ARGUMENTS}, {TILES}, num_warps=8)"
DECORATE = '@triton.autotune(configs=[triton.Config({"BM": 64, "BN": 128, "BK": bk}, num_warps=4) for bk in (64, 128)], key=["K"])\n'
SIZES = '@triton.heuristics({"BM": lambda args: 64, "BN": lambda args: 128, "BK": lambda args: 128 if args["K"] % 128 == 0 else 64})\n'
NESTED = GEMM.replace(DOT, "product(a, b, acc)")

FORMS = {
    "a plain launch": (KERNEL, f"{OUT}\ngemm[{GRID}]{CALL}\nreturn y"),
    "a grid that is a function": (
        KERNEL,
        f'{OUT}\ngrid = lambda meta: (triton.cdiv(M, meta["BM"]), N // meta["BN"])\ngemm[grid]{CALL}\nreturn y',
    ),
    "a kernel bound to its grid first": (KERNEL, f"{OUT}\nrun = gemm[{GRID}]\nrun{CALL}\nreturn y"),
    "triton.jit called": (GEMM + "\nk = triton.jit(gemm)\n", f"{OUT}\nk[{GRID}]{CALL}\nreturn y"),
    "triton.jit called with options": (
        GEMM + "\nk = triton.jit(do_not_specialize=['M'])(gemm)\n",
        f"{OUT}\nk[{GRID}]{CALL}\nreturn y",
    ),
    "autotune": ("\n\n" + DECORATE + "@triton.jit" + GEMM, f"{OUT}\ngemm[{GRID}]({ARGUMENTS})\nreturn y"),
    "heuristics": ("\n\n" + SIZES + "@triton.jit" + GEMM, f"{OUT}\ngemm[{GRID}]({ARGUMENTS})\nreturn y"),
    "a helper kernel": (
        f"\n\n@triton.jit\ndef product(a, b, acc):\n    return {DOT}\n\n\n@triton.jit{NESTED}",
        f"{OUT}\ngemm[{GRID}]{CALL}\nreturn y",
    ),
    "a helper that is a constexpr argument": (
        f"\n\n@triton.jit\ndef one(a, b, acc):\n    return {DOT}\n\n\n@triton.jit"
        + NESTED.replace("BK: tl.constexpr", "BK: tl.constexpr, product: tl.constexpr"),
        f"{OUT}\ngemm[{GRID}]({ARGUMENTS}, {TILES}, product=one)\nreturn y",
    ),
    "a dictionary by type": (
        KERNEL + "\n\nKERNELS = {torch.float8_e4m3fn: gemm, torch.bfloat16: None}\n",
        f"{OUT}\nKERNELS[x.dtype][{GRID}]{CALL}\nreturn y",
    ),
    "a dictionary by name": (
        KERNEL + "\n\nTABLE = dict(small=(gemm, 64), large=(gemm, 64))\n",
        f'{OUT}\nkernel, bm = TABLE["small" if M <= 64 else "large"]\nkernel[(triton.cdiv(M, bm), N // 128)]{CALL}\nreturn y',
    ),
    "an argument": (
        KERNEL + "\n\ndef launch(kernel, grid, *args, **meta):\n    kernel[grid](*args, **meta)\n",
        f"{OUT}\nlaunch(gemm, {GRID}, {ARGUMENTS}, {TILES})\nreturn y",
    ),
    "a partial": (KERNEL, f"{OUT}\npartial(gemm[{GRID}], x, self.weight)(self.weight_scale, y, M, N, K, {TILES})\nreturn y"),
    "a partial of a launcher": (
        KERNEL + "\n\ndef launch(kernel, grid, *args, **meta):\n    kernel[grid](*args, **meta)\n\n\nGO = functools.partial(launch, gemm)\n",
        f"{OUT}\nGO({GRID}, {ARGUMENTS}, {TILES})\nreturn y",
    ),
    "run": (KERNEL, f"{OUT}\ngemm.run({ARGUMENTS}, {TILES}, grid={GRID}, warmup=False)\nreturn y"),
    "a compiled kernel": (
        KERNEL,
        f"{OUT}\ncompiled = gemm.warmup({ARGUMENTS}, {TILES}, grid=(1,))\ncompiled[{GRID}]({ARGUMENTS}, 64, 128, 64)\nreturn y",
    ),
    "a factory": (
        f"\n\ndef make():\n    @triton.jit{GEMM.replace(chr(10), chr(10) + '    ')}\n    return gemm\n\n\nk = make()\n",
        f"{OUT}\nk[{GRID}]{CALL}\nreturn y",
    ),
    "an attribute of the model": (KERNEL, f"{OUT}\nself.k[{GRID}]{CALL}\nreturn y"),
    "a name put together": (KERNEL, f'{OUT}\nglobals()["ge" + "mm"][{GRID}]{CALL}\nreturn y'),
    "a method": (KERNEL, f"{OUT}\nself.launch({ARGUMENTS})\nreturn y"),
    "a loop over kernels": (KERNEL, f"{OUT}\nfor kernel in (gemm,):\n    kernel[{GRID}]{CALL}\nreturn y"),
    "a custom autograd function": (
        KERNEL
        + f"\n\nclass Product(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, w, s):\n        (M, K), N = x.shape, w.shape[0]\n"
        f"        {OUT}\n        gemm[{GRID}](x, w, s, y, M, N, K, {TILES})\n        return y\n",
        "return Product.apply(x, self.weight, self.weight_scale)",
    ),
}  # fmt: skip
SETUP = "self.k = gemm if 'gemm' in globals() else None"
METHOD = f"\n    def launch(self, x, w, s, y, M, N, K):\n        gemm[{GRID}](x, w, s, y, M, N, K, {TILES})\n"


def written(form: str) -> str:
    top, body = FORMS[form]
    return IMPORTS + top + model(body, SETUP) + METHOD


@pytest.mark.parametrize("form", FORMS)
def test_an_honest_kernel_is_followed(tmp_path: Path, form: str) -> None:
    report = lint(tmp_path, written(form))
    assert set(states(report).values()) == {"kept"}, reasons(report)
    assert report.verdict == "clean", report.findings


@pytest.mark.parametrize("form", FORMS)
def test_a_kernel_that_widens_is_found_at_its_product(tmp_path: Path, form: str) -> None:
    report = lint(tmp_path, written(form).replace(DOT, WIDE))
    assert classes(report) == {"fp8-upcast-bf16-gemm"}, reasons(report)
    line = place(tmp_path / "solution.py", WIDE).line
    (finding,) = [f for f in report.findings if f.severity != "info"]
    assert line in {finding.span.line, *(related.span.line for related in finding.related)}
    assert states(report)["fp8-products"] == "broken"


def test_every_configuration_of_autotune_is_judged_and_the_worst_counts(tmp_path: Path) -> None:
    config = 'triton.Config({{"BM": 64, "BN": 128, "BK": 64, "W": {}}})'
    kernel = GEMM.replace("BK: tl.constexpr", "BK: tl.constexpr, W: tl.constexpr")
    kernel = kernel.replace(
        f"        acc = {DOT}\n", f"        if W:\n            acc = {WIDE}\n        else:\n            acc = {DOT}\n"
    )
    body = f"{OUT}\ngemm[{GRID}]({ARGUMENTS})\nreturn y"
    for worst, state in ((False, "kept"), (True, "broken")):
        tuned = (
            f"\n\n@triton.autotune(configs=[{config.format(False)}, {config.format(worst)}], key=['M'])\n@triton.jit"
        )
        report = lint(tmp_path, IMPORTS + tuned + kernel + model(body))
        assert states(report)["fp8-products"] == state, reasons(report)


def test_only_the_branch_that_a_shape_takes_counts_for_that_shape(tmp_path: Path) -> None:
    wide = KERNEL.replace("gemm", "other").replace(DOT, WIDE)
    body = f"{OUT}\nkernel = other if M <= 64 else gemm\nkernel[{GRID}]{CALL}\nreturn y"
    report = lint(tmp_path, IMPORTS + KERNEL + wide + model(body))
    (promise,) = [p for p in report.promises if p.id == "fp8-products"]
    assert {label.split("x")[0]: state for label, state in promise.shapes.items()} == {"4096": "kept", "32": "broken"}


HOST_TMA = """

@triton.jit
def gemm(x, w, s, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = x.load([i, k])
        b = w.load([j, k]).T
        acc = tl.dot(a, b, acc)
    y.store([i, j], (acc * tl.load(s + j + tl.arange(0, BN))[None, :]).to(tl.bfloat16))
"""
DEVICE_TMA = HOST_TMA.replace(
    "    i, j =",
    "    x = tl.make_tensor_descriptor(x, [M, K], [K, 1], [BM, BK])\n    w = tl.make_tensor_descriptor(w, [N, K], [K, 1], [BN, BK])\n"
    "    y = tl.make_tensor_descriptor(y, [M, N], [N, 1], [BM, BN])\n    i, j =",
)
DESCRIBE = "from triton.tools.tensor_descriptor import TensorDescriptor\n"
DESCRIBED = (
    f"{OUT}\na = TensorDescriptor(x, [M, K], [K, 1], [64, 64])\nb = TensorDescriptor.from_tensor(self.weight, [128, 64])\n"
    f"c = TensorDescriptor.from_tensor(y, [64, 128])\ngemm[{GRID}](a, b, self.weight_scale, c, M, N, K, {TILES})\nreturn y"
)


@pytest.mark.parametrize(
    ("kernel", "body"), [(HOST_TMA, DESCRIBED), (DEVICE_TMA, f"{OUT}\ngemm[{GRID}]{CALL}\nreturn y")]
)
def test_tiles_of_tma_descriptors_have_the_type_of_their_tensor(tmp_path: Path, kernel: str, body: str) -> None:
    honest = IMPORTS + DESCRIBE + kernel + model(body)
    assert set(states(lint(tmp_path, honest)).values()) == {"kept"}
    assert classes(lint(tmp_path, honest.replace(DOT, WIDE))) == {"fp8-upcast-bf16-gemm"}


def test_a_descriptor_over_a_widened_copy_is_found_where_the_copy_is_made(tmp_path: Path) -> None:
    body = DESCRIBED.replace("TensorDescriptor(x,", "TensorDescriptor(x.bfloat16(),").replace(
        "(self.weight, [", "(self.weight.bfloat16(), ["
    )
    report = lint(tmp_path, IMPORTS + DESCRIBE + HOST_TMA + model(body))
    assert states(report)["fp8-products"] == "broken"
    line = place(tmp_path / "solution.py", "x.bfloat16()").line
    assert any(line in {f.span.line, *(r.span.line for r in f.related)} for f in report.findings)
