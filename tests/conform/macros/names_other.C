/* The second file of names. */
include(names.H)
EXTERN_ENV

void other_file(long times)
{
	while (times-- > 0) {
		LOCK(shared->lock)
		shared->other += PAGE_SIZE / 4096;
		UNLOCK(shared->lock)
	}
}
