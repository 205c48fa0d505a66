#!/usr/bin/env python3
"""Programs that use MPI, too, whose library takes signals.

usage: beside_mpi.py [-k PART_OF_A_NAME] [GROUP]...
"""
import os
import signal

from harness import Wrong, expect, main, program, run
from shapes import ENGINES

# Open MPI takes UCX only where it finds fast hardware, and starts as root only if told so.
MPI_ENV = {'OMPI_MCA_pml': 'ucx', 'OMPI_MCA_opal_common_ucx_tls': 'any',
           'OMPI_MCA_opal_common_ucx_devices': 'any', 'OMPI_ALLOW_RUN_AS_ROOT': '1',
           'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'UCX_LOG_LEVEL': 'error',
           # Of one process: no shared memory that other tests would see come and go.
           'OMPI_MCA_btl': 'self', 'UCX_TLS': 'self'}
UCX_SIGNALS = {'UCX_ERROR_SIGNALS': 'SIGSEGV,SIGBUS'}


def lives_with_mpi(when, engine, more, err=''):
    expect([program('mpi'), when], 0, err, 'lived together',
           env={**MPI_ENV, 'ROAM_FAULT': engine, **more}, timeout=20)


def dies_of_ucx(engine):
    """That UCX is there and does what the other cases live with: told by the user to take the
    signals, it does so within the job, and the next fault is its."""
    result = run([program('mpi'), 'between'], env={**MPI_ENV, 'ROAM_FAULT': engine, **UCX_SIGNALS},
                 timeout=20)
    number = signal.SIGBUS if engine == 'uffd' else signal.SIGSEGV
    if result.status != -number or 'Caught signal' not in result.err:
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
