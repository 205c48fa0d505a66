#include "pastset/job/show.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/bpf.h"
#include "pastset/kernel.h"
#include "pastset/shown.h"

#define SHOWN_BYTES (ROAMI_SHOWN_ELEMENTS * sizeof(struct roami_shown))

/* Where things are in a frame of Ethernet, IPv4 without options, and UDP. */
#define MAC       6
#define TYPE      (2 * MAC)
#define IP        (TYPE + 2)
#define FRAGMENT  (IP + 6)
#define PROTOCOL  (IP + 9)
#define IP_FROM   (IP + 12)
#define IP_TO     (IP + 16)
#define UDP       (IP + 20)
#define PORT_FROM UDP
#define PORT_TO   (UDP + 2)
#define UDP_SUM   (UDP + 6)
#define LOOK      (UDP + 8)
#define TUPLE     (LOOK + (int)sizeof(struct roami_show_frame))
#define AT(field) (LOOK + offsetof(struct roami_show_frame, field))
#define IN(field) offsetof(struct roami_shown, field)

_Static_assert(ROAMI_SHOWN_BYTES % 8 == 0, "tuples are copied by words");

enum label { NEXT, ANSWER, DONE };

/*
 * Where the program runs: behind the driver, where an interface has any number of such programs, by
 * a link of Linux 6.6; before that one of XDP, generic, of which an interface has one.  (Filters of
 * tc are older, but stay when their process is killed.)
 */
static const struct show_hook {
	unsigned type, attach, flags;
	int data, end;   /* in what the program is called with */
	int next;        /* its verdict on frames of others */
} hooks[] = {
	{BPF_PROG_TYPE_SCHED_CLS, ROAMI_BPF_TCX_INGRESS, 0, offsetof(struct __sk_buff, data),
	 offsetof(struct __sk_buff, data_end), ROAMI_BPF_TCX_NEXT},
	{BPF_PROG_TYPE_XDP, BPF_XDP, XDP_FLAGS_SKB_MODE, offsetof(struct xdp_md, data),
	 offsetof(struct xdp_md, data_end), XDP_PASS},
};

/* Leaves a frame to others, unless the value of that size at `place` is this one. */
static void program_only(struct roami_bpf *program, unsigned char size, size_t place, uint32_t is)
{
	roami_bpf_add(program, BPF_LOAD(size, 1, 8, place));
	roami_bpf_jump(program, BPF_IF_32(BPF_JNE, 1, (int)is), NEXT);
}

/* The frame comes to register 8, its end to 9, if it is a look at elements of this node. */
static void program_look(struct roami_bpf *program, const struct roami_show_at *at,
			 const struct show_hook *hook)
{
	roami_bpf_add(program, BPF_LOAD(BPF_W, 8, 1, hook->data));
	roami_bpf_add(program, BPF_LOAD(BPF_W, 9, 1, hook->end));
	roami_bpf_add(program, BPF_COPY(1, 8));
	roami_bpf_add(program, BPF_BY(BPF_ADD, 1, TUPLE));
	roami_bpf_jump(program, BPF_IF(BPF_JGT, 1, 9), NEXT);
	program_only(program, BPF_H, TYPE, htons(0x0800));
	program_only(program, BPF_B, IP, 0x45);
	program_only(program, BPF_B, PROTOCOL, IPPROTO_UDP);
	program_only(program, BPF_W, IP_TO, at->host);
	program_only(program, BPF_H, PORT_TO, at->port);
	program_only(program, BPF_H, UDP_SUM, 0); /* there is none, so that none need be changed */
	roami_bpf_add(program, BPF_LOAD(BPF_H, 1, 8, FRAGMENT));
	roami_bpf_add(program, BPF_BY(BPF_AND, 1, htons(0x3fff)));
	roami_bpf_jump(program, BPF_IF_32(BPF_JNE, 1, 0), NEXT);
	roami_bpf_add(program, BPF_LOAD(BPF_H, 1, 8, PORT_FROM));
	roami_bpf_jump(program, BPF_IF_32(BPF_JEQ, 1, at->port), NEXT);
	program_only(program, BPF_W, AT(magic), ROAMI_LOOK_MAGIC);
	program_only(program, BPF_W, AT(secret), (uint32_t)at->secret);
	program_only(program, BPF_W, AT(secret) + 4, (uint32_t)(at->secret >> 32));
}

/* A full barrier: what is read before it and after it is read in this order. */
static void program_order(struct roami_bpf *program)
{
	roami_bpf_add(program, BPF_SET(0, 0));
	roami_bpf_add(program, BPF_LINE(BPF_STX | BPF_ATOMIC | BPF_DW, 10, 0, -8,
					BPF_ADD | BPF_FETCH));
}

