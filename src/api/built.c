/*
 * Calls that consist of others: those of POSIX threads and the C library that programs bring along
 * and roam has no object for.  Their state lies in the heap and is guarded by a lock of its
 * address, so that every protocol shows it (a writer's section of a reader-writer lock is a section
 * of that lock, under ScC too).  They are INSIDE as a whole: between its parts a call has the lock
 * or a place among those that wait, which a thread that left it there would never give up.
 */
#include <string.h>

#include "api/api.h"
#include "os/inside.h"
#include "roam/roam.h"
#include "sync/sync.h"

#define FOREVER UINT64_MAX /* as roami_api_lock has it */

/* Reports name the program's code, `from`, not this file's. */
static enum roam_err built_unblock(void *block, const char *call, const void *from)
{
	enum roam_err err = roami_api_free(block, from);

	return err != ROAM_ENOTOURS ? err
				    : roami_misused(roami_api_node_now(), ROAMI_MISUSE_FREE, err,
						    call, block, (const char *)from + 1);
}

void *roam_realloc(void *block, size_t old_bytes, size_t bytes)
{
	INSIDE;
	const char *from = (const char *)__builtin_return_address(0) - 1;
	void *moved;

	if (block == NULL)
		return roami_api_alloc(bytes, NULL, from);
	if (bytes == 0 || old_bytes == 0 || !roami_api_shared(block, old_bytes)) {
		roami_api_errno(roami_api_over()                    ? ROAM_ESTATE
				: bytes == 0 || old_bytes == 0 ? ROAM_EINVAL
								    : ROAM_ENOTOURS);
		return NULL;
	}
	moved = roami_api_alloc(bytes, NULL, from);
	if (moved == NULL)
		return NULL;
	memcpy(moved, block, old_bytes < bytes ? old_bytes : bytes);
	roami_api_errno(built_unblock(block, "roam_realloc", from));
	if (roam_errno() == ROAM_OK)
		return moved;
	roami_api_free(moved, from);
	return NULL;
}

/* The state of a built object must be shared: a static would be another one on each node. */
static enum roam_err built_shared(const void *state, size_t bytes, const char *call,
				  const void *caller, struct roami_node **node_p)
{
	uint64_t round;

	if (roami_api_over())
		return ROAM_ESTATE;
	return roami_api_shared(state, bytes)
		       ? roami_api_node(node_p, &round)
		       : roami_misused(roami_api_node_now(), ROAMI_MISUSE_PRIVATE, ROAM_ENOTOURS,
				       call, state, caller);
}

/* As built_shared, for a call that would wait for the thread itself. */
static enum roam_err built_free(const void *state, size_t bytes, const char *call,
				const void *caller)
{
	struct roami_node *node;
	enum roam_err err = built_shared(state, bytes, call, caller, &node);

	if (err != ROAM_OK || !roami_lock_held(node, (uint64_t)(uintptr_t)state))
		return err;
	return roami_misused(node, ROAMI_MISUSE_LOCK, ROAM_ESTATE, call, state, caller);
}

/* In the function that the program calls; SHARED sets its `node`. */
#define SHARED(state) \
	built_shared(state, sizeof(*(state)), __func__, __builtin_return_address(0), &node)
#define FREE(state) built_free(state, sizeof(*(state)), __func__, __builtin_return_address(0))

/*
 * With the lock, which waits that were cut off would leave to nobody: cancellation, and the signals
 * that are held back by now, wait for the end of the call, not only of the lock's.
 */
static void once_calls(void (*fn)(void))
{
	struct roami_inside call = roami_inside_aside();

	fn();
	roami_inside = call;
}

enum roam_err roam_once(uint32_t *once, void (*fn)(void))
{
	INSIDE;
	enum roam_err err = FREE(once);

	if (fn == NULL)
		return ROAM_EINVAL;
	if (err == ROAM_OK)
		err = roami_api_lock(once, FOREVER);
	if (err != ROAM_OK)
		return err;
	if (*once == 0) {
		once_calls(fn);
		*once = 1;
	}
	return roami_api_unlock(once);
}

/* -------------------------------------------------------------------------- reader-writer locks */

/* Where waiting readers and writers are told to look again. */
static const void *rw_readers(const struct roam_rwlock *rw)
{
	return &rw->readers;
}

static const void *rw_writers(const struct roam_rwlock *rw)
{
	return &rw->writers;
}

/* Of a lock that is shared. */
static enum roam_err rw_read(struct roam_rwlock *rw, uint64_t until_us)
{
	enum roam_err err = roami_api_lock(rw, until_us), left;

