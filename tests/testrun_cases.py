#!/usr/bin/env python3
"""What tools/test repeats at its end of failed tests' output: enough to understand them, and few lines."""
import contextlib
import io
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import testrun  # noqa: E402, pylint: disable=wrong-import-position

# A test that goes on after a report, and a second report.
STACK = "".join(f"    #{i} f{i} a.c:{i} (test+0x1)\n" for i in range(12))
RACE = (f"==================\nWARNING: ThreadSanitizer: data race (pid=1)\n  Write of size 4 by T1:\n{STACK}\n"
        f"  Previous read of size 4 by T2:\n{STACK}\n  Thread T1 created by main thread at:\n{STACK}\n"
        "SUMMARY: ThreadSanitizer: data race a.c:0 in f0\n==================\n")
OTHER = RACE.replace("a.c", "b.c")


def failed(name, stdout, stderr="", status=1):
    return {"name": f"roam:sim / {name}", "result": "FAIL", "returncode": status, "stdout": stdout, "stderr": stderr}


def report_of(records):
    """The lines that a run with these tests ends with, from the first failure on."""
    tally = testrun.Tally()
    for record in records:
        tally.add("tsan", record)
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        assert testrun.report(tally, time.monotonic()) == 1
    lines = text.getvalue().splitlines()
    return lines[next(i for i, line in enumerate(lines) if line.startswith("tsan: ")):]


def check_one():
    lines = report_of([failed("a", "".join(f"line {i}\n\n" for i in range(40)), "last\n" + "x" * 500, 134)])
    assert lines[0] == "tsan: a, status 134:", lines
    assert lines[1] == "  line 27" and lines[-4] == "  last", lines
    assert lines[-3] == "  " + "x" * 160, lines
    assert lines[-2] == "FAILED: tsan: a: fail; again: tools/test --build tsan a", lines
    assert len(lines) == 1 + 15 + 2, lines


def check_race():
    """The first report's two stacks, the second one's summary, and what the test says."""
    lines = report_of([failed("a", "before\n" * 30 + "17 seeds, 0 failed\n", RACE + OTHER, 66)])
    shown = "\n".join(lines)
    assert "Write of" in shown and "Previous read" in shown and "#2 f2 a.c" in shown, shown
    assert "SUMMARY: ThreadSanitizer: data race b.c" in shown and "#3" not in shown, shown
    assert len(lines) == 1 + 15 + 2, lines
    assert "  17 seeds" in "\n".join(report_of([failed("a", "17 seeds\n" + RACE.split("Thread T1", maxsplit=1)[0])]))


def check_many():
    records = [failed(f"t{i}", "word\n" * 100) for i in range(5)]
    lines = report_of(records)
    assert sum(line.startswith("  ") for line in lines) == 5 * 11, lines
    lines = report_of([failed(f"t{i}", "word\n" * 100) for i in range(50)])
    assert sum(not line.startswith("FAILED") for line in lines) == 60 + 1, lines
    assert sum(line.startswith("FAILED") for line in lines) == 50, lines
    assert report_of([failed("a", "")])[1] == "  (no output)"


check_one()
check_race()
check_many()
