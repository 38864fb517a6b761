#!/usr/bin/python3
"""The house in figures, beside the goals: `tests/lint/house.py build/dev` prints the table.

Each row ends with "met", or with the reason why it is not. The reasons stand in docs/HACKING.md,
and in layers_debt those that the lint of layers counts. As a lint (`--check build/dev`) it fails if
a missed goal has no reason, or a reason in docs/HACKING.md belongs to a goal that is met.
"""

import os
import re
import statistics
import sys

import budgets
import layers
from common import Tap, files, read

PARTS = ("base", "transport", "softrdma", "target", "initiator", "library", "nbd_bridge", "tools")
# Its section on a WRITE names the files that one enters: tests/bench compares it with what callgrind sees.
MAP = "docs/ARCHITECTURE.md"
REASONS = "docs/HACKING.md"
REASONS_HEADING = "### Goals that are not met"
WRITE_HEADING = "## The life of one WRITE"
WRITE_MOST = 23  # today's count; it only goes down
ASSERTION = re.compile(r"\b(check|assert|static_assert|_Static_assert)\s*\(")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def lines_of(name):
    return read(name).count("\n")


def comment_share(names):
    """The share of comment lines, or lines that end in a comment, among all lines that are not
    empty."""
    comments = total = 0
    for name in names:
        text = read(name)
        comments += sum(match.group().count("\n") + 1 for match in COMMENT.finditer(text))
        total += sum(1 for line in text.splitlines() if line.strip())
    return 100 * comments / total


def assertions(names):
    found = sum(len(ASSERTION.findall(COMMENT.sub("", read(name)))) for name in names)
    return 1000 * found / sum(map(lines_of, names))


def of_write():
    """The target's .c files that one WRITE enters, by docs/ARCHITECTURE.md."""
    text = read(MAP).split(WRITE_HEADING, 1)[-1].split("\n## ", 1)[0]
    return sorted(set(re.findall(r"`(target/[\w/]+\.c)`", text)))


class Goal:
    """Between least and most; of the whole house, or (each) of each part."""

    def __init__(self, title, text, values, whole, least=0, most=float("inf"), each=False):
        self.title, self.text, self.values, self.whole = title, text, values, whole
        judged = list(values.values()) if each else [whole]
        self.is_met = all(least <= value <= most for value in judged)


def show(value):
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def by_part(of, groups):
    return {part: of(group) for part, group in groups.items()}


def is_test(name):
    """Code and scripts of the tests, without their data."""
    base = os.path.basename(name)
    is_code = base.endswith((".c", ".h", ".py", ".sh")) or "." not in base
    return name.startswith("tests/") and is_code and "/corpus/" not in name and not base.endswith("_debt")


def largest_circles(edges):
    found = layers.circles(edges)
    return {part: max([len(c) for c in found if c[0].startswith(part + "/")], default=1) for part in PARTS}


def goals(build):
    product = {part: [n for n in files(".c", ".h") if n.startswith(part + "/")] for part in PARTS}
    everything = [n for names in product.values() for n in names]
    sizes = by_part(lambda names: [size for _, _, size in budgets.functions(names)], product)
    all_sizes = [size for part in PARTS for size in sizes[part]]
    lengths = by_part(lambda names: [lines_of(n) for n in names if n.endswith(".c")], product)
    all_lengths = [n for part in PARTS for n in lengths[part]]
    edges = layers.calls(build, everything)
    circles = largest_circles(edges)
    by_includes = largest_circles(set(layers.include_edges(everything)))
    mutual = {part: sum(a.startswith(part + "/") for a, b in edges if a < b and (b, a) in edges)
              for part in PARTS}
    tests = sum(map(lines_of, filter(is_test, files(""))))

    yield Goal("function p90", "45", by_part(lambda v: percentile(v, 0.9), sizes),
               percentile(all_sizes, 0.9), most=45, each=True)
    yield Goal("function max", "80", by_part(max, sizes), max(all_sizes), most=80)
    yield Goal("lines of a .c, median", "300", by_part(statistics.median, lengths),
               statistics.median(all_lengths), most=300, each=True)
    yield Goal("lines of a .c, max", "800", by_part(max, lengths), max(all_lengths), most=800)
    yield Goal("comment share, %", "12-20", by_part(comment_share, product), comment_share(everything),
               least=12, most=20, each=True)
    yield Goal("assertions a kloc", "8-12", by_part(assertions, product), assertions(everything),
               least=8, most=12)
    yield Goal("largest circle of files", "3", circles, max(circles.values()), most=3)
    yield Goal("largest circle of files, by includes", "3", by_includes, max(by_includes.values()), most=3)
    yield Goal("pairs of files that call each other", "5", mutual, sum(mutual.values()), most=5)
    yield Goal("calls that point up", "0", {}, len(list(layers.call_faults(edges))), most=0)
    yield Goal("target's .c files that a WRITE enters", "12", {}, len(of_write()), most=12)
    yield Goal("test lines a source line", "0.8", {}, tests / sum(map(lines_of, everything)), least=0.8)


