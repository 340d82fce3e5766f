"""threading, _thread, concurrent.futures and contextlib, as far as their functions are called. What their objects do
is in `host.python`."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.libs.plain import Decorating, Foreign
from kbh_lint.host.python import lanes, pools
from kbh_lint.host.values import unknowns
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.named_objects import Thread
from kbh_lint.host.values.objects import LibObject


class Threading(Library):
    """The module `threading`."""

    @models("threading.current_thread", "threading.main_thread")
    def current(self, site: Site) -> Value:
        """Models `threading.current_thread()`: an unknown thread."""
        return unknowns.merged(site.run, why=site.path)


class PlainThreads(Foreign):
    """The module `_thread`."""

    @models("_thread.start_new_thread")
    def start(self, site: Site, function: Value, args: Value = (), kwargs: Value = None, /) -> int:
        """Models `_thread.start_new_thread(function, args)`: a thread that nothing can wait for."""
        given, named = list(args) if isinstance(args, (list, tuple)) else [], kwargs if isinstance(kwargs, dict) else {}
        lanes.run(site.run, Thread(site.path, {"loc": site.loc}), function, given, named, site.loc)
        return site.run.process.id


class Concurrent(Foreign):
    """The package `concurrent`."""

    @models("concurrent.futures.as_completed")
    def as_completed(self, site: Site, fs: Value = (), timeout: Value = None) -> Value:
        """Models `concurrent.futures.as_completed(fs)`."""
        return pools.completed(site.run, fs, site.loc)

    @models("concurrent.futures.wait")
    def wait(self, site: Site, fs: Value = (), timeout: Value = None, return_when: Value = "ALL_COMPLETED") -> Value:
        """Models `concurrent.futures.wait(fs)`."""
        return pools.wait(site.run, fs, timeout, return_when, site.loc)


class Contextlib(Decorating):
    """The module `contextlib`, but for what is interpreted as Python."""

    @models("contextlib.suppress")
    def suppress(self, site: Site, *exceptions: Value) -> Value:
        """Models `contextlib.suppress(*exceptions)`."""
        return LibObject.by_path(site.path, {}, exceptions)
