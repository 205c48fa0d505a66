/* The program's own file: its variables and their addresses, and the code that refers to them. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/statics.h"
#include "os/os.h"

#define USERS_MAX 6u
#define REACH     4096u /* how far behind a variable's beginning code may refer to it */

struct symbols {
	const Elf64_Sym *first;
	size_t count;
	const char *names;
	size_t names_bytes;
};

/* -------------------------------------------------------------------------------- the segments */

static void segment_data(struct roami_image *image, const uint8_t *begin, const uint8_t *end,
			 const struct dl_phdr_info *info)
{
	image->data = begin;
	image->data_end = end;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) { /* its beginning is read-only by now */
		const Elf64_Phdr *head = &info->dlpi_phdr[i];

		if (head->p_type == PT_GNU_RELRO)
			image->data = image->base + head->p_vaddr + head->p_memsz;
	}
	if (image->data < begin || image->data > end)
		image->data = begin;
}

/* The first object is the program. */
static int segment_find(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct roami_image *image = arg;
	bool loaded = false;

	(void)bytes;
	image->base = (const uint8_t *)info->dlpi_addr; /* NOLINT: an address */
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *head = &info->dlpi_phdr[i];
		const uint8_t *begin = image->base + head->p_vaddr, *end = begin + head->p_memsz;

		loaded = loaded || head->p_type == PT_INTERP;
		if (head->p_type == PT_LOAD && (head->p_flags & PF_X) != 0) {
			image->text = begin;
			image->text_end = end;
		} else if (head->p_type == PT_LOAD && (head->p_flags & PF_W) != 0) {
			segment_data(image, begin, end, info);
		}
	}
	return loaded ? 1 : -1;
}

/* ------------------------------------------------------------------------------------- symbols */

static const void *file_range(const struct roami_image *image, uint64_t offset, uint64_t bytes)
{
	if (offset > image->file_bytes || bytes > image->file_bytes - offset)
		return NULL;
	return image->file + offset;
}

static bool symbols_find(const struct roami_image *image, struct symbols *symbols)
{
	const Elf64_Ehdr *head = file_range(image, 0, sizeof(*head));
	const Elf64_Shdr *sections;

	if (head == NULL || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
		return false;
	sections = file_range(image, head->e_shoff, (uint64_t)head->e_shnum * sizeof(*sections));
	for (unsigned i = 0; sections != NULL && i < head->e_shnum; i++) {
		const Elf64_Shdr *table = &sections[i], *names;

		if (table->sh_type != SHT_SYMTAB || table->sh_link >= head->e_shnum)
			continue;
		names = &sections[table->sh_link];
		symbols->first = file_range(image, table->sh_offset, table->sh_size);
		symbols->count = table->sh_size / sizeof(Elf64_Sym);
		symbols->names = file_range(image, names->sh_offset, names->sh_size);
		symbols->names_bytes = names->sh_size;
		return symbols->first != NULL && symbols->names != NULL && names->sh_size > 0 &&
		       symbols->names[names->sh_size - 1] == '\0';
	}
	return false;
}

static const char *symbol_name(const struct symbols *symbols, const Elf64_Sym *symbol)
{
	return symbol->st_name < symbols->names_bytes ? symbols->names + symbol->st_name : "";
}

/*
 * Whether libraries or the compiler keep this variable in the program: roam's own names begin with
 * roami_ where the program is linked with its static library; clang puts a function's name before.
 */
static bool symbol_foreign(const char *name)
{
	return name[0] == '\0' || strncmp(name, "__", 2) == 0 || strchr(name, '@') != NULL ||
	       strncmp(name, "roami_", 6) == 0 || strstr(name, ".roami_") != NULL ||
	       strcmp(name, "completed.0") == 0;
}

static void image_keep(struct roami_image *image, const struct symbols *symbols)
{
	for (size_t i = 0; i < symbols->count; i++) {
		const Elf64_Sym *symbol = &symbols->first[i];
		const uint8_t *at = image->base + symbol->st_value;
		const char *name = symbol_name(symbols, symbol);

		if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_size == 0 ||
		    at < image->data || at >= image->data_end ||
		    symbol->st_size > (size_t)(image->data_end - at) || symbol_foreign(name))
			continue;
		image->statics[image->count++] = (struct roami_static){at, symbol->st_size, name};
	}
}

