#!/usr/bin/python3
"""The house in figures, beside the goals: `tests/lint/house.py build/dev` prints the table.

As a lint (with --check) it fails if a goal is missed that is no matter of taste: sizes, cycles,
and the number of files that one WRITE passes. docs/HACKING.md gives the reason beside each goal
that is not met.
"""

import os
import re
import statistics
import sys

import budgets
import layers
from common import Tap, files, read

PARTS = ("base", "transport", "softrdma", "target", "initiator", "nbd_bridge", "tools")
# The files that a WRITE of 64 KiB passes at the target, downwards, in the order of
# docs/ARCHITECTURE.md.
MAP = "docs/ARCHITECTURE.md"
WRITE_HEADING = "## The life of one WRITE"
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
    """The target's .c files that docs/ARCHITECTURE.md names for one WRITE."""
    text = read(MAP).split(WRITE_HEADING, 1)[-1].split("\n## ", 1)[0]
    return sorted(set(re.findall(r"`(target/[\w/]+\.c)`", text)))


def row(title, goal, *values):
    print(f"| {title} | {goal} | " + " | ".join(values) + " |")


def table(build):
    product = {part: files(".c", ".h") and [n for n in files(".c", ".h") if n.startswith(part + "/")]
               for part in PARTS}
    everything = [n for names in product.values() for n in names]
    sizes = {part: [size for _, _, size in budgets.functions(names)] for part, names in product.items()}
    edges = layers.calls(build, everything)
    circles = {part: max([len(c) for c in layers.circles(edges) if c[0].startswith(part + "/")], default=1)
               for part in PARTS}
    mutual = {part: sum(a.startswith(part + "/") for a, b in edges if a < b and (b, a) in edges)
              for part in PARTS}
    sources = {part: [n for n in names if n.endswith(".c")] for part, names in product.items()}
    tests = sum(map(lines_of, (n for n in files(".c", ".h", ".py", ".sh") if n.startswith("tests/"))))

    row("aspect", "goal", *PARTS, "all")
    row("---", "---", *["---"] * (len(PARTS) + 1))
    for title, goal, share in (("function p90", "45", 0.9), ("function max", "80", 1)):
        row(title, goal, *[str(percentile(sizes[p], share)) for p in PARTS],
            str(percentile([s for p in PARTS for s in sizes[p]], share)))
    for title, goal, of in (("lines of a .c, median", "300", statistics.median), ("lines of a .c, max", "800", max)):
        row(title, goal, *[f"{of([lines_of(n) for n in sources[p]]):.0f}" for p in PARTS],
            f"{of([lines_of(n) for p in PARTS for n in sources[p]]):.0f}")
    row("comment share, %", "12-20", *[f"{comment_share(product[p]):.1f}" for p in PARTS],
        f"{comment_share(everything):.1f}")
    row("assertions a kloc", "8-12", *[f"{assertions(product[p]):.1f}" for p in PARTS],
        f"{assertions(everything):.1f}")
    row("largest circle of files", "3", *[str(circles[p]) for p in PARTS], str(max(circles.values())))
    row("pairs of files that call each other", "5", *[str(mutual[p]) for p in PARTS], str(sum(mutual.values())))
    up = len(list(layers.call_faults(edges)))
    row("calls that point up", "0", *[""] * len(PARTS), str(up))
    row("target's .c files for one WRITE", "12", *[""] * len(PARTS), str(len(of_write())))
    row("test lines a source line", "0.8", *[""] * len(PARTS), f"{tests / sum(map(lines_of, everything)):.2f}")


def unmapped():
    """Source files whose stem the map of docs/ARCHITECTURE.md lacks."""
    words = set(re.findall(r"[\w]+", read(MAP).split("## Code map", 1)[-1].split(WRITE_HEADING, 1)[0]))
    for name in files(".c"):
        if name.startswith(("base/", "transport/", "target/", "initiator/", "nbd_bridge/")):
            if os.path.basename(name)[:-2] not in words:
                yield f"{MAP}: {name} is not in the code map"


def checks():
    tap = Tap()
    named = of_write()
    tap.check("one WRITE opens at most 12 .c files of the target, and the page names them",
              [] if 0 < len(named) <= 12 else [f"{MAP}: {len(named)}: {' '.join(named)}"])
    pages = [n for n in files(".md") if n.startswith("docs/") or "/" not in n]
    tap.check("each file that a page names is there",
              [f"{page}: {n}" for page in pages
               for n in sorted(set(re.findall(r"`((?:base|transport|target|initiator|nbd_bridge|softrdma|tools|tests)"
                                              r"/[\w/.]+\.\w+)`", read(page))))
               if not os.path.exists(os.path.join(layers.ROOT, n))])
    tap.check("the code map has each file", list(unmapped()))
    tap.finish()


def main():
    if sys.argv[1:2] == ["--check"]:
        checks()
    elif len(sys.argv) == 2:
        table(sys.argv[1])
    else:
        sys.exit("usage: tests/lint/house.py BUILD | --check")


if __name__ == "__main__":
    main()
