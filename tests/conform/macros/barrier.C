/*
 * BARDEC, BARINIT, BARRIER: nobody goes on before all have come, and all see what was written
 * before; of all processes and of some.
 */
MAIN_ENV
include(conform.H)

static struct shared {
	BARDEC(all)
	BARDEC(half)
	long came[64];
	long half_came[64];
} *shared;

static void set_up(void)
{
	if (generation == 1) {
		BARINIT(shared->all)
		BARINIT(shared->half);
	} else {
		BARINIT(shared->all, procs)
		BARINIT(shared->half, (procs + 1) / 2);
	}
	memset(shared->came, 0, sizeof(shared->came));
	memset(shared->half_came, 0, sizeof(shared->half_came));
}

static void work(void)
{
	long turn, i, id = conform_id(), half = (procs + 1) / 2;

	for (turn = 1; turn <= 30; turn++) {
		if ((turn + id) % procs == 0)
			usleep(500);
		shared->came[id] = turn;
		BARRIER(shared->all, procs)
		for (i = 0; i < procs; i++)
			EXPECT(shared->came[i] == turn);
		BARRIER((shared)->all, (procs));
	}
	for (turn = 1; id < half && turn <= 20; turn++) {
		shared->half_came[id] = turn;
		BARRIER(shared->half, half)
		for (i = 0; i < half; i++)
			EXPECT(shared->half_came[i] == turn);
		BARRIER(shared->half, half)
	}
}

static void check(void)
{
	long i;

	for (i = 0; i < procs; i++)
		EXPECT(shared->came[i] == 30);
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	return conform_run(argc, argv, set_up, work, check);
}
