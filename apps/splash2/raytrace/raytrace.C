/*
 * raytrace: a picture of a scene of spheres and triangles, by rays followed backwards from the eye,
 * after the SPLASH-2 program.
 *
 * A ray looks for the nearest primitive in a hierarchy of uniform grids, which main makes before
 * CREATE.  From there rays go to each light, and where the material reflects or lets through light,
 * two more rays, until little of their light would reach the eye.
 *
 * Work: blocks of 4 x 4 pixels in a pool of each process, a linked list under a lock; a process whose
 * own pool is empty takes blocks from those of the others.
 *
 * Sharing: the scene is written by main and only read afterwards.  Of the picture each page has
 * multiple writers with fine access: rows of 16 bytes.  One hot lock: every ray, of shadow too, takes its
 * number from a shared counter under the same lock, as in the suite.  A process compares numbers to test
 * no primitive twice with one ray.
 *
 * The layout `pages` numbers the rays of each process by itself, which needs no lock, and gives each
 * process a band of rows in its pool instead of a rectangle.
 *
 * -p P  processes      -n N  pixels of a side       -a A  A x A rays for each pixel
 * -i I  the scene: car, balls        -l L  its detail, 1 to 6        -m M  MB of memory for it
 * -w F  write the picture to the file F, as PPM
 * -s    rays and blocks per process    -t  test the result    -o  print a checksum of the picture
 * --layout suite|pages
 */
MAIN_ENV
include(raytrace.H)

#define NAME "raytrace"
#define OPTIONS "n:a:i:l:m:w:sto"
#define USAGE "[-n pixels] [-a rays] [-i car|balls] [-l detail] [-m MB] [-w picture.ppm] " \
	"[-s] [-t] [-o] [--layout suite|pages]"
#define PAGES 1
#define MEETINGS 1
include(main.H)

#define BLOCK 4      /* pixels of a side of a job */
#define BOUNCES 5    /* of a ray at most */
#define FAINT 0.01   /* of light that is not followed */
#define AMBIENT 0.2

/* Private variables, set before CREATE and only read afterwards: the same in every process. */
static struct shared *shared;
static uint32_t *picture; /* shared, row by row */
static char *heap;        /* shared: what main makes */
static size_t heap_used, heap_bytes;
static long size = 128, samples = 1, detail = 3, megabytes = 64;
static const char *scene_name = "car", *picture_file;

/* Of the camera: one pixel to the right, one down, and the centre of the picture. */
static struct vec right, down, ahead;

void *arena(size_t bytes)
{
	char *block = heap + heap_used;

	bytes = (bytes + 63) / 64 * 64;
	if (bytes > heap_bytes - heap_used)
		usage("the scene needs more memory: a larger -m");
	heap_used += bytes;
	memset(block, 0, bytes);
	return block;
}

/* ------------------------------------------------------------------------------------- shading */

static long ray_number(struct worker *w)
{
	long number;

	w->rays++;
	if (pages || procs == 1)
		return w->rays;
	LOCK(shared->ray_lock)
	number = ++shared->rays;
	UNLOCK(shared->ray_lock)
	return number;
}

static struct ray begin_ray(struct worker *w, struct vec from, struct vec along, double t)
{
	return (struct ray){ .from = from, .along = along, .number = ray_number(w),
		.all = shared->scene.primitive, .tested = w->tested, .t = t };
}

/* Where a ray hits. */
struct point {
	struct vec at;
	struct vec normal; /* towards where the ray comes from */
	struct vec along;  /* the ray */
	struct vec colour;
	const struct material *material;
	int inside;        /* of the primitive: the ray leaves it */
};

static struct point point_of(const struct ray *ray)
{
	const struct primitive *p = ray->hit;
	const struct material *material = &shared->scene.material[p->material];
	struct point point = { .at = add(ray->from, scale(ray->t, ray->along)), .along = ray->along,
		.colour = material->colour, .material = material };

	if (p->kind == KIND_SPHERE)
		point.normal = subtract(point.at, p->at);
	else
		point.normal = add(scale(1 - ray->u - ray->v, p->normal[0]),
		    add(scale(ray->u, p->normal[1]), scale(ray->v, p->normal[2])));
	point.normal = unit(point.normal);
	point.inside = dot(point.normal, ray->along) > 0;
	if (point.inside)
		point.normal = scale(-1, point.normal);
	if (material->chequered && ((long)floor(point.at.x) + (long)floor(point.at.y)) % 2 != 0)
		point.colour = scale(0.35, point.colour);
	return point;
}

static struct vec mirror(struct vec along, struct vec normal)
{
	return subtract(along, scale(2 * dot(along, normal), normal));
}

/* What a light adds, if nothing stands between. */
static struct vec light_on(struct worker *w, const struct point *point, const struct light *light)
{
	const struct material *material = point->material;
	const struct vec to = subtract(light->at, point->at);
	const double far = sqrt(dot(to, to));
	const struct vec towards = scale(1 / far, to);
	const double slant = dot(towards, point->normal);
	double highlight;
	struct ray shadow;

