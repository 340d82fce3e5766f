"""queue: what one thread puts in, another takes out."""


class Empty(Exception):
    pass


class Full(Exception):
    pass


class Queue:
    def __init__(self, maxsize=0):
        self.maxsize = maxsize
        self._init(maxsize)

    def _init(self, maxsize):
        self.queue = []

    def _put(self, item):
        self.queue.append(item)

    def put(self, item, block=True, timeout=None):
        self._put(item)

    def put_nowait(self, item):
        self.put(item, False)

    def get(self, block=True, timeout=None):
        if not self.queue:
            raise Empty()
        return self._get()

    def get_nowait(self):
        return self.get(False)

    def _get(self):
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
    def _get(self):
        return self.queue.pop()


class PriorityQueue(Queue):
    def _get(self):
        self.queue.sort()
        return self.queue.pop(0)
