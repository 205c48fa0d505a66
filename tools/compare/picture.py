"""The pictures, drawn by matplotlib: panels of bars."""
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
GROUP = 0.84           # the part of the distance between two numbers of nodes that bars take
LOG_ABOVE = 50         # the largest value by the smallest from which on a panel is logarithmic
WRONG = '#c0201a'
LABELS_MAX = 14        # the most bars of a panel that have their values printed above them
TITLES = {'faults': 'page faults', 'fetches': 'pages fetched', 'diffs': 'diffs sent',
          'messages': 'messages', 'bytes': 'MB sent and copied', 'home_moves': 'home moves'}


class Panel:
    """Bars: for each number of nodes, one bar of each kind of rows, which is a protocol."""

    def __init__(self, title, args, rows, values):
        """`values` gives a row's values, one for each run; [] if there is none."""
        self.title = title
        self.kinds = args.protocols
        self.nodes = args.nodes
        self.rows = rows
        self.values = values

    @staticmethod
    def kind(row):
        return row.protocol

    def value(self, row):
        return runs.median(self.values(row))


class ModelsPanel(Panel):
    """For each number of nodes one bar of each model: milliseconds of the measured part."""

    def __init__(self, title, args, models, rows):
        super().__init__(title, args, rows,
                         lambda row: [us / 1e3 for us in row.microseconds('region')])
        self.kinds = models

    @staticmethod
    def kind(row):
        return row.model


class PartsPanel(Panel):
    """For each number of nodes one bar of each part of the time: percent."""

    def __init__(self, title, args, parts, rows):
        super().__init__(title, args, rows, lambda row: row.percent())
        self.kinds = parts

    @staticmethod
    def kind(row):
        return row.part


def times_panel(comparison):
    return Panel('time, ms', comparison.args, comparison.rows,
                 lambda row: [us / 1e3 for us in row.microseconds(comparison.time)])


def column_panel(name, args, rows, prefix=''):
    unit = 1e6 if name == 'bytes' else 1
    return Panel(prefix + TITLES[name], args, rows,
                 lambda row: [value / unit for value in row.values(name)])


def of_comparison(comparison):
    """A panel for each column that has values."""
    def speed(row):
        return [] if comparison.speed(row) is None else [comparison.speed(row)]
    args, rows = comparison.args, comparison.rows
    found = [times_panel(comparison), Panel('speed against threads', args, rows, speed),
             *(column_panel(name, args, rows) for name in comparison.columns)]
    return [panel for panel in found if any(map(panel.value, rows))] or found[:1]


def short(value):
    return f'{value:.0f}' if value >= 100 else f'{value:.3g}'


def colours(count):
    return matplotlib.colormaps['tab10' if count <= 10 else 'tab20'].colors


def draw_height(axes, x, top, height):
    """Prints the value above its bar; a logarithmic axis has no 0, so that bar ends at the
    bottom."""
    at = axes.transData
    if axes.get_yscale() == 'log' and height == 0:
        at, top = axes.get_xaxis_transform(), 0.01
    axes.annotate(short(height), (x, top), xycoords=at, xytext=(0, 1),
                  textcoords='offset points', ha='center', fontsize=7)


def draw_row(axes, panel, row):
    """Draws the bar of a row, and a line from the least to the most of its runs; a cross if it was
    wrong."""
    palette = colours(len(panel.kinds))
    at = panel.kinds.index(panel.kind(row))
    width = GROUP / len(panel.kinds)
    x = panel.nodes.index(row.nodes) - GROUP / 2 + (at + 0.5) * width
    values = panel.values(row)
    if row.error:
        axes.plot(x, 0.03, marker='x', color=WRONG, clip_on=False,
                  transform=axes.get_xaxis_transform())
    if not values:
        return
    axes.bar(x, panel.value(row), width * 0.94, color=palette[at % len(palette)])
    if len(values) > 1:
        axes.vlines(x, min(values), max(values), color='black', linewidth=1)
    if len(panel.rows) <= LABELS_MAX:
        draw_height(axes, x, max(values), panel.value(row))


def draw_panel(axes, panel):
    heights = [panel.value(row) for row in panel.rows if panel.value(row)]
    title = panel.title
    if heights and max(heights) > LOG_ABOVE * min(heights):
        axes.set_yscale('log')
        title += ' (logarithmic)'
    for row in panel.rows:
        draw_row(axes, panel, row)
    axes.set_title(title, fontsize=10)
    axes.set_xticks(range(len(panel.nodes)),
                    [f'{nodes} node{"s" * (nodes > 1)}' for nodes in panel.nodes])
    axes.set_xlim(-0.5, len(panel.nodes) - 0.5)
    axes.margins(y=0.15)
    axes.tick_params(labelsize=8)
    axes.grid(axis='y', color='#dddddd', linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[['top', 'right']].set_visible(False)


def draw_legend(figure, panels):
    kinds = panels[0].kinds
    palette = colours(len(kinds))
    handles = [Patch(color=palette[at % len(palette)], label=name)
               for at, name in enumerate(kinds)]
    if any(row.error for panel in panels for row in panel.rows):
        handles.append(Line2D([], [], marker='x', color=WRONG, linewidth=0, label='failed'))
    figure.legend(handles=handles, loc='upper center', ncols=min(len(handles), 8), frameon=False,
                  bbox_to_anchor=(0.5, 1 - 0.3 / figure.get_figheight()))


def draw(title, panels):
    """The picture as SVG: text as outlines, alike on all machines; it needs no other file."""
    rows = (len(panels) + COLUMNS - 1) // COLUMNS
    height = rows * PANEL_INCHES[1] + LEGEND_INCHES
    figure = Figure(figsize=(COLUMNS * PANEL_INCHES[0], height))
    grid = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for axes, panel in zip(grid, panels):
        draw_panel(axes, panel)
    for axes in grid[len(panels):]:
        axes.set_visible(False)
    draw_legend(figure, panels)
    figure.suptitle(title, fontsize=11, y=1 - 0.12 / height)
    figure.tight_layout(rect=(0, 0, 1, 1 - LEGEND_INCHES / height))
    out = io.StringIO()
    with matplotlib.rc_context({'svg.hashsalt': runs.THREADS}):
        FigureCanvasSVG(figure).print_svg(out, metadata=dict.fromkeys(
            ('Creator', 'Date', 'Format', 'Type')))
    return out.getvalue()
