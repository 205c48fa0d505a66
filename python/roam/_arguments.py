"""Converts a program's arguments for the C functions; raises an exception that names a wrong one."""
import math
import operator

from ._errors import Invalid, OutOfRange, WrongType
from ._library import lib as _lib


def type_of(value):
    """As it reads in a sentence."""
    return 'None' if value is None else f'{value!r:.40} of type {type(value).__name__}'


def text(name, value):
    """Bytes that C reads up to their end."""
    if not isinstance(value, str):
        raise WrongType(_lib.ROAM_EINVAL, f'{name} is a str, not {type_of(value)}')
    if '\0' in value:
        raise Invalid(_lib.ROAM_EINVAL, f'{name} holds a zero byte: {value!r}')
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise Invalid(_lib.ROAM_EINVAL, f'{name} is no text: {error}') from None


def number(name, value, least=0, most=2 ** 64 - 1):
    try:
        value = operator.index(value)
    except TypeError:
        raise WrongType(_lib.ROAM_EINVAL, f'{name} is an int, not {type_of(value)}') from None
    if not least <= value <= most:
        raise OutOfRange(_lib.ROAM_EINVAL, f'{name} is {least} to {most}, not {value}')
    return value


def timeout(seconds, never, at_once):
    """Nanoseconds; None, and a time too long for C: for ever."""
    if seconds is None:
        return never
    try:
        if isinstance(seconds, (str, bytes)):
            raise TypeError
        seconds = float(seconds)
    except (TypeError, ValueError):
        raise WrongType(_lib.ROAM_EINVAL,
                        f'timeout is in seconds, not {type_of(seconds)}') from None
    except OverflowError:
        return never
    if math.isnan(seconds):
        raise OutOfRange(_lib.ROAM_EINVAL, 'timeout is no number of seconds')
    if seconds <= 0:
        return at_once
    return never if seconds * 1e9 >= 2 ** 63 else max(int(seconds * 1e9), 1)


def one_of(name, value, kind):
    if not isinstance(value, kind):
        raise WrongType(_lib.ROAM_EINVAL, f'{name} is a roam.{kind.__name__}, not {type_of(value)}')
    return value
