#!/usr/bin/env python3
"""Checks the house rules that a script can check.  Standard library only.

    tests/tidy.py              checks the tree it stands in; prints `file:line: rule: what`
    tests/tidy.py --format     the same, and that clang-format would change no .c or .h file
    tests/tidy.py --self-test  feeds each rule what it must refuse

Exit status 0: nothing found.  Permitted mutable variables: tests/tidy_allow.txt, lines of
`path name reason`.
"""

import ast
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path[0:0] = [os.path.dirname(os.path.abspath(__file__)),
                 os.path.join(os.path.dirname(os.path.abspath(__file__)), "mutants")]
import language  # noqa: E402  pylint: disable=wrong-import-position
import mutant  # noqa: E402  pylint: disable=wrong-import-position
import rooms  # noqa: E402  pylint: disable=wrong-import-position
from tidy_cases import (  # noqa: E402  pylint: disable=wrong-import-position
    ALLOW, BAD, FINE, GOOD, INDEX, PICTURE, RULES, UNPROVED)

COLUMNS_MAX = 100
COLUMNS_OF = {"CHANGELOG.md": 120}
FUNCTION_MAX = 70
FILE_MAX = 800
PROTOCOL_MAX = 600
SELF = ("tests/tidy.py", "tests/tidy_cases.py")  # they quote what they refuse
# The sections of RULES whose rules are of consistency: each has a mutant, or says why it has none.
PROVED = ("5", "6", "7", "8", "11", "12")

TEXT = (".c", ".h", ".S", ".build", ".options", ".sh", ".py", ".m4", ".md", ".def", ".in", ".map",
        ".pml", ".txt", ".C", ".U", ".1", ".7", ".c.in", ".h.in")
TOP = ("src", "protocols", "include", "apps", "python", "tools", "bench", "docs", "tests", ".ci")

# Rooms of src/ include what stands below them in the picture; these ones less.  "roam" = all of
# include/roam, one header by its name.
STRICT = {
    "os": {"os"},
    "stats": {"stats", "os"},
    "transport": {"transport", "os", "roam/transport.h", "roam/roam.h"},
    "fault": {"fault", "os", "roam/roam.h"},
}
# Transports are chosen by what they declare; but this one is a layer over others, which base/layers.c opens.
LAYER = "transport/faulty.h"
# Besides these, headers of protocols/.
PROTOCOL_INCLUDES = {"roam/protocol.h", "roam/protocol_home.h", "roam/protocol_tx.h", "stdbool.h", "stddef.h",
                     "stdint.h", "string.h"}

# What makes descriptors, and what of ours sees to it that none is 0, 1 or 2 (src/os/fds.c).
DESCRIPTORS = re.compile(
    r"(?<![\w>.])(?:(open|openat|socket|accept4?|memfd_create|eventfd|epoll_create1?|signalfd|"
    r"timerfd_create|inotify_init1?|pidfd_open|fopen|opendir|pipe2?|socketpair|mkstemp|dup)\s*\(|"
    r"syscall\s*\(\s*SYS_(userfaultfd|memfd_create|pidfd_open|io_uring_setup)\b)")
MOVED_UP = re.compile(r"roami_os_fd\(\s*(\(int\)\s*)?$")
FORBIDDEN_CALLS = re.compile(
    r"\b(malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|aligned_alloc|"
    r"posix_memalign|printf|vprintf|fprintf|vfprintf|dprintf|vdprintf|puts|fputs|putchar|fputc|"
    r"fwrite|fopen|fflush|perror|syslog|pthread_mutex_lock)\s*\(")
# Tests choose protocols by what these declare (roam/protocol.h, `roam info protocols --json`), not by
# name, but for the protocols of a paper, for what users are told is the default, and for counts of a
# protocol's own.  Outside of tests/ these are tests, or run some.
TESTS = ("tests/", "docs/", "bench/smoke.py", "bench/meson.build")
NAMING = {"tests/lib/world_begin.c", "tests/tools/paper_test.py", "tests/unit/options_test.c"}
C_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|\'(?:[^\'\\\n]|\\.)\'|"((?:[^"\\\n]|\\.)*)"', re.DOTALL)

