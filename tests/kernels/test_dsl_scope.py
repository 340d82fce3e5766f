"""CuTe DSL and TileLang: what a kernel sees through its scope, all configurations of a tuner, what stands beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cute import KAHAN, SOFTMAX, TILES, classes, lint, states

CALL = """\
        if (m, k) not in self.kernels:
            self.kernels[m, k] = scaled_gemm(m, n, k, 128, 128, 128)
        return self.kernels[m, k](x, self.weight, self.weight_scale)
"""
MADE = "scaled_gemm(m, n, k, 128, 128, 128"
RUN = "(x, self.weight, self.weight_scale)\n"
HELD = {
    "a dict": ('cfg["kind"]', '{{"kind": "{}"}}'),
    "a list": ("cfg[0]", '["{}"]'),
    "a namespace": ("cfg.kind", 'types.SimpleNamespace(kind="{}")'),
    "an object": ("cfg.kind", 'Held("{}")'),
    "a function": ("cfg()", '(lambda: "{}")'),
}
CLASS = "import types\n\n\nclass Held:\n    def __init__(self, kind):\n        self.kind = kind\n\n\n@tilelang.jit("


def tiles_of(how: str) -> tuple[str, str]:
    """The TileLang product whose tiles' element type is in an object that the kernel closes over."""
    read, made = HELD[how]
    text = TILES.replace("@tilelang.jit(", CLASS, 1).replace("bm, bn, bk, dtype=", "bm, bn, bk, cfg, dtype=")
    for tile in ("(bm, bk)", "(bn, bk)"):
        text = text.replace(f"T.alloc_shared({tile}, dtype)", f"T.alloc_shared({tile}, {read})")
    return text, made


@pytest.mark.parametrize("how", HELD)
def test_two_kernels_of_one_text_differ_in_what_they_close_over(tmp_path: Path, how: str) -> None:
    text, made = tiles_of(how)
    narrow, wide = (f"{MADE}, {made.format(kind)}){RUN}" for kind in ("float8_e4m3", "bfloat16"))
    report = lint(tmp_path, text, (CALL, f"        y = {narrow}        y = {wide}        return y\n"))
    assert states(report)["fp8-products"] == "broken", report.promises
    assert "fp8-upcast-bf16-gemm" in classes(report)
    report = lint(tmp_path, text, (CALL, f"        return {narrow}"))
    assert set(states(report).values()) == {"kept"}, report.promises


TUNED = {
    "a list": '@tilelang.autotune(configs=[{"kind": "float8_e4m3"}, {"kind": "SECOND"}])\n@tilelang.jit(',
    "below the compiler": '@tilelang.jit(out_idx=[-1])\n@tilelang.autotune(configs=[{"kind": "float8_e4m3"}, '
    '{"kind": "SECOND"}])\n#',
    "a function of the sizes": "def configs(*sizes):\n    return [dict(kind=kind) for kind in "
    '("float8_e4m3", "SECOND")]\n\n\n@tilelang.autotune(configs=configs)\n@tilelang.jit(',
}


@pytest.mark.parametrize("how", TUNED)
def test_every_configuration_of_a_tilelang_tuner_counts(tmp_path: Path, how: str) -> None:
    text = TILES.replace("@tilelang.jit(", TUNED[how], 1).replace("bk, dtype=", 'bk, kind="float8_e4m3", dtype=')
    for tile in ("(bm, bk)", "(bn, bk)"):
        text = text.replace(f"T.alloc_shared({tile}, dtype)", f"T.alloc_shared({tile}, kind)")
    for second, state in (("float8_e4m3", "kept"), ("bfloat16", "broken")):
        report = lint(tmp_path, text.replace("SECOND", second))
        assert states(report)["fp8-products"] == state, report.promises


BESIDE = ("acc = T.alloc_fragment((bm, bn), accumulate)",) * 2
UNREAD = {
    "CUDA": 'T.call_extern("void", "multiply", sa.data, sb.data, acc.data)',
    "a function of an unknown name": "getattr(T, tilelang.chosen())(sa, sb, acc, transpose_B=True)",
}


@pytest.mark.parametrize("what", UNREAD)
def test_a_product_beside_something_unread_proves_nothing(tmp_path: Path, what: str) -> None:
    old = "T.gemm(sa, sb, acc, transpose_B=True)"
    idle = "T.gemm(sa, sb, idle, transpose_B=True)\n                "
    report = lint(
        tmp_path, TILES, (BESIDE[0], BESIDE[0] + "\n            idle = T.alloc_fragment((bm, bn), accumulate)"),
        (old, idle + UNREAD[what]),
    )  # fmt: skip
    assert states(report)["fp8-products"] == "unproven", report.promises
    assert report.verdict == "unproven"


def test_a_function_whose_name_is_in_pieces_is_the_one_of_that_name(tmp_path: Path) -> None:
    for kinds, state in (("", "kept"), (".astype('bfloat16')", "broken")):
        pieces = f"getattr(T, 'ge' + 'mm')(sa{kinds}, sb{kinds}, acc, transpose_B=True)"
        report = lint(tmp_path, TILES, ("T.gemm(sa, sb, acc, transpose_B=True)", pieces))
        assert states(report)["fp8-products"] == state, report.promises


HARMLESS = (
    "T.annotate_layout({sa: tilelang.layout.make_swizzled_layout(sa)})",
    "T.warpgroup_fence_operand(acc, num_regs=64)",
    "T.annotate_restrict_buffers(a, b)",
)


