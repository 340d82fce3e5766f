"""C++ types inside a kernel: what a type name means where templates and aliases are bound."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir, values
from kbh_lint.cpp import layout, traits
from kbh_lint.cpp.domain import Type
from kbh_lint.kernels.core.value import NO_NAMES, NOTHING, CType, V
from kbh_lint.kernels.languages.cuda import spaces
from kbh_lint.kernels.languages.cuda.templates import Scope, Types

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun


_ARRAYS = frozenset(
    {"array", "Array", "AlignedArray", "AlignedBuffer", "aligned_array", "ArrayEngine", "array_aligned"}
)
_BITS_TYPES = {"uint128_t": ("u32", 4), "__uint128_t": ("u32", 4), "__int128": ("u32", 4)}


class CudaTypes:
    """Resolves types; a type as a value is `V(const=CType)`."""

    def __init__(self, run: CudaRun) -> None:
        self.run = run
        self.plain_types: dict[int, tuple[ir.TypeRef, CType]] = {}  # the reference stays alive with its id
        self.cpp = Types(run)
        self.declarations: dict[tuple[int, str], V | values.CppType | None] = {}
        self.directives: tuple[str, ...] = ()  # `using namespace` in a body

    def resolve_type(self, ref: ir.TypeRef) -> CType:
        """The type that `ref` names here; an unknown type keeps its name."""
        known = self.plain_types.get(id(ref))
        if known is not None and ref.name not in self.run.frame.env:
            return known[1]
        base = self._named(ref)
        plain = not ref.args and not ref.member and base.decl is None and base.dtype != "?"
        if ref.pointers or ref.dims:
            sizes = tuple(map(self._size, ref.dims)) if base.dims == 0 else ()
            base = replace(base, pointers=base.pointers + ref.pointers, dims=base.dims + len(ref.dims), sizes=sizes)
            plain = plain and None not in sizes and all(isinstance(dim, ir.Const) for dim in ref.dims)
        if plain and ref.name not in self.run.frame.env and self.declaration(ref.name) is None:
            self.plain_types[id(ref)] = (ref, base)
        return base

    def _size(self, node: ir.Expr) -> int | None:
        """The size of a dimension of an array."""
        value = node.value if isinstance(node, ir.Const) else self.run.expressions.eval(node).const
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def _named(self, ref: ir.TypeRef) -> CType:
        name = ref.name
        last = name.rsplit("::", 1)[-1]
        if not ref.args and not ref.member:
            bound = self.bound_type(name)
            if bound is not None:
                return bound
        if last == "fragment" and ref.args:
            return self._fragment(ref)
        if last in _ARRAYS and ref.args:
            item = self.type_argument(ref.args[0])
            return replace(item, dims=item.dims + 1)
        if last == "make_signed_t" and ref.args:
            return self.type_argument(ref.args[0])
        if last == "decltype" and ref.args:
            value = self.run.expressions.eval(ref.args[0])
            return value.ct or CType(value.dtype)
        if not ("::" in name and (dtypes.from_cpp(name) or dtypes.vector_from_cpp(name))):
            found = self.cpp.classes.written(ref, self.cpp.here())
            if found is not None:
                kind: CType = found.const
                return kind
            if self.declaration(name) is not None:
                return CType(name="::".join((name, *ref.member)))
        if traits.is_choice(ref):
            return self.type_argument(ref.args[1])
        return self._builtin_type(name, last, ref)

    def _builtin_type(self, name: str, last: str, ref: ir.TypeRef) -> CType:
        vector = dtypes.vector_from_cpp(name)
        if vector is not None:
            return CType(vector[0], vector[1], name=last)
        scalar = dtypes.from_cpp(name)
        if scalar is not None:
            return CType(scalar, name=last)
        if last in _BITS_TYPES:
            return CType(*_BITS_TYPES[last], name=last)
        name = self.outside(name)
        return CType(name=name, args=tuple((str(i), self.type_argument(a)) for i, a in enumerate(ref.args[:4])))

    def outside(self, name: str) -> str:
        """The full name, as its library spells it, of a name that the text does not define; aliases of namespaces are
        resolved."""
        space, colons, rest = name.partition("::")
        local = self.run.frame.env.get(space) if colons else None
        if local is not None and isinstance(local.const, CType) and local.const.decl is None and local.const.name:
            name = f"{local.const.name}::{rest}"  # an alias of a namespace, of the kernel's own
        return spaces.outside(name, self.run.frame.outer, self.directives)

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """A context manager in which names are looked up in `scope`."""
        frame = self.run.frame
        saved, outer = frame.env, frame.outer
        frame.env, frame.outer = scope
        try:
            yield
        finally:
            frame.env, frame.outer = saved, outer

    def declaration(self, name: str) -> V | values.CppType | None:
        """What a type name is bound to: a template argument or local alias as a value, or a class or alias of the text;
        None for other names."""
        value = self.run.frame.env.get(name)
        if value is not None:
            return value if isinstance(value.const, CType) else None
        key = (id(self.run.frame.outer), name)
        if key not in self.declarations:
            self.declarations[key] = self._declaration(name)
        return self.declarations[key]

    def _declaration(self, name: str) -> V | values.CppType | None:
        try:
            found = self.run.frame.outer.lookup(name)
        except KeyError:
            return None
        if isinstance(found, (values.DType, values.TypeValue)):
            found = self.cpp.seen(found)
        if isinstance(found, V) and isinstance(found.const, CType):
            return found
        return found if isinstance(found, values.CppType) else None

    def bound_type(self, name: str) -> CType | None:
        """The type that an unqualified name means: a template parameter, an alias or a class; None for other names."""
        found = self.declaration(name)
        if isinstance(found, V):
            self.run.facts.decide(found)
            kind: CType = found.const
            return kind
        made = (
            None if found is None else self.cpp.classes.written(ir.TypeRef(name, (), found.node.loc), self.cpp.here())
        )
        return CType(name=name) if found is not None and made is None else None if made is None else made.const

    def this_type(self) -> CType | None:
        """The struct whose method is being executed; None outside of methods."""
        this = self.run.frame.this
        if isinstance(this, V) and this.ct is not None and this.ct.decl is not None:
            return this.ct
        return None

    def member_type(self, base: CType, member: str) -> CType | None:
        """The type called `member` that the class `base` declares; None where there is none."""
        found = self.cpp.classes.through(V(const=base), (member,), self.cpp.here())
        kind: CType | None = None if found is None else found.const
        return kind

    def _fragment(self, ref: ir.TypeRef) -> CType:
        """nvcuda::wmma::fragment<role, M, N, K, T, layout>."""
        role = getattr(ref.args[0], "name", getattr(ref.args[0], "id", "")).rsplit("::", 1)[-1]
        element = self.type_argument(ref.args[4]) if len(ref.args) > 4 else CType()
        dtype = element.dtype
        if element.name.endswith("tf32"):
            dtype = "tf32"
        return CType(dtype, name="fragment", role=role, args=(("rows", self.run.expressions.eval(ref.args[1]).const),))

    def type_argument(self, node: object) -> CType:
        """The type that a template argument names."""
        if isinstance(node, ir.TypeRef):
            return self.resolve_type(node)
        if isinstance(node, ir.Name):
            return self.resolve_type(ir.TypeRef(node.id, (), node.loc))
        if isinstance(node, ir.Attr) and isinstance(node.value, ir.TypeRef):
            base = self.resolve_type(node.value)
            return self.member_type(base, node.name) or CType(name=node.name)
        return CType()

    def template_value(self, node: ir.Expr, kind: str) -> V:
        """The value of a template argument of a `kind`: a type, or a constant."""
        if kind == "type":
            return V(const=self.type_argument(node), deps=self._type_deps(node))
        if isinstance(node, ir.TypeRef) and not node.args and not node.pointers:
            return self.run.expressions.eval(ir.Name(node.name, node.loc))
        return self.run.expressions.eval(node)

    def _type_deps(self, node: object) -> frozenset[str]:
        name = getattr(node, "name", getattr(node, "id", ""))
        value = self.run.frame.env.get(name) or self.run.frame.outer.get(name)
        return value.deps if isinstance(value, V) else NO_NAMES

    def argument_value(self, value: object, name: str) -> V:
        """The value of the template argument `name` that the launch gives."""
        deps = frozenset((name,))
        if isinstance(value, values.TypeValue):
            saved = self.run.frame.outer
            self.run.frame.outer = value.env
            try:
                return V(const=self.resolve_type(value.ref), deps=deps)
            finally:
                self.run.frame.outer = saved
        if isinstance(value, values.DType):
            return V(const=CType(value.name), deps=deps)
        if isinstance(value, (bool, int, float)):
            return V("bool" if isinstance(value, bool) else "i32", const=value, deps=deps)
        if isinstance(value, values.Scalar) and value.value is not values.UNKNOWN:
            return V("i32", const=value.value, deps=deps)
        if value is values.UNKNOWN or value is None:
            return V(deps=deps)
        return V(const=value, deps=deps)

    def size_of(self, ct: CType, aligned: bool = False) -> V:
        """The value of `sizeof(T)` or, if `aligned`, of `alignof(T)`, as a value; unknown where the type's size is."""
        sizes = ct.sizes if ct.dims and not aligned else (None,) * ct.dims
        key = self.cpp.key(V(const=replace(ct, dims=0, sizes=())))
        found = (layout.alignment if aligned else layout.size)(key) if isinstance(key, Type) else None
        found = layout.array(found, sizes) if ct.dims else found
        return V("u64", const=NOTHING if found is None else found)


@lru_cache(maxsize=2048)
def element(ct: CType | None) -> CType:
    """The type of the elements of a pointer or array."""
    if ct is None:
        return CType()
    if ct.dims:
        return replace(ct, dims=ct.dims - 1, sizes=ct.sizes[1:])
    return replace(ct, pointers=max(ct.pointers - 1, 0))


@lru_cache(maxsize=2048)
def pointer_to(ct: CType) -> CType:
    """The type of a pointer to `ct`."""
    return replace(ct, pointers=ct.pointers + 1)


def is_pointer(ct: CType | None) -> bool:
    """Whether values of this type are addresses: pointers and arrays."""
    return ct is not None and (ct.pointers > 0 or ct.dims > 0)
