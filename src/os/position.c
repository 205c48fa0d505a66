/* Addresses in words that nm, addr2line and gdb take. */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "os/os.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

/* The file that is loaded there, and where in it; false: none is. */
static bool position_find(const void *address, Dl_info *info, uintptr_t *offset_p)
{
	struct link_map *map = NULL;

	if (dladdr1(address, info, (void **)&map, RTLD_DL_LINKMAP) == 0 ||
	    info->dli_fname == NULL || map == NULL)
		return false;
	*offset_p = (uintptr_t)address - map->l_addr;
	return true;
}

/* What is exported under a name: "name+0x10", else "". */
static void position_symbol(const void *address, const Dl_info *info, char *text, size_t bytes)
{
	size_t offset = (size_t)((uintptr_t)address - (uintptr_t)info->dli_saddr);

	text[0] = '\0';
	if (info->dli_sname != NULL && offset != 0)
		snprintf(text, bytes, "%.60s+%#zx", info->dli_sname, offset);
	else if (info->dli_sname != NULL)
		snprintf(text, bytes, "%.60s", info->dli_sname);
}

void roami_os_position(const void *code, char text[ROAMI_OS_POSITION_BYTES])
{
	uintptr_t offset;
	char symbol[80];
	Dl_info info;

	if (!position_find(code, &info, &offset)) {
		snprintf(text, ROAMI_OS_POSITION_BYTES, "%p", code);
		return;
	}
	position_symbol(code, &info, symbol, sizeof(symbol));
	snprintf(text, ROAMI_OS_POSITION_BYTES, "%.40s+%#zx%s%s%s", base_name(info.dli_fname),
		 (size_t)offset, symbol[0] != '\0' ? " (" : "", symbol,
		 symbol[0] != '\0' ? ")" : "");
}

void roami_os_object(const void *object, char text[ROAMI_OS_POSITION_BYTES])
{
	uintptr_t offset;
	char symbol[80];
	Dl_info info;

	snprintf(text, ROAMI_OS_POSITION_BYTES, "%p", object);
	if (!position_find(object, &info, &offset))
		return;
	position_symbol(object, &info, symbol, sizeof(symbol));
	if (symbol[0] != '\0')
		snprintf(text, ROAMI_OS_POSITION_BYTES, "%p (%s)", object, symbol);
	else
		snprintf(text, ROAMI_OS_POSITION_BYTES, "%p (%.40s+%#zx)", object,
			 base_name(info.dli_fname), (size_t)offset);
}
