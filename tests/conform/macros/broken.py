#!/usr/bin/env python3
"""Each conformance program fails if a macro that it is for does nothing, or the wrong thing: expands
the program with a definition of the macro beside the macro file, compiles and runs it.

    broken.py BUILD [PROGRAM...]"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
MACROS = os.path.join(ROOT, 'include', 'roam', 'parmacs.m4')
MORE = {'names': ['names_other.C']}

HANGS = 4  # seconds; right, they take less than 0.5
PATIENCE = 60  # for a program that is right
NOTHING = '{ }'
# Program, macro, what it becomes; arguments are $1, $2.
BROKEN = [
    ('create', 'CREATE', NOTHING),
    ('create', 'WAIT_FOR_END', NOTHING),
    ('create', 'MAIN_END', NOTHING),
    ('create', 'MAIN_INITENV', '{ exit(9); }'),
    ('lock', 'LOCK', NOTHING),
    ('lock', 'UNLOCK', NOTHING),
    ('lock', 'LOCKINIT', '{ exit(9); }'),
    ('alock', 'ALOCK', NOTHING),
    ('alock', 'ALOCK', '{ roam_lock($1); }'),
    ('alock', 'AULOCK', NOTHING),
    ('alock', 'AUNLOCK', NOTHING),
    ('alock', 'AGETL', '($1)[0]'),
    ('alock', 'ALOCKINIT', '{ exit(9); }'),
    ('nlock', 'NLOCK', NOTHING),
    ('nlock', 'NLOCK', '{ if (roam_lock(&($1)) != ROAM_OK) exit(9); }'),
    ('nlock', 'NUNLOCK', NOTHING),
    ('nlock', 'NLOCKINIT', '{ memset(&($1), 1, sizeof($1)); }'),
    ('barrier', 'BARRIER', NOTHING),
    ('barrier', 'BARRIER', '{ roam_barrier(&($1), 1); }'),
    ('barrier', 'BARINIT', '{ exit(9); }'),
    ('cond', 'CONDVARWAIT', NOTHING),
    ('cond', 'CONDVARSIGNAL', NOTHING),
    ('cond', 'CONDVARBCAST', NOTHING),
    ('cond', 'CONDVARBCAST', '{ roam_cond_signal(&($1)); }'),
    ('cond', 'CONDVARINIT', '{ exit(9); }'),
    ('pause', 'SETPAUSE', NOTHING),
    ('pause', 'WAITPAUSE', NOTHING),
    ('pause', 'CLEARPAUSE', NOTHING),
    ('pause', 'PAUSEINIT', '{ exit(9); }'),
    ('pause', 'EVENTSET', NOTHING),
    ('pause', 'EVENTWAIT', NOTHING),
    ('pause', 'EVENTCLEAR', NOTHING),
    ('pause', 'EVENTINIT', '{ exit(9); }'),
    ('getsub', 'GETSUB', '{ ($2) = -1; }'),
    ('getsub', 'GETSUB', '{ ($2) = ($1).next <= ($3) ? ($1).next++ : -1; }'),
    ('getsub', 'NU_GETSUB', '{ ($2) = -1; }'),
    ('getsub', 'GSINIT', '{ ($1).next = 5; }'),
    ('getsub', 'NU_GSINIT', '{ ($1).next = 5; }'),
    ('monitor', 'MENTER', NOTHING),
    ('monitor', 'MEXIT', NOTHING),
    ('monitor', 'DELAY', NOTHING),
    ('monitor', 'CONTINUE', '{ roam_parmacs_mon_exit(&($1)); }'),
    ('monitor', 'MENTER', '{ roam_lock(&($1).lock); }'),  # does not keep out of the way of the delayed
    ('monitor', 'MONINIT', '{ roam_parmacs_mon_init(&($1), 1L); }'),
    ('memory', 'G_MALLOC', 'malloc($1);'),
    ('memory', 'NU_MALLOC', 'malloc($1);'),
    ('memory', 'G_MALLOC_F', 'malloc($1)'),
    ('memory', 'NU_MALLOC_F', 'malloc($1)'),
    ('memory', 'G_FREE', '{ if (roam_free((char *)($1) + 64) != ROAM_OK) exit(9); }'),
    ('memory', 'NU_FREE', '{ exit(9); }'),
    ('home', 'G_MALLOC', 'roam_alloc($1);'),
    ('home', 'NU_MALLOC', 'roam_alloc($1);'),
    ('home', 'SET_HOME', NOTHING),
    ('home', 'GET_HOME', '{ ($1) = 0; }'),
    ('clock', 'CLOCK', '{ ($1) = 5; }'),
    ('clock', 'CLOCK', '{ ($1) = roam_clock_us() / 1000; }'),
    ('clock', 'CLOCK', '{ ($1) = roam_clock_us() * 1000; }'),
    ('marks', 'SPLASH3_ROI_BEGIN', NOTHING),
    ('marks', 'SPLASH3_ROI_END', NOTHING),
    ('marks', 'AUG_ON', 'no_such_word'),
    ('marks', 'RELEASE_FENCE', 'no_such_word'),
    ('marks', 'EVENT', '{ roam_flag_wait(&($1)); }'),
    ('marks', 'PAUSE', '{ roam_flag_wait(&($1)); }'),
    ('marks', 'BAREXCLUDE', '{ roam_barrier(&($1), 99); }'),
    ('getpid', 'GET_PID', '{ ($1) = 0; }'),
    ('getpid', 'GET_PID', '{ ($1) = getpid(); }'),
    ('statics', 'ROAM_SHARED', ''),
    ('names', 'LOCK', '(roam_lock($1))'),
    ('names', 'EXTERN_ENV', ''),
    ('names', 'MAIN_ENV', ''),
    ('names', 'ROAM_NEEDS', '{ exit(9); }'),
]


def link_line(build):
    """What a program over roam is linked with."""
    directory = os.path.join(os.path.abspath(build), 'src')
    return ['-L' + directory, '-lroam', '-Wl,-rpath,' + directory, '-pthread']


def expand(source, macro, becomes, directory):
    """Writes the C file; the program is expanded with the macro's wrong definition."""
    wrong = os.path.join(directory, 'wrong.m4')
    with open(wrong, 'w', encoding='utf-8') as file:
        file.write(f'divert(-1)\ndefine(<|{macro}|>, <|{becomes}|>)\ndivert(0)dnl\n')
    path = os.path.join(directory, source.replace('.C', '.c'))
    with open(path, 'w', encoding='utf-8') as file:
        subprocess.run(['m4', '-s', '-Ulen', '-Uindex', '-I', HERE, MACROS, wrong,
                        os.path.join(HERE, source)], stdout=file, check=True)
    return path


