/*
 * Open MPI for comparison: peer_mpi.c, run by mpirun in the first round and in the last.  The
 * scenario's argument is the number of ranks, and MPI_TCP.
 */
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define MPI_TCP 0x100u

static bool mpi_program(char *path, size_t bytes)
{
	ssize_t length = readlink("/proc/self/exe", path, bytes - 16);

	if (length < 0)
		return false;
	path[length] = '\0';
	strcpy(strrchr(path, '/'), "/roam-bench-mpi");
	return access(path, X_OK) == 0;
}

static const char *mpi_missing(void)
{
	char path[PATH_MAX];

	if (!mpi_program(path, sizeof(path)))
		return "Open MPI when roam was built (apt-get install libopenmpi-dev)";
	return bench_program_there("mpirun") ? NULL : "mpirun (apt-get install openmpi-bin)";
}

/* Lets mpirun use both CPUs: the rig's process has only one. */
__attribute__((noreturn)) static void mpi_exec(const struct rig_run *run)
{
	char program[PATH_MAX], ranks[16], cpu[2][16], samples[16], turns[16];
	const char *btl = (run->scenario->argument & MPI_TCP) != 0 ? "self,tcp" : "self,vader";
	cpu_set_t both;

	CPU_ZERO(&both);
	for (unsigned i = 0; i < 2; i++) {
		CPU_SET(run->cpu[i], &both);
		snprintf(cpu[i], sizeof(cpu[i]), "%u", run->cpu[i]);
	}
	sched_setaffinity(0, sizeof(both), &both);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	snprintf(ranks, sizeof(ranks), "%u", run->scenario->argument & ~MPI_TCP);
	snprintf(samples, sizeof(samples), "%u", run->samples);
	snprintf(turns, sizeof(turns), "%u", BENCH_TURNS);
	if (!mpi_program(program, sizeof(program)))
		_exit(127);
	execlp("mpirun", "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
	       "--mca", "pml", "ob1", "--mca", "btl", btl, "--mca", "btl_tcp_if_include", "lo",
	       "-np", ranks, program, cpu[0], cpu[1], samples, turns, (char *)NULL);
	_exit(127);
}

static void mpi_round(struct rig_run *run)
{
	int pipes[2], status;
	unsigned long long ticks;
	FILE *from;
	pid_t pid;

	if (run->round != 1 && run->round != run->rounds)
		return;
	if (pipe(pipes) != 0 || (pid = fork()) < 0)
		rig_fail(run, "cannot start mpirun");
	if (pid == 0) {
		dup2(pipes[1], 1);
		close(pipes[0]);
		mpi_exec(run);
	}
	close(pipes[1]);
	from = fdopen(pipes[0], "r");
	while (from != NULL && fscanf(from, "%llu", &ticks) == 1)
		rig_note(run, 0, ticks, BENCH_TURNS);
	if (from != NULL)
		fclose(from);
	if (waitpid(pid, &status, 0) != pid || status != 0)
		rig_fail(run, "mpirun: status %d", status);
}

#define SCENARIO(identifier, title, ranks)       \
	const struct rig_scenario identifier = { \
		.name = title,                   \
		.nodes = 1,                      \
		.argument = (ranks),             \
		.missing = mpi_missing,          \
		.round = mpi_round,              \
	}

SCENARIO(bench_mpi_2, "mpi_2", 2);
SCENARIO(bench_mpi_4, "mpi_4", 4);
SCENARIO(bench_mpi_tcp_2, "mpi_tcp_2", 2 | MPI_TCP);
