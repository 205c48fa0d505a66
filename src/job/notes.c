/*
 * While a process is alone it notes where the pages of its blocks are to live: the nodes are known
 * at CREATE only.  A program that allocates and frees for as long as it likes must not make notes
 * for ever, so those that mean nothing any more are dropped when the list is full.
 */
#include <string.h>

#include "job/job.h"

/* The bits of the pages of [page, end) in the word of `page`. */
static uint64_t pages_bits(uint32_t page, uint32_t end)
{
	uint32_t next = page / 64 * 64 + 64;
	uint64_t bits = UINT64_MAX << page % 64;

	return next > end ? bits & UINT64_MAX >> (next - end) : bits;
}

static bool pages_lack(const uint64_t *pages, const struct roami_placement *place)
{
	uint32_t end = place->page + place->pages;

	for (uint32_t page = place->page; page < end; page = page / 64 * 64 + 64)
		if ((~pages[page / 64] & pages_bits(page, end)) != 0)
			return true;
	return false;
}

static void pages_add(uint64_t *pages, const struct roami_placement *place)
{
	uint32_t end = place->page + place->pages;

	for (uint32_t page = place->page; page < end; page = page / 64 * 64 + 64)
		pages[page / 64] |= pages_bits(page, end);
}

/* Drops notes all of whose pages later blocks have taken.  An option stays until the next one. */
static void notes_drop_old(struct roami_vec *vec, uint64_t *blocks, uint64_t *options)
{
	struct roami_note *notes = (void *)vec->items;
	size_t kept = vec->count;

	for (size_t i = vec->count; i-- > 0;) {
		const struct roami_note note = notes[i];

		if (pages_lack(blocks, &note.place) ||
		    (note.place.option != 0 && pages_lack(options, &note.place)))
			notes[--kept] = note;
		if (note.block)
			pages_add(blocks, &note.place);
		if (note.place.option != 0)
			pages_add(options, &note.place);
	}
	vec->count -= kept;
	memmove(notes, notes + kept, vec->count * sizeof(*notes));
}

/* Drops hints for pages that have homes by earlier notes: the first one counts. */
static void notes_drop_late(struct roami_vec *vec, uint64_t *homes)
{
	struct roami_note *notes = (void *)vec->items;
	size_t kept = 0;

	for (size_t i = 0; i < vec->count; i++) {
		const struct roami_note note = notes[i];

		if (note.block || pages_lack(homes, &note.place))
			notes[kept++] = note;
		if (note.place.policy != ROAM_PLACE_FIRST_TOUCH)
			pages_add(homes, &note.place);
	}
	vec->count = kept;
}

static void notes_drop(struct roami_job *job)
{
	size_t bytes = (job->layout.pages / 64u + 1) * sizeof(uint64_t);
	uint64_t *pages = roami_os_reserve_sparse(3 * bytes);

	if (pages == NULL)
		return;
	notes_drop_old(&job->notes, pages, pages + bytes / sizeof(*pages));
	notes_drop_late(&job->notes, pages + 2 * bytes / sizeof(*pages));
	roami_os_unmap(pages, 3 * bytes);
}

/* Room for one more; NULL: no memory.  So much that the next search for old ones is far away. */
static struct roami_note *notes_grow(struct roami_job *job)
{
	struct roami_vec *notes = &job->notes;
	size_t more = 1;

	if (notes->count > 0 && notes->count == notes->capacity) {
		notes_drop(job);
		if (notes->count > notes->capacity / 2)
			more = notes->capacity - notes->count + 1;
	}
	return roami_os_vec_grow(notes, sizeof(struct roami_note), more);
}

enum roam_err roami_notes_add(struct roami_job *job, const struct roami_placement *place,
			      bool block)
{
	struct roami_note *note;

	pthread_mutex_lock(&job->opening);
	note = notes_grow(job);
	if (note != NULL) {
		*note = (struct roami_note){*place, block};
		job->notes.count++;
	}
	pthread_mutex_unlock(&job->opening);
	return note != NULL ? ROAM_OK : ROAM_ENOMEM;
}
