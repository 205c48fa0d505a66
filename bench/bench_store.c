/*
 * roam bench store: the page server, beside plain files in the same directory, which is made in
 * TMPDIR, or /var/tmp.  The server is a process of its own on a Unix socket, as by
 * `roam pages serve`; its clients are one process, so that two processors are enough.
 *
 * Commits are of one page.  The floor writes as many bytes as a commit has in the log to the end of
 * a file, and syncs that, each time.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "link/address.h"
#include "os/os.h"
#include "roam/roam.h"
#include "roam/tx.h"
#include "store/client.h"
#include "store/server.h"
#include "store/writer.h"

#define UNDER_WAY  32u
#define TURNS      20u /* of so many commits each, in a sample */
#define PAGES      64u /* that they change */
#define BYTES      ((size_t)PAGES * ROAMI_STORE_PAGE)
#define FEWER      16u /* samples of a round */
#define TX_SAMPLES 128u
#define ROUNDS_MAX 5u
#define LOG_PAGES  16384u /* of a store that is recovered; each is committed twice */
#define LOG_AHEAD  256u
#define AT_ONCE    ((size_t)1 << 20)
#define WAIT_NS    UINT64_C(10000000000)
#define ENTRY      (sizeof(struct roami_store_entry) + ROAMI_STORE_PAGE)
#define RECORD     (sizeof(struct roami_record) + ENTRY)

enum { COMMIT_PLAIN, COMMIT_ALONE, COMMIT_GROUP, COMMIT_EACH, COMMIT_LOG };
enum { READ_PLAIN, READ_RECOVER, READ_PLAIN_AGAIN, READ_RECOVER_AGAIN };

/* A connection; one that commits does so by numbers 1, 2, ... */
struct store_link {
	struct roami_store_client *client;
	uint64_t sent, received; /* numbers */
	uint64_t serial;         /* of the last receipt */
	uint64_t durable;        /* serial number */
};

struct store_state {
	char place[200], pages[240], socket[240], key_file[240], plain[240];
	uint8_t key[ROAMI_CHANNEL_KEY];
	pid_t server;
	int stop; /* closed: the server ends */
	int file; /* what is written without it */
	uint64_t heap_bytes;
	struct store_link links[UNDER_WAY];
	struct roami_disk disk; /* of a log in this process */
	struct roami_writer writer;
	uint64_t serial; /* of its last commit */
	struct roami_store_commit commit;
	uint8_t page[ROAMI_STORE_PAGE];
};

/* -------------------------------------------------------------------------------- the server */

static void server_says(const char *line)
{
	fprintf(stderr, "roam bench: %s\n", line);
}

__attribute__((noreturn)) static void server_run(struct rig_run *run, uint64_t log_bytes, int ready,
						 int stop)
{
	const struct store_state *state = run->state;
	const struct roami_store_params params = {.directory = state->pages,
						  .address = state->socket,
						  .key = state->key,
						  .log_bytes = log_bytes,
						  .snapshot_bytes = UINT64_MAX,
						  .uring = true,
						  .say = server_says};
	struct roami_store_server *server;
	char at[ROAMI_STORE_WHY], why[ROAMI_STORE_WHY] = "";

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (roami_store_open(&server, &params, at, sizeof(at), why) != ROAM_OK)
		rig_fail(run, "page server: %s", why);
	if (write(ready, "", 1) != 1 || roami_store_serve(server, stop, why) != ROAM_OK ||
	    !roami_store_close(server, why))
		rig_fail(run, "page server: %s", why);
	_exit(0);
}

static void server_start(struct rig_run *run, uint64_t log_bytes)
{
	struct store_state *state = run->state;
	int ready[2], stop[2];
	char byte;

	if (pipe2(ready, O_CLOEXEC) != 0 || pipe2(stop, O_CLOEXEC) != 0)
		rig_fail(run, "pipe: %s", strerror(errno));
	state->server = fork();
	if (state->server < 0)
		rig_fail(run, "fork: %s", strerror(errno));
	if (state->server == 0) {
		close(ready[0]);
		close(stop[1]);
		server_run(run, log_bytes, ready[1], stop[0]);
	}
	close(ready[1]);
	close(stop[0]);
	state->stop = stop[1];
	if (read(ready[0], &byte, 1) != 1)
		_exit(1); /* it has said why */
	close(ready[0]);
}

static void server_stop(struct store_state *state)
{
	close(state->stop);
	waitpid(state->server, NULL, 0);
}

