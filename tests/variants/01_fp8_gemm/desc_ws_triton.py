# expect: kept
"""Warp-specialised persistent Triton kernel over tensor descriptors, with an LRU of padded activations by storage layout."""
import torch
import torch.nn as nn
import triton
import triton.language as tl

try:
    from triton.tools.tensor_descriptor import TensorDescriptor
    HAVE_DESC = True
except ImportError:
    TensorDescriptor = None
    HAVE_DESC = False


def _alloc(size, alignment, stream):
    return torch.empty(size, device="cuda", dtype=torch.int8)


if hasattr(triton, "set_allocator"):
    triton.set_allocator(_alloc)


def _configs():
    out = []
    for bm in (64, 128):
        for bn in (128, 256):
            for st in (3, 4):
                out.append(triton.Config({"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": 128, "GROUP": 8}, num_stages=st,
                                         num_warps=8 if bm * bn > 128 * 128 else 4, pre_hook=_set_blocks))
    return out


def _set_blocks(nargs):
    nargs["xd"].block_shape = [nargs["BLOCK_M"], nargs["BLOCK_K"]]
    nargs["wd"].block_shape = [nargs["BLOCK_N"], nargs["BLOCK_K"]]
    nargs["yd"].block_shape = [nargs["BLOCK_M"], nargs["BLOCK_N"]]


@triton.autotune(configs=_configs(), key=["M", "N", "K"])
@triton.jit
def persistent(xd, wd, yd, sc, M, N, K, NUM_SMS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
               BLOCK_K: tl.constexpr, GROUP: tl.constexpr):
    nm = tl.cdiv(M, BLOCK_M)
    nn_ = tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), nm * nn_, NUM_SMS, flatten=True, warp_specialize=True):
        g = tile // (GROUP * nn_)
        sz = min(nm - g * GROUP, GROUP)
        pm = g * GROUP + (tile % sz)
        pn = (tile % (GROUP * nn_)) // sz
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for ki in range(tl.cdiv(K, BLOCK_K)):
            a = xd.load([pm * BLOCK_M, ki * BLOCK_K])
            b = wd.load([pn * BLOCK_N, ki * BLOCK_K])
            acc = tl.dot(a, b.T, acc)
        cols = pn * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = acc * tl.load(sc + cols, mask=cols < N, other=0.0)[None, :]
        yd.store([pm * BLOCK_M, pn * BLOCK_N], acc.to(tl.bfloat16))


class Fp8Linear(nn.Module):
    ALIGN = 16

    def __init__(self, n, k):
        super().__init__()
        self.n, self.k = n, k
        self.register_buffer("weight", torch.zeros(n, k, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(n))
        self._padded = (None, None)

    def _grow(self, t):
        extra = -t.shape[-1] % self.ALIGN
        return torch.nn.functional.pad(t.view(torch.uint8), (0, extra)).view(t.dtype) if extra else t

    def _weight(self):
        stamp = (self.weight.data_ptr(), self.weight._version)
        if self._padded[0] != stamp:
            self._padded = (stamp, self._grow(self.weight))
        return self._padded[1]

    def forward(self, x):
        w = self._weight()
        x = self._grow(x)
        y = torch.empty((x.shape[0], self.n), device=x.device, dtype=torch.bfloat16)
        dummy = [1, 1]
        xd = TensorDescriptor(x, list(x.shape), list(x.stride()), dummy)
        wd = TensorDescriptor.from_tensor(w, dummy)
        yd = TensorDescriptor.from_tensor(y, dummy)
        sms = torch.cuda.get_device_properties(x.device).multi_processor_count
        persistent[lambda meta: (min(sms, triton.cdiv(x.shape[0], meta["BLOCK_M"]) * triton.cdiv(self.n, meta["BLOCK_N"])),)](
            xd, wd, yd, self.weight_scale, x.shape[0], self.n, x.shape[1], NUM_SMS=sms)
        return y


class Model(Fp8Linear):
    def __init__(self, M: int, N: int, K: int):
        super().__init__(N, K)
