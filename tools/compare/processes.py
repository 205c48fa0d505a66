"""The processes of a session, which are all that a program has started."""
import os
import signal

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # signals after which this process ends what it started


def session_pids(session):
    """The living processes of a session."""
    pids = []
    for name in os.listdir('/proc'):
        if not name.isdigit():
            continue
        try:
            # Reading the files of all processes takes longer than many programs run.
            if os.getsid(int(name)) != session:
                continue
            with open(f'/proc/{name}/stat', encoding='utf-8', errors='replace') as file:
                fields = file.read().rpartition(')')[2].split()
        except OSError:
            continue
        if fields[0] not in 'ZX':
            pids.append(int(name))
    return sorted(pids)


def kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
