#include "fault_rig.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

void rig_page_lock(struct rig *rig, uint32_t page)
{
	while (atomic_exchange(&rig->locks[page], 1) != 0)
		sched_yield();
}

void rig_page_unlock(struct rig *rig, uint32_t page)
{
	atomic_store(&rig->locks[page], 0);
}

enum roam_err rig_protect(struct rig *rig, uint32_t first, uint32_t count, enum roam_access from,
			  enum roam_access to)
{
	enum roam_err err = rig->engine->protect(rig->state, first, count, from, to);

	for (uint32_t page = first; err == ROAM_OK && page < first + count; page++)
		atomic_store(&rig->access[page], (uint8_t)to);
	return err;
}

void rig_fault(void *arg, uint32_t page, bool write, bool known)
{
	struct rig *rig = arg;
	enum roam_access from, want;
	enum roam_err err;

	atomic_store(&rig->last_stack, (uintptr_t)__builtin_frame_address(0));
	errno = EXDEV; /* must not show outside this file */
	atomic_fetch_add(&rig->faults, 1);
	atomic_store(&rig->last_page, page);
	atomic_store(&rig->last_write, write);
	atomic_store(&rig->last_known, known);
	rig_page_lock(rig, page);
	from = atomic_load(&rig->access[page]);
	want = (known ? write : from == ROAM_READ) ? ROAM_WRITE : ROAM_READ;
	if (from >= want) { /* it has the access: again, as the kernel may have dropped the page */
		want = from;
		from = ROAM_NONE;
	}
	err = rig_protect(rig, page, 1, from, want);
	if (err != ROAM_OK) { /* otherwise it would fault for ever */
		fprintf(stderr, "%s: page %u: %s\n", rig->engine->name, page, strerror(errno));
		abort();
	}
	rig_page_unlock(rig, page);
}

bool rig_is_soft(const struct rig *rig)
{
	return strcmp(rig->engine->name, "soft") == 0;
}

uint8_t rig_load(struct rig *rig, size_t offset)
{
	uint8_t value;

	if (!rig_is_soft(rig))
		return *(volatile uint8_t *)(rig->view.app + offset);
	while (!roami_soft_load(rig->state, offset, &value, 1))
		rig_fault(rig, (uint32_t)(offset / PAGE), false, true);
	return value;
}

void rig_store(struct rig *rig, size_t offset, uint8_t value)
{
	if (!rig_is_soft(rig))
		*(volatile uint8_t *)(rig->view.app + offset) = value;
	else
		while (!roami_soft_store(rig->state, offset, &value, 1))
			rig_fault(rig, (uint32_t)(offset / PAGE), true, true);
}

uint32_t rig_faults(struct rig *rig)
{
	return atomic_exchange(&rig->faults, 0);
}

uint32_t rig_write_faults(const struct rig *rig)
{
	return atomic_load(&rig->last_known) ? 1 : 2;
}

static void rig_unmap(struct rig *rig)
{
	roami_os_unmap(rig->view.app, rig->view.bytes);
	roami_os_unmap(rig->view.runtime, rig->view.bytes);
	roami_os_unmap((void *)rig->access, rig->pages);
	roami_os_unmap((void *)rig->locks, rig->pages * sizeof(*rig->locks));
	close(rig->view.fd);
	free(rig->state);
}

enum roam_err rig_open(struct rig *rig, const struct roami_fault_engine *engine, uint32_t pages)
{
	memset(rig, 0, sizeof(*rig));
	rig->engine = engine;
	rig->pages = pages;
	rig->state = calloc(1, engine->state_size);
	rig->access = roami_os_reserve(pages);
	rig->locks = roami_os_reserve(pages * sizeof(*rig->locks));
	rig->view.bytes = pages * PAGE;
	rig->view.fd = roami_os_memfd("fault-test", rig->view.bytes);
	rig->view.app = roami_os_map_fd(NULL, rig->view.bytes, rig->view.fd, 0);
	rig->view.runtime = roami_os_map_fd(NULL, rig->view.bytes, rig->view.fd, 0);
	if (rig->view.app == NULL || rig->view.runtime == NULL)
		abort();
	roami_os_dontfork(rig->view.app, rig->view.bytes);
	roami_os_dontfork(rig->view.runtime, rig->view.bytes);
	atomic_store(&rig->last_known, true);
	return engine->open(rig->state, &rig->view, rig_fault, rig);
}

void rig_close(struct rig *rig)
{
	CU_ASSERT_EQUAL(atomic_load(&rig->errors), 0);
	rig->engine->close(rig->state);
	rig_unmap(rig);
}

/* Whether userfaultfd is forbidden here ("userfaultfd: EPERM"), or the kernel is too old for it. */
static bool engine_may_fail(const char *why)
{
	unsigned major = 0, minor = 0;
	struct utsname name;

	if (strncmp(why, "userfaultfd: ", 13) == 0)
		return true;
	return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major < 6 || (major == 6 && minor < 4));
}

bool rig_engine_usable(const struct roami_fault_engine *engine)
{
	char why[160] = "";

	if (WITH_TSAN && strcmp(engine->name, "soft") != 0) {
		unit_skip(engine->name, "page faults under ThreadSanitizer");
		return false;
	}
	if (engine->probe(why, sizeof(why)))
		return true;
	unit_skip(engine->name, why);
	CU_ASSERT(engine_may_fail(why));
	return false;
}

void rig_each_engine(uint32_t pages, bool signals, void (*test)(struct rig *rig))
{
	for (size_t i = 0; roami_fault_engines[i] != NULL; i++) {
		struct rig rig;
		enum roam_err err;

		if (signals && strcmp(roami_fault_engines[i]->name, "soft") == 0)
			continue;
		if (!rig_engine_usable(roami_fault_engines[i]))
			continue;
		err = rig_open(&rig, roami_fault_engines[i], pages);
		CU_ASSERT_EQUAL(err, ROAM_OK);
		if (err == ROAM_OK)
			test(&rig);
		rig_close(&rig);
	}
}
