"""Windows of persisting accesses: which of them outlive the call, and whether the call reads what they cover again."""

from __future__ import annotations

import ctypes
import inspect
from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, WORK, check_what_holds, lint, model, states

BUILT = '''
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime.h>
static void set(torch::Tensor t, cudaAccessProperty hit) {
  cudaStreamAttrValue value = {};
  value.accessPolicyWindow.base_ptr = t.data_ptr();
  value.accessPolicyWindow.num_bytes = t.numel();
  value.accessPolicyWindow.hitRatio = 1.0f;
  value.accessPolicyWindow.hitProp = hit;
  value.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
  cudaStreamSetAttribute(at::cuda::getCurrentCUDAStream(), cudaStreamAttributeAccessPolicyWindow, &value);
}
void keep(torch::Tensor t) { set(t, cudaAccessPropertyPersisting); }
void either(torch::Tensor a, torch::Tensor b) { keep((char*)a.data_ptr() < (char*)b.data_ptr() ? a : b); }
void end(torch::Tensor t) { set(t, cudaAccessPropertyNormal); }
void close() {
  cudaStreamAttrValue value = {};
  value.accessPolicyWindow.num_bytes = 0;
  cudaStreamSetAttribute(at::cuda::getCurrentCUDAStream(), cudaStreamAttributeAccessPolicyWindow, &value);
}
int64_t reset() { return (int64_t)cudaCtxResetPersistingL2Cache(); }
int64_t share(int64_t bytes) { return (int64_t)cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, bytes); }
"""
NAMES = ("void keep(torch::Tensor t)", "void either(torch::Tensor a, torch::Tensor b)", "void end(torch::Tensor t)",
         "void close()", "int64_t reset()", "int64_t share(int64_t bytes)")
l2 = load_inline("l2", cpp_sources="; ".join(NAMES) + ";", cuda_sources=SOURCE,
                 functions=["keep", "either", "end", "close", "reset", "share"])
'''
# A window over the weight: with 32 rows, one block of rows reads it, with 4096 many do.
RETAINED = [("KBH230", 1), ("KBH231", 3)]
VARIANTS = {
    "set after a reset": ("l2.reset()\nl2.keep(self.weight)\n", "", RETAINED),
    "set where a share of the cache was to be had": (
        "if l2.share(1 << 25) == 0:\n    l2.keep(self.weight)\n", "", RETAINED,
    ),
    "over one of two": ("l2.reset()\nl2.either(self.weight, self.weight_scale)\n", "", RETAINED),
    "reset after the work": ("l2.keep(self.weight)\n", "l2.reset()\n", []),
    "ended after the work": ("l2.keep(self.weight)\n", "l2.close()\n", []),
    "ended before the work": ("l2.close()\nl2.keep(self.weight)\n", "", RETAINED),
    "reset before and after": ("l2.reset()\nl2.keep(self.weight)\n", "l2.end(self.weight)\n", []),
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_window_is_told_when_it_outlives_the_call(tmp_path: Path, variant: str) -> None:
    before, after, found = VARIANTS[variant]
    report = lint(tmp_path, HEAD + BUILT + KERNEL + model(f"{before}{WORK}{after}return y\n"))
    assert sorted((finding.rule, len(finding.shapes)) for finding in report.findings) == found


def test_a_window_may_be_set_through_references_to_fields(tmp_path: Path) -> None:
    through = BUILT.replace(
        "  value.accessPolicyWindow.base_ptr", "  auto& window = value.accessPolicyWindow;\n  window.base_ptr"
    ).replace("  value.accessPolicyWindow.", "  window.")
    report = lint(tmp_path, HEAD + through + KERNEL + model(f"l2.reset()\nl2.keep(self.weight)\n{WORK}return y\n"))
    assert sorted((finding.rule, len(finding.shapes)) for finding in report.findings) == RETAINED


SAID = [("KBH230", 4)]
WORDS = {  # what a file says of its window, and what is found
    "a comment of C++": ("// What lies there stays in L2 for the next call, whatever passes in between.", "", SAID),
    "a comment over two lines": ("// The weight is resident: other traffic evicts other lines, so that a\n"
                                 "// launch finds it warm, across all calls.", "", SAID),
    "a docstring": ("", '\n\ndef window():\n    """Persisting lines survive the flush."""\n', SAID),
    "past the call": ("// Persisting lines stay past the call.", "", SAID),
    "a comment of Python": ("", "# set aside in the cache, so that nothing is read between two calls\n", SAID),
    "what blocks of a call share": ("// The blocks of a launch share the weight through L2.", "", RETAINED),
    "another call, and no cache": ("// The next call may bring another shape.", "", RETAINED),
    "denormals": ("// L2 keeps it; flush to zero is on.", "", RETAINED),
}  # fmt: skip


@pytest.mark.parametrize("how", WORDS)
def test_a_file_may_say_what_its_window_is_for(tmp_path: Path, how: str) -> None:
    in_cpp, in_python, found = WORDS[how]
    built = BUILT.replace("static void set(", f"{in_cpp}\nstatic void set(", 1)
    work = model(f"l2.reset()\nl2.keep(self.weight)\n{WORK}return y\n")
    report = lint(tmp_path, HEAD + built + in_python + KERNEL + work)
    assert sorted((finding.rule, len(finding.shapes)) for finding in report.findings) == found
    (tmp_path / "ended").mkdir()
    report = lint(
        tmp_path / "ended", HEAD + built + in_python + KERNEL + work.replace("return y", "l2.reset()\n        return y")
    )
    assert not report.findings


LAUNCH = """
__global__ void touch(const uint8_t* weight, const uint8_t* x, float* out) {
  if (weight[0] == x[0]) out[0] = 1;
}
void keep(torch::Tensor t, torch::Tensor x, torch::Tensor out) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeAccessPolicyWindow;
  auto& window = attribute.val.accessPolicyWindow;
  window.base_ptr = t.data_ptr();
  window.num_bytes = t.numel();
  window.hitRatio = 1.0f;
  window.hitProp = cudaAccessPropertyPersisting;
  window.missProp = cudaAccessPropertyStreaming;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, touch, (const uint8_t*)t.data_ptr(), (const uint8_t*)x.data_ptr(), out.data_ptr<float>());
}
"""


ATTRIBUTES = {  # how the attribute of a launch lies among others
    "one": ("cudaLaunchAttribute attribute{};", "attribute.", "&attribute"),
    "in an array of one": ("cudaLaunchAttribute all[1];", "all[0].", "all"),
    "the second of two": (
        "cudaLaunchAttribute all[2]; all[0].id = cudaLaunchAttributePriority; all[0].val.priority = 1;",
        "all[1].", "all",
    ),
    "in std::array": ("std::array<cudaLaunchAttribute, 2> all{};", "all[0].", "all.data()"),
    "in a vector": ("std::vector<cudaLaunchAttribute> all(1);", "all[0].", "all.data()"),
}  # fmt: skip


@pytest.mark.parametrize("how", ATTRIBUTES)
def test_the_window_of_a_launch_covers_what_it_begins_with_alone(tmp_path: Path, how: str) -> None:
    """What else the launch is given is not kept."""
    names = "(torch::Tensor t)", "(torch::Tensor t, torch::Tensor x, torch::Tensor out)"
    made, field, address = ATTRIBUTES[how]
    launch = LAUNCH.replace("cudaLaunchAttribute attribute{};", made).replace("&attribute", address)
    launch = launch.replace("attribute.", field) if how != "one" else launch
    built = BUILT.replace("void keep(torch::Tensor t) { set(t, cudaAccessPropertyPersisting); }", launch.strip())
    built = built.replace('"void keep' + names[0], '"void keep' + names[1])
    work = f"{WORK}l2.keep(self.weight, x, torch.empty(1, device=x.device))\nreturn y\n"
    report = lint(tmp_path, HEAD + built + KERNEL + model(work))
    assert sorted((finding.rule, len(finding.shapes)) for finding in report.findings) == RETAINED
    said = sorted(finding.message.partition(":")[0] for finding in report.findings)
    assert said == [
        "the L2 cache is asked to keep weight beyond the call (window; reads in one call",
        "window on weight",
    ]


CTYPES = """
import ctypes, struct
runtime = ctypes.CDLL("libcudart.so.12")
KEEP, STREAMING, END = 2, 1, 0
class Policy(ctypes.Structure):
    _fields_ = [("where", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("share", ctypes.c_float),
                ("inside", ctypes.c_int), ("outside", ctypes.c_int)]
class Attribute(ctypes.Union):
    _fields_ = [("room", ctypes.c_char * 64), ("priority", ctypes.c_int), ("policy", Policy)]
def told(value, which=1):
    stream = torch.cuda.current_stream().cuda_stream
    return runtime.cudaStreamSetAttribute(ctypes.c_void_p(stream), ctypes.c_int(which), ctypes.byref(value))
"""
BINDINGS = """
from cuda.bindings import runtime
KEEP = runtime.cudaAccessProperty.cudaAccessPropertyPersisting
STREAMING = runtime.cudaAccessProperty.cudaAccessPropertyStreaming
END = runtime.cudaAccessProperty.cudaAccessPropertyNormal
def told(value):
    which = runtime.cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow
    error, = runtime.cudaStreamSetAttribute(torch.cuda.current_stream().cuda_stream, which, value)
    assert error == runtime.cudaError_t.cudaSuccess
"""
PYTHON = {
    "a struct by places": (
        CTYPES,
        "def keep(t, how, count):\n    told(Policy(t.data_ptr(), count, 1.0, how, STREAMING))\n",
    ),
    "a struct by names": (
        CTYPES,
        "def keep(t, how, count):\n    told(Policy(inside=how, bytes=count, where=t.data_ptr()))\n",
    ),
    "a struct in a union": (
        CTYPES,
        "def keep(t, how, count):\n    held = Attribute()\n    policy = held.policy\n    policy.where = t.data_ptr()\n"
        "    policy.bytes, policy.share, policy.inside = count, 0.5, how\n    told(held)\n",
    ),
    "a struct made bigger": (
        CTYPES + "class Padded(Policy):\n"
        '    _fields_ = [("rest", ctypes.c_byte * (ctypes.sizeof(Attribute) - ctypes.sizeof(Policy)))]\n',
        "def keep(t, how, count):\n    held = Padded(t.data_ptr(), count)\n    held.inside = how\n    told(held)\n",
    ),
    "bytes": (
        CTYPES,
        "def keep(t, how, count):\n"
        '    told(ctypes.create_string_buffer(struct.pack("QQfii36x", t.data_ptr(), count, 1.0, how, 1)))\n',
    ),
    "fields of the bindings": (
        BINDINGS,
        "def keep(t, how, count):\n    held = runtime.cudaStreamAttrValue()\n"
        "    held.accessPolicyWindow.base_ptr = t.data_ptr()\n    held.accessPolicyWindow.num_bytes = count\n"
        "    held.accessPolicyWindow.hitProp = how\n    told(held)\n",
    ),
    "a window of the bindings": (
        BINDINGS,
        "def keep(t, how, count):\n    held, window = runtime.cudaStreamAttrValue(), runtime.cudaAccessPolicyWindow()\n"
        "    window.base_ptr, window.num_bytes, window.hitRatio = t.data_ptr(), count, 1.0\n"
        "    window.hitProp = how\n    held.accessPolicyWindow = window\n    told(held)\n",
    ),
}  # fmt: skip
USES = {
    "keep(self.weight, KEEP, self.weight.numel())\n": RETAINED,
    "keep(self.weight, STREAMING, self.weight.numel())\n": [],
    "keep(self.weight, END, self.weight.numel())\n": [],
}


@pytest.mark.parametrize("way", PYTHON)
@pytest.mark.parametrize("use", USES)
def test_python_may_set_a_window_itself(tmp_path: Path, way: str, use: str) -> None:
    report = lint(tmp_path, HEAD + "".join(PYTHON[way]) + KERNEL + model(f"{use}{WORK}return y\n"))
    assert sorted((finding.rule, len(finding.shapes)) for finding in report.findings) == USES[use]
    assert set(states(report).values()) == {"kept"}


@pytest.mark.parametrize("way", PYTHON)
def test_a_window_of_no_bytes_ends_the_one_before(tmp_path: Path, way: str) -> None:
    work = f"keep(self.weight, KEEP, self.weight.numel())\n{WORK}keep(self.weight, KEEP, 0)\nreturn y\n"
    report = lint(tmp_path, HEAD + "".join(PYTHON[way]) + KERNEL + model(work))
    assert [finding.rule for finding in report.findings] == []


ENDED = {  # what a file says of a window that it ends, and whether it is for the next call
    "# Lines that are resident stay, so the next call finds the weight in L2.\n": True,
    "# Lines stay in the cache: a later launch still finds them warm.\n": True,
    "# The window ends here, so that the next launch gets the whole L2.\n": False,
    "# It ends: the next call finds room in L2.\n": False,
    "# The next call reads its own pages; L2 is shared.\n": False,
    "# The window ends here, so that nothing of it persists into the next call.\n": False,
    "# The next call starts with a cold cache.\n": False,
    "# The next call finds nothing of this in L2.\n": False,
    "# The next call begins anew.\n": False,
}


@pytest.mark.parametrize("words", ENDED)
def test_what_an_ended_window_left_may_be_said_to_be_for_the_next_call(tmp_path: Path, words: str) -> None:
    work = f"keep(self.weight, KEEP, self.weight.numel())\n{WORK}keep(self.weight, KEEP, 0)\nreturn y\n"
    report = lint(tmp_path, HEAD + "".join(PYTHON["bytes"]) + words + KERNEL + model(work))
    assert {finding.rule for finding in report.findings} == ({"KBH230"} if ENDED[words] else set())
    in_cpp = model(f"l2.keep(self.weight)\n{WORK}l2.close()\nreturn y\n")
    report = lint(tmp_path, HEAD + BUILT + words + KERNEL + in_cpp)
    assert {finding.rule for finding in report.findings} == ({"KBH230"} if ENDED[words] else set())


@pytest.mark.parametrize(("call", "found"), [
    ("told(Attribute(priority=2), 8)", []),
    ("runtime.cudaDeviceSetLimit(ctypes.c_int(5), ctypes.c_size_t(64))", []),  # what is fetched at a time
    ("runtime.cudaDeviceSetLimit(ctypes.c_int(6), ctypes.c_size_t(1 << 24))", [("KBH231", 4)]),
])  # fmt: skip
def test_numbers_say_what_is_set(tmp_path: Path, call: str, found: list[tuple[str, int]]) -> None:
    report = lint(tmp_path, HEAD + CTYPES + KERNEL + model(f"{call}\n{WORK}return y\n"))
    assert [(finding.rule, len(finding.shapes)) for finding in report.findings] == found


def test_cpp_may_name_an_access_by_its_number(tmp_path: Path) -> None:
    numbers = BUILT.replace("= hit;", "= (cudaAccessProperty)2;")
    report = lint(tmp_path, HEAD + numbers + KERNEL + model(f"l2.keep(self.weight)\n{WORK}return y\n"))
    assert sorted((finding.rule, len(finding.shapes)) for finding in report.findings) == RETAINED


class Inner(ctypes.Structure):
    _fields_ = [("a", ctypes.c_char), ("b", ctypes.c_double)]


class Packed(ctypes.Structure):
    _pack_ = 2
    _fields_ = [("a", ctypes.c_char), ("b", ctypes.c_int), ("c", Inner), ("d", ctypes.c_char)]


class Outer(Inner):
    _fields_ = [("c", Packed * 3), ("d", ctypes.c_short), ("e", ctypes.POINTER(ctypes.c_char))]


def test_structs_take_the_bytes_that_they_take_in_c(tmp_path: Path) -> None:
    own = "import ctypes\n\n\n" + "\n\n".join(inspect.getsource(one) for one in (Inner, Packed, Outer))
    sizes = {f"ctypes.sizeof({one.__name__})": ctypes.sizeof(one) for one in (Inner, Packed, Outer)}
    sizes["ctypes.sizeof(Outer())"] = ctypes.sizeof(Outer())
    sizes["ctypes.sizeof(ctypes.c_int * 3)"] = ctypes.sizeof(ctypes.c_int * 3)
    sizes["ctypes.alignment(Outer)"] = ctypes.alignment(Outer)
    sizes["ctypes.alignment(Packed)"] = ctypes.alignment(Packed)
    check_what_holds(tmp_path, own, "", " and ".join(f"{asked} == {size}" for asked, size in sizes.items()))
