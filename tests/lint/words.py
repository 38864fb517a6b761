#!/usr/bin/python3
"""Plain English: the words that hide the subject of a sentence. `words.py FOLDER...` lists those of a part.

A sentence about code names the loop, the caller, the host: not "who". Nor does it begin with "What", "Of" or "Who",
unless it is a question: a reader has to wait for its subject. docs/HACKING.md says how to write instead. There are no
exceptions: a person can be named, too.
"""

import io
import re
import sys
import tokenize

from common import Tap, files, read

WORDS = re.compile(r"\b(who|whom|whoever|nobody|somebody|everybody|anybody|no one|seldom|in vain)\b",
                   re.IGNORECASE)
# Prose of this project: code with its comments and messages, scripts, pages.
ENDINGS = (".c", ".h", ".py", ".sh", ".md", ".scd", ".build", ".yaml", ".1", ".d")
NOT_OURS = ("LICENSE", "debian/copyright", "tests/lint/words.py")
WIDTH = 100
TAB = 8
# A sentence begins a comment, a paragraph, an item of a list, or follows another one.
C_PROSE = re.compile(r'"((?:\\.|[^"\\\n])*)"|/\*(.*?)\*/|//([^\n]*)', re.S)
SHELL_COMMENT = re.compile(r"(?:^|\s)#(?!!)(.*)")
BREAK = re.compile(r"\n(?=\s*(?:\n|[-*|#\d]))")
END = re.compile(r"(?<=[.:!?])\s+|(?<=[.:!?][)\"*`])\s+|\s(?=\|)")
HEADLESS = re.compile(r"[^\w?]*(What|Of|Who)\b")


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


def joined(comments):
    """(line, text) of comments, those on neighbouring lines joined."""
    blocks = []
    for number, line in comments:
        if blocks and number == blocks[-1][0] + len(blocks[-1][1]):
            blocks[-1][1].append(line)
        else:
            blocks.append((number, [line]))
    return [(first, "\n".join(lines)) for first, lines in blocks]


def python_prose(text):
    """Comments and docstrings."""
    comments = []
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.append((token.start[0], token.string.lstrip("#")))
        elif token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT):
            yield token.start[0], token.string.strip("\"'")
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type
    yield from joined(comments)


def prose(name):
    """Yields (line, text) of what is there to be read, and not code."""
    text = read(name)
    if name.endswith((".c", ".h")):
        for match in C_PROSE.finditer(text):
            found = next(filter(None, match.groups()), "")
            yield text.count("\n", 0, match.start()) + 1, re.sub(r"\n[ \t]*\* ?", "\n", found)
    elif name.endswith((".md", ".scd")):
        yield 1, text
    elif name.endswith(".py") or text.startswith("#!/usr/bin/python3"):
        yield from python_prose(text)
    else:
        found = ((number, SHELL_COMMENT.search(line)) for number, line in enumerate(text.splitlines(), 1))
        yield from joined((number, match.group(1)) for number, match in found if match)


def headless(name):
    """Sentences that begin with a relative word."""
    for first, text in prose(name):
        at = 0
        for paragraph in BREAK.split(text):
            for sentence in END.split(paragraph):
                if HEADLESS.match(sentence) and not sentence.rstrip().endswith("?"):
                    line = first + text.count("\n", 0, text.find(sentence, at))
                    yield f"{name}:{line}: begins with its object: {' '.join(sentence.split())[:70]}"
            at = text.find(paragraph, at) + len(paragraph)


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
            found.setdefault(name.split("/")[0], []).extend([*faults(name), *headless(name)])
    for part, lines in found.items():
        tap.check(f"plain English in {part}", lines)
    tap.finish()


if __name__ == "__main__":
    main()
