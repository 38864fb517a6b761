#!/usr/bin/python3
"""tests/softrdma/README.md: each rule has a source and a test, and each test named there runs.

The reverse: each test of a file that tests rules is named there.
"""

import re

from common import Tap, files, read

TABLE = "tests/softrdma/README.md"
# Tests of something else: that calls exist, that kills harm no other process, that faults happen.
NO_RULES = {"surface", "slots", "storm", "chaos"}


def rows(text):
    """Yields (line number, source, {file: [function]}) of each row of a rule."""
    for number, line in enumerate(text.splitlines(), 1):
        cells = [c.strip() for c in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 3 or cells[2] in ("test", "---"):
            continue
        named = (part.split(":", 1) for part in cells[2].split(";") if ":" in part)
        yield number, cells[1], {file.strip(): re.findall(r"\w+", names) for file, names in named}


def run_by(name):
    """The functions in main()'s list of tests."""
    main = read(name).split("int main(", 1)[-1]
    return set(re.findall(r"(?:\bTS?|\bCASE|cmocka_unit_test\w*)\(\s*(\w+)", main))


def main():
    tap = Tap()
    table = list(rows(read(TABLE)))
    tests = {n[len("tests/softrdma/test_"):-len(".c")]: run_by(n) for n in files(".c")
             if n.startswith("tests/softrdma/test_")}
    named = {(f, t) for _, _, held_by in table for f, names in held_by.items() for t in names}

    tap.check("each rule has a source and a test",
              [f"{TABLE}:{n}" for n, source, held_by in table if not source or not held_by]
              + ([] if len(table) > 50 else ["there are hardly any"]))
    tap.check("each test named is run",
              sorted(f"{f}: {t}" for f, t in named if t not in tests.get(f, ())))
    tap.check("each test of a rule is named",
              sorted(f"{f}: {t}" for f, run in tests.items() if f not in NO_RULES
                     for t in run if (f, t) not in named))
    tap.finish()


if __name__ == "__main__":
    main()