const char *roami_image_read(struct roami_image *image)
{
	int fd = roami_os_fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
	struct symbols symbols;
	struct stat stat;
	void *map = MAP_FAILED;

	if (fd >= 0 && fstat(fd, &stat) == 0)
		map = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (map == MAP_FAILED)
		return "the program's file cannot be read";
	image->file = map;
	image->file_bytes = (size_t)stat.st_size;
	if (dl_iterate_phdr(segment_find, image) < 0)
		return "the program is linked statically: its variables are among the libraries'";
	if (!symbols_find(image, &symbols))
		return "the program has no symbols (link it without -s)";
	image->statics = calloc(symbols.count + 1, sizeof(*image->statics));
	if (image->statics == NULL)
		return "no memory";
	image_keep(image, &symbols);
	return NULL;
}

void roami_image_close(struct roami_image *image)
{
	if (image->file != NULL)
		munmap((void *)(uintptr_t)image->file, image->file_bytes);
	free(image->statics);
	*image = (struct roami_image){0};
}

/* --------------------------------------------------------------------------------------- users */

/*
 * The size of the operand behind a displacement at `at`; offsets count from the instruction's end.
 */
static unsigned code_operand(const uint8_t *at)
{
	uint8_t opcode = at[-2], field = at[-1] >> 3 & 7;
	bool wide = at[-3] != 0x66 && at[-4] != 0x66;

	if (at[-3] == 0x0f)
		return opcode == 0x70 || opcode == 0xc2 || opcode == 0xc4 || opcode == 0xc5 ||
		       opcode == 0xc6 || opcode == 0xa4 || opcode == 0xac || opcode == 0xba;
	if (opcode == 0x80 || opcode == 0x83 || opcode == 0xc0 || opcode == 0xc1 ||
	    opcode == 0xc6 || opcode == 0x6b || (opcode == 0xf6 && field < 2))
		return 1;
	if (opcode == 0x81 || opcode == 0xc7 || opcode == 0x69 || (opcode == 0xf7 && field < 2))
		return wide ? 4 : 2;
	return 0;
}

/* Whether the four bytes at `at` in the code refer to the variable. */
static bool code_refers(const struct roami_image *image, const uint8_t *at,
			const struct roami_static *variable)
{
	size_t reach = variable->bytes < REACH ? variable->bytes : REACH;
	uintptr_t begin = (uintptr_t)variable->at;
	int32_t value;

	memcpy(&value, at, sizeof(value));
	/*
	 * The value is relative to the next instruction, or absolute in programs at fixed
	 * addresses.
	 */
	if (at - image->text >= 4 && (at[-1] & 0xc7) == 0x05 &&
	    (uintptr_t)at + 4 + code_operand(at) + (uintptr_t)(intptr_t)value - begin < reach)
		return true;
	return value > 0 && (uintptr_t)value - begin < reach;
}

static const char *code_function(const struct roami_image *image, const struct symbols *symbols,
				 const uint8_t *at)
{
	uint64_t address = (uint64_t)(at - image->base);

	for (size_t i = 0; i < symbols->count; i++) {
		const Elf64_Sym *symbol = &symbols->first[i];

		if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && address >= symbol->st_value &&
		    address - symbol->st_value < symbol->st_size)
			return symbol_name(symbols, symbol);
	}
	return NULL;
}

void roami_image_users(const struct roami_image *image, const struct roami_static *variable,
		       char *text, size_t bytes)
{
	const char *users[USERS_MAX], *user;
	struct symbols symbols;
	unsigned count = 0, known;
	size_t used = 0;

	if (!symbols_find(image, &symbols))
		return;
	for (const uint8_t *at = image->text; at + 4 <= image->text_end; at++) {
		if (count == USERS_MAX || !code_refers(image, at, variable))
			continue;
		user = code_function(image, &symbols, at);
		for (known = 0; known < count && user != NULL && strcmp(users[known], user) != 0;)
			known++;
		if (user != NULL && known == count)
			users[count++] = user;
	}
	snprintf(text, bytes, "no function that was found");
	for (unsigned i = 0; i < count && used < bytes; i++)
		used += (size_t)snprintf(text + used, bytes - used, "%s%s", i > 0 ? ", " : "",
					 i == USERS_MAX - 1 ? "others" : users[i]);
}