/* Copies the tuple at register 7, if it is there, whole, and has room. */
static void program_copy(struct roami_bpf *program)
{
	roami_bpf_add(program, BPF_LOAD(BPF_W, 6, 7, IN(turn)));
	roami_bpf_add(program, BPF_COPY(1, 6));
	roami_bpf_add(program, BPF_BY(BPF_AND, 1, 1));
	roami_bpf_jump(program, BPF_IF_32(BPF_JNE, 1, 0), ANSWER); /* it is being written */
	program_order(program);
	roami_bpf_add(program, BPF_LOAD(BPF_DW, 1, 7, IN(number)));
	roami_bpf_add(program, BPF_STORE(BPF_DW, 8, AT(number), 1));
	roami_bpf_add(program, BPF_LOAD(BPF_W, 2, 7, IN(bytes)));
	roami_bpf_add(program, BPF_STORE(BPF_W, 8, AT(bytes), 2));
	roami_bpf_add(program, BPF_SET(3, 0));
	roami_bpf_jump(program, BPF_IF(BPF_JEQ, 1, 3), ANSWER);
	for (int word = 0; word < (int)ROAMI_SHOWN_BYTES; word += 8) {
		roami_bpf_jump(program, BPF_IF_32(BPF_JLE, 2, word), DONE);
		roami_bpf_add(program, BPF_COPY(1, 8));
		roami_bpf_add(program, BPF_BY(BPF_ADD, 1, TUPLE + word + 8));
		roami_bpf_jump(program, BPF_IF(BPF_JGT, 1, 9), ANSWER);
		roami_bpf_add(program, BPF_LOAD(BPF_DW, 1, 7, IN(tuple) + (size_t)word));
		roami_bpf_add(program, BPF_STORE(BPF_DW, 8, TUPLE + word, 1));
	}
	roami_bpf_label(program, DONE);
	program_order(program);
	roami_bpf_add(program, BPF_LOAD(BPF_W, 1, 7, IN(turn)));
	roami_bpf_jump(program, BPF_IF(BPF_JNE, 1, 6), ANSWER);
	roami_bpf_add(program, BPF_SET(1, ROAMI_LOOK_FOUND));
	roami_bpf_add(program, BPF_STORE(BPF_W, 8, AT(found), 1));
}

/* Sends the frame back. */
static void program_send(struct roami_bpf *program, const struct show_hook *hook, int interface)
{
	if (hook->type == BPF_PROG_TYPE_XDP) {
		roami_bpf_add(program, BPF_SET(0, XDP_TX));
		return;
	}
	roami_bpf_add(program, BPF_SET(1, interface));
	roami_bpf_add(program, BPF_SET(2, 0));
	roami_bpf_add(program, BPF_HELP(BPF_FUNC_redirect));
}

static int program_make(const struct roami_show_at *at, int interface, int map,
			const struct show_hook *hook)
{
	struct roami_bpf program = {.count = 0};

	program_look(&program, at, hook);
	roami_bpf_add(&program, BPF_SET(1, 0));
	roami_bpf_add(&program, BPF_STORE(BPF_DW, 10, -8, 1)); /* for barriers */
	roami_bpf_add(&program, BPF_STORE(BPF_W, 8, AT(found), 1));
	roami_bpf_add(&program, BPF_LOAD(BPF_W, 2, 8, AT(element)));
	roami_bpf_jump(&program, BPF_IF_32(BPF_JGE, 2, ROAMI_SHOWN_ELEMENTS), ANSWER);
	roami_bpf_add(&program, BPF_BY(BPF_AND, 2, ROAMI_SHOWN_ELEMENTS - 1));
	roami_bpf_add(&program, BPF_BY(BPF_LSH, 2, ROAMI_SHOWN_SHIFT));
	roami_bpf_map(&program, 7, map, true);
	roami_bpf_add(&program, BPF_WITH(BPF_ADD, 7, 2));
	program_copy(&program);
	roami_bpf_label(&program, ANSWER);
	roami_bpf_swap(&program, 8, BPF_W, 0, MAC);
	roami_bpf_swap(&program, 8, BPF_H, 4, MAC + 4);
	roami_bpf_swap(&program, 8, BPF_W, IP_FROM, IP_TO);
	roami_bpf_swap(&program, 8, BPF_H, PORT_FROM, PORT_TO);
	program_send(&program, hook, interface);
	roami_bpf_add(&program, BPF_RETURN);
	roami_bpf_label(&program, NEXT);
	roami_bpf_add(&program, BPF_SET(0, hook->next));
	roami_bpf_add(&program, BPF_RETURN);
	return roami_bpf_load(&program, hook->type, hook->attach, 0);
}

