/*
 * ROAM_SHARED: statics that all processes share, as FMM's pointer Grid and Volrend's view would be: one
 * process writes them, and all read; initialised, of this file and of a function.
 */
MAIN_ENV
include(conform.H)

struct box {
	struct box *child;
	long value;
};

ROAM_SHARED static struct box *grid;
ROAM_SHARED static double view[3] = {0, 0, 1};
ROAM_SHARED static long seen = 100;
ROAM_SHARED static LOCKDEC(lock)
static long own = 5; /* of each process */

static void set_up(void)
{
	LOCKINIT(lock)
	EXPECT(view[2] == (generation == 1 || grid == NULL ? 1 : 9));
	grid = NULL;
	view[2] = 1;
	seen = 100;
	own = 5;
}

static long next(void)
{
	ROAM_SHARED static long counter = 40;

	return counter++;
}

static void work(void)
{
	long id = conform_id(), i;
	struct box *box;

	EXPECT(view[2] == 1);
	MEET
	if (id == procs - 1) {
		view[2] = 9;
		grid = (struct box *)G_MALLOC(sizeof(struct box))
		grid->child = NULL;
		grid->value = 77;
	}
#ifdef ROAM_PARMACS_ENV
	own += id; /* natively on threads all have one */
#endif
	MEET
	EXPECT(view[2] == 9 && grid->value == 77);
#ifdef ROAM_PARMACS_ENV
	EXPECT(own == 5 + id);
#endif
	for (i = 0; i < 20; i++) {
		LOCK(lock)
		box = (struct box *)G_MALLOC(sizeof(struct box))
		box->child = grid->child;
		box->value = next();
		grid->child = box;
		seen++;
		UNLOCK(lock)
	}
}

static void check(void)
{
	long count = 0, first = grid->child->value;
	struct box *box;

	EXPECT(seen == 100 + 20 * procs);
	for (box = grid->child; box != NULL; box = box->child, count++)
		EXPECT(box->value == first - count);
	EXPECT(count == 20 * procs);
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	return conform_run(argc, argv, set_up, work, check);
}
