/*
 * Pointers in the heap to code or statics of the program that stored them.  The store has a list of
 * what that program had loaded, and where.  A program that has some of it elsewhere, or another
 * build, may use the store only if no word of the heap looks like an address there, or if it says
 * that it trusts them (ROAM_TRUST_POINTERS).
 */
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "job/job.h"

/* An object that is loaded: a program or a library. */
struct stored_object {
	uint64_t begin, end; /* addresses */
	uint64_t build;      /* of what is there */
};

_Static_assert(ROAMI_STORED_OBJECTS * sizeof(struct stored_object) <= ROAMI_STORE_VALUE_MAX,
	       "one value");

struct objects {
	uint32_t count;
	struct stored_object of[ROAMI_STORED_OBJECTS];
};

static uint64_t object_mix(uint64_t hash, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* By what the linker has written into it, and the length of its file. */
static uint64_t object_build(const struct dl_phdr_info *info)
{
	const char *path = info->dlpi_name[0] != '\0' ? info->dlpi_name : "/proc/self/exe";
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	struct stat file;

	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *head = &info->dlpi_phdr[i];

		if (head->p_type == PT_NOTE) /* NOLINTNEXTLINE: an address */
			hash = object_mix(hash, (const uint8_t *)(info->dlpi_addr + head->p_vaddr),
					  head->p_memsz);
	}
	if (stat(path, &file) == 0)
		hash = object_mix(hash, (const uint8_t *)&file.st_size, sizeof(file.st_size));
	return hash;
}

static int object_add(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct objects *objects = arg;
	struct stored_object object = {.begin = UINT64_MAX};

	(void)bytes;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *head = &info->dlpi_phdr[i];
		uint64_t begin = info->dlpi_addr + head->p_vaddr, end = begin + head->p_memsz;

		if (head->p_type != PT_LOAD)
			continue;
		object.begin = begin < object.begin ? begin : object.begin;
		object.end = end > object.end ? end : object.end;
	}
	if (object.end == 0 || objects->count == ROAMI_STORED_OBJECTS)
		return 0;
	object.build = object_build(info);
	objects->of[objects->count++] = object;
	return 0;
}

static void objects_find(struct objects *objects)
{
	objects->count = 0;
	dl_iterate_phdr(object_add, objects);
}

static bool objects_have(const struct objects *objects, const struct stored_object *object)
{
	for (uint32_t i = 0; i < objects->count; i++)
		if (memcmp(&objects->of[i], object, sizeof(*object)) == 0)
			return true;
	return false;
}

void roami_stored_program(struct roami_job *job)
{
	struct objects objects;

	objects_find(&objects);
	roami_stored_commit_name(job, ROAMI_STORED_PROGRAM, objects.of,
				 (uint32_t)(objects.count * sizeof(objects.of[0])));
}

bool roami_stored_foreign(struct roami_stored_foreign *foreign, const uint8_t *value, size_t bytes)
{
	struct stored_object object;
	struct objects objects;

	foreign->count = 0;
	if (bytes % sizeof(object) != 0 || bytes / sizeof(object) > ROAMI_STORED_OBJECTS)
		return false;
	objects_find(&objects);
	for (size_t at = 0; at < bytes; at += sizeof(object)) {
		memcpy(&object, value + at, sizeof(object));
		if (objects_have(&objects, &object))
			continue;
		foreign->begin[foreign->count] = object.begin;
		foreign->end[foreign->count++] = object.end;
	}
	return true;
}

uint64_t roami_stored_points(const struct roami_stored_foreign *foreign, const uint8_t *page)
{
	uint64_t words[ROAMI_PAGE / sizeof(uint64_t)];

	memcpy(words, page, ROAMI_PAGE);
	for (size_t i = 0; foreign->count > 0 && i < ROAMI_PAGE / sizeof(*words); i++)
		for (uint32_t k = 0; words[i] != 0 && k < foreign->count; k++)
			if (words[i] >= foreign->begin[k] && words[i] < foreign->end[k])
				return i * sizeof(*words) + 1;
	return 0;
}
