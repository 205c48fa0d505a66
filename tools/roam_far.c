/*
 * roam run -H: a job across hosts.  ROAM_RSH starts an agent on each host (roam_agent.c), which
 * connects back.  The launcher waits until all nodes have joined, compares their cards, tells each
 * the addresses of the others, and ends the job when one node or one host is lost.
 */
#include "roam_far_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/input.h"
#include "job/job.h"
#include "job/local.h"
#include "os/os.h"
#include "roam_child.h"
#include "roam_tag.h"
#include "roam_tool.h"

#define MS       UINT64_C(1000000)
#define WAITS_NS (300 * MS)  /* time for the others to say what they wait for */
#define QUIT_NS  (2000 * MS) /* time for agents to end their nodes */
#define STOP_NS  (5000 * MS) /* from a signal passed on to the job's end */

static const char *far_where(const struct far *far, unsigned node)
{
	return far->hosts[far->nodes[node].host].name;
}

static void far_lost(struct far *far, unsigned index);

static void far_all(struct far *far, uint32_t kind, uint32_t node, const void *data, size_t bytes)
{
	for (unsigned i = 0; i < far->job->hosts->count; i++)
		if (far->hosts[i].greeted && far->hosts[i].wire != NULL &&
		    !roami_wire_send(far->hosts[i].wire, kind, node, data, bytes))
			far_lost(far, i);
}

/* -------------------------------------------------------------------------------------- failing */

/* Prints the line, once the others have said what they wait for, or the time for that is up. */
static void far_say(struct far *far)
{
	const struct roami_ctl *ctls[ROAMI_NODES_MAX];
	char waits[ROAMI_WAITS_BYTES];

	far->say_at = 0;
	for (unsigned i = 0; i < far->job->nodes; i++)
		ctls[i] = far->nodes[i].reported_waits && i != far->dead ? &far->ctls[i] : NULL;
	roami_boot_waits(ctls, far->job->nodes, waits, sizeof(waits));
	tool_say("%s%s", far->line, waits);
	far->quit_at = roami_os_now_ns();
}

/* Ends the job, which has failed; `waits`: first asks the other nodes what they wait for. */
__attribute__((format(printf, 5, 6))) static void far_fail(struct far *far, int status,
							   unsigned dead, bool waits,
							   const char *format, ...)
{
	va_list args;

	if (far->status >= 0)
		return; /* a consequence */
	far->status = status;
	far->dead = dead;
	if (format == NULL) {
		far->quit_at = roami_os_now_ns();
		return;
	}
	va_start(args, format);
	vsnprintf(far->line, sizeof(far->line), format, args);
	va_end(args);
	far->say_at = roami_os_now_ns();
	if (!waits)
		return;
	far->say_at += WAITS_NS;
	far_all(far, ROAMI_FRAME_WAITS, 0, NULL, 0);
}

/* ------------------------------------------------------------------------------------- agents */

