"""What a submission does outside its own work: files, processes, sockets, signals, hooks, memory of others.

Each such call becomes a note `effect` with a kind, a symbol, what it is done to, and whether it was undone. Which of
them are wrong is said by rules; this file only tells own from foreign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import shown
from kbh_lint.host.effects import modes
from kbh_lint.host.values import taint
from kbh_lint.host.values.library_objects import FilePath
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.named_objects import ChildProcess, Socket
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Sort, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

HOME = "/submission"
TEMPORARY = "/tmp/made"
# Folders that every run has; what lies below them is the run's own.
_COMPILERS = "/cache/compiled"
FOLDERS = {
    **dict.fromkeys("TMPDIR TEMP TMP HOME XDG_CACHE_HOME TORCH_EXTENSIONS_DIR TORCH_HOME".split(), TEMPORARY),
    **dict.fromkeys(
        "TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR CUDA_CACHE_PATH TRITON_HOME CUTE_DSL_CACHE_DIR".split(), _COMPILERS
    ),
}
_MACHINE_CODE = (".cubin", ".fatbin", ".hsaco", ".so")
_OWN_PLACES = (HOME, "/tmp", "~", "/home", "/usr/local/cuda", "/dev/null", "/dev/std",
               "/include", "/workspace", "/cache")  # fmt: skip
_FOREIGN_PLACES = ("/proc", "/sys", "/dev/shm", "/dev/mem", "/etc", "/usr", "/lib", "/opt", "/var", "/boot",
                   "/run", "/srv", "/mnt")  # fmt: skip

BUILDERS = frozenset(
    "nvcc gcc g++ cc c++ clang clang++ cl ninja make cmake ld lld ptxas nvlink fatbinary cuobjdump nvdisasm cicc ar "
    "ranlib objcopy objdump nm strip readelf ccache sccache nvidia-smi hipcc meson ldconfig pkg-config which file "
    "c++filt patchelf bin2c uname".split()
)
_FETCHERS = frozenset("curl wget git ssh scp rsync pip pip3 uv conda nc ncat ftp aria2c apt apt-get".split())

# Packages and modules that graders are made of; a submission has nothing to call in them.
GRADERS = frozenset("grader kbh kbh_lint benchmark check correctness timing".split())

EXIT = frozenset(
    "os._exit os.abort sys.exit builtins.exit builtins.quit os.execv os.execve os.execvp os.execl "
    "faulthandler._sigsegv "
    "faulthandler._sigabrt faulthandler._read_null".split()
)
_SIGNALS = frozenset("os.kill os.killpg signal.raise_signal signal.pthread_kill signal.pidfd_send_signal".split())
NETWORK = (
    "urllib.request.", "urllib3.", "requests.", "httpx.", "aiohttp.", "ftplib.", "http.client.", "smtplib.",
    "telnetlib.",
    "torch.hub.", "huggingface_hub.", "paramiko.", "xmlrpc.", "socket.create_connection", "socket.create_server",
    "gdown.", "boto3.", "wandb.", "torch.utils.model_zoo.",
)  # fmt: skip
_SOCKET = frozenset("connect connect_ex bind listen accept sendto send sendall sendmsg".split())
_DESCRIPTORS = frozenset(
    "os.dup2 os.closerange os.close os.write os.writev os.ftruncate os.truncate os.pwrite os.sendfile "
    "os.set_inheritable "
    "socket.fromfd socket.send_fds fcntl.fcntl fcntl.ioctl os.fdopen".split()
)
_SCHEDULING = frozenset(
    "os.sched_setscheduler os.sched_setaffinity os.nice os.setpriority os.sched_setparam resource.setrlimit "
    "os.setsid os.setpgrp os.setpgid os.setuid os.chroot os.unshare".split()
)
_HOOKS = {
    "sys.settrace": "sys.gettrace", "sys.setprofile": "sys.getprofile", "threading.settrace": "threading.gettrace",
    "threading.setprofile": "threading.getprofile", "threading.setprofile_all_threads": "threading.getprofile",
    "threading.settrace_all_threads": "threading.gettrace", "sys.addaudithook": "",
    "sys.monitoring.register_callback": "",
    "sys.monitoring.use_tool_id": "", "signal.signal": "signal.getsignal", "signal.setitimer": "", "signal.alarm": "",
    "sys.setswitchinterval": "sys.getswitchinterval",
}  # fmt: skip
_INTERPRETER = ("PyFrame", "PyEval", "PyThreadState", "PyObject_SetAttr", "PyDict_Set", "Py_AddPendingCall")
_FREE_SIGNALS = ("SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT")
_REMOVERS = frozenset("os.remove os.unlink os.rmdir shutil.rmtree os.removedirs".split())
_CHANGERS = frozenset(
    "os.rename os.replace os.chmod os.chown os.symlink os.link os.truncate os.utime os.mkfifo os.mknod shutil.move "
    "shutil.copy shutil.copyfile shutil.copy2 shutil.copytree os.mkdir os.makedirs".split()
)
# Functions of the C library, reached through ctypes or from C++, that reach into other processes or rewrite code.
NATIVE = {
    "ptrace": "another process", "process_vm_readv": "another process", "process_vm_writev": "another process",
    "pidfd_getfd": "another process", "mprotect": "the protection of memory",
    "pkey_mprotect": "the protection of memory",
    "sigaction": "signal handlers", "signal": "signal handlers", "fork": "processes", "vfork": "processes",
    "kill": "other processes", "_exit": "the end of the process", "exit": "the end of the process",
    "abort": "the end of the process", "socket": "the network", "connect": "the network", "execve": "the process",
    "prctl": "the process", "userfaultfd": "page faults", "setitimer": "signals",
    "LD_PRELOAD": "the loader", "PyEval_SetProfile": "the interpreter", "PyEval_SetTrace": "the interpreter",
    "cuptiActivityEnable": "the profiler", "cuptiSubscribe": "the profiler",
}  # fmt: skip
_HARMLESS_CALLS = frozenset({24, 35, 39, 96, 186, 202, 203, 204, 228, 230, 309})  # x86-64: pids, clocks, sleeps, cores
_ENDING = frozenset({"_exit", "exit", "abort"})
NATIVE_SNIFFED = {
    "getppid": taint.PARENT, "dladdr": "what is loaded", "dl_iterate_phdr": "what is loaded", "backtrace": taint.STACK,
    "backtrace_symbols": taint.STACK, "cudaStreamIsCapturing": taint.CAPTURE, "PyEval_GetFrame": taint.STACK,
    "cudaStreamGetCaptureInfo": taint.CAPTURE, "cuStreamIsCapturing": taint.CAPTURE,
    "PyThreadState_GetFrame": taint.STACK, "Py_REFCNT": taint.REFERENCES,
    **dict.fromkeys(("cudaStreamQuery", "cudaEventQuery", "cuStreamQuery", "cuEventQuery"), taint.QUEUE),
}  # fmt: skip


def note(
    interp: Run, kind: str, symbol: str, what: str, loc: ir.Loc | None, undone: bool = False, target: str = "foreign"
) -> None:
    """Notes an effect outside the submission; `what` says in words what is affected."""
    attrs = {"kind": kind, "symbol": symbol, "what": what, "target": target, "undone": undone}
    interp.note("effect", {**attrs, "call": interp.trace.call_index}, loc)


# --- files -------------------------------------------------------------------------------------------------


def place_of(path: str) -> str:
    """Returns whose a path is: `self` (the submission's own file), `own`, `foreign`, or `unknown`."""
    if not path or path == "?" or "<" in path:
        return "unknown"
    if path in (f"{HOME}/solution.py", "solution.py", "__file__"):
        return "self"
    parts = path.split("/")
    if ".." in parts:
        depth = 0
        for part in parts:
            depth += -1 if part == ".." else part not in ("", ".")
            if depth < 0:
                return "foreign"
        return "own" if not path.startswith("/") else "unknown"
    if not path.startswith("/"):
        return "own"
    for prefix in _OWN_PLACES:
        if path == prefix or path.startswith((f"{prefix}/", prefix if prefix.endswith("std") else f"{prefix}/")):
            return "own"
    return "foreign" if path.startswith(_FOREIGN_PLACES) else "unknown"


def text_of(value: Value) -> str:
    """Returns a path argument as text; empty when it is not known."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, LibObject) and "path" in value.attrs:
        return str(value.attrs["path"])
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def file_written(interp: Run, symbol: str, path: Value, loc: ir.Loc | None) -> None:
    """Notes that a file of others, or the submission's own, is written, removed or renamed."""
    text = text_of(path)
    where = place_of(text)
    if text.endswith(_MACHINE_CODE) and (text.startswith(_COMPILERS) or "/.triton/" in text or "/.nv/" in text):
        note(interp, "file", symbol, "machine code in a compiler's cache", loc)
    if where in ("foreign", "self"):
        what = "the submission's own file" if where == "self" else text[:80]
        note(interp, "file", symbol, what, loc, target=where)


def process_file(interp: Run, path: str, loc: ir.Loc | None) -> None:
    """Notes that a file below /proc is read that belongs to another process."""
    parts = path.split("/")
    if path.startswith("/proc/") and len(parts) > 3 and parts[2] not in ("self", "thread-self", "driver", "sys", "net"):
        note(interp, "memory", "/proc", "files of another process", loc)


# --- calls -------------------------------------------------------------------------------------------------


def touch(site: Site) -> None:
    """Notes the effect of a call of the standard library, if it has one outside the submission."""
    interp, path, loc = site.run, site.path, site.loc
    root = path.split(".", 1)[0]
    handler = ROOTS.get(root)
    if handler is not None:
        handler(site)
    if root in GRADERS and path.count("."):
        note(interp, "grader", path, "the grader's own code", loc)
    if path.startswith(NETWORK):
        note(interp, "network", path, "the network", loc)


def _os(site: Site) -> None:
    interp, path, args, loc = site.run, site.path, site.args, site.loc
    if path in EXIT:
        note(interp, "exit", path, "the end of the process", loc)
    elif path in _SIGNALS:
        _signal_sent(site)
    elif path in _DESCRIPTORS:
        _descriptor(site)
    elif path in _SCHEDULING and not (path == "os.nice" and args == [0]):
        note(interp, "scheduling", path, "how the process is run", loc)
    if path in _REMOVERS | _CHANGERS:
        for value in args[: 2 if path in _CHANGERS else 1]:
            file_written(interp, path, value, loc)
    if path in ("os.fork", "os.forkpty"):
        interp.process.children.append((path, "a child", loc))
        interp.note("fork", {}, loc)
    elif path in ("os.wait", "os.waitpid", "os.wait3", "os.wait4"):
        interp.process.children[:] = [
            child for child in interp.process.children if child[0] not in ("os.fork", "os.forkpty")
        ]
    if path == "os.readlink" and taint.about_process(text_of(args[0]) if args else ""):
        note(interp, "descriptor", path, "where the descriptors of the process lead", loc)
    if path in ("os.open", "builtins.open"):
        flags = shown.show(args[1]) if len(args) > 1 else ""
        if any(word in flags for word in ("WRONLY", "RDWR", "CREAT", "APPEND", "TRUNC")):
            file_written(interp, path, args[0], loc)


def _signal_sent(site: Site) -> None:
    """A signal to a process: its own children may have it, itself when it handles it, others not."""
    interp, path, args, loc = site.run, site.path, site.args, site.loc
    target = args[0] if args else None
    number = shown.show(args[-1]) if args else ""
    if path == "signal.raise_signal" or target == interp.process.id:
        number = str(getattr(args[-1], "path", number))
        handled = ("signal.signal", number) in interp.process.hooks
        if not handled or "STOP" in number or "KILL" in number:
            note(interp, "exit", path, "the process itself", loc)
        return
    if isinstance(target, LibObject) and target.path.startswith("subprocess."):
        return
    note(interp, "signal", path, "a process that is not its own", loc)


def _descriptor(site: Site) -> None:
    """Descriptors by number are the grader's; those that the submission opened are objects."""
    path, args = site.path, site.args
    aim = args[1] if path == "os.dup2" and len(args) > 1 else args[0] if args else None
    if path in ("fcntl.fcntl", "fcntl.ioctl", "os.truncate") or _is_own(aim) or aim in (1, 2) and path == "os.write":
        return
    note(site.run, "descriptor", path, "descriptors that it did not open", site.loc)


def own_descriptor() -> Unknown:
    """Returns a file descriptor that the submission opened."""
    return Unknown((), "own.descriptor", sort=Sort.DESCRIPTOR)


def _is_own(value: Value) -> bool:
    return isinstance(value, (LibObject, str)) or isinstance(value, Unknown) and value.sort is Sort.DESCRIPTOR


def _hook(site: Site) -> None:
    """A hook is undone when what was there before is put back."""
    interp, path, args, kwargs, loc = site.run, site.path, site.args, site.kwargs, site.loc
    getter = _HOOKS.get(path)
    if getter is None:
        if path == "gc.callbacks.append":
            note(interp, "hook", path, "the garbage collector", loc)
        return
    number = shown.show(args[0]) if path == "signal.signal" and args else ""
    key = (path, str(getattr(args[0], "path", number)) if number else "")
    value = args[-1] if args else kwargs.get("func")
    interp.process.hooks.setdefault(key, []).append((value, loc, interp.trace.call_index))


def _put_back(path: str, values: Sequence[Value]) -> bool:
    """Whether the last value of a hook is the one that it had before."""
    last = values[-1]
    if last is None:
        return True
    getter = _HOOKS.get(path, "")
    made = taint.symbol_of(last) or getattr(last, "why", "") or getattr(last, "path", "")
    return bool(getter) and made in (getter, path)


def hooks_left(interp: Run) -> None:
    """Notes, at the end of a run, the hooks of the interpreter and of signals that are still set."""
    for (path, number), entries in interp.process.hooks.items():
        if path == "signal.signal" and number.rpartition(".")[2] in _FREE_SIGNALS:
            continue  # signals that nobody else uses
        undone = _put_back(path, [value for value, _, _ in entries])
        for _, loc, call in entries[:1]:
            what = {"signal": "signal handlers", "threading": "every thread"}.get(path.split(".")[0], "the interpreter")
            attrs = {"kind": "hook", "symbol": path, "what": what if path in _HOOKS else modes.SEEN}
            interp.note("effect", {**attrs, "target": "foreign", "undone": undone, "call": call}, loc)


def _process(site: Site) -> None:
    interp, path, args, kwargs, loc = site.run, site.path, site.args, site.kwargs, site.loc
    command = args[0] if args else kwargs.get("args")
    first = command[0] if isinstance(command, (list, tuple)) and command else command
    words = text_of(first).split()
    program = words[0].rpartition("/")[2] if words else ""
    if program in _FETCHERS:
        note(interp, "network", path, f"a download by {program}", loc)
    elif program not in BUILDERS and path in ("subprocess.Popen", "os.popen", "os.spawnv", "os.posix_spawn"):
        interp.process.children.append((path, program or "a program", loc))


def _ctypes(site: Site) -> None:
    interp, path, args, loc = site.run, site.path, site.args, site.loc
    reaching = path in ("ctypes.memmove", "ctypes.memset", "ctypes.string_at") or path.endswith(".from_address")
    if reaching and args and not _own_memory(interp, args[0]):
        note(interp, "memory", path, "memory that is not its own", loc)
    elif path.startswith("ctypes.pythonapi."):
        name = path.rpartition(".")[2]
        if name.startswith(_INTERPRETER):
            note(interp, "memory", path, "the interpreter", loc)


def _own_memory(interp: Run, value: Value) -> bool:
    """Memory of a tensor or of a buffer that ctypes made here."""
    if isinstance(value, int):
        return interp.tensor_at(value) is not None
    return value is not None and not taint.symbol_of(value)


_NATIVE_CLOCKS = frozenset({"clock", "time", "__rdtsc", "_rdtsc", "__builtin_ia32_rdtsc"})


def native(interp: Run, name: str, args: Sequence[Value], loc: ir.Loc | None) -> Value:
    """Models a function of the C library, called by name from ctypes or C++; returns its value, None without one."""
    if name in NATIVE_SNIFFED:
        return taint.asked(interp, name, NATIVE_SNIFFED[name], loc)
    if name in _NATIVE_CLOCKS:
        return taint.clock(interp)
    if name in ("getenv", "secure_getenv"):
        if any(isinstance(a, str) and taint.asked_variable(str(a)) for a in args):
            return taint.asked(interp, name, taint.ENVIRONMENT, loc)
        return None
    if name in ("fopen", "open", "open64", "openat", "std::ifstream"):
        text = next((str(a) for a in args if isinstance(a, str)), "")
        if taint.about_process(text):
            return taint.asked(interp, text, taint.PROCESS, loc)
        if any(isinstance(a, str) and set(str(a)) & set("wa") and len(a) < 4 for a in args[1:]):
            file_written(interp, name, text, loc)
        return None
    if name == "syscall":
        number = args[0] if args else None
        if not isinstance(number, int) or number not in _HARMLESS_CALLS:
            note(interp, "memory", name, "a system call that is not named", loc)
        return None
    if name in NATIVE:
        kind = "exit" if name in _ENDING else "network" if NATIVE[name] == "the network" else "memory"
        note(interp, kind, name, NATIVE[name], loc)
    return None


def _builtin(site: Site) -> None:
    if site.path in EXIT:
        note(site.run, "exit", site.path, "the end of the process", site.loc)


def _shutil(site: Site) -> None:
    if site.path in _REMOVERS:
        file_written(site.run, site.path, site.args[0] if site.args else None, site.loc)
    elif site.path in _CHANGERS and len(site.args) > 1:
        file_written(site.run, site.path, site.args[1], site.loc)


def _sys(site: Site) -> None:
    if site.path not in EXIT:  # an exception: only one that nobody catches ends the process
        _hook(site)


def _socket(site: Site) -> None:
    interp, path, args, kwargs, loc = site.run, site.path, site.args, site.kwargs, site.loc
    if path in _DESCRIPTORS or path == "socket.socket" and ("fileno" in kwargs or len(args) > 3):
        note(interp, "descriptor", path, "descriptors that it did not open", loc)


def _signal(site: Site) -> None:
    _os(site)
    _hook(site)


ROOTS: dict[str, Callable[[Site], None]] = {
    "os": _os, "sys": _sys, "signal": _signal, "threading": _hook, "gc": _hook,
    "subprocess": _process, "ctypes": _ctypes, "builtins": _builtin, "shutil": _shutil, "socket": _socket,
    "fcntl": _os, "resource": _os, "faulthandler": _builtin,
}  # fmt: skip


def method(site: Site, owner: LibObject) -> None:
    """Notes the effect of a method of a library object, such as a socket that connects or a path that is removed."""
    run, name, first = site.run, site.name, site.args[0] if site.args else None
    if isinstance(owner, Socket) and name in _SOCKET:
        note(run, "network", f"socket.{name}", "the network", site.loc)
    elif isinstance(owner, FilePath):
        if name in _PATH_CHANGERS:
            file_written(run, f"Path.{name}", owner.text, site.loc)
            if name in ("rename", "replace") and site.args:
                file_written(run, f"Path.{name}", first, site.loc)
    elif name == "from_address" and owner.path.startswith("ctypes.") and site.args and not _own_memory(run, first):
        note(run, "memory", site.path, "memory that is not its own", site.loc)
    elif isinstance(owner, ChildProcess) and name in ("wait", "communicate", "terminate", "kill", "__exit__"):
        run.process.children[:] = [child for child in run.process.children if child[2] is not owner.attrs.get("loc")]


_PATH_CHANGERS = frozenset(
    "write_text write_bytes unlink rename chmod touch rmdir replace symlink_to hardlink_to mkdir".split()
)
