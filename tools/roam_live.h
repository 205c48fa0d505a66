/* A terminal display that is redrawn periodically until its user quits. */
#ifndef ROAM_LIVE_H
#define ROAM_LIVE_H

#include <stdbool.h>
#include <termios.h>

struct tool_live {
	bool on; /* standard output is a terminal */
	bool keys; /* so is standard input */
	int signals;
	struct termios was;
};

enum tool_live_event {
	TOOL_LIVE_TIME,   /* the time to sleep is over */
	TOOL_LIVE_RESIZE, /* the terminal has another size */
	TOOL_LIVE_QUIT    /* q, or a signal that ends a program */
};

/* Without a terminal, or if `wanted` is false, sleeps end only when their time is over. */
void tool_live_begin(struct tool_live *live, bool wanted);
void tool_live_end(struct tool_live *live);

enum tool_live_event tool_live_sleep(const struct tool_live *live, double seconds);

/* The terminal's numbers of lines and columns; unlimited without a terminal. */
void tool_live_size(const struct tool_live *live, unsigned *rows_p, unsigned *columns_p);

#endif
