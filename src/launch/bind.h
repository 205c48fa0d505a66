/*
 * Programs started by mpirun, srun or mpiexec.hydra.  A binding tells a process which node it is,
 * and of how many, and lets the nodes show each other some bytes.  wireup.c does the rest.
 */
#ifndef ROAMI_BIND_H
#define ROAMI_BIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/nodeset.h"
#include "roam/roam.h"

#define ROAMI_BLOB_BYTES 4096u /* that a node shows at most */
#define ROAMI_WHY_BYTES  256u
#define ROAMI_LOOK_MS    100 /* between looks at the others */

#define ROAMI_TWICE \
	"node %u runs in two processes: start the program once in each of the launcher's"

struct roami_blob {
	uint32_t bytes;
	_Alignas(8) uint8_t data[ROAMI_BLOB_BYTES];
};

/* A process that has been bound to a job. */
struct roami_bound {
	const struct roami_binding *binding;
	unsigned me, nodes;
	bool open_network; /* ROAM_SEAL=off: others may listen, and answer */
	void *state;       /* the binding's */
	unsigned threads;  /* of this process that are the binding's, as far as that is known */
	/*
	 * Called now and then while waiting for the others; false: waiting is in vain, and `why`
	 * says why.  NULL: the wait ends at `until`, of roami_os_now_ns.
	 */
	bool (*look)(struct roami_bound *bound);
	uint64_t until;
	int pidfds[ROAMI_NODES_MAX]; /* of the nodes on this host; -1: not known */
	char why[ROAMI_WHY_BYTES];   /* it failed; a line without an end */
	bool quiet;                  /* another node says so */
	bool final;                  /* no other binding is to be tried */
};

struct roami_binding {
	const char *name;
	const char *launchers; /* for roam info */
	/* What in the environment speaks for it; NULL: nothing. */
	const char *(*marker)(void);
	/* Whether this machine has what the binding needs; for roam info. */
	bool (*works)(char *text, size_t bytes);
	/* Fills in `me` and `nodes`. */
	bool (*open)(struct roami_bound *bound);
	/* All nodes call it.  Waits for them; then all[i] is what node i gave. */
	bool (*gather)(struct roami_bound *bound, const void *mine, size_t bytes,
		       struct roami_blob *all);
	/*
	 * Ends the job, from any thread, before this process exits.  NULL: the launcher ends the
	 * others when it sees this process exit.
	 */
	void (*abort)(struct roami_bound *bound);
	/* Ends the binding in an orderly way, together with all other nodes. */
	void (*close)(struct roami_bound *bound);
};

/* The bindings, in the order in which they are tried; ends with NULL. */
extern const struct roami_binding *const roami_bindings[];
extern const struct roami_binding roami_bind_pmix, roami_bind_pmi1, roami_bind_slurm;

/*
 * Binds this process if something in the environment says that it should be, waiting for the
 * launcher up to `until`.  ROAM_OK with bound->binding NULL: nothing does, or `wanted`, of
 * ROAM_LAUNCHER, says no.  Else bound->why.
 */
enum roam_err roami_bind(struct roami_bound *bound, const char *wanted, bool open_network,
			 uint64_t until);

/*
 * roami_bound_abort ends the job everywhere.  roami_bound_aborts: whether this process must call
 * it, because the launcher does not end the job.
 */
bool roami_bound_aborts(const struct roami_bound *bound);
void roami_bound_abort(struct roami_bound *bound);

/*
 * For bindings: this process is the node, for as long as it has locked the byte of the file, which
 * all processes that could be it open.  False: `why`, another one is.
 */
bool roami_bound_claim(struct roami_bound *bound, int fd, uint64_t at);

/* For bindings: waits until `fd` is ready for `events`; false: the wait is over without that. */
bool roami_bound_wait(struct roami_bound *bound, int fd, short events);

/* For waits without a descriptor: whether to go on. */
bool roami_bound_patient(struct roami_bound *bound);

__attribute__((format(printf, 2, 3))) bool roami_bound_fail(struct roami_bound *bound,
							    const char *format, ...); /* false */

#endif
