"""The linter's model of torch held against torch: every operation and layer that it models, on small samples.

torch computes on the meta device, where that is possible: shape, element type and strides of each result, whether it
is a view of its input, and the layers' weights. What the linter does not say (None, "?") is never wrong, but every
operation must be known for some sample.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional
from torch_samples import Sample, Spec, layers, samples

from kbh_lint.base.dtypes import from_torch
from kbh_lint.frontends import python
from kbh_lint.host.libs import trace_nn
from kbh_lint.host.run import Run
from kbh_lint.host.torch import layers as modelled
from kbh_lint.host.torch import recording, shapes, tensor_views
from kbh_lint.host.values.frames import Frame, Raised
from kbh_lint.host.values.session import Session
from kbh_lint.host.values.tensors import Tensor, Unknown, row_major

HEAD = "import torch\nimport torch.nn.functional as F\n"


@dataclass(frozen=True)
class Seen:
    """A result: strides of dimensions that have some, and the position of the input that it is a view of."""

    shape: tuple[Any, ...] | None
    dtype: str
    strides: tuple[Any, ...] | None
    view_of: int | None


def flat(value: Any, kind: type) -> Iterator[Any]:
    """The tensors of a result, in order."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from flat(each, kind)


def tensor(spec: Spec, device: str) -> torch.Tensor:
    """A tensor of torch, of zeros or ones."""
    made = torch.ones(spec.shape, dtype=getattr(torch, spec.dtype), device=device)
    return eval(spec.how, {"t": made}) if spec.how else made  # expressions of ours


def by_torch(text: str, given: dict[str, Spec], device: str) -> list[Seen]:
    """What torch says of the results of an expression."""
    tensors = {name: tensor(spec, device) for name, spec in given.items()}
    places = {t.untyped_storage()._cdata: i for i, t in enumerate(tensors.values())}
    with torch.device(device), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = eval(text, {"torch": torch, "F": torch.nn.functional, **tensors})
    out = []
    for each in flat(result, torch.Tensor):
        dtype = from_torch(str(each.dtype).removeprefix("torch.")) or str(each.dtype)
        out.append(Seen(tuple(each.shape), dtype, each.stride(), places.get(each.untyped_storage()._cdata)))
    return out


class Linter:
    """The linter's interpreter with every expression as a function of its tensors."""

    def __init__(self, cases: Sequence[Sample], call: str = "") -> None:
        lines = [HEAD]
        for i, (text, given) in enumerate(cases):
            lines.append(f"def f{i}({', '.join(given)}):\n    return {text}{call}\n")
        self.run = Run(Session(python.lower("".join(lines), "samples.py"), {}, (9, 0)), {})
        main = self.run.scopes.main
        self.run.block(self.run.session.module.body, Frame(main, main, None, None))

    def result(self, index: int, tensors: Sequence[Tensor]) -> Any:
        """What the expression at `index` gives."""
        self.run.refuel()
        return self.run.call(self.run.scopes.main.vars[f"f{index}"], list(tensors), {}, None)

    def tensor(self, spec: Spec) -> Tensor:
        """The linter's own tensor, which lies in memory as torch's does."""
        real = tensor(spec, "meta")
        dtype = from_torch(spec.dtype) or "?"
        made = recording.make(self.run, tuple(real.shape), dtype, "input:x")
        return tensor_views.alias(made, tuple(real.shape), real.stride())

    def see(self, index: int, given: dict[str, Spec]) -> list[Seen] | None:
        """What the linter says of the results; None where it says nothing at all."""
        tensors = [self.tensor(spec) for spec in given.values()]
        places = {t.storage.ident: i for i, t in enumerate(tensors)}
        try:
            result = self.result(index, tensors)
        except Raised:
            return None
        found = [
            Seen(t.shape, t.dtype, t.strides or row_major(t.shape), places.get(t.storage.ident))
            for t in flat(result, Tensor)
        ]
        return found or None