/* Variables that nodes get on every host, beside those of their shell there. */
static bool far_passes(const char *entry)
{
	static const char *const names[] = {"LD_LIBRARY_PATH=", "PWD="};

	if (strncmp(entry, "ROAM_", 5) == 0)
		return strncmp(entry, "ROAM_RSH=", 9) != 0 && strncmp(entry, "ROAM_BOOT=", 10) != 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(entry, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static bool far_text(struct roami_wire *wire, uint32_t kind, const char *text)
{
	size_t bytes = strlen(text);

	return bytes < ROAMI_FRAME_PAYLOAD && roami_wire_send(wire, kind, 0, text, bytes);
}

/* Tells the agent of a host, which has come, what to start. */
static bool far_start(struct far *far, unsigned index)
{
	struct roami_wire *wire = far->hosts[index].wire;
	struct roami_boot_start start = {.tag = far->job->tag,
				    .share = far->job->share,
				    .gdb = (uint32_t)(far->job->gdb + 1),
				    .boot = {.nodes = far->job->nodes,
					     .hosts = far->job->hosts->count,
					     .aes = far->aes}};
	bool good = true;

	for (char **entry = environ; *entry != NULL && good; entry++)
		if (far_passes(*entry))
			good = far_text(wire, ROAMI_FRAME_ENV, *entry);
	for (char **arg = far->job->argv; *arg != NULL && good; arg++)
		good = far_text(wire, ROAMI_FRAME_ARG, *arg);
	if (far->hosts[index].here)
		start.boot.address = far->address;
	memcpy(start.boot.key, far->key, sizeof(start.boot.key));
	for (unsigned node = 0; node < far->job->nodes; node++) {
		start.boot.host[node] = (uint16_t)far->nodes[node].host;
		snprintf(start.boot.names[node], sizeof(start.boot.names[node]), "%.*s",
			 ROAMI_HOST_BYTES - 1, far_where(far, node));
	}
	good = good && roami_wire_send(wire, ROAMI_FRAME_START, 0, &start, sizeof(start));
	explicit_bzero(&start, sizeof(start));
	return good;
}

/*
 * Starts the nodes when all agents have come: only then is it known what their hosts have in
 * common.
 */
static void far_start_all(struct far *far)
{
	for (unsigned i = 0; i < far->job->hosts->count && far->status < 0; i++)
		if (!far_start(far, i))
			far_fail(far, TOOL_FAILED, ROAMI_NODES_MAX, false,
				 "run: cannot tell the agent on host %s what to start: arguments "
				 "or variables of more than %u bytes?",
				 far->hosts[i].name, ROAMI_FRAME_PAYLOAD);
}

/* Takes a connection that has shown the key: it is the agent of the host that it names. */
static void far_greet(struct far *far, struct roami_wire *wire)
{
	unsigned index = far->frame.node;
	struct far_host *host = &far->hosts[index];
	struct sockaddr_in mine = {0};
	socklen_t length = sizeof(mine);
	struct roami_hello hello;

	if (far->frame.kind != ROAMI_FRAME_HELLO || index >= far->job->hosts->count ||
	    far->frame.bytes != sizeof(hello) || host->greeted) {
		roami_listener_hang_up(wire);
		return;
	}
	host->wire = wire;
	host->greeted = true;
	memcpy(&hello, far->frame.payload, sizeof(hello));
	far->aes = far->aes && hello.aes != 0;
	if (!host->here && far->address == 0 &&
	    getsockname(host->wire->fd, (void *)&mine, &length) == 0)
		far->address = ntohl(mine.sin_addr.s_addr);
	if (far->status >= 0)
		far_all(far, ROAMI_FRAME_QUIT, 0, NULL, 0);
	if (++far->greeted < far->job->hosts->count)
		return;
	roami_listener_shut(&far->listener);
	far_start_all(far);
}

/* ----------------------------------------------------------------------------------- the cards */

static void far_compare(struct far *far, unsigned node)
{
	char what[ROAMI_DIFFERS_BYTES];
	const char *fix = roami_build_differs(&far->nodes[0].card, &far->nodes[node].card, what,
					      sizeof(what));

	if (fix != NULL)
		far_fail(far, TOOL_FAILED, ROAMI_NODES_MAX, false,
			 "run: node %u on host %s %s than node 0 on host %s: %s", node,
			 far_where(far, node), what, far_where(far, 0), fix);
}

/* Whether the program asks for as many nodes as there are. */
static void far_asked(struct far *far)
{
	const char *option = getenv("ROAM_THREADS");
	unsigned threads = option != NULL ? (unsigned)strtoul(option, NULL, 10) : 0; /* 0: auto */
	unsigned asked = far->nodes[0].card.asked;
	char line[200];

	if (asked == 0 || asked == far->job->nodes)
		return;
	roami_job_says_asked(asked, threads, far->job->nodes, line, sizeof(line));
	far_fail(far, TOOL_FAILED, ROAMI_NODES_MAX, false, "%s", line);
}

/* Compares the nodes, which have all joined, and tells each the addresses of the others. */
static void far_table(struct far *far)
{
	static struct roami_boot_table table;

	for (unsigned node = 1; node < far->job->nodes; node++)
		far_compare(far, node);
	far_asked(far);
	if (far->status >= 0)
		return;
	for (unsigned node = 0; node < far->job->nodes; node++) {
		memcpy(table.nodes[node].transport, far->nodes[node].card.transport,
		       ROAM_CARD_BYTES);
		table.nodes[node].threads = far->nodes[node].card.threads;
	}
	far_all(far, ROAMI_FRAME_TABLE, 0, &table, sizeof(table));
}

static void far_card(struct far *far, unsigned node)
{
	struct far_node *from = &far->nodes[node];

	if (from->carded || far->frame.bytes != sizeof(from->card)) {
		far_fail(far, TOOL_FAILED, node, false, "run: node %u on host %s %s", node,
			 far_where(far, node),
			 from->carded ? "joined twice"
				      : "uses another version of roam: install the same on all "
					"hosts");
		return;
	}
	memcpy(&from->card, far->frame.payload, sizeof(from->card));
	from->carded = true;
	if (++far->carded == far->job->nodes)
		far_table(far);
}

/* ---------------------------------------------------------------------------- ends of nodes */

/*
 * Handles a node that ended in order before the job did: others wait for it, unless no node has
 * joined, as in programs that do not use roam.
 */
static void far_left(struct far *far, unsigned node, int pid)
{
	if (far->ending || far->status >= 0)
		return;
	if (far->nodes[node].carded)
		far_fail(far, TOOL_FAILED, node, true,
			 "node %u on host %s (pid %d) exited with status 0 before the job's end%s",
			 node, far_where(far, node), pid, far->nodes[node].dying);
	else if (far->carded > 0)
		far_fail(far, TOOL_FAILED, node, true,
			 "node %u on host %s (pid %d) exited with status 0 and never called "
			 "roam_start",
			 node, far_where(far, node), pid);
}

static void far_exit(struct far *far, unsigned node)
{
	const char *thread = far->nodes[node].dying;
	int32_t what[2];
	int status;

	if (far->frame.bytes != sizeof(what) || far->nodes[node].ended)
		return;
	memcpy(what, far->frame.payload, sizeof(what));
	status = what[0];
	if (what[1] == 0) { /* it never started; the reason came before */
		far->status = far->status >= 0 && far->dead == node ? status : far->status;
		return;
	}
	far->nodes[node].ended = true;
	far->hosts[far->nodes[node].host].running--;
	if (WIFSIGNALED(status) && WTERMSIG(status) == far->forwarded)
		far_fail(far, 128 + WTERMSIG(status), node, false, NULL);
	else if (WIFSIGNALED(status))
		far_fail(far, 128 + WTERMSIG(status), node, true,
			 "node %u on host %s (pid %d) was killed by signal %d (%s)%s", node,
			 far_where(far, node), (int)what[1], WTERMSIG(status),
			 strsignal(WTERMSIG(status)), thread);
	else if (WEXITSTATUS(status) == ROAMI_EXIT_REPORTED)
		far_fail(far, TOOL_FAILED, node, false, NULL);
	else if (WEXITSTATUS(status) != 0)
		far_fail(far, WEXITSTATUS(status), node, true,
			 "node %u on host %s (pid %d) exited with status %d%s", node,
			 far_where(far, node), (int)what[1], WEXITSTATUS(status), thread);
	else
		far_left(far, node, what[1]);
	/*
	 * For nodes that left without ever joining: nodes that join later must not wait for them.
	 */
	for (unsigned other = 0; far->carded > 0 && other < far->job->nodes; other++)
		if (far->nodes[other].ended && !far->nodes[other].carded)
			far_left(far, other, what[1]);
}

static void far_waits(struct far *far, unsigned node)
{
	bool all = true;

	if (far->say_at == 0 ||
	    !roami_wait_groups_take(&far->ctls[node], far->frame.payload, far->frame.bytes))
		return;
	far->nodes[node].reported_waits = true;
	for (unsigned i = 0; i < far->job->nodes; i++)
		all = all && (far->nodes[i].reported_waits || far->nodes[i].ended);
	if (all)
		far_say(far);
}

/* ---------------------------------------------------------------------------------- the loop */

/* Handles a frame of the agent on host `index`. */
static void far_agent_frame(struct far *far, unsigned index)
{
	struct roami_frame *frame = &far->frame;
	unsigned node = frame->node;
	uint32_t dying;

	if (node >= far->job->nodes || far->nodes[node].host != index)
		return;
	if (frame->kind == ROAMI_FRAME_CARD)
		far_card(far, node);
	if (frame->kind == ROAMI_FRAME_FAIL)
		far_fail(far, TOOL_FAILED, node, false, "node %u on host %s: %.*s", node,
			 far_where(far, node), (int)frame->bytes,
			 (const char *)frame->payload);
	if (frame->kind == ROAMI_FRAME_WAITS)
		far_waits(far, node);
	if (frame->kind == ROAMI_FRAME_DYING && frame->bytes == sizeof(dying)) {
		memcpy(&dying, frame->payload, sizeof(dying));
		roami_boot_dying(dying, far->nodes[node].dying);
	}
	if (frame->kind == ROAMI_FRAME_INPUT)
		far->hosts[index].hungry = true;
	if (frame->kind == ROAMI_FRAME_EXIT)
		far_exit(far, node);
	if (frame->kind == ROAMI_FRAME_END && node == 0) {
		far->ending = true;
		far_all(far, ROAMI_FRAME_END, 0, NULL, 0);
	}
}

/* Handles the loss of a host: its connection has broken, or its agent has ended. */
static void far_lost(struct far *far, unsigned index)
{
	struct far_host *host = &far->hosts[index];

	host->wire = roami_listener_hang_up(host->wire);
	if (host->running == 0)
		return;
	far_fail(far, TOOL_FAILED, ROAMI_NODES_MAX, true, "run: host %s is lost%s", host->name,
		 host->rsh == 0 ? ": its agent has ended"
				: ": no connection to its agent any more");
	for (unsigned node = 0; node < far->job->nodes; node++)
		if (far->nodes[node].host == index)
			far->nodes[node].ended = true;
	host->running = 0;
}

static void far_from_agent(struct far *far, unsigned index)
{
	enum roami_os_got got = ROAMI_OS_LOST;

	while (far->hosts[index].wire != NULL &&
	       (got = roami_wire_receive(far->hosts[index].wire, &far->frame)) == ROAMI_OS_GOT)
		far_agent_frame(far, index);
	if (got == ROAMI_OS_LOST)
		far_lost(far, index);
}

/* Advice about an agent that has not come. */
static const char *far_fix(int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == AGENT_VERSION)
		return "does that host have another version of roam? install the same on all hosts";
	if (WIFEXITED(status) && WEXITSTATUS(status) == AGENT_REFUSED)
		return "its agent has another key than was sent to it: ROAM_RSH's command must "
		       "pass the standard input on as it is";
	return "can the host be reached, and is roam there at the same path?";
}

/* ROAM_RSH has ended. */
static void far_rsh_ended(struct far *far, unsigned index, int status)
{
	struct far_host *host = &far->hosts[index];
	char how[64];

	host->rsh = 0;
	if (host->greeted) {
		far_from_agent(far, index); /* the last line that the agent printed */
		far_lost(far, index);
		return;
	}
	if (WIFEXITED(status))
		snprintf(how, sizeof(how), "exited with status %d", WEXITSTATUS(status));
	else
		snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(status));
	far_fail(far, TOOL_FAILED, ROAMI_NODES_MAX, false,
		 "run: cannot start on host %s: `%s` %s (%s)", host->name,
		 host->here ? "roam agent" : far->options->rsh, how, far_fix(status));
	far_lost(far, index);
}

