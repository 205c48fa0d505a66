#include "pastset/attached/attach.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "os/inside.h"
#include "os/os.h"

#define NAP_MIN_MS      5 /* between attempts to reach the server again */
#define NAP_MAX_MS      250
#define PATIENCE_MIN_MS 1000 /* for a server's answer, even if the operation's time is up */
#define MS              1000000u
/*
 * The time that a server has to report that an operation's time is up, before the connection counts
 * as broken; and the time that the operation then waits for another connection, to learn whether it
 * was done.
 */
#define SILENCE_NS (2000ull * MS)
#define GRACE_NS   (1000ull * MS)
#define AGES_NS    (UINT64_C(1) << 62) /* more is as much */

/* A thread waits for an answer. */
struct attach_ask {
	struct attach_ask *next;
	pthread_cond_t changed;
	uint64_t number;           /* 0: it has none yet */
	uint64_t connection;       /* that it was sent on; 0: none yet */
	uint32_t kind;             /* the answer's is the next one */
	struct roam_part parts[2]; /* what is asked */
	struct roami_ask op;       /* the first of them, of an operation */
	uint64_t until;            /* an operation has so much time; 0: without end, or none */
	uint64_t cancelled_at;     /* when its thread saw that it was; 0: not yet */
	struct roami_unsure *unsure; /* of a participant's operation; NULL: it is none */
	bool again;                  /* it was asked before, and the server may have heard it */
	bool answered;
	bool sleeps;
	bool cancelled; /* the server was told */
	const struct roam_ps_cancel *cancel;
	uint8_t *head; /* where the answer's first bytes go, */
	size_t head_max;
	uint8_t *rest; /* and those after */
	size_t rest_max;
	size_t got;
};

/* server->lock is held in all that follows, unless it says otherwise. */

/* ----------------------------------------------------------------------------------- connection */

void roami_attach_stir(struct roam_ps_server *server)
{
	for (struct attach_ask *ask = server->asks; ask != NULL; ask = ask->next)
		pthread_cond_signal(&ask->changed);
}

/* Gives up the connection: a thread that waits makes another one. */
static void attach_break(struct roam_ps_server *server)
{
	if (server->broken)
		return;
	server->broken = true;
	server->broken_at = server->try_at = roami_os_now_ns();
	server->nap_ms = 0;
	shutdown(server->line.fd, SHUT_RDWR);
	roami_attach_stir(server);
}

void roami_attach_lose(struct roam_ps_server *server, enum roam_err why)
{
	if (server->lost == ROAM_OK)
		server->lost = why;
	attach_break(server);
	roami_attach_stir(server);
}

/* Forgets an unsure operation: its outcome is known, or no longer wanted. */
static void unsure_end(struct roam_ps_server *server, struct roami_unsure *unsure)
{
	struct roami_unsure **at = &server->unsure;

	if (unsure->number == 0)
		return;
	while (*at != unsure)
		at = &(*at)->next;
	*at = unsure->next;
	server->ask_count--;
	unsure->number = 0;
}

/* A participant's time is up before the server's answer. */
static void unsure_begin(struct roam_ps_server *server, const struct attach_ask *ask)
{
	ask->unsure->number = ask->number;
	ask->unsure->op = ask->op.op;
	ask->unsure->next = server->unsure;
	server->unsure = ask->unsure;
	server->ask_count++;
}

void roami_attach_joined(struct roam_ps_server *server, const struct roami_attached *attached)
{
	server->session = attached->session;
	server->keep_ns = attached->keep_ns;
	for (struct attach_ask *ask = server->asks; ask != NULL; ask = ask->next)
		if (ask->number > attached->highest) {
			ask->number = ask->connection = 0;
			ask->again = false;
		}
	for (struct roami_unsure *unsure = server->unsure; unsure != NULL; unsure = unsure->next)
		if (unsure->number > attached->highest)
			unsure_end(server, unsure);
	server->heard = (uint32_t)server->line.channel.received;
	server->connection++;
	server->broken = server->full = false;
	roami_attach_stir(server);
}

