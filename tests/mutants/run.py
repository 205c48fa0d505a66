#!/usr/bin/env python3
"""Mutants: every seeded bug in this directory must be caught by the random programs of the world.

    tests/mutants/run.py [--seeds N] [--json FILE] [--search] [--remember] [NAME ...]

For each NAME.patch: applies the patch to a copy, compiles what it changed, and runs what caught it last time, the program
and seed that caught.txt names, if the code without the patch passes that.  A mutant that this does not catch any more, one
that is not in the list, and each with --search is looked for: seed after seed of random programs (tests/sim; each file says
what it looks at) until one fails, by a wrong value, a count, an invariant or a hang: those of PAGES, or, if it changes the
layers below the messages, of LAYERS; if it changes PastSet or its name begins with past_, of PAST; those with several
protocols at a time if its name begins with region_; litmus_test if it begins with litmus_.  A mutant that survives all seeds
fails this test: then "0 wrong answers" proves nothing about the rule that the patch names.

--remember keeps in caught.txt what the search found.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
HERE = os.path.join(ROOT, "tests", "mutants")
PARTS = ["src", "include", "protocols", "tests/lib", "tests/litmus", "tests/sim"]
OPTIONAL = ["udp_uring.c", "pmix.c"]  # of libraries
CAUGHT = os.path.join(HERE, "caught.txt")
CAUGHT_SAYS = """# What caught each mutant last time: the program, protocol and seed that run.py tries first.  Written by
# run.py --remember; a line that is wrong, or missing, costs a search and nothing else.
"""
WRAPPED = ["mmap64", "munmap", "mremap", "mprotect", "madvise"]  # tests/lib/world_memory.c has them
CHUNK = 50          # seeds per run of sim_test
CHUNK_SECONDS = 120  # a mutant that makes no progress at all is caught too


def sources(root):
    found = []
    for part in ["src/core", "src/msg", "src/transport", "src/os", "src/api", "src/boot", "src/pastset", "src/trace", "src/fault",
                 "protocols", "tests/lib"]:
        folder = os.path.join(root, part)
        found += [os.path.join(part, name) for name in sorted(os.listdir(folder)) if name.endswith(".c") and name not in OPTIONAL]
    return [name for name in found if name != "tests/lib/unit.c"]


# What can catch a mutant: of everything above the messages ...
PAGES = [["share_test"], ["sim_test"], ["racy_test"], ["thrash_test"], ["late_test"], ["update_test"], ["ahead_test"],
         ["taken_test"], ["lazy_test"], ["rows_test"], ["bands_test"], ["guess_test"], ["told_test"], ["list_test"], ["packed_test"],
         ["sim_test", "--lossy"]]
# ... of the layers below them, ...
BELOW = re.compile(r"src/(msg/(link_|reliable|seal)|transport/)")
LAYERS = [["reliable_test"], ["sim_test", "--lossy"]]
SILENCE = [["deadline_test"]]
# ... of PastSet, ...
PAST = [["past_order_test"], ["past_rounds_test"], ["past_test"], ["past_match_test"], ["past_replay_test"],
        ["past_hosted_test"]]
# ... of what is asked of peers by message, in worlds of several hosts, ...
FAR = [["far_test"], ["guess_test"], ["packed_test"], ["sim_test"], ["share_test"], ["taken_test"], ["update_test"], ["rows_test"]]
# ... and of those whose name says so.
NAMED = {"far_": FAR, "region_": [["share_test", "--mixed"], ["sim_test", "--mixed"]], "litmus_": [["litmus_test"]], "past_": PAST}

MAINS = {words[0]: f"tests/sim/{words[0]}.c" for words in PAGES + LAYERS + SILENCE + PAST + FAR} | \
    {"litmus_test": "tests/litmus/litmus_test.c"}


def protocols():
    names = re.search(r"protocols = \[(.*?)\]", open(os.path.join(ROOT, "protocols/meson.build")).read(), re.DOTALL).group(1)
    return re.findall(r"'(\w+)'", names)


def transports():
    names = re.search(r"transports = \[(.*?)\]", open(os.path.join(ROOT, "src/transport/meson.build")).read()).group(1)
    return re.findall(r"'(\w+)'", names)


def default_protocol():
    options = open(os.path.join(ROOT, "src/api/options.def")).read()
    return re.search(r'"ROAM_PROTOCOL", \w+, "(\w+)"', options).group(1)


def protocol_of(patch):
    """The protocol that a mutant is tried under: the one whose file it changes, or that its first line names."""
    text = open(patch).read()
    words = re.findall(r"\w+", text.split("\n")[0])
    return next((name for name in protocols() if f"+++ b/protocols/{name}.c" in text), None) or \
        next((name for name in protocols() if name in words), default_protocol())


def lists(root):
    """The plug-in lists that the build generates."""
    generated = os.path.join(root, "generated")
    os.makedirs(os.path.join(generated, "fault"))
    with open(os.path.join(generated, "protocols.def"), "w") as out:
        out.writelines(f"PROTOCOL({name}, {at})\n" for at, name in enumerate(protocols()))
    with open(os.path.join(generated, "transports.def"), "w") as out:
        out.writelines(f"TRANSPORT({name})\n" for name in transports())
    with open(os.path.join(generated, "fault", "fault.def"), "w") as out:
        out.writelines(f"FAULT_ENGINE({name})\n" for name in ["soft", "sigsegv", "uffd"])


class Broken(Exception):
    """A patch that does not fit the sources; the text says why."""


def compile_files(jobs, includes):
    """Compiles each source to its object, given as pairs; as many at a time as there are processors."""
    flags = ["-std=gnu11", "-O1", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-w"]
    running = []
    for source, out in jobs:
        running.append(subprocess.Popen(["cc", *flags, *includes, "-c", source, "-o", out]))
        if len(running) >= len(os.sched_getaffinity(0)) and running.pop(0).wait() != 0:
            raise Broken(f"does not compile, near {source}")
    for job in running:
        if job.wait() != 0:
            raise Broken("does not compile")


def object_name(source):
    return source.replace("/", "_") + ".o"


class Base:
    """The sources as they are, compiled once; mutants compile what they change and link the rest."""

    def __init__(self, top):
        self.root, self.objects = os.path.join(top, "base"), os.path.join(top, "objects")
        for part in PARTS:
            shutil.copytree(os.path.join(ROOT, part), os.path.join(self.root, part))
        lists(self.root)
        os.makedirs(self.objects)
        self.includes = [f"-I{self.root}/{part}" for part in ["include", "src", "protocols", "src/transport", "tests/lib",
                                                              "generated"]]
        self.common = sources(self.root) + ["tests/litmus/litmus_list.c"]
        compile_files([(os.path.join(self.root, name), self.object(name)) for name in self.common + sorted(MAINS.values())],
                      self.includes)
        self.linking = threading.Lock()

    def object(self, name):
        return os.path.join(self.objects, object_name(name))

    def link(self, program, out, changed):
        """Links a program; `changed`: other objects of some sources."""
        names = [MAINS[program], *self.common]
        subprocess.run(["cc", *[changed.get(name) or self.object(name) for name in names], "-o", out,
                        *[f"-Wl,--wrap={name}" for name in WRAPPED], "-lpthread", "-lm", "-lsodium", "-llz4"], check=True)

    def program(self, name):
        out = os.path.join(self.objects, name)
        with self.linking:
            if not os.path.exists(out):
                self.link(name, out, {})
        return out

    def passes(self, words):
        """Whether the code without a mutant passes what a mutant fails."""
        return ran([self.program(words[0]), *words[1:]]).returncode == 0

    def about(self, name, protocol):
        """Whether a program looks at that protocol: by what it declares (tests/lib/seed_options.h)."""
        return ran([self.program(name), "--protocol", protocol, "--about"]).returncode == 0


class Mutant:
    """A patch, and its programs, each linked when it is to run."""

    def __init__(self, base, patch, work):
        self.base, self.work, self.objects = base, work, {}
        text = open(patch).read()
        self.changed = re.findall(r"^\+\+\+ b/(\S+)", text, re.M)
        if not all(name.endswith(".c") for name in self.changed):
            raise Broken("changes a header, and only files that are compiled can be changed")
        for name in self.changed:
            os.makedirs(os.path.join(work, os.path.dirname(name)), exist_ok=True)
            shutil.copy(os.path.join(base.root, name), os.path.join(work, name))
        if subprocess.run(["patch", "-s", "-F0", "-p1", "-i", patch], cwd=work, check=False).returncode != 0:
            raise Broken("does not apply")
        for name in self.changed:
            self.objects[name] = os.path.join(work, object_name(name))
            beside = "-iquote" + os.path.join(base.root, os.path.dirname(name))
            compile_files([(os.path.join(work, name), self.objects[name])], [beside, *base.includes])

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


def programs_for(patch, changed):
    """The programs that can catch a mutant which changes these files."""
    if open(patch).read().startswith("Rule 10.1:"):
        return SILENCE
    if all(name.startswith("src/pastset/") for name in changed):
        return PAST
    for prefix, named in NAMED.items():
        if os.path.basename(patch).startswith(prefix):
            return named
    return LAYERS if all(BELOW.match(name) for name in changed) else PAGES


def chunks(seeds):
    """Few seeds of each program first: most mutants are caught by some program at once."""
    first = 1
    for size in itertools.chain([10, 40], itertools.repeat(CHUNK)):
        if first > seeds:
            return
        yield f"{first}..{min(first + size - 1, seeds)}"
        first += size


def search(mutant, patch, seeds):
    """What catches the mutant, as words of a command; None if nothing does."""
    protocol = protocol_of(patch)
    catch = [words for words in programs_for(patch, mutant.changed) if mutant.base.about(words[0], protocol)]
    for chunk in chunks(seeds):
        for words in catch:
            command = [*words, "--protocol", protocol]
            failed = mutant.fails(command, chunk)
            if failed:
                return [*command, "--seeds", failed]
    return None


def tried(base, patch, top, seeds, hint):
    """What caught a mutant, whether that was known, and how long it took."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=top) as work:
        mutant = Mutant(base, os.path.join(HERE, patch), work)
        known = hint is not None and hint[0] in MAINS and mutant.fails(hint[:-2], hint[-1]) is not None and base.passes(hint)
        took = hint if known else search(mutant, os.path.join(HERE, patch), seeds)
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
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--json")
    parser.add_argument("--search", action="store_true", help="as if nothing were known in caught.txt")
    parser.add_argument("--remember", action="store_true", help="keep in caught.txt what catches them")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    patches = sorted(name for name in os.listdir(HERE) if name.endswith(".patch"))
    if options.names:
        patches = [name for name in patches if name[:-len(".patch")] in options.names]
    caught = remembered()
    results, survived, news = {}, [], 0
    with tempfile.TemporaryDirectory(prefix="roam-mutants-") as top:
        base = Base(top)
        workers = concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)))
        runs = {workers.submit(tried, base, patch, top, options.seeds,
                               None if options.search else caught.get(patch[:-len(".patch")])): patch for patch in patches}
        for run in concurrent.futures.as_completed(runs):
            name = runs[run][:-len(".patch")]
            try:
                took, known, seconds = run.result()
            except Broken as broken:  # the others still tell what they show
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
