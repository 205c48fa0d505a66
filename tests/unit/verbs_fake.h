/*
 * A connection manager and cards in this process, under the names of librdmacm and libibverbs, for
 * tests of the verbs transport.  All nodes have the same card.  What a node sends lies in its queue
 * pair until some node polls; a queue pair that is destroyed takes what lies there along.
 */
#ifndef VERBS_FAKE_H
#define VERBS_FAKE_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_ADDRESS 0x7f000001u

/* What a card and a manager must not see: each is a fault of the transport. */
struct fake_counts {
	unsigned requests; /* to connect */
	unsigned rejected; /* of these */
	unsigned accepted; /* likewise */
	unsigned objects;  /* identifiers, queue pairs and queues that exist */
	unsigned early;    /* sends before the queue pair could send */
	unsigned missing;  /* parts for which no buffer was posted */
	unsigned unacked;  /* identifiers destroyed with events that were not acknowledged */
};

/* The next requests to connect fail. */
void fake_refuse(unsigned count);

/* Holds requests to connect, and the manager's answers to them, on the network. */
void fake_hold(bool on);

/* How many of them are held; lets these go on, while later ones are held. */
unsigned fake_held(void);
void fake_pass(void);

/* The next node that accepts answers with another byte in its hello. */
void fake_spoil(unsigned at, uint8_t byte);

/*
 * Somebody asks the listener at a port for a connection, with these bytes; waits for the answer:
 * whether it was accepted.
 */
bool fake_ask(uint16_t port, const void *hello, uint8_t bytes);

/* Tells every node that the card was removed. */
void fake_remove(void);

struct fake_counts fake_counts(void);

#endif
