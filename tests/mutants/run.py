#!/usr/bin/env python3
"""Mutants: every seeded bug in this directory must be caught by the random programs of the world.

    tests/mutants/run.py [--build DIR] [--seeds N] [--json FILE] [--search] [--remember] [NAME ...]

For each NAME.mutant (mutant.py says what is in it): compiles what it changes as the build does, links it before the
rest, and runs what caught it last time, the program and seed that caught.txt names, if the code without the mutant passes
that.  A mutant that this does not catch any more, one that is not in the list, and each with --search is looked for: seed
after seed of random programs (tests/sim; each file says what it looks at) until one fails, by a wrong value, a count, an
invariant or a hang: those of PAGES, or, if it changes the layers below the messages, of LAYERS; if it changes PastSet or its
name begins with past_, of PAST; those that NAMED has for what its name begins with.  A mutant that survives all seeds fails
this test: then "0 wrong answers" proves nothing about the rule that the mutant names.

--remember keeps in caught.txt what the search found.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

import mutant as texts

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
HERE = os.path.join(ROOT, "tests", "mutants")
END = ".mutant"
CAUGHT = os.path.join(HERE, "caught.txt")
CAUGHT_SAYS = """# What caught each mutant last time: the program, protocol and seed that run.py tries first.  Written by
# run.py --remember; a line that is wrong, or missing, costs a search and nothing else.
"""
CHUNK = 50          # seeds per run of sim_test
CHUNK_SECONDS = 120  # a mutant that makes no progress at all is caught too

# What can catch a mutant: of everything above the messages ...
PAGES = [["share_test"], ["sim_test"], ["racy_test"], ["thrash_test"], ["late_test"], ["update_test"], ["ahead_test"],
         ["taken_test"], ["lazy_test"], ["rows_test"], ["bands_test"], ["provisional_test"], ["told_test"], ["list_test"], ["packed_test"], ["turns_test"],
         ["keeps_test"],
         ["sim_test", "--lossy"]]
# ... of the layers below them, ...
BELOW = re.compile(r"src/(link/(link_|reliable|seal)|transport/)")
LAYERS = [["reliable_test"], ["sim_test", "--lossy"]]
SILENCE = [["deadline_test"]]
# ... of PastSet, ...
PAST = [["past_order_test"], ["past_rounds_test"], ["past_test"], ["past_match_test"], ["past_replay_test"],
        ["past_hosted_test"]]
# ... of what is asked of peers by message, in worlds of several hosts, ...
FAR = [["far_test"], ["blocks_test"], ["provisional_test"], ["packed_test"], ["sim_test"], ["share_test"], ["taken_test"], ["update_test"], ["rows_test"],
       ["ahead_test"]]
# ... and of those whose name says so.
NAMED = {"alone_": [["sim_test", "--teams", "--nodes", "1"]], "card_": [["sim_test", "--cards"], ["packed_test", "--cards"], ["card_test"]],
         "counted_": [["counted_test"]], "dp_": [["dp_test"], ["dp_test", "--lossy"]], "far_": FAR, "first_": [["first_test"]],
         "held_": [["held_test"]], "litmus_": [["litmus_test"]], "past_": PAST, "region_": [["share_test", "--mixed"], ["sim_test", "--mixed"]],
         "team_": [["sim_test", "--teams"]], "together_": [["together_test"], ["sim_test", "--teams"]],
         "tx_": [["tx_test"], ["tx_round_test"], ["tx_reads_test"], ["tx_rules_test"], ["tx_writes_test"],
                 ["tx_stored_test"], ["tx_stays_test"]]}

PROGRAMS = sorted({words[0] for words in itertools.chain(PAGES, LAYERS, SILENCE, PAST, *NAMED.values())})


class Build:
    """The build whose commands compile and link mutants, and whose programs have none."""

    def __init__(self, where):
        self.where = os.path.abspath(where)
        subprocess.run(["ninja", "-C", self.where, "--quiet", "tools/roam", *(f"tests/{name}" for name in PROGRAMS)],
                       check=True)
        self.compiles, self.links = {}, {}
        with open(os.path.join(self.where, "compile_commands.json")) as file:
            entries = json.load(file)
        for entry in entries:
            source = os.path.relpath(os.path.join(self.where, entry["file"]), ROOT)
            self.compiles.setdefault(source, entry)
        for name in PROGRAMS:
            said = self.ninja("commands", f"tests/{name}").strip().split("\n")[-1]
            self.links[name] = shlex.split(said)
        info = json.loads(self.said([os.path.join(self.where, "tools", "roam"), "info", "protocols", "--json"]))
        self.protocols = [protocol["name"] for protocol in info["protocols"]]
        self.default = info["default"]

    def said(self, command):
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout

    def ninja(self, *words):
        return self.said(["ninja", "-C", self.where, "--quiet", "-t", *words])

    def compile(self, path, source, out):
        """Compiles `source`, which stands for the file `path`."""
        if path not in self.compiles:
            raise texts.Broken(f"the build does not compile {path}")
        entry, words = self.compiles[path], []
        for word in shlex.split(entry["command"]):
            if word == entry["file"]:
                words += ["-iquote", os.path.dirname(word), source]
            elif word == entry["output"]:
                words.append(out)
            elif word == entry["output"] + ".d":
                words.append(out + ".d")
            elif word != "-Werror":
                words.append(word)
        done = subprocess.run([*words, "-w"], cwd=entry["directory"], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise texts.Broken(f"{path} does not compile:\n{done.stderr}")

    def link(self, program, out, objects):
        """Links a program; `objects`, of some files, stand before the libraries, which have the others."""
        words, own = [], {self.compiles[path]["output"]: made for path, made in objects.items()}
        for word in self.links[program]:
            words.append(own.pop(word, out if word == f"tests/{program}" else word))
        at = words.index("-Wl,--start-group")
        done = subprocess.run([*words[:at], *own.values(), *words[at:]], cwd=self.where, stderr=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode != 0:
            raise texts.Broken(f"{program} does not link:\n{done.stderr}")

    def program(self, name):
        return os.path.join(self.where, "tests", name)

    def passes(self, words):
        """Whether the code without a mutant passes what a mutant fails."""
        return ran([self.program(words[0]), *words[1:]]).returncode == 0

    def about(self, name, protocol):
        """Whether a program looks at that protocol: by what it declares (tests/lib/seed_options.h)."""
        return ran([self.program(name), "--protocol", protocol, "--about"]).returncode == 0


class Mutant:
    """A seeded bug, and its programs, each linked when it is to run."""

    def __init__(self, build, name, work):
        self.base, self.work, self.name, self.objects = build, work, name, {}
        with open(os.path.join(HERE, name + END)) as file:
            self.text = file.read()
        changes = texts.read(self.text)
        sources = {}
        for path in {change.path for change in changes}:
            with open(os.path.join(ROOT, path)) as file:
                sources[path] = file.read()
        for path, text in texts.applied(changes, sources).items():
            source = os.path.join(work, path.replace("/", "_"))
            with open(source, "w") as file:
                file.write(text)
            build.compile(path, source, source + ".o")
            self.objects[path] = source + ".o"

    def protocol(self):
        """The protocol that it is tried under: the one whose file it changes, and which its first line names if it
        changes several; or that its first line names."""
        words = re.findall(r"\w+", self.text.split("\n")[0])
        changed = [name for name in self.base.protocols if f"protocols/{name}.c" in self.objects]
        return next((name for name in changed if name in words), None) or next(iter(changed), None) or \
            next((name for name in self.base.protocols if name in words), self.base.default)

    def programs(self):
        """The programs that can catch it."""
        if self.text.startswith("Rule 10.1:"):
            return SILENCE
        if all(path.startswith("src/pastset/") for path in self.objects):
            return PAST
        for prefix, named in NAMED.items():
            if self.name.startswith(prefix):
                return named
        return LAYERS if all(BELOW.match(path) for path in self.objects) else PAGES

    def fails(self, words, seeds):
        """The seeds at which the program fails, as for --seeds; None: it does not."""
        program = os.path.join(self.work, words[0])
        if not os.path.exists(program):
            self.base.link(words[0], program, self.objects)
        run = ran([program, *words[1:], "--seeds", seeds])
        if run.returncode == 0:
            return None
        seed = re.search(r"replay: .*--seeds (\d+)", run.stdout)
        if seed:
            return f"{seed.group(1)}..{seed.group(1)}"
        # Not one seed but their sum: of few seeds too few may share memory by chance, which says nothing.
        return seeds if self.base.passes([*words, "--seeds", seeds]) else None


def ran(command):
    """A run of a test program; one without an end tells its seed when it is asked to stop."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        try:
            text = process.communicate(timeout=CHUNK_SECONDS)[0]
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                text = process.communicate(timeout=5)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                text = process.communicate()[0]
    return subprocess.CompletedProcess(command, process.returncode, text)