def reasons():
    """{title: reason} of the list in docs/HACKING.md."""
    section = read(REASONS).split(REASONS_HEADING, 1)[-1] if REASONS_HEADING in read(REASONS) else ""
    lines = re.split(r"\n#+ ", section)[0]
    return {title: " ".join(reason.split())
            for title, reason in re.findall(r"^- \*\*(.+?)\*\*: (.+?)(?=\n- |\n\n|\Z)", lines, re.M | re.S)}


def owed():
    """{title: reason} of what tests/lint/layers_debt allows for now."""
    _, circle, n_mutual = layers.read_debt()
    found = {}
    if circle:
        found["largest circle of files"] = f"owed by {' and '.join(sorted(circle))}: {layers.DEBT}"
    if n_mutual > layers.MUTUAL_MAX:
        found["pairs of files that call each other"] = f"owed: {layers.DEBT}"
    return found


def row(*cells):
    print("| " + " | ".join(cells) + " |")


def table(build):
    why = {**owed(), **reasons()}
    row("aspect", "goal", *PARTS, "all", "")
    row(*["---"] * (len(PARTS) + 4))
    for goal in goals(build):
        row(goal.title, goal.text, *[show(goal.values.get(part, "")) for part in PARTS], show(goal.whole),
            "met" if goal.is_met else why.get(goal.title, "NOT MET, and without a reason"))


def goal_faults(build):
    why = reasons()
    missed = {goal.title for goal in goals(build) if not goal.is_met}
    yield from (f"{REASONS}: \"{title}\" is not met, and there is no reason" for title in sorted(missed - set(why) - set(owed())))
    yield from (f"{REASONS}: the reason beside \"{title}\" belongs to no missed goal"
                for title in sorted(set(why) - missed))


def unmapped():
    """Source files whose stem the map of docs/ARCHITECTURE.md lacks."""
    words = set(re.findall(r"[\w]+", read(MAP).split("## Code map", 1)[-1].split(WRITE_HEADING, 1)[0]))
    for name in files(".c"):
        if name.startswith(("base/", "transport/", "target/", "initiator/", "library/", "nbd_bridge/")):
            if os.path.basename(name)[:-2] not in words:
                yield f"{MAP}: {name} is not in the code map"


def checks(build):
    tap = Tap()
    named = of_write()
    tap.check(f"one WRITE enters at most {WRITE_MOST} .c files of the target, and the page names them",
              [] if 0 < len(named) <= WRITE_MOST else [f"{MAP}: {len(named)}: {' '.join(named)}"])
    pages = [n for n in files(".md") if n.startswith("docs/") or "/" not in n]
    tap.check("each file that a page names is there",
              [f"{page}: {n}" for page in pages
               for n in sorted(set(re.findall(r"`((?:base|transport|target|initiator|nbd_bridge|softrdma|tools|tests)"
                                              r"/[\w/.]+\.\w+)`", read(page))))
               if not os.path.exists(os.path.join(layers.ROOT, n))])
    tap.check("the code map has each file", list(unmapped()))
    if budgets.has_universal_ctags():
        tap.check("each goal is met, or has its reason", list(goal_faults(build)))
    else:
        tap.skip("each goal is met, or has its reason", "universal-ctags is not installed")
    tap.finish()


def main():
    if sys.argv[1:2] == ["--check"] and len(sys.argv) == 3:
        checks(sys.argv[2])
    elif len(sys.argv) == 2:
        table(sys.argv[1])
    else:
        sys.exit("usage: tests/lint/house.py [--check] BUILD")


if __name__ == "__main__":
    main()