static void far_reap(struct far *far)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (unsigned i = 0; i < far->job->hosts->count; i++)
			if (far->hosts[i].rsh == pid)
				far_rsh_ended(far, i, status);
}

static void far_take_signal(struct far *far)
{
	struct signalfd_siginfo info;
	int signal;

	if (read(far->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	signal = (int)info.ssi_signo;
	if (signal == SIGCHLD) {
		far_reap(far);
		return;
	}
	if (signal == SIGQUIT && info.ssi_int == TOOL_WHERE && far->carded < far->job->nodes) {
		tool_say("run: %u of %u nodes have started", far->carded, far->job->nodes);
		return;
	}
	far->quits += signal == SIGQUIT;
	far_all(far, ROAMI_FRAME_SIGNAL, (uint32_t)signal, &far->quits, sizeof(far->quits));
	if (signal == SIGUSR1 || signal == SIGUSR2 || signal == SIGQUIT)
		return;
	/* The second signal kills at once, and so does any signal before the nodes run. */
	far->kill_at = roami_os_now_ns() +
		       (far->forwarded == 0 && far->greeted == far->job->hosts->count ? STOP_NS
										      : 0);
	far->forwarded = signal;
}

/* Whether standard input may be read, to be passed on to all nodes. */
static bool far_may_read(const struct far *far)
{
	bool hungry = false;

	for (unsigned i = 0; i < far->job->hosts->count; i++)
		hungry = hungry || far->hosts[i].hungry;
	return hungry && !far->input_ended && roami_input_may_read(STDIN_FILENO);
}

static void far_read(struct far *far)
{
	int got = roami_input_read(STDIN_FILENO, far->frame.payload, ROAMI_FRAME_PAYLOAD);

	if (got < 0)
		return;
	far->input_ended = got == 0;
	for (unsigned i = 0; i < far->job->hosts->count; i++)
		far->hosts[i].hungry = false;
	far_all(far, ROAMI_FRAME_INPUT, 0, far->frame.payload, (size_t)got);
}

/* Does what is due; returns the milliseconds until something is due again, -1: nothing is. */
static int far_due(struct far *far)
{
	uint64_t now = roami_os_now_ns(), next = roami_listener_due(&far->listener);
	uint64_t *const times[] = {&far->say_at, &far->quit_at, &far->kill_at, &far->gone_at,
				   &far->end_at};

	if (far->end_at != 0 && now >= far->end_at) {
		far->end_at = 0;
		far_fail(far, TOOL_TIMEOUT, ROAMI_NODES_MAX, true, TOOL_LATE, far->job->timeout);
	}
	if (far->say_at != 0 && now >= far->say_at)
		far_say(far);
	if (far->kill_at != 0 && now >= far->kill_at) {
		far->kill_at = 0;
		far->quit_at = far->quit_at != 0 ? far->quit_at : now;
		far->status = far->status >= 0 ? far->status : 128 + far->forwarded;
	}
	if (far->quit_at != 0 && now >= far->quit_at) {
		far_all(far, ROAMI_FRAME_QUIT, far->forwarded == 0, NULL, 0);
		far->quit_at = 0;
		far->gone_at = now + QUIT_NS;
	}
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (*times[i] != 0 && *times[i] < next)
			next = *times[i];
	return roami_os_poll_ms(next);
}

struct far_polls {
	struct pollfd at[2 + 3 * HOSTS_MAX + ROAMI_LISTENER_POLLS];
	void *who[2 + 3 * HOSTS_MAX + ROAMI_LISTENER_POLLS];
	nfds_t count, listener, streams;
};

static void far_add(struct far_polls *polls, void *who, int fd)
{
	polls->who[polls->count] = who;
	polls->at[polls->count++] = (struct pollfd){fd, POLLIN, 0};
}

static void far_turn(struct far *far, int timeout_ms)
{
	struct far_polls polls = {.count = 0};
	struct roami_wire *known;
	nfds_t i;

	far_add(&polls, NULL, far->signals);
	far_add(&polls, NULL, far_may_read(far) ? STDIN_FILENO : -1);
	for (i = 0; i < far->job->hosts->count; i++)
		far_add(&polls, &far->hosts[i],
			far->hosts[i].wire != NULL ? far->hosts[i].wire->fd : -1);
	polls.listener = polls.count;
	roami_listener_polls(&far->listener, polls.at + polls.listener);
	polls.streams = polls.count += ROAMI_LISTENER_POLLS;
	for (i = 0; i < 2 * far->job->hosts->count; i++)
		if (far->hosts[i / 2].out[i % 2] != NULL)
			far_add(&polls, far->hosts[i / 2].out[i % 2],
				far->hosts[i / 2].out[i % 2]->from);
	if (poll(polls.at, polls.count, timeout_ms) <= 0)
		return;
	for (i = polls.streams; i < polls.count; i++)
		if (polls.at[i].revents != 0)
			tag_pump(polls.who[i]);
	for (i = 2; i < polls.listener; i++)
		if (polls.at[i].revents != 0)
			far_from_agent(far, (unsigned)(i - 2));
	known = roami_listener_turn(&far->listener, polls.at + polls.listener, &far->frame);
	if (known != NULL)
		far_greet(far, known);
	if (polls.at[1].revents != 0)
		far_read(far);
	if (polls.at[0].revents != 0)
		far_take_signal(far);
}

/* Whether agents, or the commands that started them, still run. */
static bool far_remain(const struct far *far)
{
	for (unsigned i = 0; i < far->job->hosts->count; i++)
		if (far->hosts[i].rsh > 0)
			return true;
	return false;
}

/* Passes on the output of agents that have ended. */
static void far_drain(struct far *far)
{
	for (unsigned i = 0; i < 2 * far->job->hosts->count; i++) {
		struct tag_stream *stream = far->hosts[i / 2].out[i % 2];
		struct pollfd more = {stream != NULL ? stream->from : -1, POLLIN, 0};

		while (more.fd >= 0 && poll(&more, 1, 200) > 0 && tag_pump(stream))
			;
	}
}

static int far_watch(struct far *far)
{
	while (far_remain(far)) {
		int due_ms = far_due(far);

		if (far->gone_at != 0 && roami_os_now_ns() >= far->gone_at)
			break; /* the nodes that are left die with the connections */
		far_turn(far, due_ms);
	}
	if (far->say_at != 0)
		far_say(far);
	for (unsigned i = 0; i < far->job->hosts->count; i++)
		if (far->hosts[i].rsh > 0)
			kill(far->hosts[i].rsh, SIGKILL);
	far_drain(far);
	return far->status >= 0 ? far->status : 0;
}

static bool far_signals(struct far *far)
{
	far->signals = child_signals(&far->mask);
	return far->signals >= 0;
}

int tool_far(const struct far_job *job, const struct roami_options *options)
{
	static struct far far; /* large */
	size_t bytes = job->nodes * sizeof(*far.ctls);
	unsigned node = 0;

	far.job = job;
	far.options = options;
	far.status = -1;
	far.aes = true;
	far.ctls = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (far.ctls == MAP_FAILED) {
		perror("roam: run: control pages of the nodes");
		return TOOL_FAILED;
	}
	if (sodium_init() < 0 || !far_signals(&far))
		return TOOL_FAILED;
	randombytes_buf(far.key, sizeof(far.key));
	if (!far_listen(&far))
		return TOOL_FAILED;
	for (unsigned i = 0; i < job->hosts->count; i++) {
		far.hosts[i].name = job->hosts->entries[i].name;
		far.hosts[i].here = far_is_here(far.hosts[i].name);
		far.hosts[i].running = job->hosts->entries[i].nodes;
		for (unsigned n = 0; n < far.hosts[i].running; n++)
			far.nodes[node++].host = i;
	}
	if (job->timeout > 0)
		far.end_at = roami_os_now_ns() + job->timeout * 1000 * MS;
	if (!far_spawn_all(&far))
		return TOOL_FAILED;
	return far_watch(&far);
}
