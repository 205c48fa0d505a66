/* parmacs-check: locks and condition variables, in a second file, for EXTERN_ENV. */
include(check.H)
EXTERN_ENV

/* Braces of all kinds: a macro stands where a statement may. */
static void add_one(struct shared *s, int way)
{
	if (way == 0)
		LOCK(s->count_lock)
	else {
		LOCK(s->count_lock);
	}
	s->count++;
	if (way == 0) {
		UNLOCK(s->count_lock)
	} else
		UNLOCK(s->count_lock);
}

void check_locks(long id)
{
	long i, k;

	expect(PAGE_SIZE == 4096, "a page has 4096 bytes");
	for (i = 0; i < 1000; i++)
		add_one(shared, (int)(i % 2));
	for (i = 0; i < 320; i++) {
		k = (i + id) % 32;
		ALOCK(shared->slot_lock, (i + id) % 32)
		shared->slot[k]++;
		AULOCK(shared->slot_lock, k);
		LOCK(AGETL(shared->slot_lock, k))
		shared->slot[k]++;
		UNLOCK(AGETL(shared->slot_lock, k));
	}
	BARRIER(shared->barrier, procs)
	expect(shared->count == shared->round * procs * 1000, "counter under a lock");
	for (i = 0; i < 32; i++)
		expect(shared->slot[i] == shared->round * procs * 20, "slots under their locks");
	expect(mark == 0x600d, "private variables set before CREATE are inherited");
	BARRIER(shared->barrier, procs)
}

/* Each waits for its predecessor's box to fill, then fills its own: a chain through all. */
static void pass_on(long id, struct box *from, struct box *to)
{
	LOCK(from->lock)
	while (from->content == 0)
		CONDVARWAIT(from->filled, from->lock)
	UNLOCK(from->lock)
	LOCK(to->lock)
	to->content = from->content + 1;
	if (id % 2 == 0)
		CONDVARSIGNAL(to->filled)
	else
		CONDVARBCAST(to->filled);
	UNLOCK(to->lock)
}

void check_conditions(long id)
{
	long i;

	if (id == 0)
		for (i = 0; i < 4; i++)
			shared->box[i].content = 0;
	BARRIER(shared->barrier, procs);
	if (id == 0) {
		LOCK(shared->box[0].lock);
		shared->box[0].content = 10;
		CONDVARBCAST(shared->box[0].filled);
		UNLOCK(shared->box[0].lock);
	} else if (id < 4) {
		pass_on(id, &shared->box[id - 1], &shared->box[id]);
	}

	/* The lock of an array, as FMM has it; all wait for the last box. */
	ALOCK(shared->slot_lock, 5)
	if (id == 0)
		shared->relay = -1;
	while (shared->relay != -1)
		CONDVARWAIT(shared->box[0].filled, AGETL(shared->slot_lock, 5));
	CONDVARBCAST(shared->box[0].filled)
	AULOCK(shared->slot_lock, 5)
	BARRIER(shared->barrier, procs);
	for (i = 0; i < 4 && i < procs; i++)
		expect(shared->box[i].content == 10 + i, "content passed from box to box");
	BARRIER(shared->barrier, procs);
}
