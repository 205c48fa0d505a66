/* What `roam past` and `roam pages` have in common: both serve, and both do another thing, too. */
#ifndef ROAM_SERVE_H
#define ROAM_SERVE_H

#include <stdbool.h>
#include <stdint.h>

struct tool_part {
	const char *name;
	int (*run)(int argc, char **argv);
};

/* Runs the one of two parts that argv[1] names, or says which there are. */
int tool_parts(const char *command, const char *usage, const struct tool_part parts[2], int argc,
	       char **argv);

/* Reads a key, or makes it; false: has said why not. */
bool tool_serve_key(const char *command, const char *file, uint8_t *key);

/* Can be read from when the server is to end, at SIGINT or SIGTERM; -1: has said why not. */
int tool_serve_stop(const char *command);

#endif
