/*
 * symbolic: the matrix, and where its factor has numbers.  The unknowns are the points of a cube; each is
 * coupled with its 26 neighbours.  They are numbered by nested dissection: two halves, then the plane that
 * separates them.
 */
EXTERN_ENV
include(cholesky.H)

struct matrix matrix;
struct panel *panels;
long panel_count;
long *panel_of;
long side = 16, width = 10;

#define SMALL 3 /* points along the longest edge of a box that is not divided */
#define RELAX 2 /* a column of a panel may have this part of its rows more than the one before it */

/* ----------------------------------------------------------------------------------- the matrix */

/* A box of points: from `low` to before `high`. */
struct part {
	long low[3];
	long high[3];
};

/* Numbers the points of a box; number[] is by place, *next_p the next number. */
static void dissect(struct part box, long *number, long *next_p)
{
	struct part half = box;
	long at[3], longest = 0, d, middle;

	for (d = 1; d < 3; d++)
		if (box.high[d] - box.low[d] > box.high[longest] - box.low[longest])
			longest = d;
	if (box.high[longest] - box.low[longest] <= SMALL) {
		for (at[0] = box.low[0]; at[0] < box.high[0]; at[0]++)
			for (at[1] = box.low[1]; at[1] < box.high[1]; at[1]++)
				for (at[2] = box.low[2]; at[2] < box.high[2]; at[2]++)
					number[(at[0] * side + at[1]) * side + at[2]] = (*next_p)++;
		return;
	}
	middle = (box.low[longest] + box.high[longest]) / 2;
	half.high[longest] = middle;
	dissect(half, number, next_p);
	half = box;
	half.low[longest] = middle + 1;
	dissect(half, number, next_p);

	/* The plane between, itself divided the other ways. */
	half = box;
	half.low[longest] = middle;
	half.high[longest] = middle + 1;
	dissect(half, number, next_p);
}

/* Calls `visit` with the numbers of each two neighbours, the larger one as the row. */
static void for_pairs(const long *number, void (*visit)(long row, long col))
{
	const long n = side * side * side;
	long i, k;

	for (i = 0; i < n; i++)
		for (k = 0; k < 27; k++) {
			const long x = i / side / side + k / 9 - 1, y = i / side % side + k / 3 % 3 - 1;
			const long z = i % side + k % 3 - 1;
			long other;

			if (x < 0 || x >= side || y < 0 || y >= side || z < 0 || z >= side)
				continue;
			other = (x * side + y) * side + z;
			if (number[other] > number[i])
				visit(number[other], number[i]);
		}
}

static long *filled; /* private to main: numbers in each column so far */

static void count_pair(long row, long col)
{
	(void)row;
	filled[col]++;
}

/* What couples two points; the diagonal outweighs the rest. */
static void put_pair(long row, long col)
{
	const double value = -0.5 - 0.5 * uniform(row * matrix.n + col);
	const long at = matrix.start[col] + filled[col]++;

	matrix.row[at] = row;
	matrix.value[at] = value;
	matrix.value[matrix.start[col]] -= value;
	matrix.value[matrix.start[row]] -= value;
}

/* The symmetric matrix, positive definite. */
void symbolic_matrix(void)
{
	const struct part all = { { 0, 0, 0 }, { side, side, side } };
	const long n = side * side * side;
	long *number = (long *)G_MALLOC((size_t)n * sizeof(*number))
	long next = 0, i;

	dissect(all, number, &next);
	filled = own((size_t)n * sizeof(*filled));
	matrix.n = n;
	matrix.start = (long *)G_MALLOC((size_t)(n + 1) * sizeof(long))
	for_pairs(number, count_pair);
	for (matrix.start[0] = 0, i = 0; i < n; i++)
		matrix.start[i + 1] = matrix.start[i] + 1 + filled[i];
	matrix.row = (long *)G_MALLOC((size_t)matrix.start[n] * sizeof(long))
	matrix.value = (double *)G_MALLOC((size_t)matrix.start[n] * sizeof(double))
	for (i = 0; i < n; i++) {
		matrix.row[matrix.start[i]] = i;
		matrix.value[matrix.start[i]] = 0.01;
		filled[i] = 1;
	}
	for_pairs(number, put_pair);
	free(filled);
	matrix.number = number;
}

/* --------------------------------------------------------------------------- rows of the factor */

/* The rows of each column of the factor, in order; the column itself comes first. */
struct column {
	long rows;
	long *row;
};

static int by_number(const void *a, const void *b)
{
	const long x = *(const long *)a, y = *(const long *)b;

	return (x > y) - (x < y);
}

