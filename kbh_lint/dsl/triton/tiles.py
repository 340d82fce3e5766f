"""Loads, stores, descriptors and the shapes of tiles in Triton."""

from __future__ import annotations

from kbh_lint.kernels.core.flags import only_reads
from kbh_lint.kernels.core.joins import broadcast as broadcasted
from kbh_lint.kernels.core.joins import mix
from kbh_lint.kernels.core.origins import CLOCK, flagged, union
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, Mul, Shape, Splat, V, constant, leaves
from kbh_lint.kernels.languages.python.call import Call, first
from kbh_lint.kernels.languages.python.kept_totals import added_to

# --- memory ---


def load(call: Call) -> V:
    """The value of `tl.load(pointer, mask, other, ...)`."""
    pointer = call.get(0, "pointer") or UNKNOWN_V
    made = call.m.memory.load(pointer, "?", call.loc)
    policy = call.get(6, "eviction_policy")
    if policy is not None and policy.const == "evict_last":
        call.m.facts.add_hint(pointer, call.loc)
    for position, name in ((1, "mask"), (2, "other")):
        extra = call.get(position, name)
        if extra is not None and extra.origins:
            made = made.with_(origins=union(made.origins, flagged(extra.origins, "index")))
    flag = bool(call.m.flags.initial) and pointer.shape in (None, ())  # a number that is known at the start
    if call.m.ranges.given:
        return call.m.ranges.masked(made, call.get(2, "other"))
    return made if flag else made.with_(const=NOTHING)


def store(call: Call) -> V:
    """Models `tl.store(pointer, value, mask)`."""
    pointer, value = call.get(0, "pointer") or UNKNOWN_V, call.get(1, "value") or UNKNOWN_V
    mask = call.get(2, "mask") or UNKNOWN_V
    call.m.memory.target = call.node
    with call.m.sides.hanging(mask, call.loc):
        call.m.memory.store(pointer, value, call.loc)
    call.m.memory.target = None
    added_to(call, pointer, value)
    call.m.facts.add_choice(mask, call.loc)
    return constant(None)


_ATOMICS = {"atomic_add": "atomicAdd", "atomic_xchg": "atomicExch", "atomic_cas": "atomicCAS"}


def atomic(call: Call) -> V:
    """The value of an atomic operation, such as `tl.atomic_add(pointer, val, mask)`, which is executed."""
    pointer, value = call.args[0] if call.args else UNKNOWN_V, call.get(1, "val") or UNKNOWN_V
    m, name = call.m, call.name
    for extra in [*call.args[1:], *call.kwargs.values()]:  # a mask, or what is compared
        m.facts.add_choice(extra, call.loc)
    if only_reads(name, call.args[1:]):
        return m.memory.load(pointer, "?", call.loc)
    left = m.flags.after_atomic(_ATOMICS.get(name, ""), pointer, call.args)
    if left is not None:
        m.memory.store(pointer, left, call.loc)
        return m.memory.load(pointer, "?", call.loc)
    if name == "atomic_cas":
        value = call.get(2, "val") or UNKNOWN_V
    if name == "atomic_add":
        value = m.products.add_in_memory(value, pointer.dtype, call.loc)
    m.memory.store(pointer, value, call.loc)
    made = m.memory.load(pointer, "?", call.loc)
    return made.with_(origins=union(made.origins, value.origins))


def block_pointer(call: Call) -> V:
    """The value of `tl.make_block_ptr(base, shape, strides, offsets, ...)`."""
    base = call.get(0, "base") or UNKNOWN_V
    offsets = call.get(3, "offsets")
    origins = base.origins
    for value in leaves(offsets) if offsets is not None else ():
        origins = union(origins, value.origins)
    return base.with_(shape=call.shape(call.get(4, "block_shape")), origins=origins)


def descriptor(call: Call) -> V:
    """The value of `tl.make_tensor_descriptor(base, shape, strides, block_shape)`."""
    base = call.get(0, "base") or UNKNOWN_V
    return base.with_(shape=call.shape(call.get(3, "block_shape")))


def advance(call: Call) -> V:
    """The value of `tl.advance(base, offsets)`."""
    base = call.get(0, "base") or UNKNOWN_V
    origins = base.origins
    for value in call.args[1:] + list(call.kwargs.values()):
        for leaf in leaves(value):
            origins = union(origins, leaf.origins)
    return base if origins is base.origins else base.with_(origins=origins)


def descriptor_load(base: V, call: Call) -> V:
    """The value of `descriptor.load(offsets)` and the like."""
    shape = base.shape or None
    for value in call.args:
        for leaf in leaves(value):
            if leaf.origins and base.cells:
                base = base.with_(origins=union(base.origins, leaf.origins))
    return call.m.memory.load(base, "?", call.loc).with_(shape=shape, const=NOTHING)


def descriptor_store(base: V, call: Call) -> V:
    """Models `descriptor.store(offsets, value)`, `descriptor.scatter(value, ...)` and `pointer.store(value, mask)`."""
    for extra in [*call.args, *call.kwargs.values()]:
        for leaf in leaves(extra):
            call.m.facts.add_choice(leaf, call.loc)
    at = 1 if call.args and isinstance(call.args[0].x, tuple) else 0
    value = call.get(at, "value") or UNKNOWN_V
    call.m.memory.target = call.node
    call.m.memory.store(base, value, call.loc)
    call.m.memory.target = None
    added_to(call, base, value)
    return constant(None)


def ragged_load(call: Call) -> V:
    """The value of `triton.tools.ragged_tma.load_ragged(descriptor, start, size, coordinates)`."""
    return descriptor_load(first(call), Call(call.m, call.args[1:], call.kwargs, call.node))


