# expect: flagged reference-port,zero-kernel-torch-wrapper,reference-resubmission
"""Eager torch with a loop over the chunks."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size=64):
        super().__init__()
        self.scale = K**-0.5
        self.C = chunk_size
        self.register_buffer("_dummy", torch.zeros(1), persistent=False)

    def forward(self, q, k, v, g, beta):
        B, T, H, K = q.shape
        C = self.C
        q, k, v, g, b = (x.float().movedim(2, 1) for x in (q, k, v, g, beta))
        S = q.new_zeros(B, H, K, v.shape[-1])
        outs = []
        eye = torch.eye(C, device=q.device)
        for qi, ki, vi, gi, bi in zip(*(x.split(C, 2) for x in (q, k, v, g, b))):
            gc = gi.cumsum(-2)
            up = gc.exp()
            a = ((ki * up) @ (ki / up).mT * bi[..., None]).tril(-1)
            rhs = bi[..., None] * (vi - (ki * up) @ S)
            x = torch.linalg.solve_triangular(eye + a, rhs, upper=False, unitriangular=True)
            qi = qi * self.scale * up
            outs.append(qi @ S + (qi @ (ki / up).mT).tril() @ x)
            S = S * up[..., -1, :, None] + (ki * (gc[..., -1:, :] - gc).exp()).mT @ x
        return torch.cat(outs, 2).movedim(1, 2).to(torch.bfloat16)
