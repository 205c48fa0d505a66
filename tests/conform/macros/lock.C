/* LOCKDEC, LOCKINIT, LOCK, UNLOCK: exclusion, and what was written inside is seen by the next one. */
MAIN_ENV
include(conform.H)

static struct shared {
	LOCKDEC(a)
	LOCKDEC(b)
	long x, y, total;
} *shared;

static void set_up(void)
{
	LOCKINIT(shared->a)
	LOCKINIT(shared->b);
	shared->x = shared->y = shared->total = 0;
}

static void work(void)
{
	long i;

	MEET
	for (i = 0; i < 500; i++) {
		if (i % 2 == 0)
			LOCK(shared->a)
		else {
			LOCK(shared->a);
		}
		EXPECT(shared->x == shared->y);
		shared->x++;
		if (i % 16 == 0)
			usleep(1);
		shared->y++;
		if (i % 50 == 0) {
			LOCK(shared->b)
			shared->total++;
			UNLOCK(shared->b)
		}
		UNLOCK(shared->a);
	}
}

static void check(void)
{
	EXPECT(shared->x == 500 * procs && shared->y == shared->x);
	EXPECT(shared->total == 10 * procs);
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	return conform_run(argc, argv, set_up, work, check);
}
