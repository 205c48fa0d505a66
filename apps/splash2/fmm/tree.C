/*
 * tree: the adaptive quadtree, made anew in each step, and the two passes over it.  Whatever a box has
 * that several processes write or wait for is under the box's lock: children while particles are inserted,
 * the expansion to which its children add, the flags with their condition variable.  As in the suite, other
 * processes' expansions and particles are read under the lock, too; not with the layout `pages`.
 */
EXTERN_ENV
include(fmm.H)

static void lock(const struct box *box)
{
	ALOCK(shared->lock, box->number % LOCKS)
}

static void unlock(const struct box *box)
{
	AULOCK(shared->lock, box->number % LOCKS)
}

/* The first box of process 0. */
struct box *tree_root(void)
{
	return &boxes[0][0];
}

__attribute__((noreturn)) static void fail(const char *why)
{
	fprintf(stderr, "fmm: %s\n", why);
	exit(1);
}

/* ------------------------------------------------------------------------------------ insertion */

static struct box *new_box(struct worker *w, struct complex middle, double side, struct box *parent)
{
	const long i = w->made++;
	struct box *box = &boxes[w->id][i];

	if (i == problem.boxes_max)
		fail("too many boxes");
	memset(box, 0, sizeof(*box));
	CONDVARINIT(box->changed)
	box->middle = middle;
	box->side = side;
	box->number = w->id * problem.boxes_max + i;
	box->is_leaf = 1;
	box->parent = parent;
	box->level = parent != NULL ? parent->level + 1 : 0;
	if (box->level == LEVELS_MAX)
		fail("too many particles in one place");
	return box;
}

/* Forgets the last tree, which nobody reads any more; process 0 makes the new root. */
void tree_begin(struct worker *w)
{
	const double half = w->side / 2;

	w->made = 0;
	if (w->id == 0)
		new_box(w, plus(w->low, (struct complex){ half, half }), w->side, NULL);
}

/* The child of a box for a point; a box that has none becomes a leaf there. */
static struct box *child_at(struct worker *w, struct box *box, struct complex at)
{
	const int east = at.re >= box->middle.re, north = at.im >= box->middle.im;
	struct box **child_p = &box->child[2 * north + east];
	const double off = box->side / 4;

	if (*child_p == NULL) {
		*child_p = new_box(w, plus(box->middle, (struct complex){ east ? off : -off,
		    north ? off : -off }), box->side / 2, box);
		box->children++;
	}
	return *child_p;
}

/* Puts the particles of a full leaf into children. */
static void divide(struct worker *w, struct box *box)
{
	long i;

	for (i = 0; i < box->count; i++) {
		struct box *child = child_at(w, box, box->particle[i]->at);

		child->particle[child->count++] = box->particle[i];
	}
	box->count = 0;
	box->is_leaf = 0;
}

static int contains(const struct box *box, struct complex at)
{
	const double half = box->side / 2;

	return at.re >= box->middle.re - half && at.re < box->middle.re + half &&
	    at.im >= box->middle.im - half && at.im < box->middle.im + half;
}

/* Inserts at or below a box that contains the particle; returns where it has come to. */
static struct box *insert(struct worker *w, struct box *box, struct particle *particle)
{
	for (;;) {
		struct box *next = NULL;

		lock(box);
		if (box->is_leaf && box->count == LEAF_PARTICLES)
			divide(w, box);
		if (box->is_leaf)
			box->particle[box->count++] = particle;
		else
			next = child_at(w, box, particle->at);
		unlock(box);
		if (next == NULL)
			return box;
		box = next;
	}
}

/* Inserts the particles of this process; each begins where the last one has come to. */
void tree_build(struct worker *w)
{
	struct box *box = tree_root();
	long i;

	for (i = 0; i < w->mine_count; i++) {
		while (box->parent != NULL && !contains(box, w->mine[i]->at))
			box = box->parent;
		box = insert(w, box, w->mine[i]);
	}
}

/* ------------------------------------------------------------------------------------ cost zones */

/* Says that something about a box is known now. */
static void announce(struct box *box, long *flag)
{
	lock(box);
	*flag += 1;
	CONDVARBCAST(box->changed)
	unlock(box);
}

