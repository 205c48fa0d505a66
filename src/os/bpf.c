#include "os/bpf.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

static int bpf(int what, union bpf_attr *attr)
{
	return roami_os_fd((int)syscall(SYS_bpf, what, attr, sizeof(*attr)));
}

void roami_bpf_add(struct roami_bpf *program, struct bpf_insn line)
{
	if (program->count < ROAMI_BPF_LINES)
		program->lines[program->count] = line;
	program->count++; /* of one that is too long the system call complains */
}

void roami_bpf_jump(struct roami_bpf *program, struct bpf_insn line, unsigned label)
{
	if (program->count < ROAMI_BPF_LINES)
		program->goes[program->count] = (uint8_t)(label + 1);
	roami_bpf_add(program, line);
}

void roami_bpf_label(struct roami_bpf *program, unsigned label)
{
	program->at[label] = program->count;
}

void roami_bpf_map(struct roami_bpf *program, unsigned to, int map, bool entry)
{
	struct bpf_insn line = {.code = BPF_LD | BPF_DW | BPF_IMM, .imm = map};

	line.dst_reg = to & 15u;
	line.src_reg = entry ? BPF_PSEUDO_MAP_VALUE : BPF_PSEUDO_MAP_FD;
	roami_bpf_add(program, line);
	/* The address is in two lines. */
	roami_bpf_add(program, BPF_LINE(0, 0, 0, 0, 0));
}

void roami_bpf_swap(struct roami_bpf *program, unsigned frame, unsigned char size, int one,
		    int other)
{
	roami_bpf_add(program, BPF_LOAD(size, 1, frame & 15u, one));
	roami_bpf_add(program, BPF_LOAD(size, 2, frame & 15u, other));
	roami_bpf_add(program, BPF_STORE(size, frame & 15u, other, 1));
	roami_bpf_add(program, BPF_STORE(size, frame & 15u, one, 2));
}

int roami_bpf_load(struct roami_bpf *program, unsigned type, unsigned attach, unsigned flags)
{
	union bpf_attr attr;

	if (program->count > ROAMI_BPF_LINES) {
		errno = E2BIG;
		return -1;
	}
	for (unsigned i = 0; i < program->count; i++)
		if (program->goes[i] != 0)
			program->lines[i].off =
				(int16_t)(program->at[program->goes[i] - 1] - i - 1);
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = type;
	attr.expected_attach_type = attach;
	attr.insns = (uintptr_t)program->lines;
	attr.insn_cnt = program->count;
	attr.license = (uintptr_t)"BSD";
	attr.prog_flags = flags;
	memcpy(attr.prog_name, "roam", sizeof("roam"));
	return bpf(BPF_PROG_LOAD, &attr);
}

int roami_bpf_make_map(unsigned type, unsigned value_bytes, unsigned entries, unsigned flags)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = type;
	attr.key_size = sizeof(uint32_t);
	attr.value_size = value_bytes;
	attr.max_entries = entries;
	attr.map_flags = flags;
	return bpf(BPF_MAP_CREATE, &attr);
}

bool roami_bpf_put(int map, uint32_t key, const void *value)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)map;
	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)value;
	return syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attr, sizeof(attr)) == 0;
}

int roami_bpf_attach(int program, int interface, unsigned attach, unsigned flags)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.link_create.prog_fd = (uint32_t)program;
	attr.link_create.target_ifindex = (uint32_t)interface;
	attr.link_create.attach_type = attach;
	attr.link_create.flags = flags;
	return bpf(BPF_LINK_CREATE, &attr);
}

void roami_bpf_close(int link, bool detach)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.link_detach.link_fd = (uint32_t)link;
	if (detach)
		syscall(SYS_bpf, BPF_LINK_DETACH, &attr, sizeof(attr));
	close(link);
}
