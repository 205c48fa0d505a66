/* NLOCKDEC, NLOCKINIT, NLOCK, NUNLOCK: a lock that its holder may take again. */
MAIN_ENV
include(conform.H)

static struct shared {
	NLOCKDEC(lock)
	long x, y;
} *shared;

static void set_up(void)
{
	NLOCKINIT(shared->lock)
	shared->x = shared->y = 0;
}

static void add(long depth)
{
	NLOCK(shared->lock)
	EXPECT(shared->x - shared->y == 3 - depth);
	shared->x++;
	if (depth > 0)
		add(depth - 1);
	if (depth == 2)
		usleep(1);
	shared->y++;
	NUNLOCK(shared->lock);
}

static void work(void)
{
	long i;

	MEET
	for (i = 0; i < 100; i++)
		add(3);
}

static void check(void)
{
	EXPECT(shared->x == 400 * procs && shared->y == shared->x);
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	return conform_run(argc, argv, set_up, work, check);
}
