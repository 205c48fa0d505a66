/*
 * Programs that the kernel runs for frames: written in its own instructions, as no compiler for
 * them is needed, checked by its verifier, and attached by links, which end with the processes that
 * have them open.
 */
#ifndef ROAMI_BPF_H
#define ROAMI_BPF_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROAMI_BPF_LINES  512u
#define ROAMI_BPF_LABELS 8u

#define ROAMI_BPF_TCX_INGRESS 46u /* attach type BPF_TCX_INGRESS of Linux 6.6 */
#define ROAMI_BPF_TCX_NEXT    (-1) /* verdict TCX_NEXT: the next program looks at the frame */
#define ROAMI_BPF_XDP_FRAGS   (1u << 5) /* BPF_F_XDP_HAS_FRAGS of Linux 5.18 */

/* One instruction, by the kernel's names. */
#define BPF_LINE(what, to, from, away, number) \
	((struct bpf_insn){.code = (what), .dst_reg = (to), .src_reg = (from), .off = (away), \
			   .imm = (number)})
#define BPF_LOAD(size, to, from, away) \
	BPF_LINE(BPF_LDX | BPF_MEM | (size), to, from, (int16_t)(away), 0)
#define BPF_STORE(size, to, away, from) \
	BPF_LINE(BPF_STX | BPF_MEM | (size), to, from, (int16_t)(away), 0)
#define BPF_SET(to, number)      BPF_LINE(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, number)
#define BPF_COPY(to, from)       BPF_LINE(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0)
#define BPF_BY(what, to, number) BPF_LINE(BPF_ALU64 | (what) | BPF_K, to, 0, 0, number)
#define BPF_WITH(what, to, from) BPF_LINE(BPF_ALU64 | (what) | BPF_X, to, from, 0, 0)
/* Jumps: of 64 bits and two registers, of 32 bits and a number, and always. */
#define BPF_IF(what, to, from)     BPF_LINE(BPF_JMP | (what) | BPF_X, to, from, 0, 0)
#define BPF_IF_32(what, to, number) BPF_LINE(BPF_JMP32 | (what) | BPF_K, to, 0, 0, number)
#define BPF_GO                     BPF_LINE(BPF_JMP | BPF_JA, 0, 0, 0, 0)
#define BPF_HELP(what)             BPF_LINE(BPF_JMP | BPF_CALL, 0, 0, 0, what)
#define BPF_RETURN                    BPF_LINE(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

/* A program that is being written; begin with zeros. */
struct roami_bpf {
	struct bpf_insn lines[ROAMI_BPF_LINES];
	uint8_t goes[ROAMI_BPF_LINES]; /* the label that a line jumps to, + 1; 0: none */
	unsigned at[ROAMI_BPF_LABELS]; /* the line after a label */
	unsigned count;
};

void roami_bpf_add(struct roami_bpf *program, struct bpf_insn line);
/* A jump, forwards, to a label that is put somewhere below. */
void roami_bpf_jump(struct roami_bpf *program, struct bpf_insn line, unsigned label);
void roami_bpf_label(struct roami_bpf *program, unsigned label);
/* The address of a map, or of the bytes of the one entry of a map that is an array. */
void roami_bpf_map(struct roami_bpf *program, unsigned to, int map, bool entry);
/* Exchanges two fields of that size, of the frame at which a register points; uses 1 and 2. */
void roami_bpf_swap(struct roami_bpf *program, unsigned frame, unsigned char size, int one,
		    int other);

/* The system calls: a file, closed by exec; -1 with errno. */
int roami_bpf_load(struct roami_bpf *program, unsigned type, unsigned attach, unsigned flags);
int roami_bpf_make_map(unsigned type, unsigned value_bytes, unsigned entries, unsigned flags);
bool roami_bpf_put(int map, uint32_t key, const void *value);
int roami_bpf_attach(int program, int interface, unsigned attach, unsigned flags);
/* Closes a link; `detach`: the program goes even if a process that was forked has it open. */
void roami_bpf_close(int link, bool detach);

#endif