	if (slant <= 0)
		return vec(0, 0, 0);
	shadow = begin_ray(w, add(point->at, scale(NEAR, point->normal)), towards, far);
	shadow.any = 1;
	grid_trace(shared->scene.grid, &shadow);
	if (shadow.hit != NULL)
		return vec(0, 0, 0);
	highlight = dot(mirror(point->along, point->normal), towards);
	highlight = highlight > 0 ? material->shine * pow(highlight, material->exponent) : 0;
	return scale(light->strength, add(scale(material->diffuse * slant, point->colour),
	    vec(highlight, highlight, highlight)));
}

static struct vec trace(struct worker *w, struct vec from, struct vec along, long bounces,
    double weight);

/* What comes through the material; where nothing can, all is reflected. */
static struct vec through(struct worker *w, const struct point *point, long bounces, double weight)
{
	const double bend = point->inside ? point->material->refract : 1 / point->material->refract;
	const double cosine = -dot(point->along, point->normal);
	const double square = 1 - bend * bend * (1 - cosine * cosine);
	const struct vec along = square < 0 ? mirror(point->along, point->normal)
	    : add(scale(bend, point->along), scale(bend * cosine - sqrt(square), point->normal));
	const double side = square < 0 ? NEAR : -NEAR;

	return trace(w, add(point->at, scale(side, point->normal)), unit(along), bounces, weight);
}

static struct vec shade(struct worker *w, const struct ray *ray, long bounces, double weight)
{
	const struct scene *scene = &shared->scene;
	const struct point point = point_of(ray);
	const struct material *material = point.material;
	struct vec sum = scale(AMBIENT, point.colour);
	long i;

	for (i = 0; i < scene->lights; i++)
		sum = add(sum, light_on(w, &point, &scene->light[i]));
	if (bounces < BOUNCES && weight * material->reflect > FAINT)
		sum = add(sum, scale(material->reflect,
		    trace(w, add(point.at, scale(NEAR, point.normal)),
		    unit(mirror(point.along, point.normal)), bounces + 1, weight * material->reflect)));
	if (bounces < BOUNCES && weight * material->transmit > FAINT)
		sum = add(sum, scale(material->transmit,
		    through(w, &point, bounces + 1, weight * material->transmit)));
	return sum;
}

/* The light that comes along a ray, from the sky if it hits nothing. */
static struct vec trace(struct worker *w, struct vec from, struct vec along, long bounces,
    double weight)
{
	struct ray ray = begin_ray(w, from, along, INFINITY);
	const double height = 0.5 + 0.5 * along.z;

	grid_trace(shared->scene.grid, &ray);
	if (ray.hit != NULL)
		return shade(w, &ray, bounces, weight);
	return vec(0.75 - 0.45 * height, 0.82 - 0.32 * height, 0.95 - 0.1 * height);
}

/* ----------------------------------------------------------------------------------- the picture */

static uint32_t byte_of(double light)
{
	return (uint32_t)(255 * fmin(1, fmax(0, light)) + 0.5);
}

/* Red, green and blue in the three low bytes. */
static uint32_t pixel(struct worker *w, long x, long y)
{
	struct vec sum = vec(0, 0, 0);
	long i;

	for (i = 0; i < samples * samples; i++) {
		const double dx = ((double)(i % samples) + 0.5) / (double)samples;
		const double dy = ((double)(i / samples) + 0.5) / (double)samples;
		const struct vec to = add(ahead, add(scale((double)x + dx - 0.5 * (double)size, right),
		    scale((double)y + dy - 0.5 * (double)size, down)));

		sum = add(sum, trace(w, shared->scene.eye, unit(to), 0, 1));
	}
	sum = scale(1 / (double)(samples * samples), sum);
	return byte_of(sum.x) << 16 | byte_of(sum.y) << 8 | byte_of(sum.z);
}

static void set_camera(const struct scene *scene)
{
	const double width = 2 * tan(scene->field * acos(-1.0) / 360);

	ahead = unit(subtract(scene->target, scene->eye));
	right = unit(cross(ahead, vec(0, 0, 1)));
	down = scale(width / (double)size, cross(ahead, right));
	right = scale(width / (double)size, right);
}

/* The process in whose pool the job at this place begins: a grid of rectangles, or bands. */
static long pool_of(long x, long y)
{
	long rows = procs;

	if (!pages)
		for (rows = (long)sqrt((double)procs); procs % rows != 0; rows--)
			;
	return y * rows / size * (procs / rows) + x * (procs / rows) / size;
}

static void make_pools(void)
{
	struct job **tail[PROCS_MAX];
	long x, y;

	for (x = 0; x < procs; x++)
		tail[x] = &shared->pool[x];
	for (y = 0; y < size; y += BLOCK)
		for (x = 0; x < size; x += BLOCK) {
			const long id = pool_of(x, y);
			struct job *job = arena(sizeof(*job));

			job->x = x;
			job->y = y;
			*tail[id] = job;
			tail[id] = &job->next;
		}
}

