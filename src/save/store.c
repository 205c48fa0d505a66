#include "save/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "home/remote.h"
#include "job/job.h"
#include "roam/save.h"
#include "save/file.h"

#define MAGIC   "roam save 1\n"
#define CURRENT "current"
#define NEXT    "next"
#define HEAD    "head"
#define PAGES   "pages."

#define NUMBER_DIGITS 18u

static const uint8_t zero[ROAMI_PAGE];

/* ---------------------------------------------------------------------------------- the program */

struct program {
	uintptr_t at, first, end;
};

/* The first object is the program. */
static int program_look(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct program *program = arg;

	(void)bytes;
	*program = (struct program){info->dlpi_addr, UINTPTR_MAX, 0};
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		uintptr_t end = first + info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		program->first = first < program->first ? first : program->first;
		program->end = end > program->end ? end : program->end;
	}
	return 1;
}

static struct program program_find(void)
{
	struct program program;

	dl_iterate_phdr(program_look, &program);
	return program;
}

static uint64_t pointers_in(const struct program *program, const uint8_t *bytes, size_t count)
{
	const uint64_t *words = (const void *)bytes;
	uint64_t found = 0, span = program->end - program->first;

	for (size_t i = 0; i < count / 8; i++)
		found += words[i] - program->first < span;
	return found;
}

void roami_save_describe(struct roami_save_info *info, const struct roami_save_plan *plan)
{
	const struct roami_layout *layout = &plan->job->layout;

	*info = (struct roami_save_info){.magic = MAGIC,
					 .head_bytes = sizeof(*info),
					 .round = plan->job->rounds,
					 .nodes = plan->job->nodes,
					 .page_bytes = ROAMI_PAGE,
					 .heap_at = (uintptr_t)plan->job->app,
					 .heap_bytes = layout->heap_bytes,
					 .regions = layout->regions,
					 .region_pages = layout->region_pages,
					 .blocks = plan->hash,
					 .program = roami_save_hash_file("/proc/self/exe"),
					 .program_at = program_find().at};
}

/* --------------------------------------------------------------------------- the directories */

__attribute__((format(printf, 3, 4))) static enum roam_err
fails(struct roami_save_store *store, enum roam_err err, const char *format, ...)
{
	va_list list;
	int why = errno;
	size_t length;

	va_start(list, format);
	vsnprintf(store->why, sizeof(store->why), format, list);
	va_end(list);
	length = strlen(store->why);
	if (err == ROAM_ESYSTEM)
		snprintf(store->why + length, sizeof(store->why) - length, ": %s", strerror(why));
	else if (err == ROAM_EPROTO)
		snprintf(store->why + length, sizeof(store->why) - length,
			 " is damaged, or of another version of roam");
	return err == ROAM_EPROTO ? ROAM_ECHECKPOINT : err;
}

/* Something else is where the checkpoint would be. */
static enum roam_err taken(struct roami_save_store *store, const char *why)
{
	snprintf(store->why, sizeof(store->why), "%s", why);
	return ROAM_ESYSTEM;
}

