"""array.array."""


class array:
    def __init__(self, typecode, items=()):
        self.typecode, self.itemsize, self._items = typecode, __packing__("calcsize", "=" + typecode), []
        if isinstance(items, (bytes, bytearray)):
            self.frombytes(items)
        else:
            self._items.extend(items)

    def __len__(self):
        return len(self._items)

    def __iter__(self):
        return iter(self._items)

    def __getitem__(self, key):
        return array(self.typecode, self._items[key]) if isinstance(key, slice) else self._items[key]

    def __setitem__(self, key, value):
        self._items[key] = value

    def __contains__(self, item):
        return item in self._items

    def __eq__(self, other):
        return isinstance(other, array) and self._items == other._items

    def append(self, item):
        self._items.append(item)

    def extend(self, items):
        self._items.extend(items)

    def pop(self, at=-1):
        return self._items.pop(at)

    def index(self, item):
        return self._items.index(item)

    def tolist(self):
        return list(self._items)

    fromlist = extend

    def tobytes(self):
        return __packing__("pack", "=%d%s" % (len(self._items), self.typecode), *self._items)

    def frombytes(self, data):
        count = len(data) // self.itemsize
        self._items.extend(__packing__("unpack", "=%d%s" % (count, self.typecode), data))
