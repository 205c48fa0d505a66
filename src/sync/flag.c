/*
 * Latched flags (PAUSE): setting is a release with everything the setter knows, under ScC with its
 * own writes; waiting is an acquire.  State at the flag's home, whose own threads use it without a
 * message.  Threads of another node ask the home together.
 */
#include <string.h>

#include "msg/msg.h"
#include "page/page.h"
#include "sync/log.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

/* Messages. */
enum { FLAG_SET, FLAG_CLEAR, FLAG_WAIT };

static unsigned flag_type(const struct roami_node *node, unsigned message)
{
	roami_contract(message <= FLAG_WAIT);
	return roami_type(node, ROAMI_ROOM_FLAGS, message);
}

struct flag_waiter {
	struct roam_request request; /* its data is not kept */
	struct roami_vclock clock;
};

static struct roami_flag *flag_make(struct roami_node *node, uint64_t id)
{
	return roami_table_make(node, &sync_of(node)->flags, id);
}

/* ---------------------------------------------------------------------------------- at its home */

/*
 * The flag is set by a node that knows `clock`: those that wait go on, those of this node by
 * `sets`.
 */
static void latch_set(struct roami_node *node, struct roami_flag *flag,
		      const struct roami_vclock *clock)
{
	struct flag_waiter *waiters;

	roami_spin_lock(node, &flag->spin);
	flag->set = true;
	roami_vclock_merge(&flag->clock, clock, node->nodes);
	waiters = (void *)flag->waiters.items;
	for (size_t i = 0; i < flag->waiters.count; i++)
		roami_log_reply(node, &waiters[i].request, &waiters[i].clock, &flag->clock, NULL,
				0);
	roami_os_vec_free(&flag->waiters, sizeof(*waiters));
	atomic_fetch_add(&flag->sets, 1);
	roami_spin_unlock(&flag->spin);
	roami_changed(node, node->me);
}

static void latch_clear(struct roami_node *node, struct roami_flag *flag)
{
	roami_spin_lock(node, &flag->spin);
	flag->set = false;
	roami_spin_unlock(&flag->spin);
}

struct latch_wait {
	struct roami_flag *flag;
	uint32_t sets; /* so often it had been set */
};

static bool latch_was_set(void *arg)
{
	const struct latch_wait *wait = arg;

	return atomic_load(&wait->flag->sets) != wait->sets;
}

/*
 * Returns once the flag is set, or was set since this was called, even if it is cleared again.
 * This node has seen all that its setters had.
 */
static void latch_wait(struct roami_node *node, struct roami_flag *flag)
{
	struct latch_wait wait = {flag, 0};
	bool set;

	roami_spin_lock(node, &flag->spin);
	set = flag->set;
	wait.sets = atomic_load(&flag->sets);
	roami_spin_unlock(&flag->spin);
	if (!set)
		roami_wait(node, latch_was_set, &wait);
}

/* --------------------------------------------------------------------------------------- calls */

/* Sets the flag at its home, which passes on to other nodes what is beyond all nodes' floor. */
static void flag_set_far(struct roami_node *node, unsigned home, uint64_t id,
			 const struct roami_vclock *passed_on)
{
	struct roami_vclock known, floor;
	struct roami_vclock_wire wire;
	struct roam_part parts[2] = {{&id, sizeof(id)}, {&wire, 0}};

	roami_log_known(node, home, &known);
	roami_log_ahead(node, home, &known, passed_on, false);
	roami_log_floor(node, &floor);
	parts[1].bytes = roami_vclock_encode_beyond(passed_on, &floor, node->nodes, &wire);
	roami_msg_call(node, home, flag_type(node, FLAG_SET), parts, 2, NULL, 0);
}

/*
 * Returns when the flag is set at its home: a thread that learns of that otherwise than by waiting
 * for it, by a barrier for example, may clear it for the next round.
 */
