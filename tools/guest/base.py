"""What all guests have: Debian's stock kernel, its modules for Soft-RoCE, and a few tools.

The kernel is unpacked, not installed: its package is fetched by apt-get, so that this needs no root.
"""
import lzma
import os
import re
import shutil
import subprocess
import sys

from archive import Archive

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CACHE = os.environ.get('ROAM_GUEST_CACHE') or os.path.join(ROOT, 'build', 'guest')
META = 'linux-image-amd64'
QEMU = 'qemu-system-x86_64'
SIGNATURE = b'~Module signature appended~\n'

# In this order, because rdma_rxe asks for the checksums by name when it is loaded.
MODULES = ['crc32-pclmul', 'crc32_generic', 'crc32c_generic', 'veth', 'rdma_rxe', 'rdma_ucm', 'sch_netem',
           'sch_tbf', 'bridge']
TOOLS = ['/usr/bin/rdma', '/bin/ip', '/sbin/tc', '/usr/bin/setpriv', '/usr/bin/prlimit']
LIBRARIES = '/usr/lib/x86_64-linux-gnu'


class Missing(Exception):
    """This machine lacks something; the text says what."""


def need(command):
    found = shutil.which(command, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
    if found is None:
        raise Missing(f'there is no {command}')
    return found


def output(*command, **more):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, **more).stdout


def kernel_package():
    """The kernel package that the meta package depends on at present."""
    try:
        found = re.search(r'Depends: (linux-image-\S+)', output(need('apt-cache'), 'depends', META))
    except subprocess.CalledProcessError as error:
        raise Missing(f'apt-cache knows no package {META}') from error
    if found is None:
        raise Missing(f'apt-cache knows no package {META}')
    return found.group(1)


def fetch(package):
    """Unpacks the package into the cache; returns its directory."""
    where = os.path.join(CACHE, package)
    if os.path.isdir(where):
        return where
    fresh = where + f'.{os.getpid()}'
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh)
    try:
        output(need('apt-get'), '-q', 'download', package, cwd=fresh)
        archive = next(name for name in os.listdir(fresh) if name.endswith('.deb'))
        output(need('dpkg-deb'), '-x', archive, 'tree', cwd=fresh)
    except (subprocess.CalledProcessError, StopIteration) as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise Missing(f'apt-get cannot download {package}') from error
    os.unlink(os.path.join(fresh, archive))
    output(need('depmod'), '-b', os.path.join(fresh, 'tree'), package.removeprefix('linux-image-'))
    try:
        os.rename(fresh, where)
    except OSError:  # another process was faster
        shutil.rmtree(fresh, ignore_errors=True)
    return where


def unpack_kernel(compressed):
    """The ELF file within a compressed kernel, which boots much sooner under emulation."""
    with open(compressed, 'rb') as file:
        data = file.read()
    for found in re.finditer(rb'\xfd7zXZ\x00', data):
        try:
            kernel = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(data[found.start():])
        except lzma.LZMAError:
            continue
        if kernel.startswith(b'\x7fELF'):
            return kernel
    raise Missing(f'{compressed} has no kernel compressed by xz')


def unsigned(module):
    """A module without its signature, because checking that takes long under emulation."""
    if not module.endswith(SIGNATURE):
        return module
    length = int.from_bytes(module[-len(SIGNATURE) - 4:-len(SIGNATURE)], 'big')
    return module[:-len(SIGNATURE) - 12 - length]


def modules(tree, version):
    """(name, bytes) of the modules, each after those that it needs."""
    base = os.path.join(tree, 'lib', 'modules', version)
    needs, paths, order = {}, {}, []
    with open(os.path.join(base, 'modules.dep'), encoding='utf-8') as lines:
        for line in lines:
            path, _, others = line.partition(':')
            needs[path] = others.split()[::-1]  # modprobe lists the nearest one first
            paths[os.path.basename(path).partition('.ko')[0]] = path
    for name in MODULES:
        if name in paths:  # otherwise it is built into the kernel
            order += [path for path in (*needs[paths[name]], paths[name]) if path not in order]
    for path in order:
        with open(os.path.join(base, path), 'rb') as file:
            yield os.path.basename(path), unsigned(file.read())


