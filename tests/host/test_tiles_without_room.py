"""A Triton kernel whose operands take more shared memory than any GPU has never runs: the handler says what does."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import DOT, GEMM, HEAD, KERNEL, OUTPUT, classes, lint, model, reasons, states

ROOM = "BM=256, BN=256, BK=512"  # two tiles of 128 KiB
FITS = "BM=256, BN=128, BK=512"
CATCHES = {
    "by its name": ("from triton.runtime.errors import OutOfResources\n", "OutOfResources"),
    "from elsewhere": ("", "triton.OutOfResources"),
    "as any": ("", "Exception"),
    "as one of several": ("", "(RuntimeError, triton.runtime.errors.OutOfResources)"),
}
BACK = "return (x.to(torch.bfloat16) @ self.weight.to(torch.bfloat16).t() * self.weight_scale).to(torch.bfloat16)\n"


def forward(tiles: str, caught: str = "Exception", otherwise: str = BACK) -> str:
    block = dict(part.split("=") for part in tiles.split(", ")) if tiles else {"BM": "64", "BN": "64"}
    launch = f"gemm[(triton.cdiv(M, {block['BM']}), triton.cdiv(N, {block['BN']}))](x, self.weight, self.weight_scale, "
    launch += f"y, M, N, K, {tiles})"
    return OUTPUT.replace("        ", "", 1) + f"try:\n    {launch}\n    return y\nexcept {caught}:\n    {otherwise}"


@pytest.mark.parametrize("way", CATCHES)
def test_the_handler_runs_where_no_gpu_has_the_room(tmp_path: Path, way: str) -> None:
    before, caught = CATCHES[way]
    report = lint(tmp_path, HEAD + before + KERNEL + model(forward(ROOM, caught)))
    assert classes(report) & {"reference-resubmission", "library-gemm-wrapper"}, reasons(report)
    assert states(report)["authored-compute"] == "broken"


@pytest.mark.parametrize(("fits", "does_not"), [
    ("BM=256, BN=64, BK=64", ROOM), ("BM=64, BN=64, BK=64", ROOM), ("BM=64, BN=64, BK=64", "BM=64, BN=96, BK=64"),
])  # fmt: skip
def test_a_launch_that_fits_says_nothing_of_one_with_other_tiles(tmp_path: Path, fits: str, does_not: str) -> None:
    first = f"gemm[(M // 64, N // 64)](x, self.weight, self.weight_scale, y, M, N, K, {fits})\n"
    told = forward(does_not).replace("try:", first + "try:", 1)
    report = lint(tmp_path, HEAD + KERNEL + model(told))
    assert classes(report) & {"reference-resubmission", "library-gemm-wrapper"}, reasons(report)


def test_a_handler_for_something_else_does_not(tmp_path: Path) -> None:
    report = lint(tmp_path, HEAD + KERNEL + model(forward(ROOM, "ZeroDivisionError")))
    assert "library-gemm-wrapper" not in classes(report)


TURNED = GEMM.replace("w + cols[None, :] * K + depth[:, None]", "w + cols[:, None] * K + depth[None, :]").replace(
    "mask=(depth < K)[:, None], other", "mask=(depth < K)[None, :], other"
)
HONEST = {
    "one that has it": (KERNEL, FITS, BACK),
    "a smaller one in the handler": (
        KERNEL, ROOM,
        "gemm[(triton.cdiv(M, 64), N // 128)](x, self.weight, self.weight_scale, y, M, N, K, BM=64, BN=128, BK=64)\n"
        "    return y\n",
    ),
    "a smaller configuration": (
        "\n\n@triton.autotune([triton.Config(dict(BM=256, BN=256, BK=512)), triton.Config(dict(BM=64, BN=64, BK=64))], "
        "key=['M'])\n@triton.jit" + GEMM, "", BACK,
    ),
    "an operand that is turned": (
        "\n\n@triton.jit" + TURNED.replace(DOT, "tl.dot(a, tl.trans(b), acc)"), ROOM, BACK,
    ),
    "an operand that is computed": (KERNEL.replace(DOT, "tl.dot(-a, b, acc)"), ROOM, BACK),
    "one that is made in two ways": (
        KERNEL.replace("        acc = tl.dot", "        a = tl.where(a == a, a, a)\n        acc = tl.dot"), ROOM, BACK,
    ),
    "in a branch that a number leaves out": (
        KERNEL.replace("BK: tl.constexpr)", "BK: tl.constexpr, FAST: tl.constexpr = 0)").replace(
            "        acc = tl.dot(a, b, acc)",
            "        if FAST:\n            c = tl.load(x + tl.arange(0, 1024)[:, None] + tl.arange(0, 1024)[None, :])\n"
            "            acc += tl.sum(tl.dot(c, c))\n        acc = tl.dot(a, b, acc)",
        ), FITS, BACK,
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", HONEST)
def test_it_is_not_looked_at_where_one_may(tmp_path: Path, way: str) -> None:
    before, tiles, otherwise = HONEST[way]
    report = lint(tmp_path, HEAD + before + model(forward(tiles, otherwise=otherwise)))
    assert not classes(report), classes(report)
    assert states(report)["authored-compute"] == "kept", reasons(report)


def test_all_configurations_have_to_be_too_large(tmp_path: Path) -> None:
    text = "\n\n@triton.autotune([triton.Config(dict(BM=256, BN=256, BK=512)), "
    text += "triton.Config(dict(BM=512, BN=256, BK=512))], key=['M'])\n@triton.jit" + GEMM
    report = lint(tmp_path, HEAD + text + model(forward("")))
    assert states(report)["authored-compute"] == "broken"


def test_another_shape_may_have_smaller_tiles(tmp_path: Path) -> None:
    body = OUTPUT.replace("        ", "", 1) + "big = M > 64\n"
    body += "try:\n    gemm[(triton.cdiv(M, 64), N // 64)](x, self.weight, self.weight_scale, y, M, N, K, "
    body += "BM=256 if big else 64, BN=256 if big else 128, BK=512 if big else 64)\n    return y\n"
    body += f"except Exception:\n    {BACK}"
    report = lint(tmp_path, HEAD + KERNEL + model(body))
    (authored,) = (promise for promise in report.promises if promise.id == "authored-compute")
    assert sorted(authored.shapes.values()) == ["broken", "broken", "broken", "kept"]
