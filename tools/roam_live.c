#include "roam_live.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "os/os.h"

#define ROWS_USUAL    40u
#define COLUMNS_USUAL 80u

static void live_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGWINCH);
}

void tool_live_begin(struct tool_live *live, bool wanted)
{
	struct termios raw;
	sigset_t set;

	*live = (struct tool_live){.signals = -1};
	if (!wanted || !isatty(STDOUT_FILENO))
		return;
	live_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	live->signals = roami_os_fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
	live->on = live->signals >= 0;
	if (!live->on) {
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		return;
	}
	/* In the background the terminal's keys are another program's. */
	live->keys = tcgetpgrp(STDIN_FILENO) == getpgrp() &&
		     tcgetattr(STDIN_FILENO, &live->was) == 0;
	if (live->keys) {
		raw = live->was;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
}

void tool_live_end(struct tool_live *live)
{
	if (live->keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &live->was);
	if (live->on)
		close(live->signals);
	*live = (struct tool_live){.signals = -1};
}

/* What a signal or a key asks for; TOOL_LIVE_TIME if nothing. */
static enum tool_live_event live_heard(const struct tool_live *live)
{
	struct signalfd_siginfo info;
	struct pollfd key = {.fd = live->keys ? STDIN_FILENO : -1, .events = POLLIN};
	bool resized = false;
	char byte;

	while (read(live->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGWINCH)
			return TOOL_LIVE_QUIT;
		resized = true;
	}
	while (poll(&key, 1, 0) > 0)
		if (read(STDIN_FILENO, &byte, 1) != 1 || byte == 'q' || byte == 'Q')
			return TOOL_LIVE_QUIT;
	return resized ? TOOL_LIVE_RESIZE : TOOL_LIVE_TIME;
}

enum tool_live_event tool_live_sleep(const struct tool_live *live, double seconds)
{
	uint64_t now = roami_os_now_ns(), end = now + (uint64_t)(seconds * 1e9);
	struct pollfd polled[2] = {{.fd = live->signals, .events = POLLIN},
				   {.fd = live->keys ? STDIN_FILENO : -1, .events = POLLIN}};
	enum tool_live_event heard = TOOL_LIVE_TIME;

	for (; now < end && heard == TOOL_LIVE_TIME; now = roami_os_now_ns())
		if (poll(polled, 2, (int)((end - now + 999999) / 1000000)) > 0)
			heard = live_heard(live);
	return heard;
}

void tool_live_size(const struct tool_live *live, unsigned *rows_p, unsigned *columns_p)
{
	struct winsize size;

	*rows_p = *columns_p = UINT_MAX;
	if (!live->on)
		return;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
		size.ws_row = size.ws_col = 0;
	*rows_p = size.ws_row != 0 ? size.ws_row : ROWS_USUAL;
	*columns_p = size.ws_col != 0 ? size.ws_col : COLUMNS_USUAL;
}
