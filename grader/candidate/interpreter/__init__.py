"""Triton kernels on a CPU: `install()` makes Triton's interpreter right for bf16 and fp8, or refuse.

The stock interpreter is silently wrong for a bf16 `tl.dot`, for arithmetic on bf16 and fp8 and for their conversions,
and it truncates where a GPU rounds. After `install()` a kernel gives what rounding on a GPU gives, or
`InterpreterRefusal` tells what is not known here. It must run before the submission, and before Triton is imported.

What else differs from the stock interpreter: a masked load without `other` gives NaN where a GPU gives anything; reads
and writes outside of the launch's tensors are errors; floats that are passed to a kernel are fp32, as on a GPU; `and`
and `or` work on blocks; autotuning takes the first configuration without timing; asking torch.cuda or Triton's driver
about a device is refused, save `torch.cuda.is_available()`, which says no.

Functions here stand in for Triton's, which have no types: `typed` says what is used of its objects.
"""

from __future__ import annotations

import ast
import importlib
import operator
import os
import sys
from collections.abc import Callable, Sequence
from types import FrameType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader.candidate.interpreter.ops import InterpreterRefusal, OutOfBoundsError
    from grader.candidate.interpreter.typed import Block, BlockType, Handle, Helper, SetsAttributes, Stock, Type

__all__ = ["KNOWN_TRITON", "InterpreterRefusal", "OutOfBoundsError", "install"]

KNOWN_TRITON = "3.7."
"""The Triton whose internals were read and tested; any other is refused."""

DEVICE_QUESTIONS = (
    "get_device_properties", "get_device_capability", "get_device_name", "current_device", "current_stream",
    "default_stream", "set_device", "device", "device_of", "stream", "set_stream", "Stream", "ExternalStream", "Event",
    "CUDAGraph", "graph", "make_graphed_callables", "mem_get_info", "memory_allocated", "get_arch_list",
)  # fmt: skip
"""What a submission may ask torch.cuda for that a CPU has no answer to."""

REFUSED = ("dot_scaled", "map_elementwise", "inline_asm_elementwise")
"""Parts of the language that end in the middle of Triton's own code here."""

JOINED = "kbh_joined"
"""The name under which rewritten kernels find what joins lists."""

