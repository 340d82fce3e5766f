"""queue: what one thread puts in, another takes out."""


class Empty(Exception):
    pass


class Full(Exception):
    pass


class Queue:
    def __init__(self, maxsize=0):
        self.queue = []
        self.maxsize = maxsize

    def put(self, item, block=True, timeout=None):
        self.queue.append(item)

    def put_nowait(self, item):
        self.queue.append(item)

    def get(self, block=True, timeout=None):
        if not self.queue:
            raise Empty()
        return self._next()

    def get_nowait(self):
        return self.get(False)

    def _next(self):
        return self.queue.pop(0)

    def empty(self):
        return not self.queue

    def full(self):
        return 0 < self.maxsize <= len(self.queue)

    def qsize(self):
        return len(self.queue)

    def task_done(self):
        return None

    def join(self):
        return None


class SimpleQueue(Queue):
    pass


class LifoQueue(Queue):
    def _next(self):
        return self.queue.pop()


class PriorityQueue(Queue):
    def _next(self):
        self.queue.sort()
        return self.queue.pop(0)
