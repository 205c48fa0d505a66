"""What tests/tidy.py refuses in English: a sentence or a clause that begins with "who" + verb, a program that is a
*he*, and two full stops.

Prose is all of a document, the comments and literals of C and of Python, and comments after `#` elsewhere.
"""

import io
import re
import tokenize

QUOTES = ("tests/tidy.py", "tests/tidy_cases.py", "tests/language.py")  # they quote what they refuse

C = (".c", ".h", ".C", ".H", ".U", ".cpp", ".hpp", ".c.in", ".h.in", ".def")
DOCUMENT = (".md", ".1", ".7", ".txt")
C_PROSE = re.compile(r'/\*.*?\*/|//[^\n]*|\'(?:[^\'\\\n]|\\.)\'|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
# The rest of the sentence, or of the paragraph; `* ` and `# ` open the lines of comments.
WHO = re.compile(r"\bWho\s+(?:[*#/]+\s*)*[a-z](?:[^.?!\n]|\.(?=\w)|\n(?!\s*[*#/]*\s*\n))*(\??)")
# A clause without a noun: "so who asks waits" instead of "so a node that asks waits".
CLAUSE = re.compile(r"\b(?:so|else|because|if|that|than|which)(?:\s+[*#/]+)?\s+[Ww]ho(?:ever)?\b")
# `*he*` names the word.
HE = re.compile(r"(?<!\*)\b(?:[Hh]e|[Hh]im|[Hh]is|[Hh]imself)\b(?!\*)")
# What is left when a sentence was cut out.
STOPS = re.compile(r"[a-z)]\.\.(?=\s|$)", re.MULTILINE)


NOT_END = re.compile(r"[^\n]")


def read(path):
    """Whether the rules of language apply to a file."""
    return path not in QUOTES


def masked(source, spans):
    """The source with all but the spans, which are in order, as spaces."""
    out, done = [], 0
    for start, end in spans:
        out += [NOT_END.sub(" ", source[done:start]), source[start:end]]
        done = end
    return "".join(out) + NOT_END.sub(" ", source[done:])


def python_spans(source):
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in kinds:
            yield starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]


def prose(path, source):
    """What of a file is English, in its place."""
    if path.endswith(DOCUMENT):
        return source
    if path.endswith(C):
        return masked(source, (m.span() for m in C_PROSE.finditer(source)))
    if path.endswith(".py") or source.startswith("#!/usr/bin/env python"):
        return masked(source, python_spans(source))
    return masked(source, (m.span() for m in re.finditer(r"(?m)(?:^|(?<=\s))#.*$", source)))


def findings(path, source):
    """(line, rule, text) of what is refused."""
    text = prose(path, source)
    for match in WHO.finditer(text):
        if not match.group(1):
            yield text.count("\n", 0, match.start()) + 1, "who", "a sentence begins with its subject: the node that ..."
    for match in CLAUSE.finditer(text):
        yield text.count("\n", 0, match.end()) + 1, "who", f"{match.group(0)!r}: the node that ..."
    for match in HE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, "he", f"{match.group(0)}: a program is it, people are they"
    for match in STOPS.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, "stops", "a sentence ends with one full stop"
