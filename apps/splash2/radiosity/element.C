/*
 * element: the hierarchy of elements, and the light between them (Hanrahan, Salzman and Aupperle 1991).
 * What comes out does not depend on which process does what, and when: an interaction is refined by what
 * the iteration before has left, and every list of interactions has one order.
 */
EXTERN_ENV
include(radiosity.H)

#define RAYS 2 /* RAYS^2 lines decide how much two elements see of each other */

static void lock(const struct element *element)
{
	ALOCK(shared->lock, element->number % LOCKS)
}

static void unlock(const struct element *element)
{
	AULOCK(shared->lock, element->number % LOCKS)
}

__attribute__((noreturn)) static void fail(const char *what)
{
	fprintf(stderr, "radiosity: too many %s: a larger -b\n", what);
	exit(1);
}

/* ----------------------------------------------------------------------- elements, interactions */

static struct element *new_element(struct pool *pool)
{
	long i;

	if (!pages)
		LOCK(shared->element_lock)
	i = pool->elements++;
	if (!pages)
		UNLOCK(shared->element_lock)
	if (i >= pool->elements_end)
		fail("elements");
	memset(&elements[i], 0, sizeof(elements[i]));
	elements[i].number = i;
	return &elements[i];
}

/* One that was refined, or a new one. */
static struct interaction *new_interaction(struct pool *pool)
{
	struct interaction *interaction;
	long i = -1;

	if (!pages)
		LOCK(shared->interaction_lock)
	interaction = pool->free;
	if (interaction != NULL)
		pool->free = interaction->next;
	else
		i = pool->interactions++;
	if (!pages)
		UNLOCK(shared->interaction_lock)
	if (i >= pool->interactions_end)
		fail("interactions");
	return interaction != NULL ? interaction : &interactions[i];
}

static void free_interaction(struct pool *pool, struct interaction *interaction)
{
	if (!pages)
		LOCK(shared->interaction_lock)
	interaction->next = pool->free;
	pool->free = interaction;
	if (!pages)
		UNLOCK(shared->interaction_lock)
}

/* A root: a patch as a whole.  By main. */
struct element *scene_root(struct vec corner, struct vec a, struct vec b, long patch)
{
	struct element *e = new_element(pools[0]);
	const struct vec cross = { { a.x[1] * b.x[2] - a.x[2] * b.x[1],
		a.x[2] * b.x[0] - a.x[0] * b.x[2], a.x[0] * b.x[1] - a.x[1] * b.x[0] } };

	e->corner = corner;
	e->edge[0] = a;
	e->edge[1] = b;
	e->area = sqrt(dot(cross, cross));
	e->normal = along((struct vec){ { 0, 0, 0 } }, 1 / e->area, cross);
	e->code = (uint64_t)patch + 1;
	e->patch = &shared->patch[patch];
	return e;
}

static struct element *quarter_of(struct pool *pool, const struct element *parent, long k)
{
	struct element *e = new_element(pool);

	e->edge[0] = along((struct vec){ { 0, 0, 0 } }, 0.5, parent->edge[0]);
	e->edge[1] = along((struct vec){ { 0, 0, 0 } }, 0.5, parent->edge[1]);
	e->corner = point_of(parent, k % 2 == 0 ? 0 : 0.5, k / 2 == 0 ? 0 : 0.5);
	e->normal = parent->normal;
	e->area = parent->area / 4;
	e->code = parent->code * 4 + (uint64_t)k + (UINT64_C(1) << 40);
	e->patch = parent->patch;
	e->light = parent->light;
	return e;
}

/* Divides an element, unless another process has done so.  Its children have its light. */
void element_quarter(struct pool *pool, struct element *element)
{
	long k;

	lock(element);
	for (k = 0; element->child[3] == NULL && k < 4; k++)
		element->child[k] = quarter_of(pool, element, k);
	unlock(element);
}

/* ---------------------------------------------------------------------------------- interactions */

/* A point in part (i, k) of RAYS x RAYS parts of an element: always the same one. */
static struct vec sample(const struct element *e, long i, long k, uint64_t salt)
{
	const long number = (long)((e->code * 0x9e3779b97f4a7c15u ^ salt * 31) >> 8) + 2 * (i * RAYS + k);

	return point_of(e, ((double)i + uniform(number)) / RAYS, ((double)k + uniform(number + 1)) / RAYS);
}

/* How much of the lines between two elements nothing interrupts. */
static double seen(struct pool *pool, const struct element *to, const struct element *from)
{
	long i, k, clear = 0;

	if (!pages)
		LOCK(shared->visibility_lock)
	pool->views++;
	if (!pages)
		UNLOCK(shared->visibility_lock)
	for (i = 0; i < RAYS; i++)
		for (k = 0; k < RAYS; k++)
			clear += !planes_between(sample(to, i, k, from->code),
			    sample(from, k, i, to->code));
	return (double)clear / (RAYS * RAYS);
}

