"""Tables in Markdown, and charts as SVG."""

import dataclasses
import math
import statistics

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" font-family="sans-serif" font-size="12">'


@dataclasses.dataclass
class Row:
    """The times of an operator at a size, by engine."""

    name: str
    size: str
    times: dict
    """The share of the processor's peak, of products."""
    share: float | None

    def fastest(self):
        """The fastest of the other engines."""
        return min((name for name in self.times if name != "bb"), key=self.times.get)

    def ratio(self):
        """The time of bb over that of the fastest other engine."""
        return self.times["bb"] / self.times[self.fastest()]


def microseconds(seconds):
    return "" if seconds is None else f"{1e6 * seconds:.4g}"


def operators_table(about, names, rows):
    """The times of all engines in µs, and what is slower than the fastest."""
    lines = [about, "", "| operator | size |" + "".join(f" {name} |" for name in names) + " ratio | of the peak |"]
    lines.append("|---|---|" + "---|" * (len(names) + 2))
    for row in rows:
        times = "".join(f" {microseconds(row.times.get(name))} |" for name in names)
        share = "" if row.share is None else f"{row.share:.0%}"
        lines.append(f"| {row.name} | {row.size} |{times} {row.ratio():.2f} | {share} |")
    return "\n".join(lines + ["", slower(rows)])


def slower(rows):
    """Where bb is slower than the fastest other engine, the worst first."""
    found = sorted((row for row in rows if row.ratio() > 1), key=Row.ratio, reverse=True)
    mean = statistics.geometric_mean(row.ratio() for row in rows)
    lines = [f"{len(rows)} operators and sizes, geometric mean {mean:.2f}; slower than the fastest other engine: {len(found)}.", ""]
    lines += ["| operator | size | bb, µs | fastest, µs | | ratio |", "|---|---|---|---|---|---|"]
    for row in found:
        name = row.fastest()
        times = f"{microseconds(row.times['bb'])} | {microseconds(row.times[name])}"
        lines.append(f"| {row.name} | {row.size} | {times} | {name} | {row.ratio():.2f} |")
    return "\n".join(lines) + "\n"


def shade(ratio):
    """Green if bb is faster, red if it is slower, white if both take as long."""
    depth = min(abs(math.log2(ratio)) / 3, 1)
    pale = round(255 - 155 * depth)
    return f"rgb({pale},{round(255 - 60 * depth)},{pale})" if ratio <= 1 else f"rgb(255,{pale},{pale})"


