/*
 * force: which bodies a process moves, and what pulls at them.  Bodies are dealt by cost zones: in the
 * order of the tree each process takes the same share of the interactions of the step before.
 */
EXTERN_ENV
include(barnes.H)

/* ----------------------------------------------------------------------------------- cost zones */

/* The part of the total cost that belongs to a process. */
struct zone {
	long first;
	long end;
};

/* Takes the bodies of a subtree that lie in the zone; `before` is the cost of all bodies before it. */
static void find_below(struct worker *w, struct zone zone, const struct node *node, long before)
{
	const struct leaf *leaf = (const struct leaf *)node;
	long i;

	if (before >= zone.end || before + node->cost <= zone.first)
		return;
	for (i = 0; node->kind == KIND_CELL && i < CHILDREN; i++) {
		const struct node *child = ((const struct cell *)node)->child[i];

		if (child == NULL)
			continue;
		find_below(w, zone, child, before);
		before += child->cost;
	}
	for (i = 0; node->kind == KIND_LEAF && i < leaf->count; i++) {
		if (before >= zone.first && before < zone.end)
			w->mine[w->mine_count++] = leaf->body[i];
		before += leaf->body[i]->node.cost;
	}
}

void find_bodies(struct worker *w)
{
	const struct node *root = &tree_root()->branch.node;
	const struct zone zone = { first_of(root->cost, w->id), first_of(root->cost, w->id + 1) };

	w->mine_count = 0;
	find_below(w, zone, root, 0);
}

/* ---------------------------------------------------------------------------------- interactions */

/* The pull of a mass at distance x from the body. */
static void pull(struct worker *w, double mass, const double *x, double square)
{
	const double inverse = 1 / sqrt(square + problem.soften * problem.soften);
	const double potential = mass * inverse, strength = potential * inverse * inverse;
	long d;

	w->potential -= potential;
	for (d = 0; d < 3; d++)
		w->acceleration[d] += strength * x[d];
	w->interactions++;
}

/* What a quadrupole moment adds to that. */
static void pull_moment(struct worker *w, const double *m, const double *x, double square)
{
	const double inverse2 = 1 / (square + problem.soften * problem.soften);
	const double inverse5 = inverse2 * inverse2 * sqrt(inverse2);
	const double mx[3] = {
		m[0] * x[0] + m[1] * x[1] + m[2] * x[2],
		m[1] * x[0] + m[3] * x[1] + m[4] * x[2],
		m[2] * x[0] + m[4] * x[1] + m[5] * x[2],
	};
	const double xmx = x[0] * mx[0] + x[1] * mx[1] + x[2] * mx[2];
	long d;

	w->potential -= 0.5 * xmx * inverse5;
	for (d = 0; d < 3; d++)
		w->acceleration[d] += inverse5 * (2.5 * xmx * inverse2 * x[d] - mx[d]);
}

static double distance(const struct worker *w, const double *position, double *x)
{
	double square = 0;
	long d;

	for (d = 0; d < 3; d++) {
		x[d] = position[d] - w->position[d];
		square += x[d] * x[d];
	}
	return square;
}

/* One body; its lock is held while its position is read, as the suite has it. */
static void attract_body(struct worker *w, const struct body *other)
{
	const long number = other - bodies;
	double position[3], mass, x[3], square;

	if (other == w->body)
		return;
	if (!pages)
		ALOCK(shared->lock, number % LOCKS)
	memcpy(position, other->node.position, sizeof(position));
	mass = other->node.mass;
	if (!pages)
		AULOCK(shared->lock, number % LOCKS)
	square = distance(w, position, x);
	pull(w, mass, x, square);
}

/* A subtree; `inside` if the body is in it, `size2` the square of its side. */
static void attract_below(struct worker *w, const struct node *node, long depth, int inside,
    double size2)
{
	const struct branch *branch = (const struct branch *)node;
	const struct leaf *leaf = (const struct leaf *)node;
	const long way = inside && node->kind == KIND_CELL ? tree_octant(w->at, depth) : -1;
	double x[3];
	const double square = distance(w, node->position, x);
	long i;

	if (!inside && size2 <= problem.open * problem.open * square) {
		pull(w, node->mass, x, square);
		pull_moment(w, branch->moment, x, square);
		return;
	}
	for (i = 0; node->kind == KIND_CELL && i < CHILDREN; i++) {
		const struct node *child = ((const struct cell *)node)->child[i];

		if (child != NULL)
			attract_below(w, child, depth + 1, i == way, size2 / 4);
	}
	for (i = 0; node->kind == KIND_LEAF && i < leaf->count; i++)
		attract_body(w, leaf->body[i]);
}

/* Leaves the acceleration and the potential of a body in the worker. */
void attract(struct worker *w, const struct body *body)
{
	w->body = body;
	memcpy(w->position, body->node.position, sizeof(w->position));
	memset(w->acceleration, 0, sizeof(w->acceleration));
	w->potential = 0;
	w->interactions = 0;
	tree_at(w, body, w->at);
	attract_below(w, &tree_root()->branch.node, 0, 1, w->side * w->side);
}
