#!/usr/bin/env python3
"""Mutants: every seeded bug in this directory must be caught by the random programs of the world.

    tests/mutants/run.py [--seeds N] [--json FILE] [NAME ...]

For each NAME.patch: copies the sources, applies the patch, compiles what it changed, and runs seed after seed of random
programs (tests/sim; each file says what it looks at) until one fails, by a wrong value, a count, an invariant or a hang:
those of PAGES, or, if it changes the layers below the messages, of LAYERS; if it changes PastSet or its name begins with
past_, of PAST; those with several protocols at a time if its name begins with region_; litmus_test if it begins with
litmus_. A mutant that survives all seeds fails this test: then "0 wrong answers" proves nothing about the rule that the
patch names.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
HERE = os.path.join(ROOT, "tests", "mutants")
PARTS = ["src", "include", "protocols", "tests/lib", "tests/litmus", "tests/sim"]
OPTIONAL = ["udp_uring.c", "pmix.c"]  # of libraries
CHUNK = 50          # seeds per run of sim_test
CHUNK_SECONDS = 120  # a mutant that makes no progress at all is caught too


def sources(root):
    found = []
    for part in ["src/core", "src/msg", "src/transport", "src/os", "src/api", "src/boot", "src/pastset", "src/trace", "src/fault",
                 "protocols", "tests/lib"]:
        folder = os.path.join(root, part)
        found += [os.path.join(part, name) for name in sorted(os.listdir(folder)) if name.endswith(".c") and name not in OPTIONAL]
    return [name for name in found if name != "tests/lib/unit.c"]


SC = ["onecopy", "ivy", "mirage"]
# What can catch a mutant: of everything above the messages ...
PAGES = [["share_test"], ["sim_test"], ["racy_test"], ["thrash_test"], ["late_test"], ["update_test"], ["ahead_test"],
         ["taken_test"], ["lazy_test"], ["rows_test"], ["bands_test"], ["guess_test"], ["told_test"], ["packed_test"],
         ["sim_test", "--lossy"]]
# ... of these only under some protocols, ...
ONLY = {"racy_test": SC, "late_test": SC, "thrash_test": ["mirage"], "update_test": ["erc", "adapt"],
        "ahead_test": ["adapt"], "taken_test": ["adapt"], "lazy_test": ["lrc"], "rows_test": ["jump"],
        "bands_test": ["jump", "adapt"], "guess_test": ["hlrc"]}
# ... of the layers below them, ...
BELOW = re.compile(r"src/(msg/(link_|reliable|seal)|transport/)")
LAYERS = [["reliable_test"], ["sim_test", "--lossy"]]
SILENCE = [["deadline_test"]]
# ... of PastSet, ...
PAST = [["past_order_test"], ["past_rounds_test"], ["past_test"], ["past_match_test"], ["past_replay_test"],
        ["past_hosted_test"]]
# ... and of those whose name says so.
NAMED = {"region_": [["share_test", "--mixed"], ["sim_test", "--mixed"]], "litmus_": [["litmus_test"]], "past_": PAST}

MAINS = {words[0]: f"tests/sim/{words[0]}.c" for words in PAGES + LAYERS + SILENCE + PAST} | \
    {"litmus_test": "tests/litmus/litmus_test.c"}


def protocols():
    names = re.search(r"protocols = \[(.*?)\]", open(os.path.join(ROOT, "protocols/meson.build")).read()).group(1)
    return re.findall(r"'(\w+)'", names)


def protocol_of(patch):
    """The protocol that a mutant is tried under: the one whose file it changes, or that its first line names."""
    text = open(patch).read()
    words = re.findall(r"\w+", text.split("\n")[0])
    return next((name for name in protocols() if f"+++ b/protocols/{name}.c" in text), None) or \
        next((name for name in protocols() if name in words), "hlrc")


def lists(root):
    """The plug-in lists that the build generates."""
    generated = os.path.join(root, "generated")
    os.makedirs(os.path.join(generated, "fault"))
    with open(os.path.join(generated, "protocols.def"), "w") as out:
        out.writelines(f"PROTOCOL({name})\n" for name in protocols())
    with open(os.path.join(generated, "transports.def"), "w") as out:
        out.write("TRANSPORT(shm)\nTRANSPORT(udp)\n")
    with open(os.path.join(generated, "fault", "fault.def"), "w") as out:
        out.writelines(f"FAULT_ENGINE({name})\n" for name in ["soft", "sigsegv", "uffd"])


def compile_files(root, names, objects):
    flags = ["-std=gnu11", "-g", "-O1", "-D_GNU_SOURCE", "-w"]
    includes = [f"-I{root}/{part}" for part in ["include", "src", "protocols", "src/transport", "tests/lib",
                                                "generated"]]
    running = []
    for name in names:
        out = os.path.join(objects, name.replace("/", "_") + ".o")
        running.append(subprocess.Popen(["cc", *flags, *includes, "-c", name, "-o", out], cwd=root))
        if len(running) >= (os.cpu_count() or 1):
            if running.pop(0).wait() != 0:
                sys.exit(f"cannot compile near {name}")
    for job in running:
        if job.wait() != 0:
            sys.exit("cannot compile")


def link(objects, work):
    """The test programs over these objects."""
    mains = {program: name.replace("/", "_") + ".o" for program, name in MAINS.items()}
    names = [os.path.join(objects, name) for name in sorted(os.listdir(objects)) if name not in mains.values()]
    for program, main in mains.items():
        subprocess.run(["cc", "-g", os.path.join(objects, main), *names, "-o", os.path.join(work, program),
                        "-lpthread", "-lm", "-lsodium", "-llz4"], check=True)


def fails(command):
    """The seed at which the program fails; 0: it does not."""
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=CHUNK_SECONDS)
    except subprocess.TimeoutExpired:
        return int(command[-1].split("..")[0])
    if run.returncode == 0:
        return 0
    seed = re.search(r"replay: .*--seeds (\d+)", run.stdout)
    if seed:
        return int(seed.group(1))
    # Of fifty seeds too few may share memory by chance: that says nothing.
    return 0 if "too little was shared" in run.stdout else int(command[-1].split("..")[0])


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


def mutate(base, objects, patch, work, seeds):
    """What caught the mutant: program, protocol and seed; None if nothing did."""
    tree = os.path.join(work, "tree")
    shutil.copytree(base, tree)
    subprocess.run(["patch", "-s", "-F0", "-p1", "-i", patch], cwd=tree, check=True)
    changed = re.findall(r"^\+\+\+ b/(\S+)", open(patch).read(), re.M)
    copies = os.path.join(work, "objects")
    shutil.copytree(objects, copies)
    compile_files(tree, changed, copies)
    link(copies, work)
    protocol = protocol_of(patch)
    catch = programs_for(patch, changed)
    catch = [words for words in catch if protocol in ONLY.get(words[0], [protocol])]
    for first in range(1, seeds + 1, CHUNK):
        for program, *words in catch:
            last = min(first + CHUNK - 1, seeds)
            seed = fails([os.path.join(work, program), *words, "--protocol", protocol, "--seeds", f"{first}..{last}"])
            if seed:
                return program, protocol, seed
    return None


def tried(base, objects, patch, top, seeds):
    """What mutate says of a patch, and how long it took."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=top) as work:
        took = mutate(base, objects, os.path.join(HERE, patch), work, seeds)
    return took, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--json")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    patches = sorted(name for name in os.listdir(HERE) if name.endswith(".patch"))
    if options.names:
        patches = [name for name in patches if name[:-len(".patch")] in options.names]
    results, survived = {}, []
    with tempfile.TemporaryDirectory(prefix="roam-mutants-") as top:
        base, objects = os.path.join(top, "base"), os.path.join(top, "objects")
        for part in PARTS:
            shutil.copytree(os.path.join(ROOT, part), os.path.join(base, part))
        lists(base)
        os.makedirs(objects)
        compile_files(base, sources(base) + ["tests/litmus/litmus_list.c", *MAINS.values()], objects)
        workers = concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)))
        runs = [workers.submit(tried, base, objects, patch, top, options.seeds) for patch in patches]
        for patch, run in zip(patches, runs):
            name = patch[:-len(".patch")]
            took, seconds = run.result()
            results[name] = took
            if took:
                print(f"{name}: caught by seed {took[2]} of {took[0]}, {took[1]}, {seconds:.1f} s", flush=True)
            else:
                survived.append(name)
                print(f"{name}: SURVIVED {options.seeds} seeds, {seconds:.1f} s", flush=True)
    if options.json:
        with open(options.json, "w") as out:
            json.dump(results, out, indent=1)
    print(f"{len(results) - len(survived)} passed, {len(survived)} failed")
    return 1 if survived or not results else 0


if __name__ == "__main__":
    sys.exit(main())
