/*
 * A program that is attached to a server of elements, as it sees the server.  Any number of threads
 * ask at a time over one connection; one of the waiting threads reads the answers for all.  When
 * the connection breaks, one of them makes another, and each repeats its unanswered operation.
 */
#ifndef ROAMI_PAST_ATTACH_H
#define ROAMI_PAST_ATTACH_H

#include <pthread.h>
#include <sys/types.h>

#include "pastset/attached/line.h"
#include "pastset/job/client.h"

struct roam_ps_server {
	const struct roami_attachments *all;
	struct roam_ps_server *next; /* of the process's, see struct roami_attachments */
	pthread_mutex_t lock;        /* of what follows, up to `sending` */
	enum roam_err lost;          /* why the server is of no use any more */
	uint32_t held;               /* by elements, by the program */
	uint64_t number;             /* of the last thing asked */
	struct attach_ask *asks;     /* under way, answered or not */
	uint32_t ask_count;
	struct roami_unsure *unsure; /* counted too: operations that will be asked again */
	bool reading;        /* a thread reads, or connects: what comes in is its own */
	bool broken;         /* there is no connection */
	bool full;           /* what is to go out first had no room in the socket */
	uint64_t broken_at;  /* since then */
	uint64_t try_at;     /* the next attempt to make one, */
	int nap_ms;          /* so long after the last */
	uint64_t connection; /* how many there have been */
	uint32_t heard;      /* frames of this one */
	pthread_mutex_t sending; /* of what goes out; taken before `lock`.  Both are short */
	struct roami_line line;
	uint64_t session, keep_ns; /* the server's */
	char *address;
	uint8_t key[ROAMI_CHANNEL_KEY];
	pid_t pid; /* a child's connection would be its parent's */
};

/* What the process is attached to. */
struct roami_attachments {
	pthread_mutex_t lock;
	struct roam_ps_server *servers;
	/* The process's node as it is now, whose threads show what they wait for; may be NULL. */
	struct roami_node *(*node)(void);
};

/* `why`: more about an error. */
enum roam_err roami_attach_open(struct roami_attachments *all, const char *address,
				const uint8_t *key, struct roam_ps_server **server_p, char *why,
				size_t why_bytes);

/* Ends the connection.  What is under way returns ROAM_ELOST. */
void roami_attach_close(struct roami_attachments *all, struct roam_ps_server *server);

/* The memory goes with the last element. */
void roami_attach_hold(struct roam_ps_server *server);
void roami_attach_rele(struct roam_ps_server *server);

/* The element is left: its operation that is unsure will not be asked again. */
void roami_attach_leave(struct roam_ps_server *server, struct roam_ps_element *element);

/* Makes all threads that wait check whether they were cancelled. */
void roami_attach_look(struct roami_attachments *all);

/* Asks for an operation, and waits for its outcome. */
enum roam_err roami_attach_ask(struct roam_ps_element *element, const struct roami_ask *ask,
			       struct roam_ps_request *request);

/* The time that a server has for an answer, if the caller gives no other. */
#define ROAMI_ANSWER_NS UINT64_C(10000000000)

/*
 * Asks for what the server answers with so many bytes at most; *got_p: how many came.  It may be
 * asked again: ROAM_ETIMEDOUT, where the server has not answered.
 */
enum roam_err roami_attach_call(struct roam_ps_server *server, uint32_t kind, uint64_t timeout_ns,
				const struct roam_part *parts, unsigned count, void *reply,
				size_t reply_max, size_t *got_p);

/*
 * ---- In attach.c, for attach_open.c.  server->lock is held, unless no other thread knows the
 * server yet.
 */

/* All threads that wait for an answer look again. */
void roami_attach_stir(struct roam_ps_server *server);

/* The thread that reads, or waits to connect again, looks again. */
void roami_attach_wake(const struct roam_ps_server *server);

/*
 * There is a new connection: each thread without an answer repeats its operation.  One that the
 * server has not got gets a new number, since later numbers may reach the server before it.
 */
void roami_attach_joined(struct roam_ps_server *server, const struct roami_attached *attached);

/* There will be no connection any more. */
void roami_attach_lose(struct roam_ps_server *server, enum roam_err why);

#endif
