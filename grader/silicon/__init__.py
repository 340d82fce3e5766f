"""What the silicon did: which kernels ran, what their machine code holds, and what the hardware counted.

`grader.silicon.gather.gather` collects it on a GPU. What is here is its record, which is read without torch.
"""

from grader.silicon.record import CodeRow, KernelRow, ShapeEvidence, Silicon, silicon_from_json, silicon_to_json

__all__ = ["CodeRow", "KernelRow", "ShapeEvidence", "Silicon", "silicon_from_json", "silicon_to_json"]
