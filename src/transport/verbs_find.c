/* Which card a node uses, whether it can, and the memory that it shares with the card. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "os/os.h"
#include "verbs.h"

#define MANAGER        "/dev/infiniband/rdma_cm"
#define BUFFERS_MOST   ((uint64_t)64 << 20)
#define PORTS          8u
#define GIDS           256u
#define NAMED(options) ((options) != NULL ? (options)[0].text : "auto")

/* What a search wants of a device, and what it has found so far. */
struct find {
	char name[ROAM_TRANSPORT_TEXT]; /* wanted; "": any */
	uint32_t wanted;                /* an address, host byte order; 0: any */
	uint32_t address;               /* found */
	char *why;
	size_t why_bytes;
};

/* ---------------------------------------------------------------------------------------- ports */

static uint32_t find_mapped(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	uint32_t address;

	if (memcmp(gid->raw, mapped, sizeof(mapped)) != 0)
		return 0;
	memcpy(&address, gid->raw + sizeof(mapped), sizeof(address));
	return ntohl(address);
}

/* The address of a port that the search wants; 0: none. */
static uint32_t find_gid(const struct find *find, struct ibv_context *device, unsigned port,
			 unsigned gids)
{
	for (unsigned i = 0; i < gids && i < GIDS; i++) {
		union ibv_gid gid;
		uint32_t address;

		if (ibv_query_gid(device, (uint8_t)port, (int)i, &gid) != 0)
			continue;
		address = find_mapped(&gid);
		if (address != 0 && (find->wanted == 0 || find->wanted == address))
			return address;
	}
	return 0;
}

static void find_port(struct find *find, struct ibv_context *device, const char *name,
		      unsigned port)
{
	struct ibv_port_attr attr;

	if (ibv_query_port(device, (uint8_t)port, &attr) != 0) {
		snprintf(find->why, find->why_bytes, "%s: port %u cannot be asked: %s", name, port,
			 strerror(errno));
	} else if (attr.state != IBV_PORT_ACTIVE) {
		snprintf(find->why, find->why_bytes, "%s: port %u is %s", name, port,
			 attr.state == IBV_PORT_DOWN ? "down" : "not active");
	} else if (attr.link_layer != IBV_LINK_LAYER_ETHERNET ||
		   device->device->transport_type == IBV_TRANSPORT_IWARP) {
		/*
		 * Such a port has no usable GID; the connection manager will find the device by the
		 * address.
		 */
		find->address = find->wanted;
		if (find->address == 0)
			snprintf(find->why, find->why_bytes,
				 "%s: ROAM_VERBS_DEVICE must be the IPv4 address of its interface",
				 name);
	} else {
		find->address = find_gid(find, device, port, (unsigned)attr.gid_tbl_len);
		if (find->address == 0 && find->wanted == 0)
			snprintf(
				find->why, find->why_bytes,
				"%s: no GID of port %u is an IPv4 address: its interface needs one",
				name, port);
	}
}

static void find_device(struct find *find, struct ibv_device *device)
{
	const char *name = ibv_get_device_name(device);
	struct ibv_device_attr attr;
	struct ibv_context *opened = ibv_open_device(device);

	if (opened == NULL) {
		snprintf(find->why, find->why_bytes, "%s cannot be opened: %s", name,
			 strerror(errno));
		return;
	}
	if (ibv_query_device(opened, &attr) != 0)
		attr.phys_port_cnt = 1;
	for (unsigned port = 1; port <= attr.phys_port_cnt && port <= PORTS && find->address == 0;
	     port++)
		find_port(find, opened, name, port);
	ibv_close_device(opened);
}

/* Finds an address on a device.  False: `why` says why there is none. */
static bool find_any(struct find *find)
{
	struct ibv_device **devices;
	bool seen = false;
	int count = 0;

	devices = ibv_get_device_list(&count);
	if (devices == NULL || count == 0)
		snprintf(find->why, find->why_bytes, "no RDMA device: /sys/class/infiniband is %s",
			 access("/sys/class/infiniband", F_OK) == 0 ? "empty" : "not there");
	for (int i = 0; devices != NULL && i < count && find->address == 0; i++) {
		if (find->name[0] != '\0' &&
		    strcmp(find->name, ibv_get_device_name(devices[i])) != 0)
			continue;
		seen = true;
		find_device(find, devices[i]);
	}
	if (count > 0 && !seen)
		snprintf(find->why, find->why_bytes, "no RDMA device is called %s", find->name);
	else if (seen && find->address == 0 && find->why[0] == '\0')
		snprintf(find->why, find->why_bytes, "no RDMA device has this address");
	if (devices != NULL)
		ibv_free_device_list(devices);
	return find->address != 0;
}

