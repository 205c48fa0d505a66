/* Reports wrong use of locks and the like, in one line that says where. */
#include <stdio.h>

#include "api/api.h"

/* What the kind's text names: a thread, the protocol or an object. */
static void misuse_name(struct roami_node *node, enum roami_misuse kind, const void *object,
			char name[ROAMI_OS_POSITION_BYTES])
{
	if (kind == ROAMI_MISUSE_TX)
		snprintf(name, ROAMI_OS_POSITION_BYTES, "%s", node->protocol->name);
	else if (kind >= ROAMI_MISUSE_STRANGER)
		snprintf(name, ROAMI_OS_POSITION_BYTES, "%u", node->env->thread(node));
	else
		roami_os_object(object, name);
}

enum roam_err roami_misused(struct roami_node *node, enum roami_misuse kind, enum roam_err err,
			    const char *call, const void *object, const void *caller)
{
	static const char *const texts[] = {
		[ROAMI_MISUSE_LOCK] = "%s of %s, which this thread holds already",
		[ROAMI_MISUSE_UNLOCK] = "%s of %s, which this thread does not hold",
		[ROAMI_MISUSE_COND_WAIT] = "%s without its lock %s",
		[ROAMI_MISUSE_OBJECT] = "%s of %s, which is no address of an object",
		[ROAMI_MISUSE_PRIVATE] = "%s of %s, which is not in the shared heap",
		[ROAMI_MISUSE_BARRIER] =
			"%s at %s for no thread, or for more than the job can have",
		[ROAMI_MISUSE_REDUCE] =
			("%s of %s, of no value, of more than 64, or by an operation that the type "
			 "does not have"),
		[ROAMI_MISUSE_FREE] = "%s of %s, which is no block of roam_alloc, or freed already",
		[ROAMI_MISUSE_STRANGER] =
			("%s by thread %s, which has not called roam_thread_init: barriers are "
			 "counted wrongly"),
		[ROAMI_MISUSE_TWICE] = "%s by thread %s, which is registered already",
		[ROAMI_MISUSE_NEVER] = "%s by thread %s, which is not registered",
		[ROAMI_MISUSE_TX] =
			"%s under protocol %s, which has no transactions (ROAM_PROTOCOL=plurix)",
	};
	char what[200], name[ROAMI_OS_POSITION_BYTES], position[ROAMI_OS_POSITION_BYTES];
	uint32_t bit = 1u << kind;

	if (node == NULL)
		return err;
	if (!node->options->strict &&
	    (atomic_fetch_or(&node->segments[0].ctl->misused, bit) & bit) != 0)
		return err;
	misuse_name(node, kind, object, name);
	roami_os_position((const uint8_t *)caller - 1, position);
	snprintf(what, sizeof(what), texts[kind], call, name);
	if (node->options->strict)
		roami_node_fail(node, "%s, at %s (ROAM_STRICT=1)", what, position);
	if (node->options->log >= ROAMI_LEVEL_WARN)
		fprintf(stderr, "roam: warning: node %u: %s, at %s; later ones are not reported\n",
			node->me, what, position);
	return err;
}
