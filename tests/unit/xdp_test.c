/*
 * The xdp transport's share that needs no kernel: frames in one chunk and in several, chunks that
 * cannot be, slots that come back when all of their chunks have left, and calls to send.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"
#include "xdp_bench.h"

#define FIRST_AT (XDP_KERNEL + XDP_ALIGN)

static struct xdp_bench *bench;
static struct packet_lane lane;

static void begin(void)
{
	bench = calloc(1, sizeof(*bench));
	CU_ASSERT_FATAL(bench != NULL);
	memset(&lane, 0, sizeof(lane));
	xdp_bench_open(bench, &lane);
}

static void end(void)
{
	close(lane.fd);
	free(bench);
}

/* How many chunks the kernel may fill. */
static uint32_t given(void)
{
	return *bench->socket.fill.producer;
}

static void test_one(void)
{
	struct packet_frame frame;

	begin();
	CU_ASSERT(!packet_lane_ready(&lane));
	CU_ASSERT(!packet_lane_next(&lane, &frame));
	xdp_bench_arrive(bench, 2 * XDP_CHUNK + FIRST_AT, 100, false);
	CU_ASSERT(packet_lane_ready(&lane));
	for (unsigned i = 0; i < 2; i++) { /* the same again, until it is done with */
		CU_ASSERT(packet_lane_next(&lane, &frame));
		CU_ASSERT_EQUAL(frame.bytes, 100 - PACKET_ETHERNET);
		CU_ASSERT_PTR_EQUAL(frame.head,
				    bench->memory + 2 * XDP_CHUNK + FIRST_AT + PACKET_ETHERNET);
		CU_ASSERT_EQUAL((uintptr_t)(frame.head + 1) % 8, 0);
	}
	packet_lane_done(&lane);
	CU_ASSERT(!packet_lane_ready(&lane));
	CU_ASSERT_EQUAL(given(), 1);
	CU_ASSERT_EQUAL(bench->fill[0], 2 * XDP_CHUNK);
	end();
}

/* A frame of several chunks is handed on whole, once all of it is there; and one not aligned. */
static void test_joined(void)
{
	struct packet_frame frame;
	size_t bytes = 0, at[3] = {FIRST_AT, 0, 0}, each[3] = {XDP_FRAME_IN, XDP_CHUNK, 50};

	begin();
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT(!packet_lane_next(&lane, &frame));
		for (size_t byte = 0; byte < each[i]; byte++)
			bench->memory[i * XDP_CHUNK + at[i] + byte] = (uint8_t)(bytes++ * 7 % 251);
		xdp_bench_arrive(bench, i * XDP_CHUNK + at[i], (uint32_t)each[i], i < 2);
	}
	CU_ASSERT_FATAL(packet_lane_next(&lane, &frame));
	CU_ASSERT_FATAL(frame.head != NULL);
	CU_ASSERT_EQUAL(frame.bytes, bytes - PACKET_ETHERNET);
	CU_ASSERT_EQUAL((uintptr_t)(frame.head + 1) % 8, 0);
	for (size_t byte = PACKET_ETHERNET; byte < bytes; byte++)
		if (((const uint8_t *)frame.head)[byte - PACKET_ETHERNET] != byte * 7 % 251)
			CU_FAIL("a byte is not in its place");
	packet_lane_done(&lane);
	CU_ASSERT_EQUAL(given(), 3);
	xdp_bench_arrive(bench, 3 * XDP_CHUNK + 1, 100, false);
	CU_ASSERT(packet_lane_next(&lane, &frame));
	CU_ASSERT_EQUAL((uintptr_t)(frame.head + 1) % 8, 0);
	end();
}

/* What the kernel cannot mean is no frame, and is passed over. */
static void test_wrong(void)
{
	static const struct xdp_desc wrong[] = {
		{XDP_BENCH_IN * XDP_CHUNK, 100, 0},
		{UINT64_MAX - 10, 100, 0},
		{XDP_CHUNK + FIRST_AT, XDP_CHUNK, 0},
		{XDP_CHUNK, UINT32_MAX, 0},
		{FIRST_AT, PACKET_ETHERNET + sizeof(struct packet_head) - 1, 0},
	};
	struct packet_frame frame;

	begin();
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		xdp_bench_arrive(bench, wrong[i].addr, wrong[i].len, false);
		CU_ASSERT(packet_lane_next(&lane, &frame));
		CU_ASSERT_PTR_NULL(frame.head);
		packet_lane_done(&lane);
		CU_ASSERT(!packet_lane_ready(&lane));
	}
	CU_ASSERT_EQUAL(given(), 3);
	for (unsigned i = 0; i < 4; i++) /* too long together */
		xdp_bench_arrive(bench, i * XDP_CHUNK, XDP_CHUNK, i < 3);
	CU_ASSERT(packet_lane_next(&lane, &frame));
	CU_ASSERT_PTR_NULL(frame.head);
	packet_lane_done(&lane);
	CU_ASSERT_EQUAL(given(), 7);
	end();
}

