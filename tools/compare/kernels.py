"""Programs that come with roam: their names and places."""
import copy
import os

import runs

PLACES = ('../../apps', '../apps')   # relative to this file, in the build tree and as installed


def job(args, kernel, arguments):
    """One of these programs with its arguments."""
    args = copy.copy(args)
    args.program = os.path.join(args.apps, kernel)
    args.arguments = arguments
    return runs.Job(args)


def check(args, known, family):
    """The programs of args.kernels, with their family's name, if any, before their own; args.apps:
    where."""
    args.kernels = [name if name in known or not family else f'{family}-{name}'
                    for name in args.kernels or known]
    for name in args.kernels:
        if name not in known:
            raise runs.Failure(f'no program "{name}" here; known: {", ".join(known)}', 2)
    here = os.path.dirname(os.path.abspath(__file__))
    places = [args.apps] if args.apps else [os.path.join(here, place) for place in PLACES]
    for place in places:
        if all(os.access(os.path.join(place, kernel), os.X_OK) for kernel in args.kernels):
            args.apps = os.path.normpath(place)
            return
    raise runs.Failure(f'no programs {", ".join(args.kernels)} in {" or ".join(places)}: say '
                       'where with --apps', 127)
