/*
 * MAIN_INITENV, CREATE, WAIT_FOR_END, MAIN_END: as many processes as asked for, which inherit the
 * statics that main has set, and whose writes main sees when they have ended.
 */
MAIN_ENV
include(conform.H)

static struct shared {
	long seen[64];
	long rounds;
} *shared;
static long before, mine;

static void set_up(void)
{
	before = 40 + generation;
	memset(shared->seen, 0, sizeof(shared->seen));
}

static void work(void)
{
	long id = conform_id();

	mine = id;
	EXPECT(before == 40 + generation);
	shared->seen[id] = 7 + id;
	usleep((unsigned)(id * 3000));
	shared->seen[id]++;
}

static void check(void)
{
	long i;

	for (i = 0; i < procs; i++)
		EXPECT(shared->seen[i] == 8 + i);
	EXPECT(shared->seen[procs] == 0);
	shared->rounds++;
}

int main(int argc, char **argv)
{
	/* Before the environment, as Barnes does; the second form is that of the original suite. */
	shared = (struct shared *)G_MALLOC(sizeof(*shared));
	memset(shared, 0, sizeof(*shared));
	MAIN_INITENV(,2 * sizeof(struct shared) + 512 * 1024,)
	MAIN_INITENV(,100000);
	MAIN_INITENV()
	if (conform_run(argc, argv, set_up, work, check) != 0)
		exit(1);
	if (shared->rounds == 0 || mine >= procs)
		exit(2);
	MAIN_END
	exit(3);
}
