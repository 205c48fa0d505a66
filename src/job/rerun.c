/*
 * A program that creates its nodes, whose processes a launcher has started: instead of being
 * forked, each executes main up to CREATE.  Until then it is alone, in the place of node 0.  At
 * CREATE all must have come alike; node 0's heap is the job's, the others drop theirs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/job.h"
#include "msg/msg.h"
#include "os/os.h"

struct roami_rerun_copy {
	uint8_t *variable;
	uint8_t *block;
	size_t bytes;
};

/* Opens where a silenced node's output goes: nowhere, or while undecided into memory. */
static int rerun_sink(struct roami_job *job, unsigned i)
{
	if (!roami_job_undecided(job))
		return roami_os_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	job->kept[i] = roami_os_fd((int)memfd_create("roam-output", MFD_CLOEXEC));
	return job->kept[i];
}

/* Silences nodes above 0 until CREATE; while undecided, their output is kept for later. */
static enum roam_err rerun_silence(struct roami_job *job)
{
	if (job->boot.me == 0)
		return ROAM_OK;
	fflush(NULL);
	for (unsigned i = 0; i < 2; i++) {
		int real = STDOUT_FILENO + (int)i, sink;

		job->outputs[i] = fcntl(real, F_DUPFD_CLOEXEC, 3);
		if (job->outputs[i] < 0 && errno == EBADF)
			continue; /* closed by the program: silent anyway */
		sink = rerun_sink(job, i);
		if (sink < 0 || job->outputs[i] < 0 || dup2(sink, real) < 0) {
			fprintf(stderr, "roam: node %u cannot redirect its output: %s\n",
				job->boot.me, strerror(errno));
			return ROAM_ESYSTEM;
		}
		if (!roami_job_undecided(job))
			close(sink);
	}
	job->silent = true;
	return ROAM_OK;
}

static void rerun_say(int to, int kept)
{
	char chunk[4096];
	ssize_t got;

	for (off_t at = 0; (got = pread(kept, chunk, sizeof(chunk), at)) > 0; at += got)
		for (ssize_t done = 0, put; done < got; done += put) {
			put = write(to, chunk + done, (size_t)(got - done));
			if (put < 0 && errno != EINTR)
				return;
			put = put < 0 ? 0 : put;
		}
}

void roami_rerun_speak(struct roami_job *job, bool said)
{
	if (!job->silent)
		return;
	fflush(stdout);
	fflush(stderr);
	job->silent = false;
	for (unsigned i = 0; i < 2; i++) {
		int real = STDOUT_FILENO + (int)i;

		if (job->outputs[i] < 0)
			continue;
		dup2(job->outputs[i], real);
		close(job->outputs[i]);
		if (job->kept[i] != 0 && said)
			rerun_say(real, job->kept[i]);
		if (job->kept[i] != 0)
			close(job->kept[i]);
	}
	if (said && isatty(STDOUT_FILENO)) /* stdout was a file before, buffered by blocks */
		setvbuf(stdout, NULL, _IOLBF, 0);
}

/* Ends this node's input: nobody need keep its copy of node 0's input any more. */
static void rerun_sated(void)
{
	struct stat input;
	int null;

	if (fstat(STDIN_FILENO, &input) != 0 || !S_ISFIFO(input.st_mode))
		return; /* the program has opened another input */
	null = roami_os_fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
	if (null < 0)
		return;
	dup2(null, STDIN_FILENO);
	close(null);
}

/* Drops the segment that the process filled; another one takes its place. */
static enum roam_err rerun_drop(struct roami_job *job)
{
	enum roam_err err;

	roami_os_unmap(job->app, job->layout.heap_bytes);
	roami_os_unmap_fd(job->bases[0], job->layout.total);
	close(job->fds[0]);
	job->bases[0] = NULL;
	job->fds[0] = -1;
	err = roami_job_take_place(job);
	return err == ROAM_OK ? roami_job_map_app(job) : err;
}

/* Moves from the place of node 0 to this process's own, without the heap that it filled. */
static enum roam_err rerun_move(struct roami_job *job)
{
	enum roam_err err;

	/* The old node, number 0, is not closed: it holds little memory. */
	job->node->self = NULL;
	roami_job_close_allocs(job);
	err = rerun_drop(job);
	return err == ROAM_OK ? roami_job_open_alloc(job) : err;
}

/* Becomes a node, once all processes have come, and have allocated alike. */
static enum roam_err rerun_gather(struct roami_job *job, unsigned asked)
{
	enum roam_err err = roami_job_come(job, asked);

	if (err == ROAM_OK && job->start->compare != NULL)
		job->start->compare(job);
	return err == ROAM_OK ? roami_job_join(job, job->boot.nodes, asked) : err;
}