enum roam_err roami_flag_set(struct roami_node *node, uint64_t id)
{
	struct roam_sync sync = {ROAM_SYNC_FLAG, false, id, false};
	struct roami_flag *flag = flag_make(node, id);
	unsigned home = roami_sync_home(node, id);
	struct roami_vclock passed_on;

	ROAMI_COUNT(node->stats, flags, 1);
	roami_object_announce(node, id, &flag->announced);
	roami_release(node, &sync);
	roami_log_passed_on(node, &passed_on);
	if (home == node->me)
		latch_set(node, flag, &passed_on);
	else
		flag_set_far(node, home, id, &passed_on);
	roami_release_rest(node);
	return ROAM_OK;
}

enum roam_err roami_flag_clear(struct roami_node *node, uint64_t id)
{
	struct roam_part part = {&id, sizeof(id)};
	unsigned home = roami_sync_home(node, id);

	if (home == node->me)
		latch_clear(node, flag_make(node, id));
	else
		roami_msg_call(node, home, flag_type(node, FLAG_CLEAR), &part, 1, NULL, 0);
	roami_hear(node);
	return ROAM_OK;
}

/* Waits for the answer of the flag's home, which sends ahead what this node has not seen. */
static void flag_wait_far(struct roami_node *node, unsigned home, uint64_t id)
{
	struct roami_vclock clock, base;
	struct roami_vclock_wire wire, answer;
	uint64_t head[2] = {id, 0};
	struct roam_part parts[2] = {{head, sizeof(head)}, {&wire, 0}};
	size_t bytes;

	head[1] = roami_log_base(node, &base);
	roami_log_clock(node, &clock);
	parts[1].bytes = roami_vclock_encode(&clock, &base, node->nodes, &wire);
	bytes = roami_msg_call(node, home, flag_type(node, FLAG_WAIT), parts, 2, &answer,
			       sizeof(answer));
	if (bytes == 0 || roami_vclock_decode(&clock, node->nodes, &answer, bytes) != bytes)
		roami_node_fail(node, "node %u sent a malformed answer about a flag", home);
	roami_log_saw(node, &clock);
}

struct flag_asked {
	struct roami_flag *flag;
	uint32_t call;
};

/* Whether the home has answered this call or a newer one; they are numbered modulo 2^32. */
static bool flag_answered(void *arg)
{
	const struct flag_asked *asked = arg;

	return (int32_t)(atomic_load(&asked->flag->answered) - asked->call) >= 0;
}

/*
 * Whether the newest call of this node asks for this thread, too (rule 5.8): its answer shows a set
 * before which no clear came that this thread knows of, because since the call began this node has
 * heard nothing.  Else a new call begins.
 */
static bool flag_join(struct roami_node *node, struct flag_asked *asked)
{
	struct roami_flag *flag = asked->flag;
	uint64_t heard = atomic_load(&pages_of(node)->heard);
	bool join;

	roami_spin_lock(node, &flag->spin);
	asked->call = flag->asked;
	join = !flag_answered(asked) && flag->heard == heard;
	if (!join) {
		asked->call = ++flag->asked;
		flag->heard = heard;
	}
	roami_spin_unlock(&flag->spin);
	return join;
}

/* The home has answered: this thread goes on, and those that have joined it. */
static void flag_go(struct roami_node *node, struct flag_asked *asked)
{
	roami_spin_lock(node, &asked->flag->spin);
	if (!flag_answered(asked))
		atomic_store(&asked->flag->answered, asked->call);
	roami_spin_unlock(&asked->flag->spin);
	roami_changed(node, node->me);
}

static void flag_wait_together(struct roami_node *node, unsigned home, struct roami_flag *flag)
{
	struct flag_asked asked = {flag, 0};

	roami_contract(home != node->me);
	if (flag_join(node, &asked)) {
		roami_wait(node, flag_answered, &asked);
		return;
	}
	flag_wait_far(node, home, flag->id);
	flag_go(node, &asked);
}

enum roam_err roami_flag_wait(struct roami_node *node, uint64_t id)
{
	struct roam_sync sync = {ROAM_SYNC_FLAG, false, id, false};
	struct roami_flag *flag = flag_make(node, id);
	unsigned home = roami_sync_home(node, id);
	uint64_t start;