def ragged_store(call: Call) -> V:
    """Models `triton.tools.ragged_tma.store_ragged(descriptor, start, size, coordinates, data)`."""
    for extra in [*call.args, *call.kwargs.values()]:
        for leaf in leaves(extra):
            call.m.facts.add_choice(leaf, call.loc)
    call.m.memory.store(first(call), call.get(4, "data") or UNKNOWN_V, call.loc)
    return constant(None)


def experimental_load(call: Call) -> V:
    """The value of an experimental load through a descriptor."""
    base = call.args[0] if call.args else UNKNOWN_V
    dtype = call.dtype(3, "dtype")
    return call.m.memory.load(base, dtype, call.loc).with_(shape=call.shape(call.get(2, "shape")), const=NOTHING)


def experimental_store(call: Call) -> V:
    """Models an experimental store through a descriptor."""
    if len(call.args) > 1:
        call.m.memory.store(call.args[0], call.args[1], call.loc)
    return constant(None)


# --- making tiles ---


def index_tile(call: Call) -> V:
    """The value of `tl.arange(start, end)`."""
    low, high = call.get(0, "start"), call.get(1, "end")
    size: int | None = None
    if high is not None:
        call.m.tiles.sized(high)
    if low is not None and high is not None and isinstance(low.const, int) and isinstance(high.const, int):
        size = high.const - low.const
        call.m.tiles.tile((size,), [low, high])
    deps = (low.deps if low else frozenset()) | (high.deps if high else frozenset())
    if call.m.ranges.given and size and low is not None and isinstance(low.const, int):
        return call.m.ranges.counted((size,), low.const, low.const + size - 1)
    return V("i32", "i32", shape=(size,), deps=deps)


def scalar_index(call: Call) -> V:
    """The value of `tl.program_id(axis)` or `tl.num_programs(axis)`."""
    return call.m.ranges.counted(()) if call.m.ranges.given else V("i32", "i32", shape=())


def clock(call: Call) -> V:
    """The value of `tl.extra.cuda.globaltimer()`."""
    return V("i64", "i64", CLOCK, shape=())


def filled(call: Call) -> V:
    """The value of `tl.full(shape, value, dtype)`."""
    value, shape = call.get(1, "value"), _made(call)
    dtype = call.dtype(2, "dtype", value.dtype if value is not None else "?")
    made = V(dtype, dtype, shape=shape)
    if value is not None and value.origins:
        converted = call.m.numbers.convert(value, dtype, call.loc)
        made = converted.with_(shape=shape, const=NOTHING)
    elif value is not None and type(value.const) is int:
        made = made.with_(x=Splat(value.const), deps=value.deps)
    return made


def zeros(call: Call) -> V:
    """The value of `tl.zeros(shape, dtype)`."""
    dtype = call.dtype(1, "dtype", "f32")
    return V(dtype, dtype, shape=_made(call))


def _made(call: Call) -> Shape | None:
    """The shape that a new tile is given."""
    value = call.get(0, "shape")
    shape = call.shape(value)
    if value is not None and shape is not None:
        call.m.tiles.tile(shape, leaves(value))
    return shape


def like(call: Call) -> V:
    """The value of `tl.zeros_like(x)` and the like."""
    value = first(call)
    return V(value.dtype, value.dtype, shape=value.shape)


# --- shape changes ---


def reshape(call: Call) -> V:
    """The value of `tl.reshape(x, shape)` and the like."""
    value = first(call)
    sizes = call.args[1:] or [v for k, v in call.kwargs.items() if k == "shape"]
    if len(sizes) == 1:
        shape = call.shape(sizes[0])
    else:
        shape = tuple(v.const if isinstance(v.const, int) else None for v in sizes)
    return value.with_(shape=shape)


def trans(call: Call) -> V:
    """The value of `tl.trans(x)`, with the order of axes or without."""
    value = first(call)
    order = call.args[1:]
    if value.shape is None:
        return value
    if len(order) == 1 and isinstance(order[0].x, tuple):
        order = list(order[0].x)
    if order:
        places = [v.const for v in order]
        if len(places) == len(value.shape) and all(isinstance(p, int) and 0 <= p < len(places) for p in places):
            return value.with_(shape=tuple(value.shape[p] for p in places))
        return value.with_(shape=None)
    return value.with_(shape=(*value.shape[:-2], *value.shape[:-3:-1]))


def expand(call: Call) -> V:
    """The value of `tl.expand_dims(x, axis)`."""
    value, axis = first(call), call.get(1, "axis")
    if value.shape is None or axis is None or not isinstance(axis.const, int):
        return value.with_(shape=None)
    place = axis.const if axis.const >= 0 else axis.const + len(value.shape) + 1
    return value.with_(shape=(*value.shape[:place], 1, *value.shape[place:]))


def broadcast(call: Call) -> V:
    """The value of `tl.broadcast_to(x, shape)`."""
    if len(call.args) == 2 and not isinstance(call.args[1].x, tuple):
        other = call.args[1]
        return call.args[0].with_(shape=broadcasted(call.args[0].shape, other.shape))
    return reshape(call)


def merged(call: Call) -> V:
    """The value of `tl.join(a, b)`, `tl.cat(a, b)` and the like."""
    made = [v for v in call.args if not isinstance(v.const, bool)]
    result = mix(made)
    twiddled = any(v.x is not None and not isinstance(v.x, (tuple, Mul)) for v in made)
    return result if twiddled else result.with_(x=None)


def split(call: Call) -> V:
    """The value of `tl.split(x)`: two values."""
    value = first(call)
    half = value.with_(shape=value.shape[:-1] if value.shape else None)
    return V(x=(half, half))


def same(call: Call) -> V:
    """Returns the first argument unchanged."""
    return first(call)
