/* No engine: a node that is alone has all access to its app view, always. */
#include "fault/engine.h"

static enum roam_err plain_open(void *state, const struct roami_view *view, roami_fault_fn *fn,
				void *arg)
{
	(void)state;
	(void)view;
	(void)fn;
	(void)arg;
	return ROAM_OK;
}

static void plain_close(void *state)
{
	(void)state;
}

static enum roam_err plain_protect(void *state, uint32_t first, uint32_t count,
				   enum roam_access from, enum roam_access to)
{
	(void)state;
	(void)first;
	(void)count;
	(void)from;
	(void)to;
	return ROAM_OK;
}

const struct roami_fault_engine roami_fault_plain = {
	.name = "plain",
	.open = plain_open,
	.close = plain_close,
	.protect = plain_protect,
};
