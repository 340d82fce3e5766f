"""The standard library, as far as submissions use it to put their kernels together."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Sym, Value
from kbh_lint.host.datamodel import exceptions, iteration, modules, names, operators, ordering, shown, subscripts
from kbh_lint.host.effects import builds, decoding, environ, outside
from kbh_lint.host.python import lifetimes
from kbh_lint.host.values import bounds, keys, taint, unknowns
from kbh_lint.host.values.containers import Defaults, Ring, Tally
from kbh_lint.host.values.decisions import FORK
from kbh_lint.host.values.frames import Handler, builtin
from kbh_lint.host.values.library_objects import ClassMethod, Property, StaticMethod
from kbh_lint.host.values.named_objects import CacheDecorator
from kbh_lint.host.values.objects import Bound, ClassV, LibObject, Memo, Partial, ProcessNumber
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.source import embedded
from kbh_lint.source.embedded import concat

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def functools_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    if name == "partial" and args:
        return Partial(args[0], tuple(args[1:]), kwargs)
    if name in ("lru_cache", "cache"):
        if args and isinstance(args[0], (Func, Bound, ClassV)):
            return Memo(args[0])
        given = args[0] if args else kwargs.get("maxsize")
        return CacheDecorator("functools.lru_cache.decorator", {"maxsize": given})
    if name == "wraps":
        return builtin(lambda i, a, k, where: _wrapping(a[0], args[0] if args else None))
    if name == "reduce" and len(args) > 1:
        items = list(iteration.iterate(interp, args[1], loc))
        total = args[2] if len(args) > 2 else items.pop(0) if items else None
        for item in items:
            total = interp.call(args[0], [total, item], {}, loc)
        return total
    if name == "cmp_to_key" and args:
        return builtin(lambda i, a, k, where: ordering.Ordered(i, a[0], args[0], where))
    if name == "cached_property" and args:
        return Property(args[0], cached=True)
    return Unknown((), path)


def _wrapping(wrapper: Value, wrapped: Value) -> Any:
    if isinstance(wrapper, Func):
        wrapper.attrs["__wrapped__"] = wrapped
        if isinstance(wrapped, Func):
            named = {"__name__": wrapped.node.name, "__doc__": wrapped.node.doc, **wrapped.attrs}
            wrapper.attrs.update({key: value for key, value in named.items() if key != "__wrapped__"})
    return wrapper


def operator_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """operator: getters become functions, operators are what they are in code."""
    name = path.rsplit(".", 1)[-1]
    if name == "attrgetter" and args and all(isinstance(arg, str) for arg in args):
        return builtin(lambda i, a, k, where: _attributes(i, a[0], args, where))
    if name == "itemgetter" and len(args) == 1:
        return builtin(lambda i, a, k, where: subscripts.get_item(i, a[0], args[0], where))
    if name == "itemgetter" and args:
        return builtin(lambda i, a, k, where: tuple(subscripts.get_item(i, a[0], key, where) for key in args))
    if name == "call" and args:
        return interp.call(args[0], args[1:], kwargs, loc)
    if name == "setitem" and len(args) == 3:
        return subscripts.set_item(interp, args[0], args[1], args[2], loc)
    if name == "getitem" and len(args) == 2:
        return subscripts.get_item(interp, args[0], args[1], loc)
    if name in ("neg", "pos", "invert") and len(args) == 1:
        return operators.unary(interp, {"neg": "-", "pos": "+", "invert": "~"}[name], args[0], loc)
    if name in ("truth", "not_") and len(args) == 1:
        return interp.truth(args[0], loc) is (name == "truth")
    if name in ("concat", "iconcat") and len(args) == 2:
        return (operators.binary if name == "concat" else operators.inplace)(interp, "+", args[0], args[1], loc)
    if name == "delitem" and len(args) == 2:
        return interp.call(interp.get_attr(args[0], "__delitem__", loc), [args[1]], {}, loc)
    if name == "contains" and len(args) == 2:
        return operators.compare(interp, "in", args[1], args[0], loc)
    dunder = name if name.startswith("__") else f"__{name.rstrip('_')}__"
    if dunder in operators.DUNDERS and len(args) == 2:
        return operators.dunder(interp, args[0], dunder, args[1], loc)
    if dunder in _COMPARED and len(args) == 2:
        return operators.compare(interp, _COMPARED[dunder], args[0], args[1], loc)
    if name == "methodcaller" and args:
        called, rest = shown.show(args[0]), args[1:]
        return builtin(lambda i, a, k, where: i.call(i.get_attr(a[0], called, where), rest, kwargs, where))
    return unknown_call(interp, path, args, kwargs, loc)


_COMPARED = {"__eq__": "==", "__ne__": "!=", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">=",
             "__is__": "is", "__is_not__": "is not"}  # fmt: skip


def _attributes(interp: Run, owner: Value, paths: list[str], loc: ir.Loc | None) -> Any:
    """What operator.attrgetter gives of an object: an attribute, or a tuple of several."""
    found: list[Any] = []
    for path in paths:
        value = owner
        for name in path.split("."):
            value = interp.get_attr(value, name, loc)
        found.append(value)
    return found[0] if len(found) == 1 else tuple(found)


def collections_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    if name == "defaultdict":
        made = Defaults(interp.call(interp.builtins["dict"], args[1:], kwargs, loc))
        made.factory = args[0] if args else None
        return made
    if name in ("OrderedDict", "WeakValueDictionary", "WeakKeyDictionary"):
        return interp.call(interp.builtins["dict"], args, kwargs, loc)
    if name == "deque":
        ring = Ring(iteration.materialise(interp, args[0], loc) if args else ())
        longest = args[1] if len(args) > 1 else kwargs.get("maxlen")
        ring.longest = longest if isinstance(longest, int) else None
        del ring[: max(len(ring) - longest, 0) if isinstance(longest, int) else 0]
        return ring
    if name == "namedtuple" and len(args) > 1:
        return named_tuple(interp, args, kwargs, loc)
    return LibObject.by_path(path, {}, tuple(args), kwargs)


def named_tuple(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """The class that collections.namedtuple or typing.NamedTuple makes of a name and fields."""
    given = (
        args[1].replace(",", " ").split() if isinstance(args[1], str) else iteration.materialise(interp, args[1], loc)
    )
    fields = [str(field[0] if isinstance(field, (tuple, list)) else field) for field in given]
    values = iteration.materialise(interp, kwargs.get("defaults") or (), loc)
    defaults = dict(zip(fields[len(fields) - len(values) :], values, strict=False))
    return ClassV(shown.show(args[0]), (Sym("typing.NamedTuple"),), Env(defaults), None, fields=fields)


def counter(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """collections.Counter, of a dict or of items that are counted."""
    if args and isinstance(args[0], dict):
        return Tally(bounds.visited(interp, args[0]))
    made = Tally(kwargs)
    for item in iteration.materialise(interp, args[0], loc) if args else ():
        made[keys.check_key(item)] = made.get(item, 0) + 1
    return made


def weakref_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Weak references and finalizers, and containers of them, which keep what they hold."""
    name = path.rsplit(".", 1)[-1]
    if name.endswith("Dictionary"):
        return {}
    if name in ("ref", "WeakMethod", "finalize") and args:
        return lifetimes.call(interp, path, args, kwargs, loc)
    return first(interp, path, args, kwargs, loc)


