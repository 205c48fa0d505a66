/*
 * radiosity: the light in a room whose surfaces reflect it in all directions, by the hierarchical method of
 * Hanrahan, Salzman and Aupperle, after the SPLASH-2 program.
 *
 * Each patch of the scene is the root of a tree of elements, its quarters and their quarters.  Light goes
 * between elements by interactions; one that carries too much is replaced by interactions with the
 * quarters of the larger element.  What two elements see of each other is found by lines through a tree
 * of planes.  An iteration gathers the light for each element, dividing where needed; barrier; hands it
 * down and up each tree; barrier.
 *
 * Work: tasks in a queue of each process, linked lists under a lock; one task is to gather for an element,
 * or to update a patch.  Gathering makes tasks of an element's children.  A process whose own queue
 * is empty takes from those of the others, and looks again until no task is open anywhere.
 *
 * Sharing: multiple writer, fine access, irregular, very many small locks: on queues, on the number of open
 * tasks, on the lists of free elements and interactions, and on each element whose light or children are
 * looked at, of which 3,900 share one lock array.  Elements of all patches lie in the order in which they
 * were made.  A task's element was written before the task is queued: that needs release consistency.
 *
 * The layout `pages` gives each process elements and interactions of its own, which it counts without a lock, and
 * takes no lock to read light, which nobody writes while it is gathered.  Queues lie in pages of their own.
 *
 * -p P  processes           -r R  rooms: 0 without furniture, 3 the large room (the suite's -largeroom)
 * -f F  light that an interaction may carry (the suite's -bf)       -a A  smallest element (-ae)
 * -e E  change of the power at which to end (-en)                   -b B  thousands of elements at most
 * -w F  write a picture to the file F, as PPM                       -s    tasks per process
 * -t    test the result     -o    print the light of each patch     --layout suite|pages
 */
MAIN_ENV
include(radiosity.H)

#include <sched.h>

#define NAME "radiosity"
#define OPTIONS "r:f:a:e:b:w:sto"
#define USAGE "[-r rooms] [-f most light of an interaction] [-a smallest area] [-e change at the end] " \
	"[-b thousands of elements] [-w picture.ppm] [-s] [-t] [-o] [--layout suite|pages]"
#define PAGES 1
include(main.H)

#define ITERATIONS_MAX 20
#define LINKS 10        /* interactions for each element, as room */
#define PICTURE_SIZE 400
#define TASK_AREA 16     /* a task is an element at least so many times the smallest one */
#define IMBALANCE 0.4   /* of light sent and swallowed: factors are of disks, reflections go on */

struct problem problem = {
	.rooms = 1,
	.most = 0.015,
	.smallest = 0.001,
	.enough = 0.02,
};
struct shared *shared;
struct element *elements;
struct interaction *interactions;
struct task *tasks; /* shared: TASKS_MAX for each queue */
struct pool *pools[PROCS_MAX];
static struct queue *queues[PROCS_MAX]; /* shared */
static long pool_count;                 /* distinct ones */
static long elements_max, interactions_max; /* of a pool */
static long thousands = 100;
static const char *picture_file;

/* A process at work. */
struct worker {
	long id;
	long done; /* tasks */
};

/* --------------------------------------------------------------------------------------- tasks */

static void count_open(long change)
{
	LOCK(shared->open_lock)
	shared->open += change;
	UNLOCK(shared->open_lock)
}

static long all_done(void)
{
	long open;

	LOCK(shared->open_lock)
	open = shared->open;
	UNLOCK(shared->open_lock)
	return open == 0;
}

/* Puts a task on the own queue; 0: it is full. */
static int put(long id, struct element *element)
{
	struct queue *queue = queues[id];
	struct task *task;

	LOCK(queue->lock)
	task = queue->free;
	if (task != NULL) {
		queue->free = task->next;
		task->element = element;
		task->next = queue->first;
		queue->first = task;
	}
	UNLOCK(queue->lock)
	return task != NULL;
}

static struct element *take_from(struct queue *queue)
{
	struct element *element = NULL;
	struct task *task;

	LOCK(queue->lock)
	task = queue->first;
	if (task != NULL) {
		queue->first = task->next;
		element = task->element;
		task->next = queue->free;
		queue->free = task;
	}
	UNLOCK(queue->lock)
	return element;
}

/* From the own queue, or from the next one that has any; NULL: there is none now. */
static struct element *take(long id)
{
	struct element *element = NULL;
	long k;