MACHINE_PATH = re.compile(r"(?<![\w.*}])/(work|farm|root|home/\w+)/")
TEMPORARY_PATH = re.compile(r"(?<![\w.])/tmp/")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
# How a peer is reached is asked inside home/reach* only; elsewhere an operation of node->reach[peer] does what is to be
# done (src/home/reach.h).
REACH = re.compile(r"\b(roami_near|roami_reach_ctl|roami_is_far|roami_one_host|manager_near|flush_near|roami_reach_(?:near|far|checked))\b|"
                   r"\bsegments\[[^\]]*\]\.base\s*(?:[!=]=|\?|&&|\|\||\))|\breach\[[^\]]*\](?:->name)?\s*[!=]=|"
                   r"\broami_reach_(?:told|choose|choose_ctl)\([^;{}]*\)\s*(?:[!=]=|\?|&&|\|\|)|!\s*roami_reach_\w+\(|"
                   r"(?:->|\.)near_all\b|->near\s*(?:>>|&)|\bhome_of\([^()]*\)->records\b")
REACH_ROOM = "src/home/reach"
# What a room keeps of a node is the room's alone: its header NAME_state.h is included by its files only, and by tests if
# the header's first comment says so.
STATE = re.compile(r"(\w+)_state\.h$")
CONTROL = {"if", "for", "while", "switch", "return", "sizeof", "do", "else"}


# "rule 6.6", "rules 6.2, 6.4 and 6.5", also where a comment's line ends between.
CITATION = re.compile(r"\b[Rr]ules?(?:\s|\n[\s*#]*)(\d+(?:\.\d+)?(?:(?:,| and| to)(?:\s|\n[\s*#]*)\d+\.\d+)*)(?![\d%])")


def cited_rules(text):
    """The numbers of the rules that a text cites, each with its offset."""
    return [(number, match.start()) for match in CITATION.finditer(text)
            for number in re.findall(r"\d+(?:\.\d+)?", match.group(1))]


