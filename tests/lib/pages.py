"""The commands that pages show: Markdown's and the manuals'. A block is what the page shows as code. Each one is run,
unless the line before it is a comment that says why not."""

import re

MARKDOWN = re.compile(r"<!-- not run: (.+) -->")
SCDOC = re.compile(r"; not run: (.+)")
# After a line that puts a program in the background people see that it is ready, and go on: how, by the page's words.
READY = {"rblkd --config": "grep -q ' ready, ' /tmp/said",
         "rping -s": "grep -q ' 00010000 .*softrdma.cm' /proc/net/unix",
         "ib_write_bw &": "grep -qh ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6",
         "ib_send_lat -n 10 &": "grep -qh ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6"}


def blocks(text, mark, indent="    "):
    """Yields (number of the first line, commands, the mark's reason or None). indent: what begins a line of code that
    no fence encloses; None: nothing does."""
    lines = text.split("\n") + [""]
    begin, fence, before = None, False, ""
    for i, line in enumerate(lines):
        is_fence = line.startswith("```")
        is_code = not is_fence and (fence or indent and line.startswith(indent) or begin is not None and not line)
        if is_code and begin is None:
            begin = i
        if not is_code and begin is not None:
            found = mark.fullmatch(before)
            yield begin + 1, "\n".join(lines[begin:i]).rstrip(), found and found.group(1)
            begin = None
        fence ^= is_fence
        if line and not is_code and not is_fence:
            before = line.strip()
    if begin is not None:
        yield begin + 1, "\n".join(lines[begin:]).rstrip(), None


def wait_after(line):
    """The line, and the wait behind it if it starts a program in the background."""
    if not re.search(r"&( *#.*)?$", line):
        return line
    sign = next(sign for words, sign in READY.items() if words in line)
    return f"{line}\nuntil {sign}; do kill -0 %%; sleep 0.1; done"
