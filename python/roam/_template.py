"""Templates: parses their texts, and converts values to and from the bytes of a tuple."""
import numbers
import struct

from ._arguments import type_of
from ._cdef import NUMBERS
from ._errors import OutOfRange, TooBig, WrongSize, WrongType
from ._library import lib

TUPLE_MAX = NUMBERS['ROAM_PS_TUPLE_MAX']
_CODES = {'i8': 'b', 'i16': 'h', 'i32': 'i', 'i64': 'q', 'u8': 'B', 'u16': 'H', 'u32': 'I',
          'u64': 'Q', 'f32': 'f', 'f64': 'd'}
_COUNT = struct.Struct('<I')


class _Wrong(Exception):
    """A value that its field does not take; `place`: the path to the field, innermost first."""

    def __init__(self, kind, size, value):
        super().__init__()
        self.kind, self.size, self.value, self.place = kind, size, value, []

    def error(self, element, template):
        field = ''.join(reversed(self.place)).lstrip('.')
        where = f'field {field} of {template}' if field else f'the template {template}'
        code = lib.ROAM_ETOOBIG if self.kind is TooBig else lib.ROAM_EINVAL
        error = self.kind(code, f'{where} takes {self.size}, not {self.value}',
                          element=element)
        error.field, error.size = field or None, self.size
        return error


def _many(count, what):
    return f'{count} {what}{"" if count == 1 else "s"}'


class _Number:
    """One number."""

    def __init__(self, name):
        self.name = name
        self.struct = struct.Struct('<' + _CODES[name])

    def pack(self, value, out):
        try:
            out += self.struct.pack(value)
        except (struct.error, OverflowError, TypeError, ValueError):
            raise self.wrong(value) from None

    def wrong(self, value):
        bits = 8 * self.struct.size
        if self.name[0] == 'f':
            kind, size = 'a float', f'{bits} bits'
            fits = isinstance(value, numbers.Real)
        else:
            least = -(1 << bits - 1) if self.name[0] == 'i' else 0
            kind, size = 'an int', f'{least} to {least + (1 << bits) - 1}'
            fits = hasattr(type(value), '__index__')
        if fits:
            return _Wrong(OutOfRange, f'{self.name}, {size}', f'{value!r:.40}')
        return _Wrong(WrongType, f'{self.name}, {kind}', type_of(value))

    def unpack(self, data, at):
        return self.struct.unpack_from(data, at)[0], at + self.struct.size


def _values(values, what):
    """In their order: what has none, and what is one value to everybody else, is no list."""
    if isinstance(values, (str, bytes, bytearray, memoryview, set, frozenset, dict)):
        raise _Wrong(WrongType, what, type_of(values))
    try:
        values = iter(values)
    except TypeError:
        raise _Wrong(WrongType, what, type_of(values)) from None
    return list(values)


class _Group:
    """Fields one after the other: a tuple of Python's.  One alone in ( ) is itself."""

    def __init__(self, fields):
        self.fields = fields

    def pack(self, values, out):
        size = _many(len(self.fields), 'value')
        values = _values(values, f'a tuple of {size}')
        if len(values) != len(self.fields):
            raise _Wrong(WrongSize, size, len(values))
        for i, field in enumerate(self.fields):
            try:
                field.pack(values[i], out)
            except _Wrong as wrong:
                wrong.place.append(f'.{i + 1}')
                raise

    def unpack(self, data, at):
        values = []
        for field in self.fields:
            value, at = field.unpack(data, at)
            values.append(value)
        return tuple(values), at


class _Array:
    """`count` items or, if that is None, as many as the tuple has; u8 are bytes, others a list."""

    def __init__(self, item, count):
        self.item, self.count = item, count
        self.bytes = isinstance(item, _Number) and item.name == 'u8'

    def pack(self, values, out):
        values = self._bytes(values) if self.bytes else _values(values, self._size())
        if self.count is not None and len(values) != self.count:
            raise _Wrong(WrongSize, self._size(), len(values))
        if len(values) > TUPLE_MAX:
            raise _Wrong(TooBig, f'{_many(TUPLE_MAX, "byte")} at most', len(values))
        if self.count is None:
            out += _COUNT.pack(len(values))
        if self.bytes:
            out += values
        elif isinstance(self.item, _Number):
            self._numbers(values, out)
        else:
            for i, value in enumerate(values):
                self._item(value, i, out)

    def _size(self):
        if self.bytes:
            return 'bytes or a str' + ('' if self.count is None else
                                       f' of {_many(self.count, "byte")}')
        return 'a list' if self.count is None else f'a list of {_many(self.count, "value")}'

    def _bytes(self, values):
        """Refuses to make bytes from a number, or from numbers wider than a byte."""
        try:
            if isinstance(values, str):
                return values.encode()
            if isinstance(values, (bytes, bytearray)):
                return values
        except UnicodeEncodeError as error:
            raise _Wrong(OutOfRange, self._size(), f'text that UTF-8 has not: {error}') from None
        try:
            view = memoryview(values)
        except TypeError:
            return self._octets(values)
        if view.itemsize != 1 or view.ndim == 0:
            raise _Wrong(WrongType, self._size(),
                         f'{type(values).__name__} of {view.itemsize} bytes each')
        return view.tobytes()

    def _octets(self, values):
        out = bytearray()
        if hasattr(type(values), '__bytes__') and not hasattr(type(values), '__index__'):
            return bytes(values)
        for i, value in enumerate(_values(values, self._size())):
            self._item(value, i, out)
        return out

    def _item(self, value, i, out):
        try:
            self.item.pack(value, out)
        except _Wrong as wrong:
            wrong.place.append(f'[{i}]')
            raise

    def _numbers(self, values, out):
        try:
            out += struct.pack(f'<{len(values)}{self.item.struct.format[1:]}', *values)
        except (struct.error, OverflowError, TypeError, ValueError):
            for i, value in enumerate(values):
                self._item(value, i, bytearray())
            raise

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

    def pack(self, values, element):
        out = bytearray()
        try:
            self._group.pack(values, out)
        except _Wrong as wrong:
            raise wrong.error(element, self.text) from None
        if len(out) > TUPLE_MAX:
            error = TooBig(lib.ROAM_ETOOBIG, f'a tuple has {TUPLE_MAX} bytes at most, not {len(out)}',
                           element=element)
            error.size = f'{TUPLE_MAX} bytes at most'
            raise error
        return out

    def unpack(self, data):
        values, end = self._group.unpack(data, 0)
        assert end == len(data)
        return values
