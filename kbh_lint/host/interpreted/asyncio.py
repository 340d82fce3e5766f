"""asyncio: queues and events."""


class Queue:
    def __init__(self, maxsize=0):
        self._items = []

    async def put(self, item):
        self._items.append(item)

    def put_nowait(self, item):
        self._items.append(item)

    async def get(self):
        if not self._items:
            await __turn__(0)
        return self._items.pop(0)

    def get_nowait(self):
        return self._items.pop(0)

    def empty(self):
        return not self._items

    def qsize(self):
        return len(self._items)

    def task_done(self):
        return None

    async def join(self):
        await __turn__(0)


class Event:
    def __init__(self):
        self._set = False

    def set(self):
        self._set = True

    def clear(self):
        self._set = False

    def is_set(self):
        return self._set

    async def wait(self):
        if not self._set:
            await __turn__(0)
        return True
