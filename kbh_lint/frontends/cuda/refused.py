"""Whether a compiler refuses CUDA C++ texts for certain. What only headers could settle is never certain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kbh_lint.base import dtypes, ir
from kbh_lint.base.architectures import STATIC_SHARED
from kbh_lint.base.regexes import regex
from kbh_lint.base.values import UNKNOWN, Env
from kbh_lint.frontends.cuda.constants import fold
from kbh_lint.frontends.cuda.macros import Token, tokenize
from kbh_lint.frontends.cuda.unit import CudaUnit
from kbh_lint.frontends.walk import children, walk

MAX_TOKENS = 60_000
_OPEN, _CLOSE = {"(": ")", "[": "]", "{": "}"}, frozenset(")]}")
_NUMBER = regex(r"\.?\d[\w.']*\Z")
# Names that no text declares: of the language, of CUDA, of C's headers.
_GIVEN = frozenset(
    "threadIdx blockIdx blockDim gridDim warpSize clusterIdx this true false nullptr NULL errno stdout stderr stdin "
    "environ likely unlikely maybe_unused nodiscard fallthrough noreturn assume".split()
)
_HEADERS = regex(
    r"(?:torch|ATen|c10|cuda|cub|cuda_\w+|thrust|pybind11|cooperative_groups)/|cuda\w*\.(?:h|hpp)\Z|mma\.h\Z|"
    r"cooperative_groups\.h\Z|nvrtc\.h\Z|device_\w+\.h\Z|vector_types\.h\Z|math_constants\.h\Z|crt/|"
    r"[a-z_]+\Z|(?:c?std\w+|c?math|float|limits|assert|string|errno|unistd|dlfcn|fcntl|time|ctype)\.h\Z|sys/"
)
_LIBRARIES = regex(
    r"(?:cutlass|cute|nvtx3|cccl|nvshmem|numpy|nv|tools|examples)/|(?:cu|nv)\w+\.h\Z|nccl\w*\.h\Z|"
    r"(?:Python|omp|pthread|\w*intrin|unistd|dlfcn|fcntl|errno|sched|signal|math|complex)\.h\Z|generated\b"
)
_DIRECTIVE = regex(r"\busing\s+namespace\s+([\w:]+)")
_SPACES = frozenset("std at torch c10 at::cuda c10::cuda cuda cooperative_groups".split())
_TOGETHER = regex(r"\bauto\s*(?:const\s*)?[&\s]*\[([\w\s,]+)\]")
_WORD = regex(r"[A-Za-z_]\w*")


def why(modules: Sequence[ir.Module], env: Env) -> str:
    """Says in words why a compiler certainly rejects the texts of one extension, whose scope is `env`; empty where they
    may compile."""
    units = [module.unit for module in modules if isinstance(module.unit, CudaUnit)]
    if any(unit.stopped for unit in units):
        return "an #error is reached"
    if len(units) != len(modules) or any(module.unread for module in modules):
        return ""
    every = [node for module in modules for node in walk(module.body)]
    for node, bound in _compiled(every, env):
        if _shared(node, bound) > STATIC_SHARED:
            return f"{node.name} has more shared memory than a block can have"
    caught = _caught_by_reference(every)
    if caught:
        return f"a lambda for the device captures {caught} by reference"
    declared, types = _declared(every), {node.name for node in every if isinstance(node, ir.TypeRef)}
    variables = {n.name for n in every if isinstance(n, (ir.Decl, ir.Param))} - types - {""}
    if any(_broken(unit.prepared, variables) for unit in units):
        return "the text has a syntax error"
    name = _undeclared(every, units, declared | types)
    return f"{name} is not declared" if name else ""


def unknown_header(modules: Sequence[ir.Module]) -> str:
    """The first header that the texts include and that belongs to no known library; empty when there is none."""
    paths = [node.module for module in modules for node in module.body if isinstance(node, ir.Import)]
    return next((path for path in paths if not _HEADERS.match(path) and not _LIBRARIES.match(path)), "")


def _caught_by_reference(every: Sequence[object]) -> str:
    """A variable that a lambda of host code which is marked `__device__` captures by reference, which nvcc refuses; or
    empty. Lambdas within device code are plain C++, and capture as they like."""
    for func in every:
        if not isinstance(func, ir.FuncDef) or func.kind != "host":
            continue
        below = walk(func.body or ())
        extended = [one for one in below if isinstance(one, ir.FuncDef) and "__device__" in one.attributes]
        captures = [one for node in extended if node.kind == "lambda" for one in node.captures if one.reference]
        if captures:  # a default captures also names that are no variables of the function: constants need no capture
            own = {param.name for param in func.params}
            own |= {one.name for one in below if isinstance(one, ir.Decl) and not _is_constant(one)}
            named = next((one.name for one in captures if one.init is not None or one.name in own), "")
            if named:
                return named
    return ""


def _is_constant(node: ir.Decl) -> bool:
    return bool(node.storage & {"constexpr", "static"}) or node.type is not None and node.type.const


def _compiled(every: Sequence[object], env: Env) -> Iterator[tuple[ir.FuncDef, Env]]:
    """The kernels that are compiled for certain, each with the scope of its body: those that are no templates, and
    those of which a function that is none launches an instance, as `kernel<64, 4><<<...>>>`, by plain numbers."""
    functions = [node for node in every if isinstance(node, ir.FuncDef)]
    kernels = [node for node in functions if node.kind == "global"]
    yield from ((node, env) for node in kernels if not node.template)
    plain = [node for node in functions if node.kind == "host" and not node.template]
    for launch in (node for func in plain for node in walk(func.body or ()) if isinstance(node, ir.Launch)):
        meant = _instantiated(launch.func, kernels)
        if meant is not None:
            kernel, args = meant
            numbers = [fold(arg, env) if not isinstance(arg, ir.TypeRef) else None for arg in args]
            bound = {
                p.name: n if p.kind == "value" and isinstance(n, int) else UNKNOWN
                for p, n in zip(kernel.template, numbers, strict=True)
            }
            yield kernel, replace(env, vars={**env.vars, **bound})


def _instantiated(named: ir.Expr, kernels: list[ir.FuncDef]) -> tuple[ir.FuncDef, tuple[ir.Expr, ...]] | None:
    """The kernel that `kernel<64, 4>` is an instance of, with these arguments, where there is one that it can mean."""
    if not isinstance(named, ir.TypeRef) or named.args is None or named.member:
        return None
    meant = [node for node in kernels if node.name == named.name.rpartition("::")[2]]
    if len(meant) != 1 or not meant[0].template or meant[0].explicit:
        return None
    params = meant[0].template
    if len(named.args) != len(params) or any(param.pack for param in params):
        return None
    return meant[0], named.args


def _shared(func: ir.FuncDef, env: Env) -> int:
    """The bytes of shared arrays of fixed sizes that a kernel declares and uses."""
    total = 0
    used = {node.id for node in walk(func.body or ()) if isinstance(node, ir.Name)}
    for node in func.body or ():
        if not isinstance(node, ir.Decl) or "__shared__" not in node.storage or "extern" in node.storage:
            continue
        kind = node.type
        if kind is None or kind.args or kind.member or not kind.dims or node.name not in used:
            continue
        vector = dtypes.vector_from_cpp(kind.name)
        scalar, lanes = vector or (dtypes.from_cpp(kind.name), 1)
        size = 8 * lanes if kind.pointers else max(dtypes.BITS.get(scalar or "", 0) // 8, 0) * lanes
        for dim in kind.dims:
            count = fold(dim, env)
            size *= count if isinstance(count, int) and count > 0 else 0
        total += size
    return total


def _tokens(text: str) -> list[Token]:
    return [token for token in tokenize(text, 0, len(text)) if not token.text.isspace()][:MAX_TOKENS]


def _broken(text: str, variables: set[str]) -> bool:
    """Whether two operands stand side by side, `a[0] b` or `2 b`, of which `b` is a variable; or a bracket is missing,
    where no macro of a header may hold it."""
    tokens = _tokens(text)
    stack: list[int] = []
    whole = len(tokens) < MAX_TOKENS and not any("BEGIN" in t.text or "END" in t.text for t in tokens if t.ident)
    for at, token in enumerate(tokens):
        after = tokens[at + 1].text if at + 1 < len(tokens) else ""
        opened = -1
        if token.text in _OPEN:
            stack.append(at)
        elif token.text in _CLOSE:
            if not stack or _OPEN[tokens[stack[-1]].text] != token.text:
                return whole
            opened = stack.pop()
        if after in variables:
            indexed = token.text == "]" and opened > 0 and tokens[opened - 1].text in variables
            if indexed or _NUMBER.match(token.text):
                return True
    return bool(stack) and whole


def _declared(every: Iterable[object]) -> set[str]:
    """All names that the texts may declare: also those of fields, labels and assigned variables."""
    found: set[str] = set()
    for node in every:
        if isinstance(node, (ir.Name, ir.TypeRef, ir.Const)):
            continue
        for field in type(node).__dataclass_fields__ if hasattr(node, "__dataclass_fields__") else ():
            if field not in ("loc", "unit"):
                found |= _texts(getattr(node, field))
        if isinstance(node, ir.AssignE):
            targets: list[object] = [node.target]
        elif isinstance(node, ir.Assign):
            targets = list(node.targets)
        else:
            targets = [node.target] if isinstance(node, ir.For) else []
        found |= {one.id for one in walk(targets) if isinstance(one, ir.Name)}
    return found


def _texts(value: object) -> set[str]:
    if isinstance(value, str):
        return {value, *value.split("::")}
    if isinstance(value, (tuple, list)):
        return {text for item in value for text in _texts(item)}
    return set()


def _undeclared(every: Sequence[object], units: Sequence[CudaUnit], declared: set[str]) -> str:
    """A variable that device code uses and that neither the texts nor headers that are known declare; or empty."""
    includes = [node.module for node in every if isinstance(node, ir.Import)]
    if not all(_HEADERS.match(path) for path in includes) or any(isinstance(node, ir.Opaque) for node in every):
        return ""
    for unit in units:
        if not _SPACES.issuperset(_DIRECTIVE.findall(unit.prepared)):
            return ""
        declared = declared.union(*(_WORD.findall(names) for names in _TOGETHER.findall(unit.prepared)))
    for func in every:
        if isinstance(func, ir.FuncDef) and func.kind in ("global", "device"):
            for name in _operands(func):
                plain = name[0].islower() and not (name[0] == "k" and name[1:2].isupper())
                if plain and name not in declared and name not in _GIVEN and not _is_type(name):
                    return name
    return ""


def _is_type(name: str) -> bool:
    return dtypes.from_cpp(name) is not None or dtypes.vector_from_cpp(name) is not None or name.endswith("_t")


def _operands(func: ir.FuncDef) -> list[str]:
    """The plain names that are values in a function: not called, not in types, and not handed on as they are, as
    functions of headers may be."""
    found: list[str] = []
    stack: list[object] = list(func.body or ())
    while stack:
        node = stack.pop()
        if isinstance(node, ir.Name):
            found += [node.id] if "::" not in node.id else []
        elif isinstance(node, ir.Call):
            named = isinstance(node.func, (ir.Name, ir.TypeRef))
            of_type = named and getattr(node.func, "id", getattr(node.func, "name", "")) in ("sizeof", "alignof")
            stack += [] if of_type else [arg for arg in node.args if not isinstance(arg, ir.Name)]
            stack += [] if named else [node.func]
        elif not isinstance(node, (ir.TypeRef, ir.Asm)):
            stack += children(node)
    return found
