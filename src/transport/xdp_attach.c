/* The program at an interface, in the kernel's instructions, as no compiler for them is needed. */
#include <linux/if_link.h>
#include <string.h>

#include "os/bpf.h"
#include "xdp.h"

#define ENDPOINT_AT (PACKET_ETHERNET + offsetof(struct packet_head, endpoint))
#define TYPE_AT     (2 * PACKET_MAC)

enum label { PASS };

int xdp_map_make(unsigned queue)
{
	return roami_bpf_make_map(BPF_MAP_TYPE_XSKMAP, sizeof(uint32_t), queue + 1, 0);
}

bool xdp_map_put(int map, unsigned queue, int socket)
{
	uint32_t value = (uint32_t)socket;

	return roami_bpf_put(map, queue, &value);
}

int xdp_program_make(int map, uint16_t type, uint32_t endpoint, unsigned longest)
{
	struct roami_bpf program = {.count = 0};

	roami_bpf_add(&program, BPF_LOAD(BPF_W, 2, 1, offsetof(struct xdp_md, data)));
	roami_bpf_add(&program, BPF_LOAD(BPF_W, 3, 1, offsetof(struct xdp_md, data_end)));
	roami_bpf_add(&program, BPF_COPY(4, 2));
	roami_bpf_add(&program, BPF_BY(BPF_ADD, 4, ENDPOINT_AT + sizeof(endpoint)));
	roami_bpf_jump(&program, BPF_IF(BPF_JGT, 4, 3), PASS); /* too short */
	roami_bpf_add(&program, BPF_LOAD(BPF_H, 5, 2, TYPE_AT));
	roami_bpf_jump(&program, BPF_IF_32(BPF_JNE, 5, type), PASS);
	roami_bpf_add(&program, BPF_LOAD(BPF_W, 5, 2, ENDPOINT_AT));
	roami_bpf_jump(&program, BPF_IF_32(BPF_JNE, 5, (int)endpoint), PASS);
	if (longest > 0) {
		roami_bpf_add(&program, BPF_BY(BPF_ADD, 2, (int)longest + 1));
		roami_bpf_jump(&program, BPF_IF(BPF_JLE, 2, 3), PASS); /* too long */
	}
	roami_bpf_add(&program, BPF_LOAD(BPF_W, 2, 1, offsetof(struct xdp_md, rx_queue_index)));
	roami_bpf_map(&program, 1, map, false);
	roami_bpf_add(&program, BPF_SET(3, XDP_PASS)); /* where the queue has no socket */
	roami_bpf_add(&program, BPF_HELP(BPF_FUNC_redirect_map));
	roami_bpf_add(&program, BPF_RETURN);
	roami_bpf_label(&program, PASS);
	roami_bpf_add(&program, BPF_SET(0, XDP_PASS));
	roami_bpf_add(&program, BPF_RETURN);
	return roami_bpf_load(&program, BPF_PROG_TYPE_XDP, BPF_XDP,
			      longest > 0 ? 0 : ROAMI_BPF_XDP_FRAGS);
}

int xdp_program_attach(int program, int interface, enum xdp_mode mode)
{
	return roami_bpf_attach(program, interface, BPF_XDP,
				mode == XDP_GENERIC ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);
}
