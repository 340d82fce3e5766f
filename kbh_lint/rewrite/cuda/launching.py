"""Rewrites of launches in CUDA text: through functions of the runtime that are given an array of addresses, and through
a function template of the program."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from kbh_lint.rewrite.cuda.code import next_solid
from kbh_lint.rewrite.cuda.parts import (
    Function,
    Launch,
    functions,
    given_at,
    head_names,
    is_statement,
    launches,
    parameters,
    substituted,
)
from kbh_lint.rewrite.cuda.text import Token, change_texts, tokens
from kbh_lint.rewrite.cuda.text_names import after_head
from kbh_lint.rewrite.program import Program, Rewrite
from kbh_lint.rewrite.tree import Source, source_of

_DEFAULTS = ("1", "1", "0", "0")
_Made = Callable[
    [Launch, str, str], str
]  # of a launch, what puts its arguments' addresses into an array, and that array


def launch_arrays(program: Program, rng: Random) -> Program:
    """`kernel<<<grid, block>>>(x, n)` becomes a call of cudaLaunchKernel with an array of the arguments' addresses."""
    source = source_of(program)
    form = rng.choice(("(const void*){}", "reinterpret_cast<const void*>(&{})", "(void*)&{}", "{}"))

    def made(launch: Launch, addresses: str, array: str) -> str:
        grid, block, shared, stream = _settings(launch)
        given = f"{form.format(launch.kernel)}, {grid}, {block}, {array}, {shared}, {stream}"
        return f"{{ {addresses} cudaLaunchKernel({given}); }}"

    return change_texts(program, source, lambda text: _by_addresses(text, source, rng, made))


def launch_configs(program: Program, rng: Random) -> Program:
    """`kernel<<<grid, block>>>(x, n)` becomes a call of cudaLaunchKernelExC with a struct of settings, an attribute
    that changes nothing, and an array of the arguments' addresses."""
    source = source_of(program)
    whole = rng.random() < 0.5

    def made(launch: Launch, addresses: str, array: str) -> str:
        grid, block, shared, stream = _settings(launch)
        config, attribute = f"{array}_config", f"{array}_attribute"
        lines = f"cudaLaunchAttribute {attribute}[1]; {attribute}[0].id = {_SERIALIZED};"
        lines += f" {attribute}[0].val.programmaticStreamSerializationAllowed = 0;"
        if whole:
            fields = f"{grid}, {block}, (size_t)({shared}), {stream}, {attribute}, 1"
            lines += f" cudaLaunchConfig_t {config} = {{{fields}}};"
        else:
            values = {"gridDim": grid, "blockDim": block, "dynamicSmemBytes": shared, "stream": stream}
            values |= {"attrs": attribute, "numAttrs": "1"}
            lines += f" cudaLaunchConfig_t {config}{{}};"
            lines += "".join(f" {config}.{field} = {value};" for field, value in values.items())
        return f"{{ {addresses} {lines} cudaLaunchKernelExC(&{config}, (const void*){launch.kernel}, {array}); }}"

    return change_texts(program, source, lambda text: _by_addresses(text, source, rng, made))


_SERIALIZED = "cudaLaunchAttributeProgrammaticStreamSerialization"


def _settings(launch: Launch) -> tuple[str, ...]:
    return (*launch.settings, *_DEFAULTS[len(launch.settings) :])


