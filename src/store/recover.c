#include "store/recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

/* --------------------------------------------------------------------------------------- files */

static int number_order(const void *one, const void *two)
{
	const uint64_t *a = one, *b = two;

	return (*a > *b) - (*a < *b);
}

static bool number_add(uint64_t **numbers, unsigned *count, uint64_t number)
{
	uint64_t *grown = *numbers;

	if ((*count & (*count - 1)) == 0) /* a power of two: it is full */
		grown = realloc(*numbers, (*count == 0 ? 1 : 2 * (size_t)*count) * sizeof(number));
	if (grown == NULL)
		return false;
	grown[(*count)++] = number;
	*numbers = grown;
	return true;
}

/* Opens the directory once more, because a listing moves its offset. */
static DIR *directory_open(int directory)
{
	int fd = roami_os_fd(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (fd >= 0 && dir == NULL)
		close(fd);
	return dir;
}

bool roami_files_list(struct roami_store_files *files, int directory)
{
	DIR *dir = directory_open(directory);
	const struct dirent *entry;
	uint64_t number;
	bool good = dir != NULL;

	*files = (struct roami_store_files){.logs = NULL};
	while (good && (entry = readdir(dir)) != NULL)
		if (roami_file_number(entry->d_name, false, &number))
			good = number_add(&files->logs, &files->log_count, number);
		else if (roami_file_number(entry->d_name, true, &number))
			good = number_add(&files->snapshots, &files->snapshot_count, number);
	if (dir != NULL)
		closedir(dir);
	if (files->log_count > 0)
		qsort(files->logs, files->log_count, sizeof(number), number_order);
	if (files->snapshot_count > 0)
		qsort(files->snapshots, files->snapshot_count, sizeof(number), number_order);
	return good;
}

void roami_files_free(struct roami_store_files *files)
{
	free(files->logs);
	free(files->snapshots);
	*files = (struct roami_store_files){.logs = NULL};
}

bool roami_files_sweep(int directory)
{
	DIR *dir = directory_open(directory);
	const struct dirent *entry;
	bool good = dir != NULL;

	while (good && (entry = readdir(dir)) != NULL) {
		const char *part = strstr(entry->d_name, ".part");
		char name[ROAMI_FILE_NAME];
		uint64_t number;

		if (part == NULL || part[5] != '\0' || part - entry->d_name >= (int)sizeof(name))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(part - entry->d_name), entry->d_name);
		if (roami_file_number(name, false, &number) ||
		    roami_file_number(name, true, &number))
			good = unlinkat(directory, entry->d_name, 0) == 0;
	}
	if (dir != NULL)
		closedir(dir);
	return good;
}

/* ------------------------------------------------------------------------------------- reading */

struct recovery {
	int directory;
	struct roami_store_state *state;
	struct roami_recovered *is;
	struct roami_store_files files;
	struct roami_reader reader;
	char name[ROAMI_FILE_NAME]; /* the file that is read */
	char *why;
};

__attribute__((format(printf, 3, 4))) static enum roam_err
recovery_fails(const struct recovery *recovery, enum roam_err err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(recovery->why, ROAMI_STORE_WHY, format, args);
	va_end(args);
	return err;
}

static enum roam_err recovery_damaged(const struct recovery *recovery, enum roami_read read,
				      uint64_t offset)
{
	if (read == ROAMI_READ_ERROR)
		return recovery_fails(recovery, ROAM_ESYSTEM, "%s cannot be read: %s",
				      recovery->name, strerror(errno));
	return recovery_fails(recovery, ROAM_EPROTO, "%s is damaged at byte %" PRIu64,
			      recovery->name, offset);
}

/* Makes the state by the first file; the others must agree. */
static enum roam_err recovery_head(struct recovery *recovery)
{
	const struct roami_file_head *head = &recovery->reader.head;
	struct roami_recovered *is = recovery->is;

	recovery->is->read += recovery->reader.bytes;
	if (is->heap_bytes == 0) {
		memcpy(is->store, head->store, sizeof(is->store));
		is->heap_bytes = head->heap_bytes;
		is->heap_at = head->heap_at;
		if (!roami_state_make(recovery->state, head->heap_bytes))
			return recovery_fails(recovery, ROAM_ENOMEM,
					      "there is no memory for a heap of %" PRIu64 " bytes",
					      head->heap_bytes);
	}
	if (memcmp(is->store, head->store, sizeof(is->store)) != 0 ||
	    is->heap_bytes != head->heap_bytes)
		return recovery_fails(recovery, ROAM_EPROTO, "%s is of another store",
				      recovery->name);
	return ROAM_OK;
}

