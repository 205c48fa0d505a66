/*
 * roam agent: works for the launcher on one host, where ssh, or the command in ROAM_RSH, starts it.
 * It reads the job's key from its standard input, connects to the launcher, starts the nodes of its
 * host, and passes on their frames, signals, input and exits.  If it loses the launcher or its
 * standard input, it kills its nodes and ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/input.h"
#include "job/local.h"
#include "launch/listener.h"
#include "link/seal.h"
#include "os/os.h"
#include "roam_child.h"
#include "roam_far.h"
#include "roam_tool.h"

#define MS       UINT64_C(1000000)
#define TERM_NS  (1000 * MS)
#define DRAIN_NS (200 * MS)

struct agent_node {
	struct child child;
	unsigned rank;
	int control; /* -1: closed */
	bool joined;
};

struct agent {
	struct roami_wire wire;
	struct roami_frame frame;
	unsigned host;
	struct roami_boot_start start;
	char **argv;
	size_t args;
	int signals, lifeline;
	sigset_t mask;
	struct roami_input input;
	struct roami_input_pipe inputs[ROAMI_NODES_MAX]; /* of `nodes` */
	bool asked;                                      /* the launcher was asked for more input */
	struct agent_node nodes[ROAMI_NODES_MAX];
	unsigned count, running;
	int lent; /* the first of the descriptors that nodes of this host share; 0: none */
	struct tag_stream *within[2];
	uint32_t quits; /* the number of the last SIGQUIT */
	uint64_t kill_at;
	bool heard; /* the launcher has said something */
	bool over;  /* nothing is left to do */
};

/* ---------------------------------------------------------------------------- the first contact */

static bool agent_read(void *data, size_t bytes)
{
	for (size_t have = 0; have < bytes;) {
		ssize_t got = read(STDIN_FILENO, (uint8_t *)data + have, bytes - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		have += (size_t)got;
	}
	return true;
}

/*
 * Reads the card that the launcher wrote to stdin.  Another version may write fewer bytes and keep
 * stdin open.
 */
static bool agent_read_card(struct agent_card *card)
{
	return agent_read(&card->magic, sizeof(card->magic)) && card->magic == AGENT_MAGIC &&
	       agent_read(&card->magic + 1, sizeof(*card) - sizeof(card->magic)) &&
	       card->count <= AGENT_ADDRESSES;
}

/* Connects to one address of the launcher and sends this host's hello. */
static bool agent_try(struct agent *agent, const struct agent_card *card, uint32_t address)
{
	const struct roami_hello hello = {.aes = roami_seal_has_aes()};

	if (!roami_listener_reach(&agent->wire, address, card->port, card->key, &agent->frame))
		return false;
	if (roami_wire_send(&agent->wire, ROAMI_FRAME_HELLO, card->host, &hello, sizeof(hello)))
		return true;
	roami_wire_close(&agent->wire);
	return false;
}

static bool agent_connect(struct agent *agent, const struct agent_card *card)
{
	char text[INET_ADDRSTRLEN] = "", name[64] = "";
	struct in_addr first = {htonl(card->addresses[0])};
	struct pollfd lifeline = {agent->lifeline, POLLIN, 0};

	for (unsigned i = 0; i < card->count; i++)
		if (agent_try(agent, card, card->addresses[i]))
			return true;
	if (poll(&lifeline, 1, 0) > 0) /* never written to: the launcher is gone */
		return false;
	gethostname(name, sizeof(name) - 1);
	inet_ntop(AF_INET, &first, text, sizeof(text));
	tool_say("run: host %s cannot reach the launcher at %s port %u, nor at its other addresses "
		 "(a firewall?)",
		 card->name[0] != '\0' ? card->name : name, text, card->port);
	return false;
}

/* ------------------------------------------------------------------------------------- starting */

static int agent_start_node(struct agent *agent, struct agent_node *node)
{
	char boot[32];
	int pair[2], input, status;
	struct child_plan plan = {.node = node->rank,
				  .argv = agent->argv,
				  .boot = boot,
				  .mask = &agent->mask,
				  .within = agent->start.tag ? agent->within : NULL};

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0 ||
	    !roami_input_pipe_open(&agent->inputs[node - agent->nodes], &input)) {
		snprintf(node->child.why, sizeof(node->child.why), "cannot make a pipe: %s",
			 strerror(errno));
		return TOOL_FAILED;
	}
	if (agent->start.gdb == node->rank + 1)
		plan.argv = child_gdb(agent->argv, false);
	node->control = pair[0];
	plan.input = input;
	plan.keep = pair[1];
	snprintf(boot, sizeof(boot), agent->lent > 0 ? "far:%d:%d" : "far:%d", pair[1],
		 agent->lent);
	status = child_start(&node->child, &plan);
	close(pair[1]);
	close(input);
	agent->running += node->child.runs;
	return status;
}

