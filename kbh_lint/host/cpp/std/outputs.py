"""Which arguments functions of the C library, of the CUDA runtime and of the driver write, and with what.

What one of them is not said to write here it leaves as it was. A function of CUDA that no table names may write to
every address of a variable that it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.cpp import arguments as cpp_arguments
from kbh_lint.host.effects import outside
from kbh_lint.host.values.cpp_objects import Slot
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

C_FUNCTIONS = frozenset(
    "abort abs acos asin atan atan2 atof atoi atol atoll calloc cbrt ceil ceilf clock_gettime close cos erf exit exp "
    "exp2 expf fabs fabsf fflush fileno floor floorf fmax fmin fmod fprintf fputs free getenv gettimeofday hypot "
    "isalnum isalpha isatty isdigit isspace isupper labs ldexp llabs llrint log log10 log1p log2 logf lrint lround "
    "malloc memchr memcmp memcpy memmove memset nanosleep nearbyint open perror posix_memalign pow powf printf putc "
    "putchar puts rand read realloc rint round roundf sched_yield setlocale sin sleep snprintf sprintf sqrt sqrtf "
    "srand strchr strcmp strerror strlen strncmp strrchr strstr tan tanh time tolower toupper trunc truncf usleep "
    "write".split()
)
# Of functions that calculate, by the numbers of the arguments.
_CALCULATED = {
    **dict.fromkeys("frexp frexpf frexpl modf modff modfl strtod strtof strtold".split(), (1,)),
    **dict.fromkeys("strtol strtoll strtoul strtoull strtoimax strtoumax".split(), (1,)),
    **dict.fromkeys("remquo remquof remquol".split(), (2,)),
    **dict.fromkeys("sincos sincosf".split(), (1, 2)),
    "rand_r": (0,),
    "sscanf": tuple(range(2, 16)),
}
# Of functions that are given addresses of the GPU and only ask about them, or say where they are best kept.
_ASKED = {
    **dict.fromkeys(("cudaPointerGetAttributes", "cuPointerGetAttribute"), (0,)),
    "cuPointerGetAttributes": (2,),
    **dict.fromkeys("cudaMemAdvise cuMemAdvise cudaMemPrefetchAsync cuMemPrefetchAsync".split(), ()),
    **dict.fromkeys("cudaHostRegister cudaHostUnregister cuMemHostRegister cuMemHostUnregister".split(), ()),
}
# What a function of CUDA writes that is the same on every machine a benchmark runs on, as torch.cuda has it.
_SAME = {
    "cudaGetDevice": 0, "cudaGetDeviceCount": 1, "cuDeviceGetCount": 1, "cuCtxGetDevice": 0, "cuDeviceGet": 0,
}  # fmt: skip
_OF_CUDA = ("cuda", "cu", "nvrtc")


def leaves(name: str) -> bool:
    """Whether it is known what a function writes of what it is given, by its C++ name."""
    short = name.removeprefix("std::")
    if short in C_FUNCTIONS or short in _CALCULATED or short in _ASKED:
        return True
    return short.startswith(_OF_CUDA) and short in outside.NATIVE_SNIFFED


def by_address(name: str) -> bool:
    """Whether a function outside namespaces writes through addresses that it is given."""
    return name.removeprefix("std::") in _CALCULATED


def call(run: Cpp, name: str, args: list[Value], loc: ir.Loc | None) -> Value:
    """Calls a function of the tables; NotImplemented for all others."""
    short = name.removeprefix("std::")
    written = _CALCULATED.get(short, _ASKED.get(short))
    if written is None:
        return NotImplemented
    contents = run.interp.contents_of([a.get() if isinstance(a, Slot) else a for a in args])
    for at in written:
        if at < len(args):
            _put(args[at], Unknown(contents, short))
    return Sym(_success(short)) if short in _ASKED else Unknown(contents, short)


def of_cuda(run: Cpp, name: str, args: list[Value]) -> Value:
    """Calls a function of the runtime or the driver that no model knows, and that is given no memory of the GPU."""
    for arg in args:
        _put(arg, _SAME[name] if name in _SAME else Unknown((), name))
    return Sym(_success(name)) if name in _SAME else LibObject.by_path(name)


def answered(name: str, answer: Value, args: list[Value]) -> Value:
    """What a function of CUDA returns whose answer it writes to an address, `cudaStreamIsCapturing(stream, &answer)`;
    the answer itself where there is none."""
    places = [arg for arg in args if isinstance(arg, Slot)] if name.startswith(_OF_CUDA) else []
    for place in places:
        _put(place, answer)
    return Sym(_success(name)) if places else answer


def _put(place: object, value: Value) -> None:
    """Writes to an address of a number, or of an array of them."""
    if isinstance(place, list):
        place[:] = [value] * len(place)
    elif isinstance(place, Slot) and isinstance(place.get(), (bool, int, float, str, Unknown, type(None), Sym)):
        place.set(value)
    elif isinstance(place, Slot) and isinstance(held := place.get(), LibObject) and cpp_arguments.is_unread(held):
        place.set(Unknown((), "what a function of CUDA wrote"))


def _success(name: str) -> str:
    return "cudaSuccess" if name.startswith("cuda") else "NVRTC_SUCCESS" if name.startswith("nvrtc") else "CUDA_SUCCESS"
