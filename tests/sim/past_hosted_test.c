/*
 * A node of a job to which programs are attached, on real threads: all nodes are in one process;
 * their threads and attached clients, whose connections break, use the same elements.  What all of
 * them saw of an element must have an explanation (history.h); under ThreadSanitizer the server's
 * thread has no data race with those of the node.  Then two threads add up, sum after sum, while
 * others look: none finds less than another had seen before.  Options: seed_options.h.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "history.h"
#include "pastset/attached/route.h"
#include "pastset/attached/serve.h"
#include "pastset/job/server.h"
#include "rng.h"
#include "run/open.h"
#include "run/wait.h"
#include "seed_options.h"

#define NODES       3u
#define LINKS       2u /* attachments */
#define THREADS     5u /* the first are attached, each of the others is at a node of its own */
#define ATTACHED    3u
#define ROUNDS      6u
#define EACH        6u
#define SUMS        60u
#define ADDERS      4u /* two participants, at nodes 0 and 1, and two that only look */
#define HEAP        ((size_t)1 << 20)
#define SECONDS_MAX 60u

extern const struct roami_fault_engine roami_fault_soft;
extern const struct roam_transport roami_transport_shm;

struct job {
	struct roami_options options;
	struct roami_layout layout;
	void *bases[NODES];
	struct roami_real reals[NODES];
	struct roami_node *nodes[NODES];
	struct roami_attachments all;
	struct roam_ps_server *servers[LINKS];
	uint64_t seed, clock;
	unsigned round;
	pthread_mutex_t lock; /* guards the history and the clock */
	struct history history;
	struct roam_ps_cancel cancels[THREADS];
	_Atomic bool ended; /* the round */
	uint64_t cuts;
	_Atomic uint64_t elsewhere;
	_Atomic uint64_t seen;  /* the newest sum that any thread has seen */
	_Atomic unsigned added; /* participants that have all sums */
};

struct worker {
	struct job *job;
	unsigned number;
	pthread_t thread;
};

struct totals {
	uint64_t cuts, elsewhere;
};

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "FAILED %s\n", what);
	abort();
}

/* ----------------------------------------------------------------------------------------- job */

static void on_fail(struct roami_node *node, const char *text)
{
	fprintf(stderr, "FAILED node %u: %s\n", node->me, text);
	abort();
}

static void job_node(struct job *job, const struct roam_protocol *protocol, unsigned me)
{
	static const uint8_t key[ROAMI_KEY_BYTES] = "the key of every job of threads";
	struct roami_real *real = &job->reals[me];
	static const struct roami_room *const extensions[] = {&roami_past_room, NULL};
	struct roami_node_params params = {
		.me = me,
		.nodes = NODES,
		.options = &job->options,
		.env = job->seed % 2 == 0 ? &roami_env_chaos : &roami_env_real,
		.env_state = real,
		.protocol = protocol,
		.engine = &roami_fault_soft,
		.transport = &roami_transport_shm,
		.layout = job->layout,
		.bases = job->bases,
		.app = (uint8_t *)job->bases[me] + job->layout.heap,
		.fd = -1,
		.near = UINT64_MAX,
		.key = key,
		.boot = job->seed,
		.extensions = extensions,
	};

	roami_real_init(real, NODES, 1, 20, job->seed % 2 == 0 ? job->seed : 0);
	real->on_fail = on_fail;
	must(roami_node_open(&job->nodes[me], &params) == ROAM_OK, "a node does not open");
}

static void job_open(struct job *job, const struct roam_protocol *protocol)
{
	static const uint8_t key[ROAMI_CHANNEL_KEY] = "a key of thirty-two bytes, known";
	char path[64], at[64], why[256];

	roami_options_default(&job->options);
	job->options.ps_memory = (size_t)16 << 20;
	roami_layout_make(&job->layout, HEAP, NODES);
	for (unsigned i = 0; i < NODES; i++) {
		job->bases[i] = roami_os_reserve(job->layout.total);
		must(job->bases[i] != NULL, "no memory");
	}
	for (unsigned i = 0; i < NODES; i++)
		job_node(job, protocol, i);
	for (unsigned i = 0; i < NODES; i++)
		must(roami_service_start(job->nodes[i]) == ROAM_OK, "no thread");
	snprintf(path, sizeof(path), "/tmp/roam-hosted-%d", (int)getpid());
	must(roami_past_serve(roami_past_of(job->nodes[NODES - 1]), path, key, at, sizeof(at), why,
			      sizeof(why)) == ROAM_OK,
	     why);
	for (unsigned i = 0; i < LINKS; i++)
		must(roami_attach_open(&job->all, at, key, &job->servers[i], why, sizeof(why)) ==
			     ROAM_OK,
		     why);
}