static int open_directory(int in, const char *path)
{
	return roami_os_fd(openat(in, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/* A directory in another one, not what a link leads to. */
static int open_inside(int in, const char *name)
{
	return roami_os_fd(openat(in, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

static void number_name(char *name, size_t bytes, uint64_t number)
{
	snprintf(name, bytes, "%llu", (unsigned long long)number);
}

static void file_name(char *name, size_t bytes, unsigned node)
{
	snprintf(name, bytes, PAGES "%u", node);
}

/* The number that a name is; false: it is no checkpoint's. */
static bool number_parse(const char *name, uint64_t *number_p)
{
	size_t digits = strspn(name, "0123456789");

	if (digits == 0 || digits > NUMBER_DIGITS || name[digits] != '\0' || name[0] == '0')
		return false;
	*number_p = strtoull(name, NULL, 10);
	return true;
}

/* The number to which a link points; 0: there is none.  False: something else has its name. */
static bool link_number(int directory, const char *link, uint64_t *number_p)
{
	char name[NUMBER_DIGITS + 2];
	ssize_t length = readlinkat(directory, link, name, sizeof(name) - 1);

	*number_p = 0;
	if (length < 0)
		return errno == ENOENT;
	name[length] = '\0';
	return number_parse(name, number_p);
}

/* The number of the last complete checkpoint; 0: there is none. */
static uint64_t current_number(int directory)
{
	uint64_t number;

	return link_number(directory, CURRENT, &number) ? number : 0;
}

/* Whether a checkpoint's directory may have an entry of this name. */
static bool file_ours(const char *name)
{
	uint64_t node;

	return strcmp(name, HEAD) == 0 || strcmp(name, PAGES "0") == 0 ||
	       (strncmp(name, PAGES, strlen(PAGES)) == 0 &&
		number_parse(name + strlen(PAGES), &node)) ||
	       strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Removes a checkpoint.  A directory, or what a link leads to, that has other files stays. */
static void remove_number(int directory, uint64_t number)
{
	char name[24];
	int fd;
	DIR *files;
	struct dirent *entry;
	bool ours = true;

	number_name(name, sizeof(name), number);
	fd = open_inside(directory, name);
	files = fd >= 0 ? fdopendir(fd) : NULL;
	if (files == NULL) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while (ours && (entry = readdir(files)) != NULL)
		ours = file_ours(entry->d_name);
	rewinddir(files);
	while (ours && (entry = readdir(files)) != NULL)
		if (entry->d_name[0] != '.')
			unlinkat(fd, entry->d_name, 0);
	closedir(files);
	if (ours)
		unlinkat(directory, name, AT_REMOVEDIR);
}

static enum roam_err checkpoint_open(struct roami_save_store *store, uint64_t number)
{
	struct stat is;
	char name[24];

	number_name(name, sizeof(name), number);
	store->at.number = number;
	store->checkpoint = open_inside(store->directory, name);
	if (store->checkpoint < 0 || fstat(store->checkpoint, &is) != 0)
		return fails(store, ROAM_ESYSTEM, "checkpoint %s", name);
	store->at.device = is.st_dev;
	store->at.inode = is.st_ino;
	return ROAM_OK;
}

/* Makes the directory if need be, opens it, and keeps other jobs from saving to it meanwhile. */
static enum roam_err directory_begin(struct roami_save_store *store, const char *path)
{
	bool made = mkdir(path, 0700) == 0;
	int above;

	if (!made && errno != EEXIST)
		return fails(store, ROAM_ESYSTEM, "directory");
	store->directory = open_directory(AT_FDCWD, path);
	if (store->directory < 0)
		return fails(store, ROAM_ESYSTEM, "directory");
	above = made ? open_directory(store->directory, "..") : -1;
	if (above >= 0) {
		fsync(above);
		close(above);
	}
	/* Some file systems have no such locks. */
	store->locked = flock(store->directory, LOCK_EX | LOCK_NB) == 0;
	if (!store->locked && errno == EWOULDBLOCK)
		return taken(store, "another job saves to it at this moment");
	return ROAM_OK;
}

enum roam_err roami_save_begin(struct roami_save_store *store, const char *path, uint64_t expected)
{
	enum roam_err err = directory_begin(store, path);
	uint64_t last;
	char name[24];

	if (err != ROAM_OK)
		return err;
	if (!link_number(store->directory, CURRENT, &last))
		return taken(store, "`" CURRENT "` in it is not a checkpoint's");
	if (expected != 0 && last != 0 && last != expected)
		return taken(store, "another job saves to it, too");
	number_name(name, sizeof(name), last + 1);
	remove_number(store->directory, last + 1); /* of a job that ended meanwhile */
	if (mkdirat(store->directory, name, 0700) != 0)
		return fails(store, ROAM_ESYSTEM, "checkpoint %s", name);
	return checkpoint_open(store, last + 1);
}

enum roam_err roami_save_join(struct roami_save_store *store, const char *path,
			      const struct roami_save_at *at)
{
	enum roam_err err;

	store->directory = open_directory(AT_FDCWD, path);
	if (store->directory < 0)
		return fails(store, ROAM_ESYSTEM, "directory");
	err = checkpoint_open(store, at->number);
	if (err == ROAM_OK && (store->at.device != at->device || store->at.inode != at->inode))
		err = taken(store, "it is not node 0's directory at all nodes: name it from / on");
	return err;
}

void roami_save_leave(struct roami_save_store *store)
{
	if (store->locked) /* a process that was forked meanwhile has it, too */
		flock(store->directory, LOCK_UN);
	if (store->checkpoint >= 0)
		close(store->checkpoint);
	if (store->directory >= 0)
		close(store->directory);
	store->checkpoint = store->directory = -1;
	store->locked = false;
}

void roami_save_abandon(struct roami_save_store *store)
{
	if (store->checkpoint >= 0 && current_number(store->directory) != store->at.number)
		remove_number(store->directory, store->at.number);
}

/* Lets the link point to the checkpoint, all of which is on the disk. */
static bool current_move(const struct roami_save_store *store, const char *name)
{
	uint64_t left; /* by a job that ended meanwhile; other files of this name stay */

	if (link_number(store->directory, NEXT, &left) && left != 0)
		unlinkat(store->directory, NEXT, 0);
	return fsync(store->checkpoint) == 0 && fsync(store->directory) == 0 &&
	       symlinkat(name, store->directory, NEXT) == 0 &&
	       renameat(store->directory, NEXT, store->directory, CURRENT) == 0 &&
	       fsync(store->directory) == 0;
}

enum roam_err roami_save_commit(struct roami_save_store *store, const struct roami_save_info *info,
				const uint64_t *states)
{
	uint64_t last = current_number(store->directory);
	size_t words = info->threads * roami_save_state_words(info) * 8;
	uint8_t *head = malloc(sizeof(*info) + words);
	char name[24];
	bool good;
	int why;

	if (head == NULL)
		return fails(store, ROAM_ENOMEM, "no memory");
	memcpy(head, info, sizeof(*info));
	if (words > 0)
		memcpy(head + sizeof(*info), states, words);
	good = roami_save_small(store->checkpoint, HEAD, head, sizeof(*info) + words);
	why = errno;
	free(head);
	errno = why;
	number_name(name, sizeof(name), store->at.number);
	if (!good || !current_move(store, name))
		return fails(store, ROAM_ESYSTEM, "checkpoint %s", name);
	if (last != 0)
		remove_number(store->directory, last);
	return ROAM_OK;
}

/* ------------------------------------------------------------------------------------ its pages */

/* The bytes of pages of this node, from the app view, or where no node has touched them yet. */
static void pages_read(const struct roami_save_plan *plan, uint32_t first, uint32_t pages,
		       uint8_t *bytes)
{
	const struct roami_job *job = plan->job;

	for (uint32_t i = 0; i < pages; i++) {
		uint8_t *to = bytes + i * ROAMI_PAGE;

		if (!roami_save_bit(plan->bare, first + i))
			memcpy(to, job->app + (uint64_t)(first + i) * ROAMI_PAGE, ROAMI_PAGE);
		else if (!roami_creator_copy(job->node, first + i, to))
			memset(to, 0, ROAMI_PAGE);
	}
}

static bool saves(const struct roami_save_plan *plan, uint32_t page)
{
	return page < plan->job->layout.pages && roami_save_bit(plan->mine, page);
}

/* The first page of this node in [page, end); `end`: none. */
static uint32_t next_mine(const struct roami_save_plan *plan, uint32_t page, uint32_t end)
{
	while (page < end) {
		uint64_t bits = plan->mine[page / 64] >> page % 64;

		page = bits != 0 ? page + (uint32_t)__builtin_ctzll(bits) : (page / 64 + 1) * 64;
		if (bits != 0)
			break;
	}
	return page < end ? page : end;
}

enum roam_err roami_save_pages(struct roami_save_store *store, struct roami_save_plan *plan,
			       struct roami_save_info *counts)
{
	struct program program = program_find();
	struct roami_save_file file;
	uint8_t *bytes = roami_os_reserve(ROAMI_SAVE_CHUNK * ROAMI_PAGE);
	uint32_t end = plan->job->layout.pages, page = next_mine(plan, 0, end), pages;
	char name[24];
	bool good;

	if (bytes == NULL)
		return fails(store, ROAM_ENOMEM, "no memory");
	file_name(name, sizeof(name), plan->job->me);
	good = roami_save_create(&file, store->checkpoint, name);
	for (; good && page < end; page = next_mine(plan, page + pages, end)) {
		for (pages = 1; pages < ROAMI_SAVE_CHUNK && saves(plan, page + pages);)
			pages++;
		pages_read(plan, page, pages, bytes);
		counts->pages += pages;
		counts->pointers += pointers_in(&program, bytes, pages * ROAMI_PAGE);
		good = roami_save_put(&file, page, pages, bytes);
	}
	good = good && roami_save_finish(&file);
	if (!good)
		fails(store, ROAM_ESYSTEM, "%s", name);
	roami_save_close(&file);
	roami_os_unmap(bytes, ROAMI_SAVE_CHUNK * ROAMI_PAGE);
	return good ? ROAM_OK : ROAM_ESYSTEM;
}

/* -------------------------------------------------------------------------------------- loading */

/* Whether a head that was read makes sense by itself. */
static bool info_good(const struct roami_save_info *info)
{
	return memcmp(info->magic, MAGIC, sizeof(MAGIC)) == 0 &&
	       info->head_bytes == sizeof(*info) && info->state_bytes <= ROAM_RESUME_BYTES_MAX &&
	       info->threads > 0 && info->threads <= ROAMI_NODES_MAX * 256u &&
	       info->nodes > 0 && info->nodes <= ROAMI_NODES_MAX && (info->writers & 1) != 0 &&
	       (info->nodes == 64 || info->writers >> info->nodes == 0);
}

enum roam_err roami_load_begin(struct roami_save_store *store, const char *path,
			       struct roami_save_info *info, uint64_t **states_p)
{
	enum roam_err err;
	uint64_t number;
	uint8_t *head;
	size_t words;

	*states_p = NULL;
	store->directory = open_directory(AT_FDCWD, path);
	if (store->directory < 0)
		return fails(store, ROAM_ESYSTEM, "directory");
	number = current_number(store->directory);
	if (number == 0)
		return fails(store, ROAM_ECHECKPOINT, "there is no complete checkpoint");
	err = checkpoint_open(store, number);
	if (err != ROAM_OK)
		return err;
	err = roami_save_peek(store->checkpoint, HEAD, info, sizeof(*info));
	if (err == ROAM_OK && !info_good(info))
		err = ROAM_EPROTO;
	if (err != ROAM_OK)
		return fails(store, err, "checkpoint %llu: %s", (unsigned long long)number, HEAD);
	words = info->threads * roami_save_state_words(info) * 8;
	head = malloc(sizeof(*info) + words);
	*states_p = malloc(words + 8);
	if (head == NULL || *states_p == NULL) {
		free(head);
		return fails(store, ROAM_ENOMEM, "no memory");
	}
	err = roami_save_read_small(store->checkpoint, HEAD, head, sizeof(*info) + words);
	memcpy(*states_p, head + sizeof(*info), words);
	free(head);
	return err == ROAM_OK ? err
			      : fails(store, err, "checkpoint %llu: %s",
				      (unsigned long long)number, HEAD);
}

enum roam_err roami_load_fits(struct roami_save_store *store, const struct roami_save_plan *plan,
			      const struct roami_save_info *info)
{
	struct roami_save_info here;

	roami_save_describe(&here, plan);
	if (here.page_bytes != info->page_bytes || here.heap_at != info->heap_at ||
	    here.heap_bytes != info->heap_bytes || here.regions != info->regions ||
	    here.region_pages != info->region_pages)
		return fails(store, ROAM_ECHECKPOINT, "the heap had another size (ROAM_HEAP)");
	if (here.program != info->program)
		return fails(store, ROAM_ECHECKPOINT, "another program, or build of it, was saved");
	if (here.blocks != info->blocks)
		return fails(store, ROAM_ECHECKPOINT,
			     "the heap has other blocks than were saved: the program has to make "
			     "the same ones before it loads");
	if (here.program_at != info->program_at && info->pointers > 0)
		return fails(store, ROAM_ECHECKPOINT,
			     "the heap has %llu pointers to the program, which lies elsewhere "
			     "now: save and load under `roam run` or `setarch -R`",
			     (unsigned long long)info->pointers);
	return ROAM_OK;
}

/* What is done with each chunk of a file; `bytes` has room for its pages, which it may leave. */
struct reader {
	struct roami_save_plan *plan;
	const struct roami_save_info *info;
	unsigned writer;
	uint64_t *saved; /* a bit for each page */
	uint64_t pages;  /* that were set in it, */
	uint64_t twice;  /* and set already */
	uint8_t *bytes;
};

typedef enum roam_err read_fn(struct reader *reader, struct roami_save_file *file,
			      const struct roami_save_head *head);

static enum roam_err read_file(struct roami_save_store *store, struct reader *reader, read_fn *each)
{
	struct roami_save_head head = {.pages = 1};
	struct roami_save_file file;
	enum roam_err err = ROAM_OK;
	char name[24];

	file_name(name, sizeof(name), reader->writer);
	if (!roami_save_open(&file, store->checkpoint, name))
		return fails(store, ROAM_ESYSTEM, "%s", name);
	while (err == ROAM_OK && head.pages > 0) {
		err = roami_save_next(&file, reader->plan->job->layout.pages, &head);
		if (err == ROAM_OK)
			err = each(reader, &file, &head);
	}
	if (err != ROAM_OK)
		err = fails(store, err, "%s", name);
	roami_save_close(&file);
	return err;
}

/* Every `of`th file, from the `from`th on. */
static enum roam_err read_files(struct roami_save_store *store, struct reader *reader,
				unsigned from, unsigned of, read_fn *each)
{
	enum roam_err err = ROAM_OK;
	unsigned turn = 0;

	roami_assert(of > 0);
	for (unsigned i = 0; i < reader->info->nodes && err == ROAM_OK; i++) {
		if ((reader->info->writers >> i & 1) == 0 || turn++ % of != from)
			continue;
		reader->writer = i;
		err = read_file(store, reader, each);
	}
	return err;
}

static enum roam_err verify_chunk(struct reader *reader, struct roami_save_file *file,
				  const struct roami_save_head *head)
{
	return roami_save_body(file, head, reader->bytes);
}

enum roam_err roami_load_verify(struct roami_save_store *store, struct roami_save_plan *plan,
				const struct roami_save_info *info, unsigned from, unsigned of)
{
	struct reader reader = {.plan = plan, .info = info,
				.bytes = roami_os_reserve(ROAMI_SAVE_CHUNK * ROAMI_PAGE)};
	enum roam_err err;

	if (reader.bytes == NULL)
		return fails(store, ROAM_ENOMEM, "no memory");
	err = read_files(store, &reader, from, of, verify_chunk);
	roami_os_unmap(reader.bytes, ROAMI_SAVE_CHUNK * ROAMI_PAGE);
	return err;
}

/* Pages that have no home yet get that of the node that saved them. */
static enum roam_err share_chunk(struct reader *reader, struct roami_save_file *file,
				 const struct roami_save_head *head)
{
	struct roami_save_plan *plan = reader->plan;
	struct roami_job *job = plan->job;
	bool heir = roami_save_heir(job, reader->writer, (unsigned)reader->info->nodes) == job->me;

	for (uint32_t page = head->first; page < head->first + head->pages; page++) {
		reader->pages++;
		reader->twice += roami_save_bit(reader->saved, page);
		roami_save_set(reader->saved, page);
		if (roami_save_bit(plan->used, page) && !roami_save_bit(plan->bare, page))
			continue;
		roami_save_clear(plan->mine, page);
		if (heir)
			roami_save_set(plan->mine, page);
	}
	return roami_save_skip(file, head);
}

/* Stores those bytes of a page that are a block's. */
static void page_store(const struct roami_save_plan *plan, uint32_t page, const uint8_t *bytes)
{
	uint8_t *to = plan->job->app + (uint64_t)page * ROAMI_PAGE;
	size_t grain = ROAMI_PAGE / 64;

	if (plan->live[page] == UINT64_MAX)
		memcpy(to, bytes, ROAMI_PAGE);
	else
		for (unsigned i = 0; i < 64; i++)
			if ((plan->live[page] >> i & 1) != 0)
				memcpy(to + i * grain, bytes + i * grain, grain);
}

static enum roam_err store_chunk(struct reader *reader, struct roami_save_file *file,
				 const struct roami_save_head *head)
{
	const struct roami_save_plan *plan = reader->plan;
	uint32_t end = head->first + head->pages;
	enum roam_err err;

	if (next_mine(plan, head->first, end) == end)
		return roami_save_skip(file, head);
	err = roami_save_body(file, head, reader->bytes);
	for (uint32_t page = head->first; err == ROAM_OK && page < end; page++)
		if (roami_save_bit(plan->mine, page))
			page_store(plan, page, reader->bytes + (page - head->first) * ROAMI_PAGE);
	return err;
}

enum roam_err roami_load_share(struct roami_save_store *store, struct roami_save_plan *plan,
			       const struct roami_save_info *info)
{
	struct reader reader = {.plan = plan, .info = info, .saved = plan->saved};
	enum roam_err err = read_files(store, &reader, 0, 1, share_chunk);

	if (err == ROAM_OK && (reader.pages != info->pages || reader.twice != 0))
		return fails(store, ROAM_ECHECKPOINT, "files of other checkpoints are in it");
	return err;
}

enum roam_err roami_load_pages(struct roami_save_store *store, struct roami_save_plan *plan,
			       const struct roami_save_info *info)
{
	struct reader reader = {.plan = plan, .info = info, .saved = plan->saved,
				.bytes = roami_os_reserve(ROAMI_SAVE_CHUNK * ROAMI_PAGE)};
	uint32_t end = plan->job->layout.pages;
	enum roam_err err;

	if (reader.bytes == NULL)
		return fails(store, ROAM_ENOMEM, "no memory");
	for (uint32_t page = next_mine(plan, 0, end); page < end;
	     page = next_mine(plan, page + 1, end))
		if (!roami_save_bit(plan->saved, page))
			page_store(plan, page, zero);
	err = read_files(store, &reader, 0, 1, store_chunk);
	roami_os_unmap(reader.bytes, ROAMI_SAVE_CHUNK * ROAMI_PAGE);
	return err;
}
