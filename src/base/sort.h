/* Heap sort, in place: no memory, no recursion, and nothing to do for what is sorted already. */
#ifndef ROAMI_SORT_H
#define ROAMI_SORT_H

#include <stdbool.h>
#include <stddef.h>

/* Defines static void NAME(TYPE *items, size_t count), ascending by KEY(item). */
#define ROAMI_SORT_DEFINE(NAME, TYPE, KEY)                                                  \
	static void NAME##_sift(TYPE *items, size_t at, size_t count)                       \
	{                                                                                   \
		TYPE item = items[at];                                                      \
		size_t child;                                                               \
                                                                                            \
		while ((child = 2 * at + 1) < count) {                                      \
			if (child + 1 < count && KEY(items[child]) < KEY(items[child + 1])) \
				child++;                                                    \
			if (KEY(item) >= KEY(items[child]))                                 \
				break;                                                      \
			items[at] = items[child];                                           \
			at = child;                                                         \
		}                                                                           \
		items[at] = item;                                                           \
	}                                                                                   \
	static void NAME(TYPE *items, size_t count)                                         \
	{                                                                                   \
		bool sorted = true;                                                         \
                                                                                            \
		for (size_t i = 0; i + 1 < count && sorted; i++)                            \
			sorted = KEY(items[i]) <= KEY(items[i + 1]);                        \
		if (sorted)                                                                 \
			return;                                                             \
		for (size_t i = count / 2; i-- > 0;)                                        \
			NAME##_sift(items, i, count);                                       \
		for (size_t i = count - 1; i > 0; i--) {                                    \
			TYPE item = items[0];                                               \
                                                                                            \
			items[0] = items[i];                                                \
			items[i] = item;                                                    \
			NAME##_sift(items, 0, i);                                           \
		}                                                                           \
	}

#endif
