/* The public API of PastSet: bindings of the default job, and the short calls. */
#include "roam/pastset.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "link/address.h"
#include "pastset/attached/attach.h"
#include "pastset/attached/route.h"
#include "pastset/attached/serve.h"
#include "pastset/job/client.h"
#include "pastset/job/server.h"

#define WHY_BYTES (2 * ROAM_PS_TEMPLATE_MAX + ROAM_PS_NAME_MAX + 64)

#define ROUND_ANY UINT64_MAX /* of a binding that the end of a job leaves alone */

#define MEMORY_USUAL ((size_t)4 << 20)
#define MEMORY_MIN   ((size_t)256 << 10)

/* On the heap: a library that is loaded late gets little memory of each thread's own. */
static pthread_once_t roami_why_once = PTHREAD_ONCE_INIT;
static pthread_key_t roami_why_key = PTHREAD_KEYS_MAX; /* none */

static void why_begin(void)
{
	pthread_key_create(&roami_why_key, free);
}

/* NULL: there is no memory. */
static char *why_room(void)
{
	char *room;

	pthread_once(&roami_why_once, why_begin);
	room = pthread_getspecific(roami_why_key);
	if (room == NULL) {
		room = calloc(1, WHY_BYTES);
		if (pthread_setspecific(roami_why_key, room) == 0)
			return room;
		free(room);
		return NULL;
	}
	return room;
}

static struct roami_attachments roami_attached_all = {PTHREAD_MUTEX_INITIALIZER, NULL,
							roami_api_node_now};

const char *roam_ps_why(void)
{
	const char *why = why_room();

	return why != NULL ? why : "no memory";
}

/* With room in the heap, which goes back unless the element is new. */
static enum roam_err enter_pages(struct roami_node *node, const char *name,
				 const char *template_text, const struct roam_ps_options *options,
				 struct roam_ps_element **element_p, char *why)
{
	struct roam_ps_options sized = *options;
	uint8_t *block;
	enum roam_err err;

	if (sized.memory < MEMORY_MIN)
		sized.memory = sized.memory == 0 ? MEMORY_USUAL : MEMORY_MIN;
	block = roami_api_alloc(sized.memory, NULL, NULL);
	if (block == NULL)
		return roam_errno();
	err = roami_past_enter(node, name, template_text, &sized, (uint64_t)(block - node->app),
			       element_p, why, WHY_BYTES);
	if (err != ROAM_OK || (*element_p)->heap != (uint64_t)(block - node->app))
		roami_api_free(block, NULL);
	return err;
}

enum roam_err roam_ps_enter(const char *name, const char *template_text,
			    const struct roam_ps_options *options,
			    struct roam_ps_element **element_p)
{
	INSIDE;
	char *why = why_room();
	struct roam_ps_options placed;
	struct roami_node *node;
	uint64_t round;
	enum roam_err err;

	if (why == NULL)
		return ROAM_ENOMEM;
	why[0] = '\0';
	if (template_text == NULL || element_p == NULL)
		return ROAM_EINVAL;
	err = roami_api_node(&node, &round);
	if (options != NULL && options->place == ROAM_PS_NODE) {
		placed = *options;
		placed.node = roami_api_place(options->node);
		options = &placed;
	}
	if (err == ROAM_OK && options != NULL && options->storage == ROAM_PS_PAGES)
		err = enter_pages(node, name, template_text, options, element_p, why);
	else if (err == ROAM_OK)
		err = roami_past_enter(node, name, template_text, options, 0, element_p, why,
				       WHY_BYTES);
	if (err == ROAM_OK)
		(*element_p)->round = round;
	return err;
}

enum roam_err roam_ps_register(const struct roam_ps_function *function)
{
	INSIDE;
	struct roami_node *node;
	uint64_t round;
	enum roam_err err;

	if (function == NULL || function->name == NULL ||
	    (function->combine == NULL) == (function->match == NULL) ||
	    function->name[0] == '\0' || strlen(function->name) > ROAM_PS_FUNCTION_MAX)
		return ROAM_EINVAL;
	err = roami_api_node(&node, &round);
	return err == ROAM_OK ? roami_past_register(roami_past_of(node), function) : err;
}

enum roam_err roam_ps_attach(const char *address, const char *key_file,
			     struct roam_ps_server **server_p)
{
	INSIDE;
	uint8_t key[ROAMI_CHANNEL_KEY];
	enum roam_err err = ROAM_EINVAL;
	char *why = why_room();

	if (why == NULL)
		return ROAM_ENOMEM;
	why[0] = '\0';
	if (address == NULL || server_p == NULL)
		return ROAM_EINVAL;
	if (roami_address_key(key_file, false, key, why, WHY_BYTES))
		err = roami_attach_open(&roami_attached_all, address, key, server_p, why,
					WHY_BYTES);
	explicit_bzero(key, sizeof(key));
	return err;
}

enum roam_err roam_ps_serve(const char *address, const char *key_file, char *at, size_t at_bytes)
{
	INSIDE;
	uint8_t key[ROAMI_CHANNEL_KEY];
	enum roam_err err = ROAM_EINVAL;
	char *why = why_room(), room[1];
	struct roami_node *node;
	uint64_t round;