_OF_NAMES = frozenset(  # of os.path: they tell of a name no more than that name
    "join dirname basename split splitext splitdrive abspath realpath expanduser normpath fspath expandvars relpath "
    "commonpath commonprefix normcase samefile".split()
)


def os_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    if name in _OF_NAMES and taint.source(*args) is not None:
        return unknowns.merged(interp, *args, why=path)
    text = [a if isinstance(a, str) else shown.show(a) for a in args if not isinstance(a, Unknown)]
    if name == "join":
        out = ""
        for part in text:
            out = part if part.startswith("/") or not out else concat((out, "/", part))
        return out
    if name == "dirname" and text:
        return builds.folder_of(text[0])
    if name == "basename" and text:
        return text[0].rpartition("/")[2]
    if name == "splitext" and text:
        return posixpath.splitext(text[0])
    if name in ("abspath", "realpath", "expanduser", "normpath", "fspath", "expandvars") and text:
        return text[0]
    if name in ("exists", "isfile", "isdir", "islink", "access") and text:
        return builds.exists(interp, text[0])
    if name == "putenv" and len(args) > 1:
        return environ.put(interp, args[0], args[1])
    if name in ("putenv", "unsetenv"):
        return environ.pop(interp, args[0], None) if name == "unsetenv" and args else None
    if name == "getenv" and args:
        return environ.get(interp, args[0], args[1] if len(args) > 1 else kwargs.get("default"), loc)
    if name in ("getpid", "getcwd"):
        return outside.HOME if name == "getcwd" else ProcessNumber(interp.process.id)
    if name in ("fork", "forkpty"):
        return 0 if FORK in interp.decisions.forced else interp.process.id + 1
    if name in ("open", "dup", "memfd_create", "pidfd_open", "pipe", "openpty", "eventfd"):
        return tuple(outside.own_descriptor() for _ in range(2)) if name == "pipe" else outside.own_descriptor()
    if name in ("listdir", "scandir", "walk", "readlink") and text and taint.about_process(text[0]):
        return taint.asked(interp, f"os.{name}", taint.PROCESS, loc)
    if name in ("makedirs", "mkdir", "remove", "unlink", "rename", "replace", "chmod", "close"):
        return None
    if name in ("system", "popen"):
        builds.process(interp, path, args, kwargs, loc)
        return 0 if name == "system" else Unknown((), path)
    return Unknown((), path)


