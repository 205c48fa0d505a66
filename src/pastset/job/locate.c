/* Elements by their names, wherever they live. */
#include "msg/msg.h"
#include "pastset/job/server.h"

enum roam_err roami_past_locate(struct roami_node *node, const char *name, size_t bytes,
				  unsigned wanted, uint32_t *owner_p)
{
	unsigned home = roami_name_home(node, name, bytes);
	struct roami_locate ask = {wanted < node->nodes ? wanted : home, (uint32_t)bytes};
	struct roam_part parts[2] = {{&ask, sizeof(ask)}, {name, bytes}};
	struct roami_past *past = roami_past_of(node);
	struct roami_located answer;

	if (home == node->me)
		roami_name_locate(past, &ask, name, &answer);
	else if (roami_msg_call(node, home, roami_past_type(past, ROAMI_PAST_LOCATE), parts, 2,
				&answer, sizeof(answer)) != sizeof(answer) ||
		 answer.owner >= node->nodes)
		roami_node_fail(node, "node %u sent a malformed PastSet reply", home);
	*owner_p = answer.owner;
	return (enum roam_err)answer.err;
}

void roami_past_bind(struct roami_node *node, unsigned owner, const struct roami_bind *ask,
		     const char *texts, struct roami_ps_bound *answer, struct roami_show_at *at)
{
	struct roam_part parts[2] = {{ask, sizeof(*ask)},
				     {texts, ask->name_bytes + ask->template_bytes}};
	struct roami_past *past = roami_past_of(node);
	struct roami_bound_here got;

	*at = (struct roami_show_at){.host = 0};
	if (owner == node->me) {
		roami_name_bind(past, ask, texts, answer);
		return;
	}
	if (roami_msg_call(node, owner, roami_past_type(past, ROAMI_PAST_BIND), parts, 2, &got,
			   sizeof(got)) != sizeof(got))
		roami_node_fail(node, "node %u sent a malformed PastSet reply", owner);
	*answer = got.bound;
	*at = got.at;
}
