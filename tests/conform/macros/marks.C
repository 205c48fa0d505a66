/*
 * SPLASH3_ROI_BEGIN and _END: a node counts what is between them, in as many pieces as there are; what
 * main does before CREATE is left out.  The fences, and the marks of simulators: accepted wherever a
 * statement is, and as bare words.
 */
MAIN_ENV
include(conform.H)

#ifdef ROAM_PARMACS_ENV
#define COUNTED(name, n) EXPECT(roam_counter(name) == before + (n))
#else
#define COUNTED(name, n) (void)(n)
#endif

static unsigned long before; /* of main's node: the first round is a piece of the region, too */

static struct shared {
	BARDEC(other)
	LOCKDEC(lock)
	PAUSEDEC(pause)
	ADEC(ask)
	long sum;
} *shared;

static void set_up(void)
{
	BARINIT(shared->other, procs)
	LOCKINIT(shared->lock)
	AINIT(shared->ask)
	shared->sum = 0;
}

static void meet(long times)
{
	while (times-- > 0) {
		BARRIER(shared->other, procs)
		LOCK(shared->lock)
		shared->sum++;
		UNLOCK(shared->lock)
	}
}

static void pass_over(long id)
{
	AUG_ON
	AUG_OFF;
	AUG_ON();
	TRACE_ON TRACE_OFF REF_TRACE_ON REF_TRACE_OFF DYN_TRACE_ON DYN_TRACE_OFF
	DYN_REF_TRACE_ON; DYN_REF_TRACE_OFF; DYN_SIM_ON DYN_SIM_OFF DYN_SCHED_ON DYN_SCHED_OFF
	if (id == 0)
		AUG_DELAY(100)
	else
		AUG_SET_LOLIMIT(1)
	if (id == 1)
		AUG_SET_HILIMIT(2);
	EVENT(shared->pause)
	PAUSE(shared->pause)
	BARINCLUDE(shared->other)
	BAREXCLUDE(shared->other);
	NEWPROC()
	PROBEND(shared->ask, 1)
	ST_LOG(1, 2)
	if (id > 0)
		RELEASE_FENCE()
	else
		ACQUIRE_FENCE()
	FULL_FENCE();
}

static void work(void)
{
	long id = conform_id();

	pass_over(id);
	meet(3);
	SPLASH3_ROI_BEGIN();
#ifdef ROAM_PARMACS_ENV
	before = roam_counter("barriers");
#endif
	EXPECT(before == 0 || (generation == 2 && before == 7));
	meet(5);
	COUNTED("barriers", 5);
	SPLASH3_ROI_END();
	meet(4);
	COUNTED("barriers", 5);
	SPLASH3_ROI_BEGIN()
	COUNTED("lock_acquires", 5);
	meet(2);
	SPLASH3_ROI_END()
	meet(1);
	COUNTED("barriers", 7);
	COUNTED("lock_acquires", 7);
}

static void check(void)
{
	EXPECT(shared->sum == 15 * procs);
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	return conform_run(argc, argv, set_up, work, check);
}
