#include "job/shared.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "job/job.h"
#include "os/os.h"
#include "page/race.h"

#define NOTE_NAME "roam" /* name of the notes of ROAM_SHARED, see roam.h */
#define NOTE_TYPE 1u

/* ------------------------------------------------------------------------------------ the notes */

/* The state of a search through the loaded objects. */
struct shared_search {
	struct roami_shared *shared;
	const char *object; /* the name of the object that is searched; "" is the program */
	enum roam_err err;
};

static bool shared_known(const struct roami_shared *shared, const uint8_t *begin)
{
	for (unsigned i = 0; i < shared->found; i++)
		if (shared->statics.of[i].app == begin)
			return true;
	return false;
}

static enum roam_err shared_refuse(const char *object, const char *why)
{
	fprintf(stderr, "roam: ROAM_SHARED in %s: %s\n",
		object[0] != '\0' ? object : "the program", why);
	return ROAM_EUNSUPPORTED;
}

/* Keeps a library loaded: other mappings would take the place of an unloaded library. */
static void *shared_stay(const char *object)
{
	if (object[0] == '\0')
		return NULL;
	return dlopen(object, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static enum roam_err shared_add(struct roami_shared *shared, const char *object, uint8_t *begin,
				const uint8_t *end)
{
	size_t bytes = (size_t)(end - begin);

	if (begin >= end || shared_known(shared, begin))
		return ROAM_OK;
	if (((uintptr_t)begin | bytes) % ROAMI_PAGE != 0)
		return shared_refuse(object,
				     "its statics share a page with others (was it linked with "
				     "-flto? then without, or with -flto-partition=one)");
	if (shared->found == ROAMI_ALIASES_MAX)
		return shared_refuse(object, "too many libraries have such statics");
	shared->library[shared->found] = shared_stay(object);
	shared->statics.of[shared->found++] =
		(struct roami_alias){begin, 0, (uint32_t)(bytes / ROAMI_PAGE)};
	return ROAM_OK;
}

/* A note has two distances, each counted from its own place: to the section's beginning and end. */
static void shared_note(struct shared_search *search, uint8_t *words)
{
	int32_t begin, end;

	memcpy(&begin, words, sizeof(begin));
	memcpy(&end, words + sizeof(begin), sizeof(end));
	if (search->err == ROAM_OK)
		search->err = shared_add(search->shared, search->object, words + begin,
					 words + sizeof(begin) + end);
}

static void shared_notes(struct shared_search *search, uint8_t *at, size_t bytes, size_t align)
{
	size_t round = align == 8 ? 7 : 3;

	while (bytes >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr head;
		size_t name, words, size;

		memcpy(&head, at, sizeof(head));
		name = sizeof(head);
		words = (name + head.n_namesz + round) & ~round;
		size = (words + head.n_descsz + round) & ~round;
		if (words > bytes || head.n_descsz > bytes - words)
			return;
		if (head.n_type == NOTE_TYPE && head.n_namesz == sizeof(NOTE_NAME) &&
		    memcmp(at + name, NOTE_NAME, sizeof(NOTE_NAME)) == 0 &&
		    head.n_descsz == 2 * sizeof(int32_t))
			shared_note(search, at + words);
		at += size < bytes ? size : bytes;
		bytes -= size < bytes ? size : bytes;
	}
}

static int shared_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct shared_search *search = arg;

	(void)bytes;
	search->object = info->dlpi_name != NULL ? info->dlpi_name : "";
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *head = &info->dlpi_phdr[i];

		if (head->p_type == PT_NOTE)
			shared_notes(search,
				     (uint8_t *)(info->dlpi_addr + head->p_vaddr), /* NOLINT */
				     head->p_memsz, head->p_align);
	}
	return search->err != ROAM_OK;
}

/* ----------------------------------------------------------------------------------- copies */

/* The variables that the program has copied from its libraries at its start (copy relocations). */
struct shared_copies {
	const uint8_t *base;
	const Elf64_Rela *relocations;
	size_t count;
	const Elf64_Sym *symbols;
	const char *names;
};

/* The address of a table; the dynamic linker may have relocated the value already. */
static const void *copies_at(const struct shared_copies *copies, uint64_t value)
{
	if (value < (uintptr_t)copies->base)
		return copies->base + value;
	return (const void *)value; /* NOLINT: an address */
}