static enum roam_err recovery_open(struct recovery *recovery, bool snapshot, uint64_t number)
{
	const char *magic = snapshot ? ROAMI_SNAPSHOT_MAGIC : ROAMI_LOG_MAGIC;
	enum roami_read read;

	roami_file_name(recovery->name, snapshot, number);
	read = roami_reader_open(&recovery->reader, recovery->directory, recovery->name, magic,
				 number);
	if (read == ROAMI_READ_BAD && memcmp(recovery->reader.head.magic, magic, 7) == 0 &&
	    recovery->reader.head.magic[7] != magic[7])
		return recovery_fails(recovery, ROAM_EMISMATCH,
				      "%s is of another version of roam, or damaged at byte 7",
				      recovery->name);
	if (read != ROAMI_READ_GOOD)
		return recovery_damaged(recovery, read, 0);
	return recovery_head(recovery);
}

static enum roam_err recovery_apply(struct recovery *recovery, uint64_t serial, uint64_t offset,
				    const struct roami_record *record)
{
	const uint8_t *entries = (const uint8_t *)(record + 1);

	if (!roami_state_fits(recovery->state, entries, record->bytes))
		return recovery_damaged(recovery, ROAMI_READ_BAD, offset);
	if (!roami_state_apply(recovery->state, serial, entries, record->bytes))
		return recovery_fails(recovery, ROAM_ENOMEM, "there is no memory for the names");
	return ROAM_OK;
}

static bool counts_fit(const struct recovery *recovery, const struct roami_record *record)
{
	struct roami_store_counts counts;

	if (record->bytes != sizeof(counts))
		return false;
	memcpy(&counts, record + 1, sizeof(counts));
	return counts.pages == recovery->state->pages &&
	       counts.names == recovery->state->name_count;
}

static enum roam_err snapshot_read(struct recovery *recovery, uint64_t number)
{
	uint64_t offset = sizeof(struct roami_file_head), chunk = 0;
	enum roam_err err = recovery_open(recovery, true, number);
	const struct roami_record *record;
	enum roami_read read;
	bool ended = false;

	while (err == ROAM_OK && !ended) {
		read = roami_reader_record(&recovery->reader, offset, &record);
		if (read != ROAMI_READ_GOOD)
			return recovery_damaged(recovery, read, offset);
		ended = record->kind == ROAMI_RECORD_END;
		if (record->serial != chunk++ || record->durable != number ||
		    (!ended && record->kind != ROAMI_RECORD_CHUNK) ||
		    (ended && (!counts_fit(recovery, record) ||
			       roami_record_end(offset, record) != recovery->reader.bytes)))
			return recovery_damaged(recovery, ROAMI_READ_BAD, offset);
		if (!ended)
			err = recovery_apply(recovery, number, offset, record);
		offset = roami_record_end(offset, record);
	}
	recovery->is->snapshot = recovery->is->serial = recovery->is->sure = number;
	return err;
}

/* ---------------------------------------------------------------------------------------- logs */

/* How far a log has been read. */
struct log_place {
	uint64_t offset;
	uint64_t serial; /* that comes next */
	uint64_t sure;
	uint64_t sure_end; /* where the records up to there end */
	bool sealed;
	bool ended; /* the record before was an END */
};

/*
 * The record at the offset is none.  In the last log this may be its torn end; but if a record
 * behind it vouches for it, it was acknowledged, and has been damaged since.
 */
static enum roam_err log_torn(struct recovery *recovery, const struct log_place *place, bool last,
			      enum roami_read read)
{
	bool vouches = false;

	if (read == ROAMI_READ_BAD && last)
		read = roami_reader_vouches(&recovery->reader, place->offset, place->serial,
					    &vouches);
	if (read == ROAMI_READ_ERROR || vouches || !last)
		return recovery_damaged(recovery, read == ROAMI_READ_ERROR ? read : ROAMI_READ_BAD,
					place->offset);
	return ROAM_OK;
}

