/*
 * volrend: pictures of a volume, by rays through it, after the SPLASH-2 program.
 *
 * Main makes a cube of voxels, a head, where the suite's program reads one.  From the density the processes
 * find how much light stops at each voxel and which way its surface faces, plane by plane, and a pyramid
 * of ever larger cells that says where a ray meets nothing, with a barrier after each level.  A frame: process
 * 0 turns the head; barrier; all shade a table of normals; barrier; all cast rays; barrier; process 0 keeps
 * the frame; barrier.
 *
 * Work: blocks of 4 x 4 pixels.  Each process begins with those of a rectangle of the picture, which it
 * counts off under a lock; a process that has counted to the end goes on with the next one's.
 *
 * Sharing: the volume has a single writer of each page, but for the first and the last one of a part, and is
 * only read afterwards, along rays: coarse access.  Pages of the picture have multiple writers with
 * fine access, 4 bytes in a row; so do those of the table of normals, whose parts end at any byte.
 *
 * The layout `pages` has blocks of 16 x 16 pixels, which lie one after the other, each rectangle in pages of its
 * own: only a block that another process takes makes a second writer.  There are 16 times fewer locks.
 *
 * -p P  processes      -n N  voxels of a side      -z Z  pixels of a side
 * -r R  frames         -d D  degrees from one to the next
 * -a    adaptive: cast four rays for a block, and others only where these differ
 * -w F  write the frames side by side to the file F, as PGM
 * -s    blocks, rays and samples per process      -t  test the result     -o  print a checksum per frame
 * --layout suite|pages
 */
MAIN_ENV
include(volrend.H)

#define NAME "volrend"
#define OPTIONS "n:z:r:d:aw:sto"
#define USAGE "[-n voxels] [-z pixels] [-r frames] [-d degrees] [-a] [-w picture.pgm] [-s] [-t] [-o] " \
	"[--layout suite|pages]"
#define PAGES 1
include(main.H)

#define BLOCK 4        /* pixels of a side of a job */
#define BLOCK_PAGES 16 /* with the layout `pages` */
#define ALIKE 6        /* greys at the corners of what is not looked at more closely */
#define START 30       /* degrees of the first frame */
#define FILM_MAX (1l << 30)

/* A process's part of the picture, in blocks; its own pages begin at `first`. */
struct section {
	long x;
	long y;
	long width;
	long height;
	size_t first;
};

/* Data that the processes share, besides the volume and the pictures. */
struct shared {
	ALOCKDEC(lock, PROCS_MAX)
	long next[PROCS_MAX]; /* block of the section */
	struct view view;
	long blocks[PROCS_MAX];
	long rays[PROCS_MAX];
	long samples[PROCS_MAX];
};

/* A block of pixels, and where it lies. */
struct job {
	long x;
	long y;
	long width;
	long height;
	size_t at;
	long stride;
};

/* Private variables, set before CREATE and only read afterwards: the same in every process. */
static struct shared *shared;
static struct volume volume = { .n = 128 }; /* its arrays are shared */
static uint8_t *picture; /* shared: the frame */
static uint8_t *shade;   /* shared: of each normal */
static uint8_t *film;    /* shared: all frames, row by row */
static long size = 256, frames = 4, adaptive, block = BLOCK;
static double degrees = 3;
static const char *picture_file;
static struct section section[PROCS_MAX];

/* --------------------------------------------------------------------------------------- jobs */

static struct job job_of(const struct section *s, long k)
{
	const long x = (s->x + k % s->width) * block, y = (s->y + k / s->width) * block;
	struct job job = { .x = x, .y = y, .width = size - x < block ? size - x : block,
		.height = size - y < block ? size - y : block };

	job.at = pages ? s->first + (size_t)(k * block * block) : (size_t)(y * size + x);
	job.stride = pages ? block : size;
	return job;
}

/* A block of the own section, or of the next one that has any; 0: all are taken. */
static int take(const struct worker *w, struct job *job)
{
	long i;

	for (i = 0; i < procs; i++) {
		const long from = (w->id + i) % procs;
		const struct section *s = &section[from];
		long k;

		ALOCK(shared->lock, from)
		k = shared->next[from];
		if (k < s->width * s->height)
			shared->next[from] = k + 1;
		AULOCK(shared->lock, from)
		if (k < s->width * s->height) {
			*job = job_of(s, k);
			return 1;
		}
	}
	return 0;
}

/* ------------------------------------------------------------------------------------- casting */

/* Greys of BLOCK x BLOCK pixels and of the next ones; -1: not known. */
struct greys {
	long x;
	long y;
	long at[BLOCK + 1][BLOCK + 1];
};

static long grey(struct worker *w, struct greys *g, long x, long y)
{
	if (g->at[y][x] < 0)
		g->at[y][x] = cast(w, g->x + x, g->y + y);
	return g->at[y][x];
}

