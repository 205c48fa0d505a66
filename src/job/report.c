/* Reports the counters as ROAM_STATS asks. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/layers.h"
#include "job/job.h"
#include "msg/msg.h"
#include "page/page.h"
#include "page/pointers.h"
#include "page/race.h"

/* The counters of all nodes, as a table on `fd`, or as JSON in the file `path`. */
static bool job_show(struct roami_job *job, int fd, const char *path)
{
	const struct roami_stats *stats[ROAMI_NODES_MAX];
	const char *types[ROAMI_STATS_TYPES_MAX] = {NULL};
	char over[160];
	struct roami_stats_report report = {
		.nodes = job->nodes,
		.stats = stats,
		.protocol = job->options.protocol,
		.transport = over,
		.engine = pages_of(job->node)->engine->name,
		.types = types,
	};

	for (unsigned i = 0; i < job->nodes; i++)
		stats[i] = &roami_job_ctl(job, i)->stats;
	roami_layers_over(job->node, over, sizeof(over));
	over[strcspn(over, ",")] = '\0'; /* the layer that reaches the farthest */
	for (unsigned i = 0; i < ROAMI_STATS_TYPES_MAX; i++)
		if (roami_msg_named(job->node, i) != NULL)
			types[i] = roami_msg_named(job->node, i)->name;
	if (path != NULL)
		return roami_stats_json(path, &report);
	roami_stats_print(fd, &report);
	return true;
}

void roami_job_print(struct roami_job *job, int fd)
{
	job_show(job, fd, NULL);
}

/* Names the nodes that ended before their counters began: these count the whole job. */
static void job_warn_early(struct roami_job *job)
{
	for (unsigned i = 0; i < job->nodes && job->options.stats_after != 0; i++)
		if (roami_stats_sum(&roami_job_ctl(job, i)->stats, ROAMI_STAT_barriers_before) == 0)
			fprintf(stderr,
				"roam: ROAM_STATS_AFTER=%llu: node %u ended before so many full "
				"barriers; its counters are of the whole job\n",
				(unsigned long long)job->options.stats_after, i);
}

void roami_job_report(struct roami_job *job)
{
	const char *where = job->options.stats;

	if (job->me != 0 || job->reported || where[0] == '\0' || strcmp(where, "0") == 0)
		return;
	job->reported = true;
	job_warn_early(job);
	if (!job_show(job, STDERR_FILENO, strcmp(where, "1") == 0 ? NULL : where))
		fprintf(stderr, "roam: ROAM_STATS=%s: %s\n", where, strerror(errno));
}

/* The sum of a counter over all nodes. */
static uint64_t job_count(const struct roami_job *job, unsigned counter)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < job->nodes; i++)
		sum += roami_stats_sum(&roami_job_ctl(job, i)->stats, counter);
	return sum;
}

void roami_job_verdict(struct roami_job *job)
{
	uint64_t races = job_count(job, ROAMI_STAT_races);
	uint64_t pointers = job_count(job, ROAMI_STAT_private_pointers);

	if (job->me != 0)
		return;
	roami_guard_count(job);
	if ((job->options.check & ROAMI_CHECK_RACE) != 0)
		roami_check_verdict("race", races, job_count(job, ROAMI_STAT_races_alike),
				    STDERR_FILENO);
	if ((job->options.check & ROAMI_CHECK_POINTERS) != 0)
		roami_check_verdict("pointers", pointers, 0, STDERR_FILENO);
	job->found = job->found || races > 0 || pointers > 0;
	if (job->main->ended == NULL || job->life == ROAMI_JOB_ALONE)
		roami_guard_report(job);
}

void roami_job_say(const struct roami_job *job)
{
	char over[160];
	const char *seal = job->boot.aes != 0 ? "AES-256-GCM" : "ChaCha20-Poly1305";
	unsigned hosts = job->boot.hosts;

	if (job->me != 0 || job->options.log < ROAMI_LEVEL_INFO)
		return;
	if (job->start->name != NULL)
		fprintf(stderr, "roam: info: %u nodes on %u host%s, by %s, over %s\n",
			job->nodes, hosts, hosts > 1 ? "s" : "", job->start->name,
			roami_layers_over(job->node, over, sizeof(over)));
	if (hosts > 1)
		fprintf(stderr, "roam: info: datagrams are sealed by %s\n",
			job->options.seal == ROAMI_SEAL_OFF ? "nothing" : seal);
}

void roami_job_report_binding(const struct roami_job *job)
{
	char line[300], name[ROAMI_HOST_BYTES] = "", cpus[128], threads[32] = "";
	const char *host = job->host_names[job->me];
	int length;

	gethostname(name, sizeof(name) - 1);
	roami_os_cpus_text(cpus, sizeof(cpus));
	if (roami_team_threads(job) > 1)
		snprintf(threads, sizeof(threads), "%u threads, ", roami_team_threads(job));
	length = snprintf(line, sizeof(line), "roam: node %u on host %s (pid %d): %sCPUs %s\n",
			  job->me, host != NULL ? host : name, (int)getpid(), threads, cpus);
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return; /* stderr is closed */
}