static void test_leaving(void)
{
	static const uint8_t mac[PACKET_MAC] = {1, 2, 3, 4, 5, 6};
	const size_t sizes[XDP_BENCH_SLOTS] = {24, XDP_CHUNK - PACKET_ETHERNET,
					       XDP_CHUNK - PACKET_ETHERNET + 1, 9000};

	begin();
	CU_ASSERT(packet_lane_room(&lane, XDP_BENCH_SLOTS));
	for (unsigned i = 0; i < XDP_BENCH_SLOTS; i++) {
		uint8_t *slot = packet_lane_slot(&lane, mac);

		CU_ASSERT_FATAL(slot != NULL);
		CU_ASSERT_EQUAL(memcmp(slot - PACKET_ETHERNET, mac, PACKET_MAC), 0);
		packet_lane_filled(&lane, sizes[i]);
	}
	CU_ASSERT_EQUAL(*bench->socket.out.producer, 1 + 1 + 2 + 3);
	CU_ASSERT_EQUAL(bench->out[2].options, XDP_BENCH_MORE);
	CU_ASSERT_EQUAL(bench->out[3].options, 0);
	CU_ASSERT_EQUAL(bench->out[3].len, 1);
	CU_ASSERT(!packet_lane_room(&lane, 1));
	CU_ASSERT_PTR_NULL(packet_lane_slot(&lane, mac));
	xdp_bench_leave(bench);
	CU_ASSERT(packet_lane_room(&lane, XDP_BENCH_SLOTS));
	end();
}

static unsigned calls, most; /* to send, and the frames that one of them sends */

/* The kernel, of which no other call is made here. */
ssize_t sendto(int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to,
	       socklen_t to_bytes)
{
	const struct xdp_ring *out = &bench->socket.out;
	uint32_t left = *out->producer - *out->consumer;

	(void)fd, (void)data, (void)bytes, (void)flags, (void)to, (void)to_bytes;
	calls++;
	*out->consumer += left < most ? left : most;
	if (left <= most && most > 0)
		return 0;
	errno = EAGAIN;
	return -1;
}

/* The kernel sends few frames at a call: none waits for this node's next poll, unless all do. */
static void test_batches(void)
{
	begin();
	bench->socket.slots = 100;
	*bench->socket.out.flags = XDP_RING_NEED_WAKEUP;
	*bench->socket.out.producer = 100;
	calls = 0;
	most = 32;
	CU_ASSERT(packet_lane_push(&lane));
	CU_ASSERT_EQUAL(calls, 4);
	CU_ASSERT_EQUAL(*bench->socket.out.consumer, 100);
	CU_ASSERT_EQUAL(atomic_load(&lane.waits), 0);
	*bench->socket.out.producer = 200;
	calls = most = 0; /* there is no room at the interface */
	CU_ASSERT(packet_lane_push(&lane));
	CU_ASSERT(calls >= 1 && calls <= 4);
	CU_ASSERT_EQUAL(atomic_load(&lane.waits), 1);
	end();
}

static uint32_t places[16]; /* of a ring, by the option that makes it */

int socket(int domain, int type, int protocol)
{
	(void)domain, (void)type, (void)protocol;
	return eventfd(0, EFD_CLOEXEC);
}

int setsockopt(int fd, int level, int what, const void *value, socklen_t bytes)
{
	(void)fd, (void)level;
	if (what < 16 && bytes == sizeof(places[what]))
		memcpy(&places[what], value, bytes);
	return 0;
}

/* Long frames take a chunk each, or several: as many can wait as were asked for in either case. */
static void test_room(void)
{
	struct xdp_plan plan = {.mode = XDP_GENERIC, .in = 256, .out = 64};
	const char *what = "";
	size_t bytes, more;

	CU_ASSERT(xdp_lane_probe(&plan, &bytes, &what));
	CU_ASSERT_EQUAL(places[XDP_RX_RING], 256);
	CU_ASSERT_EQUAL(places[XDP_UMEM_FILL_RING], 256);
	CU_ASSERT_EQUAL(places[XDP_TX_RING], 64);
	plan.joins = true;
	CU_ASSERT(xdp_lane_probe(&plan, &more, &what));
	CU_ASSERT(places[XDP_RX_RING] >= 256 * XDP_CHUNKS_MAX);
	CU_ASSERT(places[XDP_UMEM_FILL_RING] >= 256 * XDP_CHUNKS_MAX);
	CU_ASSERT(places[XDP_TX_RING] >= 64 * XDP_CHUNKS_MAX);
	CU_ASSERT(more > 2 * bytes);
}

static uint32_t detached; /* the file of the program's link */

long syscall(long number, ...)
{
	const union bpf_attr *attr;
	va_list args;
	int what;

	va_start(args, number);
	what = va_arg(args, int);
	attr = va_arg(args, const union bpf_attr *);
	va_end(args);
	if (number == SYS_bpf && what == BPF_LINK_DETACH)
		detached = attr->link_detach.link_fd;
	return 0;
}

/*
 * The program is detached at the end, though a process that was forked may have its file, too; not
 * by that process.
 */
static void test_detached(void)
{
	for (unsigned forked = 0; forked < 2; forked++) {
		struct xdp_socket xdp = {.link = eventfd(0, EFD_CLOEXEC),
					 .pid = forked == 0 ? getpid() : getppid()};
		int link = xdp.link;

		lane = (struct packet_lane){
			.fd = eventfd(0, EFD_CLOEXEC), .ops = &xdp_rings, .xdp = &xdp};
		detached = 0;
		packet_lane_close(&lane);
		CU_ASSERT_EQUAL(detached, forked == 0 ? (uint32_t)link : 0);
		CU_ASSERT(fcntl(link, F_GETFD) < 0);
		CU_ASSERT_EQUAL(xdp.link, -1);
	}
}

static CU_TestInfo tests[] = {
	{"a frame in one chunk lies there, aligned", test_one},
	{"a frame in several chunks is joined", test_joined},
	{"chunks that cannot be", test_wrong},
	{"room for frames of several chunks", test_room},
	{"all frames leave that are sent together", test_batches},
	{"the program is detached at the end", test_detached},
	{"slots come back when all of their chunks have left", test_leaving},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("xdp", tests, argc, argv);
}
