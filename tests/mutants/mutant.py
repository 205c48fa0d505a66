"""A mutant: a seeded bug that follows the code, for it says lines of a function and not their numbers.

    Rule 5.1: what it breaks, in a line or more.

    src/sync/lock_shm.c record_pass
    -	while ((next = atomic_load(link)) == 0)
    -		node->env->spin(node);
    +	next = atomic_load(link);

After the text come changes, each begun by a file and a function of it (none: anywhere in the file).
Lines with "-" and " " must follow each other there, once, whatever their spaces; those with "-" go,
those with "+" come.
"""
import re

BEGIN = re.compile(r"^([\w./-]+\.\w+)(?: (\w+))?$")


class Broken(Exception):
    """A mutant that does not fit the sources; the text says why."""


class Change:
    """Lines of one function: `old` and `new` ones, all of them, in order."""

    def __init__(self, path, function):
        self.path, self.function, self.old, self.new = path, function, [], []

    def take(self, line):
        if line[:1] in ("-", " "):
            self.old.append(line[1:])
        if line[:1] in ("+", " "):
            self.new.append(line[1:])

    def __str__(self):
        return f"{self.path} {self.function or ''}".rstrip()


def read(text):
    """The changes of a mutant's text."""
    changes = []
    for line in text.split("\n"):
        begin = BEGIN.match(line)
        if begin:
            changes.append(Change(*begin.groups()))
        elif changes and line.strip():
            if line[0] not in "-+ ":
                raise Broken(f"{line!r} is no line of a change")
            changes[-1].take(line)
    if not changes or not all(change.old for change in changes):
        raise Broken("says no lines to be changed")
    return changes


def function_lines(lines, name):
    """First line and end of the body of each function of that name."""
    for first, line in enumerate(lines):
        if not re.match(rf"[A-Za-z_].*\b{name}\(", line):
            continue
        at = first
        while at < len(lines) and lines[at].rstrip() not in ("{", "}") and not lines[at].rstrip().endswith(";"):
            at += 1
        if at < len(lines) and lines[at].rstrip() == "{":
            yield first, next(end for end in range(at, len(lines)) if lines[end].rstrip() == "}") + 1


def same(one, other):
    return re.sub(r"\s+", "", one) == re.sub(r"\s+", "", other)


def places(lines, change):
    """Where the old lines are."""
    ranges = list(function_lines(lines, change.function)) if change.function else [(0, len(lines))]
    count = len(change.old)
    return [at for first, end in ranges for at in range(first, end - count + 1)
            if all(same(lines[at + i], change.old[i]) for i in range(count))]


def applied(changes, texts):
    """The texts of files, by name, as the changes leave them; only those that they change."""
    found = {}
    for change in changes:
        if change.path not in texts:
            raise Broken(f"there is no {change.path}")
        at = places(texts[change.path].split("\n"), change)
        if len(at) != 1:
            raise Broken(f"{change}: {change.old[0].strip()!r} {'is not' if not at else 'is more than once'} there")
        found.setdefault(change.path, []).append((at[0], change))
    changed = {}
    for path, there in found.items():
        lines = texts[path].split("\n")
        for at, change in sorted(there, key=lambda pair: -pair[0]):
            lines[at:at + len(change.old)] = change.new
        changed[path] = "\n".join(lines)
    return changed
