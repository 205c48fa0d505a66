#include "job/local.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void roami_boot_layout(struct roami_layout *layout, const struct roami_options *options)
{
	uint64_t bytes = options->heap / ROAMI_REGION_SHARE, part = roami_heap_part(bytes);

	roami_layout_make_regions(layout, options->heap, (unsigned)options->nodes_max,
				  roami_stretch_count, (bytes + part - 1) / part * part,
				  roami_heap_part(options->heap));
}

void roami_boot_name(uint8_t name[16], const void *bytes, size_t count)
{
	crypto_generichash(name, 16, bytes, count, (const uint8_t *)"roam job", 8);
}

int roami_boot_segment(const struct roami_layout *layout, unsigned node)
{
	char name[32];
	struct roami_ctl *ctl;
	bool keyed = true;
	int fd, saved;

	snprintf(name, sizeof(name), "roam-node-%u", node);
	fd = roami_os_memfd(name, layout->total);
	if (fd < 0)
		return -1;
	ctl = mmap(NULL, layout->rings, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ctl == MAP_FAILED) {
		saved = errno;
		close(fd);
		errno = saved;
		return -1;
	}
	ctl->magic = ROAMI_SEGMENT_MAGIC;
	ctl->heap_bytes = layout->heap_bytes;
	ctl->nodes_max = layout->nodes_max;
	/* This counts the thread that starts the node, before any barrier could look. */
	atomic_store(&ctl->threads, 1);
	/*
	 * Node 0's pool holds the words of the parts; the other nodes' only say how the heap is
	 * cut.
	 */
	for (unsigned region = 0; region <= layout->regions; region++) {
		struct roami_heap_parts *pool = (void *)((uint8_t *)ctl + layout->pool);

		roami_heap_parts_init(&pool[region], roami_layout_bytes(layout, region));
	}
	if (node == 0)
		keyed = roami_os_secret(ctl->key, sizeof(ctl->key));
	munmap(ctl, layout->rings);
	if (!keyed) {
		close(fd);
		errno = ENOSYS;
		return -1;
	}
	return fd;
}

bool roami_boot_fits(const struct roami_layout *layout, int fd)
{
	const struct roami_ctl *ctl;
	struct stat stat;
	bool fits;

	if (fstat(fd, &stat) != 0 || stat.st_size < (off_t)sizeof(*ctl))
		return false;
	ctl = mmap(NULL, sizeof(*ctl), PROT_READ, MAP_SHARED, fd, 0);
	if (ctl == MAP_FAILED)
		return false;
	fits = ctl->magic == ROAMI_SEGMENT_MAGIC && ctl->heap_bytes == layout->heap_bytes &&
	       ctl->nodes_max == layout->nodes_max;
	munmap((void *)(uintptr_t)ctl, sizeof(*ctl));
	return fits;
}

/* Room for the program, libraries, stacks, arenas and tables of objects. */
#define BASE_BYTES ((size_t)512 << 20)

size_t roami_boot_needs(const struct roami_layout *layout, unsigned nodes)
{
	/* Segments and the app view; with several nodes also twins and the data of each page. */
	return layout->total * nodes + layout->heap_bytes * (nodes > 1 ? 5 : 2) / 2 + BASE_BYTES;
}

bool roami_boot_space(const struct roami_layout *layout, unsigned nodes, size_t mapped)
{
	size_t bytes = roami_boot_needs(layout, nodes);
	void *space = mmap(NULL, bytes - mapped, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (space == MAP_FAILED) {
		fprintf(stderr,
			"roam: cannot map the %zu MiB that each of %u nodes takes: %s (limit of "
			"address space, ulimit -v, or ROAM_HEAP too large)\n",
			bytes >> 20, nodes, strerror(errno));
		return false;
	}
	munmap(space, bytes - mapped);
	return true;
}

const char *roami_boot_hint(int error)
{
	if (error == EMFILE)
		return " (raise the limit of open files, ulimit -n)";
	return error == EFBIG ? " (raise the limit of file sizes, ulimit -f)" : "";
}

enum roam_err roami_boot_memory(const struct roami_options *options, uint64_t nodes, int *fds)
{
	struct roami_layout layout;
	unsigned made = 0;

	roami_boot_layout(&layout, options);
	if (!roami_boot_space(&layout, (unsigned)__builtin_popcountll(nodes), 0))
		return ROAM_ENOMEM;
	for (; nodes != 0; nodes &= nodes - 1) {
		unsigned node = (unsigned)__builtin_ctzll(nodes);

		fds[made] = roami_boot_segment(&layout, node);
		if (fds[made++] >= 0)
			continue;
		fprintf(stderr, "roam: cannot make the shared memory of node %u: %s%s\n", node,
			strerror(errno), roami_boot_hint(errno));
		while (--made > 0)
			close(fds[made - 1]);
		return ROAM_ESYSTEM;
	}
	return ROAM_OK;
}
