"""What each problem asks for, in plain torch, and how far a model of ours is from it.

Run as `python idiom_reference.py NAME...`, it interprets each idiom's Triton kernels on the CPU and prints the worst
errors as JSON. The interpreter multiplies bf16 wrongly, so the int4 idioms are run with bf16 read as fp32 throughout.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
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


def error(group: str, module: ModuleType, sizes: tuple[int, ...], device: str, wide: bool = False) -> float:
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
        x = torch.randn(rows, depth, device=device, dtype=torch.float32 if wide else torch.bfloat16)
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
    """The worst error of one Triton idiom over the small sizes, through Triton's interpreter."""
    os.environ["TRITON_INTERPRET"] = "1"
    import torch

    def device_of(_: Any) -> SimpleNamespace:
        return SimpleNamespace(multi_processor_count=3)

    torch.cuda.get_device_properties = device_of
    group = name.split("/")[0]
    path = HERE / f"{name}.py"
    if group != "int4":
        return max(error(group, load_module(path), sizes, "cpu") for sizes in SMALL[group])
    with tempfile.TemporaryDirectory() as folder:
        wide = Path(folder) / path.name
        wide.write_text(path.read_text(encoding="utf-8").replace("bfloat16", "float32"), encoding="utf-8")
        return max(error(group, load_module(wide), sizes, "cpu", wide=True) for sizes in SMALL[group])


if __name__ == "__main__":
    print(json.dumps({name: interpret(name) for name in sys.argv[1:]}))
