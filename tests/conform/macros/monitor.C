/*
 * MONDEC, MONINIT, MENTER, MEXIT, DELAY, CONTINUE: one process at a time is within a monitor; CONTINUE
 * hands it to the process that was delayed first in that queue, before those that want to enter, so
 * that what it was continued for still holds: nothing here is tested again after a DELAY.
 */
MAIN_ENV
include(conform.H)

enum { FULL, EMPTY };

static struct shared {
	MONDEC(buffer)
	MONDEC(line)
	long within, item, has, sum, passed;
	long order[64], last;
} *shared;

static void set_up(void)
{
	MONINIT(shared->buffer, 2)
	MONINIT(shared->line);
	shared->within = shared->has = shared->sum = shared->passed = shared->last = 0;
}

static void put(long value)
{
	MENTER(shared->buffer)
	if (shared->has)
		DELAY(shared->buffer, EMPTY)
	EXPECT(shared->within++ == 0);
	EXPECT(!shared->has);
	shared->item = value;
	shared->has = 1;
	shared->within--;
	CONTINUE(shared->buffer, FULL)
}

static long take(void)
{
	long value;

	MENTER(shared->buffer);
	if (!shared->has)
		DELAY(shared->buffer, FULL);
	EXPECT(shared->within++ == 0);
	EXPECT(shared->has);
	value = shared->item;
	shared->has = 0;
	shared->sum += value;
	shared->within--;
	CONTINUE(shared->buffer, EMPTY);
	return value;
}

/* All but one wait in the line, and leave it in the order in which they came. */
static void pass(long id)
{
	long place, waiting;

	if (id == 0) {
		do {
			MENTER(shared->line)
			waiting = shared->last;
			MEXIT(shared->line)
		} while (waiting < procs - 1);
		for (place = 1; place < procs; place++) {
			MENTER(shared->line)
			CONTINUE(shared->line, 0)
		}
		return;
	}
	MENTER(shared->line)
	place = shared->last++;
	DELAY(shared->line, 0)
	shared->order[shared->passed++] = place;
	MEXIT(shared->line)
}

static void work(void)
{
	long i, id = conform_id(), takers = procs / 2;

	MEET
	if (id < takers)
		for (i = 0; i < 60 * (procs - takers); i++)
			take();
	else
		for (i = 0; i < 60 * takers; i++)
			put(i + 1);
	MEET
	pass(id);
}

static void check(void)
{
	long i, each = 60 * (procs / 2);

	EXPECT(shared->sum == (procs - procs / 2) * (each * (each + 1) / 2));
	EXPECT(shared->passed == procs - 1);
	for (i = 0; i < procs - 1; i++)
		EXPECT(shared->order[i] == i);
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	return conform_run(argc, argv, set_up, work, check);
}