/* Makes this process one of `nodes`; from then on node 0's heap is the job's. */
static enum roam_err rerun_join(struct roami_job *job, unsigned nodes)
{
	uint64_t high = (job->high + ROAMI_PAGE - 1) & ~(uint64_t)(ROAMI_PAGE - 1);
	enum roam_err err = roami_single_end(job);

	job->alloc_hash = roami_job_hash_allocs(job);
	roami_rerun_copy(job, true);
	if (err == ROAM_OK)
		err = roami_stored_together(job);
	if (job->boot.me == 0)
		roami_job_seal_allocs(job);
	else if (err == ROAM_OK)
		err = rerun_move(job);
	if (err == ROAM_OK)
		err = roami_job_map_lent(job);
	if (err == ROAM_OK)
		err = roami_job_lease(job);
	while (job->me == 0 && roami_msg_poll(job->node) > 0)
		; /* messages that this node sent itself while alone */
	job->nodes = job->boot.nodes;
	atomic_store(&roami_job_ctl(job, 0)->creator_end, high);
	if (job->me == 0) {
		roami_os_discard((uint8_t *)job->bases[0] + job->layout.rings,
				 job->layout.headers - job->layout.rings);
		roami_job_mark_bytes(job);
	}
	roami_job_collect_blocks(job);
	roami_team_waits(job, roami_job_here(job));
	if (err == ROAM_OK)
		err = rerun_gather(job, nodes);
	if (err == ROAM_OK && job->me != 0)
		roami_job_seal_allocs(job);
	if (err == ROAM_OK)
		roami_rerun_copy(job, false);
	return err;
}

void roami_rerun_end(struct roami_job *job)
{
	bool finished; /* the function has called roam_finish */

	roami_assert(job->me != 0);
	pthread_mutex_lock(&job->ends); /* held for ever: no other thread may end the node */
	finished = job->life == ROAMI_JOB_OVER;
	if (!finished)
		roami_job_serve(job);
	if (!finished && job->start->leave != NULL)
		job->start->leave(job);
	job->life = ROAMI_JOB_OVER;
	fflush(NULL);
	_exit(0);
}

static void rerun_team(struct roami_job *job, void (*fn)(void))
{
	if (roami_team_start(job, fn) != ROAM_OK)
		_exit(ROAMI_EXIT_REPORTED);
}

/* Ends a launched node above 0 whose function is over, or that runs none. */
__attribute__((noreturn)) static void rerun_over(struct roami_job *job)
{
	roami_team_join(job);
	roami_statics_note(job);
	roami_rerun_end(job);
}

/*
 * CREATE, or the first synchronisation after it, has made `nodes` nodes: each above 0 runs fn, if
 * it is its turn, serves, and ends here.
 */
static enum roam_err rerun_all(struct roami_job *job, unsigned nodes, void (*fn)(void))
{
	enum roam_err err;

	roami_statics_begin(job);
	if (job->boot.me != 0) {
		roami_rerun_speak(job, false); /* only node 0 prints what was printed so far */
		rerun_sated();
	}
	err = rerun_join(job, nodes);
	if (err != ROAM_OK || job->me == 0)
		return err;
	roami_stats_begin(job->node->stats);
	if (fn == NULL)
		rerun_over(job);
	rerun_team(job, fn);
	roami_team_call(job, roami_team_function(job, 0, fn), rerun_over);
	_exit(0); /* it does not come back */
}

/* Whether nodes may be created; if not, says why. */
static enum roam_err rerun_may(const struct roami_job *job)
{
	if (job->life != ROAMI_JOB_ALONE)
		return roami_job_says_sealed();
	if (job->rounds == 0)
		return ROAM_OK;
	fprintf(stderr, "roam: nodes cannot be created again: the launcher's have ended\n");
	return ROAM_ESTATE;
}

static enum roam_err rerun_create(struct roami_job *job, void (*fn)(void))
{
	enum roam_err err = rerun_may(job);

	if (err != ROAM_OK)
		return err;
	err = roami_team_note(job, fn);
	if (err != ROAM_OK)
		return err;
	job->created++;
	/*
	 * True for the last process of this node.  Only node 0 knows how many processes there are.
	 */
	if (job->boot.me != 0 && job->created == (job->boot.me + 1) * roami_team_threads(job))
		return rerun_all(job, ROAMI_ASKED_UNKNOWN, fn);
	return ROAM_OK;
}

static enum roam_err rerun_create_all(struct roami_job *job, void (*fn)(void), unsigned processes)
{
	unsigned nodes;
	enum roam_err err = rerun_may(job);

	if (err == ROAM_OK)
		err = roami_team_nodes(job, processes, &nodes);
	if (err != ROAM_OK)
		return err;
	err = rerun_all(job, nodes, fn);
	if (err == ROAM_OK) {
		rerun_team(job, fn);
		roami_team_call(job, fn, NULL);
	}
	roami_statics_note(job);
	return err;
}

