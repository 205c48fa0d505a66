/* What a random program consists of; for random*.c. */
#ifndef ROAM_TESTS_RANDOM_PROGRAM_H
#define ROAM_TESTS_RANDOM_PROGRAM_H

#include "random.h"

#define RANDOM_OBJECTS_MAX 256u
#define RANDOM_BYTES_MAX   ROAM_PAGE_SIZE
#define RANDOM_REDUCE_MAX  3u

enum random_kind {
	RANDOM_LOAD,
	RANDOM_STORE,
	RANDOM_LOCK_INIT,
	RANDOM_COND_INIT,
	RANDOM_LOCK,
	RANDOM_UNLOCK,
	RANDOM_TEST,   /* loads; passed = the value is `value` at least */
	RANDOM_UNLESS, /* skip `count` operations unless passed */
	RANDOM_AWAIT,  /* while the value is less, wait for the condition */
	RANDOM_SIGNAL,
	RANDOM_BROADCAST,
	RANDOM_FLAG_SET,
	RANDOM_FLAG_WAIT,
	RANDOM_FLAG_CLEAR,
	RANDOM_BARRIER,
	RANDOM_REDUCE,
	RANDOM_REST,
	RANDOM_PAUSE,
	RANDOM_ALLOC,
	RANDOM_FREE,
	RANDOM_ARRIVE, /* these two are in logs only */
	RANDOM_LEAVE,
	RANDOM_KINDS
};

enum random_mode {
	RANDOM_FRESH, /* bytes that no other thread writes */
	RANDOM_FEW,   /* one of two values, so often the one that was there before */
	RANDOM_COPY,  /* what the thread loaded last */
	RANDOM_EXACT  /* `value` */
};

struct random_op {
	uint8_t kind;
	uint8_t mode;
	uint16_t which; /* object, or synchronisation object */
	uint16_t lock;
	uint16_t cond;
	uint32_t count;    /* threads of a barrier, operations to skip */
	uint32_t instance; /* of a barrier or reduction: the number of the meeting */
	uint64_t value;
};

struct random_object {
	uint32_t offset; /* in the heap, or in its block */
	uint16_t bytes;
	uint8_t block; /* number + 1; 0: none */
};

struct random_block {
	uint32_t bytes;
	uint16_t first, count; /* objects */
	uint32_t copy;         /* where the oracle keeps its bytes, counted from the heap's end */
};

struct random_reduction {
	uint32_t count;
	enum roam_type type;
	enum roam_op op;
	double inputs[RANDOM_THREADS_MAX][RANDOM_REDUCE_MAX];
	double results[RANDOM_REDUCE_MAX];
};

struct random_list {
	struct random_op *ops;
	uint32_t count;
	uint32_t room;
};

struct random_program {
	struct random_params params;
	struct random_object objects[RANDOM_OBJECTS_MAX];
	uint32_t object_count;
	struct random_block blocks[RANDOM_BLOCKS_MAX];
	uint32_t block_count;
	uint32_t copy_bytes; /* of all blocks */
	uint32_t alloc_count;
	struct random_list lists[RANDOM_THREADS_MAX];
	uint32_t *barriers_at; /* threads of each instance of a barrier */
	uint32_t meeting_count;
	uint32_t meeting_room;
	struct random_reduction *reductions;
	uint32_t reduction_count;
	uint32_t reduction_room;
	uint32_t posts;
};

/*
 * Draws objects and blocks, and behind them, as the last objects, up to `counters` counters of 8
 * bytes.  Returns how many objects come before the counters.
 */
struct rng;
uint32_t random_layout(struct random_program *program, struct rng *rng, unsigned counters);

/*
 * The bytes of a long object follow from a value of 16 bytes, and a log gives them as such a value
 * again.  For objects of up to 16 bytes the value is the bytes.
 */
void random_value_write(void *bytes, uint32_t count, const uint64_t value[2]);
void random_value_read(const void *bytes, uint32_t count, uint64_t value[2]);

extern const char *const random_kind_names[RANDOM_KINDS];

#endif
