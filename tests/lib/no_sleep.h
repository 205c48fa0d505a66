/* The functions of struct roami_sleep other than waits, for nodes whose threads never sleep. */
#ifndef TEST_NO_SLEEP_H
#define TEST_NO_SLEEP_H

#include "base/node.h"

static inline void no_sleep_changed(struct roami_node *node, unsigned peer, uint64_t ticket)
{
	(void)node;
	(void)peer;
	(void)ticket;
}

static inline void no_sleep_until(struct roami_node *node, uint64_t when)
{
	(void)node;
	(void)when;
}

static inline void no_sleep_sent(struct roami_node *node, unsigned peer, bool answer)
{
	(void)node;
	(void)peer;
	(void)answer;
}

static inline void no_sleep_begin(struct roami_node *node, bool later)
{
	(void)node;
	(void)later;
}

static inline void no_sleep_end(struct roami_node *node)
{
	(void)node;
}

#endif
