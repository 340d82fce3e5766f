"""Whether the linter's model of torch agrees with torch on a folder of KernelBench problems: `torch_model.py DIR`.

Each file is read by the linter and *run* by torch on the meta device, where no memory is taken and nothing is
computed: shapes and element types of the results and of the weights must be the same. Only for problem files that
you trust. Prints one line a file that is not the same, and the figures; exit code 1 when one is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import types
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from kbh_lint import kernelbench
from kbh_lint.problems import TensorSpec

NAMES = {
    torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
}  # fmt: skip
OUTCOMES = ("right", "unknown", "wrong", "not run")
Known = tuple[str, tuple[int, ...]]


def flat(value: Any) -> Iterable[torch.Tensor]:
    """The tensors of a result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from flat(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from flat(each)


def told(tensor: torch.Tensor) -> Known:
    """Element type and shape, as the linter names them."""
    return NAMES.get(tensor.dtype, str(tensor.dtype)), tuple(tensor.shape)


def made(module: types.ModuleType, init: Any) -> torch.nn.Module:
    """The reference, from what `get_init_inputs` gives."""
    model: torch.nn.Module = module.Model(**init) if isinstance(init, dict) else module.Model(*init)
    return model


def by_torch(path: Path) -> tuple[list[Known], dict[str, Known]]:
    """What the reference returns and what weights it has, by running it on the meta device."""
    module = types.ModuleType(path.stem)
    with torch.device("meta"), torch.no_grad():
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)  # the docstring says so
        init = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
        try:
            model = made(module, init)
        except RuntimeError:  # a constructor that reads numbers of its tensors
            with torch.device("cpu"):
                model = made(module, init).to("meta")
        inputs = [value.to("meta") if isinstance(value, torch.Tensor) else value for value in module.get_inputs()]
        result = model(*inputs)
    return [told(t) for t in flat(result)], {name: told(t) for name, t in model.state_dict().items()}


def by_linter(path: Path) -> tuple[list[Known], dict[str, Known], str]:
    """The same as the linter reads it, and why it could not."""
    loaded = kernelbench.load(path)
    contract = next(iter(loaded.problem.contracts.values()), None)
    if contract is None or contract.made is None:
        return [], {}, loaded.hole

    def known(spec: TensorSpec) -> Known:
        return spec.dtype, tuple(spec.shape)

    outputs = [known(spec) for spec in contract.made.outputs]
    state = {name: known(spec) for name, spec in contract.made.state.items()}
    return outputs, state, "" if outputs else "the result is not known"


def compare(path: Path) -> tuple[str, str]:
    """What became of one file, and a sentence."""
    try:
        want, weights = by_torch(path)
    except Exception as error:  # whatever a problem file raises
        return "not run", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    got, state, hole = by_linter(path)
    if not got:
        return "unknown", hole
    if got != want:
        return "wrong", f"the linter says {got}, torch {want}"
    if state != weights:
        names = sorted({n for n in {*state, *weights} if state.get(n) != weights.get(n)})
        said = ", ".join(f"{n}: {state.get(n)} for {weights.get(n)}" for n in names[:3])
        return "wrong", f"{len(names)} of {len(weights)} weights: {said}"
    return "right", ""


def main() -> int:
    """Compare all files; 1 when one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    counts: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.py")):
        with contextlib.redirect_stdout(sys.stderr):
            outcome, why = compare(path)
        counts[outcome] += 1
        if outcome != "right":
            print(f"{outcome:8} {path.relative_to(folder)}: {why}"[:300], flush=True)
    print(f"{sum(counts.values())} files: " + ", ".join(f"{counts[name]} {name}" for name in OUTCOMES))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