	ROAMI_COUNT(node->stats, flags, 1);
	roami_object_announce(node, id, &flag->announced);
	start = roami_os_cycles();
	roami_node_waits(node, ROAM_SYNC_FLAG + 1, id, 0);
	if (home == node->me)
		latch_wait(node, flag);
	else
		flag_wait_together(node, home, flag);
	roami_node_waits_no_more(node);
	ROAMI_TIME(node->stats, lock, roami_os_cycles() - start);
	roami_acquire(node, &sync);
	return ROAM_OK;
}

/* ------------------------------------------------------------------------------------ handlers */

void roami_flag_forget(struct roami_node *node, void *item)
{
	struct roami_flag *flag = item;

	atomic_store(&flag->announced, 0);
	roami_spin_lock(node, &flag->spin);
	flag->set = false;
	flag->clock = (struct roami_vclock){{0}};
	roami_os_vec_free(&flag->waiters, sizeof(struct flag_waiter));
	roami_spin_unlock(&flag->spin);
}

/* The flag named by a message, which has at least `words` words before its clock. */
static struct roami_flag *flag_of(struct roami_node *node, const struct roam_request *request,
				  uint64_t *head, size_t words)
{
	roami_contract(roami_msg_polling(node));
	if (request->bytes < words * sizeof(*head))
		roami_node_fail(node, "node %u sent a malformed flag message", request->from);
	memcpy(head, request->data, words * sizeof(*head));
	return flag_make(node, head[0]);
}

/* Decodes the clock of a message of flag_of onto *clock. */
static void flag_clock(struct roami_node *node, const struct roam_request *request, size_t words,
		       struct roami_vclock *clock)
{
	size_t at = words * sizeof(uint64_t), bytes = request->bytes - at;

	roami_contract(roami_msg_polling(node));
	if (bytes == 0 || roami_vclock_decode(clock, node->nodes,
					      (const uint8_t *)request->data + at, bytes) != bytes)
		roami_node_fail(node, "node %u sent a malformed flag message", request->from);
}

static void flag_handle_set(struct roami_node *node, const struct roam_request *request)
{
	struct roami_vclock clock = {{0}};
	uint64_t id;
	struct roami_flag *flag = flag_of(node, request, &id, 1);

	flag_clock(node, request, 1, &clock);
	roami_log_saw(node, &clock);
	latch_set(node, flag, &clock);
	roami_reply(node, request, NULL, 0);
}

static void flag_handle_clear(struct roami_node *node, const struct roam_request *request)
{
	uint64_t id;
	struct roami_flag *flag = flag_of(node, request, &id, 1);

	latch_clear(node, flag);
	roami_reply(node, request, NULL, 0);
}

static void flag_handle_wait(struct roami_node *node, const struct roam_request *request)
{
	struct flag_waiter waiter, *slot;
	uint64_t head[2];
	struct roami_flag *flag = flag_of(node, request, head, 2);

	waiter.request = *request;
	roami_log_bases(node, head[1], &waiter.clock, NULL);
	flag_clock(node, request, 2, &waiter.clock);
	roami_spin_lock(node, &flag->spin);
	if (flag->set) {
		roami_log_reply(node, request, &waiter.clock, &flag->clock, NULL, 0);
	} else {
		slot = roami_os_vec_grow(&flag->waiters, sizeof(*slot), 1);
		if (slot == NULL)
			roami_node_fail(node, "no memory for threads that wait for a flag");
		*slot = waiter;
		flag->waiters.count++;
	}
	roami_spin_unlock(&flag->spin);
}

static const struct roam_message flags_messages[] = {
	[FLAG_SET] = {"flag set", flag_handle_set, 1024},
	[FLAG_CLEAR] = {"flag clear", flag_handle_clear, 512},
	[FLAG_WAIT] = {"flag wait", flag_handle_wait, 1024},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_flags = {.name = "flags", .messages = flags_messages};
