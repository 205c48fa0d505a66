/* ALOCKDEC, ALOCKINIT, ALOCK, AULOCK, AUNLOCK, AGETL: arrays of locks, each of its own. */
MAIN_ENV
include(conform.H)

static struct shared {
	ALOCKDEC(lock, 40)
	long slot[40], again[40];
	long held;
} *shared;

static void set_up(void)
{
	long i;

	ALOCKINIT(shared->lock, 40)
	for (i = 0; i < 40; i++)
		shared->slot[i] = shared->again[i] = 0;
	shared->held = 0;
}

static void work(void)
{
	long i, k, id = conform_id();

	MEET
	for (i = 0; i < 400; i++) {
		k = (i * 7 + id) % 40;
		ALOCK(shared->lock, (i * 7 + id) % 40)
		EXPECT(shared->slot[k] == shared->again[k]);
		shared->slot[k]++;
		if (i % 32 == 0)
			usleep(1);
		shared->again[k]++;
		if (i % 2 == 0)
			AULOCK(shared->lock, k)
		else
			AUNLOCK(shared->lock, k);
		LOCK(AGETL(shared->lock, k))
		shared->slot[k]++;
		shared->again[k]++;
		UNLOCK(AGETL(shared->lock, k));
	}
	/* Another lock of the array is free while one is held. */
	MEET
	if (id == 0) {
		ALOCK(shared->lock, 0)
		shared->held = 1;
	}
	MEET
	if (id == procs - 1) {
		ALOCK(shared->lock, 4)
		shared->held += 10;
		AULOCK(shared->lock, 4)
		LOCK(AGETL(shared->lock, 5))
		shared->held += 100;
		UNLOCK(AGETL(shared->lock, 5));
	}
	MEET
	if (id == 0)
		AULOCK(shared->lock, 0)
}

static void check(void)
{
	long i, total = 0;

	for (i = 0; i < 40; i++) {
		EXPECT(shared->slot[i] == shared->again[i]);
		total += shared->slot[i];
	}
	EXPECT(total == 800 * procs && shared->held == 111);
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	return conform_run(argc, argv, set_up, work, check);
}
