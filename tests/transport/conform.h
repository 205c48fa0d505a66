/* Three nodes of one process that exchange messages over a transport: conform.c, bare.c. */
#ifndef ROAM_TESTS_CONFORM_H
#define ROAM_TESTS_CONFORM_H

#include <sched.h>

#include "os/os.h"
#include "roam/transport.h"

#define NODES       3u
#define LONGEST     (60u * 1024 + 16) /* of roam's messages */
#define NS_PER_S    1000000000u
#define PATIENCE_NS (60u * (uint64_t)NS_PER_S)

struct node {
	struct roam_transport_params params;
	const struct roam_transport *below, *top;
	void *below_state, *top_state;
	unsigned number;
	uint32_t sent[NODES], got[NODES]; /* messages to and from each node */
	unsigned disordered;              /* messages that came where others were due */
	unsigned refuse;                  /* how many more deliveries are refused */
	unsigned refused;
	_Atomic unsigned lost; /* + 1 */
	uint64_t random;
};

/* A message begins with this; the bytes behind it follow from it. */
struct message {
	uint32_t from, number, bytes, zero;
};

struct conform_test {
	const char *name;
	void (*run)(void);
	bool onesided; /* nodes reach each other's memory, which is registered */
};

extern const struct roam_transport *tested;
extern struct node nodes[NODES];
extern const struct conform_test bare_tests[]; /* end with a NULL name */

__attribute__((format(printf, 1, 2), noreturn)) void wrong(const char *format, ...);

/* Makes the bytes that follow a message's head. */
void message_fill(const struct message *message, uint8_t *body);

/* Sends the next message to a peer, in several parts; false: there is no room. */
bool node_send(struct node *node, unsigned to, uint32_t bytes);
void send_surely(unsigned from, unsigned to, uint32_t bytes);

unsigned node_poll(struct node *node, unsigned max);
void poll_all(void);

#endif
