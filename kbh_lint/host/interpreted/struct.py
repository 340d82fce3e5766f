"""struct.Struct."""


class Struct:
    def __init__(self, format):
        self.format, self.size = format, __packing__("calcsize", format)

    def pack(self, *values):
        return __packing__("pack", self.format, *values)

    def unpack(self, data):
        return __packing__("unpack", self.format, data)

    def unpack_from(self, data, offset=0):
        return __packing__("unpack_from", self.format, data, offset)
