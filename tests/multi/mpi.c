/*
 * Shows that roam and Open MPI over UCX live in one process, whichever starts first: UCX installs
 * handlers of SIGSEGV and SIGBUS that end the process, and keeps others from replacing them.
 * mpi WHEN; forks two nodes, node 0 uses MPI.
 *	WHEN  before: MPI_Init, then roam_start; after: the other way round;
 *	      between: within the job; the next thing that its node does is a fault;
 *	      slow: the same, and a while passes before the next synchronisation, which looks
 *	      after roam's handlers at most once a second
 */
#include "multi.h"

#include <mpi.h>
#include <unistd.h>

#define ROUNDS 50u
#define PAGES  8u
#define PAGE   4096u

static unsigned char *pages;
static unsigned char *late; /* node 1 writes it; node 0 reads it only after MPI has started */
static const char *when;

static int is_when(const char *name)
{
	return strcmp(when, name) == 0;
}

/* What MPI has for one process: a message to itself, through UCX. */
static void use_mpi(void)
{
	int sent = 42, got = 0, rank = -1;
	MPI_Request request;

	check(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && rank == 0);
	check(MPI_Irecv(&got, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
	check(MPI_Send(&sent, 1, MPI_INT, 0, 7, MPI_COMM_WORLD) == MPI_SUCCESS);
	check(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && got == 42);
}

static void start_mpi(void)
{
	check(MPI_Init(NULL, NULL) == MPI_SUCCESS);
	use_mpi();
}

/* Both nodes write to every page.  Copies that are in use all the time need no fault. */
static void share(unsigned round)
{
	unsigned me = roam_node();

	for (unsigned i = 0; i < PAGES; i++)
		pages[i * PAGE + me] = (unsigned char)(round + i);
	must(roam_barrier_all());
	for (unsigned i = 0; i < PAGES; i++)
		check(pages[i * PAGE + 1 - me] == (unsigned char)(round + i));
	must(roam_barrier_all());
}

static void node_main(void)
{
	int within = is_when("between") || is_when("slow");

	if (roam_node() == 1)
		*late = 42;
	for (unsigned round = 0; round < ROUNDS; round++) {
		if (round == ROUNDS / 2 && roam_node() == 0 && within)
			start_mpi();
		if (round == ROUNDS / 2 && is_when("between"))
			check(*late == 42);
		if (round == ROUNDS / 2 && is_when("slow"))
			usleep(2200000);
		if (round == ROUNDS / 2)
			must(roam_barrier_all());
		share(round);
		if (roam_node() == 0 && (round > ROUNDS / 2 || !within))
			use_mpi();
	}
}

int main(int argc, char **argv)
{
	check(argc == 2);
	when = argv[1];
	if (is_when("before"))
		start_mpi();
	must(roam_start());
	if (is_when("after"))
		start_mpi();
	pages = must_alloc(PAGES * PAGE);
	late = must_alloc(PAGE);
	must(roam_create_all(node_main, 2));
	must(roam_finish());
	check(MPI_Finalize() == MPI_SUCCESS);
	printf("lived together\n");
	return 0;
}