/* The least number that a thread may repeat. */
static uint64_t attach_wanted(const struct roam_ps_server *server)
{
	uint64_t least = server->number + 1;

	for (const struct attach_ask *ask = server->asks; ask != NULL; ask = ask->next)
		if (ask->number != 0 && ask->number < least)
			least = ask->number;
	for (const struct roami_unsure *at = server->unsure; at != NULL; at = at->next)
		if (at->number < least)
			least = at->number;
	return least;
}

static bool ask_cancelled(const struct attach_ask *ask)
{
	return ask->cancel != NULL &&
	       __atomic_load_n(&ask->cancel->cancelled, __ATOMIC_SEQ_CST) != 0;
}

/*
 * The moment up to which an operation waits for the server's report, or for another connection.
 * UINT64_MAX: as long as any operation does.
 */
static uint64_t ask_end(const struct roam_ps_server *server, const struct attach_ask *ask)
{
	uint64_t grace = server->broken_at + GRACE_NS, up = ask->until;

	if (ask->cancelled_at != 0 && (up == 0 || ask->cancelled_at < up))
		up = ask->cancelled_at;
	if (up == 0)
		return UINT64_MAX;
	if (!server->broken)
		return up + SILENCE_NS;
	return up > grace ? up : grace;
}

static bool ask_late(const struct roam_ps_server *server, const struct attach_ask *ask)
{
	return roami_os_now_ns() >= ask_end(server, ask);
}

static int ms_until(uint64_t now, uint64_t then, int most)
{
	uint64_t ms = now < then ? (then - now + MS - 1) / MS : 0;

	return ms < (uint64_t)most ? (int)ms : most;
}

/* Tries once, with the lock held but meanwhile. */
static enum roam_err attach_try(struct roam_ps_server *server, const struct attach_ask *ask,
				struct roami_attached *attached)
{
	struct roami_attach attach = {.session = server->session,
				      .heard = server->heard,
				      .wanted = attach_wanted(server)};
	uint64_t now = roami_os_now_ns(), end = ask_end(server, ask);
	struct roami_line *line = &server->line;
	enum roam_err err;
	char why[256];

	pthread_mutex_unlock(&server->lock);
	pthread_mutex_lock(&server->sending); /* a sender may be about to find it broken */
	roami_line_close(line);
	pthread_mutex_unlock(&server->sending);
	line->least = now + (uint64_t)PATIENCE_MIN_MS * MS;
	line->until = now + ROAMI_ANSWER_NS;
	if (line->until > end)
		line->until = end > line->least ? end : line->least;
	line->cancel = ask->cancel;
	err = roami_line_open(line, server->address, server->key, &attach, attached, why,
			      sizeof(why));
	pthread_mutex_lock(&server->lock);
	return err;
}

/* Waits for the next attempt's time, or a cancel.  The lock is held but meanwhile. */
static void attach_nap(struct roam_ps_server *server, uint64_t end)
{
	struct pollfd polled = {.fd = server->line.wake, .events = POLLIN};
	uint64_t count, until = server->try_at < end ? server->try_at : end;
	int nap_ms = ms_until(roami_os_now_ns(), until, NAP_MAX_MS);

	pthread_mutex_unlock(&server->lock);
	if (nap_ms > 0 && poll(&polled, 1, nap_ms) > 0)
		(void)!read(polled.fd, &count, sizeof(count));
	pthread_mutex_lock(&server->lock);
}

/* Notes the result of an attempt to connect. */
static void attach_tried(struct roam_ps_server *server, enum roam_err err,
			 const struct roami_attached *attached)
{
	uint64_t now = roami_os_now_ns();

	server->nap_ms = server->nap_ms == 0 ? NAP_MIN_MS : 2 * server->nap_ms;
	server->nap_ms = server->nap_ms > NAP_MAX_MS ? NAP_MAX_MS : server->nap_ms;
	server->try_at = now + (uint64_t)server->nap_ms * MS;
	if (err == ROAM_OK)
		roami_attach_joined(server, attached);
	else if (err == ROAM_EGONE || err == ROAM_EKEY || err == ROAM_ELOST)
		roami_attach_lose(server, err);
	else if (now - server->broken_at > server->keep_ns)
		roami_attach_lose(server, ROAM_ELOST);
}

/*
 * Connects again when an attempt is due, or finds that there will be none; takes no longer than
 * `ask`, whose thread runs it, may wait.  The lock is held before and after, not during the
 * attempt.
 */
