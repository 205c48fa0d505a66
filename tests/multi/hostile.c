/*
 * A program that is attached to a server of elements and takes all it can get, for attached.py.
 *
 * hostile ADDRESS HOW
 *	for a second, or until the server gives it no more: attaches (clients), enters elements
 *	that cannot be made (failed) or can (names, and functions: with X-functions), moves
 *	(tuples), waits in many threads (waits), reads one tuple at once in many threads
 *	(answers).  Says how often it did, and the last error.
 */
#include "multi.h"

#include <pthread.h>
#include <roam/pastset.h>
#include <stdint.h>
#include <string.h>

#define SECOND_US 1000000u
#define LARGE     60000u
#define THREADS   900u

static struct roam_ps_server *server;
static struct roam_ps_element *shared;
static struct roam_ps_cancel cancel;
static const char *how, *address;
static uint64_t begun;
static char text[ROAM_PS_TEMPLATE_MAX + 1];

/* A long template, `i8,i8,...`, of as many fields as there may be. */
static void long_text(void)
{
	for (unsigned i = 0; i + 1 < ROAM_PS_FIELDS_MAX; i++)
		strcat(text, "i8[10],");
	strcat(text, "i8");
}

static enum roam_err again(uint64_t count)
{
	struct roam_ps_options options = {.participants = 2};
	struct roam_ps_element *element;
	struct roam_ps_server *other;
	static uint8_t bytes[LARGE];
	char name[ROAM_PS_NAME_MAX + 1];
	enum roam_err err;

	snprintf(name, sizeof(name), "%0200lu", (unsigned long)count);
	if (strcmp(how, "clients") == 0)
		return roam_ps_attach(address, NULL, &other);
	if (strcmp(how, "tuples") == 0)
		return roam_ps_move(shared, bytes, sizeof(bytes));
	if (strcmp(how, "failed") == 0)
		options.function = "none";
	else if (strcmp(how, "functions") == 0)
		options.function = "sum";
	else
		options.participants = 0;
	err = roam_ps_enter_at(server, name, text, &options, &element);
	if (strcmp(how, "failed") != 0)
		return err;
	check(err == ROAM_EUNKNOWN);
	return ROAM_OK;
}

static void *wait_one(void *arg)
{
	static _Thread_local uint8_t room[LARGE];
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
					  .which = arg != NULL ? ROAM_PS_LAST : ROAM_PS_NUMBER,
					  .number = 1000000,
					  .flags = ROAM_PS_PEEK,
					  .buffer = room,
					  .limit = sizeof(room),
					  .cancel = &cancel};
	enum roam_err err;

	do
		err = roam_ps_call(shared, &request);
	while (arg != NULL && err == ROAM_OK && roam_clock_us() - begun < SECOND_US);
	return NULL;
}

static void many(bool answers)
{
	static pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		check(pthread_create(&threads[i], NULL, wait_one, answers ? "" : NULL) == 0);
	while (roam_clock_us() - begun < SECOND_US)
		sched_yield();
	roam_ps_cancel(&cancel);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	enum roam_err err = ROAM_OK;
	uint64_t count = 0;

	check(argc == 3);
	address = argv[1];
	how = argv[2];
	long_text();
	must(roam_ps_attach(address, NULL, &server));
	begun = roam_clock_us();
	if (strcmp(how, "waits") == 0 || strcmp(how, "answers") == 0) {
		static uint8_t bytes[LARGE];

		must(roam_ps_enter_at(server, "hostile", "u8[60000]", NULL, &shared));
		must(roam_ps_move(shared, bytes, sizeof(bytes)));
		many(strcmp(how, "answers") == 0);
	} else {
		if (strcmp(how, "tuples") == 0)
			must(roam_ps_enter_at(server, "hostile", "u8[60000]", NULL, &shared));
		while (err == ROAM_OK && roam_clock_us() - begun < SECOND_US)
			err = again(count++);
	}
	printf("%lu %d\n", (unsigned long)count, (int)err);
	return 0;
}
