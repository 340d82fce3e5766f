"""Runs rewritten Triton programs in the CPU interpreter, in a process of its own.

Reads a JSON object of file names by rewrite from standard input and prints the greatest difference of each from the
program named `original`, or the error it ended with.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

from grader.candidate.interpreter import install

install()

import torch  # noqa: E402


def result(path: Path, name: str) -> torch.Tensor:
    sys.path.insert(0, str(path.parent))
    try:
        spec = importlib.util.spec_from_file_location(name.replace("-", "_"), path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    x = torch.arange(3 * 24, dtype=torch.float32).reshape(3, 24) / 128
    with torch.no_grad():
        return module.Model(18, 24)(x)


def main() -> None:
    paths = {name: Path(path) for name, path in json.load(sys.stdin).items()}
    wanted = result(paths["original"], "original")
    found: dict[str, str] = {}
    for name, path in paths.items():
        try:
            got = result(path, name)
            found[name] = "same" if torch.equal(got, wanted) else f"differs by {float((got - wanted).abs().max())}"
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error)[:300]}"
    print(json.dumps(found))


main()