def operators_chart(rows):
    """A row of cells for each operator, a cell for each size, with the ratio to the fastest other engine."""
    names = list(dict.fromkeys(row.name for row in rows))
    left, cell, step, top = 200, 110, 20, 40
    most = max(sum(row.name == name for row in rows) for name in names)
    width, height = left + cell * most + 10, top + step * len(names) + 10
    parts = [HEAD.format(width, height), "<title>Time of bb over the time of the fastest other engine</title>"]
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    parts.append('<text x="10" y="18">Time of bb over that of the fastest other engine; below 1 bb is faster</text>')
    for at, name in enumerate(names):
        y = top + step * at
        parts.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{name}</text>')
        for column, row in enumerate(row for row in rows if row.name == name):
            x = left + cell * column
            parts.append(f'<rect x="{x}" y="{y}" width="{cell - 2}" height="{step - 2}" fill="{shade(row.ratio())}"/>')
            parts.append(f'<text x="{x + 4}" y="{y + 13}" font-size="9" fill="#555">{row.size}</text>')
            parts.append(f'<text x="{x + cell - 6}" y="{y + 13}" text-anchor="end">{row.ratio():.2f}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def ratios(rows, name, key="seconds", own="bb"):
    """What bb, or bb at a level, takes over what another engine takes, of the models of which both are known."""
    both = ((got.get(own, {}).get(key), beside(got, name, own).get(key)) for _, got in rows)
    return [own / other for own, other in both if own and other]


def beside(got, name, own):
    """The measurements of an engine beside bb, or bb at a level: of the engine at the same level if it was held to it."""
    return got.get(name + own.removeprefix("bb")) or got.get(name, {})


MEASURES = (("seconds", "wall"), ("cpu_seconds", "processor time"), ("ready_seconds", "ready"), ("peak_bytes", "memory"))


def ours(rows):
    """The names of bb and of bb at levels, of which rows have measurements."""
    return ["bb"] + sorted({name for _, got in rows for name in got if name.startswith("bb at ")})


def models_summary(peers, rows):
    lines = []
    for own in ours(rows):
        for peer in peers:
            for key, title in MEASURES:
                found = ratios(rows, peer.name, key, own)
                if found:
                    mean, median, worst = statistics.geometric_mean(found), statistics.median(found), max(found)
                    figures = f"geometric mean {mean:.3f}, median {median:.2f}, worst {worst:.2f}, of {len(found)} models."
                    lines.append(f"{own} over {peer.name}, {title}: {figures}")
    return lines


def models_table(about, peers, rows):
    """A table of times of runs, and one of the other measures beside those of each engine."""
    heads = "".join(f" {peer.name}, ms | ratio |" for peer in peers)
    lines = [about, "", "| model | bb, ms |" + heads, "|---|---|" + "---|---|" * len(peers)]
    for name, got in rows:
        own = got["bb"]["seconds"]
        line = f"| {name} | {1e3 * own:.4g} |"
        for peer in peers:
            other = got.get(peer.name)
            line += f" {1e3 * other['seconds']:.4g} | {own / other['seconds']:.2f} |" if other else " | |"
        lines.append(line)
    for level in ours(rows)[1:]:
        lines += ["", *at_level(level, peers, rows)]
    return "\n".join(lines + ["", *costs(peers, rows), ""] + models_summary(peers, rows)) + "\n"


def at_level(level, peers, rows):
    """A table of the times of bb held to a level, beside the engines, each at the same level if it was held to it."""
    held = {peer.name: peer.name + level.removeprefix("bb") for peer in peers}
    named = [name if any(name in got for _, got in rows) else peer for peer, name in held.items()]
    lines = [f"| model | {level}, ms |" + "".join(f" ratio to {name} |" for name in named), "|---|---|" + "---|" * len(peers)]
    for name, got in rows:
        if level in got:
            own = got[level]["seconds"]
            others = (beside(got, peer.name, level) for peer in peers)
            lines.append(f"| {name} | {1e3 * own:.4g} |" + "".join(f" {own / other['seconds']:.2f} |" if other else " |" for other in others))
    return lines


def costs(peers, rows):
    """The time of all processors in a run, the time until the first run has ended, and the greatest memory."""
    engines = ["bb"] + [peer.name for peer in peers]
    groups = (("cpu_seconds", "processor ms", 1e3), ("ready_seconds", "ready ms", 1e3), ("peak_bytes", "MB", 1e-6))
    heads = "".join(f" {name}, {title} |" for _, title, _ in groups for name in engines)
    lines = ["| model |" + heads, "|---|" + "---|" * (len(engines) * len(groups))]
    for model, got in rows:
        values = [(got.get(name, {}).get(key), factor) for key, _, factor in groups for name in engines]
        lines.append(f"| {model} |" + "".join(f" {value * factor:.4g} |" if value else " |" for value, factor in values))
    return lines


def models_chart(peers, rows):
    """Bars of the ratios, on a logarithmic scale from 1/16 to 4."""
    width, bar, left, top = 760, 11, 260, 50
    place = lambda ratio: left + (width - left - 60) * (math.log2(min(max(ratio, 1 / 16), 4)) + 4) / 6
    step = bar * len(peers) + 8
    height = step * len(rows) + top + 20
    parts = [HEAD.format(width, height), "<title>Time of bb over the time of other engines</title>"]
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for position, peer in enumerate(peers):
        x = left + 150 * position
        parts.append(f'<rect x="{x}" y="6" width="10" height="10" fill="{peer.colour}"/>')
        parts.append(f'<text x="{x + 15}" y="15">over {peer.name}</text>')
    for ratio in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4):
        x, stroke = place(ratio), "#444" if ratio == 1 else "#ddd"
        parts.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="40" y2="{height - 16}" stroke="{stroke}"/>')
        parts.append(f'<text x="{x:.0f}" y="34" text-anchor="middle" fill="#444">{ratio:g}</text>')
    for position, (name, got) in enumerate(rows):
        y = top + step * position
        parts.append(f'<text x="{left - 8}" y="{y + step / 2}" text-anchor="end">{name}</text>')
        for at, peer in enumerate(peers):
            if peer.name not in got:
                continue
            ratio = got["bb"]["seconds"] / got[peer.name]["seconds"]
            shown = f"{ratio:.2f}" if ratio >= 0.01 else f"{ratio:.1g}"
            one, x, y_bar = place(1), place(ratio), y + at * bar
            parts.append(
                f'<rect x="{min(one, x):.1f}" y="{y_bar}" width="{max(abs(x - one), 1):.1f}" height="{bar - 2}" '
                f'fill="{peer.colour}"/>'
            )
            parts.append(f'<text x="{max(one, x) + 4:.1f}" y="{y_bar + 8}" font-size="9">{shown}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def summary_chart(peers, rows):
    """A bar of the geometric mean over each engine, and a line from the best to the worst model; again for bb at each level."""
    width, step, left, top = 760, 44, 210, 46
    found = [(peer, own, ratios(rows, peer.name, own=own)) for own in ours(rows) for peer in peers]
    found = [(peer, peer.name + own.removeprefix("bb").replace(" at", ", bb at"), values) for peer, own, values in found if values]
    height = top + step * len(found) + 34
    place = lambda ratio: left + (width - left - 40) * (math.log2(min(max(ratio, 1 / 16), 2)) + 4) / 5
    parts = [HEAD.format(width, height), "<title>Time of bb over the time of other engines</title>"]
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    parts.append(f'<text x="{left}" y="16" font-weight="bold">Time of a model on bb over the time on</text>')
    for ratio in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2):
        x, stroke = place(ratio), "#444" if ratio == 1 else "#ddd"
        parts.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="40" y2="{height - 28}" stroke="{stroke}"/>')
        parts.append(f'<text x="{x:.0f}" y="34" text-anchor="middle" fill="#444">{ratio:g}</text>')
    for position, (peer, title, values) in enumerate(found):
        y = top + step * position
        mean, best, worst = statistics.geometric_mean(values), min(values), max(values)
        x, one = place(mean), place(1)
        parts.append(f'<text x="{left - 10}" y="{y + 17}" text-anchor="end">{title}</text>')
        parts.append(f'<rect x="{min(one, x):.1f}" y="{y + 4}" width="{max(abs(one - x), 1):.1f}" height="18" rx="2" fill="{peer.colour}"/>')
        parts.append(f'<text x="{min(one, x) - 6:.1f}" y="{y + 17}" text-anchor="end" font-weight="bold">{mean:.2f}</text>')
        parts.append(f'<line x1="{place(best):.1f}" x2="{place(worst):.1f}" y1="{y + 30}" y2="{y + 30}" stroke="{peer.colour}" stroke-width="2"/>')
        parts.append(f'<text x="{place(worst) + 5:.1f}" y="{y + 33}" font-size="9" fill="#444">{len(values)} models</text>')
    parts.append(f'<text x="{left}" y="{height - 8}" fill="#444">bars: geometric means; lines: from the best model to the worst; below 1 bb is faster</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"
