/*
 * CONDVARDEC, CONDVARINIT, CONDVARWAIT, CONDVARSIGNAL, CONDVARBCAST: a bounded buffer, whose lock is
 * one of an array, as in FMM, and a gate that opens for all.  Declared before any ENV macro.
 */
struct box {
	ALOCKDEC(lock, 3)
	CONDVARDEC(filled)
	CONDVARDEC(emptied)
	CONDVARDEC(gate)
	long item[4];
	long put, got, sum, open;
};
MAIN_ENV
include(conform.H)

static struct box *box;

static void set_up(void)
{
	ALOCKINIT(box->lock, 3)
	CONDVARINIT(box->filled)
	CONDVARINIT(box->emptied);
	CONDVARINIT(box->gate)
	box->put = box->got = box->sum = box->open = 0;
}

static void produce(void)
{
	long i, total = 40 * (procs - 1);

	for (i = 0; i < total; i++) {
		ALOCK(box->lock, 1)
		while (box->put - box->got == 4)
			CONDVARWAIT(box->emptied, AGETL(box->lock, 1))
		box->item[box->put++ % 4] = i + 1;
		CONDVARSIGNAL(box->filled)
		AULOCK(box->lock, 1)
	}
}

static void consume(void)
{
	long i;

	for (i = 0; i < 40; i++) {
		ALOCK(box->lock, 1)
		while (box->put == box->got)
			CONDVARWAIT(box->filled, AGETL(box->lock, 1));
		box->sum += box->item[box->got++ % 4];
		CONDVARSIGNAL(box->emptied);
		AULOCK(box->lock, 1)
	}
}

static void work(void)
{
	long id = conform_id();

	if (id == 0)
		produce();
	else
		consume();
	LOCK(AGETL(box->lock, 2))
	if (id == procs - 1) {
		UNLOCK(AGETL(box->lock, 2))
		usleep(3000);
		LOCK(AGETL(box->lock, 2))
		box->open = 1;
		CONDVARBCAST(box->gate)
	}
	while (box->open == 0)
		CONDVARWAIT(box->gate, box->lock[2])
	UNLOCK(AGETL(box->lock, 2))
}

static void check(void)
{
	long total = 40 * (procs - 1);

	EXPECT(box->put == total && box->got == total && box->sum == total * (total + 1) / 2);
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	box = (struct box *)G_MALLOC(sizeof(*box))
	return conform_run(argc, argv, set_up, work, check);
}
