#!/usr/bin/python3
"""Sizes that stay readable: 800 lines a file, 150 a header, 80 a function; and no leftover notes
in comments."""

import re
import shutil
import subprocess

from common import ROOT, Tap, files, read

FILE_LINES, HEADER_LINES, FUNCTION_LINES = 800, 150, 80

# The exceptions with their reasons. (file, what: "file" or the name of a function) -> reason.
EXCEPTIONS = {
    ("nbd_bridge/io/nbd_wire.h", "file"): "mirrors the NBD specification, as transport/wire/ does",
    ("library/rblk.h", "file"): "programs include one header: the whole public face",
}
# Headers that mirror a specification have its length.
LONG_HEADERS = "transport/wire/"
NOTES = re.compile(r"\b([T]ODO|[F]IXME|[X]XX)\b")  # not its own pattern
NOTED = (".c", ".h", ".py", ".sh", ".build", ".ini", ".md", ".scd", ".yaml", ".service")


def file_faults(names, limit, used):
    for name in names:
        lines = read(name).count("\n")
        if lines > limit and (name, "file") not in EXCEPTIONS:
            yield f"{name}: {lines} lines, at most {limit}"
        elif lines > limit:
            used.add((name, "file"))


def functions(names):
    """Yields (file, function, lines), by universal-ctags."""
    done = subprocess.run(["ctags", "-f", "-", "--languages=C", "--langmap=C:.c.h",
                           "--kinds-C=f", "--fields=+ne", "--sort=no", "-L", "-"],
                          cwd=ROOT, input="\n".join(names), stdout=subprocess.PIPE, text=True,
                          check=True)
    for line in done.stdout.splitlines():
        start = re.search(r"\tline:(\d+)", line)
        end = re.search(r"\tend:(\d+)", line)
        if start and end:
            name, file = line.split("\t")[:2]
            yield file, name, int(end.group(1)) - int(start.group(1)) + 1


def function_faults(names, used):
    for file, name, lines in functions(names):
        if lines > FUNCTION_LINES and (file, name) not in EXCEPTIONS:
            yield f"{file}: {name} has {lines} lines, at most {FUNCTION_LINES}"
        elif lines > FUNCTION_LINES:
            used.add((file, name))


def note_faults(names):
    for name in names:
        for number, line in enumerate(read(name).splitlines(), 1):
            if NOTES.search(line):
                yield f"{name}:{number}: {line.strip()}"


def has_universal_ctags():
    ctags = shutil.which("ctags")
    return ctags and "Universal Ctags" in subprocess.run(
        [ctags, "--version"], stdout=subprocess.PIPE, text=True).stdout


def main():
    tap = Tap()
    used = set()
    sources, headers = files(".c"), files(".h")

    tap.check(f"no file has more than {FILE_LINES} lines",
              list(file_faults(sources + files(".py", ".sh"), FILE_LINES, used)))
    tap.check(f"no header has more than {HEADER_LINES} lines",
              list(file_faults([h for h in headers if not h.startswith(LONG_HEADERS)],
                               HEADER_LINES, used)))
    if has_universal_ctags():
        tap.check(f"no function has more than {FUNCTION_LINES} lines",
                  list(function_faults(sources + headers, used)))
        tap.check("each exception is needed", [f"{file}: {what}" for file, what in EXCEPTIONS
                                               if (file, what) not in used])
    else:
        tap.skip(f"no function has more than {FUNCTION_LINES} lines",
                 "universal-ctags is not installed")
    tap.check("nothing is left to do in a comment",
              list(note_faults(files(*NOTED))))
    tap.finish()


if __name__ == "__main__":
    main()
