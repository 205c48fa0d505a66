/*
 * A job whose last node serves programs, for hosted.py.
 * hosting ADDRESS NODES      says "serving at ADDRESS", and ends with its standard input; echoes
 *                            what is moved to the element "ask", one more, in "answer"
 * hosting ADDRESS attached NODES   a program that is attached to it: what is its own, what is the
 *                            job's, and where it lives
 */
#include "multi.h"

#include <pthread.h>
#include <roam/pastset.h>
#include <stdint.h>

#define ASKS 200u

extern const struct roam_ps_function roam_ps_functions[];

static const char *address;

/* ------------------------------------------------------------------------------------- the job */

static void *echo(void *arg)
{
	struct roam_ps_element *ask, *answer;
	uint64_t word;

	(void)arg;
	must(roam_ps_enter("ask", "u64", NULL, &ask));
	must(roam_ps_enter("answer", "u64", NULL, &answer));
	do {
		must(roam_ps_observe(ask, &word, sizeof(word), NULL));
		word++;
		must(roam_ps_move(answer, &word, sizeof(word)));
	} while (word != 1);
	return NULL;
}

static void node(void)
{
	struct roam_ps_options pages = {.storage = ROAM_PS_PAGES};
	struct roam_ps_element *paged, *ask;
	pthread_t thread;
	char at[256];

	for (unsigned i = 0; roam_ps_functions[i].name != NULL; i++)
		must(roam_ps_register(&roam_ps_functions[i]));
	must(roam_ps_enter("paged", "u64", &pages, &paged));
	must(roam_barrier_all());
	if (roam_node() == roam_nodes() - 1) {
		must_fail(roam_ps_serve("nowhere", NULL, at, sizeof(at)), ROAM_EINVAL);
		must(roam_ps_serve(address, NULL, at, sizeof(at)));
		check(roam_ps_why()[0] == '\0');
		must_fail(roam_ps_serve(address, NULL, NULL, 0), ROAM_ESTATE);
		check(strstr(roam_ps_why(), "serves already") != NULL);
		printf("serving at %s\n", at);
		fflush(stdout);
	}
	if (roam_node() != 0)
		return; /* it serves on */
	check(pthread_create(&thread, NULL, echo, NULL) == 0);
	check(getchar() == EOF);
	must(roam_ps_enter("ask", "u64", NULL, &ask));
	must(roam_ps_move(ask, &(uint64_t){0}, sizeof(uint64_t)));
	pthread_join(thread, NULL);
}

/* ------------------------------------------------------------------------------------- programs */

/* New elements live where the client says; existing ones stay where they are. */
static void places(struct roam_ps_server *server, unsigned nodes)
{
	struct roam_ps_options options = {.place = ROAM_PS_CREATOR};
	struct roam_ps_element *element;
	char name[16], why[64];

	must(roam_ps_enter_at(server, "beside me", "u64", &options, &element));
	check(roam_ps_node(element) == nodes - 1);
	roam_ps_leave(element);
	options.place = ROAM_PS_NODE;
	for (options.node = 0; options.node < nodes; options.node++) {
		uint64_t word = options.node;

		snprintf(name, sizeof(name), "at %u", options.node);
		must(roam_ps_enter_at(server, name, "u64", &options, &element));
		check(roam_ps_node(element) == options.node);
		must(roam_ps_mob(element, &word, 8, element, &word, 8, NULL));
		check(word == options.node);
		roam_ps_leave(element);
	}
	must_fail(roam_ps_enter_at(server, "at 0", "u64", &options, &element), ROAM_EINVAL);
	snprintf(why, sizeof(why), "there is no node %u, the job has %u", nodes, nodes);
	check(strcmp(roam_ps_why(), why) == 0);
	options.node = 0;
	must(roam_ps_enter_at(server, "beside me", "u64", &options, &element));
	check(roam_ps_node(element) == nodes - 1);
	roam_ps_leave(element);
}

static void attached(unsigned nodes)
{
	struct roam_ps_element *ask, *answer, *none;
	struct roam_ps_server *server;
	unsigned elsewhere = 0;
	uint64_t word;

	must(roam_ps_attach(address, NULL, &server));
	must_fail(roam_ps_enter_at(server, "paged", "u64", NULL, &none), ROAM_EINVAL);
	check(strstr(roam_ps_why(), "in pages") != NULL);
	must_fail(roam_ps_enter_at(server, "ask", "u8", NULL, &none), ROAM_EMISMATCH);
	check(strstr(roam_ps_why(), "u64") != NULL);
	must(roam_ps_enter_at(server, "ask", "u64", NULL, &ask));
	must(roam_ps_enter_at(server, "answer", "u64", NULL, &answer));
	for (uint64_t i = 1; i <= ASKS; i++) {
		word = i;
		must(roam_ps_mob(ask, &word, 8, answer, &word, 8, NULL));
		check(word == i + 1);
	}
	for (unsigned i = 0; i < 200; i++) { /* the client's own elements, all over the job */
		struct roam_ps_element *own;
		char name[16];

		snprintf(name, sizeof(name), "own %u", i);
		must(roam_ps_enter_at(server, name, "u64, u8[]", NULL, &own));
		elsewhere += roam_ps_node(own) != 0;
		must(roam_ps_move(own, "12345678\3\0\0\0abc", 15));
		roam_ps_leave(own);
	}
	printf("%s\n", elsewhere > 0 ? "spread" : "here");
	places(server, nodes);
	roam_ps_leave(ask);
	roam_ps_leave(answer);
	roam_ps_detach(server);
}

int main(int argc, char **argv)
{
	check(argc == 3 || argc == 4);
	address = argv[1];
	if (argc == 4) {
		attached(number(argv[3]));
		return 0;
	}
	must(roam_create_all(node, number(argv[2])));
	must(roam_wait_for_end());
	return 0;
}
