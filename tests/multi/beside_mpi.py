#!/usr/bin/env python3
"""Programs that also use MPI, whose library takes over signals.

usage: beside_mpi.py [-k PART_OF_A_NAME] [GROUP]...
"""
import os
import re
import signal

from harness import Wrong, expect, main, program, run
from shapes import ENGINES

# Open MPI uses UCX by itself only where it finds fast hardware, and starts as root only if told so.
MPI_ENV = {'OMPI_MCA_pml': 'ucx', 'OMPI_MCA_opal_common_ucx_tls': 'any',
           'OMPI_MCA_opal_common_ucx_devices': 'any', 'OMPI_ALLOW_RUN_AS_ROOT': '1',
           'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'UCX_LOG_LEVEL': 'error',
           # Of one process, so that it makes no shared memory, which other tests would see come and
           # go.
           'OMPI_MCA_btl': 'self', 'UCX_TLS': 'self'}
UCX_SIGNALS = {'UCX_ERROR_SIGNALS': 'SIGSEGV,SIGBUS'}


def lives_with_mpi(when, engine, more, err=''):
    expect([program('mpi'), when], 0, err, 'lived together',
           env={**MPI_ENV, 'ROAM_FAULT': engine, **more}, timeout=20)


def dies_of_ucx(engine):
    """UCX is there and does what the other cases have to cope with: if the user tells it to take
    the signals, it does so within the job, gets the next fault and raises it anew: a line says why
    the process ends."""
    result = run([program('mpi'), 'between'], env={**MPI_ENV, 'ROAM_FAULT': engine, **UCX_SIGNALS},
                 timeout=20)
    number = signal.SIGBUS if engine == 'uffd' else signal.SIGSEGV
    said = re.findall(r'Caught signal|^roam: a handler .* raised the signal anew', result.err, re.MULTILINE)
    if result.status != -number or len(said) != 2:
        raise Wrong(f'status {result.status}, stderr {result.err[-500:]!r}')


def mpi_cases():
    if 'MULTI_MPI' not in os.environ:
        print('skip: mpi: built without Open MPI')
        yield ('without Open MPI', lambda: None)
        return
    for engine in ENGINES:
        for when in ('before', 'after', 'between'):
            yield (f'MPI_Init {when}, {engine}', lives_with_mpi, when, engine, {})
        for when in ('before', 'after'):
            yield (f'MPI_Init {when}, UCX takes signals, {engine}', lives_with_mpi, when, engine,
                   UCX_SIGNALS)
        yield (f'handlers taken back, {engine}', lives_with_mpi, 'slow', engine, UCX_SIGNALS,
               '^roam: .*handler')
        yield (f'UCX ends the process, {engine}', dies_of_ucx, engine)


GROUPS = {
    'mpi': lambda: list(mpi_cases()),
}

if __name__ == '__main__':
    main(GROUPS)