PATCHED = (
    "_get_np_dtype", "_validate_np_data_size", "_patch_reduce_scan", "_patch_lang_tensor", "_patch_lang",
    "_implicit_cvt", "ASTTransformer", "FunctionRewriter", "GridExecutor", "InterpreterBuilder", "TensorHandle",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """The exceptions live beside the operations, which import Triton."""
    if name in ("InterpreterRefusal", "OutOfBoundsError"):
        from grader.candidate.interpreter import ops  # numpy comes with it

        return getattr(ops, name)
    raise AttributeError(name)


def install() -> None:
    """Make every kernel of this process run in the interpreter. Idempotent.

    Raises InterpreterRefusal for a Triton that is missing, unknown, or was imported before.
    """
    os.environ["TRITON_INTERPRET"] = "1"
    before = "triton" in sys.modules
    try:
        import triton
        from triton.runtime import interpreter as stock
    except ImportError as error:
        raise _refusal(f"Triton cannot be imported here ({error})") from None
    version = str(triton.__version__)
    if not version.startswith(KNOWN_TRITON):
        raise _refusal(f"the interpreter is known for Triton {KNOWN_TRITON}x, and this is {version}")
    missing = [name for name in PATCHED if not hasattr(stock, name)]
    if missing:
        raise _refusal(f"Triton {version} has no {missing[0]} in its interpreter")
    if not isinstance(triton.language.standard.sum, stock.InterpretedFunction):
        when = "before the interpreter was installed" if before else "as a compiler"
        raise _refusal(f"Triton was imported {when}")
    from grader.candidate.interpreter import libdevice, ops, reduce  # numpy comes with it

    if isinstance(stock.interpreter_builder, ops.WideBuilder):
        return
    _patch_types(stock, ops)
    _patch_language(stock, ops, reduce)
    _patch_shapes(stock)
    _patch_launch(stock, ops)
    libdevice.patch()
    _patch_devices()


def _refusal(text: str) -> BaseException:
    """InterpreterRefusal, also where its module cannot be imported because Triton cannot."""
    kind: type[BaseException]
    try:
        from grader.candidate.interpreter.ops import InterpreterRefusal as kind  # numpy comes with it
    except ImportError:
        kind = type("InterpreterRefusal", (BaseException,), {})
    return kind(text)


def _refuse(text: str) -> Callable[..., Any]:
    def refused(*_: object, **__: object) -> Any:
        raise _refusal(text)

    return refused


def _for_torch_only(what: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """torch asks itself too, when it compiles for a CPU, and knows what to do with the answer."""

    def ask(*args: object, **kwargs: object) -> Any:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and _package(frame) == "triton":
            frame = frame.f_back
        if frame is not None and _package(frame) == "torch":
            return original(*args, **kwargs)
        raise _refusal(f"it calls {what}, and this is a check without a GPU")

    return ask


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _patch_types(stock: Stock, ops: ModuleType) -> None:
    """Narrow floats in fp32 arrays; the one builder object becomes ours, wherever it was imported to."""
    stock._get_np_dtype = ops.np_dtype
    stock._validate_np_data_size = lambda data, dtype: True
    stock.interpreter_builder.__class__ = ops.WideBuilder
    # Overflow is only asserted in a debug launch, but every whole-number operation is done three times for it.
    stock.interpreter_builder.options = stock.InterpreterOptions(sanitize_overflow=False)
    stock.interpreter_builder.begin([])
    # The smallest product that the compiler takes is the smallest that is taken here.
    nvidia = importlib.import_module("triton.backends.nvidia.compiler")
    stock.interpreter_builder.codegen_fns["min_dot_size"] = nvidia.min_dot_size(None)


def _patch_language(stock: Stock, ops: ModuleType, reductions: ModuleType) -> None:
    import triton.language as tl

    def patch_reduce_scan(scope: SetsAttributes) -> None:
        for module in (tl, tl.core):
            scope.set_attr(module, "reduce", reductions.reduce)
            scope.set_attr(module, "associative_scan", reductions.scan)
            for name in REFUSED:
                scope.set_attr(module, name, _refuse(f"the interpreter has no {name}"))

    library = {sys.modules[name].__file__ for name in ("triton.language.semantic", "triton.language.core")}

    def truth(tensor: Block) -> bool:
        # Triton's own code asks whether there is a tensor at all (`if other`), and when compiling a tensor is true.
        if sys._getframe(1).f_code.co_filename in library:
            return True
        data = tensor.handle.data
        if data.size != 1:
            raise ops.InterpreterRefusal("a block of values where Python wants one truth value")
        return bool(data.reshape(-1)[0])

    def transposed(tensor: Block) -> Any:
        shape = [int(size) for size in tensor.handle.data.shape]
        if len(shape) < 2:
            raise ops.InterpreterRefusal("the transpose of a block of one dimension")
        shape[-2:] = shape[:-3:-1]
        data = tensor.handle.data.swapaxes(-1, -2)
        return tl.tensor(stock.TensorHandle(data, tensor.handle.dtype), tl.block_type(tensor.dtype, shape))

    patch_tensor = stock._patch_lang_tensor

    def patch_lang_tensor(tensor: Block, scope: SetsAttributes) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__bool__", truth)
        scope.set_attr(tensor, "T", property(transposed))

    stock._patch_reduce_scan = patch_reduce_scan
    stock._patch_lang_tensor = patch_lang_tensor
    stock.FunctionRewriter.ast_transformer = _transformer(stock)()
    # A rewritten kernel looks names up among the globals of its own module and of the interpreter's.
    stock.kbh_all_of, stock.kbh_any_of = _bool_op("logical_and", False), _bool_op("logical_or", True)
    setattr(stock, JOINED, _joined)


def _patch_shapes(stock: Stock) -> None:
    """Every operation makes a type and a tensor, and their shapes cost the most: keep those made before."""
    import triton.language as tl

    semantic = type(stock.interpreter_semantic)
    make_type, make_tensor, broadcast = tl.block_type.__init__, tl.tensor.__init__, semantic.broadcast_impl_value
    types: dict[tuple[int, ...], tuple[Any, int]] = {}
    tensors: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def type_init(self: BlockType, element_ty: Type, shape: Sequence[Any]) -> None:
        key = tuple([size.value if isinstance(size, tl.constexpr) else size for size in shape])
        if key not in types:
            make_type(self, element_ty, shape)
            types[key] = self.shape, self.numel
        self.element_ty = element_ty
        self.shape, self.numel = types[key]
        self.name = f"<{key}, {element_ty}>"

    def tensor_init(self: Block, handle: Handle, type: Type) -> None:
        key = tuple(type.shape) if type.is_block() else ()
        if key not in tensors:
            make_tensor(self, handle, type)
            tensors[key] = self.shape, self.numel
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = tensors[key]

    def broadcast_unequal(self: object, lhs: Block, rhs: Block) -> Any:
        blocks = lhs.type.is_block(), rhs.type.is_block()
        if not any(blocks) or (all(blocks) and lhs.type.shape is rhs.type.shape):
            return lhs, rhs
        return broadcast(self, lhs, rhs)

    semantic.broadcast_impl_value = broadcast_unequal
    tl.block_type.__init__ = type_init
    tl.tensor.__init__ = tensor_init


def _transformer(stock: Stock) -> Any:
    stocks: Any = stock.ASTTransformer

    class Transformer(stocks):  # type: ignore[misc]
        """Also rewrites what Python cannot and Triton can: `and` and `or` of blocks, a list and a tuple one after the
        other."""

        def visit_Assign(self, node: ast.Assign) -> Any:
            node.value = self.visit(node.value)
            return super().visit_Assign(node)

        def visit_BoolOp(self, node: ast.BoolOp) -> Any:
            self.generic_visit(node)
            name = "kbh_all_of" if isinstance(node.op, ast.And) else "kbh_any_of"
            nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            values: list[ast.expr] = [ast.Lambda(args=nothing, body=value) for value in node.values]
            return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=values, keywords=[])

        def visit_BinOp(self, node: ast.BinOp) -> Any:
            self.generic_visit(node)
            if not isinstance(node.op, ast.Add) or not any(map(_is_list, (node.left, node.right))):
                return node
            return ast.Call(func=ast.Name(id=JOINED, ctx=ast.Load()), args=[node.left, node.right], keywords=[])

    return Transformer


def _is_list(node: ast.expr) -> bool:
    joined = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == JOINED
    return joined or isinstance(node, ast.List)


def _joined(left: object, right: object) -> object:
    """`left + right` where one is a list in the kernel's text: a shape, or coordinates, may be a tuple."""
    from triton.language.core import tuple as blocks

    if isinstance(left, (list, tuple, blocks)) and isinstance(right, (list, tuple, blocks)):
        return [*left, *right]
    return operator.add(left, right)


def _bool_op(method: str, decisive: bool) -> Callable[..., Any]:
    """Triton's `and` or `or`: what is known when compiling may end it early, tensors are combined one by one."""

    def combine(*values: Callable[[], Any]) -> Any:
        import triton.language as tl

        tensors: list[Any] = []
        value: Any = None
        for compute in values:
            value = compute()
            if isinstance(value, tl.tensor):
                tensors.append(value)
            elif bool(value) is decisive:
                return value
        result = tensors[0] if tensors else value
        for other in tensors[1:]:
            result = getattr(result, method)(other)
        return result

    return combine


def _patch_launch(stock: Stock, ops: ModuleType) -> None:
    import numpy as np
    import triton.language as tl
    from triton.runtime.autotuner import Autotuner

    convert, patch_lang, launch = stock._implicit_cvt, stock._patch_lang, stock.GridExecutor.__call__
    everything = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
    running: list[list[tuple[int, int]]] = []
    patched: list[bool] = []

    def implicit_cvt(arg: object) -> Any:
        if hasattr(arg, "data_ptr") and running:
            base: Any = getattr(arg, "base", arg)
            storage = base.untyped_storage()
            running[-1].append((storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
            stock.interpreter_builder.begin(running[-1])
        if isinstance(arg, bool):
            return tl.tensor(stock.TensorHandle(np.array([arg]), tl.int1), tl.int1)
        if isinstance(arg, float):
            return tl.tensor(stock.TensorHandle(np.array([arg], dtype=np.float32), tl.float32), tl.float32)
        tensor = convert(arg)
        if isinstance(arg, int):
            tensor.handle.data = tensor.handle.data.astype(ops.np_dtype(tensor.dtype))
        return tensor

    def patch_lang_once(fn: object) -> Any:
        """Helpers that a kernel calls find the language patched; patching it again for each call is what costs time."""
        if patched:
            return stock._LangPatchScope()
        patched.append(True)
        return patch_lang(everything)

    def launch_bounded(self: object, *args: object, **kwargs: object) -> Any:
        running.append([])
        try:
            with np.errstate(all="ignore"):
                return launch(self, *args, **kwargs)
        finally:
            running.pop()
            patched.clear()

    stock._implicit_cvt = implicit_cvt
    stock._patch_lang = patch_lang_once

    def call(self: Helper, *args: object, **kwargs: object) -> Any:
        """A helper called from a kernel."""
        stock._patch_lang(self.fn)
        return self.rewrite()(*args, **kwargs)

    # What a kernel raises comes out as it is, with the kernel's own line in the traceback.
    importlib.import_module("triton").knobs.compilation.front_end_debugging = True
    stock.InterpretedFunction.__call__ = call
    stock.GridExecutor.__call__ = launch_bounded
    Autotuner._bench = lambda self, *args, config, **meta: [0.0, 0.0, 0.0]


def _patch_devices() -> None:
    """Questions about a device are refused before they can be answered by an exception that is swallowed."""
    import torch

    torch.cuda.is_available = lambda: False
    for name in DEVICE_QUESTIONS:
        if hasattr(torch.cuda, name):
            setattr(torch.cuda, name, _for_torch_only(f"torch.cuda.{name}", getattr(torch.cuda, name)))
    testing, driver = (importlib.import_module(f"triton.{name}") for name in ("testing", "runtime.driver"))
    for name in ("do_bench", "do_bench_cudagraph"):
        setattr(testing, name, _for_torch_only(f"triton.testing.{name}", getattr(testing, name)))
    vars(driver)["_create_driver"] = _for_torch_only("Triton's GPU driver", vars(driver)["_create_driver"])
