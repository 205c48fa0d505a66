/*
 * Home arguments of G_MALLOC and NU_MALLOC, SET_HOME, GET_HOME: a page lives at the node that was
 * named, whoever touches it first: its own node writes it without sending diffs, others send one for
 * each page.  A home below 0 is none.  Counted under hlrc; natively on threads there are no homes.
 */
MAIN_ENV
include(conform.H)

#define PAGES 16
#define BYTES (PAGES * 4096)

static struct shared {
	long home[64];
	char *given[64], *near[64], *set[64], *page[64], *free[64];
} *shared;
static char *early;

static void set_up(void)
{
	early = (char *)G_MALLOC(BYTES, 1)
	memset(early, 1, BYTES);
}

static void give(void)
{
	long k;

	for (k = 0; k < procs; k++) {
		shared->given[k] = (char *)G_MALLOC(BYTES, shared->home[k])
		shared->near[k] = (char *)NU_MALLOC(BYTES, shared->home[k]);
		shared->set[k] = (char *)G_MALLOC(BYTES)
		SET_HOME(shared->set[k], BYTES, shared->home[k])
		shared->page[k] = (char *)G_MALLOC(BYTES);
		SET_HOME(shared->page[k], shared->home[k]);
		shared->free[k] = (char *)G_MALLOC(BYTES, -1)
		SET_HOME(shared->free[k], BYTES, -1)
	}
}

static long diffs(void)
{
#ifdef ROAM_PARMACS_ENV
	return (long)roam_counter("diffs");
#else
	return 0;
#endif
}

/* Writes every page and returns how many diffs that took, which is counted behind the barrier. */
static long cost(char *block, long pages, char value)
{
	long before = diffs(), i;

	for (i = 0; i < pages; i++)
		block[i * 4096 + 5] = value;
	MEET
	return diffs() - before;
}

static void work(void)
{
	long id = conform_id(), other = (id + 1) % procs, home = -1;
#ifdef ROAM_PARMACS_ENV
	long i;
#endif

	GET_HOME(home)
	shared->home[id] = home;
	MEET
	if (id == 0)
		give();
	MEET
#ifdef ROAM_PARMACS_ENV
	/* All have a copy, so that a home's writes matter. */
	for (i = 0; i < procs * PAGES; i++)
		if (shared->given[i / PAGES][i % PAGES * 4096] != 0 ||
		    shared->near[i / PAGES][i % PAGES * 4096] != 0 ||
		    shared->set[i / PAGES][i % PAGES * 4096] != 0)
			WRONG("zeroed");
#endif
	MEET
	EXPECT(cost(shared->given[id], PAGES, 1) == 0);
	EXPECT(cost(shared->near[id], PAGES, 2) == 0);
	EXPECT(cost(shared->set[id], PAGES, 3) == 0);
	EXPECT(cost(shared->page[id], 1, 4) == 0);
	EXPECT(cost(shared->free[other], PAGES, 5) == 0);
#ifdef ROAM_PARMACS_ENV
	if (procs > 1) {
		EXPECT(cost(shared->given[other], PAGES, 6) == PAGES);
		EXPECT(cost(shared->near[other], PAGES, 7) == PAGES);
		EXPECT(cost(shared->set[other], PAGES, 8) == PAGES);
		EXPECT(cost(shared->page[other], 1, 9) == 1);
		EXPECT(shared->given[id][5] == 6 && shared->page[id][5] == 9);
		i = cost(early, home == 0 ? PAGES : 0, 10);
		EXPECT(i == (home == 0 ? PAGES : 0));
	}
#endif
}

static void check(void)
{
	G_FREE(early)
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	return conform_run(argc, argv, set_up, work, check);
}