static void await(struct box *box, const long *flag, long wanted)
{
	lock(box);
	while (*flag < wanted)
		CONDVARWAIT(box->changed, AGETL(shared->lock, box->number % LOCKS))
	unlock(box);
}

/* Costs of the boxes that this process has made, the youngest first: children are younger. */
void tree_sum(struct worker *w)
{
	long i, k;

	for (i = w->made - 1; i >= 0; i--) {
		struct box *box = &boxes[w->id][i];

		for (k = 0; box->is_leaf && k < box->count; k++)
			box->cost += box->particle[k]->cost;
		for (k = 0; !box->is_leaf && k < CHILDREN; k++)
			if (box->child[k] != NULL) {
				await(box->child[k], &box->child[k]->summed, 1);
				box->cost += box->child[k]->cost;
			}
		announce(box, &box->summed);
	}
}

/* Takes the boxes of a subtree whose costs begin in the zone; `before`: of all boxes before it. */
static void deal_below(struct worker *w, long first, long end, struct box *box, long before)
{
	long k;

	if (before >= end || before + box->cost <= first)
		return;
	if (before >= first)
		w->own[w->own_count++] = box;
	for (k = 0; box->is_leaf && before >= first && k < box->count; k++)
		w->mine[w->mine_count++] = box->particle[k];
	for (k = 0; !box->is_leaf && k < CHILDREN; k++)
		if (box->child[k] != NULL) {
			deal_below(w, first, end, box->child[k], before);
			before += box->child[k]->cost;
		}
}

static int by_level(const void *a, const void *b)
{
	const struct box *const *box_a = a, *const *box_b = b;

	return ((*box_a)->level > (*box_b)->level) - ((*box_a)->level < (*box_b)->level);
}

/* Finds the boxes and the particles of this process's zone. */
void tree_deal(struct worker *w)
{
	const long all = tree_root()->cost;

	w->own_count = w->mine_count = 0;
	deal_below(w, first_of(all, w->id), first_of(all, w->id + 1), tree_root(), 0);
	qsort(w->own, (size_t)w->own_count, sizeof(*w->own), by_level);
}

/* -------------------------------------------------------------------------------------- upwards */

/* Expansions of the own boxes, the smallest first; each is added to that of its parent. */
void tree_up(struct worker *w)
{
	long i, k;

	for (i = w->own_count - 1; i >= 0; i--) {
		struct box *box = w->own[i], *parent = box->parent;

		for (k = 0; box->is_leaf && k < box->count; k++)
			expand_particle(box->near, minus(box->particle[k]->at, box->middle),
			    box->particle[k]->mass);
		if (!box->is_leaf)
			await(box, &box->added, box->children);
		if (parent == NULL)
			continue;
		lock(parent);
		expand_up(parent->near, box->near, minus(box->middle, parent->middle));
		parent->added++;
		CONDVARBCAST(parent->changed)
		unlock(parent);
	}
}

/* ------------------------------------------------------------------------------------ downwards */

/* Whether two boxes touch; others are farther apart than the smaller one is wide. */
static int touch(const struct box *a, const struct box *b)
{
	const double smaller = a->side < b->side ? a->side : b->side;
	const double most = (a->side + b->side + smaller) / 2;

	return fabs(a->middle.re - b->middle.re) < most && fabs(a->middle.im - b->middle.im) < most;
}

/* Places and masses of a leaf's particles, as they are under its lock. */
struct copy {
	long count;
	struct complex at[LEAF_PARTICLES];
	double mass[LEAF_PARTICLES];
};

/* What is only read on the way down. */
static void lock_to_read(const struct box *box)
{
	if (!pages)
		lock(box);
}

static void unlock_read(const struct box *box)
{
	if (!pages)
		unlock(box);
}

static void copy_leaf(const struct box *leaf, struct copy *copy)
{
	long k;

	lock_to_read(leaf);
	copy->count = leaf->count;
	for (k = 0; k < leaf->count; k++) {
		copy->at[k] = leaf->particle[k]->at;
		copy->mass[k] = leaf->particle[k]->mass;
	}
	unlock_read(leaf);
}

static void copy_near(const struct box *box, struct complex *near)
{
	lock_to_read(box);
	memcpy(near, box->near, sizeof(box->near));
	unlock_read(box);
}

