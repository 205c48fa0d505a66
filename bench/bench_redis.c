/*
 * Redis for comparison with PastSet: a server started here on a Unix socket, which saves nothing,
 * and hiredis as its client.  A tuple is moved by RPUSH and taken by BLPOP.
 */
#include "bench.h"

#ifdef BENCH_HIREDIS

#include <hiredis/hiredis.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define START_MS 5000

struct redis_state {
	char folder[32], socket[64];
	redisContext *server;
	uint8_t tuple[BENCH_TUPLE_MAX];
};

static const char *redis_missing(void)
{
	return bench_program_there("redis-server") ? NULL
						   : "redis-server (apt-get install redis-server)";
}

/* Sends a command and reads its reply; an error ends the rig. */
static void redis_do(struct rig_run *run, const char *verb, const char *list, const void *value,
		     size_t bytes)
{
	struct redis_state *state = run->state;
	const char *words[] = {verb, list, value};
	size_t lengths[] = {strlen(verb), strlen(list), bytes};
	redisReply *reply = redisCommandArgv(state->server, value != NULL ? 3 : 2, words, lengths);

	if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
		rig_fail(run, "redis: %s", reply != NULL ? reply->str : state->server->errstr);
	freeReplyObject(reply);
}

/* The server dies with the rig's first process, and with its process group. */
__attribute__((noreturn)) static void redis_exec(const struct rig_run *run,
						 const struct redis_state *state)
{
	int null = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	floor_pin(run->cpu[run->scenario->argument]);
	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", state->socket,
	       "--save", "", "--appendonly", "no", "--dir", state->folder, (char *)NULL);
	_exit(127);
}

/* The scenario's argument is the server's CPU. */
static void redis_prepare(struct rig_run *run)
{
	struct redis_state *state = run->state = calloc(1, sizeof(*state));
	pid_t pid;

	if (state == NULL)
		rig_fail(run, "no memory");
	snprintf(state->folder, sizeof(state->folder), "/tmp/roam-bench-XXXXXX");
	if (mkdtemp(state->folder) == NULL)
		rig_fail(run, "no folder for the server's socket: %s", strerror(errno));
	snprintf(state->socket, sizeof(state->socket), "%s/socket", state->folder);
	pid = fork();
	if (pid < 0)
		rig_fail(run, "fork: %s", strerror(errno));
	if (pid == 0)
		redis_exec(run, state);
	for (unsigned ms = 0; ms < START_MS && access(state->socket, W_OK) != 0; ms++)
		usleep(1000);
}

static void redis_begin(struct rig_run *run)
{
	struct redis_state *state = run->state;

	if (run->scenario->argument == 0)
		floor_pin(run->cpu[0]);
	state->server = redisConnectUnix(state->socket);
	if (state->server == NULL || state->server->err != 0)
		rig_fail(run, "redis-server does not answer on its socket");
	redis_do(run, "PING", "pong", NULL, 0);
}

/* Removes the server's files; both clients are connected. */
static void redis_hide(const struct redis_state *state)
{
	unlink(state->socket);
	rmdir(state->folder);
}

static void redis_exchange(struct rig_run *run, unsigned size)
{
	struct redis_state *state = run->state;
	const char *to = run->node == 0 ? "back" : "forth",
		   *from = run->node == 0 ? "forth" : "back";

	for (unsigned i = 0; i < run->samples; i += BENCH_TURNS) {
		uint64_t start = floor_begin();

		for (unsigned turn = 0; turn < BENCH_TURNS; turn++) {
			redis_do(run, "RPUSH", to, state->tuple, bench_sizes[size]);
			redis_do(run, "BLPOP", from, "0", 1);
		}
		if (run->node == 1)
			rig_note(run, size, floor_end() - start, BENCH_TURNS);
	}
}

/* Channels: exchanges of the sizes, then a push of the smallest. */
static void redis_round(struct rig_run *run)
{
	struct redis_state *state = run->state;

	if (run->node == 0 && run->round == 1)
		redis_hide(state);
	for (unsigned size = 0; size < BENCH_SIZES; size++)
		redis_exchange(run, size);
	for (unsigned i = 0; run->node == 1 && i < run->samples; i++) {
		uint64_t start = floor_begin();

		redis_do(run, "RPUSH", "list", state->tuple, 1);
		rig_note(run, BENCH_SIZES, floor_end() - start, 1);
	}
	if (run->node == 1)
		redis_do(run, "DEL", "list", NULL, 0);
}

#else

static const char *redis_missing(void)
{
	return "hiredis when roam was built (apt-get install libhiredis-dev)";
}

#define redis_prepare NULL
#define redis_begin   NULL
#define redis_round   NULL

#endif

#define SCENARIO(identifier, title, cpu)         \
	const struct rig_scenario identifier = { \
		.name = title,                   \
		.nodes = 2,                      \
		.argument = (cpu),               \
		.missing = redis_missing,        \
		.prepare = redis_prepare,        \
		.begin = redis_begin,            \
		.round = redis_round,            \
	}

SCENARIO(bench_redis, "redis", 1);
SCENARIO(bench_redis_one, "redis_one_cpu", 0);
