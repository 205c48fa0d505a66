"""Templates: what their texts say, and values to and from the bytes of a tuple."""
import struct

_CODES = {'i8': 'b', 'i16': 'h', 'i32': 'i', 'i64': 'q', 'u8': 'B', 'u16': 'H', 'u32': 'I',
          'u64': 'Q', 'f32': 'f', 'f64': 'd'}
_COUNT = struct.Struct('<I')


class _Number:
    """One number."""

    def __init__(self, name):
        self.name = name
        self.struct = struct.Struct('<' + _CODES[name])

    def pack(self, value, out):
        try:
            out += self.struct.pack(value)
        except struct.error as error:
            raise ValueError(f'{value!r} is no {self.name}: {error}') from None

    def unpack(self, data, at):
        return self.struct.unpack_from(data, at)[0], at + self.struct.size


class _Group:
    """Fields one after the other: a tuple of Python's.  One alone in ( ) is itself."""

    def __init__(self, fields):
        self.fields = fields

    def pack(self, values, out):
        values = tuple(values)
        if len(values) != len(self.fields):
            raise ValueError(f'{len(self.fields)} fields, {len(values)} values')
        for field, value in zip(self.fields, values):
            field.pack(value, out)

    def unpack(self, data, at):
        values = []
        for field in self.fields:
            value, at = field.unpack(data, at)
            values.append(value)
        return tuple(values), at


class _Array:
    """Items, as many as `count` or, if that is None, as the tuple says; u8 are bytes, others a list."""

    def __init__(self, item, count):
        self.item, self.count = item, count
        self.bytes = isinstance(item, _Number) and item.name == 'u8'

    def pack(self, values, out):
        if self.bytes and isinstance(values, str):
            values = values.encode()
        values = bytes(values) if self.bytes else list(values)
        if self.count is None:
            out += _COUNT.pack(len(values))
        elif len(values) != self.count:
            raise ValueError(f'an array of {self.count}, {len(values)} values')
        if self.bytes:
            out += values
        elif isinstance(self.item, _Number):
            try:
                out += struct.pack(f'<{len(values)}{self.item.struct.format[1:]}', *values)
            except struct.error as error:
                raise ValueError(f'not all are {self.item.name}: {error}') from None
        else:
            for value in values:
                self.item.pack(value, out)

    def unpack(self, data, at):
        count = self.count
        if count is None:
            count = _COUNT.unpack_from(data, at)[0]
            at += _COUNT.size
        if self.bytes:
            return bytes(data[at:at + count]), at + count
        if isinstance(self.item, _Number):
            end = at + count * self.item.struct.size
            return list(struct.unpack_from(f'<{count}{self.item.struct.format[1:]}', data, at)), end
        values = []
        for _ in range(count):
            value, at = self.item.unpack(data, at)
            values.append(value)
        return values, at


def _fields(text, at):
    """Fields up to a ) or the end; the text is canonical: roam_ps_enter has looked at it."""
    fields = []
    while True:
        if text[at] == '(':
            inner, at = _fields(text, at + 1)
            item, at = inner[0] if len(inner) == 1 else _Group(inner), at + 1
        else:
            end = at
            while end < len(text) and text[end].isalnum():
                end += 1
            item, at = _Number(text[at:end]), end
        if text[at:at + 1] == '[':
            end = text.index(']', at)
            item, at = _Array(item, int(text[at + 1:end]) if end > at + 1 else None), end + 1
        fields.append(item)
        if text[at:at + 1] != ',':
            return fields, at
        at += 1


class Template:
    def __init__(self, text):
        self.text = text
        self._group = _Group(_fields(text, 0)[0])

    def pack(self, values):
        out = bytearray()
        self._group.pack(values, out)
        return out

    def unpack(self, data):
        values, end = self._group.unpack(data, 0)
        assert end == len(data)
        return values
