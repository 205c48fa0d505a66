/*
 * Memory as x86-TSO has it.  mem[] is what every process sees; each process owns a FIFO of stores not
 * yet there, which a flusher empties at any time.  A process reads its own newest store first, a
 * fence waits for its FIFO to be empty, and an atomic read-modify-write is a fence too.
 *
 * The including model defines CELLS and PROCS first; `p` is the number of the calling process.
 */
#define SB_MAX 2

typedef store_buffer {
	byte n;
	byte addr[SB_MAX];
	byte value[SB_MAX]
};

byte mem[CELLS];
store_buffer sb[PROCS];

inline store(p, a, v) {
	d_step {
		sb[p].n < SB_MAX;
		sb[p].addr[sb[p].n] = a;
		sb[p].value[sb[p].n] = v;
		sb[p].n++
	}
}

inline load(p, a, out) {
	d_step {
		if
		:: sb[p].n == 2 && sb[p].addr[1] == a -> out = sb[p].value[1]
		:: !(sb[p].n == 2 && sb[p].addr[1] == a) && sb[p].n > 0 && sb[p].addr[0] == a ->
			out = sb[p].value[0]
		:: else -> out = mem[a]
		fi
	}
}

inline fence(p) {
	sb[p].n == 0
}

inline fetch_add(p, a, v) {
	d_step {
		sb[p].n == 0;
		mem[a] = mem[a] + v
	}
}

proctype flusher(byte p) {
end:	do
	:: d_step {
		sb[p].n > 0 ->
		mem[sb[p].addr[0]] = sb[p].value[0];
		sb[p].addr[0] = sb[p].addr[1];
		sb[p].value[0] = sb[p].value[1];
		sb[p].addr[1] = 0;
		sb[p].value[1] = 0;
		sb[p].n--
	}
	od
}