/* The part of the light that leaves `from` for a unit of area of `to`: as of a disk. */
static double factor_of(const struct element *to, const struct element *from)
{
	const struct vec a = point_of(to, 0.5, 0.5), b = point_of(from, 0.5, 0.5);
	const struct vec way = along(b, -1, a);
	const double square = dot(way, way);
	const double out = dot(way, to->normal), in = -dot(way, from->normal);

	if (out <= 0 || in <= 0)
		return 0;
	return out * in / square * from->area / (acos(-1.0) * square + from->area);
}

/* Hangs an interaction at the end of a list, if any light can come by it. */
static struct interaction **link_to(struct pool *pool, struct interaction **end,
    const struct element *to, struct element *from)
{
	const double factor = factor_of(to, from);
	double part;

	if (factor <= 0 || (part = seen(pool, to, from)) <= 0)
		return end;
	*end = new_interaction(pool);
	(*end)->from = from;
	(*end)->factor = factor * part;
	(*end)->next = NULL;
	return &(*end)->next;
}

/* The interactions of a patch with all others. */
void element_link_all(struct pool *pool, const struct patch *patch)
{
	struct interaction **end = &patch->element->interactions;
	long i;

	for (i = 0; i < shared->patches; i++)
		if (&shared->patch[i] != patch)
			end = link_to(pool, end, patch->element, shared->patch[i].element);
}

static struct interaction **list_end(struct element *element)
{
	struct interaction **end = &element->interactions;

	while (*end != NULL)
		end = &(*end)->next;
	return end;
}

/* The light of another element, read under its lock as in the suite, although nobody writes it meanwhile. */
static struct light light_of(const struct element *element)
{
	struct light light;

	if (!pages)
		lock(element);
	light = element->light;
	if (!pages)
		unlock(element);
	return light;
}

static double brightest(struct light light)
{
	return fmax(light.part[0], fmax(light.part[1], light.part[2]));
}

/* Whether an interaction carries so much light that one of its elements is to be divided. */
static int too_much(const struct element *to, const struct interaction *interaction, struct light light)
{
	return interaction->factor * brightest(light) > problem.most &&
	    fmax(to->area, interaction->from->area) >= 4 * problem.smallest;
}

/* Replaces an interaction, which has been taken out of its list, by those with the larger one's quarters. */
static void refine(struct pool *pool, struct element *to, struct interaction *interaction,
    struct interaction **end)
{
	struct element *from = interaction->from;
	long k;

	free_interaction(pool, interaction);
	if (from->area > to->area) {
		element_quarter(pool, from);
		for (k = 0; k < 4; k++)
			end = link_to(pool, end, to, from->child[k]);
		return;
	}
	element_quarter(pool, to);
	for (k = 0; k < 4; k++)
		link_to(pool, list_end(to->child[k]), to->child[k], from);
}

/*
 * Adds up the light that comes to an element by its own interactions; those that carry too much become
 * several, which are met further on.  Returns how many children it has.
 */
long element_gather(struct pool *pool, struct element *element, struct element **child)
{
	struct interaction **at = &element->interactions;
	long c;

	memset(&element->arrived, 0, sizeof(element->arrived));
	while (*at != NULL) {
		struct interaction *interaction = *at;
		const struct light light = light_of(interaction->from);

		if (too_much(element, interaction, light)) {
			*at = interaction->next;
			refine(pool, element, interaction, *at == NULL ? at : list_end(element));
			continue;
		}
		for (c = 0; c < COLOURS; c++)
			element->arrived.part[c] += interaction->factor * light.part[c];
		at = &interaction->next;
	}
	lock(element);
	memcpy(child, element->child, sizeof(element->child));
	unlock(element);
	return child[3] != NULL ? 4 : 0;
}

/* What arrives at an element with what arrives at those above it; returns the mean light below. */
static struct light push(struct element *element, struct light above)
{
	struct light sum = { { 0 } };
	long c, k;

	for (c = 0; c < COLOURS; c++)
		above.part[c] += element->arrived.part[c];
	for (k = 0; element->child[3] != NULL && k < 4; k++) {
		const struct light part = push(element->child[k], above);

		for (c = 0; c < COLOURS; c++)
			sum.part[c] += 0.25 * part.part[c];
	}
	for (c = 0; element->child[3] == NULL && c < COLOURS; c++)
		sum.part[c] = element->patch->emits.part[c] +
		    element->patch->reflects.part[c] * above.part[c];
	element->light = sum;
	return sum;
}

/* The new light of all elements of a patch. */
void element_update(struct element *root)
{
	push(root, (struct light){ { 0 } });
}
