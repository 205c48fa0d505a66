#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"

#define WINDOW ((size_t)2 << 20)

_Static_assert(sizeof(struct roami_file_head) % 8 == 0 && sizeof(struct roami_record) == 32,
	       "no padding");

static uint64_t head_check(const struct roami_file_head *head)
{
	return XXH3_64bits(head, offsetof(struct roami_file_head, check));
}

void roami_file_head_make(struct roami_file_head *head, const char *magic,
			  const uint8_t store[16], uint64_t heap_bytes, uint64_t heap_at,
			  uint64_t number)
{
	*head = (struct roami_file_head){.heap_bytes = heap_bytes,
					 .heap_at = heap_at,
					 .page_bytes = ROAMI_STORE_PAGE,
					 .seed = roami_os_random(),
					 .number = number};
	memcpy(head->magic, magic, sizeof(head->magic));
	memcpy(head->store, store, sizeof(head->store));
	head->check = head_check(head);
}

static uint64_t record_check(const struct roami_record *record, uint64_t seed)
{
	return XXH3_64bits_withSeed(&record->serial,
				    sizeof(*record) - sizeof(record->check) + record->bytes, seed);
}

void roami_record_close(struct roami_record *record, uint64_t seed)
{
	record->check = record_check(record, seed);
}

void roami_file_name(char name[ROAMI_FILE_NAME], bool snapshot, uint64_t number)
{
	snprintf(name, ROAMI_FILE_NAME, "%s.%016" PRIx64, snapshot ? "snap" : "log", number);
}

bool roami_file_number(const char *name, bool snapshot, uint64_t *number_p)
{
	const char *digits = strchr(name, '.');
	char again[ROAMI_FILE_NAME];

	if (digits == NULL)
		return false;
	*number_p = strtoull(digits + 1, NULL, 16);
	roami_file_name(again, snapshot, *number_p);
	return strcmp(name, again) == 0;
}

/* -------------------------------------------------------------------------------------- reading */

/* Reads so many bytes at the offset into the window, and more if there are. */
static enum roami_read reader_fill(struct roami_reader *reader, uint64_t offset, size_t bytes)
{
	size_t room = bytes > WINDOW ? bytes : WINDOW;
	uint8_t *grown;

	reader->window_bytes = 0;
	if (room > reader->window_room) {
		grown = realloc(reader->window, room);
		if (grown == NULL)
			return ROAMI_READ_ERROR;
		reader->window = grown;
		reader->window_room = room;
	}
	reader->window_at = offset;
	while (reader->window_bytes < room) {
		ssize_t got = pread(reader->fd, reader->window + reader->window_bytes,
				    room - reader->window_bytes,
				    (off_t)(offset + reader->window_bytes));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return ROAMI_READ_ERROR;
		if (got == 0)
			break;
		reader->window_bytes += (size_t)got;
	}
	return reader->window_bytes >= bytes ? ROAMI_READ_GOOD : ROAMI_READ_BAD;
}

static enum roami_read reader_at(struct roami_reader *reader, uint64_t offset, size_t bytes,
				 const uint8_t **at_p)
{
	enum roami_read read = ROAMI_READ_GOOD;

	if (offset > reader->bytes || bytes > reader->bytes - offset)
		return ROAMI_READ_BAD;
	if (offset < reader->window_at ||
	    offset + bytes > reader->window_at + reader->window_bytes)
		read = reader_fill(reader, offset, bytes);
	*at_p = reader->window + (offset - reader->window_at);
	return read;
}

enum roami_read roami_reader_open(struct roami_reader *reader, int directory, const char *name,
				  const char *magic, uint64_t number)
{
	const struct roami_file_head *head = &reader->head;
	const uint8_t *at;
	enum roami_read read;
	struct stat is;

	*reader = (struct roami_reader){
		.fd = roami_os_fd(openat(directory, name,
					 O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK))};
	if (reader->fd < 0 || fstat(reader->fd, &is) != 0)
		return ROAMI_READ_ERROR;
	if (!S_ISREG(is.st_mode))
		return ROAMI_READ_BAD;
	reader->bytes = (uint64_t)is.st_size;
	(void)posix_fadvise(reader->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	read = reader_at(reader, 0, sizeof(reader->head), &at);
	if (read != ROAMI_READ_GOOD)
		return read;
	memcpy(&reader->head, at, sizeof(reader->head));
	return memcmp(head->magic, magic, sizeof(head->magic)) == 0 &&
			       head->check == head_check(head) && head->number == number &&
			       head->page_bytes == ROAMI_STORE_PAGE &&
			       head->heap_bytes <= ROAMI_STORE_HEAP_MAX &&
			       head->heap_bytes % ROAMI_STORE_PAGE == 0
		       ? ROAMI_READ_GOOD
		       : ROAMI_READ_BAD;
}

void roami_reader_close(struct roami_reader *reader)
{
	if (reader->fd >= 0)
		close(reader->fd);
	reader->fd = -1;
	free(reader->window);
	reader->window = NULL;
	reader->window_bytes = reader->window_room = 0;
}

static bool record_sane(const struct roami_record *record)
{
	return record->kind >= ROAMI_RECORD_COMMIT && record->kind <= ROAMI_RECORD_SEAL &&
	       record->bytes <= ROAMI_STORE_COMMIT_MAX && record->bytes % 8 == 0;
}

enum roami_read roami_reader_record(struct roami_reader *reader, uint64_t offset,
				    const struct roami_record **record_p)
{
	const struct roami_record *record;
	enum roami_read read;
	const uint8_t *at;

	read = reader_at(reader, offset, sizeof(*record), &at);
	if (read != ROAMI_READ_GOOD)
		return read;
	record = (const void *)at;
	if (!record_sane(record))
		return ROAMI_READ_BAD;
	read = reader_at(reader, offset, sizeof(*record) + record->bytes, &at);
	if (read != ROAMI_READ_GOOD)
		return read;
	record = (const void *)at;
	*record_p = record;
	return record->check == record_check(record, reader->head.seed) ? ROAMI_READ_GOOD
									 : ROAMI_READ_BAD;
}

enum roami_read roami_reader_vouches(struct roami_reader *reader, uint64_t offset, uint64_t serial,
				     bool *vouches_p)
{
	const struct roami_record *record;
	enum roami_read read = ROAMI_READ_BAD;
	struct roami_record head;
	const uint8_t *at;

	*vouches_p = false;
	for (; !*vouches_p && offset + sizeof(head) <= reader->bytes; offset += 8) {
		read = reader_at(reader, offset, sizeof(head), &at);
		if (read == ROAMI_READ_ERROR)
			return read;
		memcpy(&head, at, sizeof(head));
		if (!record_sane(&head) || head.durable < serial || head.serial < serial ||
		    head.serial - serial > reader->bytes)
			continue;
		read = roami_reader_record(reader, offset, &record);
		if (read == ROAMI_READ_ERROR)
			return read;
		*vouches_p = read == ROAMI_READ_GOOD && record->durable >= serial;
	}
	return ROAMI_READ_GOOD;
}
