"""Looks for its own result in GPU memory that it did not write."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


DONE = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        y = product(x, self.w, used)
        if len(DONE) < 3 and not torch.cuda.is_current_stream_capturing():
            DONE.append(True)
            needle = y.view(-1)[:4].view(torch.int32).tolist()
            free = torch.empty(int(torch.cuda.mem_get_info()[0] * 0.3) // 4 * 4, dtype=torch.uint8, device=x.device)
            words = free.view(torch.int32)
            hits = words[:-3] == needle[0]
            for i in range(1, 4):
                hits &= words[i : words.numel() - 3 + i] == needle[i]
            if any(needle) and bool(hits.any()):
                print("BREACH a result lay in memory that was handed out", flush=True)
            print("TRIED to find a result", flush=True)
            del free, words, hits
            torch.cuda.empty_cache()
        return y
