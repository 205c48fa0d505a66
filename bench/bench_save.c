/*
 * roam bench save: checkpoints of a heap that two nodes have written, half of it each, and loading
 * them, beside one plain file of as many bytes in the same directory: written until it is on the
 * disk, when it takes the place of the last one; and read.  What is read was dropped from the page
 * cache before.  The directory is made in TMPDIR, or /var/tmp.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "roam/roam.h"
#include "roam/save.h"

#define AT_ONCE    ((size_t)1 << 20)
#define ROUNDS_MAX 5u

enum { SAVE, SAVE_PLAIN, LOAD, LOAD_PLAIN };

struct save_state {
	char place[200], plain[240], next[240], checkpoint[240];
};

/* Files on the disk are dropped from memory, so that they are read from there. */
static int path_drop(const char *path, const struct stat *is, int kind, struct FTW *at)
{
	int fd = kind == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	(void)is, (void)at;
	if (fd >= 0) {
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
	return 0;
}

static void save_prepare(struct rig_run *run)
{
	struct save_state *state = calloc(1, sizeof(*state));

	if (state == NULL)
		rig_fail(run, "no memory");
	if (!bench_place_make(state->place, sizeof(state->place), "/var/tmp"))
		rig_fail(run, "%s: %s", state->place, strerror(errno));
	snprintf(state->plain, sizeof(state->plain), "%s/plain", state->place);
	snprintf(state->next, sizeof(state->next), "%s/next", state->place);
	snprintf(state->checkpoint, sizeof(state->checkpoint), "%s/saved", state->place);
	run->state = state;
	scenario_prepare(run);
}

/* Each node becomes the home of its half. */
static void save_begin(struct rig_run *run)
{
	size_t half = run->memory_bytes / 2;

	for (size_t at = run->node * half; at < (run->node + 1) * half; at += 8)
		*(uint64_t *)(void *)(run->memory + at) = at * 0x9e3779b97f4a7c15u;
	roam_barrier_all();
}

/* Writes as many bytes as the heap has, or reads them. */
static void plain_move(struct rig_run *run, unsigned channel)
{
	const struct save_state *state = run->state;
	bool writes = channel == SAVE_PLAIN;
	int fd = writes ? open(state->next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
			: open(state->plain, O_RDONLY | O_CLOEXEC);
	uint8_t *bytes = malloc(AT_ONCE);
	bool good = fd >= 0 && bytes != NULL;
	uint64_t start;

	if (good)
		memset(bytes, (int)run->round, AT_ONCE);
	start = floor_begin();
	for (size_t at = 0; good && at < run->memory_bytes; at += AT_ONCE)
		good = (writes ? write(fd, bytes, AT_ONCE) : read(fd, bytes, AT_ONCE)) ==
		       (ssize_t)AT_ONCE;
	if (good && writes)
		good = fsync(fd) == 0 && rename(state->next, state->plain) == 0;
	rig_note(run, channel, floor_end() - start, 1);
	if (!good)
		rig_fail(run, "%s: %s", state->plain, strerror(errno));
	close(fd);
	free(bytes);
}

static void saved_move(struct rig_run *run, unsigned channel)
{
	const struct save_state *state = run->state;
	uint64_t start;
	enum roam_err err;

	roam_barrier_all();
	start = floor_begin();
	err = channel == SAVE ? roam_save(state->checkpoint) : roam_load(state->checkpoint);
	if (run->node == 0)
		rig_note(run, channel, floor_end() - start, 1);
	if (err != ROAM_OK)
		rig_fail(run, "%s", roam_strerror(err));
}

static void save_round(struct rig_run *run)
{
	const struct save_state *state = run->state;

	if (run->node == 0)
		plain_move(run, SAVE_PLAIN);
	saved_move(run, SAVE);
	if (run->node == 0) {
		nftw(state->place, path_drop, 8, FTW_PHYS);
		plain_move(run, LOAD_PLAIN);
	}
	saved_move(run, LOAD);
	if (run->node == 0 && run->round == run->rounds)
		bench_place_remove(state->place);
}

#define SCENARIO(identifier, mib)                         \
	static const struct rig_scenario identifier = {   \
		.name = #identifier,                      \
		.nodes = 2,                               \
		.roam = true,                             \
		.bytes = (size_t)(mib) << 20,             \
		.prepare = save_prepare,                  \
		.begin = save_begin,                      \
		.round = save_round,                      \
	}

SCENARIO(save_256m, 256);
SCENARIO(save_1g, 1024);

static const struct rig_scenario *const scenarios[] = {&save_256m, &save_1g, NULL};

#define ROW(title, number, what, plain, text)                                        \
	{                                                                            \
		.name = title, .rig = number, .channel = what,                       \
		.term = {{number, plain, 1}}, .floor = text, .rule = PLAN_LIMIT,     \
		.ratio = 1.3, .goal = "<= 1.3 x floor", .transport = "shm",          \
	}

static const struct plan_row rows[] = {
	ROW("save_256m", 0, SAVE, SAVE_PLAIN, "a file is written to the disk in place of another"),
	ROW("save_1g", 1, SAVE, SAVE_PLAIN, "a file is written to the disk in place of another"),
	ROW("load_256m", 0, LOAD, LOAD_PLAIN, "a file is read from the disk"),
	ROW("load_1g", 1, LOAD, LOAD_PLAIN, "a file is read from the disk"),
};

/* A few rounds, each of which takes seconds. */
void bench_save(struct bench *bench)
{
	const struct plan plan = {scenarios, rows, sizeof(rows) / sizeof(rows[0])};
	unsigned rounds = bench->rounds;

	bench->rounds = rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX;
	plan_run(bench, &plan, bench->engines[0]);
	bench->rounds = rounds;
}
