"""CuPy's kernels of expressions, `ElementwiseKernel` and `ReductionKernel`, as the kernels that CuPy makes of them.

A text of CUDA C++ is put together of the expressions and the types of a call's arguments, and launched like any other:
what the submission wrote is what computes, and findings point at it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbh_lint.base import dtypes
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Value
from kbh_lint.host.effects import foreign
from kbh_lint.host.gpu.launch_settings import Settings
from kbh_lint.host.libs.launching import raw_kernels
from kbh_lint.host.torch import recording
from kbh_lint.host.torch.arrays import calls as arrays
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.modelled import Modelled, Site
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Tensor, broadcast, product
from kbh_lint.source.embedded import concat

_THREADS = 256
_NAME = "expression"


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter: `raw T x`. A type of one letter is that of what is given for it."""

    kind: str
    name: str
    raw: bool


def params(text: Value) -> list[Param] | None:
    """Returns the parameters in a text such as `T x, raw float32 y`; None where they are not known."""
    if not isinstance(text, str):
        return None
    found = []
    for part in text.split(","):
        words = part.split()
        raw = words[:1] == ["raw"]
        words = words[raw:]
        if len(words) == 2:
            found.append(Param(words[0], words[1], raw))
        elif words:
            return None
    return found


class Expression(Modelled):
    """A kernel of expressions. `texts` are those by the names of CuPy's parameters."""

    def __init__(self, path: str, inputs: Value, outputs: Value, texts: Mapping[str, Value], refused: str) -> None:
        super().__init__(path)
        self.inputs, self.outputs, self.texts, self.refused = params(inputs), params(outputs), texts, refused
        self.reduces = path.endswith("ReductionKernel")

    def called(self, site: Site) -> Value:
        """Launches the kernel with these arguments; returns the outputs, new ones where none are given."""
        known = self.inputs is not None and self.outputs is not None
        if not known or not all(isinstance(text, str) for text in self.texts.values()):
            given = tensor_arguments.tensors_in([*site.args, *site.kwargs.values()])
            return foreign.unread_call(site.run, site.path, given, site.loc)
        return _launched(site, self, self.inputs or [], self.outputs or [])


def _launched(site: Site, owner: Expression, inputs: list[Param], outputs: list[Param]) -> Value:
    run, args = site.run, list(site.args)
    given = dict(zip([p.name for p in (*inputs, *outputs)], args, strict=False))
    letters: dict[str, str] = {}
    for param in (*inputs, *outputs):
        value, named = given.get(param.name), arrays.dtype_of(param.kind)
        letters[param.kind] = named or (value.dtype if isinstance(value, Tensor) else letters.get(param.kind, "?"))
    whole = broadcast([t.shape for p in inputs if not p.raw and isinstance(t := given.get(p.name), Tensor)])
    shape = _reduced(whole, site.kwargs) if owner.reduces else whole
    for param in outputs:
        if not isinstance(given.get(param.name), Tensor):
            brought = site.kwargs.get("out")
            made = recording.make(run, shape, letters[param.kind], "empty")
            given[param.name] = brought if isinstance(brought, Tensor) else arrays.lent(made)
    types = {p.name: dtypes.cpp_name(letters[p.kind]) for p in (*inputs, *outputs)}
    size = site.kwargs.get("size")
    count = product(whole) if not isinstance(size, int) else size
    rows = product(shape) if owner.reduces else count
    length = count // rows if isinstance(count, int) and rows else 1
    text = (_reduction if owner.reduces else _elementwise)(owner, inputs, outputs, given, types)
    kernel = raw_kernels.kernel(run, text, _NAME, site.loc, owner.refused)
    values = [given.get(p.name) for p in (*inputs, *outputs)]
    grid = rows if owner.reduces else -(-rows // _THREADS) if isinstance(rows, int) else None
    if isinstance(kernel, LibObject) and "extension" in kernel.attrs:
        settings = Settings((grid, 1, 1), (_THREADS, 1, 1))
        raw_kernels.launched(run, kernel, [*values, rows, length], settings, site.loc)
    results = [given[p.name] for p in outputs]
    return results[0] if len(results) == 1 else tuple(results)


def _reduced(shape: Sequence[Value] | None, kwargs: Mapping[str, Value]) -> tuple[Value, ...] | None:
    """The shape that is left."""
    if shape is None:
        return None
    axis = kwargs.get("axis")
    axes = axis if isinstance(axis, (tuple, list)) else range(len(shape)) if axis is None else (axis,)
    gone = {at % len(shape) for at in axes if isinstance(at, int)} if shape else set()
    keep = kwargs.get("keepdims") is True
    return tuple(1 if i in gone else side for i, side in enumerate(shape) if keep or i not in gone)


def _signature(
    inputs: list[Param], outputs: list[Param], given: Mapping[str, Value], types: Mapping[str, str]
) -> list[str]:
    parts = []
    for param in (*inputs, *outputs):
        pointer = isinstance(given.get(param.name), Tensor)
        const = "const " if param in inputs and pointer else ""
        name = param.name if param.raw or not pointer else f"_{param.name}"
        parts.append(f"{const}{types[param.name]}{'*' if pointer else ''} {name}")
    return [", ".join([*parts, "long long _rows", "long long _length"])]


def _elements(inputs: list[Param], given: Mapping[str, Value], types: Mapping[str, str], place: str) -> list[str]:
    held = [p for p in inputs if not p.raw and isinstance(given.get(p.name), Tensor)]
    return [f"const {types[p.name]} {p.name} = _{p.name}[{place}];\n" for p in held]


def _head(owner: Expression, signature: list[str]) -> list[str]:
    preamble = owner.texts.get("preamble", "")
    return [_text(preamble), '\nextern "C" __global__ void ', _NAME, "(", *signature, ") {\n"]


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""


def _elementwise(
    owner: Expression, inputs: list[Param], outputs: list[Param], given: Mapping[str, Value], types: Mapping[str, str]
) -> str:
    loop = "for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < _rows; "
    results = [f"{types[p.name]}& {p.name} = _{p.name}[i];\n" for p in outputs if not p.raw]
    return concat([
        *_head(owner, _signature(inputs, outputs, given, types)), _text(owner.texts["loop_prep"]), ";\n", loop,
        "i += (long long)gridDim.x * blockDim.x) {\n", *_elements(inputs, given, types, "i"), *results,
        _text(owner.texts["operation"]), ";\n}\n", _text(owner.texts["after_loop"]), ";\n}\n",
    ])  # fmt: skip


def _reduction(
    owner: Expression, inputs: list[Param], outputs: list[Param], given: Mapping[str, Value], types: Mapping[str, str]
) -> str:
    out = outputs[0]
    kind = types[out.name]
    return concat([
        *_head(owner, _signature(inputs, outputs, given, types)), kind, " _total = ", _text(owner.texts["identity"]),
        ";\nfor (long long _j = 0; _j < _length; ++_j) {\nlong long i = blockIdx.x * _length + _j;\n",
        *_elements(inputs, given, types, "i"), kind, " a = _total, b = ", _text(owner.texts["map_expr"]),
        ";\n_total = ", _text(owner.texts["reduce_expr"]), ";\n}\n", kind, f"& {out.name} = _{out.name}[blockIdx.x];\n",
        kind, " a = _total;\n", _text(owner.texts["post_map_expr"]), ";\n}\n",
    ])  # fmt: skip
