"""Functions of the driver, however a host comes by them, and what a check macro runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of
from test_ways_to_a_launch import HOST, SOURCE

PROGRAM = Path(__file__).parents[1] / "variants" / "01_fp8_gemm" / "wgmma_tma_ws_runtime_maps.py"
TYPE = "PFN_cuTensorMapEncodeTiled_v12000"
ASKED = 'cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000, cudaEnableDefault, &q)'
ROOM = "void* fn = nullptr; cudaDriverEntryPointQueryResult q;"
WAYS = {  # what stands before `encoder`, and its body
    "a check of two parts, in a lambda": (
        "",
        f"static auto encode = [] {{ {ROOM}\n  TORCH_CHECK({ASKED} == cudaSuccess && fn);\n"
        "  return (decltype(&cuTensorMapEncodeTiled))fn; }(); return encode;",
    ),
    "a check that negates": (
        "",
        f"{ROOM} TORCH_CHECK(!({ASKED} != cudaSuccess), \"none\"); return ({TYPE})fn;",
    ),
    "a check with the status first": ("", f"{ROOM} TORCH_CHECK(cudaSuccess == {ASKED}); return ({TYPE})fn;"),
    "a check that assigns": (
        "", f"{ROOM} cudaError_t e; TORCH_CHECK((e = {ASKED}) == cudaSuccess); return ({TYPE})fn;"),
    "a check of two values": ("", f"{ROOM} TORCH_CHECK_EQ(cudaSuccess, {ASKED}); return ({TYPE})fn;"),
    "an assertion of three parts": (
        "", f"{ROOM} assert({ASKED} == cudaSuccess && q == cudaDriverEntryPointSuccess && fn != nullptr);\n"
        f"  return ({TYPE})fn;"),
    "the driver's own function": (
        "",
        "static void* fn = nullptr; static std::once_flag once;\n"
        "  std::call_once(once, [] { CUdriverProcAddressQueryResult q; auto how = CU_GET_PROC_ADDRESS_DEFAULT;\n"
        '  TORCH_CHECK(cuGetProcAddress("cuTensorMapEncodeTiled", &fn, 12000, how, &q) == 0 && fn);'
        f" }}); return ({TYPE})fn;",
    ),
    "dlsym": (
        "#include <dlfcn.h>\n",
        'void* lib = dlopen("libcuda.so.1", RTLD_NOW); TORCH_CHECK(lib && dlsym(lib, "cuTensorMapEncodeTiled"));\n'
        f'  return ({TYPE})dlsym(lib, "cuTensorMapEncodeTiled");',
    ),
    "a struct of functions": (
        f"struct Driver {{ {TYPE} encode = nullptr; decltype(&cuGetErrorString) told = nullptr;\n"
        "  template <class F> static void find(const char* name, F& to) {\n"
        "    void* fn = nullptr; cudaDriverEntryPointQueryResult q;\n"
        "    auto told = cudaGetDriverEntryPointByVersion(name, &fn, 12000, cudaEnableDefault, &q);\n"
        "    TORCH_CHECK(told == cudaSuccess && fn);\n"
        "    to = reinterpret_cast<F>(fn); }\n"
        '  Driver() { find("cuTensorMapEncodeTiled", encode); find("cuGetErrorString", told); }\n'
        "  static const Driver& get() { static Driver made; return made; } };\n",
        "return Driver::get().encode;",
    ),
    "a table by name": (
        "#include <unordered_map>\nstatic void* found(const std::string& name) {\n"
        "  static std::unordered_map<std::string, void*> table; auto at = table.find(name);\n"
        "  if (at != table.end()) return at->second;\n"
        "  void* fn = nullptr; cudaDriverEntryPointQueryResult q;\n"
        "  TORCH_CHECK(cudaGetDriverEntryPoint(name.c_str(), &fn, cudaEnableDefault, &q) == cudaSuccess && fn);\n"
        "  return table.emplace(name, fn).first->second; }\n",
        f'return reinterpret_cast<{TYPE}>(found("cuTensorMapEncodeTiled"));',
    ),
    "its name": ("", "return &cuTensorMapEncodeTiled;"),
}  # fmt: skip
CHECKS = {  # each launches what `want` asks for
    "both of two": "TORCH_CHECK(want > 0 && (want == 128 ? launch<128>(x, y) : launch<256>(x, y)));",
    "all of three": "TORCH_CHECK(want && x.dim() == 2 && (want == 128 ? launch<128>(x, y) : launch<256>(x, y)), want);",
    "either of two": "TORCH_CHECK(launch<128>(x, y, want) || launch<256>(x, y, want));",
    "either of two, of which a name may hold": "bool done = want == 128 ? launch<128>(x, y) : launch<256>(x, y);\n"
    "  TORCH_CHECK(done || launch<512>(x, y));",
    "not neither": "TORCH_CHECK(!(!launch<128>(x, y, want) && !launch<256>(x, y, want)));",
    "of two values": "TORCH_CHECK_EQ(true, want == 128 ? launch<128>(x, y) : launch<256>(x, y));",
    "within a number": "AT_ASSERT(1 + (int)(want == 128 ? launch<128>(x, y) : launch<256>(x, y)) == 2);",
}


def _from(text: str, above: str, body: str) -> str:
    begin, end = text.index(f"{TYPE} encoder() {{"), text.index("CUtensorMap make(")
    return text[:begin] + f"{above}{TYPE} encoder() {{\n  {body}\n}}\n" + text[end:]


@pytest.mark.parametrize("way", WAYS)
def test_a_function_of_the_driver_is_known_by(way: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, _from(PROGRAM.read_text(encoding="utf-8"), *WAYS[way]), "01_fp8_gemm")
    assert report.verdict == "clean", (report.unread, [f.message for f in report.findings])
    assert {promise.state for promise in report.promises} == {"kept"}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("total", "state"), [("double", "kept-by-precision"), ("float", "broken")])
def test_what_a_check_tests_is_run(check: str, total: str, state: str, tmp_path: Path) -> None:
    source = SOURCE.replace("SUM", total).replace("HELPER", "").replace("CALL", CHECKS[check])
    report = report_of(tmp_path, f'SOURCE = r"""{source}"""\n{HOST}', "04_kahan_softmax")
    states = {promise.id: promise.state for promise in report.promises}
    assert states == {"compensated-sum": state, "authored-compute": "kept"}, (report.findings, report.unread)