def sys_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    if name == "exit":
        exceptions.raise_("SystemExit", args, loc)
    return Unknown((), path)


def importlib_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    if name in ("import_module", "__import__") and args and isinstance(args[0], str):
        target = str(args[0])
        return modules.resolve(
            interp, target if name == "import_module" or kwargs.get("fromlist") else target.split(".")[0], loc
        )
    if name == "module_from_spec" and args and isinstance(args[0], LibObject) and "file" in args[0].attrs:
        return decoding.load_module(interp, args[0].attrs["file"], loc)
    if name == "module_from_spec":
        return args[0] if args else Unknown()
    if name == "SourceFileLoader":
        return LibObject.by_path(path, {}, tuple(args), kwargs)
    if name == "spec_from_file_location":
        return LibObject.by_path(
            "importlib.spec", {"file": shown.show(args[1] if len(args) > 1 else kwargs.get("location", ""))}
        )
    if name == "find_spec":
        return LibObject.by_path("importlib.spec", {"args": tuple(args), "path": shown.show(args[-1]) if args else ""})
    return Unknown((), path)


def function_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """types.FunctionType(code, globals, name, argdefs): a function of the code of another."""
    func = args[0].attrs.get("func") if args and isinstance(args[0], LibObject) else None
    scope = args[1] if len(args) > 1 else kwargs.get("globals")
    if not isinstance(func, Func) or not isinstance(scope, dict):
        return Unknown((), path)
    made = Func(func.node, func.env if scope is names.globals_of(interp, func).vars else Env(scope))
    given = args[3] if len(args) > 3 else kwargs.get("argdefs")
    interp.set_attr(made, "__defaults__", given, loc)
    return made


def plain(value: Value) -> Handler:
    """A call that always gives the same."""
    return lambda interp, path, args, kwargs, loc: value


def unknown_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """A harmless call whose result is not known."""
    return unknowns.merged(interp, *args, why=path, reading=path if path.startswith("hashlib.") else "")


def first(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Models a wrapper that returns what it is given, its first argument."""
    return args[0] if args else LibObject.by_path(path)


def made(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """An object of a library class."""
    return LibObject.by_path(path, {}, tuple(args), kwargs)


def text_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:

    if args and isinstance(args[0], str):
        if path.endswith("indent") and not path.endswith("dedent") and len(args) > 1 and isinstance(args[1], str):
            lines = embedded.split_lines(args[0]) if isinstance(args[0], embedded.Text) else args[0].splitlines(True)
            return embedded.concat([part for line in lines for part in ((args[1], line) if line.strip() else (line,))])
        return embedded.dedent(args[0]) if path.endswith("dedent") else args[0]
    return unknown_call(interp, path, args, kwargs, loc)


def descriptor_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    func = args[0] if args else None
    if path == "builtins.property":
        return Property(func, args[1] if len(args) > 1 else None)
    return StaticMethod(func) if path == "builtins.staticmethod" else ClassMethod(func)
