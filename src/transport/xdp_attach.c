/* The program at an interface, in the kernel's instructions, as no compiler for them is needed. */
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"
#include "xdp.h"

/* Linux 5.18 */
#ifndef BPF_F_XDP_HAS_FRAGS
#define BPF_F_XDP_HAS_FRAGS (1U << 5)
#endif

#define ENDPOINT_AT (PACKET_ETHERNET + offsetof(struct packet_head, endpoint))
#define TYPE_AT     (2 * PACKET_MAC)

/* One line of a program. */
#define LINE(what, to, from, away, number) \
	((struct bpf_insn){.code = (what), .dst_reg = (to), .src_reg = (from), .off = (away), \
			   .imm = (number)})
#define LOAD(size, to, from, away) LINE(BPF_LDX | BPF_MEM | (size), to, from, (int16_t)(away), 0)
#define SET(to, number)            LINE(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, number)
#define COPY(to, from)             LINE(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0)
#define ADD(to, number)            LINE(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, number)
#define UNLESS(to, number, away)   LINE(BPF_JMP32 | BPF_JNE | BPF_K, to, 0, away, number)
#define IF_ABOVE(to, from, away)   LINE(BPF_JMP | BPF_JGT | BPF_X, to, from, away, 0)
#define IF_UP_TO(to, from, away)   LINE(BPF_JMP | BPF_JLE | BPF_X, to, from, away, 0)
#define CALL(what)                 LINE(BPF_JMP | BPF_CALL, 0, 0, 0, what)
#define END                        LINE(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

static int bpf(int what, union bpf_attr *attr)
{
	return roami_os_fd((int)syscall(SYS_bpf, what, attr, sizeof(*attr)));
}

int xdp_map_make(unsigned queue)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_XSKMAP;
	attr.key_size = attr.value_size = sizeof(uint32_t);
	attr.max_entries = queue + 1;
	return bpf(BPF_MAP_CREATE, &attr);
}

bool xdp_map_put(int map, unsigned queue, int socket)
{
	uint32_t key = queue, value = (uint32_t)socket;
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)map;
	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)&value;
	return syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attr, sizeof(attr)) == 0;
}

int xdp_program_make(int map, uint16_t type, uint32_t endpoint, unsigned longest)
{
	/* Without a bound, a jump that is never taken: no frame begins that far behind. */
	int far = longest > 0 ? (int)longest + 1 : INT16_MAX;
	const struct bpf_insn lines[] = {
		LOAD(BPF_W, BPF_REG_2, BPF_REG_1, offsetof(struct xdp_md, data)),
		LOAD(BPF_W, BPF_REG_3, BPF_REG_1, offsetof(struct xdp_md, data_end)),
		COPY(BPF_REG_4, BPF_REG_2),
		ADD(BPF_REG_4, ENDPOINT_AT + sizeof(endpoint)),
		IF_ABOVE(BPF_REG_4, BPF_REG_3, 12), /* too short */
		LOAD(BPF_H, BPF_REG_5, BPF_REG_2, TYPE_AT),
		UNLESS(BPF_REG_5, type, 10),
		LOAD(BPF_W, BPF_REG_5, BPF_REG_2, ENDPOINT_AT),
		UNLESS(BPF_REG_5, (int)endpoint, 8),
		ADD(BPF_REG_2, far),
		IF_UP_TO(BPF_REG_2, BPF_REG_3, 6), /* too long */
		LOAD(BPF_W, BPF_REG_2, BPF_REG_1, offsetof(struct xdp_md, rx_queue_index)),
		LINE(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map),
		LINE(0, 0, 0, 0, 0), /* the address of the map is in two lines */
		SET(BPF_REG_3, XDP_PASS), /* where the queue has no socket */
		CALL(BPF_FUNC_redirect_map),
		END,
		SET(BPF_REG_0, XDP_PASS),
		END,
	};
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_XDP;
	attr.expected_attach_type = BPF_XDP;
	attr.insns = (uintptr_t)lines;
	attr.insn_cnt = sizeof(lines) / sizeof(lines[0]);
	attr.license = (uintptr_t)"BSD";
	attr.prog_flags = longest > 0 ? 0 : BPF_F_XDP_HAS_FRAGS;
	memcpy(attr.prog_name, "roam", sizeof("roam"));
	return bpf(BPF_PROG_LOAD, &attr);
}

int xdp_program_attach(int program, int interface, enum xdp_mode mode)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.link_create.prog_fd = (uint32_t)program;
	attr.link_create.target_ifindex = (uint32_t)interface;
	attr.link_create.attach_type = BPF_XDP;
	attr.link_create.flags = mode == XDP_GENERIC ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
	return bpf(BPF_LINK_CREATE, &attr);
}

void xdp_program_close(int link, bool detach)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.link_detach.link_fd = (uint32_t)link;
	if (detach)
		syscall(SYS_bpf, BPF_LINK_DETACH, &attr, sizeof(attr));
	close(link);
}
