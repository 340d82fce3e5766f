"""`dataclass` as the standard library has it, at a fifth of what that costs at a start of the linter.

- `frozen=True` is a promise to mypy alone. A frozen class sets each field through `object.__setattr__`; that nobody
  assigns to a field is for mypy to say. Such a class compares and hashes as a frozen one does.
- A method is compiled when it is called first: of some 250 classes that a start defines, most are only named, and of
  others nobody compares or prints an object.

What is made is a dataclass to `dataclasses.replace`, `fields` and `is_dataclass`. Options are those that are used here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from dataclasses import MISSING
    from reprlib import recursive_repr
    from types import MemberDescriptorType, SimpleNamespace

    _PARAMS = SimpleNamespace(frozen=False)  # what a dataclass asks of those that it is derived from
    _UNSET = object()  # the default of a parameter whose value a factory makes

    def dataclass(
        made: type | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True, repr: bool = True,
        weakref_slot: bool = False,
    ) -> object:  # fmt: skip
        """Makes a class a record, as the module's head says; the arguments are those of `dataclasses.dataclass`."""

        def make(made: type) -> type:
            fields, own = _fields(made), vars(made)
            wanted = [
                ("__init__", _init, "__init__" not in own),
                ("__repr__", _repr, repr and "__repr__" not in own),
                ("__eq__", _eq, eq and "__eq__" not in own),
                ("__hash__", _hash, eq and frozen and own.get("__hash__") is None),
            ]
            plain = eq and not frozen and own.get("__hash__") is None
            made = _with_slots(made, tuple(fields), weakref_slot) if slots else made
            made.__dataclass_fields__, made.__dataclass_params__ = fields, _PARAMS
            if "__match_args__" not in own:
                made.__match_args__ = tuple(name for name, field in fields.items() if field.init)
            for name, write, missing in wanted:
                if missing:
                    _later(made, name, write)
            if plain:
                made.__hash__ = None
            return made

        return make if made is None else make(made)

    def _fields(made: type) -> dict[str, dataclasses.Field]:
        """The fields of a class, those that it inherits first; leaves their defaults as its attributes."""
        found: dict[str, dataclasses.Field] = {}
        for base in made.__mro__[-1:0:-1]:
            found |= getattr(base, "__dataclass_fields__", {})
        for name, kind in made.__annotations__.items():
            if isinstance(kind, str) and kind.startswith("ClassVar"):
                continue
            default = getattr(made, name, MISSING)
            if isinstance(default, dataclasses.Field):
                field = default
                if field.default is MISSING:
                    delattr(made, name)
                else:
                    setattr(made, name, field.default)
            else:  # of a field that a class with slots has too, what is found there is its place
                field = dataclasses.field(default=MISSING if isinstance(default, MemberDescriptorType) else default)
            field.name, field.type, field.kw_only, field._field_type = name, kind, False, dataclasses._FIELD
            found[name] = field
        return found

    def _with_slots(made: type, names: tuple[str, ...], weakly: bool) -> type:
        """The class made anew, with slots for its own fields."""
        inherited = {name for base in made.__mro__[1:-1] for name in vars(base).get("__slots__", ())}
        held = {name: value for name, value in vars(made).items() if name not in names}
        for name in ("__dict__", "__weakref__"):
            held.pop(name, None)
        wanted = (*names, "__weakref__") if weakly else names
        held["__slots__"] = tuple(name for name in wanted if name not in inherited)
        again = type(made)(made.__name__, made.__bases__, held)
        again.__qualname__ = made.__qualname__
        return again

    def _later(owner: type, name: str, write: object) -> None:
        """Gives a class a method that is compiled when it is called first, and stands in the place of this one then."""
        known = []

        def method(*args: object, **named: object) -> object:
            if not known:
                text, scope = write(owner)
                exec(text, scope)
                compiled = scope[name]
                compiled.__qualname__ = f"{owner.__qualname__}.{name}"
                compiled.__module__ = owner.__module__
                known.append(recursive_repr()(compiled) if name == "__repr__" else compiled)
                if vars(owner).get(name) is method:
                    setattr(owner, name, known[0])
            return known[0](*args, **named)

        method.__name__, method.__qualname__ = name, f"{owner.__qualname__}.{name}"
        setattr(owner, name, method)

    def _init(owner: type) -> tuple[str, dict[str, object]]:
        fields = owner.__dataclass_fields__
        me = "__self" if "self" in fields else "self"
        scope: dict[str, object] = {"_unset": _UNSET}
        params, body = [me], []
        for name, field in fields.items():
            if field.default_factory is not MISSING:
                scope[f"_made_{name}"] = field.default_factory
                made = f"_made_{name}()"
                if field.init:
                    params.append(f"{name}=_unset")
                    made = f"{made} if {name} is _unset else {name}"
                body.append(f" {me}.{name} = {made}")
                continue
            if field.default is not MISSING:
                scope[f"_default_{name}"] = field.default
            if field.init:
                params.append(name if field.default is MISSING else f"{name}=_default_{name}")
                body.append(f" {me}.{name} = {name}")
            elif field.default is not MISSING:
                body.append(f" {me}.{name} = _default_{name}")
        if hasattr(owner, "__post_init__"):
            body.append(f" {me}.__post_init__()")
        return "\n".join([f"def __init__({', '.join(params)}):", *(body or [" pass"])]), scope

    def _repr(owner: type) -> tuple[str, dict[str, object]]:
        shown = ", ".join(
            f"{name}={{self.{name}!r}}" for name, field in owner.__dataclass_fields__.items() if field.repr
        )
        return f'def __repr__(self):\n return f"{{self.__class__.__qualname__}}({shown})"', {}

    def _eq(owner: type) -> tuple[str, dict[str, object]]:
        names = [name for name, field in owner.__dataclass_fields__.items() if field.compare]
        mine, others = _tuple("self", names), _tuple("other", names)
        same = f" if other.__class__ is self.__class__:\n  return {mine} == {others}"
        return f"def __eq__(self, other):\n{same}\n return NotImplemented", {}

    def _hash(owner: type) -> tuple[str, dict[str, object]]:
        fields = owner.__dataclass_fields__.items()
        names = [name for name, field in fields if (field.compare if field.hash is None else field.hash)]
        return f"def __hash__(self):\n return hash({_tuple('self', names)})", {}

    def _tuple(owner: str, names: list[str]) -> str:
        return f"({''.join(f'{owner}.{name}, ' for name in names)})"
