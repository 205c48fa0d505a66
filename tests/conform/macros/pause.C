/*
 * PAUSEDEC, PAUSEINIT, SETPAUSE, WAITPAUSE, CLEARPAUSE: a latched flag that carries what its setter
 * wrote before, down a tree of nodes, as Radix uses them; EVENTDEC and so on: the same.
 */
MAIN_ENV
include(conform.H)

struct node {
	PAUSEDEC(done)
	long value;
};

static struct shared {
	struct node node[64];
	EVENTDEC(ready)
	EVENTDEC(taken)
	long late, carried;
} *shared;

static void set_up(void)
{
	long i;

	for (i = 0; i < 64; i++) {
		PAUSEINIT(shared->node[i].done)
		shared->node[i].value = 0;
	}
	EVENTINIT(shared->ready)
	EVENTINIT(shared->taken);
	shared->late = shared->carried = 0;
}

static void work(void)
{
	long turn, id = conform_id();

	for (turn = 1; turn <= 20; turn++) {
		if (id > 0) {
			WAITPAUSE(shared->node[id].done)
			CLEARPAUSE(shared->node[id].done);
		}
		shared->node[(id + 1) % procs].value = id == 0 ? turn : shared->node[id].value + 1;
		SETPAUSE(shared->node[(id + 1) % procs].done)
		if (id == 0) {
			WAITPAUSE(shared->node[0].done);
			CLEARPAUSE(shared->node[0].done)
			EXPECT(shared->node[0].value == turn + procs - 1);
		}
	}
	/* Latched: it is set before anybody waits, and all that wait go on. */
	if (id == 0) {
		shared->late = 77;
		EVENTSET(shared->ready)
	}
	usleep((unsigned)(id % 2 * 2000));
	EVENTWAIT(shared->ready)
	EXPECT(shared->late == 77);
	MEET
	if (id == 0)
		EVENTCLEAR(shared->ready)
	MEET
	if (id == procs - 1) {
		usleep(2000);
		shared->carried = 5;
		EVENTSET(shared->ready)
	}
	EVENTWAIT(shared->ready);
	EXPECT(shared->carried == 5);
}

static void check(void)
{
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	return conform_run(argc, argv, set_up, work, check);
}
