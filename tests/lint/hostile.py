#!/usr/bin/python3
"""tests/raw/README.md: each fault of others and each rule of ours names tests, and these tests
run.

The reverse: each test of a program that plays a hostile host is named there. For findings of
audits, the table names files below tests/ and strings in them that show the fix.
"""

import re

from common import Tap, files, read
from rules import rows, run_by

TABLE = "tests/raw/README.md"
FOLDERS = ("tests/raw/test_", "tests/hostile_target/test_")
ALL_NAMED = {"peer_bugs", "hostile_commands", "random_commands", "hostile_connects", "hostile_auth"}
RULES = {f"R{n}" for n in range(1, 12)}
FAULTS = 19


def program_of(name):
    return next((name[len(f):-len(".c")] for f in FOLDERS if name.startswith(f)), None)


def is_there(file, name):
    sources = [n for n in files(".c", ".py") if n.rsplit(".", 1)[0] == f"tests/{file}"]
    return any(re.search(rf"\b{name}\b", read(n)) for n in sources)


def main():
    tap = Tap()
    text, _, broken = read(TABLE).partition("## 4.")
    table = list(rows(text))
    tests = {program_of(n): run_by(n) for n in files(".c") if program_of(n)}
    named = {(f, t) for _, _, held_by in table for f, names in held_by.items() for t in names}
    first = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]

    tap.check("each fault and rule names a test",
              [f"{TABLE}:{n}" for n, what, held_by in table if not what or not held_by])
    tap.check("each fault and rule is there",
              sorted(f"{r} is not" for r in RULES - set(first))
              + ([] if len(table) == FAULTS + len(RULES) else [f"{len(table)} rows"]))
    tap.check("each test named is run",
              sorted(f"{f}: {t}" for f, t in named if t not in tests.get(f, ())))
    tap.check("each test of a hostile host is named",
              sorted(f"{f}: {t}" for f in ALL_NAMED for t in tests.get(f, ["there is none"])
                     if (f, t) not in named))
    tap.check("each test of what examinations broke is there",
              [f"{row}: {file}: {name}" for row, what, held_by in rows(broken)
               for file, names in held_by.items() or [("", ["no test"])] for name in names
               if not what or not is_there(file, name)])
    tap.finish()


if __name__ == "__main__":
    main()