/* Fills a square between four corners, or divides it. */
static void refine(struct worker *w, struct greys *g, long x, long y, long side)
{
	const long corner[4] = { grey(w, g, x, y), grey(w, g, x + side, y), grey(w, g, x, y + side),
		grey(w, g, x + side, y + side) };
	long least = corner[0], most = corner[0], i;

	for (i = 1; i < 4; i++) {
		least = corner[i] < least ? corner[i] : least;
		most = corner[i] > most ? corner[i] : most;
	}
	if (most - least > ALIKE && side > 1) {
		for (i = 0; i < 4; i++)
			refine(w, g, x + i % 2 * side / 2, y + i / 2 * side / 2, side / 2);
		return;
	}
	for (i = 0; i < side * side; i++) {
		const long r = i / side, c = i % side;
		const long above = corner[0] * (side - c) + corner[1] * c;
		const long below = corner[2] * (side - c) + corner[3] * c;
		long *pixel = &g->at[y + r][x + c];

		if (*pixel < 0)
			*pixel = (above * (side - r) + below * r) / (side * side);
	}
}

static void cast_block(struct worker *w, const struct job *job, uint8_t *pixels)
{
	long x, y, i, k;

	for (y = 0; y < job->height; y += BLOCK)
		for (x = 0; x < job->width; x += BLOCK) {
			struct greys g = { .x = job->x + x, .y = job->y + y };

			memset(g.at, -1, sizeof(g.at));
			if (adaptive)
				refine(w, &g, 0, 0, BLOCK);
			for (i = y; i < y + BLOCK && i < job->height; i++)
				for (k = x; k < x + BLOCK && k < job->width; k++)
					pixels[i * job->stride + k] = (uint8_t)grey(w, &g, k - x, i - y);
		}
}

/* -------------------------------------------------------------------------------------- frames */

/* Copies the picture to where a frame is kept, row by row. */
static void keep(uint8_t *frame)
{
	long i, k, y;

	for (i = 0; i < procs; i++)
		for (k = 0; k < section[i].width * section[i].height; k++) {
			const struct job job = job_of(&section[i], k);

			for (y = 0; y < job.height; y++)
				memcpy(&frame[(job.y + y) * size + job.x],
				    &picture[job.at + (size_t)(y * job.stride)], (size_t)job.width);
		}
}

static void make_frame(struct worker *w, long frame)
{
	const long id = w->id;
	struct job job;

	if (id == 0)
		view_turn(&shared->view, volume.n, size, START + (double)frame * degrees);
	shared->next[id] = 0;
	if (!pages) /* as in the suite, although all pixels will be written */
		memset(&picture[first_of(size * size, id)], 0,
		    (size_t)(first_of(size * size, id + 1) - first_of(size * size, id)));
	meet();
	shade_normals(&shared->view, shade, first_of(NORMALS, id), first_of(NORMALS, id + 1));
	meet();
	while (take(w, &job)) {
		cast_block(w, &job, &picture[job.at]);
		shared->blocks[id]++;
	}
	meet();
	if (id == 0)
		keep(&film[frame * size * size]);
	meet();
}

static void fill(long id)
{
	shared->next[id] = 0;
}

static void work(long id)
{
	struct worker w = { .id = id, .volume = &volume, .view = &shared->view, .shade = shade };
	long i;

	volume_prepare(&volume, id);
	for (i = 0; i < frames; i++)
		make_frame(&w, i);
	shared->rays[id] = w.rays;
	shared->samples[id] = w.samples;
}

/* ------------------------------------------------------------------------------- verification */

static uint64_t checksum(const uint8_t *pixels)
{
	uint64_t sum = 0;
	long i;

	for (i = 0; i < size * size; i++)
		sum += noise((long)((uint64_t)pixels[i] << 32 | (uint64_t)i));
	return sum;
}

/* Memory for what is found out of the density. */
static void make_arrays(struct volume *v, void *(*allocate)(size_t bytes))
{
	const size_t voxels = (size_t)(v->n * v->n * v->n);
	long cells = v->n - 1;

	v->opacity = allocate(voxels);
	v->normal = allocate(voxels * sizeof(*v->normal));
	for (v->levels = 0; cells > 1; v->levels++) {
		cells = (cells + 1) / 2;
		v->cells[v->levels] = cells;
		v->level[v->levels] = allocate((size_t)(cells * cells * cells));
	}
}

/* Whether main alone finds what the processes have found of the volume. */
static long wrong_volume(struct volume *again)
{
	const size_t voxels = (size_t)(volume.n * volume.n * volume.n);
	long wrong = 0, k;

	make_arrays(again, own);
	volume_prepare(again, 0);
	wrong += memcmp(again->opacity, volume.opacity, voxels) != 0;
	wrong += memcmp(again->normal, volume.normal, voxels * sizeof(*volume.normal)) != 0;
	for (k = 0; k < volume.levels; k++) {
		const long n = volume.cells[k];

		wrong += memcmp(again->level[k], volume.level[k], (size_t)(n * n * n)) != 0;
	}
	return wrong;
}

static void forget(struct volume *again)
{
	long k;

	free(again->opacity);
	free(again->normal);
	for (k = 0; k < again->levels; k++)
		free(again->level[k]);
}