/* A record that is valid. */
static enum roam_err log_record(struct recovery *recovery, struct log_place *place,
				const struct roami_record *record)
{
	enum roam_err err = ROAM_OK;

	if (record->durable >= place->serial || record->durable < place->sure)
		return recovery_damaged(recovery, ROAMI_READ_BAD, place->offset);
	if (record->durable == place->serial - 1) {
		place->sure = record->durable;
		place->sure_end = place->offset;
	} else if (record->durable > place->sure) {
		return recovery_damaged(recovery, ROAMI_READ_BAD, place->offset);
	}
	if (record->kind == ROAMI_RECORD_COMMIT && record->serial == place->serial) {
		if (place->serial == recovery->is->serial + 1) {
			err = recovery_apply(recovery, place->serial, place->offset, record);
			recovery->is->serial = place->serial;
		}
		place->serial++;
	} else if (record->kind == ROAMI_RECORD_SEAL && record->serial == place->serial) {
		place->sealed = true;
	} else if (record->kind != ROAMI_RECORD_END || record->serial != place->serial - 1) {
		err = recovery_damaged(recovery, ROAMI_READ_BAD, place->offset);
	}
	place->ended = record->kind == ROAMI_RECORD_END;
	place->offset = roami_record_end(place->offset, record);
	return err;
}

/* Reads a log up to the commit before `next`; UINT64_MAX: it is the last one. */
static enum roam_err log_read(struct recovery *recovery, uint64_t number, uint64_t next)
{
	struct log_place place = {sizeof(struct roami_file_head), number, number - 1,
				  sizeof(struct roami_file_head), false, false};
	enum roam_err err = recovery_open(recovery, false, number);
	const struct roami_record *record;
	bool last = next == UINT64_MAX;
	enum roami_read read;

	while (err == ROAM_OK && place.serial < next && !place.sealed &&
	       place.offset < recovery->reader.bytes) {
		read = roami_reader_record(&recovery->reader, place.offset, &record);
		if (read != ROAMI_READ_GOOD) {
			err = log_torn(recovery, &place, last, read);
			break;
		}
		err = log_record(recovery, &place, record);
	}
	if (err != ROAM_OK)
		return err;
	if (place.serial < next && place.sealed) {
		roami_file_name(recovery->name, false, place.serial);
		return recovery_fails(recovery, ROAM_EPROTO, "%s is missing", recovery->name);
	}
	if (place.serial < next && !last)
		return recovery_damaged(recovery, ROAMI_READ_BAD, place.offset);
	recovery->is->ended = place.ended && place.offset == recovery->reader.bytes;
	if (last && place.sure >= recovery->is->sure) {
		recovery->is->sure = place.sure;
		recovery->is->from = place.sure_end;
		recovery->is->to = place.offset;
	}
	return ROAM_OK;
}

/* The logs that hold what is not in the snapshot. */
static enum roam_err logs_read(struct recovery *recovery)
{
	const struct roami_store_files *files = &recovery->files;
	enum roam_err err = ROAM_OK;

	if (files->log_count == 0)
		return recovery_fails(recovery, ROAM_EPROTO, "the log behind %s is missing",
				      recovery->name);
	for (unsigned i = 0; i < files->log_count && err == ROAM_OK; i++) {
		bool last = i + 1 == files->log_count;
		uint64_t number = files->logs[i];
		uint64_t next = last ? UINT64_MAX : files->logs[i + 1];

		if (!last && next <= recovery->is->serial + 1)
			continue; /* all of it is in the snapshot */
		roami_file_name(recovery->name, false, number);
		if (number > recovery->is->serial + 1)
			return recovery_fails(recovery, ROAM_EPROTO,
					      "commits %" PRIu64 " to %" PRIu64
					      " are missing before %s",
					      recovery->is->serial + 1, number - 1,
					      recovery->name);
		roami_reader_close(&recovery->reader);
		err = log_read(recovery, number, next);
		recovery->is->log = number;
	}
	return err;
}

enum roam_err roami_store_recover(int directory, struct roami_store_state *state,
				  struct roami_recovered *recovered, char why[ROAMI_STORE_WHY])
{
	struct recovery recovery = {.directory = directory,
				    .state = state,
				    .is = recovered,
				    .reader = {.fd = -1},
				    .why = why};
	const struct roami_store_files *files = &recovery.files;
	enum roam_err err = ROAM_OK;

	*recovered = (struct roami_recovered){.ended = true};
	why[0] = '\0';
	if (!roami_files_list(&recovery.files, directory))
		err = recovery_fails(&recovery, ROAM_ESYSTEM, "the directory cannot be read: %s",
				     strerror(errno));
	if (err == ROAM_OK && files->snapshot_count > 0)
		err = snapshot_read(&recovery, files->snapshots[files->snapshot_count - 1]);
	if (err == ROAM_OK && files->snapshot_count + files->log_count > 0)
		err = logs_read(&recovery);
	roami_reader_close(&recovery.reader);
	roami_files_free(&recovery.files);
	return err;
}
