/* GSDEC, GSINIT, GETSUB, and with NU_: each subscript once a loop, and nobody begins the next early. */
MAIN_ENV
include(conform.H)

static struct shared {
	GSDEC(loop)
	NU_GSDEC(other)
	ALOCKDEC(lock, 16)
	long taken[100], others[11], turn[64];
} *shared;

static void set_up(void)
{
	GSINIT(shared->loop)
	NU_GSINIT(shared->other);
	ALOCKINIT(shared->lock, 16)
	memset(shared->taken, 0, sizeof(shared->taken));
	memset(shared->others, 0, sizeof(shared->others));
	memset(shared->turn, 0, sizeof(shared->turn));
}

static void work(void)
{
	long i = 0, k, turn, id = conform_id();

	for (turn = 1; turn <= 3; turn++) {
		shared->turn[id] = turn;
		for (;;) {
			GETSUB(shared->loop, i, 99, procs)
			if (i < 0)
				break;
			ALOCK(shared->lock, i % 16)
			shared->taken[i]++;
			AULOCK(shared->lock, i % 16)
		}
		for (k = 0; k < procs; k++)
			EXPECT(shared->turn[k] >= turn);
		NU_GETSUB(shared->other, i, 10, procs)
		while (i >= 0) {
			ALOCK(shared->lock, i)
			shared->others[i] += turn;
			AULOCK(shared->lock, i)
			NU_GETSUB(shared->other, i, 10, procs);
		}
	}
}

static void check(void)
{
	long i;

	for (i = 0; i < 100; i++)
		EXPECT(shared->taken[i] == 3);
	for (i = 0; i < 11; i++)
		EXPECT(shared->others[i] == 6);
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	return conform_run(argc, argv, set_up, work, check);
}
