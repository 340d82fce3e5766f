"""What each problem asks for, in plain torch, and how far a model of ours is from it.

Run as `python idiom_reference.py NAME...`, it interprets each idiom's Triton kernels on the CPU and prints the worst
errors as JSON.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

HERE = Path(__file__).parent
SMALL: dict[str, list[tuple[int, ...]]] = {
    "fp8": [(96, 256, 240), (40, 128, 203), (33, 256, 512)],
    "int4": [(1, 256, 512), (20, 256, 512)],
    "kahan": [(3, 5000), (2, 4096), (1, 40000)],
}


def load_module(path: Path) -> ModuleType:
    """The file as a module."""
    spec = importlib.util.spec_from_file_location(f"idiom_{path.parent.name}_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def error(group: str, module: ModuleType, sizes: tuple[int, ...], device: str) -> float:
    """The largest error of the module's model at these sizes, as a share of the largest (kahan: of each) value."""
    import torch

    torch.manual_seed(0)
    if group == "kahan":
        x = torch.randn(*sizes, device=device) * 4
        want = torch.softmax(x.double(), dim=-1)
        return float(((module.Model(*sizes)(x) - want).abs() / want).max())
    rows, cols, depth = sizes
    model = module.Model(rows, cols, depth).to(device)
    if group == "fp8":
        x = (torch.rand(rows, depth, device=device) * 8 - 4).to(torch.float8_e4m3fn)
        want = (x.double() @ model.weight.double().T) * model.weight_scale
    else:
        x = torch.randn(rows, depth, device=device, dtype=torch.bfloat16)
        model.zeros.copy_(torch.randint(0, 16, model.zeros.shape))
        model.scales.copy_(torch.rand(model.scales.shape) * 0.01 + 0.001)
        q = torch.stack((model.w_q & 15, model.w_q >> 4), 1).reshape(depth, cols).double()
        zeros, scales = (t.double().repeat_interleave(128, 0) for t in (model.zeros, model.scales))
        want = x.double() @ ((q - zeros) * scales)
    return float((_call(module, model, x).double() - want).abs().max() / want.abs().max())


def _call(module: ModuleType, model: Any, x: Any) -> Any:
    """The model's result; on the CPU, paths that need a device are entered below the device check."""
    if x.is_cuda:
        return model(x)
    if hasattr(module, "_launch"):
        return module._launch(x, model.weight, model.weight_scale)
    if hasattr(model, "_captured"):
        y = x.new_empty((x.shape[0], model.N), dtype=model.scales.dtype if hasattr(model, "scales") else None)
        model._run(x, y)
        return y
    return model(x)


def interpret(name: str) -> float:
    """The worst error of one Triton idiom over the small sizes, through the grader's interpreter."""
    from grader.candidate.interpreter import install

    install()
    import torch

    def device_of(_: Any) -> SimpleNamespace:
        return SimpleNamespace(multi_processor_count=3)

    torch.cuda.get_device_properties = device_of
    group, module = name.split("/")[0], load_module(HERE / f"{name}.py")
    return max(error(group, module, sizes, "cpu") for sizes in SMALL[group])


if __name__ == "__main__":
    print(json.dumps({name: interpret(name) for name in sys.argv[1:]}))
