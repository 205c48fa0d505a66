/*
 * MAIN_ENV, EXTERN_ENV, ENV, ROAM_NEEDS, and what every macro keeps: its name in a string or without
 * a parenthesis is left alone; in a comment it may stand with any arguments: LOCK, CREATE, LOCK(),
 * CREATE(a), BARRIER(a), WAIT_FOR_END(), G_MALLOC, G_MALLOC(), LOCKDEC(x), CLOCK(), SETPAUSE(),
 * GETSUB(), BARINIT(one, two), ALOCKINIT(), AGETL(), MAIN_INITENV(a, b, c, d), DELAY(), MONINIT(),
 * NLOCK(), SET_HOME(), SET_HOME(1, 2, 3, 4), EVENT(), CONDVARWAIT(c), it's `quoted', AUG_ON.
 */
include(names.H)
MAIN_ENV
ENV()
include(conform.H)

#define PAGE_SIZE 4096 /* as programs do that do not wait for MAIN_ENV's */

struct shared *shared;

static int DELAY, CONTINUE = 3, LOCK = 4; /* without a parenthesis: the program's own */

static void set_up(void)
{
	LOCKINIT(shared->lock)
	shared->other = 0;
	DELAY = CONTINUE + LOCK;
	EXPECT(DELAY == 7);
	EXPECT(strlen("LOCK") == 4 && strcmp("BARRIER", "BARRIE" "R") == 0);
	EXPECT(strcmp("CREATE WAIT_FOR_END G_MALLOC", "CREAT" "E WAIT_FOR_" "END G_MALLO" "C") == 0);
	EXPECT('L' == "LOCK"[0] && '`' == "`"[0] && "'"[0] == '\'');
}

static void work(void)
{
	MEET
	other_file(20);
	MEET
	EXPECT(shared->other == 20 * procs);
}

static void check(void)
{
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	ROAM_NEEDS(RC)
	ROAM_NEEDS(ScC);
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	return conform_run(argc, argv, set_up, work, check);
}
