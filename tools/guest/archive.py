"""Archives of the format newc, which the kernel unpacks as its first file system."""
import os
import stat


class Archive:
    """Files by their place in the guest; of files added twice the first one counts."""

    def __init__(self):
        self.bytes = bytearray()
        self.names = {'': None}

    def _entry(self, name, mode, data):
        fields = (len(self.names), mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name.encode()) + 1, 0)
        self.bytes += b'070701' + b''.join(b'%08X' % field for field in fields) + name.encode() + b'\0'
        self._align()
        self.bytes += data
        self._align()

    def _align(self):
        self.bytes += b'\0' * (-len(self.bytes) % 4)

    def has(self, name):
        return name.lstrip('/') in self.names

    def _new(self, name):
        name = name.lstrip('/')
        if name in self.names:
            return None
        self.directory(os.path.dirname(name))
        self.names[name] = None
        return name

    def directory(self, name, mode=0o755):
        new = self._new(name)
        if new:
            self._entry(new, stat.S_IFDIR | mode, b'')

    def link(self, name, target):
        new = self._new(name)
        if new:
            self._entry(new, stat.S_IFLNK | 0o777, target.encode())

    def data(self, name, data, mode=0o644):
        new = self._new(name)
        if new:
            self._entry(new, stat.S_IFREG | mode, data)

    def file(self, source, name):
        with open(source, 'rb') as file:
            self.data(name, file.read(), os.stat(source).st_mode & 0o777)

    def whole(self):
        end = Archive()
        end.names = {}
        end._entry('TRAILER!!!', 0, b'')  # pylint: disable=protected-access
        return bytes(self.bytes + end.bytes)