static void attach_again(struct roam_ps_server *server, const struct attach_ask *ask)
{
	struct roami_attached attached;
	enum roam_err err;

	server->reading = true;
	attach_nap(server, ask_end(server, ask));
	if (server->lost == ROAM_OK && roami_os_now_ns() >= server->try_at) {
		err = attach_try(server, ask, &attached);
		if (server->lost == ROAM_OK)
			attach_tried(server, err, &attached);
	}
	server->reading = false;
}

/* ------------------------------------------------------------------------------------ questions */

/* Prepares a question that is about to be sent on this connection. */
static void ask_prepare(struct roam_ps_server *server, struct attach_ask *ask)
{
	uint64_t now;

	if (ask->number == 0)
		ask->number = ++server->number;
	ask->connection = server->connection;
	ask->cancelled = false;
	if (ask->until == 0)
		return;
	now = roami_os_now_ns();
	ask->op.timeout_ns = now < ask->until ? ask->until - now : ROAM_PS_TRY;
}

void roami_attach_wake(const struct roam_ps_server *server)
{
	const uint64_t one = 1;

	(void)!write(server->line.wake, &one, sizeof(one));
}

/* Asks, or cancels what was asked.  The lock is held but meanwhile. */
static void ask_send(struct roam_ps_server *server, struct attach_ask *ask, bool cancels)
{
	struct roami_guest_head head;
	bool sent = true;

	pthread_mutex_unlock(&server->lock);
	pthread_mutex_lock(&server->sending); /* numbers go out in their order */
	pthread_mutex_lock(&server->lock);
	if (!server->broken && !server->full && !ask->answered) {
		if (cancels)
			ask->cancelled = true;
		else
			ask_prepare(server, ask);
		head = (struct roami_guest_head){cancels ? ROAMI_GUEST_CANCEL : ask->kind,
						 server->heard, ask->number};
		pthread_mutex_unlock(&server->lock);
		sent = roami_line_send(&server->line, &head, ask->parts, cancels ? 0 : 2);
		pthread_mutex_lock(&server->lock);
		server->full = roami_line_full(&server->line);
	}
	if (!sent)
		attach_break(server);
	else if (server->full && server->reading)
		roami_attach_wake(server); /* to see to what is left */
	pthread_mutex_unlock(&server->sending);
}

static bool ask_cancels(const struct attach_ask *ask)
{
	return !ask->cancelled && ask->cancelled_at != 0;
}

/* -------------------------------------------------------------------------------------- answers */

/* false: no operation has this number, or the answer is too long. */
static bool attach_answer(struct roam_ps_server *server, const uint8_t *text, size_t bytes)
{
	struct attach_ask *ask = server->asks;
	struct roami_guest_head head;
	size_t first;

	memcpy(&head, text, sizeof(head));
	text += sizeof(head);
	bytes -= sizeof(head);
	while (ask != NULL && ask->number != head.number)
		ask = ask->next;
	if (ask == NULL || ask->answered || ask->connection != server->connection)
		return false;
	if (head.kind == ROAMI_GUEST_GONE) {
		roami_attach_lose(server, ROAM_EGONE);
		return true;
	}
	if (ask->kind + 1 != head.kind || bytes > ask->head_max + ask->rest_max)
		return false;
	first = bytes < ask->head_max ? bytes : ask->head_max;
	memcpy(ask->head, text, first);
	if (bytes > first)
		memcpy(ask->rest, text + first, bytes - first);
	ask->got = bytes;
	ask->answered = true;
	server->heard = (uint32_t)server->line.channel.received;
	pthread_cond_signal(&ask->changed);
	return true;
}

/* Sends what the socket had no room for; the lock is not held.  false: the connection is broken. */
static bool attach_flush(struct roam_ps_server *server, bool *full_p)
{
	bool good;

	pthread_mutex_lock(&server->sending);
	good = roami_line_flush(&server->line);
	*full_p = roami_line_full(&server->line);
	pthread_mutex_unlock(&server->sending);
	return good;
}

