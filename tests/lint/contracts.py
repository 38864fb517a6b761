#!/usr/bin/python3
"""The contract on every public header: a header is public if a file of another folder includes it.

Each function that it declares has a comment: directly above it, on its line, or above the group of
declarations without an empty line in which it stands. `contracts.py FOLDER...` lists those of a part.
There are no exceptions.
"""

import os
import re
import sys

import layers
from common import Tap, files, read

ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|\b_Noreturn\b|\b[A-Z][A-Z_]+(?=\s)")
# A name and its parameters: of a function, not of a type, a variable or a macro.
FUNCTION = re.compile(r"^(?!typedef\b|enum\s+\w+\s*\{|struct\s+\w+\s*\{|static_assert|_Static_assert|extern\s+\w[^(]*;)"
                      r"[\w\s\*]*?\b(\w+)\s*\((?!\*)")


def public(product):
    """The headers that files of another folder include."""
    found = set()
    for name in product:
        for _, path, is_ours in layers.includes(name):
            if is_ours and path.endswith(".h") and os.path.dirname(path) != os.path.dirname(name):
                found.add(path)
    return sorted(n for n in found if os.path.exists(os.path.join(layers.ROOT, n)))


def chunks(text):
    """Yields (line number, kind, text) of what stands at the top level: "comment", "blank",
    "macro", "code" (a declaration, or a definition with its body as {})."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        start, line = at, lines[at]
        at += 1
        if not line.strip():
            yield start + 1, "blank", ""
        elif line.lstrip().startswith("#"):
            while lines[at - 1].endswith("\\") and at < len(lines):
                at += 1
            yield start + 1, "macro", line
        elif line.lstrip().startswith("/*"):
            while "*/" not in lines[at - 1]:
                at += 1
            yield start + 1, "comment", line
        else:
            code, depth = "", 0
            while True:
                bare = re.sub(r"/\*.*?(\*/|$)|^\s*\*.*\*/|\"(?:\\.|[^\"])*\"|'(?:\\.|[^'])+'", " ", lines[at - 1])
                depth += bare.count("{") - bare.count("}")
                code += " " + bare.strip()
                ends = bare.rstrip().endswith((";", "}"))
                if (depth == 0 and ends) or at == len(lines):
                    break
                at += 1
            yield start + 1, "code", code.strip() + (" /*" if "/*" in lines[at - 1] else "")


def faults(name):
    is_covered = False
    for number, kind, code in chunks(read(name)):
        if kind == "comment":
            is_covered = True
        elif kind == "blank":
            is_covered = False
        elif kind == "code":
            match = FUNCTION.match(ATTRIBUTE.sub(" ", code).strip())
            if match and not match.group(1).isupper() and not is_covered and not code.endswith("/*"):
                yield f"{name}:{number}: {match.group(1)} has no contract"


def main():
    parts = tuple(sys.argv[1:])
    tap = Tap()
    product = [n for n in files(".c", ".h") if layers.floor_of(n)]
    found = {}
    for name in public(product):
        if not parts or name.startswith(parts):
            found.setdefault(name.split("/")[0], []).extend(faults(name))
    for part, lines in found.items():
        tap.check(f"each function in a public header of {part} has its contract", lines)
    tap.check("there are public headers", [] if found else ["none found"])
    tap.finish()


if __name__ == "__main__":
    main()
