"""Plants links to files outside in its scratch and caches, for a grader that copies or deletes what they point at."""

import json
import os
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


FACTS = json.loads(Path(__file__).with_name("facts.json").read_text())
CANARY = FACTS["canary"]


AIMS = (CANARY, f"{CANARY}/secret.txt", "/", "/etc/passwd")
for name in (
    "TMPDIR",
    "HOME",
    "TRITON_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "CUDA_CACHE_PATH",
):
    folder = Path(os.environ.get(name, "/nowhere"))
    for i, aim in enumerate(AIMS):
        try:
            os.symlink(aim, folder / f"link{i}")
        except OSError as error:
            print(f"TRIED to link: {error.strerror}", flush=True)
    try:
        os.mkfifo(folder / "fifo")
        inner = folder / "inner"
        inner.mkdir()
        (inner / "deep").symlink_to(f"../../../../../../../../../../{CANARY}")
        inner.chmod(0)
        print("TRIED a locked folder", flush=True)
    except OSError as error:
        print(f"TRIED to link: {error.strerror}", flush=True)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