/* One turn of the thread that reads.  The lock is held but while it sleeps. */
static void attach_read(struct roam_ps_server *server, const struct attach_ask *ask)
{
	bool here, bad = false, full = server->full, was_full = full;
	uint64_t end = ask_end(server, ask);
	uint8_t *text;
	size_t bytes;

	server->reading = true;
	pthread_mutex_unlock(&server->lock);
	here = roami_line_receive(&server->line, full, end) &&
	       (!full || attach_flush(server, &full));
	pthread_mutex_lock(&server->lock);
	if (was_full && !full) {
		server->full = false;
		roami_attach_stir(server);
	}
	for (;;) {
		text = roami_line_frame(&server->line, &bytes, &bad);
		if (text == NULL)
			break;
		if (!attach_answer(server, text, bytes)) {
			bad = true;
			break;
		}
		roami_line_shift(&server->line);
	}
	server->reading = false;
	if (bad)
		roami_attach_lose(server, ROAM_EPROTO);
	else if (!here)
		attach_break(server);
}

/* Sleeps until it is signalled, or has no time left.  The lock is held but meanwhile. */
static void ask_sleep(struct roam_ps_server *server, struct attach_ask *ask)
{
	uint64_t end = ask_end(server, ask);
	struct timespec until = {(time_t)(end / (1000 * MS)), (long)(end % (1000 * MS))};

	ask->sleeps = true;
	if (end == UINT64_MAX)
		pthread_cond_wait(&ask->changed, &server->lock);
	else
		pthread_cond_clockwait(&ask->changed, &server->lock, CLOCK_MONOTONIC, &until);
	ask->sleeps = false;
}

/*
 * One step of a question: sends, reads for all, makes a connection, or sleeps while another thread
 * does.
 */
static void ask_step(struct roam_ps_server *server, struct attach_ask *ask)
{
	bool sends = !server->broken && !server->full;

	if (sends && ask->connection != server->connection)
		ask_send(server, ask, false);
	else if (sends && ask_cancels(ask))
		ask_send(server, ask, true);
	else if (server->reading)
		ask_sleep(server, ask);
	else if (server->broken)
		attach_again(server, ask);
	else
		attach_read(server, ask);
}

/*
 * Asks, and waits for the answer.  A server that is silent for too long after an operation's time
 * is up may be stopped, or cut off: only another connection tells.  The lock is held but meanwhile.
 */
static void ask_wait(struct roam_ps_server *server, struct attach_ask *ask)
{
	while (!ask->answered && server->lost == ROAM_OK) {
		if (ask->cancelled_at == 0 && ask_cancelled(ask))
			ask->cancelled_at = roami_os_now_ns();
		if (!ask_late(server, ask))
			ask_step(server, ask);
		else if (!server->broken)
			attach_break(server);
		else
			return;
	}
}

/* The outcome of an operation that has no answer, as far as it is known. */
static enum roam_err ask_outcome(const struct roam_ps_server *server, const struct attach_ask *ask)
{
	bool reads = ask->kind != ROAMI_GUEST_OP || ask->op.op == ROAM_PS_STATE ||
		     (ask->op.op == ROAM_PS_OBSERVE && (ask->op.flags & ROAM_PS_PEEK) != 0);

	if (server->lost != ROAM_OK)
		return server->lost;
	if ((ask->connection != 0 || ask->again) && !reads)
		return ROAM_ELOST;
	return ask_cancelled(ask) ? ROAM_ECANCELED : ROAM_ETIMEDOUT;
}

static void ask_unlink(struct roam_ps_server *server, struct attach_ask *ask)
{
	struct attach_ask **at = &server->asks;

	while (*at != ask)
		at = &(*at)->next;
	*at = ask->next;
	server->ask_count--;
	for (ask = server->asks; ask != NULL && !ask->sleeps; ask = ask->next)
		continue;
	if (ask != NULL && !server->reading)
		pthread_cond_signal(&ask->changed); /* one of the threads has to read */
}

/* A participant repeats its unsure operation before it asks for anything else. */
static enum roam_err ask_resume(struct roam_ps_server *server, struct attach_ask *ask)
{
	struct roami_unsure *unsure = ask->unsure;

	if (unsure == NULL || unsure->number == 0)
		return ROAM_OK;
	if (unsure->op != ask->op.op)
		return ROAM_ESTATE;
	ask->number = unsure->number;
	ask->again = true;
	unsure_end(server, unsure);
	return ROAM_OK;
}