static void agent_send_exit(struct agent *agent, unsigned rank, int wait_status, pid_t pid)
{
	int32_t what[2] = {wait_status, pid};

	if (!roami_wire_send(&agent->wire, ROAMI_FRAME_EXIT, rank, what, sizeof(what)))
		agent->over = true;
}

static void agent_not_started(struct agent *agent, struct agent_node *node, int status)
{
	roami_wire_send(&agent->wire, ROAMI_FRAME_FAIL, node->rank, node->child.why,
			strlen(node->child.why));
	agent_send_exit(agent, node->rank, status, 0);
}

/*
 * Makes what this host's nodes share: their segments, and behind these the eventfds by which they
 * wake each other, all with consecutive descriptors.  false: reported.
 */
static bool agent_lend(struct agent *agent)
{
	static struct roami_options options;
	int fds[2 * ROAMI_NODES_MAX];
	uint64_t ranks = 0;
	unsigned count = 0;

	for (unsigned rank = 0; rank < agent->start.boot.nodes; rank++)
		if (agent->start.boot.host[rank] == agent->host)
			ranks |= roami_nodeset_bit(rank);
	if (roami_options_read(&options, environ, STDERR_FILENO) != ROAM_OK ||
	    roami_boot_memory(&options, ranks, fds) != ROAM_OK)
		return false;
	count = (unsigned)__builtin_popcountll(ranks);
	for (unsigned i = 0; i < count; i++)
		fds[count + i] = roami_os_fd(eventfd(0, EFD_NONBLOCK));
	agent->lent = fds[2 * count - 1] < 0 ? -1 : child_place(fds, 2 * count, agent->wire.fd);
	if (agent->lent < 0)
		tool_say("run: host %s: too few file descriptors: %s (raise the limit, ulimit -n)",
			 agent->start.boot.names[__builtin_ctzll(ranks)], strerror(errno));
	return agent->lent >= 0;
}

static void agent_start(struct agent *agent)
{
	struct sockaddr_in mine;
	socklen_t length = sizeof(mine);
	int status = 0;

	if (agent->count != 0 || agent->args == 0 || agent->frame.bytes != sizeof(agent->start)) {
		agent->over = true;
		return;
	}
	memcpy(&agent->start, agent->frame.payload, sizeof(agent->start));
	if (agent->start.boot.nodes > ROAMI_NODES_MAX ||
	    getsockname(agent->wire.fd, (void *)&mine, &length) != 0) {
		agent->over = true;
		return;
	}
	if (agent->start.boot.address == 0)
		agent->start.boot.address = ntohl(mine.sin_addr.s_addr);
	if (agent->start.share && !agent_lend(agent)) {
		agent->over = true;
		return;
	}
	for (unsigned rank = 0; rank < agent->start.boot.nodes && status == 0; rank++) {
		if (agent->start.boot.host[rank] != agent->host)
			continue;
		agent->nodes[agent->count].rank = rank;
		status = agent_start_node(agent, &agent->nodes[agent->count++]);
		if (status != 0)
			agent_not_started(agent, &agent->nodes[agent->count - 1], status);
	}
}

