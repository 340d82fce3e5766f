"""The operations of Triton's interpreter, made right for bf16 and fp8 or refused.

Values of bf16 and fp8 are fp32 arrays on the narrow grid (see `formats`): loads widen, every operation
whose result is narrow rounds, stores narrow. What this module does not know is refused by name, never computed.

Differences from a GPU that remain, all within what a legal GPU result may differ by: fp32 sums of a product are added
in another order, fp8 products accumulate in full fp32 (Hopper's tensor cores keep fewer bits), exp and its like are
accurate to fp32 rounding, and nothing is contracted to a fused multiply-add. Products of fp32 at the precision `tf32`
read their operands with the low 13 bits cleared, as tensor cores do.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import interpreter as _memory
from triton._C.libtriton import ir as _ir
from triton.runtime import interpreter as stock

from grader.candidate.interpreter.formats import BF16, E5M2, NARROW, Array, Narrow, truncate_tf32
from grader.candidate.interpreter.typed import Handle as Held
from grader.candidate.interpreter.typed import Type

__all__ = ["InterpreterRefusal", "OutOfBoundsError", "WideBuilder", "narrow_format", "np_dtype"]

SPIN_LIMIT = 20_000
F16_DOT_STEP = 16

stock_np_dtype = stock._get_np_dtype
Handle = stock.TensorHandle


class InterpreterRefusal(BaseException):
    """The interpreter cannot compute this as a GPU would. Not an Exception: a submission must not swallow it."""


class OutOfBoundsError(Exception):
    """A kernel touches memory outside of the tensors that it was given."""


def narrow_format(dtype: Type) -> Narrow | None:
    """The format that values of a Triton type are carried on; None for a type that numpy has, and for pointers."""
    name = dtype.scalar.name
    if name in _UNKNOWN:
        raise InterpreterRefusal(f"NVIDIA GPUs have no {name}")
    return NARROW.get(name)


def np_dtype(dtype: Type) -> np.dtype[Any]:
    """The numpy type that values of a Triton type are carried in."""
    found = _CARRIED.get(dtype.scalar.name)
    if found is None:
        if narrow_format(dtype) is None:
            pointer = isinstance(dtype.scalar, tl.pointer_type)
            found = np.dtype(np.uint64) if pointer else stock_np_dtype(dtype.scalar)
        else:
            found = np.dtype(np.float32)
        _CARRIED[dtype.scalar.name] = found
    return found


_UNKNOWN = ("fp8e4b15", "fp8e4b8", "fp8e5b16")
_CARRIED: dict[str, np.dtype[Any]] = {}


def made(data: Array, dtype: Type, exact: bool = False) -> Any:
    """A handle of `data` as a Triton type, rounded to it unless the values are known to lie on its grid."""
    scalar = dtype.scalar
    if not exact and (form := narrow_format(scalar)) is not None:
        data = form.round(data)
    want = np_dtype(scalar)
    return Handle(data if data.dtype == want else data.astype(want), scalar)


def _plain(handle: Held, operation: str) -> None:
    """Refuses arithmetic that no GPU has: the compiler refuses it too."""
    form = narrow_format(handle.dtype)
    if form is not None and form is not BF16:
        raise InterpreterRefusal(f"{operation} on {form.name} values, which Triton does not compile")


def _binary(name: str, op: Callable[[Array, Array], Array], fp8: bool = False) -> Callable[[Any, Any, Any], Any]:
    def create(self: object, lhs: Held, rhs: Held) -> Any:
        if not fp8:
            _plain(lhs, name)
        if lhs.data.dtype == np.bool_ and name in ("add", "sub"):
            raise InterpreterRefusal(f"{name} on int1 values")
        return made(op(lhs.data, rhs.data), lhs.dtype, exact=fp8)

    return create


def _compare(op: Callable[[Array, Array], Array]) -> Callable[[Any, Any, Any], Any]:
    def create(self: object, lhs: Held, rhs: Held) -> Any:
        _plain(lhs, "comparison")
        return Handle(op(lhs.data, rhs.data), tl.int1)

    return create


def _unary(name: str, op: Callable[[Array], Array]) -> Callable[[Any, Any], Any]:
    def create(self: object, arg: Held) -> Any:
        _plain(arg, name)
        return made(op(arg.data), arg.dtype)

    return create


def _as_unsigned(data: Array) -> Array:
    return np.ascontiguousarray(data).view(f"u{data.dtype.itemsize}") if data.dtype.kind == "i" else data


def _as_signed(data: Array) -> Array:
    return np.ascontiguousarray(data).view(f"i{data.dtype.itemsize}") if data.dtype.kind == "u" else data


def _divide(lhs: Array, rhs: Array) -> Array:
    """Whole-number division towards zero. Division by zero is undefined; it gives zero here."""
    safe = np.where(rhs == 0, 1, rhs)
    result: Array = np.where(rhs == 0, 0, (lhs - np.fmod(lhs, safe)) // safe)
    return result


def _erf(data: Array) -> Array:
    result: Array = np.vectorize(math.erf, otypes=[np.float64])(data.astype(np.float64))
    return result


def _high_product(lhs: Array, rhs: Array) -> Array:
    """The upper half of the product of two unsigned numbers of one width."""
    bits = lhs.dtype.itemsize * 8
    wide = _as_unsigned(lhs).astype(object) * _as_unsigned(rhs).astype(object)
    result: Array = (wide >> bits).astype(f"u{bits // 8}").view(lhs.dtype)
    return result


def _place() -> str:
    """The line of the kernel that is running: the innermost one outside of Triton and of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in ("triton", "grader"):
            return f"the kernel in line {frame.f_lineno} of {Path(frame.f_code.co_filename).name}"
        frame = frame.f_back
    return "the kernel"


