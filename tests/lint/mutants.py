#!/usr/bin/python3
"""Each mutation of tests/mutations still fits its source, and names programs that there are.

The argument is the build directory, whose tests meson has listed.
"""

import json
import os
import sys

from common import ROOT, Tap

sys.path.insert(0, os.path.join(ROOT, "tests", "runner"))
import mutations  # noqa: from the folder of the runner


def read_all():
    """([Mutation], [reason why one is unfit])."""
    good, faults = [], []
    for name in mutations.names():
        try:
            good.append(mutations.read(name))
            mutations.check_fit(good[-1])
        except mutations.Unfit as fault:
            faults.append(str(fault))
    return good, faults


def programs(directory):
    with open(os.path.join(directory, "meson-info", "intro-tests.json"), encoding="utf-8") as file:
        return {f"{test['suite'][0].split(':')[-1]}/{test['name']}" for test in json.load(file)}


def main():
    tap = Tap()
    good, faults = read_all()
    known = programs(sys.argv[1])
    tap.check("each mutation fits its source", faults)
    tap.check("each names programs that there are",
              [f"{m.name}: {name or 'none'}" for m in good for name in m.notice or ("",) if name not in known])
    tap.finish()


if __name__ == "__main__":
    main()