def libraries(program):
    """The shared libraries of a program, the dynamic linker among them."""
    done = subprocess.run(['ldd', program], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=False)
    return sorted(set(re.findall(r'(/\S+\.so\S*)', done.stdout)))


def guest_place(path):
    """Where a file of this machine lies in a guest, where /lib is /usr/lib."""
    return re.sub(r'^/(bin|sbin|lib|lib64)/', r'/usr/\1/', path)


def add_program(archive, source, place=None):
    """A program and its shared libraries."""
    archive.file(source, place or guest_place(source))
    for library in libraries(source):
        archive.file(library, guest_place(library))


def add_verbs(archive):
    """The providers of libibverbs, which no program is linked with."""
    archive.directory('/etc/libibverbs.d')
    for name in ('rxe', 'siw'):
        provider = f'{LIBRARIES}/libibverbs/lib{name}-rdmav34.so'
        driver = f'/etc/libibverbs.d/{name}.driver'
        if not os.path.exists(provider) or not os.path.exists(driver):
            raise Missing(f'there is no {provider}: the package ibverbs-providers')
        add_program(archive, provider)
        archive.file(driver, driver)


def base_archive(tree, version):
    archive = Archive()
    for name in ('bin', 'sbin', 'lib', 'lib64'):
        archive.directory(f'/usr/{name}')
        archive.link(name, f'usr/{name}')
    for name in ('proc', 'sys', 'dev', 'run', 'root', 'mod', 'var', 'guest'):
        archive.directory(name)
    archive.directory('tmp', 0o1777)
    archive.file(need('busybox'), '/usr/bin/busybox')
    for tool in TOOLS:
        if not os.path.exists(tool):
            raise Missing(f'there is no {tool}')
        add_program(archive, tool, f'/usr/bin/{os.path.basename(tool)}')
    # Otherwise Busybox's shell would run its own ip instead of the one in PATH.
    add_program(archive, '/bin/dash', '/usr/bin/sh')
    for applet in output('busybox', '--list').split():
        archive.link(f'/usr/bin/{applet}', 'busybox')
    # The C library loads it by name when a thread ends.
    archive.file('/lib/x86_64-linux-gnu/libgcc_s.so.1', f'{LIBRARIES}/libgcc_s.so.1')
    add_verbs(archive)
    archive.data('/etc/passwd', b'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:n:/tmp:/bin/sh\n')
    archive.data('/etc/group', b'root:x:0:\nnogroup:x:65534:\n')
    archive.data('/etc/hosts', b'127.0.0.1 localhost guest\n')
    archive.data('/etc/nsswitch.conf', b'passwd: files\nhosts: files\n')
    order = dict(modules(tree, version))
    for name, module in order.items():
        archive.data(f'/mod/{name}', module)
    archive.data('/mod/order', '\n'.join(order).encode() + b'\n')
    return archive


class Base:
    """Makes the kernel and the first archive when they are first needed."""

    def __init__(self):
        need(QEMU)
        package = kernel_package()
        tree = os.path.join(fetch(package), 'tree')
        version = package.removeprefix('linux-image-')
        self.kernel = os.path.join(CACHE, package, 'vmlinux')
        self.tick = os.path.join(CACHE, package, 'tsckhz')
        self.archive = base_archive(tree, version)
        self._make(self.kernel, lambda: unpack_kernel(os.path.join(tree, 'boot', f'vmlinuz-{version}')))
        if not os.path.exists(self.tick):
            output(need('cc'), '-O1', '-o', self.tick, os.path.join(HERE, 'tsckhz.c'))

    @staticmethod
    def _make(path, make):
        if os.path.exists(path):
            return
        fresh = f'{path}.{os.getpid()}'
        with open(fresh, 'wb') as file:
            file.write(make())
        os.rename(fresh, path)

    def khz(self):
        """Ticks of the time stamp counter, which a guest cannot measure itself under emulation."""
        return int(output(self.tick))


if __name__ == '__main__':
    try:
        Base()
    except Missing as missing:
        sys.exit(f'tools/guest: {missing}')