static void copies_read(struct shared_copies *copies, const Elf64_Dyn *entry)
{
	for (; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_RELA)
			copies->relocations = copies_at(copies, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_RELASZ)
			copies->count = entry->d_un.d_val / sizeof(Elf64_Rela);
		else if (entry->d_tag == DT_SYMTAB)
			copies->symbols = copies_at(copies, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_STRTAB)
			copies->names = copies_at(copies, entry->d_un.d_ptr);
}

/* The first object is the program. */
static int copies_find(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct shared_copies *copies = arg;

	(void)bytes;
	copies->base = (const uint8_t *)info->dlpi_addr; /* NOLINT: an address */
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			copies_read(copies, (const void *)(copies->base +
							   info->dlpi_phdr[i].p_vaddr));
	return 1;
}

/* Whether the variable is in a library's section that goes into the heap. */
static bool shared_is(const struct roami_shared *shared, const char *name)
{
	for (unsigned i = 0; i < shared->found; i++) {
		const struct roami_alias *alias = &shared->statics.of[i];
		const uint8_t *at = NULL;

		if (shared->library[i] != NULL)
			at = dlsym(shared->library[i], name);
		if (at >= alias->app && at < alias->app + (size_t)alias->count * ROAMI_PAGE)
			return true;
	}
	return false;
}

/*
 * Refuses programs linked to copy a library's variable: the library then uses the copy as well,
 * which is in no section of ours.
 */
static enum roam_err shared_check_copies(const struct roami_shared *shared)
{
	struct shared_copies copies = {.count = 0};

	dl_iterate_phdr(copies_find, &copies);
	for (size_t i = 0; copies.names != NULL && i < copies.count; i++) {
		const Elf64_Rela *one = &copies.relocations[i];
		const char *name;

		if (ELF64_R_TYPE(one->r_info) != R_X86_64_COPY)
			continue;
		name = copies.names + copies.symbols[ELF64_R_SYM(one->r_info)].st_name;
		if (!shared_is(shared, name))
			continue;
		fprintf(stderr,
			"roam: ROAM_SHARED %s of a library is used by the program itself: use it "
			"through a function or a pointer, or compile the program with -fPIC\n",
			name);
		return ROAM_EUNSUPPORTED;
	}
	return ROAM_OK;
}

enum roam_err roami_shared_find(struct roami_job *job)
{
	struct shared_search search = {.shared = &job->shared, .err = ROAM_OK};
	unsigned found = job->shared.found;

	dl_iterate_phdr(shared_object, &search);
	if (search.err == ROAM_OK && job->shared.found > found)
		search.err = shared_check_copies(&job->shared);
	return search.err;
}

/* ------------------------------------------------------------------------------- in the heap */

static size_t shared_bytes(const struct roami_alias *alias)
{
	return (size_t)alias->count * ROAMI_PAGE;
}

static enum roam_err shared_map(struct roami_job *job, unsigned node,
				const struct roami_alias *alias)
{
	size_t bytes = shared_bytes(alias);
	uint64_t offset = job->layout.heap + (uint64_t)alias->first * ROAMI_PAGE;

	if (mmap(alias->app, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
		 job->fds[node], (off_t)offset) == MAP_FAILED)
		return roami_job_says(job, ROAM_ESYSTEM, "cannot map the statics of ROAM_SHARED");
	roami_os_dontfork(alias->app, bytes);
	return ROAM_OK;
}

/* Every page of the block gets its bytes, zeroes too: no hole of the segment is left under it. */
static enum roam_err shared_move(struct roami_job *job, struct roami_alias *alias)
{
	static const struct roam_region anywhere = {.place = ROAM_PLACE_FIRST_TOUCH,
						    .name = "ROAM_SHARED"};
	enum roam_err err;
	uint8_t *block = roami_job_alloc(job, shared_bytes(alias), &anywhere, &err);

	if (block == NULL)
		return roami_job_says(job, err, "no room in the heap for statics of ROAM_SHARED");
	roami_assert((uintptr_t)block % ROAMI_PAGE == 0);
	memcpy(block, alias->app, shared_bytes(alias));
	alias->first = (uint32_t)((uint64_t)(block - job->app) / ROAMI_PAGE);
	return shared_map(job, job->me, alias);
}