/* The link of a program that is attached; -1 with errno. */
static int program_attach(const struct roami_show_at *at, int interface, int map,
			  const struct show_hook *hook)
{
	int program = program_make(at, interface, map, hook), link = -1, error;

	if (program < 0)
		return -1;
	link = roami_bpf_attach(program, interface, hook->attach, hook->flags);
	error = errno;
	close(program);
	errno = error;
	return link;
}

/* The interface's address, and a port there that nobody else gets; false with errno. */
static bool show_address(struct roami_show *show, const char *name)
{
	struct ifreq request = {.ifr_addr.sa_family = AF_INET};
	struct sockaddr_in own = {.sin_family = AF_INET};
	socklen_t bytes = sizeof(own);
	size_t length = strlen(name);
	int fd = roami_os_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)), least = 1;

	if (fd < 0)
		return false;
	show->socket = fd + 1;
	if (length >= sizeof(request.ifr_name)) {
		errno = ENODEV;
		return false;
	}
	memcpy(request.ifr_name, name, length);
	if (ioctl(fd, SIOCGIFADDR, &request) != 0)
		return false;
	memcpy(&own.sin_addr, &((struct sockaddr_in *)(void *)&request.ifr_addr)->sin_addr,
	       sizeof(own.sin_addr));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least));
	if (bind(fd, (void *)&own, sizeof(own)) != 0 ||
	    getsockname(fd, (void *)&own, &bytes) != 0)
		return false;
	show->at.port = own.sin_port;
	show->at.host = own.sin_addr.s_addr;
	return roami_os_secret(&show->at.secret, sizeof(show->at.secret));
}

/* The memory, and the program that reads it; false with errno. */
static bool show_attach(struct roami_past *past, struct roami_show *show, const char *name)
{
	int interface = (int)if_nametoindex(name), link = -1, error;
	int map = roami_bpf_make_map(BPF_MAP_TYPE_ARRAY, SHOWN_BYTES, 1, BPF_F_MMAPABLE);
	void *shown = MAP_FAILED;

	if (map >= 0)
		shown = mmap(NULL, SHOWN_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	if (shown != MAP_FAILED) {
		madvise(shown, SHOWN_BYTES, MADV_DONTFORK);
		link = program_attach(&show->at, interface, map, &hooks[0]);
		if (link < 0 && errno == EINVAL)
			link = program_attach(&show->at, interface, map, &hooks[1]);
	}
	error = errno;
	if (map >= 0)
		close(map);
	if (link < 0 && shown != MAP_FAILED)
		munmap(shown, SHOWN_BYTES);
	errno = error;
	if (link < 0)
		return false;
	show->link = link + 1;
	past->shown = shown;
	return true;
}

static void show_says(const struct roami_past *past, const char *why)
{
	if (past->node->options->log >= ROAMI_LEVEL_WARN)
		dprintf(STDERR_FILENO,
			"roam: warning: node %u: ROAM_PS_KERNEL=%s has no effect: %s\n",
			past->node->me, past->node->options->ps_kernel, why);
}

void roami_show_open(struct roami_past *past, struct roami_show *show)
{
	const char *name = past->node->options->ps_kernel;
	char why[160];

	if (name[0] == '\0' || past->node->nodes == 1)
		return;
	show->pid = getpid();
	if (past->node->options->seal != ROAMI_SEAL_OFF) {
		show_says(past, "it is for ROAM_SEAL=off, as its datagrams have no seal");
		return;
	}
	if (show_address(show, name) && show_attach(past, show, name))
		return;
	snprintf(why, sizeof(why), "%s%s", strerror(errno),
		 errno == EPERM ? " (it needs CAP_BPF and CAP_NET_ADMIN)"
		 : errno == EBUSY ? " (before Linux 6.6 an interface has one such program)"
				  : "");
	show_says(past, why);
	roami_show_close(past, show);
}

void roami_show_close(struct roami_past *past, struct roami_show *show)
{
	bool own = show->pid == getpid();

	if (show->link > 0)
		roami_bpf_close(show->link - 1, own);
	if (show->socket > 0)
		close(show->socket - 1);
	for (unsigned i = 0; i < ROAMI_LOOKS; i++)
		if (show->sockets[i] > 0)
			close(show->sockets[i] - 1);
	if (past->shown != NULL && own)
		munmap(past->shown, SHOWN_BYTES);
	past->shown = NULL;
	memset(show, 0, sizeof(*show));
}