	if (err != ROAM_OK)
		return err;
	while (err == ROAM_OK && rw->writers != 0) {
		rw->waiting++;
		err = roami_api_cond_wait(rw_readers(rw), rw, until_us);
		rw->waiting--;
	}
	if (err == ROAM_ETIMEDOUT && rw->writers == 0)
		err = ROAM_OK;
	rw->readers += err == ROAM_OK;
	left = roami_api_unlock(rw);
	return err == ROAM_OK ? left : err;
}

enum roam_err roam_rdlock(struct roam_rwlock *rw)
{
	INSIDE;
	enum roam_err err = FREE(rw);

	return err == ROAM_OK ? rw_read(rw, FOREVER) : err;
}

enum roam_err roam_rdlock_until(struct roam_rwlock *rw, uint64_t until_us)
{
	INSIDE;
	enum roam_err err = FREE(rw);

	return err == ROAM_OK ? rw_read(rw, until_us) : err;
}

enum roam_err roam_tryrdlock(struct roam_rwlock *rw)
{
	INSIDE;
	struct roami_node *node;
	enum roam_err err = SHARED(rw);
	bool free;

	if (err == ROAM_OK)
		err = roami_api_trylock(rw);
	if (err != ROAM_OK)
		return err;
	free = rw->writers == 0;
	rw->readers += free;
	err = roami_api_unlock(rw);
	return err == ROAM_OK && !free ? ROAM_EBUSY : err;
}

/*
 * The writer keeps the lock: its section is one of it.  If it gives up, the readers that waited for
 * it alone go on.
 */
static enum roam_err rw_write(struct roam_rwlock *rw, uint64_t until_us)
{
	enum roam_err err = roami_api_lock(rw, until_us), left;

	if (err != ROAM_OK || rw->readers == 0)
		return err;
	rw->writers++;
	while (err == ROAM_OK && rw->readers != 0)
		err = roami_api_cond_wait(rw_writers(rw), rw, until_us);
	rw->writers--;
	if (err == ROAM_OK || (err == ROAM_ETIMEDOUT && rw->readers == 0))
		return ROAM_OK;
	if (rw->waiting != 0 && rw->writers == 0)
		roami_api_cond_broadcast(rw_readers(rw));
	left = roami_api_unlock(rw);
	return left == ROAM_OK ? err : left;
}

enum roam_err roam_wrlock(struct roam_rwlock *rw)
{
	INSIDE;
	enum roam_err err = FREE(rw);

	return err == ROAM_OK ? rw_write(rw, FOREVER) : err;
}

enum roam_err roam_wrlock_until(struct roam_rwlock *rw, uint64_t until_us)
{
	INSIDE;
	enum roam_err err = FREE(rw);

	return err == ROAM_OK ? rw_write(rw, until_us) : err;
}

enum roam_err roam_trywrlock(struct roam_rwlock *rw)
{
	INSIDE;
	struct roami_node *node;
	enum roam_err err = SHARED(rw);

	if (err == ROAM_OK)
		err = roami_api_trylock(rw);
	if (err != ROAM_OK || rw->readers == 0)
		return err;
	err = roami_api_unlock(rw);
	return err == ROAM_OK ? ROAM_EBUSY : err;
}

static enum roam_err rw_unlock_reader(struct roam_rwlock *rw)
{
	enum roam_err err = roami_api_lock(rw, FOREVER), left;

	if (err != ROAM_OK)
		return err;
	err = rw->readers == 0 ? ROAM_ENOTHELD : ROAM_OK;
	rw->readers -= err == ROAM_OK;
	if (rw->readers == 0 && rw->writers != 0)
		roami_api_cond_broadcast(rw_writers(rw));
	left = roami_api_unlock(rw);
	return err == ROAM_OK ? left : err;
}

enum roam_err roam_rwunlock(struct roam_rwlock *rw)
{
	INSIDE;
	struct roami_node *node;
	enum roam_err err = SHARED(rw);

	if (err != ROAM_OK)
		return err;
	if (!roami_lock_held(node, (uint64_t)(uintptr_t)rw)) {
		err = rw_unlock_reader(rw);
		return err != ROAM_ENOTHELD
			       ? err
			       : roami_misused(node, ROAMI_MISUSE_UNLOCK, err, __func__, rw,
					       __builtin_return_address(0));
	}
	if (rw->waiting != 0 && rw->writers == 0)
		roami_api_cond_broadcast(rw_readers(rw));
	return roami_api_unlock(rw);
}
