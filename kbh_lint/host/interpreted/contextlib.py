"""contextlib: context managers as decorators."""


class ContextDecorator:
    def _recreate_cm(self):
        return self

    def __call__(self, func):
        def inner(*args, **kwargs):
            with self._recreate_cm():
                return func(*args, **kwargs)

        inner.__wrapped__ = func
        return inner


class AsyncContextDecorator:
    def __call__(self, func):
        async def inner(*args, **kwargs):
            async with self:
                return await func(*args, **kwargs)

        return inner


def decorated(make, func):
    def inner(*args, **kwargs):
        with make():
            return func(*args, **kwargs)

    inner.__wrapped__ = func
    return inner
