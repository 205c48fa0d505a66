/* Processors: which ones threads may run on, and their NUMA domains as the kernel lists them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/os.h"

unsigned roami_os_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 1;
	return (unsigned)CPU_COUNT(&set);
}

void roami_os_cpus_text(char *text, size_t bytes)
{
	cpu_set_t set;
	size_t used = 0;

	text[0] = '\0';
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return;
	for (unsigned cpu = 0, end; cpu < CPU_SETSIZE && used < bytes; cpu = end + 1) {
		const char *comma = used > 0 ? "," : "";

		for (end = cpu; end < CPU_SETSIZE && CPU_ISSET(end, &set); end++)
			;
		if (end == cpu + 1)
			used += (size_t)snprintf(text + used, bytes - used, "%s%u", comma, cpu);
		else if (end > cpu)
			used += (size_t)snprintf(text + used, bytes - used, "%s%u-%u", comma, cpu,
						 end - 1);
	}
}

bool roami_os_pin(unsigned index)
{
	cpu_set_t set, one;
	unsigned seen = 0;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return false;
	index %= (unsigned)CPU_COUNT(&set);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set) || seen++ != index)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		return sched_setaffinity(0, sizeof(one), &one) == 0;
	}
	return false;
}

void roami_os_mask_get(struct roami_os_mask *mask)
{
	if (sched_getaffinity(0, sizeof(mask->cpus), &mask->cpus) != 0)
		CPU_ZERO(&mask->cpus);
}

void roami_os_mask_set(const struct roami_os_mask *mask)
{
	if (CPU_COUNT(&mask->cpus) > 0)
		sched_setaffinity(0, sizeof(mask->cpus), &mask->cpus);
}

/* ------------------------------------------------------------------------------------- domains */

#define DOMAINS "/sys/devices/system/node"

/* Reads a list like "0-3,8" up to its end or its first malformed part. */
static void list_read(const char *text, cpu_set_t *set)
{
	CPU_ZERO(set);
	while (*text >= '0' && *text <= '9') {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < CPU_SETSIZE; first++)
			CPU_SET(first, set);
		text = *end == ',' ? end + 1 : end;
	}
}

static bool file_list(const char *path, cpu_set_t *set)
{
	FILE *file = roami_os_file(path);
	char text[4096];
	size_t bytes;

	if (file == NULL)
		return false;
	bytes = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[bytes] = '\0';
	list_read(text, set);
	return true;
}

/* The CPUs of our mask in a domain; false: none, or no such domain. */
static bool domain_read(unsigned domain, const cpu_set_t *mask, cpu_set_t *set)
{
	char path[64];

	snprintf(path, sizeof(path), DOMAINS "/node%u/cpulist", domain);
	if (!file_list(path, set))
		return false;
	CPU_AND(set, set, mask);
	return CPU_COUNT(set) > 0;
}

/* One more than the highest number of a domain. */
static unsigned domains_end(void)
{
	unsigned end = CPU_SETSIZE;
	cpu_set_t online;

	if (!file_list(DOMAINS "/online", &online))
		return 0;
	while (end > 0 && !CPU_ISSET(end - 1, &online))
		end--;
	return end;
}

/*
 * Finds the domain with CPUs of our mask whose number among these is `number`, modulo their number,
 * which is returned.
 */
static unsigned domain_find(unsigned number, const cpu_set_t *mask, cpu_set_t *found)
{
	unsigned end = domains_end(), count = 0;
	cpu_set_t set;

	for (unsigned domain = 0; domain < end; domain++)
		count += domain_read(domain, mask, &set);
	for (unsigned domain = 0, at = 0; domain < end && count > 0; domain++)
		if (domain_read(domain, mask, &set) && at++ == number % count) {
			*found = set;
			break;
		}
	return count;
}

unsigned roami_os_domain_cpus(void)
{
	struct roami_os_mask mask;
	cpu_set_t set;

	roami_os_mask_get(&mask);
	if (domain_find(0, &mask.cpus, &set) < 2)
		return roami_os_cpus();
	return (unsigned)CPU_COUNT(&set);
}

void roami_os_domain_take(unsigned number)
{
	struct roami_os_mask mask, domain;

	roami_os_mask_get(&mask);
	if (domain_find(number, &mask.cpus, &domain.cpus) > 1)
		roami_os_mask_set(&domain);
}
