/* How the launcher reaches hosts: ROAM_RSH starts an agent there, which connects back. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/os.h"
#include "roam_far_priv.h"
#include "roam_tool.h"

#define WORDS_MAX 32u /* of ROAM_RSH */

bool far_listen(struct far *far)
{
	if (roami_listener_open(&far->listener, far->key, &far->port))
		return true;
	tool_say("run: cannot listen for the agents on this host: %s%s", strerror(errno),
		 errno == EADDRINUSE ? " (no TCP port is free: net.ipv4.ip_local_port_range)" : "");
	return false;
}

/* The addresses at which agents may reach us: all of this host, its loopback address last. */
static void far_addresses(struct agent_card *card)
{
	struct ifaddrs *all, *at;

	if (getifaddrs(&all) == 0) {
		for (at = all; at != NULL && card->count < AGENT_ADDRESSES - 1; at = at->ifa_next) {
			const struct sockaddr_in *have = (const void *)at->ifa_addr;

			if (have != NULL && have->sin_family == AF_INET &&
			    (at->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP)
				card->addresses[card->count++] = ntohl(have->sin_addr.s_addr);
		}
		freeifaddrs(all);
	}
	card->addresses[card->count++] = INADDR_LOOPBACK;
}

bool far_is_here(const char *name)
{
	char self[256] = "";

	gethostname(self, sizeof(self) - 1);
	return strcmp(name, "localhost") == 0 || strcmp(name, self) == 0;
}

/* Splits the command that starts an agent into words; false: there are too many. */
static bool far_command(const char *name, bool here, char *rsh, char *tool, char *agent,
			char **words)
{
	unsigned count = 0;
	char *rest = NULL;

	if (!here) {
		for (char *word = strtok_r(rsh, " \t", &rest); word != NULL;
		     word = strtok_r(NULL, " \t", &rest)) {
			if (count == WORDS_MAX - 4)
				return false;
			words[count++] = word;
		}
		words[count++] = (char *)(uintptr_t)name;
	}
	words[count++] = tool;
	words[count++] = agent;
	words[count] = NULL;
	return words[0][0] != '\0';
}

__attribute__((noreturn)) static void far_exec(const struct far *far, char **words, int input,
					       const int out[2])
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Terminal input reaches the nodes through this process. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	if (dup2(input, STDIN_FILENO) < 0 ||
	    (out[0] >= 0 && (dup2(out[0], STDOUT_FILENO) < 0 || dup2(out[1], STDERR_FILENO) < 0)))
		_exit(TOOL_FAILED);
	sigprocmask(SIG_SETMASK, &far->mask, NULL);
	execvp(words[0], words);
	tool_say("run: cannot run %s: %s (ROAM_RSH)", words[0], strerror(errno));
	_exit(TOOL_NOT_FOUND);
}

static bool far_spawn(struct far *far, unsigned index, const struct agent_card *common, char *tool)
{
	struct far_host *host = &far->hosts[index];
	struct agent_card card = *common;
	char line[ROAMI_OPTION_TEXT_MAX], agent[] = "agent", *words[WORDS_MAX];
	int input[2], out[2] = {-1, -1};

	snprintf(line, sizeof(line), "%s", far->options->rsh);
	if (!far_command(host->name, host->here, line, tool, agent, words)) {
		tool_say("run: ROAM_RSH=%.100s: too many words", far->options->rsh);
		return false;
	}
	card.host = (uint16_t)index;
	snprintf(card.name, sizeof(card.name), "%s", host->name);
	/*
	 * With --tag the agent's output passes through here, so that lines of several hosts stay
	 * whole.
	 */
	if (!roami_os_pipe(input, 0) ||
	    (far->job->tag && !tag_open(host->out, far->within, 0, true, out))) {
		tool_say("run: cannot make a pipe: %s", strerror(errno));
		return false;
	}
	host->rsh = fork();
	if (host->rsh == 0)
		far_exec(far, words, input[0], out);
	close(input[0]);
	for (int i = 0; i < 2; i++)
		if (out[i] >= 0)
			close(out[i]);
	host->input = input[1];
	if (host->rsh < 0) {
		tool_say("run: cannot fork: %s", strerror(errno));
		return false;
	}
	/*
	 * The card is shorter than a pipe's buffer; if the agent has ended already, that is noticed
	 * soon.
	 */
	if (write(host->input, &card, sizeof(card)) != (ssize_t)sizeof(card) && errno != EPIPE)
		return false;
	explicit_bzero(&card, sizeof(card));
	return true;
}

bool far_spawn_all(struct far *far)
{
	struct agent_card card = {.magic = AGENT_MAGIC, .port = far->port};
	char tool[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", tool, sizeof(tool) - 1);
	bool good = length > 0;

	if (!good)
		return false;
	tool[length] = '\0';
	if (strspn(tool, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-") !=
	    (size_t)length) {
		tool_say("run: a remote shell cannot be told to run %.300s: move it where the path "
			 "has letters, digits and /._+- only",
			 tool);
		return false;
	}
	memcpy(card.key, far->key, sizeof(card.key));
	far_addresses(&card);
	for (unsigned i = 0; i < far->job->hosts->count && good; i++)
		good = far_spawn(far, i, &card, tool);
	explicit_bzero(&card, sizeof(card));
	return good;
}
