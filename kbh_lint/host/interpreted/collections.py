"""collections.ChainMap."""


class ChainMap:
    def __init__(self, *maps):
        self.maps = list(maps) or [{}]

    def __missing__(self, key):
        raise KeyError(key)

    def __getitem__(self, key):
        for mapping in self.maps:
            if key in mapping:
                return mapping[key]
        return self.__missing__(key)

    def _merged(self):
        found = {}
        for mapping in reversed(self.maps):
            found.update(mapping)
        return found

    def get(self, key, default=None):
        return self[key] if key in self else default

    def __contains__(self, key):
        return any(key in mapping for mapping in self.maps)

    def __len__(self):
        return len(self._merged())

    def __iter__(self):
        return iter(self._merged())

    def __bool__(self):
        return any(self.maps)

    def __eq__(self, other):
        return self._merged() == dict(other)

    def keys(self):
        return self._merged().keys()

    def values(self):
        return self._merged().values()

    def items(self):
        return self._merged().items()

    def __setitem__(self, key, value):
        self.maps[0][key] = value

    def __delitem__(self, key):
        del self.maps[0][key]

    def update(self, *args, **kwargs):
        self.maps[0].update(*args, **kwargs)

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key, *default):
        return self.maps[0].pop(key, *default)

    def clear(self):
        self.maps[0].clear()

    def new_child(self, m=None, **kwargs):
        return ChainMap(kwargs if m is None else m, *self.maps)

    @property
    def parents(self):
        return ChainMap(*self.maps[1:])

    def copy(self):
        return ChainMap(self.maps[0].copy(), *self.maps[1:])
