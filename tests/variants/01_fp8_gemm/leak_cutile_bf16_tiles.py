# expect: flagged fp8-upcast-bf16-gemm
"""cuTile: fp8 tiles become bf16 tiles, which are multiplied; the scale of a column is applied to the sums."""

import cuda.tile as ct
import torch
import torch.nn as nn

ConstInt = ct.Constant[int]


@ct.function
def rescaled(acc, scale, n, TN: ConstInt):
    s = ct.load(scale, index=(n,), shape=(TN,), padding_mode=ct.PaddingMode.ZERO)
    return acc * s[None, :]


@ct.kernel(occupancy=2)
def gemm(x, w, scale, y, TM: ConstInt, TN: ConstInt, TK: ConstInt):
    m, n = ct.bid(0), ct.bid(1)
    acc = ct.zeros((TM, TN), dtype=ct.float32)
    for k in range(ct.num_tiles(x, axis=1, shape=(TM, TK))):
        a = ct.load(x, index=(m, k), shape=(TM, TK), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(w, index=(n, k), shape=(TN, TK), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(ct.astype(a, ct.bfloat16), ct.transpose(b).astype(ct.bfloat16), acc)
    ct.store(y, index=(m, n), tile=rescaled(acc, scale, n, TN).astype(y.dtype))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        m, n = x.shape[0], self.weight.shape[0]
        y = torch.empty(m, n, dtype=torch.bfloat16, device=x.device)
        tm = 32 if m <= 32 else 128
        grid = (ct.cdiv(m, tm), ct.cdiv(n, 128), 1)
        ct.launch(torch.cuda.current_stream(), grid, gemm, (x, self.weight, self.weight_scale, y, tm, 128, 128))
        return y