/* For reports: each variable that was moved is a block of its own; else the section is one. */
static void shared_name(struct roami_job *job, const struct roami_image *image,
			const struct roami_alias *alias)
{
	uint64_t first = (uint64_t)alias->first * ROAMI_PAGE, bytes = shared_bytes(alias);
	bool any = false;

	for (size_t i = 0; i < image->count; i++) {
		const struct roami_static *one = &image->statics[i];

		if (one->at < alias->app || one->bytes > bytes ||
		    (uint64_t)(one->at - alias->app) > bytes - one->bytes)
			continue;
		roami_race_block(job->node, first + (uint64_t)(one->at - alias->app), one->bytes,
				 one->name, NULL, false);
		any = true;
	}
	if (!any)
		roami_race_block(job->node, first, bytes, "ROAM_SHARED", NULL, false);
}

static void shared_names(struct roami_job *job, unsigned first)
{
	const struct roami_shared *shared = &job->shared;
	struct roami_image image = {0};

	if ((job->options.check & ROAMI_CHECK_BLOCKS) == 0 || first == shared->statics.count)
		return;
	if (roami_image_read(&image) != NULL)
		image.count = 0;
	for (unsigned i = first; i < shared->statics.count; i++)
		shared_name(job, &image, &shared->statics.of[i]);
	roami_image_close(&image);
}

enum roam_err roami_shared_move(struct roami_job *job)
{
	struct roami_shared *shared = &job->shared;
	unsigned first = shared->statics.count;
	enum roam_err err = ROAM_OK;

	roami_assert(shared->statics.count == shared->found || job->nodes == 1);
	while (shared->statics.count < shared->found && err == ROAM_OK) {
		err = shared_move(job, &shared->statics.of[shared->statics.count]);
		if (err == ROAM_OK)
			shared->statics.count++;
	}
	shared_names(job, first);
	return err;
}

enum roam_err roami_shared_map(struct roami_job *job, unsigned node)
{
	enum roam_err err = ROAM_OK;

	for (unsigned i = 0; i < job->shared.statics.count && err == ROAM_OK; i++)
		err = shared_map(job, node, &job->shared.statics.of[i]);
	return err;
}

void roami_shared_reserve(const struct roami_job *job)
{
	for (unsigned i = 0; i < job->shared.statics.count; i++)
		(void)mmap(job->shared.statics.of[i].app,
			   shared_bytes(&job->shared.statics.of[i]), PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void roami_shared_save(struct roami_job *job)
{
	for (unsigned i = 0; i < job->shared.statics.count; i++) {
		const struct roami_alias *alias = &job->shared.statics.of[i];
		void *room = mmap(NULL, shared_bytes(alias), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (room == MAP_FAILED)
			continue;
		memcpy(room, alias->app, shared_bytes(alias));
		job->shared.saved[i] = room;
	}
}

void roami_shared_restore(struct roami_job *job)
{
	for (unsigned i = 0; i < job->shared.statics.count; i++) {
		const struct roami_alias *alias = &job->shared.statics.of[i];

		if (job->shared.saved[i] != NULL)
			(void)mremap(job->shared.saved[i], shared_bytes(alias), shared_bytes(alias),
				     MREMAP_MAYMOVE | MREMAP_FIXED, alias->app);
	}
	job->shared.statics.count = 0;
}

bool roami_shared_offset(const struct roami_job *job, const void *at, size_t bytes,
			 uint64_t *offset_p)
{
	for (unsigned i = 0; i < job->shared.statics.count; i++) {
		const struct roami_alias *alias = &job->shared.statics.of[i];
		uint64_t offset = (uint64_t)((const uint8_t *)at - alias->app);

		if ((const uint8_t *)at < alias->app || offset >= shared_bytes(alias) ||
		    bytes > shared_bytes(alias) - offset)
			continue;
		*offset_p = (uint64_t)alias->first * ROAMI_PAGE + offset;
		return true;
	}
	return false;
}

bool roami_shared_in(const struct roami_job *job, uint32_t first, uint32_t end)
{
	for (unsigned i = 0; i < job->shared.statics.count; i++) {
		const struct roami_alias *alias = &job->shared.statics.of[i];

		if (first < alias->first + alias->count && end > alias->first)
			return true;
	}
	return false;
}
