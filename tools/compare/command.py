"""What the commands have in common: their options, errors and ends."""
import argparse
import getopt
import signal
import sys

import runs
from processes import ENDS


class Arguments(argparse.ArgumentParser):
    """Errors in the format of the other commands; a command's options end where a program begins."""

    def __init__(self, name):
        super().__init__(prog=f'roam {name}', add_help=False, allow_abbrev=False)
        self.name = name

    def error(self, message):
        print(f'roam: {self.name}: {message}; `{self.prog} --help`', file=sys.stderr)
        sys.exit(2)

    def split(self, argv):
        """The options, and the program with its arguments, which are not parsed."""
        longs = [name[2:] + ('' if action.nargs == 0 else '=') for action in self._actions
                 for name in action.option_strings if name.startswith('--')]
        try:
            options, program = getopt.getopt(argv, 'h', longs)
        except getopt.GetoptError as error:
            self.error(str(error))
        # As one word, because a value may begin with a minus.
        return [f'{name}={value}' if name[2:] + '=' in longs else name for name, value in options], program


def end(number, _):
    """Ends the running program, which has its own session, before this process ends."""
    sys.exit(128 + number)


def end_by_signals():
    for number in ENDS:
        signal.signal(number, end)


def run(name, main):
    try:
        sys.exit(main(sys.argv[1:]))
    except runs.Failure as failure:
        runs.Progress.clear()
        print(f'roam: {name}: {failure}', file=sys.stderr)
        sys.exit(failure.status)
    except OSError as failure:
        print(f'roam: {name}: {failure}', file=sys.stderr)
        sys.exit(1)
