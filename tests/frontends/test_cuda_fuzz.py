"""Random damage to CUDA text: no crash, and every span inside the text."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbh_lint.frontends import cuda

SEED = r"""#include <torch/extension.h>
#define TILE 64
#define CHECK(x) do { if (!(x)) fail(#x, __LINE__); } while (0)
#define LD(d, p) asm volatile("ld.global.v4.u32 {%0,%1}, [%2];\n" : "=r"(d[0]), "=r"(d[1]) : "l"(p))
namespace ns {
template <int BM, typename T> struct Cfg {
  static constexpr int K = BM * 2; T a[4];
  __device__ T get(int i) const { return a[i]; } };
template <int BM>
__global__ void __launch_bounds__(128) kern(const float* __restrict__ p, float* q, int n) {
  extern __shared__ __align__(16) unsigned char smem[];
  unsigned r[2]; LD(r, p);
  #pragma unroll
  for (int i = threadIdx.x; i < n; i += TILE) { q[i] = (float)p[i] * 2.f + (i > 3 ? 'a' : -1); }
  if constexpr (BM > 32) { CHECK(n > 0); } else { return; }
}
}
void launch(torch::Tensor a) {
  dim3 g(a.size(0), 1); ns::kern<64><<<g, 128, 0, s()>>>(a.data_ptr<float>(), nullptr, 3); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("launch", &launch, "x"); }
"""
PIECES = st.sampled_from(
    [
        "{", "}", "(", ")", "<", ">", "<<<", ">>>", ";", ",", '"', "'", "\\", "\n", "#", "##", "#if 0\n", "#endif\n",
        "#define X(", "/*", "*/", "//", "asm(", ":", "::", "[[", "]]", "template <", "__global__ ", 'extern "C"', 'R"(',
        "é", "\x00", "CHECK(", "LD(", "TILE", "struct ", "=", "operator", "1'", "0x", "...", "?",
    ]
)  # fmt: skip
EDITS = st.lists(st.tuples(st.integers(0, len(SEED)), st.integers(0, 40), PIECES), min_size=1, max_size=6)


def check(text: str) -> None:
    module = cuda.lower(text, cuda.lines_origin(text, "k.cu"), cuda_arch=900)
    lines = text.split("\n")
    locs = [node.loc for node in cuda.walk(module.body) if hasattr(node, "loc")] + [loc for _, loc in module.unread]
    for loc in locs:
        span = module.unit.span(loc)
        assert 1 <= span.line <= span.end_line <= len(lines)
        assert 1 <= span.column <= len(lines[span.line - 1]) + 1
        assert 1 <= span.end_column <= len(lines[span.end_line - 1]) + 2
        assert (span.line, span.column) < (span.end_line, span.end_column)
    cuda.module_env(module)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EDITS)
def test_damaged_text_never_raises_and_spans_stay_inside(edits: list[tuple[int, int, str]]) -> None:
    text = SEED
    for at, length, piece in edits:
        text = text[:at] + piece + text[at + length :]
    check(text)


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES | st.sampled_from(SEED.split()), max_size=60).map(" ".join))
def test_random_pieces_never_raise_and_spans_stay_inside(text: str) -> None:
    check(text)