	if (why == NULL)
		return ROAM_ENOMEM;
	why[0] = '\0';
	if (address == NULL || (at == NULL && at_bytes > 0))
		return ROAM_EINVAL;
	if (at_bytes == 0) {
		at = room;
		at_bytes = sizeof(room);
	}
	if (roami_address_key(key_file, true, key, why, WHY_BYTES))
		err = roami_api_node(&node, &round);
	if (err == ROAM_OK)
		err = roami_past_serve(roami_past_of(node), address, key, at, at_bytes, why,
				       WHY_BYTES);
	explicit_bzero(key, sizeof(key));
	if (err == ROAM_OK)
		why[0] = '\0';
	return err;
}

void roam_ps_detach(struct roam_ps_server *server)
{
	INSIDE;

	if (server != NULL)
		roami_attach_close(&roami_attached_all, server);
}

enum roam_err roam_ps_enter_at(struct roam_ps_server *server, const char *name,
			       const char *template_text, const struct roam_ps_options *options,
			       struct roam_ps_element **element_p)
{
	INSIDE;
	char *why = why_room();
	enum roam_err err;

	if (why == NULL)
		return ROAM_ENOMEM;
	why[0] = '\0';
	if (server == NULL || template_text == NULL || element_p == NULL)
		return ROAM_EINVAL;
	err = roami_past_enter_at(server, name, template_text, options, element_p, why, WHY_BYTES);
	if (err == ROAM_OK)
		(*element_p)->round = ROUND_ANY;
	return err;
}

void roam_ps_leave(struct roam_ps_element *element)
{
	INSIDE;

	if (element != NULL)
		element->route->leave(element);
}

const char *roam_ps_template(const struct roam_ps_element *element)
{
	return element->template.text;
}

unsigned roam_ps_node(const struct roam_ps_element *element)
{
	return element->round == ROUND_ANY ? element->owner : roami_api_number(element->owner);
}

/* Whether the binding is of the job as it is now, or of none. */
static bool element_lives(const struct roam_ps_element *element)
{
	struct roami_node *node;
	uint64_t round;

	if (element->round == ROUND_ANY)
		return true;
	return roami_api_node(&node, &round) == ROAM_OK && round == element->round;
}

enum roam_err roam_ps_call(struct roam_ps_element *element, struct roam_ps_request *request)
{
	INSIDE;

	if (element == NULL || request == NULL)
		return ROAM_EINVAL;
	if (!element_lives(element) || (request->from != NULL && !element_lives(request->from)))
		return ROAM_ESTATE;
	if (request->cancel != NULL)
		roami_inside_open();
	return element->call(element, request);
}

void roam_ps_cancel(struct roam_ps_cancel *cancel)
{
	struct roami_node *node = roami_api_node_now();

	__atomic_store_n(&cancel->cancelled, 1, __ATOMIC_SEQ_CST);
	roami_attach_look(&roami_attached_all);
	if (node != NULL)
		roami_changed(node, node->me);
}

enum roam_err roam_ps_move(struct roam_ps_element *element, const void *tuple, size_t bytes)
{
	struct roam_ps_request request = {.op = ROAM_PS_MOVE, .tuple = tuple, .bytes = bytes};

	return roam_ps_call(element, &request);
}

enum roam_err roam_ps_observe(struct roam_ps_element *element, void *tuple, size_t limit,
			      size_t *bytes_p)
{
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE, .buffer = tuple, .limit = limit};
	enum roam_err err = roam_ps_call(element, &request);

	if (bytes_p != NULL)
		*bytes_p = request.got;
	return err;
}

enum roam_err roam_ps_mob(struct roam_ps_element *to, const void *tuple, size_t bytes,
			  struct roam_ps_element *from, void *out, size_t limit, size_t *bytes_p)
{
	struct roam_ps_request request = {.op = ROAM_PS_MOB,
					  .tuple = tuple,
					  .bytes = bytes,
					  .from = from,
					  .buffer = out,
					  .limit = limit};
	enum roam_err err = roam_ps_call(to, &request);

	if (bytes_p != NULL)
		*bytes_p = request.got;
	return err;
}

enum roam_err roam_ps_delta(struct roam_ps_element *element, uint64_t delta)
{
	struct roam_ps_request request = {.op = ROAM_PS_DELTA, .number = delta};

	return roam_ps_call(element, &request);
}

enum roam_err roam_ps_truncate(struct roam_ps_element *element, uint64_t number)
{
	struct roam_ps_request request = {.op = ROAM_PS_TRUNCATE, .number = number};

	return roam_ps_call(element, &request);
}

enum roam_err roam_ps_state(struct roam_ps_element *element, struct roam_ps_state *state_p)
{
	struct roam_ps_request request = {.op = ROAM_PS_STATE};
	enum roam_err err;

	if (state_p == NULL)
		return ROAM_EINVAL;
	err = roam_ps_call(element, &request);
	if (err == ROAM_OK)
		*state_p = request.state;
	return err;
}
