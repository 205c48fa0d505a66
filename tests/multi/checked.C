/*
 * What ROAM_CHECK looks for, in a program with PARMACS macros: checked HOW PROCS.  HOW statics: one
 * process computes a view for all, in statics, as Volrend does; shared: in shared memory.  HOW races:
 * two nodes write the words of a block that one of them has allocated after CREATE, under locks of
 * their own.
 */
MAIN_ENV

#include <string.h>

#define WORDS 3000

struct shared {
	ALOCKDEC(lock, 2)
	BARDEC(barrier)
	long picture[64];
	double view[4];
	long *words;
} *shared;

static double view[4]; /* what Volrend has so */
double angle;
static long same, own_before;
static const char *how;
static long procs;

static void turn_view(double *of)
{
	long i;

	for (i = 0; i < 4; i++)
		of[i] = 0.5 * (double)i + 1;
}

static double look(long ray)
{
	return strcmp(how, "statics") == 0 ? view[ray % 4] + angle : shared->view[ray % 4];
}

static void write_words(long me)
{
	long i;

	if (me == 0)
		shared->words = (long *)G_MALLOC(WORDS * sizeof(long))
	BARRIER(shared->barrier, procs)
	if (me == 1)
		usleep(200000); /* later, though nothing orders it: at the same time one may be lost */
	ALOCK(shared->lock, me)
	for (i = 0; i < WORDS; i += 10)
		shared->words[i] = i + me + 1;
	AULOCK(shared->lock, me)
	BARRIER(shared->barrier, procs)
}

static void work(void)
{
	long me, i;

	GET_PID(me);
	same = 7;
	if (strcmp(how, "races") == 0)
		write_words(me);
	if (me == 0 && strcmp(how, "statics") == 0) {
		turn_view(view);
		angle = 30;
	} else if (me == 0) {
		turn_view(shared->view);
	}
	BARRIER(shared->barrier, procs)
	for (i = me; i < 64; i += procs)
		shared->picture[i] = (long)look(i);
	BARRIER(shared->barrier, procs)
}

int main(int argc, char **argv)
{
	how = argv[1];
	procs = atol(argv[argc - 1]);
	own_before = procs;
	MAIN_INITENV(,)
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	ALOCKINIT(shared->lock, 2)
	BARINIT(shared->barrier, procs)
	CREATE(work, procs)
	WAIT_FOR_END(procs)
	angle = 1; /* main's own, after the end */
	printf("ran\n");
	MAIN_END
}
