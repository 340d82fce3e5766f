"""How a benchmark runs the answers to problem files: what the file itself does not say.

The facts are those of the benchmarks' own evaluators. KernelBench (`src/kernelbench/eval.py`): reference and answer are
made one after the other under one seed and are never put into evaluation mode; inputs and weights are converted to the
precision of the run; the answer's text is executed by itself. KernelBench-v3 (`src/eval/benchmark.py`): both are put
into evaluation mode, the answer's state is then loaded from the reference's by name, not strictly; types are those of
`get_inputs`; the reference lies beside the answer as `reference.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from kbh_lint.base.records import dataclass

# The narrowest type that operands of products may have, by the type of the reference's. Products of fp32 may run on
# tf32, as those of `tl.dot` do without being told; a YAML beside the problem (`narrowest: {operands: f32}`) forbids it.
# Types of 16 bits stand for one another.
OPERANDS: Mapping[str, str] = {"f64": "f64", "f32": "tf32", "f16": "bf16", "bf16": "bf16"}
PRECISIONS: Mapping[str, str] = {"fp32": "f32", "fp16": "f16", "bf16": "bf16"}


@dataclass(frozen=True, slots=True)
class Profile:
    """How a benchmark runs an answer.

    `training`: models are left in training mode. `weights`: `drawn` when the answer's constructor draws its own, under
    the reference's seed; `loaded` when they are copied from the reference's by name. `entry` are the classes that an
    answer may be, the first that is there. `reference` is the module by which an answer finds the problem file.
    `converts`: inputs and weights are converted to the precision of the run.
    """

    id: str
    text: str
    training: bool
    weights: Literal["drawn", "loaded"]
    entry: tuple[str, ...]
    reference: str = ""
    converts: bool = False
    operands: Mapping[str, str] = field(default_factory=lambda: OPERANDS)


KERNELBENCH = Profile(
    "kernelbench",
    "KernelBench: ModelNew, in training mode, weights drawn under the reference's seed",
    training=True, weights="drawn", entry=("ModelNew", "Model"), converts=True,
)  # fmt: skip
V3 = Profile(
    "v3",
    "KernelBench-v3: Model, in evaluation mode, weights loaded from those of reference.py",
    training=False, weights="loaded", entry=("Model", "ModelNew"), reference="reference",
)  # fmt: skip
PROFILES: Mapping[str, Profile] = {profile.id: profile for profile in (KERNELBENCH, V3)}