/* As the nodes of a job do: none leaves before all have stopped serving. */
static void job_close(struct job *job)
{
	for (unsigned i = 0; i < NODES; i++)
		roami_node_stop(job->nodes[i]);
	for (unsigned i = 0; i < LINKS; i++)
		roami_attach_close(&job->all, job->servers[i]);
	for (unsigned i = 0; i < NODES; i++)
		roami_service_stop(job->nodes[i]);
	for (unsigned i = 0; i < NODES; i++)
		roami_node_close(job->nodes[i]);
	for (unsigned i = 0; i < NODES; i++)
		roami_os_unmap(job->bases[i], job->layout.total);
}

/* --------------------------------------------------------------------------------------- rounds */

static struct roam_ps_element *worker_enter(const struct worker *worker)
{
	struct job *job = worker->job;
	struct roam_ps_element *element = NULL;
	char name[32], why[512] = "";
	enum roam_err err;

	snprintf(name, sizeof(name), "round %u", job->round);
	if (worker->number < ATTACHED)
		err = roami_past_enter_at(job->servers[worker->number % LINKS], name, "u64", NULL,
					  &element, why, sizeof(why));
	else
		err = roami_past_enter(job->nodes[worker->number - ATTACHED], name, "u64", NULL, 0,
				       &element, why, sizeof(why));
	must(err == ROAM_OK, why);
	return element;
}

static void worker_do(struct worker *worker, struct roam_ps_element *element,
		      struct roam_ps_request *request, uint64_t value)
{
	struct job *job = worker->job;
	struct history_event *event, *second = NULL;
	uint64_t got = 0;
	enum roam_err err;

	pthread_mutex_lock(&job->lock);
	if (request->op == ROAM_PS_MOB)
		event = history_begin_mob(&job->history, &job->history, ++job->clock,
					  worker->number, request, &second);
	else
		event = history_begin(&job->history, ++job->clock, worker->number, request);
	pthread_mutex_unlock(&job->lock);
	request->tuple = &value;
	request->bytes = sizeof(value);
	request->buffer = &got;
	request->limit = sizeof(got);
	request->cancel = &job->cancels[worker->number];
	err = element->call(element, request);
	must(err == ROAM_OK || err == ROAM_ETIMEDOUT || err == ROAM_ECANCELED ||
		     err == ROAM_EGONE || err == ROAM_ELOST,
	     roam_strerror(err));
	must(err != ROAM_ECANCELED ||
		     __atomic_load_n(&request->cancel->cancelled, __ATOMIC_SEQ_CST) != 0,
	     "it was not cancelled");
	pthread_mutex_lock(&job->lock);
	history_end(event, second, ++job->clock, request, err, value, got);
	pthread_mutex_unlock(&job->lock);
}

static void worker_cancel(struct job *job, unsigned number)
{
	__atomic_store_n(&job->cancels[number].cancelled, 1, __ATOMIC_SEQ_CST);
	roami_attach_look(&job->all);
	if (number >= ATTACHED)
		roami_changed(job->nodes[number - ATTACHED], number - ATTACHED);
}

static void *worker_main(void *arg)
{
	struct worker *worker = arg;
	struct job *job = worker->job;
	struct rng rng = {job->seed * 1000 + job->round * THREADS + worker->number};
	struct roam_ps_element *element = worker_enter(worker);

	for (unsigned i = 0; i < EACH; i++) {
		struct roam_ps_request request;

		history_draw(&rng, &request);
		request.timeout_ns = rng_one_in(&rng, 3) ? ROAM_PS_TRY
							 : 1 + rng_below(&rng, 3000000);
		worker_do(worker, element, &request, (uint64_t)(worker->number + 1) << 32 | i);
		if (rng_one_in(&rng, 8))
			worker_cancel(job, (unsigned)rng_below(&rng, THREADS));
		__atomic_store_n(&job->cancels[worker->number].cancelled, 0, __ATOMIC_SEQ_CST);
	}
	if (worker->number == 0)
		job->elsewhere += element->owner != NODES - 1;
	element->route->leave(element);
	return NULL;
}

/* Breaks connections now and then, as long as the round lasts. */
static void *cutter_main(void *arg)
{
	struct job *job = arg;
	struct rng rng = {job->seed * 77 + job->round};

	while (!job->ended) {
		struct roam_ps_server *server = job->servers[rng_below(&rng, LINKS)];

		usleep((useconds_t)rng_below(&rng, 3000));
		pthread_mutex_lock(&server->sending); /* the connection stays the same meanwhile */
		shutdown(server->line.fd, SHUT_RDWR);
		pthread_mutex_unlock(&server->sending);
		job->cuts++;
	}
	return NULL;
}

static bool job_round(struct job *job)
{
	struct worker workers[THREADS];
	uint64_t began = roami_os_now_ns();
	pthread_t cutter;

	memset(&job->history, 0, sizeof(job->history));
	job->history.delta = UINT64_MAX;
	job->ended = false;
	must(pthread_create(&cutter, NULL, cutter_main, job) == 0, "no thread");
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.job = job, .number = i};
		must(pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) == 0,
		     "no thread");
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	job->ended = true;
	pthread_join(cutter, NULL);
	if (roami_os_now_ns() - began > 900000000) /* some operations may not have been tried */
		history_doubt_waits(&job->history);
	history_trim(&job->history);
	return job->history.unsure > HISTORY_UNSURE_MAX || history_explained(&job->history);
}

