"""The kinds of sandbox, a module each: how it starts a process and ends it.

A further kind is its row in `grader.record.sandboxes`, which says what others ask of it, and the module of its name
here. Nobody else tests for a kind, and `tests/grader/test_sandbox*.py` and `tests/hostile` attack each that has a
row. The module has a function of the kind's name, which gets notes for the record, adds what the kind lacks to them,
and raises SandboxError with one sentence where this machine does not have it:

    from grader.record.cell import SandboxRecord
    from grader.sandbox.base import Jail, SandboxError
    from grader.sandbox.kinds.supervised import Supervised
    from grader.sandbox.launch import Restriction
    from grader.sandbox.seccomp import program
    from grader.sandbox.users import leased_uid  # whom processes run as; None: the judge's user, who is not root

    def nested(notes: tuple[str, ...] = ()) -> Supervised:
        command = shutil.which("nested")
        if command is None:
            raise SandboxError("nested is not installed")
        uid = leased_uid()
        record = SandboxRecord("nested", os.getuid() if uid is None else uid, network=False, notes=notes)
        return Supervised(uid, record, partial(_restriction, uid is None), lambda jail: (command, "--no-network"))

    def _restriction(shared_user: bool, jail: Jail) -> Restriction:
        families = [socket.AF_UNIX] if jail.gpu else []  # CUDA does not start without one
        code = program(memory_files=jail.gpu, families=families, reach_others=False, shared_user=shared_user)
        return Restriction(seccomp=code)

`supervised.Supervised` starts the process, with a program in front where one is given, and with what the process does
to itself (`launch.Restriction`), and ends it with all below it; limits, user, environment and descriptors are seen
to. The program in front starts first, by the judge's user and unrestricted, so it may be setuid; it must hand on
descriptors, environment and exit status, and start the command that it is given, which restricts itself and then runs
the submission. All that it starts must be seen below it in the judge's process table, which a namespace of processes
of its own leaves so, and be the judge's to kill: of a helper that stays root under a judge who is not, nothing is
accepted. A kind whose processes the judge is not to look for one by one, since they end with the first one of a
namespace, is a class instead, with `record`, `spawn`, `alive` and `end` of `base.Sandbox`; `bubblewrap.py` is the one
there is, and to be read then: started by `launch.start` with `Restriction(namespace=True)`, it reports the first
process on a descriptor, and `reap.end_namespace` ends that. `Paired.second`, for a second process that shares memory
with the first, may be left out.

Where its processes have no numbers in the judge's table (a kernel in user space, a virtual machine), `alive` returns an
empty list, never numbers of a table of its own, which would be those of strangers here: the judge stops what is listed
and moves it between processors. It then only keeps the device while compilers work. `end` asks the runtime of the kind
to kill the whole container, waits until the runtime says that it is gone and for the process that `spawn` returned,
calls `launch.release`, and raises SandboxError where something may be left.

Descriptors are handed through, of memory files too: the first program is read from one (`launch.first_command`), and
over the socket among `fds` come further ones (SCM_RIGHTS), of memory files of the judge and, on a GPU, of its driver,
which the submission's process maps shared and the judge writes to. Of a kind that is `closed` must hold, for every
`base.Jail`:

- Of the file system it shows what `places.places(jail)` names in `read`, writable what is in `write`, and nothing
  beneath what is `hidden`, which may lie in `read`; `places.expand` splits folders for a kind that cannot hide. Of
  /dev it has `null`, `zero`, `full`, `random`, `urandom`, and `places.gpu_nodes(jail.profiler)` where `jail.gpu`; of
  /proc its own process.
- No socket reaches anybody (`network=False`), no signal and no `ptrace` another process; `seccomp.program` refuses
  the system calls that would.
- Where processes share the judge's user, calls that change others of that user are refused too (`shared_user`).
- It may ignore `jail.layout`, a file system for agents, whose rooms ask for bubblewrap by name, and `jail.also`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from grader.record.sandboxes import TRAITS, SandboxKind
from grader.sandbox.base import Sandbox

__all__ = ["MAKERS"]

# Each makes it as this machine has it, with notes for its record, or raises SandboxError.
MAKERS: dict[SandboxKind, Callable[[tuple[str, ...]], Sandbox]] = {
    kind: getattr(import_module(f"{__name__}.{kind}"), kind) for kind in TRAITS
}
