/* The nodes of one host: the memory that they share, what they wait for, and how they end. */
#ifndef ROAMI_LOCAL_H
#define ROAMI_LOCAL_H

#include "base/node.h"
#include "run/probe.h"

/* The exit status of a node that has itself reported why it failed. */
#define ROAMI_EXIT_REPORTED 86

/*
 * Whether this build, machine and kernel have the protocol, transport, fault engine and
 * instructions that the options name; *engine_p is the engine.  Reports errors on stderr, in one
 * line.
 */
enum roam_err roami_boot_check(const struct roami_options *options,
			       const struct roami_fault_engine **engine_p);

/*
 * Whether the protocol can have nodes on several hosts, or nodes that do not map each other's
 * memory; if not, the reason, in a line without an end.
 */
bool roami_boot_apart(const struct roami_options *options, char *why, size_t bytes);

/*
 * What nodes wait for, "; node 0 waited at barrier 0x..., node 1 ...", or nothing; cut off at
 * `bytes`.  ctls[i] is the control page of node i, NULL: not to be looked at.
 */
#define ROAMI_WAITS_BYTES 700
void roami_boot_waits(const struct roami_ctl *const *ctls, unsigned nodes, char *text,
		      size_t bytes);

/*
 * Appends which statics of the program a node's threads wait for, if `text` does not have them yet:
 * "; 0x... is prog+0x4010 (queue), 0x... is ...".
 */
void roami_boot_positions(const struct roami_ctl *ctl, char *text, size_t bytes);

/* What threads of a node wait for, "in 2 threads at barrier 0x... (3 of 4 threads arrived)". */
#define ROAMI_WAIT_BYTES 130
void roami_boot_wait(const struct roami_ctl *const *ctls, unsigned nodes,
		     const struct roami_wait_group *group, char *text, size_t bytes);

/*
 * The layout of every segment: the heap, and below it a sixteenth of its size for the regions of
 * each protocol, in the order of protocols/meson.build.
 */
#define ROAMI_REGION_SHARE 16u
void roami_boot_layout(struct roami_layout *layout, const struct roami_options *options);

/*
 * Makes the segments of the nodes whose bits are set, in the order of the nodes.  Reports errors on
 * stderr; leaves nothing behind after one.
 */
enum roam_err roami_boot_memory(const struct roami_options *options, uint64_t nodes, int *fds);

/* A name of the job, from bytes that all of its nodes know, and no other job has. */
void roami_boot_name(uint8_t name[16], const void *bytes, size_t count);

/* Advice about an errno of making a segment; "" if there is none. */
const char *roami_boot_hint(int error);

/* Makes one node's segment; -1 with errno. */
int roami_boot_segment(const struct roami_layout *layout, unsigned node);

/* Whether a segment has this layout. */
bool roami_boot_fits(const struct roami_layout *layout, int fd);

/*
 * The address space that a process needs in a job of so many nodes: an estimate, rather too high.
 */
size_t roami_boot_needs(const struct roami_layout *layout, unsigned nodes);

/*
 * Whether a process that has mapped `mapped` bytes of this can map the rest; if not, prints why.
 * Asked before there are nodes, so that the answer is printed once.
 */
bool roami_boot_space(const struct roami_layout *layout, unsigned nodes, size_t mapped);

/*
 * Text to add to "was killed by signal N": that memory ran out, if the kernel has killed a process
 * since `kills_before` was roami_os_oom_kills(); or that the node (its control page; NULL: not
 * known) did not hear of the signal.
 */
const char *roami_boot_why(const struct roami_ctl *ctl, int signal, uint64_t kills_before);

/* A thread of a node with a team, for a control page or a launcher; 0: none. */
static inline uint32_t roami_boot_dying_pack(unsigned process, unsigned mate)
{
	return (uint32_t)mate << 16 | (process + 1);
}

/* Text to add to how a node ended: ", in process 3, its thread 1"; "" if that is not known. */
#define ROAMI_DYING_BYTES 48u
void roami_boot_dying(uint32_t dying, char text[ROAMI_DYING_BYTES]);

#endif
