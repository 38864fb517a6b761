#!/usr/bin/python3
"""One door a room: a prototype stands in the header of the file that defines the function, so that the name of a header
leads to the code behind it. By universal-ctags.

A face is what a whole floor or program shows in one header, whose functions stand in the files below it.
"""

import collections
import os
import re
import subprocess

from budgets import has_universal_ctags
from common import ROOT, Tap, files, read
from house import PARTS
from layers import PUBLIC

FACES = {
    PUBLIC: "programs include one header",
    "initiator/io/volume_io.h": "front ends do I/O by one header: io.c, queue.c and extents.c are behind it",
    "tools/rblk/commands.h": "the table of subcommands names one function of each file",
    "tools/rblkctl/rblkctl.h": "the same",
    "tools/rblk/doctor/doctor.h": "its sections, one function of each file",
}


def symbols(names, kinds):
    """Yields (file, name, whether it is static) of functions and variables that are defined (fv) or declared (px)."""
    done = subprocess.run(["ctags", "-f", "-", "--languages=C", "--langmap=C:.c.h", f"--kinds-C={kinds}", "--fields=+f",
                           "--extras=+F", "--sort=no", "-L", "-"],
                          cwd=ROOT, input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        name, file = line.split("\t")[:2]
        yield file, name, "\tfile:" in line


def door_faults():
    product = [n for n in files(".c", ".h") if n.startswith(tuple(part + "/" for part in PARTS))]
    homes = collections.defaultdict(set)
    for file, name, is_static in symbols([n for n in product if n.endswith(".c")], "fv"):
        if not is_static:
            homes[name].add(os.path.splitext(file)[0])
    for file, name, _ in symbols([n for n in product if n.endswith(".h")], "px"):
        if homes[name] and os.path.splitext(file)[0] not in homes[name]:
            yield file, name, sorted(homes[name])[0] + ".c"


def page_faults():
    """The recipes of pages are built by the deep run alone."""
    for page in files(".md"):
        text = read(page)
        for header in re.findall(r'#include "([^"]+)"', text):
            if f">{header}" not in text and not os.path.exists(os.path.join(ROOT, header)):
                yield f"{page}: there is no {header}"


def main():
    tap = Tap()
    tap.check("a header that a page includes is there, or the page makes it", list(page_faults()))
    name = "a prototype stands in the header of the file that defines its function"
    if not has_universal_ctags():
        tap.skip(name, "universal-ctags is not installed")
        tap.finish()
    found = list(door_faults())
    tap.check(name, [f"{file}: {function} is in {home}" for file, function, home in found if file not in FACES])
    tap.check("each face is needed", sorted(set(FACES) - {file for file, _, _ in found}))
    tap.finish()


if __name__ == "__main__":
    main()
