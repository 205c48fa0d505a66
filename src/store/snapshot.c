#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"
#include "store/log.h"

#define WRITE_AHEAD ((uint64_t)8 << 20)

struct snapshot {
	struct roami_disk *disk;
	const struct roami_file_head *head;
	int fd;
	uint64_t bytes, begun; /* written; of these on their way to the disk */
	uint64_t chunks;
};

static bool snapshot_put(struct snapshot *snapshot, uint8_t *room, uint32_t kind, size_t bytes)
{
	struct roami_record *record = (void *)room;
	struct iovec part = {room, sizeof(*record) + bytes};

	*record = (struct roami_record){.serial = snapshot->chunks++,
					.durable = snapshot->head->number,
					.bytes = (uint32_t)bytes,
					.kind = kind};
	roami_record_close(record, snapshot->head->seed);
	if (!roami_disk_write(snapshot->disk, snapshot->fd, snapshot->bytes, &part, 1))
		return false;
	snapshot->bytes += sizeof(*record) + bytes;
	if (snapshot->bytes - snapshot->begun >= WRITE_AHEAD) {
		(void)sync_file_range(snapshot->fd, (off_t)snapshot->begun,
				      (off_t)(snapshot->bytes - snapshot->begun),
				      SYNC_FILE_RANGE_WRITE);
		snapshot->begun = snapshot->bytes;
	}
	return true;
}

static bool snapshot_fill(struct snapshot *snapshot, const struct roami_store_state *state,
			  uint8_t *room)
{
	const struct roami_store_counts counts = {state->pages, state->name_count};
	uint8_t *entries = room + sizeof(struct roami_record);
	size_t left = ROAMI_SNAPSHOT_ROOM - sizeof(struct roami_record), bytes;
	uint32_t end = roami_state_heap_pages(state), at = 0;

	while (at < end) {
		bytes = roami_state_pages(state, 0, at, end, entries, left, &at);
		if (bytes > 0 && !snapshot_put(snapshot, room, ROAMI_RECORD_CHUNK, bytes))
			return false;
	}
	for (at = 0; at != UINT32_MAX;) {
		bytes = roami_state_names(state, at, entries, left, &at);
		if (bytes > 0 && !snapshot_put(snapshot, room, ROAMI_RECORD_CHUNK, bytes))
			return false;
	}
	memcpy(entries, &counts, sizeof(counts));
	return snapshot_put(snapshot, room, ROAMI_RECORD_END, sizeof(counts));
}

static void snapshot_names(uint64_t serial, char name[ROAMI_FILE_NAME],
			   char part[ROAMI_FILE_NAME + 8])
{
	roami_file_name(name, true, serial);
	snprintf(part, ROAMI_FILE_NAME + 8, "%s.part", name);
}

bool roami_snapshot_write(int directory, struct roami_disk *disk,
			  const struct roami_store_state *state, const struct roami_file_head *head,
			  uint8_t *room)
{
	struct snapshot snapshot = {.disk = disk, .head = head, .bytes = sizeof(*head)};
	char name[ROAMI_FILE_NAME], part[ROAMI_FILE_NAME + 8];
	struct roami_file_head copy = *head;
	struct iovec bytes = {&copy, sizeof(copy)};
	bool good;
	int err;

	snapshot_names(head->number, name, part);
	snapshot.fd = roami_os_fd(openat(directory, part,
					 O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
					 0600));
	good = snapshot.fd >= 0 && roami_disk_write(disk, snapshot.fd, 0, &bytes, 1) &&
	       snapshot_fill(&snapshot, state, room) && roami_disk_sync(disk, snapshot.fd);
	err = errno;
	if (snapshot.fd >= 0)
		close(snapshot.fd);
	errno = err;
	return good;
}

void roami_snapshot_drop(int directory, uint64_t serial)
{
	char name[ROAMI_FILE_NAME], part[ROAMI_FILE_NAME + 8];

	snapshot_names(serial, name, part);
	unlinkat(directory, part, 0);
}

static bool trim_one(int directory, bool snapshot, uint64_t number)
{
	char name[ROAMI_FILE_NAME];

	roami_file_name(name, snapshot, number);
	return unlinkat(directory, name, 0) == 0;
}

/* The oldest first: what is left is a snapshot, or logs that begin behind the newest one. */
static bool snapshot_trim(int directory, uint64_t serial)
{
	struct roami_store_files files;
	bool good = roami_files_list(&files, directory);

	for (unsigned i = 0; good && i + 1 < files.log_count && files.logs[i + 1] <= serial + 1;
	     i++)
		good = trim_one(directory, false, files.logs[i]);
	for (unsigned i = 0; good && i < files.snapshot_count && files.snapshots[i] < serial; i++)
		good = trim_one(directory, true, files.snapshots[i]);
	roami_files_free(&files);
	return good;
}

bool roami_snapshot_commit(int directory, struct roami_disk *disk, uint64_t serial)
{
	char name[ROAMI_FILE_NAME], part[ROAMI_FILE_NAME + 8];

	snapshot_names(serial, name, part);
	return roami_disk_rename(disk, directory, part, name) &&
	       snapshot_trim(directory, serial);
}
