"""Mutations: small mistakes in code that must not be wrong. A file of tests/mutations holds one.

  what: in a sentence, what is wrong
  file: the source, from the root
  notice: the programs that should notice it, SUITE/NAME, the fastest first
  old:
  whole lines, which the source has exactly once
  new:
  the lines in their place, perhaps none
"""

import dataclasses
import os
import re

from program import ROOT

FOLDER = os.path.join(ROOT, "tests", "mutations")
HEAD = ("what", "file", "notice")


class Unfit(Exception):
    """A mutation that is malformed, or does not fit the source any more."""


@dataclasses.dataclass(frozen=True)
class Mutation:
    name: str
    what: str
    file: str
    notice: tuple
    old: str
    new: str

    def applied(self, text):
        """The source with the mistake in it."""
        found = list(re.finditer("^" + re.escape(self.old), text, re.M))
        if len(found) != 1:
            raise Unfit(f"{self.name}: {self.file} has its old lines {len(found)} times")
        return text[:found[0].start()] + self.new + text[found[0].end():]


def names():
    return sorted(os.listdir(FOLDER))


def parse(name, text):
    head, has_old, rest = text.partition("\nold:\n")
    old, has_new, new = ("\n" + rest).partition("\nnew:\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    if not (has_old and has_new and tuple(fields) == HEAD and old.strip()):
        raise Unfit(f"{name}: it needs {', '.join(HEAD)}, old and new, in this order")
    old = old[1:] + "\n"
    if old == new:
        raise Unfit(f"{name}: it changes nothing")
    return Mutation(name, fields["what"], fields["file"], tuple(fields["notice"].split()), old, new)


def read(name):
    try:
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            return parse(name, file.read())
    except FileNotFoundError:
        raise Unfit(f"{name}: there is no such mutation") from None


def check_fit(mutation):
    """Raises Unfit if the source of this tree is not as the mutation expects."""
    try:
        with open(os.path.join(ROOT, mutation.file), encoding="utf-8") as file:
            mutation.applied(file.read())
    except FileNotFoundError:
        raise Unfit(f"{mutation.name}: there is no {mutation.file}") from None
