"""contextvars."""

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
