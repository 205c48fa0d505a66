"""gdb commands for programs over roam.  In gdb, or in ~/.gdbinit:

    source roam-gdb.py

Page faults of the shared heap are signals that the library handles: gdb does not stop at them.  To
stop at a real crash, use `handle SIGSEGV stop print` once the program is near it.

    roam page ADDRESS   what this node knows of the page: access, state, home, twin, versions, bytes
    roam page #NUMBER   a page by its number
    roam nodes          every node's process, and what it waits for
"""
import gdb

PAGE = 4096
ACCESS = ('none', 'read', 'write')
LIVES = ('new', 'alone', 'joined', 'together', 'over')
FLAGS = ((1, 'pending'), (2, 'home'), (4, 'dirty'), (8, 'keep'), (16, 'want write'),
         (32, 'parked'), (64, 'ahead'))
HEADER = ((1, 'home'), (2, 'ready'), (4, 'block'), (8, 'bytes'))
WORDS = ('nobody', 'claimed by', 'home is', 'assigned to')
OWN = {8: 'the end of the job', 16: 'roam_reduce', 24: 'roam_barrier_all',
       32: 'the first synchronisation of all'}
WAITS = ('nothing', 'lock', 'barrier', 'flag', 'reduction', 'create', 'end', 'condition')


def find_job():
    """The library's one job; statics with the same name in other files are skipped."""
    for symbol in gdb.lookup_static_symbols('job'):
        if symbol.type.name == 'roami_job' or str(symbol.type) == 'struct roami_job':
            return symbol.value()
    raise gdb.GdbError('no debugging information of roam here; kill -QUIT makes a job say '
                       'what its nodes wait for')


def find_node():
    job = find_job()
    if int(job['node']) == 0:
        raise gdb.GdbError('roam has not started in this process')
    return job, job['node'].dereference()


def names(bits, table):
    return ', '.join(name for bit, name in table if bits & bit) or '-'


def text_or(read):
    """The result of `read`, unless that reads shared memory, which core files leave out."""
    connection = gdb.selected_inferior().connection
    if connection is not None and connection.type == 'core':
        return '(shared memory is not in core files)'
    return read()


def page_number(argument, job):
    if argument.startswith('#'):
        return int(argument[1:], 0), 0
    address = int(gdb.parse_and_eval(argument).cast(gdb.lookup_type('unsigned long')))
    base = int(job['app'].cast(gdb.lookup_type('unsigned long')))
    return (address - base) // PAGE, address % PAGE


def domain_of(node, number):
    """The domain of the heap in which the page lies; one protocol is in use there."""
    domains = [node['domains'][i] for i in range(int(node['domain_count']))]
    return next((domain for domain in domains
                 if int(domain['first']) <= number < int(domain['end'])), domains[0])


def protocol_data(node, number):
    """The protocol's page data: struct NAME_page, or struct home_page of protocols that share
    it."""
    domain = domain_of(node, number)
    name = domain['protocol']['name'].string()
    size = int(domain['protocol']['page_size'])
    number -= int(domain['first'])
    for kind in (f'struct {name}_page', 'struct home_page'):
        try:
            found = gdb.lookup_type(kind)
        except gdb.error:
            continue
        if found.sizeof == size:
            at = (domain['page_data'] + number * size).cast(found.pointer())
            return f'{kind[7:]} {at.dereference()}'
    return f'{size} bytes'


def header_text(segment, number):
    header = segment['headers'][number]
    where, shared = int(header['where']), int(header['shared'])
    return (f'{names(where, HEADER)}, epoch {where >> 8}, '
            f'{"shared" if shared & 3 else "not shared"}, version {int(header["version"])}')


def word_text(segment, number):
    word = int(segment['directory'][number])
    state = word >> 62
    return WORDS[state] + (f' node {word & 0xffff}' if state else '')


def bytes_text(segment, number, offset):
    start = int(segment['heap'].cast(gdb.lookup_type('unsigned long'))) + number * PAGE + offset
    data = bytes(gdb.selected_inferior().read_memory(start, min(16, PAGE - offset)))
    return data.hex(' ')