def chunks(seeds):
    """Few seeds of each program first: most mutants are caught by some program at once."""
    first = 1
    for size in itertools.chain([10, 40], itertools.repeat(CHUNK)):
        if first > seeds:
            return
        yield f"{first}..{min(first + size - 1, seeds)}"
        first += size


def search(mutant, seeds):
    """What catches the mutant, as words of a command; None if nothing does."""
    protocol = mutant.protocol()
    catch = [words for words in mutant.programs() if mutant.base.about(words[0], protocol)]
    for chunk in chunks(seeds):
        for words in catch:
            command = [*words, "--protocol", protocol]
            failed = mutant.fails(command, chunk)
            if failed:
                return [*command, "--seeds", failed]
    return None


def tried(build, name, top, seeds, hint):
    """What caught a mutant, whether that was known, and how long it took."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=top) as work:
        mutant = Mutant(build, name, work)
        known = hint is not None and hint[0] in PROGRAMS and mutant.fails(hint[:-2], hint[-1]) is not None and \
            build.passes(hint)
        took = hint if known else search(mutant, seeds)
    return took, known, time.monotonic() - start


def remembered():
    """What caught each mutant last time: words of a command, by name."""
    with open(CAUGHT) as lines:
        rows = [line.split() for line in lines if not line.startswith("#")]
    return {row[0].rstrip(":"): row[1:] for row in rows if row}


def remember(caught):
    with open(CAUGHT, "w") as out:
        out.write(CAUGHT_SAYS)
        out.writelines(f"{name}: {' '.join(words)}\n" for name, words in sorted(caught.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "gcc"))
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--json")
    parser.add_argument("--search", action="store_true", help="as if nothing were known in caught.txt")
    parser.add_argument("--remember", action="store_true", help="keep in caught.txt what catches them")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    names = sorted(name.removesuffix(END) for name in os.listdir(HERE) if name.endswith(END))
    unknown = sorted(set(options.names) - set(names))
    if unknown:
        parser.error(f"there is no mutant {unknown[0]}")
    if options.names:
        names = sorted(options.names)
    caught = remembered()
    results, survived, news = {}, [], 0
    with tempfile.TemporaryDirectory(prefix="roam-mutants-") as top:
        build = Build(options.build)
        workers = concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)))
        runs = {workers.submit(tried, build, name, top, options.seeds, None if options.search else caught.get(name)): name
                for name in names}
        for run in concurrent.futures.as_completed(runs):
            name = runs[run]
            try:
                took, known, seconds = run.result()
            except texts.Broken as broken:  # the others still tell what they show
                print(f"{name}: FAILED: {broken}", flush=True)
                results[name] = None
                survived.append(name)
                continue
            results[name] = took
            if took:
                news += not known
                caught[name] = took
                print(f"{name}: caught by {' '.join(took)}{'' if known else ', found anew'}, {seconds:.1f} s", flush=True)
                if options.remember and not known:
                    remember(caught)
            else:
                survived.append(name)
                print(f"{name}: SURVIVED {options.seeds} seeds, {seconds:.1f} s", flush=True)
    if news and not options.remember and not options.search:
        print(f"{news} were searched for: run.py --remember keeps what catches them in caught.txt")
    if options.json:
        with open(options.json, "w") as out:
            json.dump(results, out, indent=1)
    print(f"{len(results) - len(survived)} passed, {len(survived)} failed")
    return 1 if survived or not results else 0


if __name__ == "__main__":
    sys.exit(main())
