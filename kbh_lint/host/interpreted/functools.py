"""functools: what dispatches on types, orders and partial methods."""


class singledispatch:
    def __init__(self, func):
        self.registry = {object: func}
        self.__wrapped__ = func

    def register(self, cls, func=None):
        if func is None:
            if isinstance(cls, type):
                return lambda func: self.register(cls, func)
            func = cls
            cls = next(iter(func.__annotations__.values()))
        for kind in (cls,) if isinstance(cls, type) else cls.__args__:
            self.registry[kind] = func
        return func

    def find(self, test):
        best = object
        for kind in self.registry:
            if test(kind) and issubclass(kind, best):
                best = kind
        return self.registry[best]

    def dispatch(self, cls):
        return self.find(lambda kind: issubclass(cls, kind))

    def __call__(self, *args, **kwargs):
        return self.find(lambda kind: isinstance(args[0], kind))(*args, **kwargs)


class singledispatchmethod:
    def __init__(self, func):
        self.dispatcher = singledispatch(func)

    def register(self, cls, func=None):
        return self.dispatcher.register(cls, func)

    def __get__(self, owner, cls=None):
        def method(*args, **kwargs):
            found = self.dispatcher.find(lambda kind: isinstance(args[0], kind))
            if isinstance(found, (classmethod, staticmethod)):
                return found.__get__(owner, cls)(*args, **kwargs)
            return found(owner, *args, **kwargs)

        return method


def total_ordering(cls):
    if hasattr(cls, "__lt__"):
        more = {
            "__gt__": lambda a, b: not (a < b or a == b),
            "__le__": lambda a, b: a < b or a == b,
            "__ge__": lambda a, b: not a < b,
        }
    elif hasattr(cls, "__gt__"):
        more = {
            "__lt__": lambda a, b: not (a > b or a == b),
            "__ge__": lambda a, b: a > b or a == b,
            "__le__": lambda a, b: not a > b,
        }
    elif hasattr(cls, "__le__"):
        more = {
            "__ge__": lambda a, b: not a <= b or a == b,
            "__lt__": lambda a, b: a <= b and not a == b,
            "__gt__": lambda a, b: not a <= b,
        }
    else:
        more = {
            "__le__": lambda a, b: not a >= b or a == b,
            "__gt__": lambda a, b: a >= b and not a == b,
            "__lt__": lambda a, b: not a >= b,
        }
    for name, method in more.items():
        if not hasattr(cls, name):
            setattr(cls, name, method)
    return cls


class partialmethod:
    def __init__(self, func, *args, **keywords):
        self.func, self.args, self.keywords = func, args, keywords

    def __get__(self, owner, cls=None):
        return lambda *args, **kwargs: self.func(owner, *self.args, *args, **{**self.keywords, **kwargs})
