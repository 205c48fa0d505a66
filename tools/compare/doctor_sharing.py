"""`roam doctor --sharing`: which nodes used which bytes of pages that several use, per
allocation."""
import bisect
import html
import os
import tempfile

import doctor_finds as finds
import runs

PAGE = 4096
LINE = 64           # bytes of a cell of the heat map
WORST = 4           # pages of an allocation that the table lists
PICTURE_MAX = 200   # and that the heat map shows
COLORS = ('#4878d0', '#ee854a', '#6acc64', '#d5bb67', '#956cb4', '#8c613c', '#dc7ec0', '#82c6e2',
          '#797979', '#2f4b7c', '#c44e52', '#55a868')
SEVERAL = '#c0201a'
NOBODY = '#eeeeee'
HEADINGS = ('allocation', 'bytes', 'pages', 'used by several', 'written by several', 'read faults',
            'write faults', 'fetches')


class Page:
    """A page's use by all nodes: {node: (read faults, write faults, fetches)}, {node: [(first,
    last)]}."""

    def __init__(self, number):
        self.number = number
        self.uses = {}
        self.wrote = {}

    def users(self):
        return set(self.uses) | set(self.wrote)

    def sums(self):
        return tuple(sum(use[i] for use in self.uses.values()) for i in range(3))

    def heat(self):
        return sum(self.sums())

    def nodes_of(self):
        """For each byte, the nodes that wrote it, as a set of bits."""
        nodes = [0] * PAGE
        for node, ranges in self.wrote.items():
            for first, last in ranges:
                for byte in range(first, last + 1):
                    nodes[byte] |= 1 << node
        return nodes

    def in_common(self):
        return sum(bits & (bits - 1) != 0 for bits in self.nodes_of())