/* Node 0 is the last to know how many processes there are. */
static enum roam_err rerun_sealed(struct roami_job *job)
{
	unsigned nodes;
	enum roam_err err;

	if (roami_team_nodes(job, job->created, &nodes) != ROAM_OK) {
		fflush(NULL);
		_exit(ROAMI_EXIT_REPORTED);
	}
	if (roami_team_threads(job) > 1)
		roami_statics_sealed(job);
	err = rerun_all(job, nodes, NULL);
	return err == ROAM_OK ? roami_team_start(job, NULL) : err;
}

/* Seals the job, if the program created processes; before its first CREATE it is really alone. */
static enum roam_err rerun_seal(struct roami_job *job)
{
	return job->life == ROAMI_JOB_ALONE && job->rounds == 0 && job->created > 1
		       ? rerun_sealed(job)
		       : ROAM_OK;
}

/* Without a CREATE the program asks for one node: the launcher says so, and ends the job. */
static void rerun_check(struct roami_job *job)
{
	if (job->life == ROAMI_JOB_ALONE && job->rounds == 0)
		rerun_all(job, job->created, NULL);
}

static enum roam_err rerun_start(struct roami_job *job)
{
	enum roam_err err = roami_job_start_alone(job);

	if (err == ROAM_OK)
		err = rerun_silence(job);
	return err == ROAM_OK ? roami_stored_begin(job) : err;
}

/*
 * The other nodes never come back.  Some may still look whether the job is ending, so that word
 * stays.
 */
static void rerun_ended(struct roami_job *job)
{
	atomic_store(&roami_job_ctl(job, 0)->joined, ROAMI_JOINED_LEFT);
}

/* By messages, while the others serve. */
static void rerun_served(struct roami_job *job)
{
	roami_job_fetch_marks(job);
	roami_collect_take(job);
}

const struct roami_main roami_main_repeats = {
	.start = rerun_start,
	.create = rerun_create,
	.create_all = rerun_create_all,
	.seal = rerun_seal,
	.check = rerun_check,
	.served = rerun_served,
	.ended = rerun_ended,
};

/* ----------------------------------------------------------------------------------- undecided */

static enum roam_err undecided_create(struct roami_job *job, void (*fn)(void))
{
	job->main = &roami_main_repeats;
	return rerun_create(job, fn);
}

static enum roam_err undecided_create_all(struct roami_job *job, void (*fn)(void), unsigned nodes)
{
	job->main = &roami_main_repeats;
	return rerun_create_all(job, fn, nodes);
}

/* It needs no functions for the seal and the end, which come only after the program is decided. */
const struct roami_main roami_main_undecided = {
	.start = rerun_start,
	.create = undecided_create,
	.create_all = undecided_create_all,
};

/* -------------------------------------------------------------------- main goes on everywhere */

/* Gives the process new memory of its own, as it had when it was launched. */
static enum roam_err rerun_start_anew(struct roami_job *job)
{
	enum roam_err err;

	roami_os_unmap(job->app, job->layout.heap_bytes);
	job->node->self = NULL; /* it is not closed, as in rerun_move */
	job->bases[0] = NULL;
	job->fds[0] = -1;
	err = roami_job_take_place(job);
	return err == ROAM_OK ? roami_job_map_app(job) : err;
}

/* The creator's heap keeps its bytes; the other nodes store theirs once more. */
static enum roam_err rerun_keep(struct roami_job *job)
{
	struct roami_ctl *ctl = job->bases[0];
	enum roam_err err = roami_stored_together(job);

	while (roami_msg_poll(job->node) > 0)
		; /* messages that this node sent itself while alone */
	roami_os_discard((uint8_t *)ctl + job->layout.rings,
			 job->layout.headers - job->layout.rings);
	roami_job_mark_bytes(job);
	return err;
}

static const uint8_t rerun_zero[ROAMI_PAGE];

/*
 * Stores into the job's heap what this process stored into its own while it seemed to be alone;
 * other bytes of its own are as they `were`.  Where all processes stored the same, nothing changes.
 */
static void rerun_store(uint8_t *to, const uint8_t *from, const uint8_t *were)
{
	for (size_t i = 0; i < ROAMI_PAGE; i++)
		if (from[i] != were[i] && to[i] != from[i])
			to[i] = from[i];
}

/*
 * Whether node 0's bytes hold here: statics of ROAM_SHARED have the values that node 0 gave them.
 */
static bool rerun_creators(const struct roami_job *job, uint64_t offset)
{
	uint32_t page = (uint32_t)(offset / ROAMI_PAGE);

	return roami_shared_in(job, page, page + 1);
}

