#!/usr/bin/python3
"""Pages say what is so: the locks of docs/ARCHITECTURE.md, the packages of docs/SETUP.md, the words that an
option takes, in its help as in its manual page, the keys of the JSON of rblk status, and variables of the environment."""

import os
import re

from common import ROOT, Tap, files, read

PRODUCT = ("base/", "transport/", "target/", "initiator/", "library/", "nbd_bridge/", "tools/")
LOCKS = "docs/ARCHITECTURE.md"
LOCKS_HEADING = "**Locks.**"
# A variable or a field, not a parameter.
LOCK = re.compile(r"^[^(*\n]*\b(?:pthread_(?:mutex|rwlock|spinlock)_t|atomic_flag|mtx_t)\b[^(*\n]*[;=]", re.M)
PACKAGES = "docs/SETUP.md"
PACKAGES_HEADING = "| package | for | contains |"
CONTROL = "debian/control"
# {"name", 'n', ..., "one|two|OTHER", and .name = "name", ... .placeholder = "one|two|OTHER".
PLACEHOLDER = re.compile(r'\{(?:\.name = )?"([a-z-]+)",[^{}]*?"((?:[a-zA-Z-]+\|)+[a-zA-Z-]+)"', re.S)
STATUS_PAGE = "docs/man/rblk.8.scd"
STATUS_FOLDERS = ("nbd_bridge/control/", "initiator/", "transport/wire/")
VARIABLE = re.compile(r"\b(?:RBLKD?|SOFTRDMA)_[A-Z_]+\b")
FOR_TESTS = {"RBLKD_BOOT_ID_FILE", "RBLK_JOURNAL_SOCKET", "RBLK_PLUGINS"}
MANUALS = {"tools/rblk/": "docs/man/rblk.8.scd", "tools/rblkctl/": "docs/man/rblkctl.8.scd",
           "target/operations/": "docs/man/rblkd.8.scd"}


def lock_files(table):
    """Those of the first cells: `folder/one.c`, `two.c` are of one folder."""
    for cell in re.findall(r"^\| (`[^|]+) \|", table, re.M):
        names = re.findall(r"`([\w/.]+)`", cell)
        yield from (os.path.join(os.path.dirname(names[0]), os.path.basename(name)) for name in names)


def lock_faults():
    paragraph = read(LOCKS).split(LOCKS_HEADING, 1)[-1].split("\n**", 1)[0].split("\n#", 1)[0]
    named = set(lock_files(paragraph))
    there = {name for name in files(".c", ".h") if name.startswith(PRODUCT) and LOCK.search(read(name))}
    yield from (f"{LOCKS}: its locks lack that of {name}" for name in sorted(there - named))
    yield from (f"{LOCKS}: {name} has no lock" for name in sorted(named - there))


def package_faults():
    """A release has no debian/."""
    if not os.path.exists(os.path.join(ROOT, CONTROL)):
        return
    made = set(re.findall(r"^Package: (\S+)", read(CONTROL), re.M))
    table = read(PACKAGES).split(PACKAGES_HEADING, 1)[-1].split("\n\n", 1)[0]
    cells = re.findall(r"^\| ([a-z][a-z0-9, -]+) \|", table, re.M)
    named = {name for cell in cells for name in cell.split(", ")}
    yield from (f"{PACKAGES}: its packages lack {name}" for name in sorted(made - named))
    yield from (f"{PACKAGES}: there is no package {name}" for name in sorted(named - made))


def words_of(text):
    return set(re.sub(r"[_*]", "", text).split("|"))


def option_words():
    """Yields (file, page, option, its words in the help)."""
    for name in files(".c"):
        page = next((page for folder, page in MANUALS.items() if name.startswith(folder)), None)
        for option, words in PLACEHOLDER.findall(read(name)) if page else []:
            yield name, page, option, words


def word_faults():
    for name, page, option, words in option_words():
        shown = re.findall(rf"^\*?.*--{option}\*? ([\w*|-]+\|[\w*|-]+)", read(page), re.M)
        if not any(words_of(words) == words_of(text) for text in shown):
            yield f"{name}: --{option} takes {words}, in {page}: {' or '.join(shown) or 'nothing'}"


def key_faults():
    """In the tables of STATUS, words with an underscore are keys."""
    section = read(STATUS_PAGE).split("\n# STATUS\n", 1)[-1].split("\n# ", 1)[0]
    keys = set(re.findall(r"(?<![\w])_([a-z]+(?:_[a-z]+)+)_(?!\w)", section))
    made = {key for name in files(".c") if name.startswith(STATUS_FOLDERS) for key in re.findall(r'"(\w+)"', read(name))}
    yield from (f"{STATUS_PAGE}: rblk status has no {key}" for key in sorted(keys - made))
    if len(keys) < 20:
        yield f"{STATUS_PAGE}: few keys are found"


def variable_faults():
    """Variables of the environment: those that the product reads, and those that a manual describes."""
    product = [n for n in files(".c", ".h") if n.startswith((*PRODUCT, "softrdma/"))]
    taken = {name for n in product for name in re.findall(r'getenv\("(\w+)"\)', read(n)) if VARIABLE.match(name)}
    texts = {name for n in [*product, "softrdma/bin/softrdma"] for name in VARIABLE.findall(read(n))}
    shown = {name for n in files(".scd") for name in re.findall(r"^\*((?:RBLKD?|SOFTRDMA)_[A-Z_]+)\*", read(n), re.M)}
    listed = {name for n in files(".scd") for name in VARIABLE.findall(read(n))}
    yield from (f"no manual describes {name}" for name in sorted(taken - listed - FOR_TESTS))
    yield from (f"a manual describes {name}, which nothing reads" for name in sorted(shown - texts))
    yield from (f"{name} is for tests no more" for name in sorted(FOR_TESTS - taken))


def main():
    tap = Tap()
    tap.check("each lock is in the list of locks", list(lock_faults()))
    tap.check("each package is in the list of packages", list(package_faults()))
    tap.check("an option takes the same words in its help and in its page", list(word_faults()))
    tap.check("each key of rblk status in its page is there", list(key_faults()))
    tap.check("manuals describe each variable of the environment", list(variable_faults()))
    tap.check("there are such options", [] if len(list(option_words())) > 5 else ["few are found"])
    tap.finish()


if __name__ == "__main__":
    main()
