#!/usr/bin/env python3
"""Includes and calls between the rooms of src/ run one way: down the picture in docs/architecture.md.

usage: rooms.py BUILD

The picture has a line for each room, a directory of src/; a room uses what stands below it.
Calls are found in the objects of a build: what one leaves undefined and another one defines.
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
PICTURE = os.path.join(ROOT, "docs", "architecture.md")


class Wrong(Exception):
    """The picture cannot be read; the text says why."""


def picture(text):
    """The rooms, directories of src/, highest first."""
    match = re.search(r"^## Rooms\n.*?^```\n(.*?)^```", text, re.M | re.S)
    if match is None:
        raise Wrong("no picture below \"## Rooms\"")
    return [line.split()[0] for line in match.group(1).splitlines() if line and not line.startswith(" ")]


def sources():
    for folder, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in sorted(names):
            if name.endswith((".c", ".h", ".def")):
                yield os.path.relpath(os.path.join(folder, name), os.path.join(ROOT, "src"))


def stem(path):
    return os.path.splitext(path)[0]


def includes(files):
    """(file, what it includes, the file of that), of all that are in rooms."""
    for path in sources():
        with open(os.path.join(ROOT, "src", path), encoding="utf-8") as file:
            names = re.findall(r'^#include "([^"]+)"', file.read(), re.M)
        for name in names:
            target = next((where for where in (stem(name), f"{os.path.dirname(path)}/{stem(name)}") if where in files), None)
            if target is not None:
                yield stem(path), name, target


def objects(build):
    """Of each file the object that the library has of it."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        source = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        words = shlex.split(entry["command"])
        made = os.path.join(entry["directory"], words[words.index("-o") + 1])
        if source.startswith("src/") and "libroam" in made and os.path.exists(made):
            found.setdefault(stem(source[len("src/"):]), made)
    return found


def calls(build, files):
    """(file, a name that it leaves open, the file that defines it)."""
    defined, wanted = {}, []
    named = {made: path for path, made in objects(build).items()}
    said = subprocess.run(["nm", "--print-file-name", *named], check=True, stdout=subprocess.PIPE, text=True).stdout
    for made, _, line in (line.rpartition(":") for line in said.splitlines()):
        *_, kind, name = line.split()
        if kind == "U":
            wanted.append((named[made], name))
        elif kind in "TDBRVW":
            defined[name] = named[made]
    for path, name in wanted:
        if defined.get(name) in files and path in files:
            yield path, name, defined[name]


def upward(rooms, references):
    """Lines of those that run up."""
    return {f"{path} uses {name} of {target}: this runs up" for path, name, target in references
            if rooms.index(os.path.dirname(path)) > rooms.index(os.path.dirname(target))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    options = parser.parse_args()
    with open(PICTURE, encoding="utf-8") as file:
        rooms = picture(file.read())
    files = {stem(path) for path in sources()}
    wrong = [f"{path} is in no room" for path in sorted(files) if os.path.dirname(path) not in rooms]
    wrong += [f"there is no src/{room}, which the picture has" for room in rooms
              if room not in {os.path.dirname(path) for path in files}]
    files = {path for path in files if os.path.dirname(path) in rooms}
    references = list(includes(files)) + list(calls(options.build, files))
    wrong += sorted(upward(rooms, [each for each in references if each[0] in files]))
    for line in wrong:
        print(line)
    print(f"rooms: {len(rooms)}, references between files: {len(references)}, {len(wrong)} found")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Wrong as error:
        sys.exit(f"docs/architecture.md: {error}")