static void agent_input(struct agent *agent)
{
	agent->asked = false;
	if (!roami_input_take(&agent->input, agent->frame.payload, agent->frame.bytes))
		agent->over = true;
	roami_input_write(&agent->input, agent->inputs, agent->count);
}

/* Asks for more input, so that the launcher reads no faster than the fastest of all nodes. */
static void agent_ask(struct agent *agent)
{
	if (agent->asked || !roami_input_wanted(&agent->input, agent->inputs, agent->count))
		return;
	agent->asked = roami_wire_send(&agent->wire, ROAMI_FRAME_INPUT, agent->nodes[0].rank, NULL,
				       0);
	agent->over = agent->over || !agent->asked;
}

/* --------------------------------------------------------------------------------------- ending */

static void agent_signal(struct agent *agent, int signal)
{
	for (unsigned i = 0; i < agent->count; i++)
		child_signal(&agent->nodes[i].child, signal, agent->quits);
}

/* Passes a signal of the launcher on, with its number. */
static void agent_pass_on(struct agent *agent)
{
	if (agent->frame.bytes == sizeof(agent->quits))
		memcpy(&agent->quits, agent->frame.payload, sizeof(agent->quits));
	agent_signal(agent, (int)agent->frame.node);
}

static void agent_quit(struct agent *agent, bool at_once)
{
	agent_signal(agent, at_once ? SIGKILL : SIGTERM);
	agent_signal(agent, SIGCONT); /* a stopped node would not notice SIGTERM */
	if (!at_once && agent->kill_at == 0)
		agent->kill_at = roami_os_now_ns() + TERM_NS;
	if (agent->count == 0)
		agent->over = true;
}

/* Passes a node's frame on unchanged, with the node's number. */
static bool agent_from_node(struct agent *agent, struct agent_node *node)
{
	struct roami_frame *frame = &agent->frame;
	static const char twice[] = "it joined twice: a script that starts the program twice?";
	struct roami_boot boot = agent->start.boot;

	if (node->control < 0 || !roami_control_receive(node->control, frame))
		return false;
	if (frame->kind == ROAMI_FRAME_JOIN && !node->joined) {
		boot.me = node->rank;
		node->joined = true;
		return roami_control_send(node->control, ROAMI_FRAME_BOOT, node->rank, &boot,
					  sizeof(boot));
	}
	if (frame->kind == ROAMI_FRAME_JOIN) {
		frame->kind = ROAMI_FRAME_FAIL;
		frame->bytes = sizeof(twice) - 1;
		memcpy(frame->payload, twice, sizeof(twice));
	}
	if (frame->kind > ROAMI_FRAME_END)
		return false;
	if (!roami_wire_send(&agent->wire, frame->kind, node->rank, frame->payload, frame->bytes))
		agent->over = true;
	return true;
}

static void agent_ended(struct agent *agent, struct agent_node *node, int status)
{
	struct pollfd more = {node->control, POLLIN, 0};

	node->child.runs = false;
	agent->running--;
	/* Passes on what the node said before its exit. */
	while (node->control >= 0 && poll(&more, 1, 0) > 0 && (more.revents & POLLIN) != 0 &&
	       agent_from_node(agent, node))
		;
	agent_send_exit(agent, node->rank, status, node->child.pid);
}

static void agent_reap(struct agent *agent)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (unsigned i = 0; i < agent->count; i++)
			if (agent->nodes[i].child.runs && agent->nodes[i].child.pid == pid)
				agent_ended(agent, &agent->nodes[i], status);
}