/* Main alone: the picture again; and some rays that skip nothing, which must find no more. */
static long wrong_pixels(struct worker *w, const uint8_t *frame, uint8_t *again)
{
	struct worker plain = *w;
	long i, x, y, wrong = 0;

	plain.every = 1;
	for (y = 0; y < size; y += block)
		for (x = 0; x < size; x += block) {
			const struct job job = { .x = x, .y = y, .stride = size,
				.width = size - x < block ? size - x : block,
				.height = size - y < block ? size - y : block };

			cast_block(w, &job, &again[y * size + x]);
			if (!adaptive)
				wrong += abs((int)cast(&plain, x, y) - again[y * size + x]) > 1;
		}
	for (i = 0; i < size * size; i++)
		wrong += again[i] != frame[i];
	return wrong;
}

/* The same volume, pictures and number of rays. */
static int verify(void)
{
	struct volume again = { .n = volume.n, .density = volume.density };
	uint8_t *pixels = own((size_t)(size * size)), *table = own(NORMALS);
	struct view view;
	struct worker w = { .volume = &again, .view = &view, .shade = table };
	long i, rays = 0, planes, wrong = 0;

	for (i = 0; i < procs; i++)
		rays += shared->rays[i];
	procs = 1;
	planes = wrong_volume(&again);
	for (i = 0; i < frames; i++) {
		view_turn(&view, volume.n, size, START + (double)i * degrees);
		shade_normals(&view, table, 0, NORMALS);
		wrong += wrong_pixels(&w, &film[i * size * size], pixels);
	}
	printf("test: %ld arrays and %ld pixels wrong, %ld rays, alone %ld\n", planes, wrong, rays, w.rays);
	forget(&again);
	free(pixels);
	free(table);
	return planes == 0 && wrong == 0 && rays == w.rays;
}

/* ------------------------------------------------------------------------------------ start-up */

static int read_option(int letter, const char *value)
{
	switch (letter) {
	case 'n': return read_whole(value, &volume.n);
	case 'z': return read_whole(value, &size);
	case 'r': return read_whole(value, &frames);
	case 'd': return read_real(value, &degrees);
	case 'a': adaptive = 1; return 1;
	default: picture_file = value; wanted.result = 1; return 1;
	}
}

static void *allocate_shared(size_t bytes)
{
	void *bytes_p = G_MALLOC(bytes)

	return bytes_p;
}

/* A grid of rectangles; the bytes that their blocks need, each rectangle's from a page boundary on. */
static size_t make_sections(void)
{
	const long across = (size + block - 1) / block;
	size_t bytes = 0;
	long rows = (long)sqrt((double)procs), id;

	while (procs % rows != 0)
		rows--;
	for (id = 0; id < procs; id++) {
		const long columns = procs / rows, x = id % columns, y = id / columns;
		struct section *s = &section[id];

		s->x = across * x / columns;
		s->width = across * (x + 1) / columns - s->x;
		s->y = across * y / rows;
		s->height = across * (y + 1) / rows - s->y;
		s->first = bytes;
		bytes += (size_t)(s->width * s->height * block * block);
		bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	}
	return bytes;
}

static void set_up(void)
{
	size_t bytes;

	ROAM_NEEDS(ScC)
	if (volume.n < 8 || volume.n > 1024)
		usage("-n must be 8 to 1024");
	if (size < 1 || size > 8192)
		usage("-z must be 1 to 8192");
	if (frames < 1 || frames > FILM_MAX / (size * size))
		usage("-r must be 1 or more, and the frames no more than 1 GB");
	block = pages ? BLOCK_PAGES : BLOCK;
	bytes = make_sections();
	shared = allocate_shared(sizeof(*shared));
	memset(shared, 0, sizeof(*shared));
	ALOCKINIT(shared->lock, procs)
	picture = page_start(allocate_shared((pages ? bytes : (size_t)(size * size)) + PAGE_BYTES));
	shade = allocate_shared(NORMALS);
	film = allocate_shared((size_t)(frames * size * size));
	volume.density = allocate_shared((size_t)(volume.n * volume.n * volume.n));
	make_arrays(&volume, allocate_shared);
	volume_fill(&volume);
}

static void print_times(void)
{
	long i;

	for (i = 0; i < procs; i++)
		printf("process %ld: %ld blocks, %ld rays, %ld samples\n", i, shared->blocks[i],
		    shared->rays[i], shared->samples[i]);
}

/* The pictures as a file, or their checksums. */
static void print_result(void)
{
	uint8_t *strip;
	long i, y;

	if (picture_file == NULL) {
		for (i = 0; i < frames; i++)
			printf("frame %ld: checksum %016llx\n", i,
			    (unsigned long long)checksum(&film[i * size * size]));
		return;
	}
	strip = own((size_t)(frames * size * size));
	for (i = 0; i < frames; i++)
		for (y = 0; y < size; y++)
			memcpy(&strip[(y * frames + i) * size], &film[(i * size + y) * size],
			    (size_t)size);
	write_picture(picture_file, frames * size, size, 1, strip);
	free(strip);
}

static void print_size(void)
{
	printf("n %ld z %ld r %ld", volume.n, size, frames);
}
