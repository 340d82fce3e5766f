"""The CUDA driver through `cuda.bindings`: loaded when first needed, every result checked.

A function is looked up once, by `bound`, before a submission is imported: what a submission later puts in its place in
the module changes nothing. The first look-up must come before a folder of a submission is on the path: `cuda` is a
namespace package, so a file cuda.py anywhere on the path would be taken for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

__all__ = ["GpuError", "bound", "constant", "make", "ordinal"]


class GpuError(Exception):
    """The driver is missing or refused something; the text is one sentence."""


@cache
def _driver() -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise GpuError(
            f"a GPU target needs cuda-bindings (in a checkout of kbh: pip install '.[gpu]'); importing it says: {error}"
        ) from error


def bound(name: str) -> Callable[..., Any]:
    """The driver's function `name` as one that returns its values (one, or a tuple of several) or raises GpuError."""
    function, success = getattr(_driver(), name), _driver().CUresult.CUDA_SUCCESS

    def checked(*arguments: object) -> Any:
        try:
            result, *values = function(*arguments)
        except RuntimeError as error:  # the bindings without a driver beneath them
            raise GpuError(f"the CUDA driver cannot be used: {error}") from error
        if result != success:
            raise GpuError(f"the CUDA driver refused {name}: {getattr(result, 'name', result)}")
        return values[0] if len(values) == 1 else tuple(values)

    return checked


def constant(path: str) -> Any:
    """A value of the driver by name, such as `CUevent_flags.CU_EVENT_DEFAULT`."""
    value = _driver()
    for part in path.split("."):
        value = getattr(value, part)
    return value


def make(name: str) -> Any:
    """A new structure of the driver's type `name`, all zero."""
    return getattr(_driver(), name)()


def ordinal(device: str | torch.device) -> int:
    """A GPU's number in this process, with its context made current in this thread. Raises GpuError without one."""
    wanted = torch.device(device)
    if wanted.type != "cuda" or not torch.cuda.is_available():
        raise GpuError(f"{device} is no GPU that can be used here")
    number = torch.cuda.current_device() if wanted.index is None else wanted.index
    torch.cuda.synchronize(number)
    return number