def fails(libs, name, macro, becomes, seconds=HANGS):
    """Why the program fails (it does not compile, ends with a status, or hangs), or None.  `macro`
    None: expands the program as it is."""
    with tempfile.TemporaryDirectory() as directory:
        sources = [expand(source, macro, becomes, directory)
                   for source in [name + '.C', *MORE.get(name, [])]]
        path = os.path.join(directory, 'program')
        built = subprocess.run(['cc', '-w', '-O1', '-I', os.path.join(ROOT, 'include'), *sources,
                                '-o', path, *libs], stderr=subprocess.DEVNULL, check=False)
        if built.returncode != 0:
            return 'it does not compile'
        with subprocess.Popen([path, '-p', '4'], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            try:
                status = process.wait(timeout=seconds)
                return f'status {status}' if status else None
            except subprocess.TimeoutExpired:
                process.kill()
                return 'it hangs'


def main():
    libs = link_line(sys.argv[1])
    names = sys.argv[2:] or sorted({each[0] for each in BROKEN})
    chosen = [each for each in BROKEN if each[0] in names]
    for name in names:
        why = fails(libs, name, 'roam_no_macro', '', PATIENCE)
        if why is not None:
            sys.exit(f'{name} fails with no macro broken: {why}')
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda each: fails(libs, *each), chosen))
    for (name, macro, becomes), why in zip(chosen, found):
        print(f'{name}: {macro} as {becomes or "nothing"}: {why or "NOT NOTICED"}')
    sys.exit(any(why is None for why in found))


if __name__ == '__main__':
    main()