static void agent_take_signal(struct agent *agent)
{
	struct signalfd_siginfo info;

	if (read(agent->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (info.ssi_signo == SIGCHLD)
		agent_reap(agent);
	else
		agent->over = true; /* a signal ends the agent, as the launcher will see */
}

/* ------------------------------------------------------------------------------------- the loop */

static void agent_env(struct roami_frame *frame)
{
	char *value;

	frame->payload[frame->bytes < ROAMI_FRAME_PAYLOAD ? frame->bytes
							  : ROAMI_FRAME_PAYLOAD - 1] = '\0';
	value = strchr((char *)frame->payload, '=');
	if (value == NULL)
		return;
	*value++ = '\0';
	if (strcmp((char *)frame->payload, "PWD") == 0 && chdir(value) != 0)
		return; /* this host lacks it: stay where the remote shell began */
	setenv((char *)frame->payload, value, 1);
}

static void agent_arg(struct agent *agent)
{
	char **more = realloc(agent->argv, (agent->args + 2) * sizeof(*more));
	char *arg = strndup((const char *)agent->frame.payload, agent->frame.bytes);

	if (more == NULL || arg == NULL) {
		free(arg);
		agent->over = true;
		return;
	}
	agent->argv = more;
	more[agent->args++] = arg;
	more[agent->args] = NULL;
}

/* From the launcher. */
static void agent_frame(struct agent *agent)
{
	struct roami_frame *frame = &agent->frame;

	switch ((enum roami_frame_kind)frame->kind) {
	case ROAMI_FRAME_ENV:
		agent_env(frame);
		break;
	case ROAMI_FRAME_ARG:
		agent_arg(agent);
		break;
	case ROAMI_FRAME_START:
		agent_start(agent);
		break;
	case ROAMI_FRAME_SIGNAL:
		agent_pass_on(agent);
		break;
	case ROAMI_FRAME_INPUT:
		agent_input(agent);
		break;
	case ROAMI_FRAME_QUIT:
		agent_quit(agent, frame->node == 0);
		break;
	case ROAMI_FRAME_TABLE:
	case ROAMI_FRAME_WAITS:
	case ROAMI_FRAME_END:
		for (unsigned i = 0; i < agent->count; i++)
			if (agent->nodes[i].control >= 0)
				roami_control_send(agent->nodes[i].control, frame->kind,
						   agent->nodes[i].rank, frame->payload,
						   frame->bytes);
		break;
	default:
		agent->over = true;
	}
}

static void agent_from_launcher(struct agent *agent)
{
	enum roami_os_got got;

	while ((got = roami_wire_receive(&agent->wire, &agent->frame)) == ROAMI_OS_GOT &&
	       !agent->over) {
		agent->heard = true;
		agent_frame(agent);
	}
	if (got == ROAMI_OS_LOST)
		agent->over = true;
}

struct agent_polls {
	struct pollfd at[3 + 4 * ROAMI_NODES_MAX];
	struct agent_node *node[3 + 4 * ROAMI_NODES_MAX];
	nfds_t count;
};

static void agent_add(struct agent_polls *polls, struct agent_node *node, int fd, short events)
{
	if (fd < 0)
		return;
	polls->node[polls->count] = node;
	polls->at[polls->count++] = (struct pollfd){fd, events, 0};
}

/* Handles a node's descriptor that is ready. */
static void agent_serve(struct agent *agent, struct agent_node *node, int fd)
{
	if (fd == node->control) {
		if (!agent_from_node(agent, node)) {
			close(node->control);
			node->control = -1;
		}
	} else if (fd == agent->inputs[node - agent->nodes].to) {
		roami_input_write(&agent->input, agent->inputs, agent->count);
	}
	for (unsigned i = 0; i < 2; i++)
		if (node->child.out[i] != NULL && fd == node->child.out[i]->from)
			tag_pump(node->child.out[i]);
}

static void agent_turn(struct agent *agent, int timeout_ms)
{
	struct agent_polls polls = {.count = 0};

	agent_ask(agent);
	agent_add(&polls, NULL, agent->signals, POLLIN);
	agent_add(&polls, NULL, agent->wire.fd, POLLIN);
	agent_add(&polls, NULL, agent->lifeline, POLLIN);
	for (unsigned i = 0; i < agent->count; i++) {
		struct agent_node *node = &agent->nodes[i];

		agent_add(&polls, node, node->control, POLLIN);
		agent_add(&polls, node, roami_input_hungry(&agent->input, &agent->inputs[i]),
			  POLLOUT);
		for (unsigned out = 0; out < 2; out++)
			if (node->child.out[out] != NULL)
				agent_add(&polls, node, node->child.out[out]->from, POLLIN);
	}
	if (poll(polls.at, polls.count, timeout_ms) <= 0)
		return;
	for (nfds_t i = 3; i < polls.count; i++)
		if (polls.at[i].revents != 0)
			agent_serve(agent, polls.node[i], polls.at[i].fd);
	if (polls.at[2].revents != 0) /* nothing is ever written to it: the launcher is gone */
		agent->over = true;
	if (polls.at[1].revents != 0)
		agent_from_launcher(agent);
	if (polls.at[0].revents != 0)
		agent_take_signal(agent);
}

static bool agent_prepare(struct agent *agent)
{
	static const int taken[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	sigset_t set;

	setsid(); /* only the launcher passes on the terminal's input */
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		signal(taken[i], SIG_DFL);
		sigaddset(&set, taken[i]);
	}
	sigprocmask(SIG_BLOCK, &set, &agent->mask);
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		sigdelset(&agent->mask, taken[i]);
	agent->signals = roami_os_fd(signalfd(-1, &set, SFD_CLOEXEC));
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE); /* a node may close its input */
	sigprocmask(SIG_BLOCK, &set, NULL);
	agent->lifeline = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return agent->signals >= 0 && agent->lifeline >= 0 && roami_input_open(&agent->input, -1);
}

/* Only the launcher sets roam's variables. */
static void agent_forget_env(void)
{
	for (char **at = environ; *at != NULL;) {
		char name[128];
		size_t length = strcspn(*at, "=");

		if (strncmp(*at, "ROAM_", 5) == 0 && length < sizeof(name)) {
			memcpy(name, *at, length);
			name[length] = '\0';
			unsetenv(name);
		} else {
			at++;
		}
	}
}

/* Runs until all nodes have ended, or the job is over. */
static void agent_run(struct agent *agent)
{
	while (!agent->over && (agent->count == 0 || agent->running > 0)) {
		uint64_t now = roami_os_now_ns();

		if (agent->kill_at != 0 && now >= agent->kill_at) {
			agent_signal(agent, SIGKILL);
			agent->kill_at = UINT64_MAX;
		}
		agent_turn(agent, roami_os_poll_ms(agent->kill_at == 0 ? UINT64_MAX
								       : agent->kill_at));
	}
}

/* Passes on the last output of nodes that have ended. */
static void agent_drain(struct agent *agent)
{
	for (unsigned i = 0; i < 2 * agent->count; i++) {
		struct tag_stream *stream = agent->nodes[i / 2].child.out[i % 2];
		struct pollfd more = {stream != NULL ? stream->from : -1, POLLIN, 0};

		while (more.fd >= 0 && poll(&more, 1, (int)(DRAIN_NS / MS)) > 0 && tag_pump(stream))
			;
	}
}

int tool_agent(int argc, char **argv)
{
	static struct agent agent; /* large */
	struct agent_card card;
	uint64_t end;

	(void)argc;
	(void)argv;
	if (!agent_read_card(&card)) { /* the launcher names the host, and says what to do */
		if (isatty(STDIN_FILENO))
			tool_say("agent: started by `roam run -H` only, of the same version");
		return AGENT_VERSION;
	}
	agent.host = card.host;
	for (unsigned i = 0; i < ROAMI_NODES_MAX; i++)
		agent.nodes[i].control = agent.inputs[i].to = -1;
	if (!agent_prepare(&agent) || !agent_connect(&agent, &card))
		return TOOL_FAILED;
	explicit_bzero(card.key, sizeof(card.key));
	agent_forget_env();
	agent_run(&agent);
	agent_signal(&agent, SIGKILL);
	end = roami_os_now_ns() + DRAIN_NS;
	while (child_sweep() && roami_os_now_ns() < end)
		usleep(1000);
	agent_drain(&agent);
	roami_wire_close(&agent.wire);
	return agent.heard ? 0 : AGENT_REFUSED;
}
