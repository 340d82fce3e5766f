"""hashlib: what is put in is held, so that a hash of known bytes is one, whatever they are put in by."""


class _Hash:
    def __init__(self, name, data=b"", *, digest_size=None):
        self.name, self._parts, self._size = name, [data], digest_size

    def update(self, data, /):
        self._parts = [*self._parts, data]

    def digest(self):
        return __hashed__(self.name, self._parts, self._size, False)

    def hexdigest(self):
        return __hashed__(self.name, self._parts, self._size, True)

    def copy(self):
        made = _Hash(self.name, digest_size=self._size)
        made._parts = self._parts
        return made


def new(name, data=b"", *, usedforsecurity=True):
    return _Hash(name, data)


def md5(data=b"", *, usedforsecurity=True):
    return _Hash("md5", data)


def sha1(data=b"", *, usedforsecurity=True):
    return _Hash("sha1", data)


def sha224(data=b"", *, usedforsecurity=True):
    return _Hash("sha224", data)


def sha256(data=b"", *, usedforsecurity=True):
    return _Hash("sha256", data)


def sha384(data=b"", *, usedforsecurity=True):
    return _Hash("sha384", data)


def sha512(data=b"", *, usedforsecurity=True):
    return _Hash("sha512", data)


def sha3_256(data=b"", *, usedforsecurity=True):
    return _Hash("sha3_256", data)


def sha3_512(data=b"", *, usedforsecurity=True):
    return _Hash("sha3_512", data)


def blake2b(data=b"", *, digest_size=64, usedforsecurity=True):
    return _Hash("blake2b", data, digest_size=digest_size)


def blake2s(data=b"", *, digest_size=32, usedforsecurity=True):
    return _Hash("blake2s", data, digest_size=digest_size)
