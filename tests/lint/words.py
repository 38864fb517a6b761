#!/usr/bin/python3
"""Plain English: the words that hide the subject of a sentence. `words.py FOLDER...` lists those of a part.

A sentence about code names the loop, the caller, the host: not "who". What is wanted instead stands in
docs/HACKING.md. There are no exceptions: a person can be named, too.
"""

import re
import sys

from common import Tap, files, read

WORDS = re.compile(r"\b(who|whom|whoever|nobody|somebody|everybody|anybody|no one|seldom|in vain)\b",
                   re.IGNORECASE)
# Prose of this project: code with its comments and messages, scripts, pages.
ENDINGS = (".c", ".h", ".py", ".sh", ".md", ".scd", ".build", ".yaml", ".1", ".d")
NOT_OURS = ("LICENSE", "debian/copyright", "tests/lint/words.py")
WIDTH = 100
TAB = 8


def faults(name):
    is_code = name.endswith((".c", ".h"))
    is_fenced = False
    for number, line in enumerate(read(name).splitlines(), 1):
        for match in WORDS.finditer(line):
            yield f'{name}:{number}: "{match.group()}": {line.strip()[:70]}'
        wide = line.expandtabs(TAB)
        # A message stays one literal, so that grep finds it: only its line may be longer.
        is_fenced ^= line.startswith("```")
        is_prose = name.endswith(".md") and not is_fenced and not line.startswith(("|", "    "))
        if len(wide) > WIDTH and (is_prose or (is_code and '"' not in line)):
            yield f"{name}:{number}: {len(wide)} columns, {WIDTH} may be"


def sources():
    for name in files(""):
        is_script = "/" in name and "." not in name.split("/")[-1]
        if (name.endswith(ENDINGS) or is_script) and name not in NOT_OURS:
            yield name


def main():
    parts = tuple(sys.argv[1:])
    tap = Tap()
    found = {}
    for name in sources():
        if not parts or name.startswith(parts):
            found.setdefault(name.split("/")[0], []).extend(faults(name))
    for part, lines in found.items():
        tap.check(f"plain English in {part}", lines)
    tap.finish()


if __name__ == "__main__":
    main()
