/* The public API of endpoints. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "dp/dp.h"
#include "dp/pair.h"
#include "link/channel.h"
#include "page/page.h"
#include "link/address.h"

#define ROUND_PAIR UINT64_MAX /* of endpoints of a pair */
#define WHY_BYTES  300u
#define CLOSES_US  100u   /* until a call looks again whether the node has closed */
#define KEY_US     10000u /* until a program that connects looks for the key again */

/* The pair that this process is one of, or MEETING; NULL: none. */
static struct roam_dp_pair *_Atomic roami_pair;
static pthread_once_t roami_pair_once = PTHREAD_ONCE_INIT;

#define MEETING ((struct roam_dp_pair *)1) /* a thread is about to meet */

/* Whether an endpoint is of the job as it is now. */
static enum roam_err dp_lives(const struct roam_dp *dp)
{
	struct roami_node *node;
	uint64_t round;
	enum roam_err err;

	if (atomic_load(&dp->over) != 0 || dp->node == NULL)
		return ROAM_ESTATE;
	if (dp->round == ROUND_PAIR)
		return atomic_load(&roami_pair) != NULL ? ROAM_OK : ROAM_ESTATE;
	err = roami_api_node(&node, &round);
	if (err == ROAM_OK && round != dp->round)
		err = ROAM_ESTATE;
	return err;
}

static void dp_leave(struct roam_dp *dp)
{
	atomic_fetch_sub(&dp->users, 1);
	roami_inside.uses = NULL;
}

/* Begins a call that uses an endpoint: from there to dp_leave its node does not close. */
static enum roam_err dp_enter(struct roam_dp *dp)
{
	enum roam_err err;

	if (dp == NULL)
		return ROAM_EINVAL;
	roami_inside.uses = dp;
	atomic_fetch_add(&dp->users, 1);
	err = dp_lives(dp);
	if (err != ROAM_OK)
		dp_leave(dp);
	return err;
}

enum roam_err roam_dp_open(uint32_t endpoint, struct roam_dp **dp_p)
{
	INSIDE;
	struct roami_node *node;
	uint64_t round;
	enum roam_err err;

	if (dp_p == NULL || endpoint == UINT32_MAX)
		return ROAM_EINVAL;
	err = roami_api_node(&node, &round);
	if (err == ROAM_OK)
		err = roami_dp_open(node, endpoint, dp_p);
	if (err == ROAM_OK)
		(*dp_p)->round = round;
	return err;
}

/*
 * A node that closes may still touch it.  In a process that was forked the list of endpoints is
 * another one's: the node has closed.
 */
void roam_dp_close(struct roam_dp *dp)
{
	INSIDE;

	if (dp == NULL || roami_api_transacts())
		return;
	while (atomic_load(&dp->over) == ROAMI_DP_ENDS && dp->pid == getpid())
		usleep(CLOSES_US);
	if (dp->pid != getpid())
		dp->node = NULL;
	roami_dp_close(dp);
}

static enum roam_err dp_send(struct roam_dp *dp, unsigned node, uint32_t endpoint, const void *data,
			     size_t bytes, uint64_t timeout_ns)
{
	if (bytes > ROAM_DP_MESSAGE_MAX)
		return ROAM_ETOOBIG;
	if (endpoint == UINT32_MAX || (data == NULL && bytes > 0))
		return ROAM_EINVAL;
	if (dp->round == ROUND_PAIR)
		return node < dp->node->nodes ? roami_dp_send(dp, node, endpoint, data, bytes,
							      false, timeout_ns)
					      : ROAM_EINVAL;
	if (node >= roam_nodes())
		return ROAM_EINVAL;
	return roami_dp_send(dp, roami_api_place(node), endpoint, data, bytes,
			     roami_api_shared(data, bytes), timeout_ns);
}

enum roam_err roam_dp_send(struct roam_dp *dp, unsigned node, uint32_t endpoint, const void *data,
			   size_t bytes, uint64_t timeout_ns)
{
	INSIDE;
	enum roam_err err = dp_enter(dp);

	if (err != ROAM_OK)
		return err;
	err = dp_send(dp, node, endpoint, data, bytes, timeout_ns);
	dp_leave(dp);
	return err;
}

static enum roam_err dp_receive(struct roam_dp *dp, void *buffer, size_t limit, uint64_t timeout_ns,
				struct roam_dp_message *message_p)
{
	struct roam_dp_message message;
	enum roam_err err;

	if (buffer == NULL && limit > 0)
		return ROAM_EINVAL;
	err = roami_dp_receive(dp, buffer, limit, timeout_ns, &message);
	if (err != ROAM_OK && err != ROAM_ETOOBIG)
		return err;
	if (dp->round != ROUND_PAIR) {
		message.node = roami_api_number(message.node);
		roami_hear(dp->node); /* rule 5.8: its sender may have cleared a flag before */
	}
	if (message_p != NULL)
		*message_p = message;
	return err;
}