/* The entry of the option for a node, and what it names. */
static void find_wanted(struct find *find, const char *option, unsigned node)
{
	char list[ROAM_TRANSPORT_TEXT], *rest = list, *name = list;
	struct in_addr address;
	unsigned count = 1;

	snprintf(list, sizeof(list), "%s", option);
	for (const char *at = list; *at != '\0'; at++)
		count += *at == ',';
	for (unsigned i = 0; i <= node % count && rest != NULL; i++)
		name = strsep(&rest, ",");
	if (strcmp(name, "auto") == 0)
		return;
	if (inet_pton(AF_INET, name, &address) == 1)
		find->wanted = ntohl(address.s_addr);
	else
		snprintf(find->name, sizeof(find->name), "%s", name);
}

uint32_t verbs_address(const struct roam_transport_params *params, char *why, size_t why_bytes)
{
	struct find find = {.why = why, .why_bytes = why_bytes};

	find_wanted(&find, NAMED(params->options), params->node);
	if (find.name[0] == '\0' && find.wanted == 0)
		find.wanted = params->address;
	if (!find_any(&find) && find.wanted != 0 && find.wanted == params->address) {
		/* The other hosts are reached by another network: any card will do. */
		find.wanted = 0;
		why[0] = '\0';
		find_any(&find);
	}
	return find.address;
}

/*
 * Checks what a device alone does not show: the manager must connect, and memory must be lockable.
 */
bool verbs_probe(const struct roam_transport_value *options, char *why, size_t why_bytes)
{
	struct find find = {.why = why, .why_bytes = why_bytes};
	size_t least = 2 * (size_t)VERBS_BUFFERS_MIN * VERBS_BUFFER;
	struct rlimit limit;
	unsigned held;
	bool found;

	why[0] = '\0';
	find_wanted(&find, NAMED(options), 0);
	held = roami_os_fds_hold();
	found = find_any(&find);
	roami_os_fds_release(held);
	if (!found)
		return false;
	why[0] = '\0';
	if (access(MANAGER, R_OK | W_OK) != 0) {
		snprintf(why, why_bytes, "%s: %s%s", MANAGER, strerror(errno),
			 errno == ENOENT ? " (the module rdma_ucm)" : "");
		return false;
	}
	if (geteuid() != 0 && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < least) {
		snprintf(why, why_bytes,
			 "RLIMIT_MEMLOCK is %llu KiB, and two nodes need %zu (ulimit -l)",
			 (unsigned long long)limit.rlim_cur / 1024, least / 1024 + 1);
		return false;
	}
	return true;
}

/* --------------------------------------------------------------------------------------- memory */

static size_t memory_bytes(const struct verbs_state *verbs)
{
	return (size_t)verbs->peer_count * 2 * verbs->buffers * VERBS_BUFFER;
}

/* Says what was too small, and what errno the card returned. */
static enum roam_err memory_refused(const struct verbs_state *verbs)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
	int error = errno;

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur == RLIM_INFINITY)
		verbs_say(verbs, "%zu KiB cannot be registered with %s: %s",
			  memory_bytes(verbs) / 1024,
			  ibv_get_device_name(verbs->domain->context->device), strerror(error));
	else
		verbs_say(verbs,
			  "%zu KiB cannot be registered with %s: %s; RLIMIT_MEMLOCK is %llu KiB "
			  "(ulimit -l)",
			  memory_bytes(verbs) / 1024,
			  ibv_get_device_name(verbs->domain->context->device), strerror(error),
			  (unsigned long long)limit.rlim_cur / 1024);
	return ROAM_EUNSUPPORTED;
}

uint8_t *verbs_map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	roami_os_dontfork(at, bytes);
	roami_os_dontdump(at, bytes);
	return at;
}

/* As many buffers as the option and the system allow. */
static enum roam_err memory_register(struct verbs_state *verbs)
{
	uint64_t most = verbs->params.options != NULL ? verbs->params.options[1].number << 20 : 0;

