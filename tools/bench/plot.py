# SPDX-License-Identifier: BSD-3-Clause
"""Rows as SVG pictures, so that a reader sees a knee: for each load the rate and the p99 over depth
or over connections, one line a contender; for growth, each figure over the number."""

import html
import math
import os
import re

WIDTH, HEIGHT = 420, 300  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 36, 46
LEGEND = 20  # a line of it
# Distinct without red beside green, and in grey by their lightness; ours first, and thicker.
COLOURS = ("#1f4e9c", "#d1730f", "#3a9a8f", "#8a4fa3", "#7a7a7a", "#b2394f")
# The panels, in this order; a figure that no row has gets no panel.
PANELS = (("iops", "thousand I/Os a second", 1e-3), ("mb_per_s", "MB a second", 1), ("p99_us", "p99, us", 1),
          ("start_ms", "start, ms", 1), ("change_ms", "change, ms", 1), ("memory_mb", "memory, MB", 1),
          ("cpu_percent", "CPU while idle, %", 1), ("first_ms", "until the last first read, ms", 1),
          ("attach_cpu_ms", "CPU of an attach, ms", 1))


def pictures(rows):
    """{(part, plot, axis): {contender: [(value, row), ...]}} of at least two places on the axis."""
    found = {}
    for row in rows:
        at = row.get("at")
        if at and "error" not in row:
            lines = found.setdefault((row["part"], at["plot"], at["axis"]), {})
            lines.setdefault(at.get("line", row["contender"]), []).append((at["value"], row))
    for key, lines in list(found.items()):
        for points in lines.values():
            points.sort(key=lambda point: point[0])
        if len({value for points in lines.values() for value, _ in points}) < 2:
            del found[key]
    return found


def panels_of(plot, lines):
    """A load of small blocks is told in I/Os, one of large blocks in bytes."""
    rows = [row for points in lines.values() for _, row in points]
    small = plot.startswith("4 KiB")
    for figure, name, scale in PANELS:
        if figure == ("mb_per_s" if small else "iops"):
            continue
        if sum(1 for row in rows if row.get(figure)) >= 2:
            yield figure, name, scale


class Logarithmic:
    """From the power of the base below the least value to that above the most."""

    def __init__(self, values, base, start, end):
        self.base = base
        self.low = math.floor(math.log(min(values), base) + 1e-9)
        self.high = max(self.low + 1, math.ceil(math.log(max(values), base) - 1e-9))
        self.start, self.end = start, end

    def at(self, value):
        share = (math.log(value, self.base) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self):
        return [self.base ** exponent for exponent in range(self.low, self.high + 1)]


class Linear:
    """From 0 to a round number above the most."""

    def __init__(self, values, start, end):
        rough = max(values) / 4
        power = 10 ** math.floor(math.log10(rough))
        self.step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough)
        self.n_steps = math.ceil(max(values) / self.step - 1e-9)
        self.start, self.end = start, end

    def at(self, value):
        return self.start + value / (self.step * self.n_steps) * (self.end - self.start)

    def ticks(self):
        return [self.step * n for n in range(self.n_steps + 1)]


def nice(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


def text(x, y, words, anchor="middle", size=11, colour="#333", more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"{more}>'
            f"{html.escape(words)}</text>")


def frame(x, y, axis, name):
    """The grid, the numbers on both axes, and what they count."""
    drawn = []
    for tick in x.ticks():
        at = x.at(tick)
        drawn.append(f'<line x1="{at:.1f}" y1="{y.start}" x2="{at:.1f}" y2="{y.end}" stroke="#e4e4e4"/>')
        drawn.append(text(at, y.start + 16, nice(tick)))
    for tick in y.ticks():
        at = y.at(tick)
        drawn.append(f'<line x1="{x.start}" y1="{at:.1f}" x2="{x.end}" y2="{at:.1f}" stroke="#e4e4e4"/>')
        drawn.append(text(x.start - 6, at + 4, nice(tick), "end"))
    drawn.append(text((x.start + x.end) / 2, y.start + 34, axis))
    drawn.append(text(x.start, y.end - 12, name, "start", 12, more=' font-weight="bold"'))
    return drawn


def curve(points, x, y, number):
    colour, width = COLOURS[number % len(COLOURS)], 2.6 if number == 0 else 1.6
    path = " ".join(f"{x.at(value):.1f},{y.at(figure):.1f}" for value, figure in points)
    drawn = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>']
    drawn += [f'<circle cx="{x.at(value):.1f}" cy="{y.at(figure):.1f}" r="3" fill="{colour}">'
              f"<title>{nice(value)}: {figure:,.1f}</title></circle>" for value, figure in points]
    return drawn


def panel(lines, axis, figure, name, scale, left):
    points = {contender: [(value, row[figure] * scale) for value, row in line if row.get(figure)]
              for contender, line in lines.items()}
    values = [value for line in points.values() for value, _ in line]
    figures = [number for line in points.values() for _, number in line]
    x = Logarithmic(values, 2 if axis in ("depth", "connections") else 10, left + LEFT, left + WIDTH - RIGHT)
    # A rate is compared by its difference, a time by how many times longer it is.
    bottom, top = TOP + HEIGHT - BOTTOM, TOP + 24
    y = Logarithmic(figures, 10, bottom, top) if figure == "p99_us" else Linear(figures, bottom, top)
    drawn = frame(x, y, axis, name)
    for number, line in enumerate(points.values()):
        if line:
            drawn += curve(line, x, y, number)
    return drawn


def legend(lines, top):
    drawn = []
    for number, contender in enumerate(lines):
        y = top + LEGEND * number
        drawn.append(f'<rect x="{LEFT}" y="{y - 9}" width="22" height="4" fill="{COLOURS[number % len(COLOURS)]}"/>')
        drawn.append(text(LEFT + 30, y - 3, contender, "start", 12))
    return drawn


def picture(about, key, lines):
    part, plot, axis = key
    panels = list(panels_of(plot, lines))
    width, top = WIDTH * max(1, len(panels)), TOP + HEIGHT + LEGEND
    height = top + LEGEND * len(lines) + 20
    drawn = [text(LEFT, 22, f"{part}: {plot}", "start", 15, "#111", ' font-weight="bold"')]
    for i, (figure, name, scale) in enumerate(panels):
        drawn += panel(lines, axis, figure, name, scale, i * WIDTH)
    drawn += legend(lines, top)
    if about:
        drawn.append(text(LEFT, height - 8, f"{about['cpus']} CPUs ({about['model']}), {about['fabric']}; medians of "
                          f"{about['runs']} runs of {about['seconds']:g} s; load {about['load']}", "start", 10, "#777"))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif">\n<rect width="100%" height="100%" '
            'fill="white"/>\n' + "\n".join(drawn) + "\n</svg>\n")


def draw(about, rows, folder):
    """Writes one file a picture and returns their paths."""
    os.makedirs(folder, exist_ok=True)
    paths = []
    for key, lines in pictures(rows).items():
        name = re.sub(r"[^a-z0-9]+", "-", "-".join(key).lower()).strip("-")
        paths.append(os.path.join(folder, f"{name}.svg"))
        with open(paths[-1], "w", encoding="utf-8") as f:
            f.write(picture(about, key, lines))
    return paths