class WideBuilder(stock.InterpreterBuilder):  # type: ignore[misc]
    """Triton's interpreter builder, whose operations on narrow floats are right."""

    def begin(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Start a launch whose tensors lie in `ranges` (first byte, byte after the last)."""
        merged: list[list[int]] = []
        for start, end in sorted(ranges):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        self.ranges = merged
        self.starts = np.array([start for start, _ in merged], dtype=np.uint64)
        self.ends = np.array([end for _, end in merged], dtype=np.uint64)
        self.made_pointers = False
        self.last_seen: tuple[Any, ...] = ()
        self.repeats = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("create_", "get_")):
            raise InterpreterRefusal(f"the interpreter has no {name.partition('_')[2]}")
        raise AttributeError(name)

    # --- constants and conversions -----------------------------------------------------------------------

    def get_bf16(self, value: float) -> Any:
        return made(np.array([value], dtype=np.float64), tl.bfloat16)

    def create_unsplat(self, arg: Held) -> Any:
        return Handle(arg.data.reshape(-1)[:1], arg.dtype.scalar)

    def _convert(self, src: Held, dst_type: Type, *_: object) -> Any:
        dst = dst_type.scalar
        if narrow_format(src.dtype) is E5M2 and dst == tl.bfloat16 and not np.isfinite(src.data).all():
            raise InterpreterRefusal("infinities and NaN of fp8e5 as bf16, of which Triton's conversion makes numbers")
        if narrow_format(dst) is not None:
            return made(src.data if src.data.dtype.kind == "f" else src.data.astype(np.float64), dst)
        return Handle(src.data.astype(np_dtype(dst)), dst)

    create_si_to_fp = create_ui_to_fp = create_fp_ext = create_fp_trunc = create_int_cast = _convert

    def create_fp_to_fp(self, src: Held, dst_type: Type, rounding_mode: object) -> Any:
        dst = dst_type.scalar
        if rounding_mode != _ir.ROUNDING_MODE.RTZ:
            return self._convert(src, dst)
        form = narrow_format(dst)
        if form is not BF16:
            raise InterpreterRefusal(f"conversion to {dst.name} that rounds towards zero")
        return made(form.truncate(src.data), dst, exact=True)

    def _to_integer(self, src: Held, dst_type: Type) -> Any:
        """Towards zero; NaN is 0 and what does not fit is the nearest that does, in 32 bits for narrower types."""
        _plain(src, "conversion to whole numbers")
        want = np_dtype(dst_type.scalar)
        wide = want if want.itemsize >= 4 else np.dtype(f"{want.kind}4")
        limits = np.iinfo(wide)
        values = np.nan_to_num(np.trunc(src.data.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
        result = np.clip(values, limits.min, np.nextafter(float(limits.max) + 1, 0)).astype(wide)
        result = np.where(values > limits.max, limits.max, result).astype(wide)
        return Handle(result.astype(want), dst_type.scalar)

    create_fp_to_si = create_fp_to_ui = _to_integer

    def create_bitcast(self, src: Held, dst_type: Type) -> Any:
        dst = dst_type.scalar
        pointer = isinstance(src.dtype.scalar, tl.pointer_type) or isinstance(dst, tl.pointer_type)
        if pointer:
            return Handle(src.data.view(np_dtype(dst)), dst)
        form, target = narrow_format(src.dtype), narrow_format(dst)
        bits = np.ascontiguousarray(src.data) if form is None else form.encode(src.data)
        if target is not None:
            return Handle(target.decode(bits.view(target.storage)), dst)
        return Handle(bits.view(np_dtype(dst)), dst)

    def create_int_to_ptr(self, src: Held, dst_type: Type) -> Any:
        self.made_pointers = True
        return Handle(src.data.astype(np.uint64), dst_type.scalar)

    create_ptr_to_int = create_bitcast

    # --- memory ------------------------------------------------------------------------------------------

    def create_masked_load(
        self, ptrs: Held, mask: Held, other: Held, cache_modifier: object, eviction_policy: object, is_volatile: object
    ) -> Any:
        dtype = ptrs.get_element_ty()
        form = narrow_format(dtype)
        carried = np_dtype(dtype)
        if other is None:
            # Undefined on a GPU. NaN shows where a result depends on it; whole numbers may become addresses.
            filler = np.nan if carried.kind == "f" else 0
            rest = np.full(ptrs.data.shape, filler, dtype=carried)
        else:
            rest = np.broadcast_to(other.data, ptrs.data.shape).astype(carried, copy=False)
        bits = rest if form is None else form.encode(rest)
        self._bounded(ptrs.data, mask.data, bits.dtype.itemsize, "reads")
        loaded = _memory.load(ptrs.data, mask.data, bits, bits.dtype)
        if ptrs.data.size == 1:
            self._spun("load", ptrs.data, loaded)
        return Handle(loaded if form is None else form.decode(loaded), dtype)

    def create_masked_store(
        self, ptrs: Held, value: Held, mask: Held, cache_modifier: object, eviction_policy: object
    ) -> None:
        dtype = value.dtype.scalar
        form = narrow_format(dtype)
        bits = value.data if form is None else form.encode(value.data)
        self._bounded(ptrs.data, mask.data, bits.dtype.itemsize, "writes")
        _memory.store(ptrs.data, bits, mask.data)

    def create_atomic_rmw(self, op: object, ptr: Held, val: Held, mask: Held, sem: object, scope: object) -> Any:
        self._atomic(val)
        self._bounded(ptr.data, mask.data, val.data.dtype.itemsize, "updates")
        old = super().create_atomic_rmw(op, ptr, val, mask, sem, scope)
        if ptr.data.size == 1:
            self._spun("atomic", ptr.data, old.data)
        return old

    def create_atomic_cas(self, ptr: Held, cmp: object, val: Held, sem: object, scope: object) -> Any:
        self._atomic(val)
        self._bounded(ptr.data, np.ones(ptr.data.shape, dtype=bool), val.data.dtype.itemsize, "updates")
        old = super().create_atomic_cas(ptr, cmp, val, sem, scope)
        if ptr.data.size == 1:
            self._spun("atomic", ptr.data, old.data)
        return old

    def _atomic(self, val: Held) -> None:
        if narrow_format(val.dtype) is not None or val.data.dtype == np.float16:
            raise InterpreterRefusal(f"atomics on {val.dtype.scalar.name} values")

    def _bounded(self, pointers: Array, mask: Array, size: int, verb: str) -> None:
        """Pointers made from whole numbers may lead anywhere; all others must stay in a tensor of the launch."""
        if self.made_pointers:
            return
        if pointers.size == 1:
            at = int(pointers.reshape(-1)[0])
            if not mask.any() or any(start <= at and at + size <= end for start, end in self.ranges):
                return
        used = pointers[np.broadcast_to(mask, pointers.shape)]
        if not used.size:
            return
        at = np.searchsorted(self.starts, used, side="right") - 1
        inside = (at >= 0) & (used + np.uint64(size) <= self.ends[np.maximum(at, 0)] if self.ends.size else False)
        if not inside.all():
            count = int(inside.size - inside.sum())
            raise OutOfBoundsError(f"{_place()} {verb} {count} elements outside of the tensors that it was given")

    def _spun(self, kind: str, pointer: Array, value: Array) -> None:
        """Programs run one after another, so one that waits for a later one would wait for ever."""
        seen = (kind, int(pointer.reshape(-1)[0]), value.tobytes())
        self.repeats = self.repeats + 1 if seen == self.last_seen else 0
        self.last_seen = seen
        if self.repeats > SPIN_LIMIT:
            raise InterpreterRefusal("a program waits for another one; here they run one after the other")

    # --- arithmetic --------------------------------------------------------------------------------------

    create_fadd = create_add = _binary("add", np.add)
    create_fsub = create_sub = _binary("sub", np.subtract)
    create_fmul = create_mul = _binary("mul", np.multiply)
    create_fdiv = create_precise_divf = _binary("div", np.divide)
    create_frem = create_srem = create_urem = _binary("rem", np.fmod)
    create_sdiv = create_udiv = create_idiv = _binary("div", _divide)
    create_minsi = create_minui = _binary("min", np.minimum)
    create_maxsi = create_maxui = _binary("max", np.maximum)
    create_minnumf, create_minimumf = _binary("min", np.fmin, fp8=True), _binary("min", np.minimum, fp8=True)
    create_maxnumf, create_maximumf = _binary("max", np.fmax, fp8=True), _binary("max", np.maximum, fp8=True)
    create_and, create_or = _binary("and", np.bitwise_and), _binary("or", np.bitwise_or)
    create_xor = _binary("xor", np.bitwise_xor)
    create_shl = _binary("shl", np.left_shift)
    create_lshr = _binary("lshr", lambda a, b: np.right_shift(_as_unsigned(a), _as_unsigned(b)).view(a.dtype))
    create_ashr = _binary("ashr", lambda a, b: np.right_shift(_as_signed(a), _as_signed(b)).view(a.dtype))
    create_umulhi = _binary("umulhi", _high_product)

    create_icmpEQ = create_fcmpOEQ = _compare(np.equal)
    create_icmpNE = create_fcmpUNE = _compare(np.not_equal)
    create_icmpSLT = create_icmpULT = create_fcmpOLT = _compare(np.less)
    create_icmpSLE = create_icmpULE = create_fcmpOLE = _compare(np.less_equal)
    create_icmpSGT = create_icmpUGT = create_fcmpOGT = _compare(np.greater)
    create_icmpSGE = create_icmpUGE = create_fcmpOGE = _compare(np.greater_equal)
    create_fcmpONE = _compare(lambda a, b: (a < b) | (a > b))
    create_fcmpUEQ = _compare(lambda a, b: ~((a < b) | (a > b)))
    create_fcmpULT, create_fcmpULE = _compare(lambda a, b: ~(a >= b)), _compare(lambda a, b: ~(a > b))
    create_fcmpUGT, create_fcmpUGE = _compare(lambda a, b: ~(a <= b)), _compare(lambda a, b: ~(a < b))

    create_exp, create_exp2 = _unary("exp", np.exp), _unary("exp2", np.exp2)
    create_log, create_log2 = _unary("log", np.log), _unary("log2", np.log2)
    create_sin, create_cos = _unary("sin", np.sin), _unary("cos", np.cos)
    create_sqrt = create_precise_sqrt = _unary("sqrt", np.sqrt)
    create_rsqrt = _unary("rsqrt", lambda x: 1 / np.sqrt(x))
    create_floor, create_ceil = _unary("floor", np.floor), _unary("ceil", np.ceil)
    create_erf = _unary("erf", _erf)
    create_iabs = _unary("abs", np.abs)

    def create_fabs(self, arg: Held) -> Any:
        return made(np.abs(arg.data), arg.dtype, exact=True)

    def create_select(self, cond: Held, lhs: Held, rhs: Held) -> Any:
        return made(np.where(cond.data, lhs.data, rhs.data), rhs.dtype, exact=True)

    def create_clampf(self, arg: Held, lo: Held, hi: Held, propagate_nans: object) -> Any:
        _plain(arg, "clamp")
        every = propagate_nans == _ir.PROPAGATE_NAN.ALL
        low, high = (np.maximum, np.minimum) if every else (np.fmax, np.fmin)
        return made(high(low(arg.data, lo.data), hi.data), arg.dtype, exact=True)

    def create_fma(self, x: Held, y: Held, z: Held) -> Any:
        """The exact product plus z, rounded to 53 bits and then to the result: one rounding for all that matters."""
        _plain(z, "fma")
        if z.data.dtype == np.float64:
            raise InterpreterRefusal("fma on fp64 values")
        wide = x.data.astype(np.float64) * y.data.astype(np.float64) + z.data.astype(np.float64)
        return made(wide, z.dtype)

    def create_dot(self, a: Held, b: Held, d: Held, input_precision: object, max_num_imprecise_acc: object) -> Any:
        """Exact products, summed in the accumulator's type; an fp16 accumulator rounds after every 16 products."""
        left, right, start = a.data, b.data, d.data
        if start.dtype.kind in "iu":
            product = np.matmul(left.astype(np.float64), right.astype(np.float64))
            return Handle(product.astype(start.dtype) + start, d.dtype.scalar)
        if left.dtype == np.float64:
            return Handle(np.matmul(left, right) + start, d.dtype.scalar)
        if a.dtype.scalar == tl.float32:
            if input_precision == _ir.INPUT_PRECISION.TF32:
                left, right = truncate_tf32(left), truncate_tf32(right)
            elif input_precision not in (_ir.INPUT_PRECISION.IEEE, _ir.INPUT_PRECISION.TF32x3):
                raise InterpreterRefusal("a product at this input_precision")
        left, right = left.astype(np.float32, copy=False), right.astype(np.float32, copy=False)
        if start.dtype == np.float32:
            return Handle(np.matmul(left, right) + start, d.dtype.scalar)
        total = start.astype(np.float32)
        for k in range(0, left.shape[-1], F16_DOT_STEP):
            step = slice(k, k + F16_DOT_STEP)
            total += np.matmul(left[..., step], right[..., step, :])
            total = total.astype(np.float16).astype(np.float32)
        return made(total, d.dtype)

    def create_extern_elementwise(
        self, lib: str, path: str, symbol: str, args: Sequence[Any], ret_type: object, is_pure: bool
    ) -> Any:
        raise InterpreterRefusal(f"the library function {symbol}")
