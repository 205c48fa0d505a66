/*
 * roam bench apps: a program under adapt, compared with the best of the other protocols under which
 * it is right.  All run on 2 nodes and one engine, in turn.  The first run of each protocol is
 * verified and decides whether it takes part: only if it ends within a few times adapt's time.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "base/node.h"

#define RIVALS_MAX 16u
#define SLOWER     2.0 /* a rival is left out if it takes so many times the first one's */
#define SECONDS    1.0 /* time, and this much more */

/* The first entry is the app's own protocol. */
struct rival {
	const char *protocol;
	float wall[APP_REPEATS];
	unsigned count;
};

static bool rival_suits(const struct roam_protocol *protocol, const struct app *app)
{
	return strcmp(protocol->name, app->protocol) != 0 &&
	       protocol->homes != ROAM_HOMES_EVERYWHERE && protocol->model != ROAM_MODEL_SCC;
}

static bool rival_run(struct bench *bench, const struct app *app, const char *path,
		      const struct rival *rival, unsigned seconds, double *wall_p)
{
	const struct app_run run = {path, app, 2, bench->engines[0], rival->protocol,
				    seconds > 0, seconds > 0 ? seconds : APP_SECONDS_MAX};
	double region;

	return app_run_once(&run, wall_p, &region);
}

/*
 * Fills the list with the protocols that take part; returns their number, 0: the first one fails.
 */
static unsigned rivals_choose(struct bench *bench, const struct app *app, const char *path,
			      struct rival *list)
{
	unsigned count = 1;
	double first, wall;

	list[0].protocol = app->protocol;
	if (!rival_run(bench, app, path, &list[0], APP_SECONDS_MAX, &first))
		return 0;
	for (size_t i = 0; roami_protocols[i] != NULL && count < RIVALS_MAX; i++) {
		list[count].protocol = roami_protocols[i]->name;
		if (rival_suits(roami_protocols[i], app) &&
		    rival_run(bench, app, path, &list[count],
			      (unsigned)(SLOWER * first / 1e6 + SECONDS) + 1, &wall))
			count++;
	}
	return count;
}

static void rivals_row(struct bench *bench, const struct app *app, struct rival *list,
		       unsigned count)
{
	struct report_median mine, best = {.us = -1};
	struct report_row *row;
	char *name;

	if (asprintf(&name, "%s_2", app->name) < 0 ||
	    (row = report_add(&bench->report, name)) == NULL)
		return;
	mine = report_median(list[0].wall, list[0].count, 1);
	row->floor = "no other protocol";
	for (unsigned i = 1; i < count; i++) {
		struct report_median its = report_median(list[i].wall, list[i].count, 1);

		if (its.us < 0 || (best.us >= 0 && its.us >= best.us))
			continue;
		best = its;
		row->floor = list[i].protocol;
	}
	row->engine = bench->engines[0];
	row->protocol = app->protocol;
	row->transport = "shm";
	row->us = mine.us;
	row->p10 = mine.p10;
	row->p90 = mine.p90;
	row->n = mine.n;
	row->floor_us = best.us;
	row->goal = app->pair_goal;
	row->limit_us = best.us > 0 ? app->pair * best.us : -1;
	row->met = row->us >= 0 && best.us > 0 && row->us <= row->limit_us ? REPORT_MET
									   : REPORT_MISSED;
}

void bench_rivals(struct bench *bench, const struct app *app, const char *directory)
{
	struct rival list[RIVALS_MAX];
	char path[2 * PATH_MAX];
	unsigned count;
	double wall;

	memset(list, 0, sizeof(list));
	snprintf(path, sizeof(path), "%s/%s", directory, app->program);
	count = rivals_choose(bench, app, path, list);
	for (unsigned repeat = 0; repeat < APP_REPEATS; repeat++)
		for (unsigned i = 0; i < count; i++)
			if (rival_run(bench, app, path, &list[i], 0, &wall))
				list[i].wall[list[i].count++] = (float)wall;
	if (count > 0)
		rivals_row(bench, app, list, count);
}
