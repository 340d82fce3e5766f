# expect: kept
"""Repack into int32 words in a load_state_dict post hook; magic-number dequant through inline PTX in Triton."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _unpack8(word):
    """int32 holding eight nibbles -> four packed bf16x2 words of 128+q."""
    return tl.inline_asm_elementwise(
        asm="""
        {
            .reg .b32 t;
            lop3.b32 $0, $4, 0x000f000f, 0x43004300, 0xea;
            shr.u32 t, $4, 4;
            lop3.b32 $1, t, 0x000f000f, 0x43004300, 0xea;
            shr.u32 t, $4, 8;
            lop3.b32 $2, t, 0x000f000f, 0x43004300, 0xea;
            shr.u32 t, $4, 12;
            lop3.b32 $3, t, 0x000f000f, 0x43004300, 0xea;
        }
        """,
        constraints="=r,=r,=r,=r,r",
        args=[word],
        dtype=(tl.int32, tl.int32, tl.int32, tl.int32),
        is_pure=True,
        pack=1,
    )


@triton.jit
def _halves(w):
    lo = (w & 0xFFFF).to(tl.int16).to(tl.bfloat16, bitcast=True)
    hi = ((w >> 16) & 0xFFFF).to(tl.int16).to(tl.bfloat16, bitcast=True)
    return lo, hi


@triton.jit
def w4_kernel(x_ptr, w_ptr, s_ptr, z_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rw = tl.arange(0, GROUP // 8)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for g in tl.range(0, K // GROUP, num_stages=3):
        word = tl.load(w_ptr + (g * (GROUP // 8) + rw)[:, None] * N + rn[None, :])
        a, b, c, d = _unpack8(word)
        scale = tl.load(s_ptr + g * N + rn)[None, :]
        shift = (128.0 + tl.load(z_ptr + g * N + rn).to(tl.float32)).to(tl.bfloat16)[None, :]
        xk = x_ptr + rm[:, None] * K + g * GROUP + rw[None, :] * 8
        ok = rm[:, None] < M
        for j in tl.static_range(4):
            pair = a if j == 0 else (b if j == 1 else (c if j == 2 else d))
            lo, hi = _halves(pair)
            acc = tl.dot(tl.load(xk + j, mask=ok, other=0.0), (lo - shift) * scale, acc)
            acc = tl.dot(tl.load(xk + j + 4, mask=ok, other=0.0), (hi - shift) * scale, acc)
    tl.store(y_ptr + rm[:, None] * N + rn[None, :], acc.to(y_ptr.dtype.element_ty), mask=ok)


def repack(w_q):
    k2, n = w_q.shape
    b = w_q.view(k2 // 4, 4, n).to(torch.int32)
    nib = torch.stack([b & 15, b >> 4], dim=2).reshape(k2 // 4, 8, n)
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    word = torch.zeros(k2 // 4, n, dtype=torch.int32, device=w_q.device)
    for slot, i in enumerate(order):
        word = word | (nib[:, i] << (4 * slot))
    return word


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int, group_size: int = 128):
        super().__init__()
        self.N, self.K, self.group = N, K, group_size
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("w_words", None, persistent=False)
        self._words_version = None
        self.register_load_state_dict_post_hook(lambda module, keys: module._refresh())

    def _refresh(self):
        self.w_words = repack(self.w_q)
        self._words_version = self.w_q._version

    def forward(self, x):
        if self.w_words is None or self._words_version != self.w_q._version or self.w_words.device != x.device:
            self._refresh()
        M = x.shape[0]
        y = torch.empty((M, self.N), dtype=x.dtype, device=x.device)
        BM = max(16, min(64, triton.next_power_of_2(M)))
        w4_kernel[(triton.cdiv(M, BM), triton.cdiv(self.N, 64))](x, self.w_words, self.scales, self.zeros, y, M, self.N,
                                                                 self.K, BM=BM, BN=64, GROUP=self.group, num_warps=4)
        return y
