/*
 * What transactions read and wrote, and whether one order of them explains it: an order in which
 * each read finds the last version before it, and which agrees with the clock.
 */
#ifndef ROAM_TESTS_TX_GRAPH_H
#define ROAM_TESTS_TX_GRAPH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TX_OPS  6u
#define TX_LOGS 1024u

struct tx_op {
	unsigned variable;
	uint64_t was;   /* the version read; of a write: the version before it */
	uint64_t value; /* of a write; 0: it is a read */
};

struct tx_log {
	unsigned node;
	uint64_t begin, end; /* on the clock */
	uint64_t serial; /* that the store gave to what was written; 0: none */
	unsigned count;
	bool passes;
	struct tx_op ops[2 * TX_OPS];
};

struct tx_graph {
	unsigned count;
	struct tx_log logs[TX_LOGS];
	uint8_t mark[TX_LOGS]; /* 1: on the path, 2: done */
};

static inline void tx_log_add(struct tx_log *log, struct tx_op op)
{
	if (log->count == 2 * TX_OPS)
		abort();
	log->ops[log->count++] = op;
}

/* The newest write of the variable; NULL: there is none. */
static inline struct tx_op *tx_log_find(struct tx_log *log, unsigned variable)
{
	for (unsigned i = 0; i < log->count; i++)
		if (log->ops[i].variable == variable && log->ops[i].value != 0)
			return &log->ops[i];
	return NULL;
}

static inline bool tx_log_wrote(struct tx_log *log, unsigned variable)
{
	return tx_log_find(log, variable) != NULL;
}

static inline uint64_t tx_log_value(struct tx_log *log, unsigned variable)
{
	return tx_log_find(log, variable)->value;
}

static inline void tx_log_read(struct tx_log *log, unsigned variable, uint64_t was)
{
	tx_log_add(log, (struct tx_op){variable, was, 0});
}

/* Several writes of a variable count as one, of the last value. */
static inline void tx_log_write(struct tx_log *log, unsigned variable, uint64_t was, uint64_t value)
{
	struct tx_op *op = tx_log_find(log, variable);

	if (op != NULL)
		op->value = value;
	else
		tx_log_add(log, (struct tx_op){variable, was, value});
}

static inline void tx_graph_add(struct tx_graph *graph, const struct tx_log *log)
{
	if (graph->count == TX_LOGS)
		abort();
	graph->logs[graph->count++] = *log;
}

/* Whether `a` must come before `b`, because of one variable of each. */
static inline bool tx_op_before(const struct tx_op *a, const struct tx_op *b)
{
	if (a->variable != b->variable)
		return false;
	if (a->value != 0 && a->value == b->was) /* b reads, or replaces, what a wrote */
		return true;
	return b->value != 0 && a->was == b->was && a->value == 0; /* a reads what b replaces */
}

static inline bool tx_before(const struct tx_log *a, const struct tx_log *b)
{
	if (a->end < b->begin)
		return true;
	for (unsigned i = 0; i < a->count; i++)
		for (unsigned j = 0; j < b->count; j++)
			if (tx_op_before(&a->ops[i], &b->ops[j]))
				return true;
	return false;
}

/*
 * Whether two updates replaced the same version, so that one is lost, or a version was never
 * written.
 */
static inline bool tx_versions(const struct tx_graph *graph)
{
	for (unsigned a = 0; a < graph->count; a++)
		for (unsigned i = 0; i < graph->logs[a].count; i++) {
			const struct tx_op *op = &graph->logs[a].ops[i];
			bool written = op->was == 0;

			for (unsigned b = 0; b < graph->count; b++)
				for (unsigned j = 0; j < graph->logs[b].count; j++) {
					const struct tx_op *other = &graph->logs[b].ops[j];

					if (other->variable != op->variable || other->value == 0)
						continue;
					written |= other->value == op->was;
					if (a != b && op->value != 0 && op->was == other->was)
						return false;
				}
			if (!written)
				return false;
		}
	return true;
}

/* Whether the store got each commit after those that wrote what it has read or replaced. */
static inline bool tx_graph_stored(const struct tx_graph *graph)
{
	for (unsigned a = 0; a < graph->count; a++)
		for (unsigned b = 0; b < graph->count; b++) {
			const struct tx_log *first = &graph->logs[a], *next = &graph->logs[b];

			if (a == b || first->serial == 0 || next->serial == 0 ||
			    first->serial < next->serial)
				continue;
			for (unsigned i = 0; i < first->count; i++)
				for (unsigned j = 0; j < next->count; j++)
					if (first->ops[i].variable == next->ops[j].variable &&
					    first->ops[i].value != 0 &&
					    first->ops[i].value == next->ops[j].was)
						return false;
		}
	return true;
}

static inline bool tx_visit(struct tx_graph *graph, unsigned at)
{
	graph->mark[at] = 1;
	for (unsigned next = 0; next < graph->count; next++) {
		if (next == at || graph->mark[next] == 2 ||
		    !tx_before(&graph->logs[at], &graph->logs[next]))
			continue;
		if (graph->mark[next] == 1 || !tx_visit(graph, next))
			return false;
	}
	graph->mark[at] = 2;
	return true;
}

static inline bool tx_graph_serial(struct tx_graph *graph)
{
	if (!tx_versions(graph))
		return false;
	for (unsigned at = 0; at < graph->count; at++)
		if (graph->mark[at] == 0 && !tx_visit(graph, at))
			return false;
	return true;
}

#endif