def twin_text(node, number, twin):
    if twin == 0:
        return 'none'
    start = int(node['twins']['pool'].cast(gdb.lookup_type('unsigned long'))) + twin * PAGE
    now = int(node['self']['heap'].cast(gdb.lookup_type('unsigned long'))) + number * PAGE
    inferior = gdb.selected_inferior()
    pairs = zip(bytes(inferior.read_memory(start, PAGE)), bytes(inferior.read_memory(now, PAGE)))
    return f'{twin}, {sum(a != b for a, b in pairs)} bytes changed since'


def show_page(job, node, number, offset):
    me, nodes = int(node['me']), int(node['nodes'])
    entry = node['table'][number]
    protocol = domain_of(node, number)['protocol']
    state = protocol['states'][int(entry['state'])]['name'].string()
    home = int(entry['home']) - 1
    manager = number // 512 % nodes
    segments = node['segments']
    base = int(job['app'].cast(gdb.lookup_type('unsigned long')))
    print(f'page {number} at {base + number * PAGE:#x}, seen by node {me} of {nodes}, '
          f'{protocol["name"].string()}')
    print(f'  access     {ACCESS[int(entry["access"])]}')
    print(f'  state      {state}')
    print(f'  flags      {names(int(entry["flags"]), FLAGS)}')
    print(f'  heat       {int(entry["heat"])}')
    print(f'  home       {f"node {home}" if home >= 0 else "not known here"}')
    print('  twin       ' + text_or(lambda: twin_text(node, number, int(entry['twin']))))
    print('  protocol   ' + protocol_data(node, number))
    print('  directory  ' + text_or(lambda: word_text(segments[manager], number)) +
          f' (kept by node {manager})')
    if home >= 0:
        print('  header     ' + text_or(lambda: header_text(segments[home], number)) +
              f' (at node {home})')
    print(f'  + {offset:#05x}    ' + text_or(lambda: bytes_text(node['self'], number, offset)))


class Roam(gdb.Command):
    """Commands for programs over roam: roam page ADDRESS, roam nodes."""

    def __init__(self):
        super().__init__('roam', gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class RoamPage(gdb.Command):
    """What this node knows of a page of the shared heap: roam page ADDRESS, or roam page #NUMBER."""

    def __init__(self):
        super().__init__('roam page', gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, _from_tty):
        if not argument:
            raise gdb.GdbError('roam page ADDRESS, or roam page #NUMBER')
        job, node = find_node()
        number, offset = page_number(argument, job)
        if not 0 <= number < int(node['layout']['pages']):
            raise gdb.GdbError(f'{argument} is not in the shared heap')
        show_page(job, node, number, offset)


class RoamNodes(gdb.Command):
    """Every node of the job: its process, and what it waits for."""

    def __init__(self):
        super().__init__('roam nodes', gdb.COMMAND_STATUS, gdb.COMPLETE_NONE)

    def invoke(self, _argument, _from_tty):
        job, node = find_node()
        life = LIVES[int(job['life'])]
        print(f'node {int(node["me"])} of {int(node["nodes"])}, {life}, '
              f'{node["protocol"]["name"].string()} over {node["transport"]["name"].string()}, '
              f'faults by {node["engine"]["name"].string()}')
        for i in range(int(node['nodes'])):
            print(f'  node {i}  ' + text_or(lambda i=i: self.line(node['segments'][i]['ctl'])))

    @staticmethod
    def line(ctl):
        waits = []
        for i in range(int(ctl['seats'])):
            kind, at = int(ctl['waits'][i]['kind']), int(ctl['waits'][i]['id'])
            if kind:
                waits.append(OWN.get(at) or (WAITS[kind] + f' {at:#x}' if kind < len(WAITS)
                                             else 'a tuple'))
        return f'pid {int(ctl["pid"])}, waits for {", ".join(waits) or "nothing"}'


gdb.execute('handle SIGSEGV SIGBUS nostop noprint pass', to_string=True)
Roam()
RoamPage()
RoamNodes()
