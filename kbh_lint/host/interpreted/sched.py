"""sched: calls in the order of their times, whenever these come."""


class scheduler:
    def __init__(self, timefunc=None, delayfunc=None):
        self.timefunc, self.delayfunc, self._rows = timefunc, delayfunc, []

    def enterabs(self, time, priority, action, argument=(), kwargs=None):
        row = (time, priority, action, argument, kwargs or {})
        self._rows.append(row)
        return row

    def enter(self, delay, priority, action, argument=(), kwargs=None):
        return self.enterabs(delay, priority, action, argument, kwargs)

    def cancel(self, event):
        self._rows.remove(event)

    def empty(self):
        return not self._rows

    @property
    def queue(self):
        return list(self._rows)

    def run(self, blocking=True):
        while self._rows:
            row = self._rows.pop(0)
            row[2](*row[3], **row[4])
