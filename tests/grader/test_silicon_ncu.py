"""Reading what Nsight Compute and torch's profiler write."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.silicon.kernels import library_of, parse_trace, rows, same_sequence
from grader.silicon.ncu import Launch, ProfilerError, parse

TIME, READ = "gpu__time_duration.sum", "dram__bytes_read.sum"
HEADER = [
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC", "Id:Domain:Start/Stop_Range:PL_Type:Msg", TIME, READ,
]  # fmt: skip
UNITS = ["", "", "", "", "", "", "", "", "", "", "", "", "ns", "byte"]
ROW = [
    "0", "41", "python3", "127.0.0.1", "_product", "1", "7", "(128, 1, 1)", "(64, 2, 1)", "0", "9.0",
    ' ""4:<default domain>:kbh/1/3:none:none"" ', "12,345", "1,000,000",
]  # fmt: skip
NOISE = '==PROF== Connected to process 41 (/usr/bin/python3)\n==PROF== Profiling "_product": 0%....100% - 2 passes\n'


def table(*body: list[str], header: list[str] | None = None, units: list[str] | None = None) -> str:
    lines = [header or HEADER, units or UNITS, *body]
    return NOISE + "".join(",".join(f'"{field}"' for field in line) + "\n" for line in lines)


def changed(row: list[str], **fields: str) -> list[str]:
    names = {"mark": 11, "time": 12, "read": 13, "grid": 8, "kernel": 4}
    row = list(row)
    for name, value in fields.items():
        row[names[name]] = value
    return row


def test_launches_are_read_with_their_sizes_marks_and_metrics_in_seconds_and_bytes() -> None:
    first, second = parse(table(ROW, changed(ROW, kernel="_sum", mark="x:kbh/2/4", read="7")), (TIME, READ))
    metrics = {TIME: pytest.approx(12.345e-6), READ: 1e6}
    assert first == Launch(1, 1, 3, "_product", (64, 2, 1), (128, 1, 1), "9.0", metrics)
    assert (second.kernel, second.model, second.call, second.metrics[READ]) == ("_sum", 2, 4, 7.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "counted no kernel"),
        (NOISE, "counted no kernel"),
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", "does not have permission"),
        (table(ROW, units=[*UNITS[:-1], "furlong"]), "'furlong'"),
        (table(ROW, units=UNITS[:-1]), "no line of units"),
        ('"ID","Process ID"\n\n', "no line of units"),
        ('"ID","Process ID"', "no line of units"),
        (table(ROW[:-1]), "13 fields instead of 14"),
        (table(changed(ROW, time="n/a")), "'n/a', which is not a number"),
        (table(changed(ROW, time="")), "not a number"),
        (table(changed(ROW, time="1,23")), "not a number"),
        (table(changed(ROW, time="nan")), "not a number"),
        (table(changed(ROW, time="-1")), "not a number"),
        (table(changed(ROW, mark="none")), "belongs to 0 marked calls"),
        (table(changed(ROW, mark="kbh/1/3 kbh/1/4")), "belongs to 2 marked calls"),
        (table(changed(ROW, grid="64")), "'64' for a size"),
        (table(changed(ROW, kernel="")), "names no kernel"),
        (table(ROW, header=[*HEADER[:-1], TIME]), "2 columns"),
        (table(ROW, header=[*HEADER[:-1], "another"]), "0 columns dram__bytes_read.sum"),
    ],
)
def test_what_cannot_be_read_is_an_error_and_never_a_zero(text: str, said: str) -> None:
    with pytest.raises(ProfilerError, match=said.replace("(", r"\(")):
        parse(text, (TIME, READ))


def test_a_report_longer_than_a_profiler_writes_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grader.silicon.ncu.MOST_LAUNCHES", 2)
    with pytest.raises(ProfilerError, match="more than 2 launches"):
        parse(table(ROW, ROW, ROW), (TIME, READ))
    monkeypatch.setattr("grader.silicon.ncu.MOST_TEXT", 50)
    with pytest.raises(ProfilerError, match="more than 50 characters"):
        parse(table(ROW), (TIME, READ))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_text_is_read_or_refused_in_one_sentence(data: st.DataObject) -> None:
    text = table(ROW, changed(ROW, kernel="_sum"))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    text = text[:start] + data.draw(st.text(st.characters(codec="utf-8"), max_size=12)) + text[end:]
    try:
        launches = parse(text, (TIME, READ))
    except ProfilerError as error:
        assert "\n" not in str(error)
    else:
        assert all(launch.metrics.keys() == {TIME, READ} for launch in launches)


def test_launches_of_one_kernel_are_summed_in_the_order_in_which_they_came() -> None:
    launches = parse(
        table(ROW, changed(ROW, kernel="nvjet_hsh_64x8_2x4_v_bz_TNT"), changed(ROW, time="655")), (TIME, READ)
    )
    found = rows(launches)
    assert [(row.name, row.launches, row.library) for row in found] == [
        ("_product", 2, ""),
        ("nvjet_hsh_64x8_2x4_v_bz_TNT", 1, "cuBLAS"),
    ]
    assert found[0].seconds == pytest.approx(13e-6)


def test_two_calls_are_the_same_only_with_the_same_kernels_of_the_same_sizes_in_the_same_order() -> None:
    one, two = parse(table(ROW, changed(ROW, kernel="_sum")), (TIME, READ))
    wide = parse(table(changed(ROW, grid="(65, 2, 1)")), (TIME, READ))[0]
    assert same_sequence([one, two], [one, two]) == ""
    assert same_sequence([one, two], [one]) == "2 kernels and then 1"
    assert same_sequence([one, two], [two, one]).startswith("kernel 1 is _product and then _sum")
    assert "other sizes" in same_sequence([one], [wide])


@pytest.mark.parametrize(
    ("kernel", "owner"),
    [
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE", "torch"),
        ("void at::native::reduce_kernel<512, 1>", "torch"),
        ("_ZN8cublasLt19splitKreduce_kernelILi32E", "cuBLAS"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64", "cuBLAS"),
        ("_ZN7cutlass13device_kernelINS_4gemm6kernel", "CUTLASS"),
        ("triton_red_fused_softmax_0", "torch.compile"),
        ("_ZN3cub17CUB_200700_900_NS18DeviceRadixSortKernel", "CUB"),
        ("_fp8_gemm_kernel", ""),
        ("_Z11gemv_kernelPKfS0_Pf", ""),
        ("_Z15batchnorm_nativePf", ""),
        ("triton_matmul", ""),
    ],
)
def test_a_kernels_name_says_which_library_it_is_from(kernel: str, owner: str) -> None:
    assert library_of(kernel, frozenset({"_other"})) == owner


def test_a_template_library_that_a_submission_compiled_is_its_own_and_a_vendors_kernel_never_is() -> None:
    gemm, vendor = "_ZN7cutlass13device_kernelI", "nvjet_hsh_64x8"
    assert library_of(gemm, frozenset({gemm})) == "" and library_of(gemm) == ""
    assert library_of(vendor, frozenset({vendor})) == "cuBLAS"


def event(name: str, start: float, length: float, kind: str = "kernel") -> dict[str, object]:
    return {
        "ph": "X", "cat": kind, "name": name, "ts": start, "dur": length,
        "args": {"grid": [4, 1, 1], "block": [32, 1, 1]},
    }  # fmt: skip


def test_a_trace_gives_the_devices_work_in_order_and_how_long_it_was_busy() -> None:
    events = [
        event("late", 30, 5), event("early", 10, 8), event("Memset", 17, 2, "gpu_memset"),
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 100}, {"ph": "s", "cat": "ac2g"},
    ]  # fmt: skip
    tracing = parse_trace(json.dumps({"traceEvents": events}))
    assert [piece.name for piece in tracing.work] == ["early", "Memset", "late"]
    assert [kernel.grid for kernel in tracing.kernels] == [(4, 1, 1), (4, 1, 1)]
    assert tracing.busy == pytest.approx(14e-6)  # the fill overlaps the first kernel by 1 us
    assert tracing.span == pytest.approx(25e-6)
    assert parse_trace('{"traceEvents": []}').busy == parse_trace('{"traceEvents": []}').span == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"traceEvents": 3}', "[" * 100_000,
        json.dumps({"traceEvents": [{**event("k", 1, 2), "ts": "now"}]}),
        json.dumps({"traceEvents": [{**event("k", 1, 2), "dur": -1}]}),
        json.dumps({"traceEvents": [{**event("k", 1, 2), "args": {}}]}),
        '{"traceEvents": [{"ph": "X", "cat": "gpu_memset", "ts": NaN, "dur": 1}]}',
        '{"traceEvents": [{"ph": "X", "cat": "gpu_memset", "ts": 1' + "0" * 500 + ', "dur": 1}]}',
    ],
)  # fmt: skip
def test_a_trace_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ProfilerError):
        parse_trace(text)