def _by_addresses(text: str, source: Source, rng: Random, made: _Made) -> str:
    """A text whose launches are other statements, which take their arguments from an array of addresses."""
    pieces = tokens(text)
    known: dict[str, Function | None] = {}
    for function in functions(pieces):
        known[function.name] = None if function.name in known else function
    new: dict[int, str] = {}
    for launch in launches(pieces):
        kernel = known.get(launch.name)
        kinds = _kinds(pieces, kernel, launch) if kernel is not None and is_statement(pieces, launch) else None
        if kinds is None:
            continue
        array = source.fresh(rng)
        names = [f"{array}_{at}" for at in range(len(kinds))]
        lines = "".join(f"{k} {n} = {v}; " for k, n, v in zip(kinds, names, launch.arguments, strict=True))
        cast = [f"(void*)&{n}" if kind.startswith("const") else f"&{n}" for kind, n in zip(kinds, names, strict=True)]
        addresses = f"{lines}void* {array}[] = {{{', '.join(cast)}}};" if names else f"void** {array} = nullptr;"
        end = next_solid(pieces, launch.closed) or launch.closed
        new.update(dict.fromkeys(range(launch.at, end + 1), ""))
        new[launch.at] = made(launch, addresses, array)
    return "".join(new.get(at, piece.text) for at, piece in enumerate(pieces))


def _kinds(pieces: list[Token], kernel: Function, launch: Launch) -> list[str] | None:
    """The types of a kernel's parameters where a launch stands; None where they are not sure."""
    given, _ = given_at(pieces, launch.named)
    found = parameters(pieces[kernel.opened + 1 : kernel.closed])
    if found is None or len(found) != len(launch.arguments) or pieces[kernel.at].text != "__global__":
        return None
    deduced = "..." in kernel.head or len(given) != len(head_names(kernel.head))
    if deduced or "::" in launch.kernel.partition("<")[0]:
        return None
    return [substituted(one.kind, kernel.head, given) for one in found]


def launch_wrappers(program: Program, rng: Random) -> Program:
    """`kernel<<<grid, block>>>(x, n)` becomes a call of a function template that launches what it is given."""
    source = source_of(program)
    name, form = source.fresh(rng), rng.choice(_WRAPPERS)

    def change(text: str) -> str:
        pieces = tokens(text)
        new: dict[int, str] = {}
        templates = {f.name for f in functions(pieces) if f.head}
        for launch in launches(pieces):
            if (
                launch.name in templates
                and not given_at(pieces, launch.named)[0]
                or any(_untyped(value) for value in launch.arguments)
            ):
                continue
            grid, block, shared, stream = _settings(launch)
            new.update(dict.fromkeys(range(launch.at, launch.closed), ""))
            given = (launch.kernel, grid, block, shared, stream, *launch.arguments)
            new[launch.closed] = f"{name}({', '.join(given)})"
        if not new:
            return text
        changed = "".join(new.get(at, piece.text) for at, piece in enumerate(pieces))
        return after_head(changed, form.replace("NAME", name)) or text

    return change_texts(program, source, change)


def _untyped(value: str) -> bool:
    """Whether an argument becomes another one where its type is that of a template's parameter: no address any more, or
    none at all."""
    return value in ("0", "NULL", "{}") or value.startswith("{")


# What a parameter of its own takes by value may lose no type: an array becomes an address, as in a launch.
_WRAPPERS = (
    """
template <typename Kernel, typename... Args>
static void NAME(Kernel kernel, dim3 grid, dim3 block, size_t shared, cudaStream_t stream, Args... args) {
  kernel<<<grid, block, shared, stream>>>(args...);
}
""",
    """
template <typename Kernel, typename... Args>
inline void NAME(Kernel* kernel, dim3 grid, dim3 block, size_t shared, cudaStream_t stream, Args&&... args) {
  kernel<<<grid, block, shared, stream>>>(static_cast<Args&&>(args)...);
}
""",
    """
template <typename... Taken, typename... Args>
void NAME(void (*kernel)(Taken...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream, Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  cudaLaunchKernelEx(&config, kernel, static_cast<Taken>(args)...);
}
""",
)

REWRITES = (
    Rewrite("cuda-launch-array", "launches in CUDA text are calls of cudaLaunchKernel with an array", launch_arrays),
    Rewrite("cuda-launch-config", "launches in CUDA text are calls of cudaLaunchKernelExC", launch_configs),
    Rewrite("cuda-launch-wrapper", "kernels in CUDA text are launched by a function template", launch_wrappers),
)