class Finding:
    def __init__(self, path, line, rule, text):
        self.path, self.line, self.rule, self.text = path, line, rule, text

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def python_texts(source):
    """(line, text) of the literals, but for comments at the head of modules, classes, functions."""
    tree = ast.parse(source)
    heads = {id(node.body[0].value) for node in ast.walk(tree)
             if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and
             node.body and isinstance(node.body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in heads:
            yield node.lineno, node.value


def texts(path, source):
    """(line, text) of a file's literals."""
    if path.endswith(".py"):
        yield from python_texts(source)
    elif path.endswith((".c", ".h", ".C", ".cc")):
        for match in C_TEXT.finditer(source):
            yield source.count("\n", 0, match.start()) + 1, match.group(1) or ""
    elif path.endswith("meson.build"):
        for number, line in enumerate(re.sub(r"(?m)#.*$", "", source).split("\n"), 1):
            yield number, " ".join(re.findall(r"'([^']*)'", line))


# ------------------------------------------------------------------------------------- reading C

NOT_END = re.compile(r"[^\n]")
SPECIAL = re.compile(r"[/#\"']|\Z")  # where a comment, a literal or a line of the preprocessor may begin


def blank(source):
    """The source with comments, literals' contents and preprocessor lines as spaces."""
    out = []
    i, n, done = 0, len(source), 0

    def wipe(start, end):
        nonlocal done
        out.append(source[done:start])
        out.append(NOT_END.sub(" ", source[start:end]))
        done = min(end, n)

    line_start = True
    while i < n:
        at = SPECIAL.search(source, i).start()
        if at > i:  # blanks alone do not end a line's start
            text = source[i:at]
            last = text.rfind("\n")
            line_start = (line_start if last < 0 else True) and not text[last + 1:].strip()
            i = at
            continue
        c = source[i]
        if source.startswith("/*", i):
            end = source.find("*/", i + 2)
            end = n if end < 0 else end + 2
            wipe(i, end)
        elif source.startswith("//", i):
            end = source.find("\n", i)
            end = n if end < 0 else end
            wipe(i, end)
        elif c == "#" and line_start:
            end = i
            while True:
                end = source.find("\n", end)
                if end < 0 or source[end - 1] != "\\":
                    break
                end += 1
            end = n if end < 0 else end
            # A comment that starts on the line and goes on below it is left to the next turn.
            comment = source.find("/*", i, end)
            if comment >= 0 and source.find("*/", comment, end) < 0:
                end = comment
            wipe(i, end)
        elif c in "\"'":
            end = i + 1
            while end < n and source[end] != c and source[end] != "\n":
                end += 2 if source[end] == "\\" else 1
            wipe(i + 1, end)
            end += 1
        else:
            line_start = False
            i += 1
            continue
        i = end
    return "".join(out) + source[done:]


class Function:
    def __init__(self, name, first, last, body, body_line):
        self.name, self.first, self.last = name, first, last
        self.body, self.body_line = body, body_line


def line_of(text, at):
    return text.count("\n", 0, at) + 1


BRACE = re.compile(r"[{}]")


def closing(text, at):
    """Where the brace at `at` is closed."""
    depth = 0
    for brace in BRACE.finditer(text, at):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.start()
    return len(text) - 1


def function_name(head):
    """The name, if `head` {...} is a function's definition."""
    flat = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", " ", head)
    if not flat.rstrip().endswith(")") or re.search(r"=(?!=)", flat):
        return None
    names = [m.group(1) for m in re.finditer(r"\b([A-Za-z_]\w*)\s*\(", flat)]
    names = [name for name in names if name not in CONTROL and not name.isupper()]
    return names[-1] if names and not flat.lstrip().startswith("typedef") else None


MARK = re.compile(r"[{};]|\Z")


def scan(text):
    """Functions, and (offset, declaration) of all else at file scope, of blanked C."""
    functions, declarations = [], []
    start = i = 0
    head = ""
    while i < len(text):
        c = text[i]
        if c == "{":
            if re.fullmatch(r'\s*extern\s*"\s*"\s*', head):
                head, start = "", i + 1
            else:
                end = closing(text, i)
                name = function_name(head)
                if name:
                    lead = start + len(head) - len(head.lstrip())
                    functions.append(Function(name, line_of(text, lead), line_of(text, end),
                                              text[i + 1:end], line_of(text, i + 1)))
                    head, start = "", end + 1
                else:
                    head += "{}"
                i = end
        elif c == "}":
            head, start = "", i + 1
        elif c == ";":
            declarations.append((start + len(head) - len(head.lstrip()), head.strip()))
            head, start = "", i + 1
        else:
            end = MARK.search(text, i).start()
            head += text[i:end]
            i = end - 1
        i += 1
    return functions, declarations


def variable_names(declaration):
    """Names of the non-const objects that a declaration defines."""
    nested = r"\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    flat = re.sub(r"\b_Atomic" + nested, " volatile ", declaration)
    flat = re.sub(r"\b(__attribute__|_Alignas)" + nested, " ", flat)
    flat = flat.strip()
    flat = re.sub(r"^(\s*[A-Z][A-Z0-9_]*\s*\([^()]*\))+", " ", flat).strip()
    flat = re.sub(r"\[[^\]]*\]", "", flat)
    if re.match(r"(typedef|extern|_Static_assert|static_assert|return|goto)\b", flat) or not flat:
        return []
    flat = re.sub(r"\b(struct|union|enum)(\s+\w+)?\s*\{\}", r"struct anonymous", flat)
    pointer = re.match(r"[^(]*\(\s*\*\s*(const\s+)?(\w+)\s*\)\s*\(", flat.split("=")[0])
    if pointer:
        return [] if pointer.group(1) else [pointer.group(2)]
    if "(" in flat.split("=")[0]:
        return []
    parts = [part.split("=")[0].strip() for part in re.split(r",(?![^{(]*[})])", flat)]
    names = []
    base = parts[0]
    for k, part in enumerate(parts):
        match = re.search(r"(\w+)$", part)
        if not match or (k == 0 and len(re.findall(r"\w+", part)) < 2):
            continue
        if k == 0 and re.fullmatch(r"(struct|union|enum)\s+\w+", part):
            continue
        before = part[:match.start()] if k == 0 else \
            (re.sub(r"[*\s]*(const\s+)?\w+$", " ", base) + part[:match.start()])
        last = before.rsplit("*", 1)
        if not re.search(r"\bconst\b", last[-1]):
            names.append(match.group(1))
    return names


# ----------------------------------------------------------------------------------------- rules

class Tree:
    def __init__(self, root):
        self.root = root
        self.findings = []
        self.files = {}
        for top in TOP:
            for base, dirs, names in os.walk(os.path.join(root, top)):
                dirs[:] = sorted(d for d in dirs if not d.startswith(".") and d != "__pycache__"
                                 and not os.path.isdir(os.path.join(base, d, "meson-private")))
                for name in sorted(names):
                    self.read(os.path.relpath(os.path.join(base, name), root))
        for name in sorted(os.listdir(root)):
            if os.path.isfile(os.path.join(root, name)):
                self.read(name)
        self.blanked = {p: blank(s) for p, s in self.files.items() if p.endswith((".c", ".h"))}

    def read(self, path):
        full = os.path.join(self.root, path)
        if os.path.islink(full) or not os.path.isfile(full):
            return
        with open(full, "rb") as file:
            data = file.read()
        script = data.startswith(b"#!")
        if path.endswith(TEXT + (".mutant",)) or script:
            self.files[path] = data.decode("utf-8", "replace")

    def found(self, path, line, rule, text):
        self.findings.append(Finding(path, line, rule, text))

    def lines(self, path):
        return enumerate(self.files[path].split("\n"), 1)

    def c_files(self, *tops):
        return [p for p in self.blanked if p.startswith(tops)]

    def meson(self, path):
        """A build file without its comments."""
        return re.sub(r"(?m)#.*$", "", self.files.get(path, ""))

    def check_lines(self):
        for path in self.files:
            if path.endswith(".mutant"):
                continue
            for number, line in self.lines(path):
                if line != line.rstrip():
                    self.found(path, number, "space", "space at the end of the line")
                most = COLUMNS_MAX if path in self.blanked else COLUMNS_OF.get(path)
                if most is not None and len(line.expandtabs(8)) > most:
                    self.found(path, number, "columns", f"{len(line.expandtabs(8))} columns, {most} allowed")
                if path in SELF:
                    continue
                match = UNFINISHED.search(line)
                if match:
                    self.found(path, number, "unfinished", match.group(0))
                match = MACHINE_PATH.search(line)
                if match:
                    self.found(path, number, "path", match.group(0))
                elif path.startswith(("src/", "protocols/", "include/")) and \
                        TEMPORARY_PATH.search(line) and "XXXXXX" not in line:
                    self.found(path, number, "path", "/tmp/ but for mkstemp's templates")

    def check_language(self):
        for path in filter(language.read, self.files):
            for line, rule, text in language.findings(path, self.files[path]):
                if rule == "who":
                    self.found(path, line, "who", text)
                elif rule == "he":
                    self.found(path, line, "he", text)
                else:
                    self.found(path, line, "stops", text)

    def check_sizes(self):
        for path in self.blanked:
            limit = PROTOCOL_MAX if path.startswith("protocols/") else FILE_MAX
            count = self.files[path].count("\n")
            if count > limit:
                self.found(path, limit + 1, "file", f"{count} lines, {limit} allowed")

    def check_scopes(self):
        allowed = self.allow_list()
        for path in self.c_files("src/", "protocols/"):
            functions, declarations = scan(self.blanked[path])
            for function in functions:
                count = function.last - function.first + 1
                if count > FUNCTION_MAX:
                    self.found(path, function.first, "function",
                               f"{function.name}: {count} lines, {FUNCTION_MAX} allowed")
            code = self.blanked[path]
            mutable = [(line_of(code, re.compile(rf"\b{name}\b").search(code, at).start()), name, text)
                       for at, text in declarations for name in variable_names(text)]
            for function in functions:
                for match in re.finditer(r"(?:^|[;{}])\s*(static\b[^;]*)", function.body):
                    flat = re.sub(r"\{.*", "{}", match.group(1), flags=re.S)
                    line = function.body_line + function.body.count("\n", 0, match.start(1))
                    mutable += [(line, name, flat) for name in variable_names(flat)]
            for line, name, text in mutable:
                if (path, name) in allowed:
                    allowed[path, name] = None
                    if "__thread" not in text and not name.startswith("roami_"):
                        self.found(path, line, "own", f"{name}: wants a name that begins with roami_")
                else:
                    self.found(path, line, "mutable", f"{name}: state hangs off the node")
        for (path, name), line in allowed.items():
            if line is not None:
                self.found(ALLOW, line, "allow", f"{path} has no such variable: {name}")

    def allow_list(self):
        allowed = {}
        if ALLOW not in self.files:
            return allowed
        for number, line in self.lines(ALLOW):
            words = line.split("#")[0].split(None, 2)
            if len(words) == 3:
                allowed[words[0], words[1]] = number
            elif words:
                self.found(ALLOW, number, "allow", "want: path name reason")
        return allowed

    def includes(self, path):
        inside = False
        for number, line in self.lines(path):
            if not inside:
                match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
                if match:
                    yield number, match.group(2), match.group(1) == "<"
            inside = line.rfind("/*") > line.rfind("*/") or (inside and "*/" not in line)

    def target(self, path, name):
        """What an include names: (module or "roam", path as included), or None if not ours."""
        if name.startswith("roam/"):
            return "roam", name
        beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
        for at in (beside, "src/" + name, name, "protocols/" + name, "src/transport/" + name,
                   "include/" + name):
            for here in (at, at + ".in"):
                if here not in self.files:
                    continue
                words = at.split("/")
                if here.endswith(".def.in"):
                    return "fault" if words[1] == "fault" else "base", name
                if words[0] == "src" and len(words) > 2:
                    return "/".join(words[1:-1]), "/".join(words[1:])
                if at.startswith("include/roam/"):
                    return "roam", at[len("include/"):]
                return words[0], at
        return None

    def may_include(self, order, room, target):
        """Whether a file of a room may include what `target` names: the rooms below, and its own."""
        if room in STRICT:
            return target[0] in STRICT[room] or target[1] in STRICT[room]
        if target[0] == "roam" or target[0] == "transport":
            return target[0] == "roam" or target[1] == LAYER
        return target[0] in order and order.index(room) <= order.index(target[0])

    def check_includes(self):
        text = "\n".join(line for _, line in self.lines(PICTURE)) if PICTURE in self.files else ""
        order = rooms.picture(text)
        for path in self.c_files("src/", "protocols/", "bench/", "apps/"):
            words = path.split("/")
            for number, name, system in self.includes(path):
                target = self.target(path, name)
                wrong = None
                room = "/".join(words[1:-1])
                if path.startswith("src/") and room in order:
                    if target is None:
                        wrong = None if system else "no such header"
                    elif not self.may_include(order, room, target):
                        wrong = f"src/{room} does not include this"
                elif path.startswith("src/") and room:
                    wrong = f"src/{room} is not in the picture of the rooms ({PICTURE})"
                elif path.startswith("protocols/"):
                    if name not in PROTOCOL_INCLUDES and \
                            f"protocols/{name.removeprefix('protocols/')}" not in self.files:
                        wrong = "protocols see " + ", ".join(sorted(PROTOCOL_INCLUDES)) + " and their own only"
                elif re.match(r"bench/floor[_.]", path):
                    if target is not None and not re.match(r"bench/floor[_.]", target[1]):
                        wrong = "a floor includes nothing of ours"
                elif path.startswith("apps/"):
                    if target is not None and target[0] != "apps" and target[0] != "roam":
                        wrong = "programs see include/roam only"
                if wrong:
                    self.found(path, number, "include", f"{name}: {wrong}")

    def check_state(self):
        for path in self.blanked:
            for number, name, _ in self.includes(path):
                target = self.target(path, name) if STATE.search(name) else None
                if target is None or "src/" + target[1] not in self.files:
                    continue
                said = self.files["src/" + target[1]].split("*/")[0]
                if path.startswith(f"src/{target[0]}/") or (path.startswith("tests/") and re.search(r"\btests\b", said)):
                    continue
                self.found(path, number, "state", f"{name}: what src/{target[0]} keeps is for its own files only")

    def check_quiet(self):
        """The fault path and protocols: no allocation, no stdio but for formatting into memory."""
        for path in self.c_files("src/fault/", "protocols/"):
            formats = re.search(r"\bv?snprintf\s*\(", self.blanked[path])
            for number, name, _ in self.includes(path):
                if name in ("malloc.h", "syslog.h") or (name == "stdio.h" and not formats):
                    self.found(path, number, "quiet", f"includes {name}")
            for number, line in enumerate(self.blanked[path].split("\n"), 1):
                match = FORBIDDEN_CALLS.search(line)
                if match:
                    self.found(path, number, "quiet", f"calls {match.group(1)}")

    def check_descriptors(self):
        """No descriptor of the library's is a standard one that the program has closed."""
        for path in self.c_files("src/"):
            if path == "src/os/fds.c":
                continue
            code = self.blanked[path]
            for match in DESCRIPTORS.finditer(code):
                if not MOVED_UP.search(code[max(0, match.start() - 40):match.start()]):
                    self.found(path, line_of(code, match.start()), "descriptor",
                               f"{match.group(1) or match.group(2)}: wants roami_os_fd, roami_os_pipe, roami_os_file")

    def protocol_names(self):
        match = re.search(r"protocols\s*=\s*\[([^\]]*)\]", self.meson("protocols/meson.build"))
        return set(re.findall(r"'(\w+)'", match.group(1))) if match else set()

    def check_central(self):
        """Plug-ins own their messages: no enum of all, no protocol's name in the core."""
        protocols = self.protocol_names()
        central = [f"src/{room}/" for room in ("base", "heap", "msg", "page", "home", "sync", "run", "link")]
        for path in self.c_files(*central, "include/"):
            if path.startswith("src/base/options"):
                continue
            text = self.blanked[path]
            for match in re.finditer(r"\benum\s+(\w*?(?:msg|message)s?(?:_?(?:type|kind|op|id)s?)?)"
                                     r"\s*\{", text):
                self.found(path, line_of(text, match.start()), "central",
                           f"enum {match.group(1)}: each plug-in has its own table of messages")
            if path.startswith("include/"):
                continue
            for number, line in enumerate(text.split("\n"), 1):
                for word in re.findall(r"\w+", line):
                    if protocols & set(word.lower().split("_")):
                        self.found(path, number, "central", f"{word} names a protocol")

    def check_mutants(self):
        for path in self.files:
            if not path.startswith("tests/mutants/") or not path.endswith(".mutant"):
                continue
            if not cited_rules(self.files[path]):
                self.found(path, 1, "mutant", "does not name its rule: rule x or x.y")
            try:
                mutant.applied(mutant.read(self.files[path]), self.files)
            except mutant.Broken as broken:
                self.found(path, 1, "mutant", str(broken))

    def numbered_rules(self):
        """The numbers of the sections and rules of docs/rules.md: "6", "6.1" ..."""
        numbers, section = set(), None
        for line in self.files.get(RULES, "").split("\n"):
            match = re.match(r"(?:## (\d+)\.|(\d+)\.) ", line)
            if match and match.group(1):
                section = match.group(1)
                numbers.add(section)
            elif match and section:
                numbers.add(f"{section}.{match.group(2)}")
        return numbers

    def check_proved(self):
        """Each rule of consistency has a mutant, or stands in the table of those that have none."""
        if RULES not in self.files:
            return
        text, _, table = self.files[RULES].partition(UNPROVED)
        without = set(re.findall(r"^\| (\d+\.\d+) \| \S", table, re.M))
        named = {number for path in self.files if path.startswith("tests/mutants/")
                 for number, _ in cited_rules(self.files[path].split("\n\n")[0])}
        for number in sorted(self.numbered_rules()):
            if number.split(".")[0] not in PROVED or "." not in number:
                continue
            if number in named and number in without:
                self.found(RULES, 1, "unproved",
                           f"rule {number} has a mutant: it needs no reason why not")
            elif number not in named and number not in without:
                self.found(RULES, 1, "unproved", f"rule {number} has neither a mutant nor a reason why not")

    def check_citations(self):
        """Each rule that is cited exists."""
        rules = self.numbered_rules()
        for path, text in self.files.items():
            for number, offset in cited_rules(text):
                if number not in rules:
                    self.found(path, line_of(text, offset), "rule",
                               f"cites rule {number}, which is not in {RULES}")

    def check_lists(self):
        """Every source is built, every name on a list has its source."""
        everything = "\n".join(self.meson(p) for p in self.files if p.endswith("meson.build"))
        for directory, variable in (("protocols", "protocols"), ("src/transport", "transports"),
                                    ("src/fault", "fault_engines")):
            build = directory + "/meson.build"
            match = re.search(variable + r"\s*=\s*\[([^\]]*)\]", self.meson(build))
            names = re.findall(r"'(\w+)'", match.group(1)) if match else []
            for name in names:
                if f"{directory}/{name}.c" not in self.files:
                    self.found(build, 1, "list", f"{name}: no {directory}/{name}.c")
            for path in self.c_files(directory + "/"):
                name = os.path.basename(path)
                if not path.endswith(".c") or name[:-2] in names:
                    continue
                if directory == "protocols" and \
                        re.split(r"[_.]", name)[0] not in [*names, "home", "moving"]:
                    self.found(path, 1, "list", f"not among the protocols of {build}")
                elif not re.search(rf"['/]{re.escape(name)}'", everything):
                    self.found(path, 1, "list", f"not in {build}")
        for path in self.c_files("src/"):
            if path.endswith(".c") and not path.startswith(("src/transport/", "src/fault/")) and \
                    not re.search(rf"['/]{re.escape(os.path.basename(path))}'", everything):
                self.found(path, 1, "list", "in no meson.build: never built")
        tests = "\n".join(self.meson(p) for p in self.files
                          if p.startswith("tests/") and p.endswith("meson.build") or p == "tests/fuzz/run.py")
        for path in self.c_files("tests/"):
            stem = os.path.basename(path)[:-2]
            short = re.sub(r"_test$", "", stem)
            if path.endswith(".c") and \
                    not re.search(rf"['/]({re.escape(stem)}(\.c)?|{re.escape(short)})'", tests):
                self.found(path, 1, "list", "in no meson.build of the tests: never run")

    def check_naming(self):
        build = "protocols/meson.build"
        lists = re.findall(r"(?:protocols\s*=|foreach name\s*:)\s*\[([^\]]*)\]", self.meson(build))
        names = {name + end for names in lists for name in re.findall(r"'([\w-]+)'", names)
                 for end in ("", "-rc")}
        for path, source in self.files.items():
            if not path.startswith(TESTS) or path in SELF:
                continue
            named = [(line, name) for line, text in texts(path, source)
                     for name in re.findall(r"[\w-]+(?![\w-]|\.md)", text) if name in names]
            if path in NAMING and not named:
                self.found(SELF[0], 1, "naming", f"{path} names no protocol: take it from NAMING")
            for line, name in named if path not in NAMING else []:
                self.found(path, line, "naming",
                           f"{name}: a test chooses protocols by what they declare, not by name")

    def check_reach(self):
        for path, text in self.blanked.items():
            if not path.startswith(("src/", "protocols/", "include/")) or path.startswith(REACH_ROOM):
                continue
            for match in REACH.finditer(text):
                self.found(path, line_of(text, match.start()), "reach",
                           f"{match.group(0)}: how a peer is reached is asked in {REACH_ROOM}*.c only, see reach.h")

    def check_kept(self):
        """A header of each room names the rules that it keeps."""
        text = "\n".join(line for _, line in self.lines(PICTURE)) if PICTURE in self.files else ""
        for room in rooms.picture(text):
            headers = [p for p in self.blanked if p.endswith(".h") and os.path.dirname(p) == "src/" + room]
            above = [p for p in self.blanked if p.endswith(".h") and os.path.dirname(p) == os.path.dirname("src/" + room)]
            said = "".join(re.sub(r"\n \*", "", self.files[p]) for p in headers)
            by_other = "".join(re.sub(r"\n \*", "", self.files[p]) for p in above)
            if headers and not re.search(r"\b(?:The (?:\w+ )?room k|K)eeps (?:no rule|rules? \d)", said) and \
                    not re.search(rf"\b{re.escape(room)} keeps \d", by_other):
                self.found(headers[0], 1, "kept", f"no header of src/{room} names the rules that the room keeps")

    def check_index(self):
        """tests/index.txt, for `tools/test --for FILE`, knows each source file."""
        listed = {line.split(":")[0]: number for number, line in
                  (self.lines(INDEX) if INDEX in self.files else []) if ": " in line and line[0] != "#"}
        by_hand = re.findall(r"^    '([\w./-]+)': \[", self.files.get("tools/testindex.py", ""), re.M)
        for path, number in [*listed.items(), *((path, 1) for path in by_hand)]:
            if not os.path.exists(os.path.join(self.root, path)):
                self.found(INDEX, number, "index", f"there is no {path}: `tools/test index`")
        for path in self.c_files("src/", "protocols/") if listed else []:
            if path.endswith(".c") and path not in listed and path not in by_hand:
                self.found(INDEX, 1, "index", f"lacks {path}: `tools/test index`")

    def check_transport(self):
        """Transports are chosen by what they declare: outside src/transport none has a name."""
        match = re.search(r"transports\s*=\s*\[([^\]]*)\]", self.meson("src/transport/meson.build"))
        names = set(re.findall(r"'(\w+)'", match.group(1))) if match else set()
        for path in self.c_files("src/", "tools/"):
            if path.startswith("src/transport/"):
                continue
            words = [(line, word) for line, text in texts(path, self.files[path])
                     for word in re.findall(r"[\w-]+", text)]
            words += [(line, word) for line, text in enumerate(self.blanked[path].split("\n"), 1)
                      for word in re.findall(r"(?:\broami_transport_|(?:->|\.)\s*)(\w+)", text)]
            for line, word in words:
                if word in names:
                    self.found(path, line, "transport",
                               f"{word}: ask for what a transport declares, not for its name")

    def check_format(self):
        tool = shutil.which("clang-format")
        if tool is None:
            self.found(".clang-format", 1, "format", "clang-format is not installed")
            return
        for path in self.blanked:
            done = subprocess.run([tool, "-style=file", path], cwd=self.root, text=True,
                                  capture_output=True, check=False)
            if done.returncode != 0:
                self.found(path, 1, "format", done.stderr.strip())
                continue
            old, new = self.files[path].split("\n"), done.stdout.split("\n")
            for tag, first, _, _, _ in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
                if tag != "equal":
                    self.found(path, first + 1, "format", "clang-format would change this")

    def check(self, with_format=False):
        self.check_lines()
        self.check_language()
        self.check_sizes()
        self.check_scopes()
        self.check_includes()
        self.check_state()
        self.check_quiet()
        self.check_central()
        self.check_mutants()
        self.check_descriptors()
        self.check_citations()
        self.check_proved()
        self.check_lists()
        self.check_naming()
        self.check_reach()
        self.check_kept()
        self.check_index()
        self.check_transport()
        if with_format:
            self.check_format()
        self.findings.sort(key=lambda f: (f.path, f.line, f.rule))
        return self.findings


# ------------------------------------------------------------------------------------- self-test

def tree_of(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
    return Tree(root)


def findings_of(change):
    with tempfile.TemporaryDirectory() as root:
        return tree_of(root, {**GOOD, **change}).check()


def self_test():
    failed = 0

    def expect(ok, what, findings):
        nonlocal failed
        if not ok:
            failed += 1
            print(f"self-test: {what}; found: {[str(f) for f in findings]}")

    for path, text in [("docs/none.md", "")] + FINE:
        findings = findings_of({path: text})
        expect(not findings, f"refused, but fine: {path} {text[:60]!r}", findings)
    for rule, path, text, line in BAD:
        findings = findings_of({path: text})
        hits = [f for f in findings if f.rule == rule and
                (line is None or (f.path == path and f.line == line))]
        expect(hits, f"{rule} did not fire: {path}:{line} {text[:60]!r}", findings)
    with tempfile.TemporaryDirectory() as root:
        shutil.copy(os.path.join(here(), ".clang-format"), root)
        tree = tree_of(root, {"src/os/os.c": "int f(void)\n{\n\treturn 0;\n}\n",
                              "src/os/bad.c": "int g(void)\n{\n\n  return 0; }\n"})
        tree.check_format()
        if shutil.which("clang-format"):
            expect({f.path for f in tree.findings} == {"src/os/bad.c"}, "format", tree.findings)
    rules = {m for m in re.findall(r'\.found\([^"]*?"(\w+)"', open(__file__).read())}
    untested = rules - {bad[0] for bad in BAD} - {"format"}
    expect(not untested, f"rules without a self-test: {sorted(untested)}", [])
    print(f"self-test: {len(BAD) + len(FINE) + 2} cases, {failed} failed")
    return 1 if failed else 0


def here():
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if arguments not in ([], ["--format"]):
        print(__doc__)
        return 2
    findings = Tree(here()).check("--format" in arguments)
    for finding in findings:
        print(finding)
    if findings:
        print(f"tidy: {len(findings)} found", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