	if (most == 0)
		most = BUFFERS_MOST;
	for (verbs->buffers = VERBS_BUFFERS_MAX; memory_bytes(verbs) > most; verbs->buffers /= 2)
		if (verbs->buffers == VERBS_BUFFERS_MIN) {
			verbs_say(verbs, "the buffers of %u nodes take %zu KiB: ROAM_VERBS_MEMORY",
				  verbs->params.nodes, memory_bytes(verbs) / 1024);
			return ROAM_EUNSUPPORTED;
		}
	verbs->memory_bytes = memory_bytes(verbs);
	verbs->memory = verbs_map(verbs->memory_bytes);
	if (verbs->memory == NULL)
		return ROAM_ENOMEM;
	for (;; verbs->buffers /= 2) {
		verbs->region = ibv_reg_mr(verbs->domain, verbs->memory, memory_bytes(verbs),
					   IBV_ACCESS_LOCAL_WRITE);
		if (verbs->region != NULL)
			return ROAM_OK;
		if (verbs->buffers == VERBS_BUFFERS_MIN)
			return memory_refused(verbs);
	}
}

/*
 * Opens the listener's device once more.  The manager never closes what it has opened, so a forked
 * child would use its parent's, which the kernel refuses.
 */
static struct ibv_context *memory_device(const struct verbs_state *verbs)
{
	const char *name = ibv_get_device_name(verbs->listener->verbs->device);
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *opened = NULL;

	for (unsigned i = 0; devices != NULL && devices[i] != NULL && opened == NULL; i++)
		if (strcmp(ibv_get_device_name(devices[i]), name) == 0)
			opened = ibv_open_device(devices[i]);
	if (opened == NULL)
		verbs_say(verbs, "%s cannot be opened: %s", name, strerror(errno));
	if (devices != NULL)
		ibv_free_device_list(devices);
	return opened;
}

enum roam_err verbs_memory(struct verbs_state *verbs)
{
	struct ibv_context *device = verbs->device = memory_device(verbs);
	unsigned depth;
	enum roam_err err;

	if (device == NULL)
		return ROAM_EUNSUPPORTED;
	verbs->domain = ibv_alloc_pd(device);
	verbs->channel = ibv_create_comp_channel(device);
	if (verbs->domain == NULL || verbs->channel == NULL) {
		verbs_say(verbs, "%s: %s", ibv_get_device_name(device->device), strerror(errno));
		return ROAM_EUNSUPPORTED;
	}
	err = memory_register(verbs);
	if (err != ROAM_OK)
		return err;
	depth = verbs->peer_count * verbs->buffers * 2; /* for abandoned attempts, too */
	verbs->in = ibv_create_cq(device, (int)depth, NULL, verbs->channel, 0);
	verbs->out = ibv_create_cq(device, (int)depth, NULL, NULL, 0);
	if (verbs->in == NULL || verbs->out == NULL ||
	    fcntl(verbs->channel->fd, F_SETFL, O_NONBLOCK) != 0 ||
	    ibv_req_notify_cq(verbs->in, 0) != 0) {
		verbs_say(verbs, "%s has no queue of %u completions: %s",
			  ibv_get_device_name(device->device), depth, strerror(errno));
		return ROAM_EUNSUPPORTED;
	}
	verbs_reads_open(verbs);
	return ROAM_OK;
}

void verbs_memory_free(struct verbs_state *verbs)
{
	verbs_reads_close(verbs);
	if (verbs->in != NULL) {
		ibv_ack_cq_events(verbs->in, verbs->event_count);
		ibv_destroy_cq(verbs->in);
	}
	if (verbs->out != NULL)
		ibv_destroy_cq(verbs->out);
	if (verbs->region != NULL)
		ibv_dereg_mr(verbs->region);
	if (verbs->memory != NULL)
		roami_os_unmap(verbs->memory, verbs->memory_bytes);
	if (verbs->channel != NULL)
		ibv_destroy_comp_channel(verbs->channel);
	if (verbs->domain != NULL)
		ibv_dealloc_pd(verbs->domain);
	if (verbs->device != NULL)
		ibv_close_device(verbs->device);
	if (verbs->listener != NULL)
		rdma_destroy_id(verbs->listener);
	if (verbs->events != NULL)
		rdma_destroy_event_channel(verbs->events);
	verbs->in = verbs->out = NULL;
	verbs->region = NULL;
	verbs->memory = NULL;
	verbs->channel = NULL;
	verbs->domain = NULL;
	verbs->device = NULL;
	verbs->listener = NULL;
	verbs->events = NULL;
}
