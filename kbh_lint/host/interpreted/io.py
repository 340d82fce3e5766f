"""io.StringIO."""


class StringIO:
    def __init__(self, initial="", newline=None):
        self._parts, self._at, self.closed = [initial] if initial else [], 0, False

    def write(self, text):
        self._parts.append(text)
        return len(text)

    def writelines(self, lines):
        self._parts.extend(lines)

    def getvalue(self):
        return "".join(self._parts)

    def read(self, size=-1):
        left = self.getvalue()[self._at :]
        if size is not None and size >= 0:
            left = left[:size]
        self._at = self._at + len(left)
        return left

    def readlines(self):
        return self.read().splitlines(True)

    def __iter__(self):
        return iter(self.readlines())

    def seek(self, at, whence=0):
        self._at = at if whence == 0 else len(self.getvalue())
        return self._at

    def tell(self):
        return self._at

    def truncate(self, size=None):
        self._parts = [self.getvalue()[: self._at if size is None else size]]

    def flush(self):
        return None

    def close(self):
        self.closed = True

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()