/*
 * This process's own segment, and which of its pages have bytes; what it has stored to the heap, if
 * that is not in it.
 */
struct rerun_past {
	uint8_t *base;
	int fd;
	struct roami_stored_aside aside;
};

/* The bytes of [at, end) of a segment, page by page; `heap`: of the heap, but for the creator's. */
static void rerun_store_range(const struct roami_job *job, struct rerun_past past, uint64_t at,
			      uint64_t end, uint8_t *to, bool heap)
{
	uint64_t begin = at, data;

	while (roami_os_data(past.fd, &at, end, &data))
		for (data -= data % ROAMI_PAGE; data < at; data += ROAMI_PAGE)
			if (!heap || !rerun_creators(job, data - begin))
				rerun_store(to + (data - begin), past.base + data, rerun_zero);
}

/* With a page server the segment has what was loaded. */
static void rerun_store_aside(const struct roami_job *job, struct rerun_past past)
{
	const uint32_t *pages = (const void *)past.aside.pages.items;

	for (size_t i = 0; i < past.aside.pages.count; i++) {
		size_t at = (size_t)pages[i] * ROAMI_PAGE;

		rerun_store(job->app + at, past.aside.app + at, past.base + job->layout.heap + at);
	}
	roami_stored_aside_end(job, &past.aside);
}

/* What the program stored, and where its blocks are. */
static void rerun_store_all(const struct roami_job *job, struct rerun_past past)
{
	const struct roami_layout *layout = &job->layout;

	if (past.aside.app != NULL)
		rerun_store_aside(job, past);
	else
		rerun_store_range(job, past, layout->heap, layout->heap + layout->heap_bytes,
				  job->app, true);
	rerun_store_range(job, past, layout->blocks, layout->rings,
			  (uint8_t *)job->bases[job->me] + layout->blocks, false);
}

enum roam_err roami_rerun_spmd(struct roami_job *job)
{
	struct rerun_past past = {.base = job->bases[0], .fd = job->fds[0]};
	enum roam_err err = ROAM_OK;

	roami_assert(roami_job_undecided(job) && job->life == ROAMI_JOB_ALONE);
	roami_rerun_speak(job, true);
	if (job->boot.me != 0 && job->start->input_first)
		rerun_sated();
	if (job->boot.me == 0)
		err = rerun_keep(job);
	else
		err = roami_stored_aside(job, &past.aside);
	if (err == ROAM_OK && job->boot.me != 0)
		err = rerun_start_anew(job);
	if (err == ROAM_OK)
		err = roami_job_map_lent(job);
	if (err != ROAM_OK)
		return err;
	job->nodes = job->boot.nodes;
	/* This node may ask before others have allocated as much: any page may be node 0's. */
	atomic_store(&roami_job_ctl(job, 0)->creator_end, job->layout.heap_bytes);
	roami_job_collect_blocks(job);
	roami_team_waits(job, roami_job_here(job));
	err = rerun_gather(job, 0);
	if (err != ROAM_OK)
		return err;
	job->life = ROAMI_JOB_JOINED;
	job->main = &roami_main_everywhere;
	roami_stats_begin(job->node->stats);
	if (job->me == 0)
		return ROAM_OK;
	rerun_store_all(job, past);
	roami_os_unmap_fd(past.base, job->layout.total);
	close(past.fd);
	return ROAM_OK;
}

/* ------------------------------------------------------------------------------- distribution */

enum roam_err roami_rerun_distribute(struct roami_job *job, void *variable, size_t bytes)
{
	static const struct roam_region anywhere = {.place = ROAM_PLACE_FIRST_TOUCH};
	struct roami_rerun_copy *copy;
	enum roam_err err;

	if (job->life == ROAMI_JOB_TOGETHER || job->life == ROAMI_JOB_OVER || job->rounds > 0)
		return ROAM_ESTATE;
	if (job->boot.nodes == 0)
		return ROAM_OK;
	copy = roami_os_vec_grow(&job->copies, sizeof(*copy), 1);
	if (copy == NULL)
		return ROAM_ENOMEM;
	copy->block = roami_job_alloc(job, bytes, &anywhere, &err);
	if (copy->block == NULL)
		return err;
	copy->variable = variable;
	copy->bytes = bytes;
	job->copies.count++;
	return ROAM_OK;
}

void roami_rerun_copy(struct roami_job *job, bool to_heap)
{
	const struct roami_rerun_copy *copies = (void *)job->copies.items;

	for (size_t i = 0; i < job->copies.count; i++)
		if (to_heap && job->boot.me == 0)
			memcpy(copies[i].block, copies[i].variable, copies[i].bytes);
		else if (!to_heap && job->boot.me != 0)
			memcpy(copies[i].variable, copies[i].block, copies[i].bytes);
}
