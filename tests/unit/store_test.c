/*
 * The page server's files: what was acknowledged is recovered, and nothing else but a prefix of
 * what was being written; torn ends are cut, at every byte; damage is named, at every byte; and no
 * step at which the server may be killed, or the disk fail, loses anything.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"
#include "store/log.h"
#include "unit.h"

#define PAGES   8u
#define HEAP    ((uint64_t)PAGES * ROAMI_STORE_PAGE)
#define SMALL   24u /* bytes of a page that a commit changes */
#define COMMITS 40u

static uint8_t room[ROAMI_SNAPSHOT_ROOM] __attribute__((aligned(16)));

/* ----------------------------------------------------------------------------------- a store */

struct rig {
	char place[64];
	int directory;
	struct roami_disk disk;
	struct roami_log log;
	struct roami_store_state state;
	struct roami_recovered is;
	char why[ROAMI_STORE_WHY];
	unsigned steps, fails; /* of the disk; the one that fails, + 1 */
	bool bare; /* the first log of a server has no zeroes ahead */
};

static bool rig_may(void *arg, enum roami_disk_step step)
{
	struct rig *rig = arg;

	(void)step;
	errno = EIO;
	return ++rig->steps != rig->fails;
}

static void rig_make(struct rig *rig)
{
	memset(rig, 0, sizeof(*rig));
	/* In memory if possible: what a disk does meanwhile is not what these tests are for. */
	strcpy(rig->place, "/dev/shm/roam-store-XXXXXX");
	if (mkdtemp(rig->place) == NULL) {
		strcpy(rig->place, "/tmp/roam-store-XXXXXX");
		CU_ASSERT_FATAL(mkdtemp(rig->place) != NULL);
	}
	rig->directory = open(rig->place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	roami_disk_open(&rig->disk, true);
	rig->disk.may = rig_may;
	rig->disk.arg = rig;
	rig->log.fd = -1;
}

static void rig_forget(struct rig *rig)
{
	roami_state_free(&rig->state);
	if (rig->log.fd >= 0)
		close(rig->log.fd);
	rig->log.fd = -1;
}

static void rig_remove(struct rig *rig)
{
	char path[512];
	DIR *dir = opendir(rig->place);
	const struct dirent *entry;

	rig_forget(rig);
	roami_disk_close(&rig->disk);
	while ((entry = readdir(dir)) != NULL) {
		snprintf(path, sizeof(path), "%s/%s", rig->place, entry->d_name);
		if (entry->d_name[0] != '.')
			unlink(path);
	}
	closedir(dir);
	close(rig->directory);
	rmdir(rig->place);
}

/* The server begins: false: it refuses. */
static bool rig_open(struct rig *rig, uint64_t limit)
{
	rig_forget(rig);
	if (!roami_files_sweep(rig->directory) ||
	    roami_store_recover(rig->directory, &rig->state, &rig->is, rig->why) != ROAM_OK)
		return false;
	if (rig->is.heap_bytes == 0) {
		memset(rig->is.store, 7, sizeof(rig->is.store));
		rig->is.heap_bytes = HEAP;
		CU_ASSERT(roami_state_make(&rig->state, HEAP));
	}
	if (!roami_log_open(&rig->log, rig->directory, &rig->disk, limit, &rig->is, rig->why))
		return false;
	if (rig->bare)
		rig->log.zeroes = UINT64_MAX;
	return true;
}

/* ----------------------------------------------------------------------------------- commits */

/* Commit n changes a stretch of two pages, and a name, by n alone. */
static size_t commit_entries(uint64_t n, uint8_t *at)
{
	uint8_t *begin = at;
	struct roami_store_entry entry;

	for (unsigned i = 0; i < 2; i++) {
		entry = (struct roami_store_entry){ROAMI_STORE_BYTES, SMALL,
						   (uint32_t)((n * 3 + i) % PAGES),
						   (uint32_t)(n * 40 % 4000)};
		memcpy(at, &entry, sizeof(entry));
		memset(at + sizeof(entry), (int)n, SMALL);
		at += roami_store_entry_bytes(&entry);
	}
	entry = (struct roami_store_entry){n % 5 == 0 ? ROAMI_STORE_NO_NAME : ROAMI_STORE_NAME,
					   n % 5 == 0 ? 2 : 10, 0, 2};
	memcpy(at, &entry, sizeof(entry));
	memset(at + sizeof(entry), 0, 16);
	at[sizeof(entry)] = 'n';
	at[sizeof(entry) + 1] = (uint8_t)('a' + n % 3);
	if (n % 5 != 0)
		memcpy(at + sizeof(entry) + 2, &n, sizeof(n));
	at += roami_store_entry_bytes(&entry);
	return (size_t)(at - begin);
}

/* Appends so many commits as one batch, and applies them. */
static bool rig_commit(struct rig *rig, unsigned count)
{
	struct roami_log_commit *list = NULL, **end = &list, *commit;
	uint64_t serial = rig->log.durable;
	bool good;

	for (unsigned i = 0; i < count; i++) {
		commit = calloc(1, sizeof(*commit) + 256);
		commit->record.serial = ++serial;
		commit->record.bytes =
			(uint32_t)commit_entries(serial, roami_log_entries(commit));
		roami_state_apply(&rig->state, serial, roami_log_entries(commit),
				  commit->record.bytes);
		*end = commit;
		end = &commit->next;
	}
	good = roami_log_append(&rig->log, list, rig->why);
	while ((commit = list) != NULL) {
		list = commit->next;
		free(commit);
	}
	return good;
}

static bool rig_snapshot(struct rig *rig)
{
	struct roami_file_head head;

	roami_file_head_make(&head, ROAMI_SNAPSHOT_MAGIC, rig->is.store, HEAP, 0,
			     rig->log.durable);
	return roami_snapshot_write(rig->directory, &rig->disk, &rig->state, &head, room) &&
	       roami_snapshot_commit(rig->directory, &rig->disk, rig->log.durable);
}

/* Whether the state is that of commits 1 to `serial`. */
static bool state_is(const struct roami_store_state *state, uint64_t serial)
{
	struct roami_store_state wanted = {.heap_bytes = 0};
	uint8_t entries[256];
	bool good;

	CU_ASSERT_FATAL(roami_state_make(&wanted, HEAP));
	for (uint64_t n = 1; n <= serial; n++)
		roami_state_apply(&wanted, n, entries, commit_entries(n, entries));
	good = state->heap_bytes == HEAP && memcmp(state->heap, wanted.heap, HEAP) == 0 &&
	       state->pages == wanted.pages && state->have[0] == wanted.have[0] &&
	       state->name_count == wanted.name_count;
	for (uint32_t i = 0; good && i < wanted.name_count; i++) {
		uint32_t found = 0;

		for (uint32_t k = 0; k < state->name_count; k++)
			found += state->names[k]->bytes == wanted.names[i]->bytes &&
				 memcmp(state->names[k]->text, wanted.names[i]->text,
					wanted.names[i]->bytes) == 0;
		good = found == 1;
	}
	roami_state_free(&wanted);
	return good;
}

static bool rig_is(struct rig *rig, uint64_t serial)
{
	return rig->is.serial == serial && state_is(&rig->state, serial);
}

/* ------------------------------------------------------------------------------------- files */

static size_t file_read(const struct rig *rig, const char *name, uint8_t *bytes, size_t most)
{
	int fd = openat(rig->directory, name, O_RDONLY | O_CLOEXEC);
	ssize_t got = read(fd, bytes, most);

	CU_ASSERT_FATAL(fd >= 0 && got > 0 && (size_t)got < most);
	close(fd);
	return (size_t)got;
}

static void file_write(const struct rig *rig, const char *name, const uint8_t *bytes, size_t count)
{
	int fd = openat(rig->directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CU_ASSERT_FATAL(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
	close(fd);
}

static void recover(struct rig *rig, enum roam_err *err_p)
{
	rig_forget(rig);
	*err_p = roami_store_recover(rig->directory, &rig->state, &rig->is, rig->why);
}

/* ------------------------------------------------------------------------------------- tests */

static void test_forth_and_back(void)
{
	for (unsigned uring = 0; uring < 2; uring++)
		for (uint64_t limit = 200; limit < 100000; limit *= 7) {
			struct rig rig;
			uint64_t serial = 0;

			rig_make(&rig);
			if (uring == 0)
				roami_disk_close(&rig.disk);
			for (unsigned turn = 0; turn < 6; turn++) {
				CU_ASSERT(rig_open(&rig, limit));
				CU_ASSERT(rig_is(&rig, serial));
				CU_ASSERT(rig.is.ended == (turn == 0 || turn % 2 == 1));
				for (unsigned i = 0; i < turn * 2; i++) {
					CU_ASSERT(rig_commit(&rig, 1 + i % 3));
					serial += 1 + i % 3;
				}
				if (turn == 4)
					CU_ASSERT(rig_snapshot(&rig));
				if (turn % 2 == 0)
					CU_ASSERT(roami_log_close(&rig.log, true, rig.why));
			}
			rig_remove(&rig);
		}
}

/* A log whose last batch has three commits; at every length of it the server goes on. */
static void test_torn(void)
{
	static uint8_t bytes[1 << 16];
	struct rig rig;
	size_t count;

	rig_make(&rig);
	rig.bare = true;
	CU_ASSERT(rig_open(&rig, 1 << 20));
	CU_ASSERT(rig_commit(&rig, 2) && rig_commit(&rig, 1) && rig_commit(&rig, 3));
	rig_forget(&rig);
	count = file_read(&rig, "log.0000000000000001", bytes, sizeof(bytes));
	for (size_t length = sizeof(struct roami_file_head); length <= count; length++) {
		uint64_t serial;

		for (uint64_t n = 1; n <= 9; n++) {
			char name[ROAMI_FILE_NAME];

			roami_file_name(name, false, n);
			unlinkat(rig.directory, name, 0);
		}
		file_write(&rig, "log.0000000000000001", bytes, length);
		CU_ASSERT(rig_open(&rig, 1 << 20));
		serial = rig.is.serial;
		CU_ASSERT(rig_is(&rig, serial) && (serial == 6) == (length == count));
		CU_ASSERT(rig_commit(&rig, 1) && rig_open(&rig, 1 << 20));
		CU_ASSERT(rig_is(&rig, serial + 1));
	}
	rig_remove(&rig);
}

/* Of a batch that was being written any part may be missing; of those before none. */
static void test_holes(void)
{
	static uint8_t bytes[1 << 16], holed[1 << 16];
	size_t one, before, count;
	enum roam_err err;
	struct rig rig;

	rig_make(&rig);
	rig.bare = true;
	CU_ASSERT(rig_open(&rig, 1 << 20) && rig_commit(&rig, 2));
	before = (size_t)rig.log.bytes;
	one = (before - sizeof(struct roami_file_head)) / 2;
	CU_ASSERT(rig_commit(&rig, 3));
	rig_forget(&rig);
	count = file_read(&rig, "log.0000000000000001", bytes, sizeof(bytes));
	for (unsigned lost = 0; lost < 5; lost++) {
		memcpy(holed, bytes, count);
		memset(holed + sizeof(struct roami_file_head) + lost * one, 0, 64);
		file_write(&rig, "log.0000000000000001", holed, count);
		recover(&rig, &err);
		CU_ASSERT(lost < 2 ? err == ROAM_EPROTO &&
					     strstr(rig.why, "log.0000000000000001") != NULL
				   : err == ROAM_OK && rig_is(&rig, lost));
	}
	rig_remove(&rig);
}

/* Of a store that was ended in order every flip is found and named, or does no harm. */
static void test_flips(void)
{
	static const char *const names[] = {"snap.0000000000000003", "log.0000000000000003",
					    "log.0000000000000006"};
	static uint8_t bytes[1 << 18];
	unsigned harmless = 0;
	enum roam_err err;
	struct rig rig;

	rig_make(&rig);
	CU_ASSERT(rig_open(&rig, 350));
	CU_ASSERT(rig_commit(&rig, 2) && rig_commit(&rig, 1) && rig_snapshot(&rig));
	CU_ASSERT(rig_commit(&rig, 2) && rig_commit(&rig, 1) && rig_commit(&rig, 1));
	CU_ASSERT(roami_log_close(&rig.log, true, rig.why));
	for (unsigned file = 0; file < 3; file++) {
		size_t count = file_read(&rig, names[file], bytes, sizeof(bytes));

		/* In the snapshot's pages, which are much alike, some are enough. */
		for (size_t i = 0; i < count;
		     i += file == 0 && i > 200 && i + 300 < count ? 7 : 1) {
			bytes[i] ^= (uint8_t)(1u << i % 8);
			file_write(&rig, names[file], bytes, count);
			recover(&rig, &err);
			harmless += err == ROAM_OK;
			CU_ASSERT(err == ROAM_OK ? rig_is(&rig, 7)
						 : strstr(rig.why, names[file]) != NULL);
			bytes[i] ^= (uint8_t)(1u << i % 8);
		}
		file_write(&rig, names[file], bytes, count);
	}
	printf("%u flips were of an end or a seal\n", harmless);
	CU_ASSERT(harmless <= 4 * sizeof(struct roami_record));
	recover(&rig, &err);
	CU_ASSERT(err == ROAM_OK && rig_is(&rig, 7));
	rig_remove(&rig);
}

/* A record of another file with the number that comes next is none of this one. */
static void test_stale(void)
{
	static uint8_t bytes[1 << 16], others[1 << 16];
	struct rig rig, other;
	enum roam_err err;
	size_t count;

	rig_make(&rig);
	rig.bare = true;
	rig_make(&other);
	other.bare = true;
	CU_ASSERT(rig_open(&rig, 1 << 20) && rig_commit(&rig, 1) && rig_commit(&rig, 1));
	CU_ASSERT(rig_open(&other, 1 << 20) && rig_commit(&other, 1) && rig_commit(&other, 1) &&
		  rig_commit(&other, 1));
	count = file_read(&rig, "log.0000000000000001", bytes, sizeof(bytes));
	CU_ASSERT(file_read(&other, "log.0000000000000001", others, sizeof(others)) > count);
	memcpy(bytes + count, others + count, (size_t)other.log.bytes - count);
	file_write(&rig, "log.0000000000000001", bytes, (size_t)other.log.bytes);
	recover(&rig, &err);
	CU_ASSERT(err == ROAM_OK && rig_is(&rig, 2));
	rig_remove(&rig);
	rig_remove(&other);
}

/* What a missing file leads to. */
static void test_missing(void)
{
	struct roami_store_files files;
	static uint8_t bytes[1 << 18];
	char name[ROAMI_FILE_NAME];
	enum roam_err err;
	struct rig rig;
	size_t count;

	rig_make(&rig);
	CU_ASSERT(rig_open(&rig, 300));
	for (unsigned i = 0; i < 12; i++)
		CU_ASSERT(rig_commit(&rig, 1) && (i != 5 || rig_snapshot(&rig)));
	CU_ASSERT(roami_log_close(&rig.log, true, rig.why));
	CU_ASSERT(roami_files_list(&files, rig.directory) && files.log_count > 2 &&
		  files.snapshot_count == 1);
	for (unsigned i = 0; i < files.log_count + 1; i++) {
		bool snapshot = i == files.log_count;

		roami_file_name(name, snapshot, snapshot ? files.snapshots[0] : files.logs[i]);
		count = file_read(&rig, name, bytes, sizeof(bytes));
		unlinkat(rig.directory, name, 0);
		recover(&rig, &err);
		if (i > 0) /* the first log ends with the snapshot */
			CU_ASSERT(err == ROAM_EPROTO && strstr(rig.why, "missing") != NULL);
		file_write(&rig, name, bytes, count);
	}
	recover(&rig, &err);
	CU_ASSERT(err == ROAM_OK && rig_is(&rig, 12));
	roami_files_free(&files);
	rig_remove(&rig);
}

/* Runs until the disk fails; true: it has come to the end.  *sure_p: commits acknowledged. */
static bool script(struct rig *rig, uint64_t *sure_p)
{
	for (unsigned turn = 0; turn < 3; turn++) {
		if (!rig_open(rig, 400))
			return false;
		if (rig->log.durable < *sure_p)
			return false;
		for (unsigned i = 0; i < 4; i++) {
			if (!rig_commit(rig, 1 + i % 2))
				return false;
			*sure_p = rig->log.durable;
			if (i == 2 && !rig_snapshot(rig))
				return false;
		}
		if (turn == 1 && !roami_log_close(&rig->log, true, rig->why))
			return false;
	}
	return true;
}

/* The disk fails at each step in turn, after which the server begins anew: nothing is lost. */
static void test_every_step(void)
{
	bool ended = false;
	unsigned steps = 0;

	for (unsigned step = 1; !ended; step++) {
		uint64_t sure = 0;
		enum roam_err err;
		struct rig rig;

		rig_make(&rig);
		rig.fails = step;
		if (step % 2 == 0)
			roami_disk_close(&rig.disk);
		ended = script(&rig, &sure) && rig.steps < step;
		rig.fails = 0;
		recover(&rig, &err);
		CU_ASSERT(err == ROAM_OK && rig.is.serial >= sure &&
			  (rig.is.heap_bytes == 0 || rig_is(&rig, rig.is.serial)));
		CU_ASSERT(rig_open(&rig, 400) && rig_is(&rig, rig.is.serial));
		CU_ASSERT(rig_commit(&rig, 1) && rig_snapshot(&rig));
		sure = rig.log.durable;
		recover(&rig, &err);
		CU_ASSERT(err == ROAM_OK && rig_is(&rig, sure));
		rig_remove(&rig);
		steps = step;
	}
	CU_ASSERT(steps > 40);
}

/* There is no room for a new log, at each step of it: the old ones stay, until there is room. */
static void test_no_room(void)
{
	bool ended = false;
	unsigned again = 0;

	for (unsigned step = 1; !ended; step++) {
		enum roam_err err;
		struct rig rig;

		rig_make(&rig);
		CU_ASSERT(rig_open(&rig, 400) && rig_commit(&rig, 2) && rig_commit(&rig, 1));
		recover(&rig, &err);
		CU_ASSERT(err == ROAM_OK && rig.is.sure == 2 && rig_is(&rig, 3));
		rig.fails = rig.steps + step;
		ended = roami_log_open(&rig.log, rig.directory, &rig.disk, 400, &rig.is, rig.why);
		if (!ended && rig.log.fd < 0) {
			CU_ASSERT(unlinkat(rig.directory, "log.0000000000000003.part", 0) != 0);
			CU_ASSERT(roami_log_open(&rig.log, rig.directory, &rig.disk, 400, &rig.is,
						 rig.why));
			CU_ASSERT(rig_commit(&rig, 1));
			again++;
		}
		recover(&rig, &err);
		CU_ASSERT(err == ROAM_OK && rig_is(&rig, ended || rig.is.serial == 3 ? 3 : 4));
		rig_remove(&rig);
	}
	CU_ASSERT(again >= 4); /* head, repeated commit, sync, name */
}

/* A full disk: a file may have so many bytes, of every number. */
static void test_full(void)
{
	struct rlimit was, now;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	for (unsigned uring = 0; uring < 2; uring++)
		for (rlim_t most = 1; most < 1500; most += 13) {
			uint64_t sure = 0;
			enum roam_err err;
			struct rig rig;

			rig_make(&rig);
			if (uring == 0)
				roami_disk_close(&rig.disk);
			now = (struct rlimit){most, was.rlim_max};
			setrlimit(RLIMIT_FSIZE, &now);
			if (rig_open(&rig, 1 << 20))
				while (rig_commit(&rig, 2))
					sure = rig.log.durable;
			CU_ASSERT(strstr(rig.why, "log.0000000000000001") != NULL);
			setrlimit(RLIMIT_FSIZE, &was);
			recover(&rig, &err);
			CU_ASSERT(err == ROAM_OK && rig.is.serial >= sure &&
				  (rig.is.heap_bytes == 0 || rig_is(&rig, rig.is.serial)));
			rig_remove(&rig);
		}
}

/* Zeroes ahead of a log are its torn end, unless it ended in order; without room it has none. */
static void test_ahead(void)
{
	struct rlimit was;

	getrlimit(RLIMIT_FSIZE, &was);
	for (unsigned how = 0; how < 3; how++) {
		struct rig rig;
		struct stat is;
		enum roam_err err;

		rig_make(&rig);
		CU_ASSERT(rig_open(&rig, 300000));
		if (how == 2)
			setrlimit(RLIMIT_FSIZE, &(struct rlimit){100000, was.rlim_max});
		while (rig.log.durable < (how == 2 ? 600u : 3000u)) /* to the second file */
			CU_ASSERT(rig_commit(&rig, 3));
		CU_ASSERT(rig.log.number > 1 || how == 2);
		CU_ASSERT(fstat(rig.log.fd, &is) == 0);
		CU_ASSERT(((uint64_t)is.st_size > rig.log.bytes) == (how != 2));
		setrlimit(RLIMIT_FSIZE, &was);
		if (how == 1)
			CU_ASSERT(roami_log_close(&rig.log, true, rig.why));
		recover(&rig, &err);
		CU_ASSERT(err == ROAM_OK && rig_is(&rig, rig.log.durable));
		CU_ASSERT(rig_open(&rig, 300000) && rig_commit(&rig, 1));
		recover(&rig, &err);
		CU_ASSERT(err == ROAM_OK && rig_is(&rig, rig.log.durable));
		rig_remove(&rig);
	}
}

/* Entries that do not fit, which a log may have only if it was written so, are refused. */
static void test_entries(void)
{
	static uint8_t entries[ROAMI_STORE_ENTRIES_MAX + 64];
	struct roami_store_state state = {.heap_bytes = 0};
	static const struct {
		struct roami_store_entry entry;
		bool fits;
	} cases[] = {
		{{ROAMI_STORE_BYTES, 4096, PAGES - 1, 0}, true},
		{{ROAMI_STORE_BYTES, 4096, PAGES, 0}, false},
		{{ROAMI_STORE_BYTES, 4096, 0, 1}, false},
		{{ROAMI_STORE_BYTES, 4095, 0, 1}, true},
		{{ROAMI_STORE_BYTES, 0, 0, 4096}, false},
		{{ROAMI_STORE_BYTES, UINT32_MAX, 0, 8}, false},
		{{ROAMI_STORE_BYTES, UINT32_MAX - 7, 0, 0}, false},
		{{ROAMI_STORE_NAME, 10, 0, 11}, false},
		{{ROAMI_STORE_NAME, 10, 0, 0}, false},
		{{ROAMI_STORE_NAME, 10, 1, 3}, false},
		{{ROAMI_STORE_NAME, 64, 0, 64}, true},
		{{ROAMI_STORE_NAME, 65, 0, 65}, false},
		{{ROAMI_STORE_NAME, ROAMI_STORE_VALUE_MAX + 3, 0, 3}, true},
		{{ROAMI_STORE_NAME, ROAMI_STORE_VALUE_MAX + 4, 0, 3}, false},
		{{ROAMI_STORE_NO_NAME, 10, 0, 9}, false},
		{{ROAMI_STORE_NO_NAME, 9, 0, 9}, true},
		{{0, 8, 0, 0}, false},
		{{4, 8, 0, 0}, false},
	};

	CU_ASSERT(roami_state_make(&state, HEAP));
	memset(entries, 'x', sizeof(entries));
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t bytes = roami_store_entry_bytes(&cases[i].entry);

		memcpy(entries, &cases[i].entry, sizeof(cases[i].entry));
		if (bytes > ROAMI_STORE_ENTRIES_MAX)
			bytes = 64;
		CU_ASSERT(roami_state_fits(&state, entries, bytes) == cases[i].fits);
		CU_ASSERT(!roami_state_fits(&state, entries, bytes - 1));
	}
	memcpy(entries, &cases[10].entry, sizeof(cases[10].entry));
	entries[sizeof(cases[10].entry) + 5] = '\0';
	CU_ASSERT(!roami_state_fits(&state, entries, sizeof(cases[10].entry) + 64));
	roami_state_free(&state);
}

int main(int argc, char **argv)
{
	static CU_TestInfo tests[] = {
		{"forth and back", test_forth_and_back}, {"torn at every byte", test_torn},
		{"holes", test_holes},			 {"flips of every byte", test_flips},
		{"stale records", test_stale},		 {"missing files", test_missing},
		{"failing at every step", test_every_step}, {"no room", test_no_room},
		{"full disk", test_full},		 {"zeroes ahead", test_ahead},
		{"entries", test_entries},		 CU_TEST_INFO_NULL};

	return unit_main("store", tests, argc, argv);
}
