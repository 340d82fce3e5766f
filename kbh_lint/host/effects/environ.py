"""os.environ: a clean environment, so what is asked for is not set, but for what the submission set itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import exceptions, shown
from kbh_lint.host.effects import outside
from kbh_lint.host.values import taint
from kbh_lint.host.values.library_objects import Environment
from kbh_lint.host.values.modelled import Methods, Owner, Rows, Site, models
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_ALWAYS_SET = frozenset(("PATH", "HOME", "PWD"))


def get(run: Run, key: Value, default: Value, loc: ir.Loc | None) -> Value:
    """Models `os.environ.get(key, default)` and `os.getenv`."""
    found = _known(run, _name(key), loc)
    return default if found is NotImplemented else found


def item(run: Run, key: Value, loc: ir.Loc | None) -> Value:
    """Models `os.environ[key]`; raises KeyError in the program where the variable is not set."""
    found = _known(run, _name(key), loc)
    if found is NotImplemented:
        found = outside.FOLDERS.get(_name(key), NotImplemented)
    return exceptions.raise_("KeyError", [key], loc) if found is NotImplemented else found


def _known(run: Run, variable: str, loc: ir.Loc | None) -> Value:
    """What a variable holds, as far as that is known; NotImplemented where nothing is set."""
    if variable in run.process.environ:
        return run.process.environ[variable]
    if taint.asked_variable(variable):
        return _asked(run, variable, loc)
    set_by_others = variable in _ALWAYS_SET and variable not in outside.FOLDERS
    return Unknown((), f"os.environ {variable}") if set_by_others else NotImplemented


def put(run: Run, key: Value, value: Value) -> None:
    """Models `os.environ[key] = value` and `os.putenv`."""
    run.process.environ[_name(key)] = value


def pop(run: Run, key: Value, default: Value) -> Value:
    """Models `os.environ.pop(key, default)` and `os.unsetenv`."""
    return run.process.environ.pop(_name(key), default)


class _Environ(Methods[Owner]):
    """`os.environ`."""

    @models("get", "getenv")
    def get(self, site: Site, owner: LibObject, key: Value, default: Value = None) -> Value:
        """Models `os.environ.get(key, default)`."""
        return get(site.run, key, default, site.loc)

    @models("__getitem__")
    def item(self, site: Site, owner: LibObject, key: Value) -> Value:
        """Models `os.environ[key]`."""
        return item(site.run, key, site.loc)

    @models("__setitem__")
    def put(self, site: Site, owner: LibObject, key: Value, value: Value) -> None:
        """Models `os.environ[key] = value`."""
        put(site.run, key, value)

    @models("__contains__")
    def holds(self, site: Site, owner: LibObject, key: Value) -> Value:
        """Models `key in os.environ`."""
        variable = _name(key)
        if variable in site.run.process.environ:
            return True
        if taint.asked_variable(variable):
            return _asked(site.run, variable, site.loc)
        return variable in outside.FOLDERS or variable in _ALWAYS_SET

    @models("pop", "__delitem__")
    def pop(self, site: Site, owner: LibObject, key: Value, default: Value = None) -> Value:
        """Models `os.environ.pop(key, default)`."""
        return pop(site.run, key, default)

    @models("setdefault")
    def setdefault(self, site: Site, owner: LibObject, key: Value, value: Value) -> Value:
        """Models `os.environ.setdefault(key, value)`."""
        return site.run.process.environ.setdefault(_name(key), value)

    @models("update")
    def update(self, site: Site, owner: LibObject, other: Value = None, /, **named: Value) -> None:
        """Models `os.environ.update(...)`."""
        given = {**(other if isinstance(other, dict) else {}), **named}
        site.run.process.environ.update({str(key): value for key, value in given.items()})

    def other(self, site: Site, owner: Owner) -> Value:
        """Answers a call of a method without a model (`Methods.other`): None."""
        return None


METHODS: Rows = {Environment: _Environ()}


def _name(key: Value) -> str:
    return shown.show(key)[:60]


def _asked(run: Run, variable: str, loc: ir.Loc | None) -> Unknown:
    """What stands for a variable that tells who runs the submission."""
    return taint.asked(run, f"os.environ {variable}", taint.ENVIRONMENT, loc)