def test_what_lays_out_or_annotates_a_buffer_computes_nothing(tmp_path: Path) -> None:
    asked = "".join(f"            {line}\n" for line in HARMLESS)
    report = lint(tmp_path, TILES, ("            T.clear(acc)\n", f"{asked}            T.clear(acc)\n"))
    assert set(states(report).values()) == {"kept"}, report.promises


def test_a_compensated_sum_beside_something_unread_proves_nothing(tmp_path: Path) -> None:
    stored = "                T.copy(held, y[row, i * BN])\n"
    after = '            T.call_extern("void", "plain", T.address_of(x[row, 0]), T.address_of(y[row, 0]))\n'
    report = lint(tmp_path, SOFTMAX, (stored, stored + after), problem="04_kahan_softmax")
    assert states(report)["compensated-sum"] == "unproven", report.promises
    assert any("tilelang" in promise.reason for promise in report.promises)


def test_a_tile_type_that_is_spelled_from_the_inputs_type_is_known(tmp_path: Path) -> None:
    spelled = ", dtype=str(x.dtype).removeprefix('torch.'))"
    report = lint(tmp_path, TILES, (MADE + ")", MADE + spelled))
    assert set(states(report).values()) == {"kept"}, report.promises


WRAPPED = {
    "a kernel": ("@cute.kernel\ndef softmax_rows", "@somewhere.quicker\n@cute.kernel\ndef softmax_rows"),
    "a function that it calls": ("@cute.jit\ndef add_c", "@somewhere.quicker\n@cute.jit\ndef add_c"),
    "forward": ("    def forward", "    @somewhere.quicker\n    def forward"),
}


@pytest.mark.parametrize("what", WRAPPED)
def test_what_a_decorator_of_an_unknown_package_makes_is_not_known(tmp_path: Path, what: str) -> None:
    text = "import somewhere\n" + KAHAN
    report = lint(tmp_path, text, WRAPPED[what], problem="04_kahan_softmax")
    assert "kept" not in states(report)["compensated-sum"], report.promises
    assert report.verdict == "unproven"


FLAGS = {
    "a dict": ("FLAGS = {{'on': {}}}", "FLAGS['on']"),
    "an object": ("class Flags:\n    on = {}\n\n\nFLAGS = Flags()", "FLAGS.on"),
}


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("how", FLAGS)
def test_a_flag_of_the_host_switches_a_compensation(tmp_path: Path, how: str, on: bool) -> None:
    made, read = FLAGS[how]
    edits = (
        ("@cute.jit\ndef add_c", made.format(on) + "\n\n\n@cute.jit\ndef add_c"),
        ("    return t, (t", f"    if not cutlass.const_expr({read}):\n        return t, err\n    return t, (t"),
    )
    report = lint(tmp_path, KAHAN, *edits, problem="04_kahan_softmax")
    assert states(report)["compensated-sum"] == ("kept" if on else "broken"), report.promises


@pytest.mark.parametrize("on", [True, False])
def test_a_flag_in_a_dict_that_a_tilelang_kernel_closes_over_is_read(tmp_path: Path, on: bool) -> None:
    lost = "                    lost[j] = "
    edits = (
        ("def softmax(M, N, BN):", f"def softmax(M, N, BN, flags={{'on': {on}}}):"),
        (lost, f"                    if flags['on']:\n    {lost}"),
    )
    report = lint(tmp_path, SOFTMAX, *edits, problem="04_kahan_softmax")
    assert states(report)["compensated-sum"] == ("kept" if on else "broken"), report.promises


COMPILE = "            self.program = cute.compile(launch, source, target)\n"
CHANGED = {
    "after it was compiled": (
        COMPILE,
        f"            global ON\n            ON = False\n{COMPILE}            ON = True\n",
    ),
    "after its launch": (
        "        self.program(source, target)\n",
        "        global ON\n        ON = False\n        launch(source, target)\n        ON = True\n",
    ),
}


@pytest.mark.parametrize("when", CHANGED)
def test_a_global_that_changes_around_a_kernel_leaves_its_sum_unproven(tmp_path: Path, when: str) -> None:
    edits = (
        ("@cute.jit\ndef add_c", "ON = False\n\n\n@cute.jit\ndef add_c"),
        ("    return t, (t", "    if not cutlass.const_expr(ON):\n        return t, err\n    return t, (t"),
        CHANGED[when],
    )
    report = lint(tmp_path, KAHAN, *edits, problem="04_kahan_softmax")
    assert states(report)["compensated-sum"] in ("unproven", "broken"), report.promises
    assert report.verdict != "clean"


def test_a_tilelang_kernel_is_what_its_names_meant_when_it_was_made(tmp_path: Path) -> None:
    text = TILES.replace("@tilelang.jit(", 'KIND = "float8_e4m3"\n\n\n@tilelang.jit(', 1)
    for tile in ("(bm, bk)", "(bn, bk)"):
        text = text.replace(f"T.alloc_shared({tile}, dtype)", f"T.alloc_shared({tile}, KIND)")
    flipped = f"        global KIND\n        KIND = 'bfloat16'\n        made = {MADE})\n        KIND = 'float8_e4m3'\n"
    report = lint(tmp_path, text, (CALL, f"{flipped}        return made{RUN}"))
    assert states(report)["fp8-products"] == "broken", report.promises