/* A job from the own pool, or from the next one that has any; NULL: all is taken. */
static struct job *take_job(const struct worker *w)
{
	long k;

	for (k = 0; k < procs; k++) {
		const long id = (w->id + k) % procs;
		struct job *job;

		ALOCK(shared->pool_lock, id)
		job = shared->pool[id];
		if (job != NULL)
			shared->pool[id] = job->next;
		AULOCK(shared->pool_lock, id)
		if (job != NULL)
			return job;
	}
	return NULL;
}

static void fill(long id)
{
	shared->jobs_done[id] = 0;
}

static void work(long id)
{
	struct worker w = { .id = id,
		.tested = own((size_t)shared->scene.primitives * sizeof(long)) };
	unsigned long done = 0;
	const struct job *job;
	long x, y;

	while ((job = take_job(&w)) != NULL) {
		for (y = job->y; y < job->y + BLOCK && y < size; y++)
			for (x = job->x; x < job->x + BLOCK && x < size; x++)
				picture[y * size + x] = pixel(&w, x, y);
		done++;
	}
	shared->jobs_done[id] = done;
	shared->rays_traced[id] = w.rays;
	free(w.tested);
}

/* ------------------------------------------------------------------------------- verification */

static uint64_t checksum(const uint32_t *pixels)
{
	uint64_t sum = 0;
	long i;

	for (i = 0; i < size * size; i++)
		sum += noise((long)((uint64_t)pixels[i] << 32 | (uint64_t)i));
	return sum;
}

/* The same picture by one process, and as many rays. */
static int verify(void)
{
	struct worker w = { .tested = own((size_t)shared->scene.primitives * sizeof(long)) };
	uint32_t *again = own((size_t)(size * size) * sizeof(*again));
	const uint64_t sum = checksum(picture);
	uint64_t sum_again;
	long i, rays = 0, wrong = 0;

	for (i = 0; i < procs; i++)
		rays += shared->rays_traced[i];
	procs = 1;
	for (i = 0; i < size * size; i++) {
		again[i] = pixel(&w, i % size, i / size);
		wrong += again[i] != picture[i];
	}
	sum_again = checksum(again);
	printf("test: %ld pixels wrong, checksum %016llx, alone %016llx, %ld rays, alone %ld\n", wrong,
	    (unsigned long long)sum, (unsigned long long)sum_again, rays, w.rays);
	free(again);
	free(w.tested);
	return wrong == 0 && sum == sum_again && rays == w.rays;
}

/* ------------------------------------------------------------------------------------ start-up */

static int read_option(int letter, const char *value)
{
	switch (letter) {
	case 'n': return read_whole(value, &size);
	case 'a': return read_whole(value, &samples);
	case 'l': return read_whole(value, &detail);
	case 'm': return read_whole(value, &megabytes);
	case 'i': scene_name = value; return 1;
	default: picture_file = value; wanted.result = 1; return 1;
	}
}

static void set_up(void)
{
	ROAM_NEEDS(ScC)
	if (size < 1 || size > 16384)
		usage("-n must be 1 to 16384");
	if (samples < 1 || samples > 16)
		usage("-a must be 1 to 16");
	if (detail < 1 || detail > 6)
		usage("-l must be 1 to 6");
	if (megabytes < 1 || megabytes > 16384)
		usage("-m must be 1 to 16384");
	heap_bytes = (size_t)megabytes << 20;
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	memset(shared, 0, sizeof(*shared));
	heap = (char *)G_MALLOC(heap_bytes)
	picture = (uint32_t *)G_MALLOC((size_t)(size * size) * sizeof(*picture))
	LOCKINIT(shared->ray_lock)
	ALOCKINIT(shared->pool_lock, procs)
	if (!scene_make(&shared->scene, scene_name, detail))
		usage("-i must be car or balls");
	set_camera(&shared->scene);
	make_pools();
}

static void print_times(void)
{
	long i;

	printf("%ld primitives, %zu bytes\n", shared->scene.primitives, heap_used);
	for (i = 0; i < procs; i++)
		printf("process %ld: %ld rays, %lu blocks\n", i, shared->rays_traced[i],
		    shared->jobs_done[i]);
}

/* The picture as a file, or its checksum. */
static void print_result(void)
{
	unsigned char *bytes;
	long i;

	if (picture_file == NULL) {
		printf("checksum %016llx\n", (unsigned long long)checksum(picture));
		return;
	}
	bytes = own((size_t)(3 * size * size));
	for (i = 0; i < 3 * size * size; i++)
		bytes[i] = picture[i / 3] >> (16 - 8 * (i % 3)) & 255;
	write_picture(picture_file, size, size, 3, bytes);
	free(bytes);
}

static void print_size(void)
{
	printf("%s n %ld", scene_name, size);
}
