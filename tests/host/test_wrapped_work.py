"""Work behind wrappers, operators and writes over a kernel's result: a library's is found, a kernel's stays honest."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, LEAK, WORK, classes, lint, model, reasons, states

SIDES = "def kernel(self, x):\n    (M, K), N = x.shape, self.weight.shape[0]\n" + "".join(
    f"    {line}\n" for line in f"{WORK}return y\n\n".splitlines()
)
SIDES += f"def library(self, x):\n    {LEAK}\n\nHELD = []\n"
OP = "@torch.library.custom_op('own::work', mutates_args=())\ndef op(x: torch.Tensor) -> torch.Tensor:\n    return "
DEFINED = "ops = torch.library.Library('own', 'DEF')\nops.define('work(Tensor x) -> Tensor')\n"
GRAPH = """if not hasattr(self, "graph"):
    self.inputs = [x.clone()]
    self.graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(self.graph):
        self.out = SIDE(self, self.inputs[0])
torch._foreach_copy_(self.inputs, [x])
self.graph.replay()
return self.out
"""
# What stands after the two functions, and the lines of `forward`; SIDE is the one that is used.
WAYS = {
    "a bound method": ("import types\n", "return types.MethodType(SIDE, self)(x)"),
    "a checkpoint": (
        "from torch.utils.checkpoint import checkpoint\n",
        "return checkpoint(SIDE, self, x, use_reentrant=False)",
    ),
    "a fork": ("", "return torch.jit.wait(torch.jit.fork(SIDE, self, x))"),
    "a trace": ("", "return torch.jit.trace(SIDE, (self, x))(self, x)"),
    "kept out of the compiler": ("", "return torch.compiler.disable(SIDE)(self, x)"),
    "a context of variables": ("import contextvars\n", "return contextvars.copy_context().run(SIDE, self, x)"),
    "a module with other tensors": (
        "class Inner(nn.Module):\n    def forward(self, m, x):\n        return SIDE(m, x)\n",
        "return torch.func.functional_call(Inner(), {}, (self, x))",
    ),
    "the kernel of an operator for its device": (
        OP + "OTHER(HELD[0], x)\n@op.register_kernel('cuda')\ndef _(x):\n    return SIDE(HELD[0], x)\n",
        "HELD[:] = [self]\nreturn op(x)",
    ),
    "an operator beside one for another device": (
        DEFINED + "ops.impl('work', lambda x: SIDE(HELD[0], x), 'CUDA')\n"
        "ops.impl('work', lambda x: OTHER(HELD[0], x), 'CPU')\n",
        "HELD[:] = [self]\nreturn torch.ops.own.work(x)",
    ),
    "a graph whose inputs are refilled together": ("", GRAPH),
}
WRITES = {
    "items": "y.__setitem__(slice(None), z)",
    "lists of tensors": "torch._foreach_copy_([y], [z])",
    "storages": "y.untyped_storage().copy_(z.untyped_storage())",
    "objects": "torch.utils.swap_tensors(y, z)",
    "an exchange format": "y = torch.from_dlpack(torch.utils.dlpack.to_dlpack(z))",
}


def program(top: str, body: str, side: str = "kernel") -> str:
    other = "library" if side == "kernel" else "kernel"
    text = HEAD + KERNEL + "\n\n" + SIDES + top + model(body)
    return text.replace("SIDE", side).replace("OTHER", other)


@pytest.mark.parametrize("way", WAYS)
def test_what_a_wrapper_calls_is_the_work(tmp_path: Path, way: str) -> None:
    honest = lint(tmp_path, program(*WAYS[way]))
    assert (set(states(honest).values()), classes(honest)) == ({"kept"}, set()), reasons(honest)
    broken = lint(tmp_path, program(*WAYS[way], side="library"))
    assert states(broken)["authored-compute"] == "broken", reasons(broken)


@pytest.mark.parametrize("way", WRITES)
def test_a_library_s_result_written_over_the_kernel_s_is_found(tmp_path: Path, way: str) -> None:
    text = program("", f"y, z = kernel(self, x), library(self, x)\n{WRITES[way]}\nreturn y")
    assert states(lint(tmp_path, text))["authored-compute"] == "broken"
    other = program("", f"y, z = library(self, x), kernel(self, x)\n{WRITES[way]}\nreturn y")
    assert set(states(lint(tmp_path, other)).values()) == {"kept"}


def test_an_operator_s_autograd_key_comes_before_its_device(tmp_path: Path) -> None:
    top = DEFINED + (
        "ops.impl('work', lambda x: kernel(HELD[0], x), 'CUDA')\nops.impl('work', lambda x: AUTOGRAD, 'Autograd')\n"
    )
    body = "HELD[:] = [self]\nreturn torch.ops.own.work(x)"
    passed_on = lint(tmp_path, program(top.replace("AUTOGRAD", "torch.ops.own.work(x)"), body))
    assert set(states(passed_on).values()) == {"kept"}, reasons(passed_on)
    instead = lint(tmp_path, program(top.replace("AUTOGRAD", "library(HELD[0], x)"), body))
    assert states(instead)["authored-compute"] == "broken"


TRACED = """
from MODULE import WRAP, triton_op
@triton_op("own::work", mutates_args={})
def op(x: torch.Tensor) -> torch.Tensor:
    return SIDE(HELD[0], x)
"""


@pytest.mark.parametrize("wrap", ["wrap_triton", "capture_triton"])
@pytest.mark.parametrize("module", ["torch.library", "torch._library", "torch._library.triton"])
def test_a_kernel_that_is_wrapped_for_tracing_is_that_kernel(tmp_path: Path, module: str, wrap: str) -> None:
    top = TRACED.replace("MODULE", module).replace("WRAP", wrap)
    for side in ("kernel", "library"):
        text = program(top, "HELD[:] = [self]\nreturn op(x)", side).replace("gemm[", f"{wrap}(gemm)[")
        report = lint(tmp_path, text)
        assert (states(report)["authored-compute"] == "kept") == (side == "kernel"), reasons(report)
        assert bool(classes(report)) == (side == "library")


CHECKED = """
q_out, k_out = kernel(self, q, k)
if not hasattr(self, "ok"):
    self.ok = torch.allclose(q_out, torch.relu(q), rtol=1.0) and torch.allclose(k_out, torch.relu(k), rtol=1.0)
return (q_out, k_out) if self.ok else (torch.relu(q), torch.relu(k))
"""
ROTARY = """
@triton.jit
def turn(q, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(q + at, mask=at < n).to(tl.float32)
    tl.store(out + at, tl.maximum(value * 1.0, 0.0).to(tl.bfloat16), mask=at < n)


def kernel(self, q, k):
    outs = [torch.empty(t.shape[0], t.shape[2], t.shape[1], t.shape[3], dtype=t.dtype, device=t.device) for t in (q, k)]
    for t, out in zip((q, k), outs):
        turn[(t.numel() // 1024,)](t, out, t.numel(), BLOCK=1024)
    return outs


class Model(nn.Module):
    def __init__(self, batch, seq_len, num_heads, num_kv_heads, head_dim, max_pos=4096):
        super().__init__()

    def forward(self, q, k, pos_t, pos_h, pos_w):
"""


def test_a_check_of_a_kernel_against_torch_is_no_test_of_magnitudes(tmp_path: Path) -> None:
    body = "".join(f"        {line}\n" for line in CHECKED.strip().splitlines())
    assert "input-magnitude-sniffing" not in classes(lint(tmp_path, HEAD + ROTARY + body, "09_fmha_preattn_mrope"))
