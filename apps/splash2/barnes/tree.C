/*
 * tree: the octree over all bodies, made anew in each step.  Processes insert their bodies at the same
 * time; a cell's lock guards its children, and each cell is locked on the way down, because what a
 * child is made of was written before the child was hung there under this lock.
 */
EXTERN_ENV
include(barnes.H)

static void lock(const struct branch *branch)
{
	ALOCK(shared->lock, branch->number % LOCKS)
}

static void unlock(const struct branch *branch)
{
	AULOCK(shared->lock, branch->number % LOCKS)
}

/* The first cell of process 0. */
struct cell *tree_root(void)
{
	return &cells[0][0];
}

/* A body's coordinates within the box, in units of 2^-DEPTH_MAX of its side. */
void tree_at(const struct worker *w, const struct body *body, long *at)
{
	long d;

	for (d = 0; d < 3; d++)
		at[d] = (long)((body->node.position[d] - w->low[d]) / w->side *
		    (double)(1l << DEPTH_MAX));
}

/*
 * The child of a cell at this depth to which a point belongs.  In Gray code order children that follow
 * each other are neighbours.
 */
long tree_octant(const long *at, long depth)
{
	const long bit = DEPTH_MAX - 1 - depth;
	const long x = at[0] >> bit & 1, y = at[1] >> bit & 1, z = at[2] >> bit & 1;

	return x << 2 | (x ^ y) << 1 | (x ^ y ^ z);
}

/* ------------------------------------------------------------------------------------ insertion */

__attribute__((noreturn)) static void fail(const char *why)
{
	fprintf(stderr, "barnes: %s\n", why);
	exit(1);
}

static void begin_branch(struct branch *branch, enum kind kind, long number)
{
	memset(branch, 0, sizeof(*branch));
	branch->node.kind = kind;
	branch->number = number;
	CONDVARINIT(branch->finished)
}

static struct cell *new_cell(struct worker *w)
{
	const long i = w->cell_count++;
	struct cell *cell = &cells[w->id][i];

	if (i == problem.cells_max)
		fail("too many cells: a larger -f");
	begin_branch(&cell->branch, KIND_CELL, w->id * problem.cells_max + i);
	memset(cell->child, 0, sizeof(cell->child));
	return cell;
}

static struct leaf *new_leaf(struct worker *w)
{
	const long i = w->leaf_count++;
	struct leaf *leaf = &leaves[w->id][i];

	if (i == problem.leaves_max)
		fail("too many leaves: a larger -l");
	begin_branch(&leaf->branch, KIND_LEAF, w->id * problem.leaves_max + i);
	leaf->count = 0;
	return leaf;
}

/* Puts a body into the leaf at *slot_p, which has room, or into a new one. */
static void put(struct worker *w, struct node **slot_p, struct body *body)
{
	struct leaf *leaf = (struct leaf *)*slot_p;

	if (leaf == NULL) {
		leaf = new_leaf(w);
		*slot_p = &leaf->branch.node;
	}
	leaf->body[leaf->count++] = body;
}

/* The cell that takes the place of a full leaf at this depth, and the leaf's bodies. */
static struct cell *split(struct worker *w, struct leaf *leaf, long depth)
{
	struct cell *cell = new_cell(w);
	struct body *body[LEAF_BODIES];
	long at[3], i;

	memcpy(body, leaf->body, sizeof(body));
	leaf->count = 0;
	for (i = 0; i < LEAF_BODIES; i++) {
		struct node **slot_p;

		tree_at(w, body[i], at);
		slot_p = &cell->child[tree_octant(at, depth)];
		if (i == 0)
			*slot_p = &leaf->branch.node;
		put(w, slot_p, body[i]);
	}
	return cell;
}

/* Inserts below a cell, which is locked; or returns the child that is to be tried next. */
static struct cell *insert_below(struct worker *w, struct cell *cell, long depth, const long *at,
    struct body *body)
{
	struct node **slot_p = &cell->child[tree_octant(at, depth)];

	if (*slot_p != NULL && (*slot_p)->kind == KIND_CELL)
		return (struct cell *)*slot_p;
	if (*slot_p != NULL && ((struct leaf *)*slot_p)->count == LEAF_BODIES) {
		struct cell *new = split(w, (struct leaf *)*slot_p, depth + 1);

		*slot_p = &new->branch.node;
		return new;
	}
	put(w, slot_p, body);
	return NULL;
}

