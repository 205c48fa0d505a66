/*
 * The packet transport's share that needs no kernel: peers between which and this node a switch
 * drops long frames are named to the user, every one of them; and which datagrams leave past the
 * ring.
 */
#include <errno.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "packet_bench.h"
#include "unit.h"

#define ROUNDS 12u

extern const struct roam_transport roami_transport_packet;

static uint64_t clock_ns;
static unsigned reported[BENCH_NODES]; /* how often the user was told of each peer */

static uint64_t clock_now(void *arg)
{
	(void)arg;
	return clock_ns;
}

static void note(void *arg, const char *line)
{
	unsigned peer = BENCH_NODES;

	(void)arg;
	CU_ASSERT_FATAL(sscanf(line, "packet: frames of %*u bytes do not arrive at node %u",
			       &peer) == 1 && peer < BENCH_NODES);
	reported[peer]++;
}

static bool take_nothing(void *arg, unsigned from, const void *data, size_t bytes)
{
	(void)arg, (void)from, (void)data, (void)bytes;
	CU_FAIL("nothing was sent here");
	return true;
}

/* The kernel has sent all frames. */
static void slots_free(struct packet_lane *lane)
{
	for (unsigned i = 0; i < BENCH_SLOTS; i++) {
		struct tpacket2_hdr *slot = (void *)(lane->out.base + (size_t)BENCH_SLOT * i);

		slot->tp_status = TP_STATUS_AVAILABLE;
	}
}

/* Sends a long datagram to a peer that was heard, but has never answered a probe. */
static void send_long(struct packet_bench *bench, unsigned to)
{
	static uint8_t bytes[4000];
	struct iovec part = {bytes, sizeof(bytes)};

	atomic_store(&bench->packet.peers[to].heard, 1);
	CU_ASSERT(roami_transport_packet.send(&bench->packet, to, &part, 1) == ROAM_OK);
	slots_free(&bench->packet.lanes[PACKET_LINK]);
}

static void test_narrow(void)
{
	struct packet_bench *bench = calloc(1, sizeof(*bench));
	int bad = -1;

	CU_ASSERT_FATAL(bench != NULL);
	packet_bench_open(bench, PACKET_LINK);
	bench->packet.params.now = clock_now;
	bench->packet.params.notice = note;
	for (unsigned i = 0; i < ROUNDS; i++) {
		clock_ns += 2000000000u; /* a probe is due */
		send_long(bench, 0);
		send_long(bench, 2);
		roami_transport_packet.poll(&bench->packet, take_nothing, NULL, 16, &bad);
	}
	CU_ASSERT_EQUAL(reported[0], 1);
	CU_ASSERT_EQUAL(reported[BENCH_ME], 0);
	CU_ASSERT_EQUAL(reported[2], 1);
	packet_bench_close(bench);
	free(bench);
}

/* How many slots of the ring wait to leave. */
static unsigned slots_used(const struct packet_lane *lane)
{
	unsigned used = 0;

	for (unsigned i = 0; i < BENCH_SLOTS; i++)
		used += ((const struct tpacket2_hdr *)(const void *)(lane->out.base +
								      (size_t)BENCH_SLOT * i))
				->tp_status == TP_STATUS_SEND_REQUEST;
	return used;
}

static bool full; /* the queue of the interface */

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
	if (!full)
		return sendto(fd, data, bytes, flags, NULL, 0);
	errno = ENOBUFS;
	return -1;
}

static bool send_two(struct packet_bench *bench, size_t first, size_t second)
{
	static uint8_t bytes[4000];
	struct iovec parts[2] = {{bytes, first}, {bytes + first, second}};

	for (size_t i = 0; i < first + second; i++)
		bytes[i] = (uint8_t)(i * 7);
	return roami_transport_packet.send(&bench->packet, 0, parts, 2) == ROAM_OK;
}

/* The frame that left at the other end of `alone`. */
static void must_arrive(int end, size_t bytes)
{
	static uint8_t frame[8000];
	struct packet_head head;
	size_t front = PACKET_ETHERNET + sizeof(head);

	CU_ASSERT_EQUAL(recv(end, frame, sizeof(frame), MSG_DONTWAIT), (ssize_t)(front + bytes));
	memcpy(&head, frame + PACKET_ETHERNET, sizeof(head));
	CU_ASSERT_EQUAL(head.kind, PACKET_WHOLE);
	CU_ASSERT_EQUAL(head.bytes, bytes);
	CU_ASSERT_EQUAL(head.to, 0);
	CU_ASSERT_EQUAL(head.from, BENCH_ME);
	CU_ASSERT_EQUAL(head.mark, BENCH_MARK);
	for (size_t i = 0; i < bytes; i++)
		if (frame[front + i] != (uint8_t)(i * 7)) {
			CU_FAIL("a byte is not in its place");
			break;
		}
}

/*
 * A datagram alone leaves past the ring; by the ring, if it needs several frames, if there is no
 * room, or if others wait there.  Where the interface is gone it is lost.
 */
static void test_alone(void)
{
	struct packet_bench *bench = calloc(1, sizeof(*bench));
	struct packet_lane *lane = &bench->packet.lanes[PACKET_LINK];
	int ends[2], small = 4096;

	packet_bench_open(bench, PACKET_LINK);
	bench->packet.params.now = clock_now;
	CU_ASSERT_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) == 0);
	lane->alone = ends[0];
	CU_ASSERT(send_two(bench, 16, 100));
	must_arrive(ends[1], 116);
	CU_ASSERT(send_two(bench, 16, 1000));
	must_arrive(ends[1], 1016);
	CU_ASSERT_EQUAL(slots_used(lane), 0);
	CU_ASSERT(send_two(bench, 16, 2000)); /* two pieces, behind a probe */
	CU_ASSERT_EQUAL(slots_used(lane), 3);
	atomic_store(&bench->packet.peers[0].proven, 1);
	CU_ASSERT(send_two(bench, 16, 2000));
	must_arrive(ends[1], 2016);
	slots_free(lane);
	atomic_store(&lane->waits, 1);
	CU_ASSERT(send_two(bench, 16, 100));
	CU_ASSERT_EQUAL(slots_used(lane), 1);
	atomic_store(&lane->waits, 0);
	full = true;
	CU_ASSERT(send_two(bench, 16, 100));
	CU_ASSERT_EQUAL(slots_used(lane), 2);
	full = false;
	slots_free(lane);
	atomic_store(&lane->waits, 0);
	CU_ASSERT(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
	for (unsigned i = 0; i < 100 && slots_used(lane) < 3; i++)
		CU_ASSERT(send_two(bench, 16, 1000));
	CU_ASSERT_EQUAL(slots_used(lane), 3);
	close(ends[1]);
	CU_ASSERT(send_two(bench, 16, 100));
	CU_ASSERT_EQUAL(slots_used(lane), 3);
	close(ends[0]);
	packet_bench_close(bench);
	free(bench);
}

static CU_TestInfo tests[] = {
	{"the user is told of two peers at once", test_narrow},
	{"a datagram alone leaves past the ring", test_alone},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("packet", tests, argc, argv);
}
