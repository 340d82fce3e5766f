"""subprocess: a compiler that is run builds the source files it is given."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.effects import builds
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.objects import LibObject


class Subprocess(Library):
    """The module `subprocess`."""

    @models("Popen")
    def started(
        self, site: Site, args: Value = None, *how: Value, input: Value = None, cwd: Value = None, **named: Value
    ) -> Value:
        """Models `subprocess.Popen(args)`: a process that runs beside the program."""
        builds.process(site, args, input, cwd)
        attrs = {"returncode": 0, "stdout": "", "stderr": "", "loc": site.loc, "pid": LibObject("subprocess.pid")}
        return LibObject.by_path(site.path, attrs)

    @models("run", "call", "check_call", "check_output", "getoutput", "getstatusoutput")
    def run(
        self, site: Site, args: Value = None, *how: Value, input: Value = None, cwd: Value = None, **named: Value
    ) -> Value:
        """Models `subprocess.run(args)` and the like: a process that is waited for."""
        builds.process(site, args, input, cwd)
        return LibObject("subprocess.CompletedProcess", {"returncode": 0, "stdout": "", "stderr": ""})

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`) as if it ran a command."""
        return self.run(site, site.args[0] if site.args else None)
