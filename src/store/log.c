#include "store/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

#define AHEAD_LEAST ((uint64_t)64 << 10) /* bytes */
#define AHEAD_MOST  ((uint64_t)256 << 10) /* all commits wait while they are written */

static bool log_fails(const char *what, uint64_t number, char why[ROAMI_STORE_WHY])
{
	int err = errno;
	char name[ROAMI_FILE_NAME];

	roami_file_name(name, false, number);
	snprintf(why, ROAMI_STORE_WHY, "%s %s: %s", name, what, strerror(err));
	errno = err;
	return false;
}

static bool log_put(const struct roami_log *log, struct roami_record *record)
{
	struct iovec part = {record, sizeof(*record) + record->bytes};

	roami_record_close(record, log->seed);
	return roami_disk_append(log->disk, log->fd, log->bytes, &part, 1);
}

/* ----------------------------------------------------------------------------------- new files */

/* Repeats the commits in these bytes of the log that was recovered, in the new file. */
static bool log_repeat(struct roami_log *log, const struct roami_recovered *recovered)
{
	const struct roami_record *old;
	struct roami_reader reader;
	char name[ROAMI_FILE_NAME];
	enum roami_read read;
	bool good;

	roami_file_name(name, false, recovered->log);
	read = roami_reader_open(&reader, log->directory, name, ROAMI_LOG_MAGIC, recovered->log);
	good = read == ROAMI_READ_GOOD;
	for (uint64_t at = recovered->from; good && at < recovered->to;) {
		struct roami_record *record;

		read = roami_reader_record(&reader, at, &old);
		good = read == ROAMI_READ_GOOD;
		if (!good)
			break;
		at = roami_record_end(at, old);
		if (old->kind != ROAMI_RECORD_COMMIT)
			continue;
		record = (struct roami_record *)(uintptr_t)old; /* the reader's own memory */
		record->durable = recovered->sure;
		roami_record_close(record, log->seed);
		good = roami_disk_write(log->disk, log->fd, log->bytes,
					&(struct iovec){record, sizeof(*record) + record->bytes},
					1);
		log->bytes += sizeof(*record) + record->bytes;
	}
	if (read == ROAMI_READ_BAD)
		errno = EIO; /* it was good a moment ago */
	roami_reader_close(&reader);
	return good;
}

/* The file could not be made: takes up no room. */
static void log_undo(struct roami_log *log, const char *part)
{
	int err = errno;

	if (log->fd >= 0) {
		close(log->fd);
		unlinkat(log->directory, part, 0);
	}
	log->fd = -1;
	errno = err;
}