/* Adds rows below `col` that are not marked with it. */
static long add_rows(const long *row, long count, long col, long *mark, long *to, long rows)
{
	long i;

	for (i = 0; i < count; i++)
		if (row[i] > col && mark[row[i]] != col) {
			mark[row[i]] = col;
			to[rows++] = row[i];
		}
	return rows;
}

/* A column has its rows of the matrix, and those of the columns whose first row below it is. */
static struct column *find_columns(void)
{
	const long n = matrix.n;
	struct column *columns = own((size_t)n * sizeof(*columns));
	long *mark = own((size_t)n * sizeof(long)), *to = own((size_t)n * sizeof(long));
	long *child = own((size_t)n * sizeof(long)), *brother = own((size_t)n * sizeof(long));
	long col, k, rows;

	for (col = 0; col < n; col++)
		mark[col] = child[col] = brother[col] = -1;
	for (col = 0; col < n; col++) {
		to[0] = col;
		rows = add_rows(matrix.row + matrix.start[col], matrix.start[col + 1] -
		    matrix.start[col], col, mark, to, 1);
		for (k = child[col]; k >= 0; k = brother[k])
			rows = add_rows(columns[k].row, columns[k].rows, col, mark, to, rows);
		qsort(to, (size_t)rows, sizeof(*to), by_number);
		columns[col].rows = rows;
		columns[col].row = own((size_t)rows * sizeof(long));
		memcpy(columns[col].row, to, (size_t)rows * sizeof(long));
		if (rows > 1) {
			brother[col] = child[to[1]];
			child[to[1]] = col;
		}
	}
	free(mark);
	free(to);
	free(child);
	free(brother);
	return columns;
}

/*
 * Whether column `col` has the rows of the one before it, but for that column itself, and not many more:
 * these become zeros of the factor that are stored.
 */
static int continues(const struct column *columns, long col)
{
	const struct column *before = &columns[col - 1];
	const long more = columns[col].rows + 1 - before->rows;

	return before->rows > 1 && before->row[1] == col && RELAX * more <= columns[col].rows;
}

/* The rows of a panel: its columns, and what the last one has below. */
static void set_rows(struct panel *panel, const struct column *last)
{
	long i;

	panel->rows = panel->width - 1 + last->rows;
	panel->row = own((size_t)panel->rows * sizeof(long));
	for (i = 0; i < panel->width - 1; i++)
		panel->row[i] = panel->first + i;
	memcpy(panel->row + i, last->row, (size_t)last->rows * sizeof(long));
}

/* Columns with the same rows, or nearly so, at most `width` of them, are a panel. */
static void find_panels(const struct column *columns)
{
	long col, k, first = 0;

	panel_of = (long *)G_MALLOC((size_t)matrix.n * sizeof(long))
	panels = (struct panel *)G_MALLOC((size_t)matrix.n * sizeof(struct panel))
	for (col = 0; col < matrix.n; col++) {
		if (col == 0 || col - first == width || !continues(columns, col)) {
			first = col;
			panels[panel_count] = (struct panel){ .first = col,
				.owner = panel_count % procs };
			panel_count++;
		}
		panels[panel_count - 1].width++;
		panel_of[col] = panel_count - 1;
	}
	for (k = 0; k < panel_count; k++)
		set_rows(&panels[k], &columns[panels[k].first + panels[k].width - 1]);
}

/* How many panels update each panel: those with a row among its columns. */
static void count_updates(void)
{
	long k, i, last;

	for (k = 0; k < panel_count; k++)
		for (last = -1, i = panels[k].width; i < panels[k].rows; i++) {
			const long to = panel_of[panels[k].row[i]];

			panels[to].updates += to != last;
			last = to;
		}
}

/* Shared memory for the numbers and the rows of each process's panels, from a page boundary on. */
static void place_panels(void)
{
	long id, k;

	for (id = 0; id < procs; id++) {
		size_t numbers = 0, rows = 0;
		double *value;
		void *block;
		long *row;

		for (k = id; k < panel_count; k += procs) {
			numbers += (size_t)(panels[k].rows * panels[k].width);
			rows += (size_t)panels[k].rows;
		}
		block = G_MALLOC(numbers * sizeof(double) + PAGE_BYTES)
		value = page_start(block);
		row = (long *)G_MALLOC((rows + 1) * sizeof(long))
		for (k = id; k < panel_count; k += procs) {
			memcpy(row, panels[k].row, (size_t)panels[k].rows * sizeof(long));
			free(panels[k].row);
			panels[k].row = row;
			panels[k].value = value;
			row += panels[k].rows;
			value += panels[k].rows * panels[k].width;
		}
	}
}

void symbolic_panels(void)
{
	struct column *columns = find_columns();
	long col;

	find_panels(columns);
	count_updates();
	place_panels();
	for (col = 0; col < matrix.n; col++)
		free(columns[col].row);
	free(columns);
}
