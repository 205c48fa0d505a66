/* The commands of the tool `roam`. */
#ifndef ROAM_TOOL_H
#define ROAM_TOOL_H

#include <getopt.h>

/* Exit statuses besides those of programs. */
#define TOOL_USAGE 2
#define TOOL_FAILED 1
#define TOOL_TIMEOUT 124 /* as of timeout(1) */
#define TOOL_CANNOT_EXEC 126
#define TOOL_NOT_FOUND 127

#define TOOL_LATE "run: the job has not ended within %u s (--timeout)"

/* In these argv[0] is the command's name.  They return the exit status. */
int tool_info(int argc, char **argv);
int tool_pages(int argc, char **argv);
int tool_past(int argc, char **argv);
int tool_run(int argc, char **argv);
int tool_where(int argc, char **argv);

/* The value that `roam where` sends along with SIGQUIT, which then must end no process. */
#define TOOL_WHERE 0x6f61

#define TOOL_LINE 1300 /* bytes; room for what the nodes of a job wait for */

/*
 * The option that was refused when getopt_long returned `result`; an unknown letter stands alone,
 * because its argument may not have ended yet.
 */
const char *tool_refused(char **argv, int result, const struct option *known);

/* Prints one line "roam: ..." to stderr. */
__attribute__((format(printf, 1, 2))) void tool_say(const char *format, ...);

#endif