	for (k = 0; k < procs && element == NULL; k++)
		element = take_from(queues[(id + k) % procs]);
	return element;
}

/* Gathers for an element; large children become tasks, others are done here. */
static void gather(struct worker *w, struct element *element)
{
	struct element *child[4];
	long children = element_gather(pools[w->id], element, child), k;

	for (k = 0; k < children; k++) {
		if (child[k]->area >= TASK_AREA * problem.smallest) {
			count_open(1);
			if (put(w->id, child[k]))
				continue;
			count_open(-1);
		}
		gather(w, child[k]);
	}
}

static void link_patch(struct worker *w, struct element *root)
{
	element_link_all(pools[w->id], root->patch);
}

static void update(struct worker *w, struct element *root)
{
	(void)w;
	element_update(root);
}

/* All tasks of one kind, of which the patches are the first. */
static void phase(struct worker *w, void (*work_on)(struct worker *w, struct element *element))
{
	struct element *element;
	long i;

	for (i = w->id; i < shared->patches; i += procs) {
		count_open(1);
		put(w->id, shared->patch[i].element);
	}
	meet();
	do {
		while ((element = take(w->id)) != NULL) {
			work_on(w, element);
			count_open(-1);
			w->done++;
		}
		sched_yield();
	} while (!all_done());
	meet();
}

/* The power that leaves all patches; whether it still changes. */
static void judge(void)
{
	double power = 0;
	long i, c;

	for (i = 0; i < shared->patches; i++)
		for (c = 0; c < COLOURS; c++)
			power += shared->patch[i].element->area * shared->patch[i].element->light.part[c];
	shared->iterations++;
	shared->going_on = fabs(power - shared->power) > problem.enough * power &&
	    shared->iterations < ITERATIONS_MAX;
	shared->power = power;
}

static void iterate(long id)
{
	struct worker w = { .id = id };

	phase(&w, link_patch);
	do {
		phase(&w, gather);
		phase(&w, update);
		if (id == 0)
			judge();
		meet();
	} while (shared->going_on);
	shared->done[id] = w.done;
}

static void fill(long id)
{
	struct queue *queue = queues[id];
	long i;

	for (i = 0; i < TASKS_MAX; i++) {
		struct task *task = &tasks[id * TASKS_MAX + i];

		task->next = queue->free;
		queue->free = task;
	}
}

static void work(long id)
{
	iterate(id);
}

/* ------------------------------------------------------------------------------- verification */

/* Forgets all but the patches, which shine as at the start. */
static void begin_again(void)
{
	long i;

	for (i = 0; i < pool_count; i++) {
		pools[i]->elements = i == 0 ? shared->patches : i * elements_max;
		pools[i]->elements_end = (i + 1) * elements_max;
		pools[i]->interactions = i * interactions_max;
		pools[i]->interactions_end = (i + 1) * interactions_max;
		pools[i]->free = NULL;
		pools[i]->views = 0;
	}
	shared->iterations = 0;
	shared->power = 0;
	for (i = 0; i < shared->patches; i++) {
		struct element *root = shared->patch[i].element;

		memset(root->child, 0, sizeof(root->child));
		root->interactions = NULL;
		root->light = shared->patch[i].emits;
	}
}

/* Of the light that was sent out, the part by which what was swallowed differs. */
static double imbalance(void)
{
	double sent = 0, swallowed = 0;
	long i, c;

	for (i = 0; i < shared->patches; i++)
		for (c = 0; c < COLOURS; c++) {
			const struct patch *patch = &shared->patch[i];
			const double emits = patch->emits.part[c], reflects = patch->reflects.part[c];

			sent += patch->element->area * emits;
			swallowed += patch->element->area * (1 - reflects) / reflects *
			    (patch->element->light.part[c] - emits);
		}
	return fabs(swallowed / sent - 1);
}

static long elements_used(void)
{
	long i, sum = 0;

	for (i = 0; i < pool_count; i++)
		sum += pools[i]->elements - i * elements_max;
	return sum;
}

static long views_drawn(void)
{
	long i, sum = 0;

	for (i = 0; i < pool_count; i++)
		sum += pools[i]->views;
	return sum;
}

