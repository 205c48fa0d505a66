#include "random_node.h"

#include <stdlib.h>

#include "base/marks.h"
#include "home/remote.h"
#include "sync/frees.h"
#include "sync/sync.h"

#define ID_BASE    0x7000000000u
#define KIND_BYTES 0x100000u

uint64_t random_node_id(enum random_object_kind kind, unsigned which)
{
	return ID_BASE + kind * KIND_BYTES + which * 8u;
}

static struct roami_node *member_node(void *self, const char *what, uint64_t number)
{
	struct random_member *member = self;

	if (member->doing != NULL)
		member->doing(self, what, number);
	return member->node;
}

static enum roam_err member_lock(void *self, unsigned lock)
{
	return roami_lock(member_node(self, "lock", lock), random_node_id(RANDOM_ID_LOCK, lock));
}

static enum roam_err member_lock_try(void *self, unsigned lock)
{
	return roami_lock_try(member_node(self, "try lock", lock),
			      random_node_id(RANDOM_ID_LOCK, lock));
}

static enum roam_err member_lock_within(void *self, unsigned lock, uint64_t ns)
{
	struct roami_node *node = member_node(self, "lock for a time", lock);

	return roami_lock_until(node, random_node_id(RANDOM_ID_LOCK, lock),
				node->env->now(node) + ns);
}

static enum roam_err member_unlock(void *self, unsigned lock)
{
	return roami_unlock(member_node(self, "unlock", lock),
			    random_node_id(RANDOM_ID_LOCK, lock));
}

static enum roam_err member_cond_wait(void *self, unsigned cond, unsigned lock)
{
	return roami_cond_wait(member_node(self, "cond wait", cond),
			       random_node_id(RANDOM_ID_COND, cond),
			       random_node_id(RANDOM_ID_LOCK, lock));
}

static enum roam_err member_cond_wait_within(void *self, unsigned cond, unsigned lock, uint64_t ns)
{
	struct roami_node *node = member_node(self, "cond wait for a time", cond);

	return roami_cond_wait_until(node, random_node_id(RANDOM_ID_COND, cond),
				     random_node_id(RANDOM_ID_LOCK, lock),
				     node->env->now(node) + ns);
}

static enum roam_err member_cond_post(void *self, unsigned cond, bool all)
{
	return roami_cond_post(member_node(self, "cond post", cond),
			       random_node_id(RANDOM_ID_COND, cond), all);
}

static enum roam_err member_flag_set(void *self, unsigned flag)
{
	return roami_flag_set(member_node(self, "flag set", flag),
			      random_node_id(RANDOM_ID_FLAG, flag));
}

static enum roam_err member_flag_wait(void *self, unsigned flag)
{
	return roami_flag_wait(member_node(self, "flag wait", flag),
			       random_node_id(RANDOM_ID_FLAG, flag));
}

static enum roam_err member_flag_clear(void *self, unsigned flag)
{
	return roami_flag_clear(member_node(self, "flag clear", flag),
				random_node_id(RANDOM_ID_FLAG, flag));
}

static enum roam_err member_barrier(void *self, unsigned barrier, unsigned threads)
{
	return roami_barrier(member_node(self, "barrier", barrier),
			     random_node_id(RANDOM_ID_BARRIER, barrier), threads);
}

static enum roam_err member_reduce(void *self, void *values, unsigned count, enum roam_type type,
				   enum roam_op op)
{
	return roami_reduce(member_node(self, "reduce", count), values, count, type, op);
}

/* -------------------------------------------------------------------------------------- blocks */

void random_slices_open(struct random_slices *slices, unsigned nodes, uint64_t first, uint64_t each)
{
	slices->nodes = nodes;
	slices->first = first;
	slices->each = each;
	for (unsigned i = 0; i < nodes; i++) {
		if (roami_alloc_open(&slices->allocs[i], first + i * each, first + (i + 1) * each,
				     true) != ROAM_OK)
			abort();
		roami_alloc_seal(slices->allocs[i]);
	}
}

void random_slices_close(struct random_slices *slices)
{
	for (unsigned i = 0; i < slices->nodes; i++)
		roami_alloc_close(slices->allocs[i]);
}

static void member_take_back(void *arg, const struct roami_remote_free *block)
{
	if (roami_alloc_give(arg, block->offset) != ROAM_OK)
		abort();
}

/* Allocates as roam_alloc does. */
static enum roam_err member_alloc(void *self, size_t bytes, uint64_t *offset_p)
{
	static const uint8_t zeros[512];
	struct roami_node *node = member_node(self, "alloc", bytes);
	struct random_slices *slices = ((struct random_member *)self)->slices;
	enum roam_err err;
	bool fresh;

	roami_remote_free_drain(node, member_take_back, slices->allocs[node->me]);
	err = roami_alloc_take(slices->allocs[node->me], bytes, offset_p, &fresh);
	if (err == ROAM_OK)
		roami_marks_set(node->self, *offset_p, bytes, fresh);
	for (size_t at = 0, step; err == ROAM_OK && !fresh && at < bytes; at += step) {
		step = sizeof(zeros) - (*offset_p + at) % sizeof(zeros);
		step = step < bytes - at ? step : bytes - at;
		slices->store(self, *offset_p + at, zeros, step);
	}
	return err;
}

/* Frees as roam_free does. */
static enum roam_err member_free(void *self, uint64_t offset)
{
	struct roami_node *node = member_node(self, "free", offset);
	struct random_slices *slices = ((struct random_member *)self)->slices;
	unsigned owner = (unsigned)((offset - slices->first) / slices->each);

	if (!roami_block_take(node, owner, offset) || roami_block_take(node, owner, offset))
		abort();
	if (owner == node->me)
		return roami_alloc_give(slices->allocs[owner], offset);
	roami_remote_free_send(node, owner, offset);
	return ROAM_OK;
}

void random_node_ops(struct random_ops *ops)
{
	ops->lock = member_lock;
	ops->lock_try = member_lock_try;
	ops->lock_within = member_lock_within;
	ops->unlock = member_unlock;
	ops->cond_wait = member_cond_wait;
	ops->cond_wait_within = member_cond_wait_within;
	ops->cond_post = member_cond_post;
	ops->flag_set = member_flag_set;
	ops->flag_wait = member_flag_wait;
	ops->flag_clear = member_flag_clear;
	ops->barrier = member_barrier;
	ops->reduce = member_reduce;
	ops->alloc = member_alloc;
	ops->free = member_free;
}
