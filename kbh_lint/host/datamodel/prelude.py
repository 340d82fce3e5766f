"""Classes and functions of the standard library that are followed as Python of their own: small texts that say what
they do to what they are given. Each is run when a program first names something in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kbh_lint import ir
from kbh_lint.host.values.frames import Frame
from kbh_lint.values import Env

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

NATIVE: dict[str, Callable[..., Any]] = {}  # what the texts call of ours, by name; filled where it is written
LANGUAGE = "library"  # of places in these texts, which are no places of the submission

_TEXTS = {
    "functools": '''
class singledispatch:
    def __init__(self, func):
        self.registry = {object: func}
        self.__wrapped__ = func
    def register(self, cls, func=None):
        if func is None:
            if isinstance(cls, type):
                return lambda func: self.register(cls, func)
            func = cls
            cls = next(iter(func.__annotations__.values()))
        for kind in (cls,) if isinstance(cls, type) else cls.__args__:
            self.registry[kind] = func
        return func
    def find(self, test):
        best = object
        for kind in self.registry:
            if test(kind) and issubclass(kind, best):
                best = kind
        return self.registry[best]
    def dispatch(self, cls):
        return self.find(lambda kind: issubclass(cls, kind))
    def __call__(self, *args, **kwargs):
        return self.find(lambda kind: isinstance(args[0], kind))(*args, **kwargs)

class singledispatchmethod:
    def __init__(self, func):
        self.dispatcher = singledispatch(func)
    def register(self, cls, func=None):
        return self.dispatcher.register(cls, func)
    def __get__(self, owner, cls=None):
        def method(*args, **kwargs):
            found = self.dispatcher.find(lambda kind: isinstance(args[0], kind))
            if isinstance(found, (classmethod, staticmethod)):
                return found.__get__(owner, cls)(*args, **kwargs)
            return found(owner, *args, **kwargs)
        return method

def total_ordering(cls):
    if hasattr(cls, "__lt__"):
        more = {"__gt__": lambda a, b: not (a < b or a == b), "__le__": lambda a, b: a < b or a == b,
                "__ge__": lambda a, b: not a < b}
    elif hasattr(cls, "__gt__"):
        more = {"__lt__": lambda a, b: not (a > b or a == b), "__ge__": lambda a, b: a > b or a == b,
                "__le__": lambda a, b: not a > b}
    elif hasattr(cls, "__le__"):
        more = {"__ge__": lambda a, b: not a <= b or a == b, "__lt__": lambda a, b: a <= b and not a == b,
                "__gt__": lambda a, b: not a <= b}
    else:
        more = {"__le__": lambda a, b: not a >= b or a == b, "__gt__": lambda a, b: a >= b and not a == b,
                "__lt__": lambda a, b: not a >= b}
    for name, method in more.items():
        if not hasattr(cls, name):
            setattr(cls, name, method)
    return cls

class partialmethod:
    def __init__(self, func, *args, **keywords):
        self.func, self.args, self.keywords = func, args, keywords
    def __get__(self, owner, cls=None):
        return lambda *args, **kwargs: self.func(owner, *self.args, *args, **{**self.keywords, **kwargs})
''',
    "contextlib": '''
class ContextDecorator:
    def _recreate_cm(self):
        return self
    def __call__(self, func):
        def inner(*args, **kwargs):
            with self._recreate_cm():
                return func(*args, **kwargs)
        inner.__wrapped__ = func
        return inner

class AsyncContextDecorator:
    def __call__(self, func):
        async def inner(*args, **kwargs):
            async with self:
                return await func(*args, **kwargs)
        return inner

def decorated(make, func):
    def inner(*args, **kwargs):
        with make():
            return func(*args, **kwargs)
    inner.__wrapped__ = func
    return inner
''',
    "collections": '''
class ChainMap:
    def __init__(self, *maps):
        self.maps = list(maps) or [{}]
    def __missing__(self, key):
        raise KeyError(key)
    def __getitem__(self, key):
        for mapping in self.maps:
            if key in mapping:
                return mapping[key]
        return self.__missing__(key)
    def _merged(self):
        found = {}
        for mapping in reversed(self.maps):
            found.update(mapping)
        return found
    def get(self, key, default=None):
        return self[key] if key in self else default
    def __contains__(self, key):
        return any(key in mapping for mapping in self.maps)
    def __len__(self):
        return len(self._merged())
    def __iter__(self):
        return iter(self._merged())
    def __bool__(self):
        return any(self.maps)
    def __eq__(self, other):
        return self._merged() == dict(other)
    def keys(self):
        return self._merged().keys()
    def values(self):
        return self._merged().values()
    def items(self):
        return self._merged().items()
    def __setitem__(self, key, value):
        self.maps[0][key] = value
    def __delitem__(self, key):
        del self.maps[0][key]
    def update(self, *args, **kwargs):
        self.maps[0].update(*args, **kwargs)
    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]
    def pop(self, key, *default):
        return self.maps[0].pop(key, *default)
    def clear(self):
        self.maps[0].clear()
    def new_child(self, m=None, **kwargs):
        return ChainMap(kwargs if m is None else m, *self.maps)
    @property
    def parents(self):
        return ChainMap(*self.maps[1:])
    def copy(self):
        return ChainMap(self.maps[0].copy(), *self.maps[1:])
''',
    "contextvars": '''
_variables = []
_NOTHING = object()

class Token:
    MISSING = _NOTHING
    def __init__(self, var, old):
        self.var, self.old_value = var, old

class ContextVar:
    def __init__(self, name, *, default=_NOTHING):
        self.name, self._default, self._value = name, default, _NOTHING
        _variables.append(self)
    def get(self, *default):
        if self._value is not _NOTHING:
            return self._value
        if default:
            return default[0]
        if self._default is _NOTHING:
            raise LookupError(self)
        return self._default
    def set(self, value):
        token = Token(self, self._value)
        self._value = value
        return token
    def reset(self, token):
        self._value = token.old_value

class Context:
    def __init__(self):
        self._held = []
    def run(self, func, *args, **kwargs):
        before = [(var, var._value) for var in _variables]
        for var in _variables:
            var._value = _NOTHING
        for var, value in self._held:
            var._value = value
        try:
            return func(*args, **kwargs)
        finally:
            self._held = [(var, var._value) for var in _variables]
            for var, value in before:
                var._value = value
    def get(self, var, default=None):
        for held, value in self._held:
            if held is var and value is not _NOTHING:
                return value
        return default
    def __getitem__(self, var):
        return self.get(var)

def copy_context():
    made = Context()
    made._held = [(var, var._value) for var in _variables]
    return made
''',
    "string": '''
class Template:
    delimiter = "$"
    def __init__(self, template):
        self.template = template
    def substitute(self, mapping={}, /, **kwargs):
        return __substituted__(self.template, {**mapping, **kwargs}, self.delimiter, False)
    def safe_substitute(self, mapping={}, /, **kwargs):
        return __substituted__(self.template, {**mapping, **kwargs}, self.delimiter, True)

class Formatter:
    def format(self, text, /, *args, **kwargs):
        return text.format(*args, **kwargs)
    def vformat(self, text, args, kwargs):
        return text.format(*args, **kwargs)
''',
    "struct": '''
class Struct:
    def __init__(self, format):
        self.format, self.size = format, __packing__("calcsize", format)
    def pack(self, *values):
        return __packing__("pack", self.format, *values)
    def unpack(self, data):
        return __packing__("unpack", self.format, data)
    def unpack_from(self, data, offset=0):
        return __packing__("unpack_from", self.format, data, offset)
''',
    "io": '''
class StringIO:
    def __init__(self, initial="", newline=None):
        self._parts, self._at, self.closed = [initial] if initial else [], 0, False
    def write(self, text):
        self._parts.append(text)
        return len(text)
    def writelines(self, lines):
        self._parts.extend(lines)
    def getvalue(self):
        return "".join(self._parts)
    def read(self, size=-1):
        left = self.getvalue()[self._at:]
        if size is not None and size >= 0:
            left = left[:size]
        self._at = self._at + len(left)
        return left
    def readlines(self):
        return self.read().splitlines(True)
    def __iter__(self):
        return iter(self.readlines())
    def seek(self, at, whence=0):
        self._at = at if whence == 0 else len(self.getvalue())
        return self._at
    def tell(self):
        return self._at
    def truncate(self, size=None):
        self._parts = [self.getvalue()[:self._at if size is None else size]]
    def flush(self):
        return None
    def close(self):
        self.closed = True
    def __enter__(self):
        return self
    def __exit__(self, *args):
        self.close()
''',
    "array": '''
class array:
    def __init__(self, typecode, items=()):
        self.typecode, self.itemsize, self._items = typecode, __packing__("calcsize", "=" + typecode), []
        if isinstance(items, (bytes, bytearray)):
            self.frombytes(items)
        else:
            self._items.extend(items)
    def __len__(self):
        return len(self._items)
    def __iter__(self):
        return iter(self._items)
    def __getitem__(self, key):
        return array(self.typecode, self._items[key]) if isinstance(key, slice) else self._items[key]
    def __setitem__(self, key, value):
        self._items[key] = value
    def __contains__(self, item):
        return item in self._items
    def __eq__(self, other):
        return isinstance(other, array) and self._items == other._items
    def append(self, item):
        self._items.append(item)
    def extend(self, items):
        self._items.extend(items)
    def pop(self, at=-1):
        return self._items.pop(at)
    def index(self, item):
        return self._items.index(item)
    def tolist(self):
        return list(self._items)
    fromlist = extend
    def tobytes(self):
        return __packing__("pack", "=%d%s" % (len(self._items), self.typecode), *self._items)
    def frombytes(self, data):
        count = len(data) // self.itemsize
        self._items.extend(__packing__("unpack", "=%d%s" % (count, self.typecode), data))
''',
    "asyncio": '''
class Queue:
    def __init__(self, maxsize=0):
        self._items = []
    async def put(self, item):
        self._items.append(item)
    def put_nowait(self, item):
        self._items.append(item)
    async def get(self):
        if not self._items:
            await __turn__(0)
        return self._items.pop(0)
    def get_nowait(self):
        return self._items.pop(0)
    def empty(self):
        return not self._items
    def qsize(self):
        return len(self._items)
    def task_done(self):
        return None
    async def join(self):
        await __turn__(0)

class Event:
    def __init__(self):
        self._set = False
    def set(self):
        self._set = True
    def clear(self):
        self._set = False
    def is_set(self):
        return self._set
    async def wait(self):
        if not self._set:
            await __turn__(0)
        return True
''',
}  # fmt: skip
_DEFINED = re.compile(r"^(?:class|def) (\w+)", re.MULTILINE)
PATHS = frozenset(f"{module}.{name}" for module, text in _TEXTS.items() for name in _DEFINED.findall(text))


@lru_cache(maxsize=len(_TEXTS))
def _lowered(module: str) -> ir.Module:
    from kbh_lint.frontends import python

    text = _TEXTS[module]
    return python.lower(text, unit=python.PythonUnit(module, text, language=LANGUAGE))


def value(interp: Run, path: str) -> Any:
    """What a path in `PATHS` names in this run."""
    module, _, name = path.rpartition(".")
    known: dict[str, Env] = interp.scopes.library
    if module not in known:
        known[module] = env = Env(dict(NATIVE))
        interp.block(_lowered(module).body, Frame(env, env, None, None))
    return known[module].vars[name]