/* Makes the file for the commits from `number` on; with its name it counts. */
static bool log_begin(struct roami_log *log, uint64_t number,
		      const struct roami_recovered *recovered, char why[ROAMI_STORE_WHY])
{
	char name[ROAMI_FILE_NAME], part[ROAMI_FILE_NAME + 8];
	struct roami_file_head head;
	struct iovec bytes = {&head, sizeof(head)};
	bool good;

	roami_file_name(name, false, number);
	snprintf(part, sizeof(part), "%s.part", name);
	roami_file_head_make(&head, ROAMI_LOG_MAGIC, log->store, log->heap_bytes, log->heap_at,
			     number);
	log->seed = head.seed;
	log->number = number;
	log->bytes = sizeof(head);
	log->zeroes = 0;
	log->fd = roami_os_fd(openat(log->directory, part,
				     O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
	good = log->fd >= 0 && roami_disk_write(log->disk, log->fd, 0, &bytes, 1) &&
	       (recovered == NULL || recovered->from == recovered->to ||
		log_repeat(log, recovered)) &&
	       roami_disk_sync(log->disk, log->fd) &&
	       roami_disk_rename(log->disk, log->directory, part, name);
	if (good)
		return true;
	log_fails("cannot be made", number, why);
	log_undo(log, part);
	return false;
}

/* The file before says that another one follows, so that it is missed if it is lost. */
static bool log_seal(struct roami_log *log, int fd, uint64_t offset, uint64_t seed)
{
	struct roami_record record = {.serial = log->number,
				      .durable = log->number - 1,
				      .kind = ROAMI_RECORD_SEAL};
	struct iovec part = {&record, sizeof(record)};

	roami_record_close(&record, seed);
	return ftruncate(fd, (off_t)offset) == 0 &&
	       roami_disk_append(log->disk, fd, offset, &part, 1);
}

/* The same of the last file that was there. */
static bool log_seal_old(struct roami_log *log, const struct roami_recovered *recovered,
			 char why[ROAMI_STORE_WHY])
{
	char name[ROAMI_FILE_NAME];
	struct roami_file_head head;
	bool good;
	int fd;

	roami_file_name(name, false, recovered->log);
	fd = roami_os_fd(openat(log->directory, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
	good = fd >= 0 && pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
	       log_seal(log, fd, recovered->from, head.seed);
	if (!good)
		log_fails("cannot be written", recovered->log, why);
	if (fd >= 0)
		close(fd);
	return good;
}

bool roami_log_open(struct roami_log *log, int directory, struct roami_disk *disk, uint64_t limit,
		    const struct roami_recovered *recovered, char why[ROAMI_STORE_WHY])
{
	*log = (struct roami_log){.directory = directory,
				  .disk = disk,
				  .limit = limit,
				  .heap_bytes = recovered->heap_bytes,
				  .heap_at = recovered->heap_at,
				  .fd = -1,
				  .durable = recovered->serial};
	memcpy(log->store, recovered->store, sizeof(log->store));
	if (!log_begin(log, recovered->sure + 1, recovered, why))
		return false;
	/* Where a snapshot is ahead of it, the old one is of no use any more. */
	return recovered->from == 0 || recovered->log == log->number ||
	       log_seal_old(log, recovered, why);
}

static bool log_rotate(struct roami_log *log, char why[ROAMI_STORE_WHY])
{
	const struct roami_log old = *log;
	bool good = log_begin(log, old.durable + 1, NULL, why);

	if (good && !log_seal(log, old.fd, old.bytes, old.seed))
		good = log_fails("cannot be written", old.number, why);
	close(old.fd);
	return good;
}

/* ----------------------------------------------------------------------------------- appending */

/*
 * Writes zeroes where the next commits go, as many bytes as the log has, within bounds: the sync of
 * bytes that lie over others has nothing to say to the file system's journal, and takes half as
 * long.  If there is no room for them the log has none: it is the commits that may not fail.
 */
static void log_ahead(struct roami_log *log, uint64_t bytes)
{
	static const uint8_t zeroes[ROAMI_STORE_PAGE];
	struct iovec parts[AHEAD_MOST / sizeof(zeroes) + 1];
	uint64_t from = log->zeroes > log->bytes ? log->zeroes : log->bytes;
	uint64_t some = from < AHEAD_LEAST ? AHEAD_LEAST : from < AHEAD_MOST ? from : AHEAD_MOST;
	uint64_t end = (from + some) & ~(uint64_t)(sizeof(zeroes) - 1);
	unsigned count = 0;

	if (log->bytes + bytes <= log->zeroes || bytes > some)
		return;
	for (uint64_t at = from; at < end; at += parts[count++].iov_len)
		parts[count] = (struct iovec){(void *)(uintptr_t)zeroes,
					      end - at < sizeof(zeroes) ? end - at
									: sizeof(zeroes)};
	log->zeroes = end;
	if (roami_disk_write(log->disk, log->fd, from, parts, count))
		return;
	(void)!ftruncate(log->fd, (off_t)from);
	log->zeroes = UINT64_MAX;
}

bool roami_log_append(struct roami_log *log, struct roami_log_commit *first,
		      char why[ROAMI_STORE_WHY])
{
	struct iovec parts[ROAMI_LOG_BATCH_MAX];
	uint64_t bytes = 0, serial = log->durable;
	unsigned count = 0;

	if (log->bytes >= log->limit && !log_rotate(log, why))
		return false;
	for (struct roami_log_commit *commit = first; commit != NULL; commit = commit->next) {
		struct roami_record *record = &commit->record;

		roami_assert(count < ROAMI_LOG_BATCH_MAX && record->serial == serial + 1);
		serial = record->serial;
		record->durable = log->durable;
		record->kind = ROAMI_RECORD_COMMIT;
		roami_record_close(record, log->seed);
		parts[count++] = (struct iovec){record, sizeof(*record) + record->bytes};
		bytes += sizeof(*record) + record->bytes;
	}
	log_ahead(log, bytes);
	if (!roami_disk_append(log->disk, log->fd, log->bytes, parts, count))
		return log_fails("cannot be written", log->number, why);
	log->durable = serial;
	log->bytes += bytes;
	return true;
}

bool roami_log_close(struct roami_log *log, bool ends, char why[ROAMI_STORE_WHY])
{
	struct roami_record record = {.serial = log->durable,
				      .durable = log->durable,
				      .kind = ROAMI_RECORD_END};
	bool good = true;

	if (log->fd < 0)
		return true;
	if (ends && (ftruncate(log->fd, (off_t)log->bytes) != 0 || !log_put(log, &record)))
		good = log_fails("cannot be written", log->number, why);
	close(log->fd);
	log->fd = -1;
	return good;
}