def differs(mine: list[Seen], real: list[Seen]) -> str:
    """What the linter says that torch does not; an empty text where nothing is."""
    if len(mine) != len(real) and mine[0].shape is not None:
        return f"{len(mine)} results for {len(real)}"
    for one, other in zip(mine, real, strict=False):
        if one.dtype not in ("?", other.dtype):
            return f"dtype {one.dtype} for {other.dtype}"
        if one.shape is None:
            continue
        assert other.shape is not None
        if len(one.shape) != len(other.shape) or any(
            a not in (None, b) for a, b in zip(one.shape, other.shape, strict=True)
        ):
            return f"shape {one.shape} for {other.shape}"
        if one.view_of != other.view_of:
            return f"a view of {one.view_of} for {other.view_of}"
        if one.strides is None or other.strides is None or math.prod(other.shape) == 0:
            continue
        for size, a, b in zip(other.shape, one.strides, other.strides, strict=True):
            if size > 1 and a not in (None, b):
                return f"strides {one.strides} for {other.strides} of {other.shape}"
    return ""


def truth(text: str, given: dict[str, Spec]) -> list[Seen] | None:
    """What torch says, on the meta device or else on the CPU; None for what it refuses."""
    for device in ("cpu", "meta"):
        try:
            return by_torch(text, given, device)
        except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError, AttributeError, AssertionError):
            continue
    return None


# Results that are known only from values, and what Python's own functions around torch make of an operation.
FROM_VALUES = frozenset("masked_select nonzero argwhere bincount unique unique_consecutive".split())
# Of the table, what this torch has by no name of Python, or takes no argument that is like the others'.
NOT_CALLED = frozenset(
    """swish native_dropout feature_dropout fake_quantize requires_grad invert special_expit zeta xlog1py
    dist_elementwise __and__ __or__ __xor__ __matmul__ _prelu_kernel _softmax _log_softmax _safe_softmax inverse
    msort_places _scaled_mm scaled_mm _grouped_mm grouped_mm _scaled_grouped_mm scaled_grouped_mm _weight_int4pack_mm
    _weight_int8pack_mm _scaled_dot_product_attention convolution upsample_nearest upsample_bilinear col2im im2col
    constant_pad_nd log_sigmoid""".split()
)


def is_known(mine: list[Seen] | None) -> bool:
    """Whether shapes and element types of all results are known."""
    return bool(mine) and all(s.shape is not None and None not in s.shape and s.dtype != "?" for s in mine or ())


def names_in(text: str) -> set[str]:
    """The operations that an expression calls."""
    calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return {shapes.name_of(ast.unparse(f).replace("F.", "torch.nn.functional.")).rstrip("_") for f in calls}


Compared = list[tuple[Sample, "list[Seen] | None", list[Seen]]]


@pytest.fixture(scope="module")
def compared() -> Compared:
    """Every sample that torch accepts, with what the linter and torch say."""
    cases = list(samples())
    linter = Linter(cases)
    real = [truth(*case) for case in cases]
    return [
        (case, linter.see(i, case[1]), found) for i, (case, found) in enumerate(zip(cases, real, strict=True)) if found
    ]


def test_the_model_of_operations_says_nothing_that_torch_does_not(compared: Compared) -> None:
    assert len(compared) > 2500
    wrong = {
        f"{text} of {given}": found for (text, given), mine, real in compared if mine and (found := differs(mine, real))
    }
    assert {text: why for text, why in wrong.items() if not ("dropout" in text and "view" in why)} == {}


def test_few_results_are_unknown(compared: Compared) -> None:
    unknown = [case[0] for case, mine, _ in compared if not is_known(mine)]
    assert len(unknown) < len(compared) / 20, unknown


def test_every_operation_of_the_table_is_compared_and_known_somewhere(compared: Compared) -> None:
    known: set[str] = set()
    for (text, _), mine, _ in compared:
        if is_known(mine) or names_in(text) & FROM_VALUES:
            known |= names_in(text)
    named = {name.rstrip("_") for name in shapes.TABLE}
    draws = {"cauchy", "exponential", "geometric", "log_normal", "random", "uniform", "conj"}  # in place, or complex
    missing = named - known - {name.rstrip("_") for name in NOT_CALLED} - draws
    assert missing - OF_LAYERS == set()


OF_LAYERS = frozenset(layer.function for layer in modelled.LAYERS.values()) | {"rnn_relu", "rnn_relu_cell"}