/* How far down the way to the last body is also the way to this point. */
static long common_depth(const struct worker *w, const long *at)
{
	const long differ = (at[0] ^ w->at[0]) | (at[1] ^ w->at[1]) | (at[2] ^ w->at[2]);
	const long same = differ == 0 ? DEPTH_MAX
	    : DEPTH_MAX - 64 + __builtin_clzl((unsigned long)differ);

	return same < w->depth ? same : w->depth;
}

static void insert(struct worker *w, struct body *body)
{
	long at[3], depth;

	tree_at(w, body, at);
	for (depth = common_depth(w, at);; depth++) {
		struct cell *cell = w->path[depth], *below;

		if (depth == DEPTH_MAX - 1)
			fail("too many bodies in one place");
		lock(&cell->branch);
		below = insert_below(w, cell, depth, at, body);
		unlock(&cell->branch);
		if (below == NULL)
			break;
		w->path[depth + 1] = below;
	}
	memcpy(w->at, at, sizeof(at));
	w->depth = depth;
}

/* Forgets the last tree, which nobody reads any more; process 0 makes the new root. */
void tree_begin(struct worker *w)
{
	w->cell_count = w->leaf_count = 0;
	if (w->id == 0)
		new_cell(w);
}

/* Inserts the bodies of this process. */
void tree_build(struct worker *w)
{
	long i;

	w->depth = 0;
	w->path[0] = tree_root();
	for (i = 0; i < w->mine_count; i++)
		insert(w, w->mine[i]);
}

/* ------------------------------------------------------------------------------ centres of mass */

/* Adds a child's mass and cost; its position weighs by mass. */
static void add_mass(struct node *sum, const struct node *child)
{
	long d;

	sum->mass += child->mass;
	sum->cost += child->cost;
	for (d = 0; d < 3; d++)
		sum->position[d] += child->mass * child->position[d];
}

static void divide_mass(struct node *sum)
{
	long d;

	for (d = 0; d < 3; d++)
		sum->position[d] /= sum->mass;
}

/* Adds a child's quadrupole moment, seen from the centre of mass of its parent. */
static void add_moment(struct branch *sum, const struct node *child)
{
	const double *own_moment = child->kind == KIND_BODY ? NULL
	    : ((const struct branch *)child)->moment;
	double x[3], square = 0;
	long d, e, k = 0;

	for (d = 0; d < 3; d++) {
		x[d] = child->position[d] - sum->node.position[d];
		square += x[d] * x[d];
	}
	for (d = 0; d < 3; d++)
		for (e = d; e < 3; e++, k++)
			sum->moment[k] += child->mass * (3 * x[d] * x[e] - (d == e ? square : 0)) +
			    (own_moment != NULL ? own_moment[k] : 0);
}

/* Says that a branch is complete. */
static void finish(struct branch *branch)
{
	lock(branch);
	branch->done = 1;
	CONDVARBCAST(branch->finished)
	unlock(branch);
}

/* Waits until the process that has made a branch has completed it. */
static void await(struct branch *branch)
{
	lock(branch);
	while (!branch->done)
		CONDVARWAIT(branch->finished, AGETL(shared->lock, branch->number % LOCKS))
	unlock(branch);
}

static void sum_leaf(struct leaf *leaf)
{
	struct branch *sum = &leaf->branch;
	long i;

	for (i = 0; i < leaf->count; i++)
		add_mass(&sum->node, &leaf->body[i]->node);
	divide_mass(&sum->node);
	for (i = 0; i < leaf->count; i++)
		add_moment(sum, &leaf->body[i]->node);
	finish(sum);
}

static void sum_cell(struct cell *cell)
{
	struct branch *sum = &cell->branch;
	long i;

	for (i = 0; i < CHILDREN; i++)
		if (cell->child[i] != NULL) {
			await((struct branch *)cell->child[i]);
			add_mass(&sum->node, cell->child[i]);
		}
	divide_mass(&sum->node);
	for (i = 0; i < CHILDREN; i++)
		if (cell->child[i] != NULL)
			add_moment(sum, cell->child[i]);
	finish(sum);
}

/*
 * Completes what this process has made: leaves, then cells, the last one first.  A cell's children cells
 * are younger than the cell, so that two processes never wait for each other.
 */
void tree_sum(struct worker *w)
{
	long i;

	for (i = 0; i < w->leaf_count; i++)
		sum_leaf(&leaves[w->id][i]);
	for (i = w->cell_count - 1; i >= 0; i--)
		sum_cell(&cells[w->id][i]);
}