/* The run again by one process: the same light, elements and iterations. */
static int verify(void)
{
	struct light before[PATCHES_MAX];
	const long iterations = shared->iterations, count = elements_used(), views = views_drawn();
	const double off = imbalance();
	long i, wrong = 0;

	for (i = 0; i < shared->patches; i++)
		before[i] = shared->patch[i].element->light;
	procs = 1;
	begin_again();
	iterate(0);
	for (i = 0; i < shared->patches; i++)
		wrong += memcmp(&before[i], &shared->patch[i].element->light, sizeof(before[i])) != 0;
	wrong += count != elements_used() || iterations != shared->iterations ||
	    views != views_drawn();
	printf("test: %ld patches differ from a run by one process, %ld elements, alone %ld, %ld "
	    "views, alone %ld, imbalance %.2f, limit %.2f\n", wrong, count, elements_used(), views,
	    views_drawn(), off, IMBALANCE);
	return wrong == 0 && off <= IMBALANCE;
}

/* ------------------------------------------------------------------------------------ start-up */

static int read_option(int letter, const char *value)
{
	switch (letter) {
	case 'r': return read_whole(value, &problem.rooms);
	case 'f': return read_real(value, &problem.most);
	case 'a': return read_real(value, &problem.smallest);
	case 'e': return read_real(value, &problem.enough);
	case 'b': return read_whole(value, &thousands);
	default: picture_file = value; wanted.result = 1; return 1;
	}
}

/* One pool for all, and queues side by side; or in pages of each process. */
static void place_pools(void)
{
	struct apart {
		struct queue queue;
		struct pool pool;
	} *apart = NULL;
	char *block = NULL;
	long i;

	pool_count = pages ? procs : 1;
	if (pages) {
		block = (char *)G_MALLOC((size_t)(procs + 1) * PAGE_BYTES)
		block = page_start(block);
		memset(block, 0, (size_t)procs * PAGE_BYTES);
	}
	for (i = 0; i < procs; i++) {
		if (pages)
			apart = (struct apart *)(void *)(block + i * PAGE_BYTES);
		pools[i] = pages ? &apart->pool : &shared->pool;
		queues[i] = pages ? &apart->queue : &shared->queue[i];
		LOCKINIT(queues[i]->lock)
	}
	pools[0]->elements_end = elements_max; /* for the scene's patches */
}

static void set_up(void)
{
	size_t room;

	ROAM_NEEDS(RC)
	if (problem.rooms < 0 || problem.rooms > 4)
		usage("-r must be 0 to 4");
	if (!(problem.most > 0) || !(problem.smallest > 0) || !(problem.enough > 0))
		usage("-f, -a and -e must be positive");
	if (thousands < 1 || thousands > 100000)
		usage("-b must be 1 to 100000");
	elements_max = 1000 * thousands;
	interactions_max = LINKS * elements_max;
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	memset(shared, 0, sizeof(*shared));
	ALOCKINIT(shared->lock, LOCKS)
	LOCKINIT(shared->element_lock)
	LOCKINIT(shared->interaction_lock)
	LOCKINIT(shared->open_lock)
	LOCKINIT(shared->visibility_lock)
	shared->patch = (struct patch *)G_MALLOC(PATCHES_MAX * sizeof(struct patch))
	memset(shared->patch, 0, PATCHES_MAX * sizeof(struct patch));
	shared->plane = (struct plane *)G_MALLOC(PATCHES_MAX * sizeof(struct plane))
	memset(shared->plane, 0, PATCHES_MAX * sizeof(struct plane));
	shared->listed = (long *)G_MALLOC(PATCHES_MAX * sizeof(long))
	place_pools();
	room = (size_t)pool_count;
	elements = (struct element *)G_MALLOC(room * (size_t)elements_max * sizeof(*elements))
	interactions = (struct interaction *)G_MALLOC(room * (size_t)interactions_max *
	    sizeof(*interactions))
	tasks = (struct task *)G_MALLOC((size_t)(procs * TASKS_MAX) * sizeof(*tasks))
	scene_make();
	begin_again();
}

static void print_times(void)
{
	long i;

	printf("%ld patches, %ld elements, %ld views, %ld iterations\n", shared->patches,
	    elements_used(), views_drawn(), shared->iterations);
	for (i = 0; i < procs; i++)
		printf("process %ld: %ld tasks\n", i, shared->done[i]);
}

static void print_result(void)
{
	long i;

	if (picture_file != NULL) {
		scene_write(picture_file, PICTURE_SIZE);
		return;
	}
	for (i = 0; i < shared->patches; i++)
		printf("%ld %.9f %.9f %.9f\n", i, shared->patch[i].element->light.part[0],
		    shared->patch[i].element->light.part[1], shared->patch[i].element->light.part[2]);
}

static void print_size(void)
{
	printf("rooms %ld f %g", problem.rooms, problem.most);
}
