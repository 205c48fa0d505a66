/* The second file of survive: what Volrend does from a file that has no MAIN_ENV. */
include(survive.H)
EXTERN_ENV

static long round_now; /* a static of this file: what main sets is inherited at each CREATE */

static void work(void)
{
	LOCK(shared->lock)
	shared->sum += round_now;
	shared->next++;
	UNLOCK(shared->lock)
	BARRIER(shared->barrier, procs)
	expect(shared->next == procs, "all of a round have come");
	expect(shared->of[round_now - 1] == (round_now == 1 ? 0 : procs), "what main wrote between");
	BARRIER(shared->barrier, procs)
	round_now = 100; /* of this process alone, unless it is main's */
}

static void wait_all(void)
{
	if (procs > 1)
		WAIT_FOR_END(procs)
}

void rounds(void)
{
	long i;

	for (i = 1; i <= 5; i++) {
		round_now = i;
		shared->next = 0;
		if (i % 2 == 0)
			CREATE(work, procs)
		else {
			long k;

			for (k = 1; k < procs; k++)
				CREATE(work)
			work();
		}
		wait_all();
		shared->of[i] = shared->next;
	}
	expect(shared->sum == 15 * procs, "each process took part in each round");
}
