/*
 * A program that is attached to a server which stops answering, for attached.py: what it asks ends
 * when its time is up, and nothing is done twice.
 *
 * stuck ADDRESS TUPLES
 *	says "ready", and at a line of its standard input asks for everything that may end, with a
 *	limit of time or cancelled, and moves so many large tuples; says of each what that
 *	returned, and after how many ms.  At a second line, by when the server answers again, it
 *	looks at what was done.
 */
#include "multi.h"

#include <pthread.h>
#include <roam/pastset.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_NS  300000000u
#define LARGE     60000u
#define LARGE_MAX 200u

static struct roam_ps_server *server, *left;
static struct roam_ps_element *moved, *empty, *rounds, *patient, *large;
static struct roam_ps_cancel cancel;

/* An operation, and its outcome. */
struct task {
	const char *name;
	struct roam_ps_element *element;
	struct roam_ps_request request;
	pthread_t thread;
	enum roam_err err;
};

static const uint64_t word = 7;
static uint8_t bytes[LARGE];
static uint64_t room[8];

static void say(const char *name, enum roam_err err, uint64_t begun_us)
{
	printf("%s %d %lu\n", name, (int)err,
	       (unsigned long)((roam_clock_us() - begun_us) / 1000));
}

static void *run(void *arg)
{
	struct task *task = arg;
	uint64_t begun = roam_clock_us();

	task->err = roam_ps_call(task->element, &task->request);
	if (task->name != NULL)
		say(task->name, task->err, begun);
	return NULL;
}

/* A new element. */
static void *run_enter(void *arg)
{
	static const struct roam_ps_options soon = {.timeout_ns = LIMIT_NS};
	struct roam_ps_element *made;
	uint64_t begun = roam_clock_us();

	say("enter", roam_ps_enter_at(server, "stuck new", "u64", &soon, &made), begun);
	return arg;
}

static void start(struct task *task, struct roam_ps_element *element, enum roam_ps_op op,
		  const char *name)
{
	task->name = name;
	task->element = element;
	task->request.op = op;
	if (task->request.tuple == NULL) {
		task->request.tuple = &word;
		task->request.bytes = sizeof(word);
	}
	if (task->request.cancel == NULL && task->request.timeout_ns == 0 && name != NULL)
		task->request.timeout_ns = LIMIT_NS;
	task->request.buffer = &room[op];
	task->request.limit = sizeof(word);
	check(pthread_create(&task->thread, NULL, run, task) == 0);
}

static struct roam_ps_element *enter(const char *name, const char *template_text, bool sum)
{
	struct roam_ps_options options = {.function = sum ? "sum" : NULL,
					  .participants = sum ? 2 : 0};
	struct roam_ps_element *element = NULL;

	must(roam_ps_enter_at(server, name, template_text, &options, &element));
	return element;
}

static void next_line(void)
{
	char byte;

	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
		continue;
}

static uint64_t last_of(struct roam_ps_element *element)
{
	struct roam_ps_state state;

	must(roam_ps_state(element, &state));
	return state.last;
}

/*
 * Checks that operations that returned ROAM_OK were done, those of unknown outcome perhaps, others
 * not.
 */
static void counted(struct roam_ps_element *element, const struct task *tasks, unsigned count)
{
	unsigned done = 0, unknown = 0;
	uint64_t last = last_of(element);

	for (unsigned i = 0; i < count; i++) {
		done += tasks[i].err == ROAM_OK;
		unknown += tasks[i].err == ROAM_ELOST;
	}
	printf("counted %lu of %u to %u\n", (unsigned long)last, done, done + unknown);
	check(last >= done && last <= done + unknown);
}

/* A participant repeats operations whose outcome it does not know, and then goes on. */
static void resume(void)
{
	struct roam_ps_element *other = enter("stuck sum", "u64", true);
	uint64_t sum = 0;

	must(roam_ps_move(rounds, &word, sizeof(word)));
	must(roam_ps_mob(other, &word, sizeof(word), NULL, &sum, sizeof(sum), NULL));
	check(sum == 2 * word);
	must(roam_ps_observe(rounds, &sum, sizeof(sum), NULL));
	check(sum == 2 * word && last_of(rounds) == 1);
}

int main(int argc, char **argv)
{
	static struct task tasks[8], many[LARGE_MAX], waits;
	unsigned large_count = argc > 2 ? number(argv[2]) : 0, count = 0;
	pthread_t enters;
	uint64_t begun;

	check(argc == 3 && large_count <= LARGE_MAX);
	must(roam_ps_attach(argv[1], NULL, &server));
	must(roam_ps_attach(argv[1], NULL, &left));
	moved = enter("stuck", "u64", false);
	empty = enter("stuck empty", "u64", false);
	rounds = enter("stuck sum", "u64", true);
	patient = enter("stuck patient", "u64", false);
	large = enter("stuck large", "u8[60000]", false);
	start(&waits, patient, ROAM_PS_OBSERVE, NULL);
	printf("ready\n");
	next_line();

	start(&tasks[count++], moved, ROAM_PS_MOVE, "move");
	start(&tasks[count++], empty, ROAM_PS_OBSERVE, "observe");
	tasks[count].request.timeout_ns = ROAM_PS_TRY;
	start(&tasks[count++], empty, ROAM_PS_OBSERVE, "try");
	tasks[count].request.flags = ROAM_PS_PEEK;
	start(&tasks[count++], empty, ROAM_PS_OBSERVE, "peek");
	start(&tasks[count++], empty, ROAM_PS_STATE, "state");
	tasks[count].request.cancel = &cancel;
	start(&tasks[count++], empty, ROAM_PS_OBSERVE, "cancelled");
	start(&tasks[count++], rounds, ROAM_PS_MOVE, "round");
	check(pthread_create(&enters, NULL, run_enter, NULL) == 0);
	for (unsigned i = 0; i < large_count; i++) {
		many[i].request.tuple = bytes;
		many[i].request.bytes = sizeof(bytes);
		start(&many[i], large, ROAM_PS_MOVE, "large");
	}
	nanosleep(&(struct timespec){0, LIMIT_NS}, NULL);
	roam_ps_cancel(&cancel);
	pthread_join(enters, NULL);
	for (unsigned i = 0; i < count; i++)
		pthread_join(tasks[i].thread, NULL);
	for (unsigned i = 0; i < large_count; i++)
		pthread_join(many[i].thread, NULL);
	begun = roam_clock_us();
	roam_ps_detach(left);
	say("detach", ROAM_OK, begun);
	printf("over\n");
	next_line();

	must(roam_ps_move(patient, &word, sizeof(word)));
	pthread_join(waits.thread, NULL);
	check(waits.err == ROAM_OK && last_of(patient) == 1);
	counted(moved, tasks, 1);
	counted(large, many, large_count);
	resume();
	return 0;
}