/* A larger leaf that does not touch the box acts by its particles. */
static void from_larger(struct box *box, struct box *leaf)
{
	struct copy copy;
	long k;

	if (touch(box, leaf)) {
		box->larger[box->largers++] = leaf;
		return;
	}
	copy_leaf(leaf, &copy);
	for (k = 0; k < copy.count; k++)
		expand_far(box->far, minus(copy.at[k], box->middle), copy.mass[k]);
}

/* A box of the same size, whose parent touches this one's: a colleague, or far enough away. */
static void from_cousin(struct box *box, struct box *cousin)
{
	struct complex near[TERMS_MAX];

	if (cousin == box)
		return;
	if (touch(box, cousin)) {
		box->colleague[box->colleagues++] = cousin;
		return;
	}
	copy_near(cousin, near);
	expand_across(box->far, near, minus(cousin->middle, box->middle));
}

/* What is far from the box, but not from its parent; and which boxes touch it. */
static void find_far(struct box *box)
{
	const struct box *parent = box->parent;
	long i, k;

	for (k = 0; k < CHILDREN; k++)
		if (parent->child[k] != NULL)
			from_cousin(box, parent->child[k]);
	for (i = 0; i < parent->colleagues; i++) {
		struct box *uncle = parent->colleague[i];

		if (uncle->is_leaf)
			from_larger(box, uncle);
		for (k = 0; !uncle->is_leaf && k < CHILDREN; k++)
			if (uncle->child[k] != NULL)
				from_cousin(box, uncle->child[k]);
	}
	for (i = 0; i < parent->largers; i++)
		from_larger(box, parent->larger[i]);
}

/* The particles of a leaf on those of another one, or on each other. */
static void direct(struct box *box, const struct box *leaf)
{
	struct copy copy;
	long i, k;

	copy_leaf(leaf, &copy);
	for (i = 0; i < box->count; i++) {
		struct particle *particle = box->particle[i];

		for (k = 0; k < copy.count; k++) {
			const struct complex apart = minus(particle->at, copy.at[k]);

			if (apart.re != 0 || apart.im != 0)
				particle->field = plus(particle->field,
				    scaled(copy.mass[k], inverse(apart)));
		}
		particle->cost += copy.count;
	}
}

/* A subtree below a box that touches the leaf: by leaves that touch it, or expansions of other boxes. */
static void from_colleague(struct box *leaf, const struct box *box)
{
	struct complex near[TERMS_MAX];
	long i, k;

	if (touch(leaf, box)) {
		if (box->is_leaf)
			direct(leaf, box);
		for (k = 0; !box->is_leaf && k < CHILDREN; k++)
			if (box->child[k] != NULL)
				from_colleague(leaf, box->child[k]);
		return;
	}
	copy_near(box, near);
	for (i = 0; i < leaf->count; i++) {
		struct particle *particle = leaf->particle[i];

		particle->field = plus(particle->field,
		    expand_near_field(near, minus(particle->at, box->middle)));
		particle->cost += problem.terms;
	}
}

/* The field of all others at the particles of a leaf. */
static void evaluate(struct box *leaf)
{
	long i;

	for (i = 0; i < leaf->count; i++) {
		struct particle *particle = leaf->particle[i];

		particle->field = expand_far_field(leaf->far, minus(particle->at, leaf->middle));
		particle->cost = 2 * problem.terms;
	}
	direct(leaf, leaf);
	for (i = 0; i < leaf->largers; i++)
		direct(leaf, leaf->larger[i]);
	for (i = 0; i < leaf->colleagues; i++)
		from_colleague(leaf, leaf->colleague[i]);
}

/* The own boxes, the largest first: each needs what its parent has. */
void tree_down(struct worker *w)
{
	long i;

	for (i = 0; i < w->own_count; i++) {
		struct box *box = w->own[i];

		if (box->parent != NULL) {
			await(box->parent, &box->parent->arrived, 1);
			expand_down(box->far, box->parent->far, minus(box->middle, box->parent->middle));
			find_far(box);
		}
		announce(box, &box->arrived);
		if (box->is_leaf)
			evaluate(box);
	}
}
