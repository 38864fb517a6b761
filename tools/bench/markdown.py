# SPDX-License-Identifier: BSD-3-Clause
"""The bars of a run as a table for docs/PERFORMANCE.md: one line a bar."""

FORMS = {"iops": "{:,.0f} IOPS", "p50_us": "{:.1f} us", "mb_per_s": "{:,.0f} MB/s", "instructions": "{:,.0f}",
         "kib_per_queue": "{:.0f} KiB", "cpu_percent": "{:.2f} %", "p99_us": "{:.0f} us", "p999_us": "{:.0f} us", "memory_mb": "{:.0f} MB",
         "start_ms": "{:.0f} ms", "change_ms": "{:.0f} ms",
         "first_ms": "{:.1f} ms", "attach_cpu_ms": "{:.1f} ms", "attach_pages": "{:,.0f} pages"}
TITLES = ("case", "ours", "reference", "asked", "reached")


def shown(row, figure):
    return FORMS[figure].format(row[figure]) if row and row.get(figure) is not None else "-"


def lines_of(rows):
    """A bar stands in the row of its reference, or in our own where it has none."""
    ours = {(row["part"], row["case"]): row for row in rows if "vs" not in row and "error" not in row}
    for row in rows:
        own = ours.get((row["part"], row["case"]))
        for bar in row.get("bars", ()):
            reference = "-" if row is own else f"{row['contender']}: {shown(row, bar['figure'])}"
            reached = f"{bar['reached']:g}"
            yield (f"{row['part']}, {row['case']}", shown(own, bar["figure"]), reference, bar["asked"],
                   reached if bar["met"] else f"**{reached}**")


def about_line(about):
    kernel = ".".join(about["kernel"].split(".")[:2])
    return (f"{about['cpus']} CPUs ({about['model']}), Linux {kernel}, {about['fabric']}; load "
            f"{about['load']} before and {about['load_after']} after; medians of {about['runs']} runs of "
            f"{about['seconds']:g} s. A bar that is missed is bold.")


def print_markdown(about, rows):
    print(about_line(about) + "\n")
    print("| " + " | ".join(TITLES) + " |")
    print("|---" * len(TITLES) + "|")
    for line in lines_of(rows):
        print("| " + " | ".join(line) + " |")