enum roam_err roam_dp_receive(struct roam_dp *dp, void *buffer, size_t limit, uint64_t timeout_ns,
			      struct roam_dp_message *message_p)
{
	INSIDE;
	enum roam_err err = dp_enter(dp);

	if (err != ROAM_OK)
		return err;
	err = dp_receive(dp, buffer, limit, timeout_ns, message_p);
	dp_leave(dp);
	return err;
}

int roam_dp_file(struct roam_dp *dp)
{
	INSIDE;
	enum roam_err err = dp_enter(dp);
	int file = err == ROAM_OK ? roami_dp_file(dp) : -1;

	if (err == ROAM_OK)
		dp_leave(dp);
	if (file < 0)
		roami_api_errno(err != ROAM_OK ? err : ROAM_ESYSTEM);
	return file;
}

/* ---------------------------------------------------------------------------------------- pairs */

bool roami_api_paired(void)
{
	return atomic_load(&roami_pair) != NULL;
}

/* The program that listens makes the key's file if it is not there; the other one waits for it. */
static void pair_await_key(const char *file, uint64_t until)
{
	if (file == NULL)
		file = getenv("ROAM_PS_KEY");
	while (file != NULL && access(file, F_OK) != 0 && errno == ENOENT &&
	       roami_os_now_ns() < until) {
		roami_inside_defer();
		usleep(KEY_US);
	}
}

static enum roam_err pair_meet(struct roami_dp_meeting *ask, const char *key_file,
			       struct roam_dp_pair **pair_p)
{
	uint8_t key[ROAMI_CHANNEL_KEY];
	char why[WHY_BYTES] = "";
	enum roam_err err = ROAM_EINVAL;

	ask->key = key;
	if (!ask->listens)
		pair_await_key(key_file, ask->until);
	if (roami_address_key(key_file, ask->listens, key, why, sizeof(why)))
		err = roami_dp_meet(ask, pair_p, why, sizeof(why));
	explicit_bzero(key, sizeof(key));
	if (err != ROAM_OK)
		fprintf(stderr, "roam: no pair at %s: %s%s%s\n", ask->address,
			why[0] != '\0' ? why : roam_strerror(err), why[0] != '\0' ? ": " : "",
			why[0] != '\0' ? roam_strerror(err) : "");
	return err;
}

/* The pair is the parent's: its connection and its numbers of messages are. */
static void pair_forked(void)
{
	atomic_store(&roami_pair, NULL);
}

static void pair_watch_forks(void)
{
	pthread_atfork(NULL, NULL, pair_forked);
}

enum roam_err roam_dp_meet(const char *address, const char *key_file, int listens,
			   uint64_t timeout_ns, struct roam_dp_pair **pair_p)
{
	INSIDE;
	struct roami_dp_meeting ask = {.address = address, .listens = listens != 0};
	struct roam_dp_pair *none = NULL;
	enum roam_err err;

	if (address == NULL || pair_p == NULL || timeout_ns == ROAM_DP_TRY)
		return ROAM_EINVAL;
	if (roami_api_begun() || !atomic_compare_exchange_strong(&roami_pair, &none, MEETING))
		return ROAM_ESTATE;
	pthread_once(&roami_pair_once, pair_watch_forks);
	ask.until = roami_dp_after(roami_os_now_ns(), timeout_ns);
	err = pair_meet(&ask, key_file, pair_p);
	atomic_store(&roami_pair, err == ROAM_OK ? *pair_p : NULL);
	return err;
}

enum roam_err roam_dp_open_pair(struct roam_dp_pair *pair, uint32_t endpoint, struct roam_dp **dp_p)
{
	INSIDE;
	enum roam_err err;

	if (pair == NULL || dp_p == NULL || endpoint == UINT32_MAX)
		return ROAM_EINVAL;
	if (pair != atomic_load(&roami_pair))
		return ROAM_ESTATE;
	err = roami_dp_open(roami_dp_pair_node(pair), endpoint, dp_p);
	if (err == ROAM_OK)
		(*dp_p)->round = ROUND_PAIR;
	return err;
}

unsigned roam_dp_pair_node(const struct roam_dp_pair *pair)
{
	return roami_dp_pair_node(pair)->me;
}

void roam_dp_part(struct roam_dp_pair *pair)
{
	INSIDE;

	if (pair == NULL || pair != atomic_load(&roami_pair))
		return;
	roami_dp_part(pair);
	atomic_store(&roami_pair, NULL);
}