def by_layer(text: str, given: dict[str, Spec]) -> tuple[list[Seen], dict[str, tuple[str, tuple[int, ...]]]]:
    """What torch says of a layer's results, and of its weights."""
    tensors = [tensor(spec, "cpu") for spec in given.values()]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = eval(text, {"torch": torch}).eval()
        places = {t.untyped_storage()._cdata: i for i, t in enumerate(tensors)}
        found = list(flat(layer(*tensors), torch.Tensor))
    state = {name: (str(from_torch(str(t.dtype)[6:])), tuple(t.shape)) for name, t in layer.state_dict().items()}
    out = [Seen(tuple(t.shape), str(from_torch(str(t.dtype)[6:])), None, None) for t in found]
    return out, state if places else {}


def test_layers_have_the_results_and_weights_of_torch() -> None:
    cases = list(layers())
    linter = Linter([(text, {}) for text, _ in cases])
    for i, (text, given) in enumerate(cases):
        results, weights = by_layer(text, given)
        layer = linter.result(i, [])
        state = {name: (t.dtype, t.shape) for name, t in trace_nn.state_of(layer).items()}
        assert (text, state) == (text, weights)
        mine = linter.run.call(layer, [linter.tensor(spec) for spec in given.values()], {}, None)
        said = [(t.dtype, t.shape) for t in flat(mine, Tensor)]
        assert (text, said) == (text, [(one.dtype, one.shape) for one in results])


def test_every_layer_of_the_table_is_compared() -> None:
    called = {name for text, _ in layers() for name in re.findall(r"nn\.(\w+)\(", text)}
    assert set(modelled.LAYERS) - called == set()


ATTRIBUTES = (
    "Conv2d(4, 6, 3, stride=2).kernel_size", "Conv2d(4, 6, 3, stride=2).stride", "Conv2d(4, 6, 3).padding",
    "Conv2d(4, 6, 3, padding='same').padding", "Conv2d(4, 6, 3).dilation", "Conv2d(4, 6, 3).groups",
    "Conv2d(4, 6, 3).output_padding", "Conv2d(4, 6, 3).transposed", "Conv2d(4, 6, 3, bias=False).bias",
    "MaxPool2d(2).kernel_size", "MaxPool2d(2).stride", "MaxPool2d(2).padding", "AvgPool2d((2, 3)).stride",
    "BatchNorm2d(4).eps", "BatchNorm2d(4).momentum", "BatchNorm2d(4).num_features", "BatchNorm2d(4).affine",
    "BatchNorm2d(4, affine=False).weight", "LayerNorm(4).normalized_shape", "GroupNorm(2, 4).num_groups",
    "Linear(3, 5).in_features", "Linear(3, 5).out_features", "LSTM(3, 5, 2).num_layers", "LSTM(3, 5).batch_first",
    "Softmax(dim=1).dim", "Dropout(0.3).p", "LeakyReLU(0.2).negative_slope", "Upsample(scale_factor=2).mode",
    "MultiheadAttention(8, 2).num_heads", "Embedding(10, 4).embedding_dim", "ReLU(inplace=True).inplace",
    "ZeroPad2d(1).padding", "Linear(3, 5).eval().training", "ModuleDict({'a': torch.nn.Linear(3, 5)}).a.in_features",
    "Sequential(torch.nn.ReLU(), torch.nn.Linear(3, 5))[1].out_features", "HuberLoss().delta",
)  # fmt: skip


def test_attributes_of_layers_are_those_of_torch() -> None:
    linter = Linter([(f"torch.nn.{text}", {}) for text in ATTRIBUTES])
    mine = [linter.result(i, []) for i in range(len(ATTRIBUTES))]
    assert mine == [eval(f"torch.nn.{text}", {"torch": torch}) for text in ATTRIBUTES]


def test_what_is_not_modelled_is_unknown() -> None:
    linter = Linter([("torch.nn.Conv2d(4, 6, 3).no_such_thing", {}), ("torch.special.airy_ai(x)", {"x": Spec((2, 3))}),
                     ("torch.nn.CTCLoss().blank", {})])  # fmt: skip
    assert isinstance(linter.result(0, []), Unknown)
    made = linter.result(1, [linter.tensor(Spec((2, 3)))])
    assert (made.shape, made.dtype) == (None, "?")
    assert isinstance(linter.result(2, []), Unknown)