/* ----------------------------------------------------------------------------------------- sums */

static struct roam_ps_element *adder_enter(const struct worker *adder)
{
	struct job *job = adder->job;
	struct roam_ps_options options = {.place = ROAM_PS_NODE,
					  .node = job->round % NODES,
					  .function = "sum",
					  .participants = 2};
	struct roam_ps_element *element = NULL;
	char name[32], why[512] = "";
	enum roam_err err;

	snprintf(name, sizeof(name), "sum %u", job->round);
	if (adder->number == ADDERS - 1)
		err = roami_past_enter_at(job->servers[0], name, "u64", &options, &element, why,
					  sizeof(why));
	else
		err = roami_past_enter(job->nodes[adder->number], name, "u64", &options, 0,
				       &element, why, sizeof(why));
	must(err == ROAM_OK, why);
	return element;
}

static void adder_add(struct job *job, struct roam_ps_element *element, struct rng *rng)
{
	for (uint64_t i = 1; i <= SUMS; i++) {
		uint64_t value = i * i, seen;
		struct roam_ps_request request = {.op = ROAM_PS_MOB,
						  .tuple = &value,
						  .bytes = sizeof(value),
						  .buffer = &value,
						  .limit = sizeof(value)};

		must(element->call(element, &request) == ROAM_OK, "a sum");
		must(request.observed == i && value == 2 * i * i, "a wrong sum");
		seen = atomic_load(&job->seen);
		while (seen < i && !atomic_compare_exchange_weak(&job->seen, &seen, i))
			;
		if (rng_one_in(rng, 8))
			usleep((useconds_t)rng_below(rng, 200));
	}
	atomic_fetch_add(&job->added, 1);
}

static void adder_look(struct job *job, struct roam_ps_element *element, struct rng *rng)
{
	while (atomic_load(&job->added) < 2) {
		struct roam_ps_request request = {.op = ROAM_PS_STATE};
		uint64_t seen = atomic_load(&job->seen);

		must(element->call(element, &request) == ROAM_OK, "a state");
		must(request.state.last >= seen && request.state.last <= SUMS, "an old state");
		usleep((useconds_t)rng_below(rng, 300));
	}
}

static void *adder_main(void *arg)
{
	struct worker *adder = arg;
	struct job *job = adder->job;
	struct rng rng = {job->seed * 555 + job->round * ADDERS + adder->number};
	struct roam_ps_element *element = adder_enter(adder);

	if (adder->number < 2)
		adder_add(job, element, &rng);
	else
		adder_look(job, element, &rng);
	element->route->leave(element);
	return NULL;
}

static void job_sums(struct job *job)
{
	struct worker adders[ADDERS];

	job->seen = 0;
	job->added = 0;
	for (unsigned i = 0; i < ADDERS; i++) {
		adders[i] = (struct worker){.job = job, .number = i};
		must(pthread_create(&adders[i].thread, NULL, adder_main, &adders[i]) == 0,
		     "no thread");
	}
	for (unsigned i = 0; i < ADDERS; i++)
		pthread_join(adders[i].thread, NULL);
}

static bool hosted_one(const struct seed_options *options, const struct roam_protocol *protocol,
		       uint64_t seed, void *arg)
{
	struct job *job = calloc(1, sizeof(*job));
	struct totals *totals = arg;
	bool good = true;

	(void)options;
	must(job != NULL, "no memory");
	alarm(SECONDS_MAX);
	job->seed = seed;
	pthread_mutex_init(&job->lock, NULL);
	pthread_mutex_init(&job->all.lock, NULL);
	job_open(job, protocol);
	for (job->round = 0; good && job->round < ROUNDS; job->round++) {
		good = job_round(job);
		job_sums(job);
	}
	if (!good) {
		history_print(&job->history);
		printf("FAILED seed %lu: what was seen cannot be explained\n  %s\n",
		       (unsigned long)seed, seed_replay());
	}
	job_close(job);
	totals->cuts += job->cuts;
	totals->elsewhere += job->elsewhere;
	free(job);
	alarm(0);
	return good;
}

/* Fails if a case that the test is for never happened. */
static bool hosted_done(const struct roam_protocol *protocol, uint64_t seeds, uint64_t failed,
			void *arg)
{
	const struct totals *totals = arg;
	bool enough = seeds < 10 || (totals->cuts > seeds && totals->elsewhere > seeds);

	(void)protocol;
	printf("%lu seeds, %lu failed; %lu cuts, %lu elements at other nodes\n",
	       (unsigned long)seeds, (unsigned long)failed, (unsigned long)totals->cuts,
	       (unsigned long)totals->elsewhere);
	if (!enough)
		printf("FAILED: too little was cut or sent on\n");
	return failed == 0 && enough;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};
	struct totals totals = {0};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, hosted_one, hosted_done, &totals);
}
