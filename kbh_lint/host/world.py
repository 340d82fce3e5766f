"""The assumed world around a submission: objects, attributes, imports, classes, and what decides a branch.

The world is the one a benchmark run would meet: CUDA inputs, a GPU of the declared target, builds and imports succeed,
checks against a reference pass. What even that does not settle is a decision that runs can take both ways.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any

from kbh_lint import dtypes, ir
from kbh_lint.host import (
    artifacts,
    asking,
    containers,
    device,
    dress,
    enums,
    foreign,
    lanes,
    lib_objects,
    lib_triton,
    libraries,
    module_calls,
    modules,
    tampering,
    tensor_arguments,
    tensor_attributes,
    trace_nn,
)
from kbh_lint.host.frames import Frame, Leave, Raised
from kbh_lint.host.interp import Interp
from kbh_lint.host.objects import (
    Blob,
    Bound,
    ClassV,
    Compiled,
    Config,
    Configured,
    Extension,
    ExtFunction,
    Graph,
    HostDescriptor,
    Instance,
    LibObject,
    Memo,
    Method,
    Partial,
    Pointer,
    Specialized,
)
from kbh_lint.host.tensors import Content, Tensor, Unknown
from kbh_lint.values import DType, Env, Func, JitFunction, Made, Sym

CUTE_ATTRIBUTES = frozenset(("element_type", "iterator", "memspace", "leading_dim"))
DICTS = ("OrderedDict", "UserDict", "defaultdict")
MODULE_BASES = ("torch.nn.Module", "torch.nn.modules.module.Module", "torch.nn.modules.Module")
STDLIB_OR_PRESENT = frozenset(
    "torch triton numpy math os sys functools itertools typing collections dataclasses contextlib textwrap hashlib "
    "tempfile pathlib subprocess importlib inspect ctypes time warnings types threading weakref re json struct enum "
    "abc copy operator random string traceback gc platform shutil logging __future__ atexit io pickle base64 zlib "
    "queue signal socket uuid glob fcntl errno builtins site sysconfig stat getpass numbers array bisect heapq "
    "statistics concurrent multiprocessing asyncio unittest argparse pprint fractions decimal".split()
)
# Packages that machines with such GPUs have: importing one is taken to succeed, of any other it is not known.
PACKAGES = frozenset(
    "tilelang tvm cutlass cuda cupy cupyx einops flash_attn flash_attn_interface flashinfer deep_gemm vllm "
    "sglang scipy transformer_engine apex xformers pybind11 ninja psutil pynvml nvidia cffi numba jax "
    "mlx packaging typing_extensions yaml tqdm torchao mamba_ssm fla quack nvmath "
    "setuptools torchvision transformers helion".split()
)


class World:
    """What one run of one submission meets. `flips` holds the decisions that differ from the default."""

    def __init__(self, sidecars: dict[str, str], capability: tuple[int, int] | None, flips: dict[Any, bool]) -> None:
        self.files: dict[str, str] = dict(sidecars)
        self.capability = capability
        self.device = device.of(capability, None)
        self.flips = flips
        self.sites: dict[Any, Unknown] = {}
        self.mixed: set[Any] = set()
        self.places: dict[Any, ir.Loc | None] = {}
        self.settled: dict[Any, Unknown] = {}  # branches that only the inputs' legal domain, or a check, decides
        self.asserted: set[Any] = set()  # those of them that raise on the other side
        self.custom_ops: dict[str, Any] = {}  # `ns.name`, or the bare name of an operator registered from C++
        self.environ: dict[str, Any] = {}  # variables of the environment that the submission set
        self.left_over = False  # this path needs a file that only an earlier run could have left behind
        self.module_env = Env()
        self.module_envs: dict[str, Env] = {}
        self.built: dict[str, artifacts.Built] = {}  # the binaries that were built in this run, by path
        self.authored: list[Any] = []  # the extensions and the Triton kernels that were made, wherever they are kept
        self.module_hooks: dict[str, Any] = {}  # hooks of all modules, by the tables of `module_calls`
        self.asked: set[str] = set()  # paths whose existence was asked about and taken for granted

    # --- decisions

    def choice(self, key: Any, value: Unknown) -> bool:
        """Which way a branch on an unknown goes in this run."""
        if key not in self.sites or asking.decides(value):
            self.sites[key] = value
        if ("mark", value.why) in self.flips or ("mark", "all") in self.flips and value.why.startswith(asking.MARK):
            return True
        return self.flips.get(key, value.why.startswith("likely"))

    def settle(self, interp: Interp, loc: ir.Loc | None, answer: bool, contents: tuple[Content, ...]) -> bool:
        """What the legal domain of the inputs, or a check that passes, decides; a run may ask what else would do."""
        key = interp.place(loc)
        self.places.setdefault(key, loc)
        self.settled.setdefault(key, Unknown(contents, "likely" if answer else ""))
        return self.flips.get(key, answer)

    def frame_of(self, env: Env) -> Frame:
        """A frame in which the names of a scope mean what they do there."""
        return Frame(env, self.module_env, None, None)

    # --- names, imports

    def missing_name(self, interp: Interp, name: str, loc: ir.Loc | None) -> Any:
        if name.startswith("__") and name != "__import__":
            return {"__file__": "/submission/solution.py", "__name__": "solution", "__doc__": None}.get(name, Unknown())
        if hasattr(builtins, name):
            return Sym(f"builtins.{name}")
        interp.miss(f"name {name} is not defined", loc)
        return Unknown((), f"undefined {name}")

    def globals_of(self, func: Func, interp: Interp) -> Env:
        env: Env | None = func.env
        while env is not None and env.parent is not None:
            env = env.parent
        return env or self.module_env

    def module_dict(self, interp: Interp, frame: Frame) -> dict[str, Any]:
        return frame.globals.vars

    def import_(self, interp: Interp, node: ir.Import, frame: Frame) -> None:
        root = node.module.split(".")[0]
        if f"{node.module}.py" in self.files or f"{root}.py" in self.files or node.level:
            if self.import_sidecar(interp, node, frame):
                return
        if root and root not in STDLIB_OR_PRESENT:
            interp.note("import", {"module": node.module, "name": node.name or ""}, node.loc)
            if not self.is_present(interp, root, node.loc):
                self.raise_(interp, "ModuleNotFoundError", [f"No module named {root!r}"], node.loc)
        if node.name is None:
            path = node.module if node.asname else root
            interp.store_name(node.asname or root, modules.resolve(interp, path), frame)
        elif node.name == "*":
            interp.note("star-import", {"module": node.module}, node.loc)
        else:
            interp.store_name(node.asname or node.name, modules.resolve(interp, f"{node.module}.{node.name}"), frame)

    def is_present(self, interp: Interp, root: str, loc: ir.Loc | None) -> bool:
        """Whether a package is installed; of one that nobody knows, what was decided for it at this import."""
        if root in PACKAGES or root in sys.stdlib_module_names:
            return True
        return self.choice(("import", root, interp.place(loc)), Unknown((), "likely: the package is installed"))

    def import_sidecar(self, interp: Interp, node: ir.Import, frame: Frame) -> bool:
        from kbh_lint.frontends import python

        name = f"{node.module or node.name}.py"
        if name not in self.files:
            return False
        if name not in self.module_envs:
            env = Env()
            self.module_envs[name] = env
            text = self.files[name]
            first = text.literal_line if hasattr(text, "literal_line") else 1
            try:
                module = python.lower(str(text), name, first)
            except (SyntaxError, ValueError, RecursionError, python.TooDeep):
                interp.miss(f"sidecar {name} is not readable Python", node.loc)
                return True
            interp.block(module.body, Frame(env, env, node.loc, None))
        env = self.module_envs[name]
        if node.name is None or not node.module:
            interp.store_name(node.asname or node.module or str(node.name), LibObject("module", env.vars), frame)
        elif node.name == "*":
            for key, value in env.vars.items():
                interp.store_name(key, value, frame)
        else:
            interp.store_name(node.asname or node.name, env.vars.get(node.name, Unknown()), frame)
        return True

    # --- attributes

    def get_attr(self, interp: Interp, owner: Any, name: str, loc: ir.Loc | None) -> Any:
        """`owner.name`."""
        if isinstance(owner, Sym):
            return modules.resolve(interp, f"{owner.path}.{name}", loc)
        if isinstance(owner, Tensor):
            part = dress.part(owner, name)
            value = tensor_attributes.attribute(interp, owner, name, loc) if part is None else part
            if value is NotImplemented and name in CUTE_ATTRIBUTES:
                from kbh_lint.host import lib_cute

                return lib_cute.tensor_attribute(owner, name)
            return Method(owner, name) if value is NotImplemented else value
        if isinstance(owner, Instance):
            return self.instance_attr(interp, owner, name, loc)
        if isinstance(owner, ClassV):
            return self.class_attr(owner, name)
        if isinstance(owner, Unknown):
            return Unknown(owner.contents, owner.why, made=owner.made)
        if isinstance(owner, LibObject):
            return lib_objects.object_attr(interp, owner, name, loc)
        if isinstance(owner, Extension):
            return self.extension_attr(interp, owner, name, loc)
        if isinstance(owner, (JitFunction, Configured, Graph, Compiled)):
            if name in ("fn", "__wrapped__") and isinstance(owner, JitFunction):
                return owner if owner.configs else owner.func
            if isinstance(owner, Compiled):
                return self.get_attr(interp, owner.func, name, loc)
            if isinstance(owner, JitFunction) and name == "arg_names":
                return [p.name for p in owner.func.node.params]
            return Method(owner, name)
        if isinstance(owner, Func):
            if name in owner.attrs:
                return owner.attrs[name]
            return {"__name__": owner.node.name, "__doc__": owner.node.doc, "__wrapped__": owner}.get(name, Unknown())
        if isinstance(owner, DType):
            return {
                "itemsize": max(dtypes.BITS.get(owner.name, 8) // 8, 1),
                "is_floating_point": owner.name in dtypes.FLOATS,
                "width": dtypes.BITS.get(owner.name, 32),
            }.get(name, Method(owner, name))
        if isinstance(owner, Made):
            from kbh_lint.host import lib_cute

            return lib_cute.made_attribute(owner, name)
        if isinstance(owner, Partial):
            return {"func": owner.func, "args": owner.args, "keywords": owner.kwargs}.get(name, Unknown())
        if isinstance(owner, HostDescriptor):
            return {"base": owner.tensor, "shape": owner.tensor.shape, "block_shape": owner.block}.get(
                name, Method(owner, name)
            )
        if isinstance(owner, Config):
            return owner.kwargs if name == "kwargs" else owner.kwargs.get(name, Unknown())
        if isinstance(owner, Blob):
            return Blob(f"{owner.path}:{name}", owner.loc)
        if isinstance(owner, Pointer) and name in ("value_type", "dtype", "element_type"):
            return DType(owner.dtype)
        if isinstance(owner, Memo):
            return owner.func if name == "__wrapped__" else Method(owner, name)
        if isinstance(owner, Bound) and isinstance(owner.func, Memo):
            return self.get_attr(interp, owner.func, name, loc)
        if isinstance(owner, Bound) and name == "__func__":
            return owner.func
        if name == "value" and isinstance(owner, (int, float)):
            return owner  # a ctypes number
        if isinstance(owner, dict) and owner.get("__namespace__"):
            return owner.get(name, Unknown())
        if isinstance(owner, tuple) and tensor_attributes.RESULTS.get(name, len(owner)) < len(owner):
            return owner[tensor_attributes.RESULTS[name]]
        return Method(owner, name)

    def instance_attr(self, interp: Interp, owner: Instance, name: str, loc: ir.Loc | None) -> Any:
        own = self.find_method(owner, "__getattribute__")
        if own is not None:
            return interp.call(own, [name], {}, loc)
        return self.plain_attr(interp, owner, name, loc)

    def plain_attr(self, interp: Interp, owner: Instance, name: str, loc: ir.Loc | None) -> Any:
        """An attribute as `object.__getattribute__` finds it."""
        if name in owner.attrs:
            return owner.attrs[name]
        if name == "__dict__":
            return owner.attrs
        if name == "__class__":
            return owner.cls
        try:
            found = owner.cls.find(name)
            value = self.bind(interp, owner, found, loc)
            if isinstance(found, LibObject) and found.attrs.get("cached"):
                owner.attrs[name] = value  # functools.cached_property: from here on, it hides the property
            return value
        except KeyError:
            pass
        if self.is_module(owner.cls):
            if name == "training":
                return False
            if name in module_calls.TABLES:
                return module_calls.table(owner.attrs, name)
            return Method(owner, name)
        if owner.cls.external_bases() and name in ("apply", "save_for_backward"):
            return Method(owner, name)
        if owner.items is not None and not name.startswith("__"):
            return owner.items if name == "data" else Method(owner.items, name)
        try:
            fallback = owner.cls.find("__getattr__")
        except KeyError:
            self.raise_(interp, "AttributeError", [name], loc)
        return interp.call(Bound(owner, fallback), [name], {}, loc)

    def bind(self, interp: Interp, owner: Instance, found: Any, loc: ir.Loc | None) -> Any:
        if isinstance(found, LibObject) and found.path == "property":
            return interp.call(Bound(owner, found.attrs["fget"]), [], {}, loc)
        if isinstance(found, LibObject) and found.path == "staticmethod":
            return found.attrs["func"]
        if isinstance(found, LibObject) and found.path == "classmethod":
            return Bound(owner.cls, found.attrs["func"])
        if isinstance(found, (Func, Memo, Compiled)):
            return Bound(owner, found)
        getter = self.find_method(found, "__get__") if isinstance(found, Instance) else None
        return interp.call(getter, [owner, owner.cls], {}, loc) if getter is not None else found

    def class_attr(self, owner: ClassV, name: str) -> Any:
        try:
            found = owner.find(name)
        except KeyError:
            if name == "__name__":
                return owner.name
            forward = owner.env.vars.get("forward")
            if name == "apply" and isinstance(forward, LibObject) and forward.path == "staticmethod":
                # torch.autograd.Function: forward gets the context first, unless setup_context takes it
                context = LibObject("torch.autograd.function.FunctionCtx")
                return Partial(forward.attrs["func"], () if "setup_context" in owner.env.vars else (context,), {})
            return Method(owner, name)
        if isinstance(found, LibObject) and found.path == "staticmethod":
            return found.attrs["func"]
        if isinstance(found, LibObject) and found.path == "classmethod":
            return Bound(owner, found.attrs["func"])
        return found

    def extension_attr(self, interp: Interp, owner: Extension, name: str, loc: ir.Loc | None) -> Any:
        if name in owner.attrs:
            return owner.attrs[name]
        found = owner.env.vars.get(name)
        exported = owner.attrs.get("__exports__", {}).get(name)
        if exported is not None:
            found = owner.env.vars.get(exported, found)
        if found is None and name in ("__getattr__", "__getattribute__", "__dict__"):
            return Method(owner, name)
        if found is None:
            interp.miss(f"extension {owner.name} has no readable function {name}", loc)
            return Unknown((), "extension function")
        return ExtFunction(owner, name, found)

    def set_attr(self, interp: Interp, owner: Any, name: str, value: Any, loc: ir.Loc | None) -> None:
        """`owner.name = value`."""
        own = self.find_method(owner, "__setattr__") if isinstance(owner, Instance) else None
        if own is not None:
            interp.call(own, [name, value], {}, loc)
        else:
            self.set_plain(interp, owner, name, value, loc)

    def set_plain(self, interp: Interp, owner: Any, name: str, value: Any, loc: ir.Loc | None) -> None:
        """The same, as `object.__setattr__` does it."""
        if isinstance(owner, Instance):
            try:
                found = owner.cls.find(name)
            except KeyError:
                found = None
            if isinstance(found, LibObject) and found.path == "property" and found.attrs.get("fset") is not None:
                interp.call(Bound(owner, found.attrs["fset"]), [value], {}, loc)
                return
            if isinstance(value, Tensor) and value.parameter:
                owner.buffers.setdefault(name, True)
            owner.attrs[name] = value
        elif isinstance(owner, ClassV):
            if isinstance(value, Func) and value.cls is None:
                value.cls = owner
            owner.env.vars[name] = value
        elif isinstance(owner, (LibObject, Extension, Graph)):
            owner.attrs[name] = value
        elif isinstance(owner, Tensor):
            if name == "data" and isinstance(value, Tensor):
                owner.storage, owner.shape, owner.dtype, owner.strides = (
                    value.storage,
                    value.shape,
                    value.dtype,
                    value.strides,
                )
            elif name == "element_type" and isinstance(value, DType):  # CuTe's: what the bytes are taken for
                owner.dtype = value.name
            else:
                owner.attrs[name] = value
        elif isinstance(owner, Sym):
            modules.patched(interp, owner.path, name, value, loc)
        elif isinstance(owner, Unknown):
            tampering.attribute_set(interp, owner, name, loc)
        elif isinstance(owner, Func):
            owner.attrs[name] = value
        elif isinstance(owner, JitFunction):
            owner.func.attrs[name] = value

    def del_attr(self, owner: Any, name: str) -> None:
        """`del owner.name`."""
        if isinstance(owner, (Instance, LibObject, Func)):
            owner.attrs.pop(name, None)
        elif isinstance(owner, ClassV):
            owner.env.vars.pop(name, None)

    # --- classes

    def is_module(self, cls: ClassV) -> bool:
        return any(path in MODULE_BASES or path.startswith("torch.nn.") for path in cls.external_bases())

    def instantiate(
        self, interp: Interp, cls: ClassV, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
    ) -> Any:
        bases = cls.external_bases()
        if enums.is_enum(cls):
            return enums.look_up(interp, cls, args, loc)
        instance = Instance(cls)
        for base in cls.mro():
            maker = base.env.vars.get("__new__")
            if isinstance(maker, Func):  # a singleton, say
                made = interp.call(maker, [cls, *args], kwargs, loc)
                if not isinstance(made, Instance):
                    return made
                instance = made
                break
        direct = [base for c in cls.mro() for base in c.bases]
        if interp.builtins.get("dict") in direct or any(base.rpartition(".")[2] in DICTS for base in bases):
            instance.items = dict(args[0]) if args and isinstance(args[0], dict) else {}
        if cls.dataclass or "typing.NamedTuple" in bases or "collections.namedtuple" in bases:
            for i, field in enumerate(cls.field_names()):
                default = next((c.env.vars[field] for c in cls.mro() if field in c.env.vars), Unknown())
                if isinstance(default, LibObject) and default.path == "dataclasses.field":
                    factory = default.kwargs.get("default_factory")
                    default = (
                        interp.call(factory, [], {}, loc) if factory is not None else default.kwargs.get("default")
                    )
                instance.attrs[field] = args[i] if i < len(args) else kwargs.get(field, default)
            after = self.find_method(instance, "__post_init__")
            if after is not None and cls.dataclass:
                interp.call(after, [], {}, loc)
        try:
            init = cls.find("__init__")
        except KeyError:
            if any(b.endswith("Exception") or b.endswith("Error") for b in bases):
                instance.attrs["args"] = tuple(args)
            elif self.is_module(cls):
                trace_nn.instance_method(interp, instance, "__init__", args, kwargs, loc)
            return instance
        interp.call(Bound(instance, init), args, kwargs, loc)
        return instance

    def call_instance(
        self, interp: Interp, owner: Instance, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
    ) -> Any:
        if self.is_module(owner.cls) and not any("__call__" in cls.env.vars for cls in owner.cls.mro()):
            return module_calls.call(interp, owner, args, kwargs, loc)
        for name in ("__call__", "forward"):
            target = owner.attrs.get(name) if name == "forward" else None
            if target is not None:
                return interp.call(target, args, kwargs, loc)
            try:
                found = owner.cls.find(name)
            except KeyError:
                continue
            return interp.call(self.bind(interp, owner, found, loc), args, kwargs, loc)
        interp.miss("an object without __call__ was called", loc)
        return Unknown()

    def find_method(self, owner: Instance, name: str) -> Any:
        try:
            return Bound(owner, owner.cls.find(name))
        except KeyError:
            return None

    def super_(self, interp: Interp, args: list[Any], frame: Frame) -> Any:
        owner = args[1] if len(args) > 1 else frame.env.vars.get("self", next(iter(frame.env.vars.values()), None))
        cls = args[0] if args else frame.cls
        return LibObject("super", {"self": owner, "cls": cls})

    def enter(self, interp: Interp, manager: Any, exits: list[Leave], loc: ir.Loc | None) -> Any:
        """`with manager`: what `as` binds; `exits` collects what to undo."""
        if isinstance(manager, LibObject) and manager.path == "torch.cuda.graph":
            graph = manager.args[0] if manager.args else manager.kwargs.get("cuda_graph")
            if isinstance(graph, Graph):
                start_capture(interp, graph)
                exits.append(lambda raised: end_capture(interp, graph))
            return manager
        if isinstance(manager, LibObject) and (manager.path == "torch.cuda.stream" or lanes.is_stream(manager)):
            if lanes.enter(interp, manager):
                exits.append(lambda raised: lanes.leave(interp))
            return manager
        if isinstance(manager, LibObject) and (manager.path in lanes.POOLS or manager.path == "subprocess.Popen"):
            exits.append(lambda raised: lib_objects.object_method(interp, manager, "__exit__", [], {}, loc) and None)
            return manager
        if isinstance(manager, LibObject) and manager.path == "contextlib.suppress":
            exits.append(lambda raised: raised is not None and self.catches(interp, manager.args, raised.value))
            return None
        if isinstance(manager, LibObject) and manager.path == "unittest.mock.patcher":
            return interp.call(manager.attrs["__enter__"], [], {}, loc)
        if isinstance(manager, Instance):
            entered = self.find_method(manager, "__enter__")
            leave = self.find_method(manager, "__exit__")
            if leave is not None:
                exits.append(lambda raised: interp.call(leave, self.exception_parts(raised), {}, loc))
            return interp.call(entered, [], {}, loc) if entered is not None else manager
        if isinstance(manager, list):  # a @contextmanager generator: what it yields
            return manager[0] if manager else None
        return manager

    # --- exceptions

    @staticmethod
    def exception_parts(raised: Raised | None) -> list[Any]:
        """What `__exit__` is given: class, exception and traceback, or None three times."""
        if raised is None:
            return [None, None, None]
        value = raised.value
        kind = value.cls if isinstance(value, Instance) else Sym(value.path) if isinstance(value, LibObject) else value
        return [kind, value, Unknown((), "a traceback")]

    def raise_(self, interp: Interp, name: str, args: list[Any], loc: ir.Loc | None) -> None:
        raise Raised(LibObject(f"builtins.{name}", {"args": tuple(args)}), loc)

    def may_fail(self, interp: Interp, name: str, loc: ir.Loc | None) -> None:
        """An operation fails on what is known of its operands. The run goes on, as what a value is may be known
        badly; where an exception could be caught, another run raises it."""
        if interp.trying and not self.choice(("fails", interp.place(loc)), asking.presumed(True)):
            self.raise_(interp, name, [], loc)

    def catches(self, interp: Interp, kind: Any, value: Any) -> bool:
        if isinstance(kind, tuple):
            return any(self.catches(interp, k, value) for k in kind)
        if isinstance(kind, ClassV):
            cls = value.cls if isinstance(value, Instance) else value
            return isinstance(cls, ClassV) and kind in cls.mro()
        name = getattr(kind, "path", "").rsplit(".", 1)[-1]
        raised = getattr(value, "path", "builtins.Exception").rsplit(".", 1)[-1]
        a, b = getattr(builtins, name, None), getattr(builtins, raised, None)
        if isinstance(a, type) and isinstance(b, type):
            return issubclass(b, a)
        return name in (raised, "Exception", "BaseException")

    # --- calls into libraries

    def call_library(
        self, interp: Interp, func: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
    ) -> Any:
        if isinstance(func, Method):
            return lib_objects.call_method(interp, func.self, func.name, args, kwargs, loc)
        if isinstance(func, Sym):
            return libraries.call(interp, func.path, args, kwargs, loc)
        if isinstance(func, LibObject):
            return lib_objects.call_object(interp, func, args, kwargs, loc)
        if isinstance(func, Blob):
            return foreign.call_blob(interp, func, args, kwargs, loc)
        if isinstance(func, DType):
            return args[0] if args else Unknown()
        if isinstance(func, (Made, Specialized)):
            from kbh_lint.host import lib_cute

            called = lib_cute.made_call if isinstance(func, Made) else lib_cute.call_compiled
            return called(interp, func, args, kwargs, loc)  # type: ignore[arg-type]
        if isinstance(func, Unknown):
            return foreign.call_unknown(interp, func, args, kwargs, loc)
        inputs = (
            tensor_arguments.tensors_in(args) + tensor_arguments.tensors_in(kwargs) + tensor_arguments.tensors_in(func)
        )
        if inputs:
            return foreign.unread_call(interp, "a value that is not a function", inputs, loc)
        interp.miss(f"a {type(func).__name__} was called", loc)
        return Unknown()

    def call_extension(
        self, interp: Interp, func: ExtFunction, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
    ) -> Any:
        return interp.cpp.call_export(func, [*args, *kwargs.values()], loc)

    def kernel_of(self, interp: Interp, func: Func, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A kernel of CuTe DSL with its arguments, not launched yet."""
        from kbh_lint.host import lib_cute

        return lib_cute.launcher(interp, func, args, kwargs)

    def launch(self, interp: Interp, func: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        from kbh_lint.host import launches

        return launches.launch(interp, func, args, kwargs, loc)

    def decorate(self, interp: Interp, decorator: Any, target: Any, loc: ir.Loc | None) -> Any:
        return lib_triton.decorate(interp, decorator, target, loc)

    # --- containers of libraries

    def get_item(self, interp: Interp, owner: Any, key: Any, loc: ir.Loc | None) -> Any:
        return lib_objects.get_item(interp, owner, key, loc)

    def set_item(self, interp: Interp, owner: Any, key: Any, value: Any, loc: ir.Loc | None) -> None:
        lib_objects.set_item(interp, owner, key, value, loc)

    def iterate(self, interp: Interp, value: Any, loc: ir.Loc | None) -> Any:
        if isinstance(value, Instance):
            for name in ("__iter__",):
                found = self.find_method(value, name)
                if found is not None:
                    return interp.call(found, [], {}, loc)
            if value.items is not None:
                return list(value.items)
            if not value.cls.dataclass and value.cls.field_names():
                return [value.attrs[f] for f in value.cls.field_names()]
        if isinstance(value, LibObject):
            return lib_objects.items_of(value)
        if isinstance(value, ClassV) and enums.is_enum(value):
            return list(enums.members(value).values())
        return None

    def path(self, text: str) -> LibObject:
        return LibObject("pathlib.Path", {"path": text})

    @staticmethod
    def join_path(left: Any, right: Any) -> str:
        return str(right) if str(right).startswith("/") else f"{left}/{right}"

    def show(self, value: Any) -> str:
        """str() of a value for text building."""
        return containers.show(value)


def start_capture(interp: Interp, graph: Graph) -> None:
    graph.events = []
    interp.capturing.append(graph)


def end_capture(interp: Interp, graph: Graph) -> None:
    if graph in interp.capturing:
        interp.capturing.remove(graph)
