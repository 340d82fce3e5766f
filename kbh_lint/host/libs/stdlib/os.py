"""os and os.path: names of files, and what a process asks of the system."""

from __future__ import annotations

import posixpath

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import shown
from kbh_lint.host.effects import builds, environ, outside
from kbh_lint.host.values import taint, unknowns
from kbh_lint.host.values.decisions import FORK
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.objects import ProcessNumber
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.source.embedded import concat

_OF_NAMES = frozenset(  # of os.path: they tell of a name no more than that name
    "join dirname basename split splitext splitdrive abspath realpath expanduser normpath fspath expandvars relpath "
    "commonpath commonprefix normcase samefile".split()
)


class Os(Library):
    """The modules `os` and `os.path`."""

    def call(self, site: Site) -> Value:
        """Calls a function of os or os.path. A path that depends on who runs the submission gives a result tainted in
        the same way."""
        if site.name in _OF_NAMES and taint.source(*site.args) is not None:
            return self._merged(site)
        return super().call(site)

    @models("join")
    def join(self, site: Site, *paths: Value) -> Value:
        """Models `os.path.join(*paths)`."""
        out = ""
        for part in (_text(path) for path in paths if not isinstance(path, Unknown)):
            out = part if part.startswith("/") or not out else concat((out, "/", part))
        return out

    @models("dirname")
    def dirname(self, site: Site, p: Value) -> Value:
        """Models `os.path.dirname(p)`."""
        return self.other(site) if isinstance(p, Unknown) else builds.folder_of(_text(p))

    @models("basename")
    def basename(self, site: Site, p: Value) -> Value:
        """Models `os.path.basename(p)`."""
        return self.other(site) if isinstance(p, Unknown) else _text(p).rpartition("/")[2]

    @models("splitext")
    def splitext(self, site: Site, p: Value) -> Value:
        """Models `os.path.splitext(p)`."""
        return self.other(site) if isinstance(p, Unknown) else posixpath.splitext(_text(p))

    @models("abspath", "realpath", "expanduser", "normpath", "fspath", "expandvars")
    def same(self, site: Site, path: Value, **options: Value) -> Value:
        """Models `os.path.abspath(path)` and the like: the same path."""
        return self.other(site) if isinstance(path, Unknown) else _text(path)

    @models("exists", "isfile", "isdir", "islink", "access")
    def exists(self, site: Site, path: Value, *mode: Value, **options: Value) -> Value:
        """Models `os.path.exists(path)` and the like."""
        return self.other(site) if isinstance(path, Unknown) else builds.exists(site.run, _text(path))

    @models("getenv")
    def getenv(self, site: Site, key: Value, default: Value = None) -> Value:
        """Models `os.getenv(key, default)`."""
        return environ.get(site.run, key, default, site.loc)

    @models("putenv")
    def putenv(self, site: Site, name: Value, value: Value) -> None:
        """Models `os.putenv(name, value)`."""
        environ.put(site.run, name, value)

    @models("unsetenv")
    def unsetenv(self, site: Site, name: Value) -> Value:
        """Models `os.unsetenv(name)`."""
        return environ.pop(site.run, name, None)

    @models("getcwd")
    def getcwd(self, site: Site) -> str:
        """Models `os.getcwd()`: the folder of the submission."""
        return outside.HOME

    @models("getpid")
    def getpid(self, site: Site) -> Value:
        """Models `os.getpid()`: a number that differs in each process."""
        return ProcessNumber(site.run.process.id)

    @models("fork", "forkpty")
    def fork(self, site: Site) -> Value:
        """Models `os.fork()`: the run is in the parent, or in the child where that is forced."""
        return 0 if FORK in site.run.decisions.forced else site.run.process.id + 1

    @models("open", "dup", "memfd_create", "pidfd_open", "openpty", "eventfd")
    def descriptor(self, site: Site, *given: Value, **named: Value) -> Value:
        """Models `os.open(...)` and the like: a descriptor of the submission's own."""
        return outside.own_descriptor()

    @models("pipe")
    def pipe(self, site: Site) -> Value:
        """Models `os.pipe()`: two descriptors of the submission's own."""
        return outside.own_descriptor(), outside.own_descriptor()

    @models("listdir", "scandir", "walk", "readlink")
    def listed(self, site: Site, path: Value = ".", *how: Value, **named: Value) -> Value:
        """Models `os.listdir(path)` and the like; below /proc the result tells who runs the submission, and is
        tainted."""
        if isinstance(path, Unknown) or not taint.about_process(_text(path)):
            return self.other(site)
        return taint.asked(site.run, f"os.{site.name}", taint.PROCESS, site.loc)

    @models("makedirs", "mkdir", "remove", "unlink", "rename", "replace", "chmod", "close")
    def changed(self, site: Site, *given: Value, **named: Value) -> None:
        """Models `os.mkdir(path)`, `os.remove(path)` and the like, which are taken to change nothing that the program
        reads."""

    @models("system", "popen")
    def process(self, site: Site, command: Value, *how: Value, **named: Value) -> Value:
        """Models `os.system(command)` and `os.popen(command)`."""
        builds.process(site, command, None, None)
        return 0 if site.name == "system" else self.other(site)

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): an unknown value."""
        return Unknown((), site.path)

    def _merged(self, site: Site) -> Value:
        return unknowns.merged(site.run, *site.args, why=site.path)


def _text(path: Value) -> str:
    return path if isinstance(path, str) else shown.show(path)
