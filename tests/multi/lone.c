/*
 * A job of one node keeps its blocks in anonymous memory; nodes created later find the bytes, what
 * was written before the first CREATE and blocks allocated meanwhile included.  While nodes are
 * forked no thread of the library runs: locks that it held would stay locked in the nodes.
 */
#include "multi.h"

#include <dirent.h>
#include <pthread.h>

#define NUMBERS 200000u

static uint32_t *numbers;
static uint32_t *later;

static void one(void)
{
	for (uint32_t i = 0; i < NUMBERS; i++)
		numbers[i] += i;
	if (later == NULL)
		later = must_alloc(40000);
	later[5] = 7;
}

static void many(void)
{
	for (uint32_t i = roam_node(); i < NUMBERS; i += roam_nodes())
		numbers[i]++;
	must(roam_barrier_all());
	check(later[5] == 7);
}

static void round_of(void (*fn)(void), unsigned nodes)
{
	must(roam_create_all(fn, nodes));
	must(roam_wait_for_end());
}

static void only_thread(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned count = 0;

	check(tasks != NULL);
	for (const struct dirent *one; (one = readdir(tasks)) != NULL;)
		count += one->d_name[0] != '.';
	closedir(tasks);
	check(count == 1);
}

int main(void)
{
	check(pthread_atfork(only_thread, NULL, NULL) == 0);
	numbers = must_alloc(NUMBERS * sizeof(*numbers));
	numbers[NUMBERS / 2] = 5;
	round_of(one, 1);
	round_of(one, 1);
	round_of(many, 3);
	round_of(one, 1);
	round_of(many, 2);
	for (uint32_t i = 0; i < NUMBERS; i++)
		check(numbers[i] == 3 * i + 2 + (i == NUMBERS / 2 ? 5 : 0));
	return 0;
}