static void place_make(struct rig_run *run)
{
	struct store_state *state = calloc(1, sizeof(*state));
	char why[ROAMI_STORE_WHY] = "";

	if (state == NULL)
		rig_fail(run, "no memory");
	if (!bench_place_make(state->place, sizeof(state->place), "/var/tmp"))
		rig_fail(run, "%s: %s", state->place, strerror(errno));
	snprintf(state->pages, sizeof(state->pages), "%s/pages", state->place);
	snprintf(state->socket, sizeof(state->socket), "%s/socket", state->place);
	snprintf(state->key_file, sizeof(state->key_file), "%s/key", state->place);
	snprintf(state->plain, sizeof(state->plain), "%s/plain", state->place);
	state->file = open(state->plain, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (state->file < 0)
		rig_fail(run, "%s: %s", state->plain, strerror(errno));
	if (!roami_address_key(state->key_file, true, state->key, why, sizeof(why)))
		rig_fail(run, "%s", why);
	run->state = state;
}

/* ----------------------------------------------------------------------------------- commits */

static void link_open(struct rig_run *run, struct store_link *link)
{
	const struct store_state *state = run->state;
	const struct roami_store_open open = {.job = "roam bench",
					      .heap_bytes = state->heap_bytes,
					      .page_bytes = ROAMI_STORE_PAGE};
	struct roami_store_opened opened;
	char why[ROAMI_STORE_WHY] = "";

	if (roami_store_connect(&link->client, state->socket, state->key, &open, &opened, why,
				sizeof(why)) != ROAM_OK)
		rig_fail(run, "%s", why);
}

static void link_commit(struct rig_run *run, struct store_link *link, uint32_t page)
{
	struct store_state *state = run->state;

	state->page[0]++;
	roami_store_begin(&state->commit, link->client, ++link->sent, UINT64_MAX);
	if (!roami_store_add_bytes(&state->commit, page, 0, state->page, ROAMI_STORE_PAGE) ||
	    !roami_store_end(&state->commit))
		rig_fail(run, "the page server is gone");
}

/* Takes a frame.  false: none has come until then. */
static bool link_take(struct rig_run *run, struct store_link *link, uint64_t until)
{
	struct roami_store_receipt receipt;
	struct roami_store_head head;
	const uint8_t *data;
	size_t bytes;
	enum roam_err err = roami_store_receive(link->client, until, &head, &data, &bytes);

	if (err == ROAM_ETIMEDOUT)
		return false;
	if (err != ROAM_OK || bytes != sizeof(receipt))
		rig_fail(run, "the page server is gone, or has failed");
	memcpy(&receipt, data, sizeof(receipt));
	if (head.kind == ROAMI_STORE_DURABLE) {
		link->durable = receipt.serial;
	} else if (head.kind == ROAMI_STORE_RECEIPT) {
		link->received = head.number;
		link->serial = receipt.serial;
	} else {
		rig_fail(run, "the page server answers what was not asked");
	}
	return true;
}

/* Its commits that are not known to be on the disk; only it commits now. */
static uint64_t link_under_way(const struct store_link *link)
{
	uint64_t ahead = link->serial > link->durable ? link->serial - link->durable : 0;

	return ahead + (link->sent - link->received);
}

/* So many commits by one connection, of which `most` are under way. */
static void commit_ahead(struct rig_run *run, unsigned commits, unsigned most, uint32_t pages)
{
	struct store_link *link = &((struct store_state *)run->state)->links[0];
	uint64_t until = roami_os_now_ns() + WAIT_NS;

	for (unsigned done = 0; done < commits || link_under_way(link) > 0;) {
		if (done < commits && link_under_way(link) < most)
			link_commit(run, link, done++ % pages);
		else if (!link_take(run, link, until))
			rig_fail(run, "the page server does not answer");
	}
}

/* So many turns of as many connections, each of which waits for its own commit. */
static void commit_each(struct rig_run *run, unsigned turns)
{
	struct store_state *state = run->state;
	unsigned left[UNDER_WAY], open = UNDER_WAY;
	struct pollfd polled[UNDER_WAY];

	for (unsigned i = 0; i < UNDER_WAY; i++) {
		left[i] = turns - 1;
		polled[i] = (struct pollfd){roami_store_fd(state->links[i].client), POLLIN, 0};
		link_commit(run, &state->links[i], i);
	}
	while (open > 0) {
		if (poll(polled, UNDER_WAY, (int)(WAIT_NS / 1000000)) <= 0)
			rig_fail(run, "the page server does not answer");
		for (unsigned i = 0; i < UNDER_WAY; i++) {
			struct store_link *link = &state->links[i];

			if (polled[i].revents == 0)
				continue;
			while (link_take(run, link, 0))
				continue;
			if (link->received < link->sent || link->durable < link->serial)
				continue;
			if (left[i]-- > 0) {
				link_commit(run, link, i);
			} else {
				polled[i].fd = -1;
				open--;
			}
		}
	}
}

static void plain_commit(struct rig_run *run)
{
	const struct store_state *state = run->state;
	uint8_t record[RECORD];
	uint64_t start;
	bool good;

	memset(record, (int)run->round, sizeof(record));
	start = floor_begin();
	good = write(state->file, record, sizeof(record)) == (ssize_t)sizeof(record) &&
	       fdatasync(state->file) == 0;
	rig_note(run, COMMIT_PLAIN, floor_end() - start, 1);
	if (!good)
		rig_fail(run, "%s: %s", state->plain, strerror(errno));
}

/* ---- the log and its thread, without server and clients */

static void log_start(struct rig_run *run)
{
	const struct roami_recovered none = {.store = "roam bench", .heap_bytes = BYTES};
	struct store_state *state = run->state;
	char path[240], why[ROAMI_STORE_WHY] = "";
	int directory, wake = eventfd(0, EFD_CLOEXEC);
	struct roami_log log;

	snprintf(path, sizeof(path), "%s/log", state->place);
	if (mkdir(path, 0700) != 0 || wake < 0)
		rig_fail(run, "%s: %s", path, strerror(errno));
	directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	roami_disk_open(&state->disk, true);
	if (!roami_log_open(&log, directory, &state->disk, ROAMI_LOG_BYTES, &none, why) ||
	    !roami_writer_start(&state->writer, &log, wake))
		rig_fail(run, "no log: %s", why);
}

static void log_put(struct rig_run *run)
{
	struct store_state *state = run->state;
	struct roami_store_entry entry = {ROAMI_STORE_BYTES, ROAMI_STORE_PAGE,
					  (uint32_t)(state->serial % PAGES), 0};
	struct roami_log_commit *commit = calloc(1, sizeof(*commit) + ENTRY);

	if (commit == NULL)
		rig_fail(run, "no memory");
	commit->record.serial = ++state->serial;
	commit->record.bytes = (uint32_t)ENTRY;
	memcpy(roami_log_entries(commit), &entry, sizeof(entry));
	memcpy(roami_log_entries(commit) + sizeof(entry), state->page, ROAMI_STORE_PAGE);
	roami_writer_put(&state->writer, commit);
}

/* So many commits, of which UNDER_WAY are under way. */
static void log_ahead(struct rig_run *run, unsigned commits)
{
	struct store_state *state = run->state;
	uint64_t durable = state->serial, end = state->serial + commits, freed, count;

	while (durable < end) {
		while (state->serial < end && state->serial < durable + UNDER_WAY)
			log_put(run);
		roami_writer_go(&state->writer);
		if (read(state->writer.wake, &count, sizeof(count)) != (ssize_t)sizeof(count) ||
		    !roami_writer_news(&state->writer, &durable, &freed))
			rig_fail(run, "the log cannot be written");
	}
}

static void log_end(struct rig_run *run)
{
	struct store_state *state = run->state;

	if (!roami_writer_stop(&state->writer))
		rig_fail(run, "%s", state->writer.why);
	roami_disk_close(&state->disk);
}

static void commit_prepare(struct rig_run *run)
{
	struct store_state *state;

	place_make(run);
	state = run->state;
	state->heap_bytes = BYTES;
	server_start(run, ROAMI_LOG_BYTES);
	for (unsigned i = 0; i < UNDER_WAY; i++)
		link_open(run, &state->links[i]);
	log_start(run);
}

static void commit_round(struct rig_run *run)
{
	const unsigned commits = UNDER_WAY * TURNS;
	struct store_state *state = run->state;

	for (unsigned i = 0; i < run->samples; i++) {
		uint64_t start;

		for (unsigned some = 0; some < TURNS; some++) {
			plain_commit(run);
			start = floor_begin();
			commit_ahead(run, 1, 1, PAGES);
			rig_note(run, COMMIT_ALONE, floor_end() - start, 1);
		}
		start = floor_begin();
		commit_ahead(run, commits, UNDER_WAY, PAGES);
		rig_note(run, COMMIT_GROUP, floor_end() - start, commits);
		start = floor_begin();
		commit_each(run, TURNS);
		rig_note(run, COMMIT_EACH, floor_end() - start, commits);
		start = floor_begin();
		log_ahead(run, commits);
		rig_note(run, COMMIT_LOG, floor_end() - start, commits);
	}
	if (run->round < run->rounds)
		return;
	log_end(run);
	server_stop(state);
	bench_place_remove(state->place);
}

static const struct rig_scenario store_commit = {
	.name = "store_commit",
	.nodes = 1,
	.prepare = commit_prepare,
	.round = commit_round,
};

/* ---------------------------------------------------------------------------------- recovery */

/* Makes a log in one file, and ends the server. */
static void recover_prepare(struct rig_run *run)
{
	char name[ROAMI_FILE_NAME];
	struct store_state *state;

	place_make(run);
	state = run->state;
	state->heap_bytes = (uint64_t)LOG_PAGES * ROAMI_STORE_PAGE;
	server_start(run, UINT64_MAX);
	link_open(run, &state->links[0]);
	commit_ahead(run, 2 * LOG_PAGES, LOG_AHEAD, LOG_PAGES);
	roami_store_disconnect(state->links[0].client);
	server_stop(state);
	roami_file_name(name, false, 1);
	snprintf(state->plain, sizeof(state->plain), "%s/pages/%s", state->place, name);
	close(state->file);
	state->file = open(state->plain, O_RDONLY | O_CLOEXEC);
	if (state->file < 0)
		rig_fail(run, "%s: %s", state->plain, strerror(errno));
	run->memory_bytes = (size_t)lseek(state->file, 0, SEEK_END);
}

static void recover_plain(struct rig_run *run, unsigned channel)
{
	const struct store_state *state = run->state;
	uint8_t *bytes = malloc(AT_ONCE);
	uint64_t start, at = 0;
	ssize_t got = 1;

	if (bytes == NULL)
		rig_fail(run, "no memory");
	memset(bytes, 1, AT_ONCE);
	start = floor_begin();
	while (got > 0) {
		got = pread(state->file, bytes, AT_ONCE, (off_t)at);
		at += got > 0 ? (uint64_t)got : 0;
	}
	rig_note(run, channel, floor_end() - start,
		 (double)run->memory_bytes / (double)AT_ONCE);
	if (got < 0)
		rig_fail(run, "%s: %s", state->plain, strerror(errno));
	free(bytes);
}

static void recover_store(struct rig_run *run, unsigned channel)
{
	const struct store_state *state = run->state;
	struct roami_store_state *found = calloc(1, sizeof(*found));
	char why[ROAMI_STORE_WHY] = "no memory";
	struct roami_recovered is = {.serial = 0};
	int lock, directory = roami_store_directory(state->pages, false, &lock, why);
	uint64_t start;
	bool good;

	if (directory < 0 || found == NULL)
		rig_fail(run, "%s", why);
	start = floor_begin();
	good = roami_store_recover(directory, found, &is, why) == ROAM_OK;
	rig_note(run, channel, floor_end() - start,
		 (double)run->memory_bytes / (double)AT_ONCE);
	if (!good || is.serial != 2 * LOG_PAGES || is.read != run->memory_bytes)
		rig_fail(run, "commit %llu is the last: %s", (unsigned long long)is.serial, why);
	roami_state_free(found);
	free(found);
	close(directory);
	close(lock);
}

static void recover_round(struct rig_run *run)
{
	const struct store_state *state = run->state;

	(void)posix_fadvise(state->file, 0, 0, POSIX_FADV_DONTNEED);
	recover_plain(run, READ_PLAIN);
	recover_plain(run, READ_PLAIN_AGAIN);
	(void)posix_fadvise(state->file, 0, 0, POSIX_FADV_DONTNEED);
	recover_store(run, READ_RECOVER);
	recover_store(run, READ_RECOVER_AGAIN);
	if (run->round == run->rounds)
		bench_place_remove(state->place);
}

static const struct rig_scenario store_recover = {
	.name = "store_recover",
	.nodes = 1,
	.prepare = recover_prepare,
	.round = recover_round,
};

/* ------------------------------------------------------------------------------ transactions */

#define PROTOCOL "plurix"
#define PLAIN    "ROAM_PREFETCH=0"

static void tx_prepare(struct rig_run *run)
{
	const struct store_state *state;

	place_make(run);
	state = run->state;
	if (run->scenario->argument != 0) {
		server_start(run, ROAMI_LOG_BYTES);
		setenv("ROAM_STORE", state->socket, 1);
		setenv("ROAM_STORE_KEY", state->key_file, 1);
	}
	scenario_prepare(run);
}

static void tx_write(void *arg)
{
	const struct rig_run *run = arg;

	*scenario_word(run, 0) += 1;
}

/* The last node has the only copy, and the token. */
static void tx_round(struct rig_run *run)
{
	unsigned samples = run->node == run->nodes - 1 ? run->samples * TX_SAMPLES / FEWER : 0;
	const struct store_state *state = run->state;

	for (unsigned i = 0; i < samples; i++) {
		uint64_t start = floor_begin();
		enum roam_err err = roam_tx(tx_write, run, NULL);

		rig_note(run, 0, floor_end() - start, 1);
		if (err != ROAM_OK)
			rig_fail(run, "roam_tx: %s", roam_strerror(err));
	}
	roam_barrier_all();
	if (run->node == 0 && run->round == run->rounds)
		bench_place_remove(state->place);
}

#define TX(identifier, with, settings)                  \
	static const struct rig_scenario identifier = { \
		.name = #identifier,                    \
		.protocol = PROTOCOL,                   \
		.nodes = 2,                             \
		.roam = true,                           \
		.env = settings,                        \
		.bytes = BYTES,                         \
		.argument = (with),                     \
		.prepare = tx_prepare,                  \
		.round = tx_round,                      \
	}

TX(store_tx, 0, PLAIN);
TX(store_tx_group, 1, PLAIN " ROAM_STORE_SYNC=group");
TX(store_tx_each, 1, PLAIN " ROAM_STORE_SYNC=each");

/* -------------------------------------------------------------------------------------- rows */

enum { COMMITS, RECOVERY, TX_NONE, TX_GROUP, TX_EACH };

static const struct rig_scenario *const scenarios[] = {
	&store_commit, &store_recover, &store_tx, &store_tx_group, &store_tx_each, NULL};

#define ROW(title, number, what, plain_rig, plain, text, judged, times, aim)              \
	{                                                                                 \
		.name = title, .rig = number, .channel = what,                            \
		.term = {{plain_rig, plain, 1}}, .floor = text, .rule = judged,           \
		.ratio = times, .goal = aim, .transport = number >= TX_NONE ? "shm" : NULL, \
	}
#define SYNC "a commit's bytes are written, and synced (fdatasync)"

static const struct plan_row rows[] = {
	ROW("store_commit_1", COMMITS, COMMIT_ALONE, COMMITS, COMMIT_PLAIN, SYNC, PLAN_REPORTED, 0,
	    "reported"),
	ROW("store_commit_32", COMMITS, COMMIT_GROUP, COMMITS, COMMIT_PLAIN, SYNC, PLAN_LIMIT,
	    1 / 20., "20 commits for one of the floor"),
	ROW("store_commit_32_each", COMMITS, COMMIT_EACH, COMMITS, COMMIT_PLAIN, SYNC, PLAN_LIMIT,
	    1 / (0.6 * UNDER_WAY), "19.2 commits for one of the floor"),
	ROW("store_commit_32_log", COMMITS, COMMIT_LOG, COMMITS, COMMIT_PLAIN, SYNC, PLAN_LIMIT,
	    1 / 20., "20 commits for one of the floor, without server and clients"),
	ROW("store_recover", RECOVERY, READ_RECOVER, RECOVERY, READ_PLAIN,
	    "a MiB of its log is read, dropped from the page cache before", PLAN_LIMIT, 2,
	    "<= 2 x floor"),
	ROW("store_recover_cached", RECOVERY, READ_RECOVER_AGAIN, RECOVERY, READ_PLAIN_AGAIN,
	    "a MiB of its log is read from the page cache", PLAN_REPORTED, 0, "reported"),
	ROW("store_tx_group", TX_GROUP, 0, TX_NONE, 0, "the same without a store", PLAN_REPORTED, 0,
	    "reported"),
	ROW("store_tx_each", TX_EACH, 0, TX_NONE, 0, "the same without a store", PLAN_REPORTED, 0,
	    "reported"),
	ROW("store_tx_each_sync", TX_EACH, 0, COMMITS, COMMIT_PLAIN, SYNC, PLAN_REPORTED, 0,
	    "reported"),
};

/* A few rounds, of a few samples. */
void bench_store(struct bench *bench)
{
	const struct plan plan = {scenarios, rows, sizeof(rows) / sizeof(rows[0])};
	unsigned rounds = bench->rounds, samples = bench->samples;

	bench->rounds = rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX;
	bench->samples = samples < FEWER * bench->rounds ? samples : FEWER * bench->rounds;
	plan_run(bench, &plan, bench->engines[0]);
	bench->rounds = rounds;
	bench->samples = samples;
}
