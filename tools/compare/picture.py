"""The picture of a comparison: a panel per measure, drawn by matplotlib."""
import io

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

import runs

COLUMNS = 2
PANEL_INCHES = (5.2, 2.7)
LEGEND_INCHES = 0.7
GROUP = 0.84           # of the distance from one number of nodes to the next is bars
LOG_ABOVE = 50         # largest by smallest value, from where on a panel is logarithmic
WRONG = '#c0201a'
LABELS_MAX = 14        # bars of a panel that still have their values written above them
TITLES = {'faults': 'page faults', 'fetches': 'pages fetched', 'diffs': 'diffs sent',
          'messages': 'messages', 'home_moves': 'home moves'}


def panels(comparison):
    """(title, value of a row) of each panel that has something to show."""
    found = [('time, ms', lambda row: divided(row.median_us(comparison.time), 1e3)),
             ('speed against threads', comparison.speed)]
    for name in comparison.columns:
        if name == 'bytes':
            found.append(('MB sent and copied',
                          lambda row: divided(row.column('bytes'), 1e6)))
        else:
            found.append((TITLES[name], lambda row, name=name: row.column(name)))
    return [(title, value) for title, value in found
            if any(value(row) for row in comparison.rows)] or found[:1]


def divided(value, by):
    return None if value is None else value / by


def short(value):
    return f'{value:.0f}' if value >= 100 else f'{value:.3g}'


def colours(count):
    return matplotlib.colormaps['tab10' if count <= 10 else 'tab20'].colors


def draw_height(axes, x, top, height):
    """The value above its bar; where a logarithm has no place for 0, at the bottom."""
    at = axes.transData
    if axes.get_yscale() == 'log' and height == 0:
        at, top = axes.get_xaxis_transform(), 0.01
    axes.annotate(short(height), (x, top), xycoords=at, xytext=(0, 1),
                  textcoords='offset points', ha='center', fontsize=7)


def draw_row(axes, comparison, row, value, spread):
    """The bar of a row, from the fastest to the slowest run a line; a cross if it was wrong."""
    protocols, nodes = comparison.args.protocols, comparison.args.nodes
    palette = colours(len(protocols))
    at = protocols.index(row.protocol)
    width = GROUP / len(protocols)
    x = nodes.index(row.nodes) - GROUP / 2 + (at + 0.5) * width
    height = value(row)
    if row.error:
        axes.plot(x, 0.03, marker='x', color=WRONG, clip_on=False,
                  transform=axes.get_xaxis_transform())
    if row.error or height is None:
        return
    axes.bar(x, height, width * 0.94, color=palette[at % len(palette)])
    times = [us / 1e3 for us in row.microseconds(comparison.time)] if spread else []
    if len(times) > 1:
        axes.vlines(x, min(times), max(times), color='black', linewidth=1)
    if len(comparison.rows) <= LABELS_MAX:
        draw_height(axes, x, max([height, *times]), height)


def draw_panel(axes, comparison, title, value, spread):
    values = [value(row) for row in comparison.rows if value(row)]
    if values and max(values) > LOG_ABOVE * min(values):
        axes.set_yscale('log')
        title += ' (logarithmic)'
    for row in comparison.rows:
        draw_row(axes, comparison, row, value, spread)
    axes.set_title(title, fontsize=10)
    axes.set_xticks(range(len(comparison.args.nodes)),
                    [f'{nodes} node{"s" * (nodes > 1)}' for nodes in comparison.args.nodes])
    axes.set_xlim(-0.5, len(comparison.args.nodes) - 0.5)
    axes.margins(y=0.15)
    axes.tick_params(labelsize=8)
    axes.grid(axis='y', color='#dddddd', linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[['top', 'right']].set_visible(False)


def draw_legend(figure, comparison, protocols):
    palette = colours(len(protocols))
    handles = [Patch(color=palette[at % len(palette)], label=name)
               for at, name in enumerate(protocols)]
    if any(row.error for row in comparison.rows):
        handles.append(Line2D([], [], marker='x', color=WRONG, linewidth=0, label='failed'))
    figure.legend(handles=handles, loc='upper center', ncols=min(len(handles), 8), frameon=False,
                  bbox_to_anchor=(0.5, 1 - 0.3 / figure.get_figheight()))


def draw(comparison):
    """The picture as SVG: text as outlines, the same everywhere; nothing outside of it needed."""
    found = panels(comparison)
    rows = (len(found) + COLUMNS - 1) // COLUMNS
    height = rows * PANEL_INCHES[1] + LEGEND_INCHES
    protocols = comparison.args.protocols
    figure = Figure(figsize=(COLUMNS * PANEL_INCHES[0], height))
    grid = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for axes, (title, value) in zip(grid, found):
        draw_panel(axes, comparison, title, value, spread=value is found[0][1])
    for axes in grid[len(found):]:
        axes.set_visible(False)
    draw_legend(figure, comparison, protocols)
    figure.suptitle(comparison.title(), fontsize=11, y=1 - 0.12 / height)
    figure.tight_layout(rect=(0, 0, 1, 1 - LEGEND_INCHES / height))
    out = io.StringIO()
    with matplotlib.rc_context({'svg.hashsalt': runs.THREADS}):
        FigureCanvasSVG(figure).print_svg(out, metadata=dict.fromkeys(
            ('Creator', 'Date', 'Format', 'Type')))
    return out.getvalue()