class Block:
    """An allocation, and those of its pages that were used."""

    def __init__(self, offset, size, name):
        self.offset, self.size, self.name = offset, size, name
        self.pages = []
        self.spans = set(range(offset // PAGE, (offset + size - 1) // PAGE + 1))  # pages, used or not

    def join(self, others):
        """Joins small allocations made at one place in the program."""
        for other in others:
            self.size += other.size
            self.spans |= other.spans
            self.pages += other.pages
        self.pages = sorted(set(self.pages), key=lambda page: page.number)
        self.name = f'{self.name} ({len(others) + 1} blocks)'

    def shared(self):
        """Pages that several nodes use, the hottest first."""
        return sorted((page for page in self.pages if len(page.users()) > 1),
                      key=lambda page: (-page.heat(), page.number))

    def row(self):
        shared = self.shared()
        sums = [sum(values) for values in zip(*(page.sums() for page in self.pages))] or [0] * 3
        return (self.name, self.size, len(self.spans),
                len(shared), sum(len(page.wrote) > 1 for page in shared), *sums)


def spans(text):
    return [tuple(map(int, span.split('-'))) for span in text.split(',') if span]


class Sharing:
    """Reads the files that all nodes wrote."""

    def __init__(self, program, paths):
        self.program = program
        self.nodes = 0
        self.pages = {}
        known = {}
        for path in paths:
            with open(path, encoding='utf-8') as file:
                me = 0
                for line in file:
                    kind, *words = line.rstrip('\n').split('\t')
                    if kind == 'node':
                        me, self.nodes = int(words[0]), int(words[1])
                    elif kind == 'block':
                        known[int(words[0])] = (int(words[1]), words[2], words[3])
                    else:
                        self.add(kind, me, words)
        self.blocks = [Block(offset, size, name or self.line(code) or 'a block')
                       for offset, (size, code, name) in sorted(known.items()) if size > 0]
        self.other = Block(0, 0, '(no allocation)')
        self.deal()
        self.join_small()

    def line(self, code):
        return code and finds.code_place(self.program, code)

    def add(self, kind, me, words):
        page = self.pages.setdefault(int(words[0]), Page(int(words[0])))
        if kind == 'page':
            page.uses[me] = tuple(map(int, words[1:4]))
        else:
            page.wrote.setdefault(int(words[1]), []).extend(spans(words[2]))

    def deal(self):
        """Maps each page to the allocations that have a part of it."""
        starts = [block.offset for block in self.blocks]
        for page in self.pages.values():
            first = max(0, bisect.bisect_right(starts, page.number * PAGE) - 1)
            last = bisect.bisect_left(starts, (page.number + 1) * PAGE)
            there = [block for block in self.blocks[first:last]
                     if block.offset + block.size > page.number * PAGE]
            for block in there or [self.other]:
                block.pages.append(page)

    def join_small(self):
        """Joins small allocations of one place: many lie in one page, which would be shown for each
        of them."""
        places = {}
        for block in self.blocks:
            places.setdefault(block.name if block.size < PAGE else block, []).append(block)
        for same in places.values():
            if len(same) > 1:
                same[0].join(same[1:])
        self.blocks = [same[0] for same in places.values()]

    def hot(self):
        """Allocations with pages that several use, the hottest first."""
        chosen = [block for block in [*self.blocks, self.other] if block.shared()]
        return sorted(chosen, key=lambda block: -sum(page.heat() for page in block.shared()))


# ---------------------------------------------------------------------------------------- table

def ranges_text(ranges):
    ranges = sorted(ranges)
    text = ', '.join(f'0x{first:x}-0x{last:x}' for first, last in ranges[:3])
    return text + (f' and {len(ranges) - 3} more' if len(ranges) > 3 else '')


def page_text(block, page):
    """One line: who wrote what, and what it cost."""
    at = page.number * PAGE - block.offset
    reads, writes, fetches = page.sums()
    wrote = '; '.join(f'node {node} {ranges_text(ranges)}' for node, ranges in sorted(page.wrote.items()))
    several = ''
    if len(page.wrote) > 1:
        common = page.in_common()
        several = f' ({common} bytes in common)' if common else ' (each its own bytes)'
    read = sorted(page.users() - set(page.wrote))
    readers = f'; read by {", ".join(map(str, read))}' if read else ''
    where = f'{"+" if at >= 0 else "-"}0x{abs(at):x}'
    return (f'page {where}: {reads + writes} faults, {fetches} fetches; '
            f'wrote: {wrote or "no node"}{several}{readers}')


def table(sharing):
    rows = [block.row() for block in sharing.hot()]
    cells = [HEADINGS, *[tuple(map(str, row)) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEADINGS))]
    lines = []
    for number, row in enumerate(cells):
        lines.append('  '.join(cell.ljust(width) if i == 0 else cell.rjust(width)
                               for i, (cell, width) in enumerate(zip(row, widths))).rstrip())
        if number > 0:
            block = sharing.hot()[number - 1]
            lines += [f'    {page_text(block, page)}' for page in block.shared()[:WORST]]
    return '\n'.join(lines) if rows else 'no page was used by several nodes'


def as_json(sharing, program, nodes):
    return {'format': 'roam sharing 1', 'program': program, 'nodes': nodes,
            'allocations': [{
                'name': block.name, 'offset': block.offset, 'bytes': block.size,
                'pages': [{'offset': page.number * PAGE - block.offset,
                           'faults_and_fetches': {str(node): use for node, use in sorted(page.uses.items())},
                           'wrote': {str(node): sorted(ranges) for node, ranges in sorted(page.wrote.items())},
                           'in_common': page.in_common()} for page in block.shared()],
            } for block in sharing.hot()]}


# ------------------------------------------------------------------------------------- heat map

def color(bits):
    if bits == 0:
        return NOBODY
    if bits & (bits - 1):
        return SEVERAL
    return COLORS[(bits.bit_length() - 1) % len(COLORS)]


def cells(page, y):
    """A page as a row of 64-byte cells; a cell is cut up where several nodes wrote bytes in it."""
    nodes = page.nodes_of()
    parts = []
    for at in range(0, PAGE, LINE):
        line = nodes[at:at + LINE]
        kinds = sorted({bits for bits in line if bits})
        for i, bits in enumerate(kinds or [0]):
            height = 14 / max(1, len(kinds))
            parts.append(f'<rect x="{90 + at // LINE * 10}" y="{y + i * height:.1f}" width="9" '
                         f'height="{height:.1f}" fill="{color(bits)}"/>')
    return ''.join(parts)


def block_picture(block, hottest):
    shared = block.shared()[:PICTURE_MAX]
    rows = []
    for i, page in enumerate(sorted(shared, key=lambda page: page.number)):
        y = i * 16
        heat = round(100 * page.heat() / max(1, hottest))
        at = page.number * PAGE - block.offset
        rows.append(f'<g><title>{html.escape(page_text(block, page))}</title>'
                    f'<text x="84" y="{y + 11}" text-anchor="end">{at:+#x}</text>{cells(page, y)}'
                    f'<rect x="740" y="{y}" width="{heat}" height="14" fill="#d95f02"/>'
                    f'<text x="846" y="{y + 11}">{page.heat()}</text></g>')
    left = len(block.shared()) - len(shared)
    more = f'<p>and {left} pages more</p>' if left > 0 else ''
    return (f'<h2>{html.escape(block.name)}, {block.size} bytes</h2>'
            f'<svg width="920" height="{len(shared) * 16}">{"".join(rows)}</svg>{more}')


def page_html(sharing, shown):
    """A whole page, which needs no file from elsewhere."""
    hot = sharing.hot()
    hottest = max((page.heat() for block in hot for page in block.shared()), default=1)
    key = ''.join(f'<span style="background:{COLORS[node % len(COLORS)]}">node {node}</span> '
                  for node in range(sharing.nodes))
    heads = ''.join(f'<th>{head}</th>' for head in HEADINGS)
    body = ''.join('<tr>' + ''.join(f'<td>{html.escape(str(cell))}</td>' for cell in block.row()) + '</tr>'
                   for block in hot)
    return f'''<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{html.escape(shown)}: shared pages</title>
<style>body {{ font: 14px sans-serif; margin: 2em }} svg text {{ font: 11px monospace }}
td, th {{ padding: 2px 10px; text-align: right }} td:first-child, th:first-child {{ text-align: left }}
span {{ padding: 1px 8px; color: #fff }}</style></head><body>
<h1>{html.escape(shown)}: pages that several of {sharing.nodes} nodes use</h1>
<p>A row is a page, a cell 64 bytes of it, in the colour of the node that wrote them: {key}
<span style="background:{SEVERAL}">the same bytes by several</span>; the bar: its faults and fetches.</p>
<table><tr>{heads}</tr>{body}</table>
{"".join(block_picture(block, hottest) for block in hot) or "<p>no page was used by several nodes</p>"}
</body></html>
'''


# ------------------------------------------------------------------------------------------- run

def measure(program, protocol, nodes, progress):
    """Runs the program once under the check; a Failure if it is not right, or is no job."""
    with tempfile.TemporaryDirectory(prefix='roam-sharing-') as place:
        if program.style is None:
            program.find_style(protocol, nodes, progress)
        progress.say(f'{protocol} on {nodes}, ROAM_CHECK=sharing')
        run = program.start(program.style, 'sharing', 'RC', nodes,
                            {'ROAM_PROTOCOL': protocol, 'ROAM_CHECK': 'sharing',
                             'ROAM_SHARING': os.path.join(place, 'pages')})
        progress.clear()
        if run.failed() and run.lacks_transactions():
            raise runs.Failure('--sharing: it runs transactions, whose protocol does not show what it writes; '
                               '`roam tx report` prints the pages on which they conflict')
        if run.failed():
            raise runs.Failure(f'--sharing: {run.why()}; `roam doctor` without --sharing says more')
        paths = [os.path.join(place, name) for name in sorted(os.listdir(place))]
        if not paths:
            raise runs.Failure('--sharing: the program ended without its nodes\' end, so nothing was written')
        return Sharing(program.args.program, paths)