/* The lock is not held. */
static enum roam_err attach_do(struct roam_ps_server *server, struct attach_ask *ask)
{
	enum roam_err err;

	if (server->pid != getpid())
		return ROAM_ESTATE;
	roami_inside_defer();
	roami_inside_rest(true); /* the job needs nothing of this */
	pthread_mutex_lock(&server->lock);
	err = server->lost;
	if (err == ROAM_OK)
		err = ask_resume(server, ask);
	if (err == ROAM_OK && server->ask_count == ROAMI_GUEST_ASKS_MAX)
		err = ROAM_EAGAIN;
	if (err == ROAM_OK) {
		pthread_cond_init(&ask->changed, NULL);
		ask->next = server->asks;
		server->asks = ask;
		server->ask_count++;
		ask_wait(server, ask);
		if (!ask->answered)
			err = ask_outcome(server, ask);
		ask_unlink(server, ask);
		if (err == ROAM_ELOST && server->lost == ROAM_OK && ask->unsure != NULL)
			unsure_begin(server, ask);
		pthread_cond_destroy(&ask->changed);
	}
	pthread_mutex_unlock(&server->lock);
	roami_inside_rest(false);
	return err;
}

/* When the time of an operation is up. */
static uint64_t ask_until(uint64_t timeout_ns)
{
	uint64_t now = roami_os_now_ns();

	if (timeout_ns == 0)
		return 0;
	if (timeout_ns == ROAM_PS_TRY)
		return now;
	return timeout_ns < AGES_NS ? now + timeout_ns : now + AGES_NS;
}

enum roam_err roami_attach_call(struct roam_ps_server *server, uint32_t kind, uint64_t timeout_ns,
				const struct roam_part *parts, unsigned count, void *reply,
				size_t reply_max, size_t *got_p)
{
	struct attach_ask ask = {.kind = kind, .head = reply, .head_max = reply_max};
	enum roam_err err;

	ask.until = ask_until(timeout_ns);
	memcpy(ask.parts, parts, count * sizeof(*parts));
	err = attach_do(server, &ask);
	*got_p = ask.got;
	return err;
}

/* The element's struct roami_unsure if the operation counts rounds; else NULL. */
static struct roami_unsure *attach_unsure(struct roam_ps_element *element,
					  const struct roami_ask *ask)
{
	bool counts = element->rounds && (ask->op == ROAM_PS_MOVE || ask->op == ROAM_PS_MOB ||
					  (ask->flags & ROAMI_ASK_ROUND) != 0);

	return counts ? &element->unsure : NULL;
}

void roami_attach_leave(struct roam_ps_server *server, struct roam_ps_element *element)
{
	pthread_mutex_lock(&server->lock);
	unsure_end(server, &element->unsure);
	pthread_mutex_unlock(&server->lock);
	roami_attach_rele(server);
}

enum roam_err roami_attach_ask(struct roam_ps_element *element, const struct roami_ask *what,
			       struct roam_ps_request *request)
{
	struct roami_outcome outcome = {.err = ROAM_OK};
	struct attach_ask ask = {.kind = ROAMI_GUEST_OP,
				 .op = *what,
				 .unsure = attach_unsure(element, what),
				 .cancel = request->cancel,
				 .head = (uint8_t *)&outcome,
				 .head_max = sizeof(outcome)};
	enum roam_err err;

	ask.parts[0] = (struct roam_part){&ask.op, sizeof(ask.op)};
	if (roami_ask_carries(what))
		ask.parts[1] = (struct roam_part){request->tuple, request->bytes};
	ask.until = ask_until(what->timeout_ns);
	if (what->op == ROAM_PS_OBSERVE || what->op == ROAM_PS_MOB) {
		ask.rest = request->buffer;
		ask.rest_max = what->limit;
	}
	if (what->op == ROAM_PS_STATE) {
		ask.rest = (uint8_t *)&request->state;
		ask.rest_max = sizeof(request->state);
	}
	err = attach_do(element->server, &ask);
	if (err != ROAM_OK)
		return err;
	if (ask.got < sizeof(outcome) ||
	    (outcome.observed != 0 && ask.got != sizeof(outcome) + outcome.bytes))
		return ROAM_EPROTO;
	return roami_client_outcome(request, &outcome);
}
