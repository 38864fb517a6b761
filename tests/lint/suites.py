#!/usr/bin/python3
"""tests/runner/changed.py names the suites for each file of the tree, and each of its rows is in use."""

import os
import sys

from common import ROOT, Tap, files

sys.path.insert(0, os.path.join(ROOT, "tests", "runner"))
import changed  # noqa: from the folder of the runner
import plan  # noqa


def main():
    tap = Tap()
    rows = {name: changed.row_of(name) for name in files("")}
    known = plan.GATE_SUITES | {os.path.basename(f) for f, _, names in os.walk(os.path.join(ROOT, "tests"))
                                if "meson.build" in names or "suite" in names}
    tap.check("each file has a row", sorted(name for name, row in rows.items() if row is None))
    tap.check("each row has a file", sorted(set(changed.TOUCHES) - set(rows.values())))
    tap.check("each suite is one", sorted({s for row in changed.TOUCHES.values() for s in row.split()
                                           if row != changed.ALL} - known))
    tap.finish()


if __name__ == "__main__":
    main()
