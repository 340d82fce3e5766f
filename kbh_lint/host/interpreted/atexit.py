"""atexit: functions that run at the end of the process, which no call sees, or when somebody runs them."""

_LEFT = []


def register(func, *args, **kwargs):
    _LEFT.append((func, args, kwargs))
    return func


def unregister(func):
    _LEFT[:] = [row for row in _LEFT if row[0] != func]


def _clear():
    _LEFT.clear()


def _ncallbacks():
    return len(_LEFT)


def _run_exitfuncs():
    while _LEFT:
        func, args, kwargs = _LEFT.pop()
        func(*args, **kwargs)
