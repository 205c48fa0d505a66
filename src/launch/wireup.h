/*
 * What the files of a launcher's job share: what nodes show each other at the start, and what is
 * known between the steps.
 */
#ifndef ROAMI_WIREUP_H
#define ROAMI_WIREUP_H

#include <sodium.h>

#include "job/job.h"
#include "launch/bind.h"
#include "launch/stdin_relay.h"

#define WIREUP_ADDRESSES 8u

struct wireup_address {
	uint32_t address; /* host byte order */
	uint32_t mask;
};

struct wireup_hello {
	uint64_t magic;
	uint64_t pid_space, net_space;
	char boot[40]; /* the kernel's name for its present run: with these a host */
	int32_t pid;
	uint32_t aes; /* the host's CPU has it */
	uint32_t addresses;
	int32_t input; /* node 0's: the first of the pipes that the others' comes by; 0: none */
	struct wireup_address address[WIREUP_ADDRESSES];
	uint8_t public[crypto_box_PUBLICKEYBYTES];
	char name[ROAMI_HOST_BYTES];
};

/* What is known between the steps; roami_job.start_state. */
struct wireup {
	struct roami_bound bound;
	struct roami_stdin *relay; /* of a node that copies the input to others; never closed */
	bool share;              /* nodes of one host reach each other's memory */
	uint8_t secret[crypto_box_SECRETKEYBYTES];
	struct wireup_hello hello[ROAMI_NODES_MAX];
	struct roami_blob *blobs; /* what each node has shown */
};

static inline struct wireup *wireup_of(const struct roami_job *job)
{
	return job->start_state;
}

/* Whether an address of a node is in a network of another one. */
static inline bool wireup_near(const struct wireup_address *mine, const struct wireup_hello *there)
{
	for (uint32_t i = 0; i < there->addresses; i++)
		if (((mine->address ^ there->address[i].address) & mine->mask) == 0)
			return true;
	return false;
}

#define WIREUP_OLD "node %u has another version of roam: install one version on all hosts"

/*
 * The job is over.  The launcher ends the other processes when one ends with an error; a moment is
 * left before that, so that each can print why.
 */
__attribute__((noreturn)) void roami_wireup_failed(struct roami_job *job);

/* All nodes have found it: node 0 prints it. */
#define WIREUP_FAIL(job, ...)                                                \
	do {                                                                 \
		roami_bound_fail(&wireup_of(job)->bound, __VA_ARGS__);       \
		wireup_of(job)->bound.quiet = wireup_of(job)->bound.me != 0; \
		roami_wireup_failed(job);                                    \
	} while (0)

/* Shows all nodes `bytes` bytes; what each has shown, at least `least` bytes, is in `blobs`. */
void roami_wireup_gather(struct roami_job *job, const void *mine, size_t bytes, size_t least);

/* ---- wireup_input.c */

/* The number of the first pipe of a new relay; 0: no input is copied. */
int32_t roami_wireup_make_relay(struct roami_job *job);

/* Relays the standard input of a program whose main all nodes execute up to CREATE. */
void roami_wireup_relay(struct roami_job *job);

#endif
