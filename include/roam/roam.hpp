/*
 * The shared heap in C++17: containers in it, and locks, conditions and loops over it.  Header only;
 * roam/roam.h is the manual of what they do, docs/porting.md says how a program of threads becomes
 * one of nodes.
 *
 *	struct all { roam::mutex mutex; roam::vector<double> grid; };
 *	static all *shared = roam::make<all>();              // before the nodes exist
 *	roam::parallel(4, [] {
 *		roam::parallel_for(0, 1000, [](int i) { ... shared->grid[i] ... });
 *		std::lock_guard guard(shared->mutex);
 *	});
 *
 * What nodes share must lie in the heap, and so must all that it points to: make the object by
 * roam::make, and its containers with roam::allocator, which roam::vector and the other containers
 * here have.  Nodes must lock a container before they change it, as threads must.  A container that
 * is a local variable belongs to this node alone; only its elements are in the heap.
 *
 * Errors are roam::error; std::bad_alloc if the heap is full.
 */
#ifndef ROAM_ROAM_HPP
#define ROAM_ROAM_HPP

#if __cplusplus < 201703L
#error "roam/roam.hpp needs C++17 or later: -std=c++17"
#else

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <shared_mutex>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "roam/pastset.hpp"
#include "roam/roam.h"

namespace roam {

namespace detail {

inline void must(roam_err err)
{
	if (err != ROAM_OK)
		throw error(err);
}

/* Whether it was done; false: what `refused` says. */
inline bool done(roam_err err, roam_err refused)
{
	if (err == refused)
		return false;
	must(err);
	return true;
}

/* When a wait that begins now ends, of roam_clock_us. */
template <class Rep, class Period>
std::uint64_t until(const std::chrono::duration<Rep, Period> &time)
{
	const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();

	return roam_clock_us() + (us > 0 ? static_cast<std::uint64_t>(us) : 0);
}

} // namespace detail

/* -------------------------------------------------------------------------------------- memory */

/* Memory of the shared heap.  All are equal: any node frees what any other has allocated. */
template <class T> struct allocator {
	using value_type = T;
	using is_always_equal = std::true_type;

	static_assert(alignof(T) <= 64, "blocks of the heap are aligned to 64 bytes");

	allocator() noexcept = default;
	template <class U> allocator(const allocator<U> &) noexcept
	{
	}

	T *allocate(std::size_t count)
	{
		void *block = nullptr;

		if (count <= static_cast<std::size_t>(-1) / sizeof(T))
			block = roam_alloc(count == 0 ? 1 : count * sizeof(T));
		if (block == nullptr)
			throw std::bad_alloc();
		return static_cast<T *>(block);
	}

	void deallocate(T *block, std::size_t) noexcept
	{
		roam_free(block);
	}
};

template <class T, class U> bool operator==(const allocator<T> &, const allocator<U> &) noexcept
{
	return true;
}

template <class T, class U> bool operator!=(const allocator<T> &, const allocator<U> &) noexcept
{
	return false;
}

template <class T> using vector = std::vector<T, allocator<T>>;
template <class T> using deque = std::deque<T, allocator<T>>;
template <class T> using list = std::list<T, allocator<T>>;
template <class T, class Less = std::less<T>> using set = std::set<T, Less, allocator<T>>;
template <class K, class T, class Less = std::less<K>>
using map = std::map<K, T, Less, allocator<std::pair<const K, T>>>;
template <class T, class Hash = std::hash<T>, class Equal = std::equal_to<T>>
using unordered_set = std::unordered_set<T, Hash, Equal, allocator<T>>;
template <class K, class T, class Hash = std::hash<K>, class Equal = std::equal_to<K>>
using unordered_map = std::unordered_map<K, T, Hash, Equal, allocator<std::pair<const K, T>>>;
using string = std::basic_string<char, std::char_traits<char>, allocator<char>>;

/* An object in the heap, and its end, on any node. */
template <class T, class... Args> T *make(Args &&...args)
{
	allocator<T> from;
	T *object = from.allocate(1);

	try {
		return new (object) T(std::forward<Args>(args)...);
	} catch (...) {
		from.deallocate(object, 1);
		throw;
	}
}

template <class T> void destroy(T *object) noexcept
{
	if (object == nullptr)
		return;
	object->~T();
	allocator<T>().deallocate(object, 1);
}

/*
 * The object of this name: roam_root of roam/roam.h, with zeroes for a T.  No constructor runs, so T
 * must be a type that needs none; what needs one is made by roam::make, and pointed to.
 */
template <class T> T *root(const char *name)
{
	static_assert(std::is_trivially_copyable<T>::value && std::is_trivially_destructible<T>::value,
		      "a root is bytes: it holds pointers to containers, not containers");
	static_assert(alignof(T) <= 64, "blocks of the heap are aligned to 64 bytes");
	void *block = roam_root(name, sizeof(T), ROAM_WRITE);

	if (block == nullptr)
		throw error(roam_errno());
	return static_cast<T *>(block);
}

/* ----------------------------------------------------------------------------- synchronisation */

/*
 * A lock by its address: for std::lock_guard, std::unique_lock, std::scoped_lock.  In the heap, in a
 * static, or wherever all nodes have the same address; its byte is not used.
 */
class mutex {
public:
	constexpr mutex() noexcept = default;
	mutex(const mutex &) = delete;
	mutex &operator=(const mutex &) = delete;

	void lock()
	{
		detail::must(roam_lock(this));
	}

	void unlock()
	{
		detail::must(roam_unlock(this));
	}

	bool try_lock()
	{
		return detail::done(roam_trylock(this), ROAM_EBUSY);
	}

	template <class Rep, class Period>
	bool try_lock_for(const std::chrono::duration<Rep, Period> &time)
	{
		return detail::done(roam_lock_until(this, detail::until(time)), ROAM_ETIMEDOUT);
	}

private:
	[[maybe_unused]] char name_ = 0;
};

/* A reader-writer lock in the heap: for std::shared_lock and std::unique_lock. */
class shared_mutex {
public:
	shared_mutex() = default;
	shared_mutex(const shared_mutex &) = delete;
	shared_mutex &operator=(const shared_mutex &) = delete;

	void lock()
	{
		detail::must(roam_wrlock(&lock_));
	}

	bool try_lock()
	{
		return detail::done(roam_trywrlock(&lock_), ROAM_EBUSY);
	}

	void unlock()
	{
		detail::must(roam_rwunlock(&lock_));
	}

	void lock_shared()
	{
		detail::must(roam_rdlock(&lock_));
	}

	bool try_lock_shared()
	{
		return detail::done(roam_tryrdlock(&lock_), ROAM_EBUSY);
	}

	template <class Rep, class Period>
	bool try_lock_for(const std::chrono::duration<Rep, Period> &time)
	{
		return detail::done(roam_wrlock_until(&lock_, detail::until(time)), ROAM_ETIMEDOUT);
	}

	template <class Rep, class Period>
	bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &time)
	{
		return detail::done(roam_rdlock_until(&lock_, detail::until(time)), ROAM_ETIMEDOUT);
	}

	void unlock_shared()
	{
		detail::must(roam_rwunlock(&lock_));
	}

private:
	roam_rwlock lock_ = {};
};

class condition {
public:
	constexpr condition() noexcept = default;
	condition(const condition &) = delete;
	condition &operator=(const condition &) = delete;

	void wait(std::unique_lock<mutex> &lock)
	{
		detail::must(roam_cond_wait(this, lock.mutex()));
	}

	template <class Predicate> void wait(std::unique_lock<mutex> &lock, Predicate holds)
	{
		while (!holds())
			wait(lock);
	}

	/* What `holds` says in the end. */
	template <class Rep, class Period, class Predicate>
	bool wait_for(std::unique_lock<mutex> &lock,
		      const std::chrono::duration<Rep, Period> &time, Predicate holds)
	{
		const std::uint64_t until = detail::until(time);

		while (!holds())
			if (!detail::done(roam_cond_wait_until(this, lock.mutex(), until),
					  ROAM_ETIMEDOUT))
				return holds();
		return true;
	}

	void notify_one()
	{
		detail::must(roam_cond_signal(this));
	}

	void notify_all()
	{
		detail::must(roam_cond_broadcast(this));
	}

private:
	[[maybe_unused]] char name_ = 0;
};

/* The barrier of all nodes. */
inline void barrier()
{
	detail::must(roam_barrier_all());
}

/* -------------------------------------------------------------------------------------- nodes */

/* Runs body() on `nodes` nodes, this one included; returns here when all have ended. */
inline void parallel(unsigned nodes, void (*body)())
{
	detail::must(roam_create_all(body, nodes));
	detail::must(roam_wait_for_end());
}

/*
 * Called by all nodes: body(i) for each i in [first, last), of which each node takes one piece, in
 * order.  Ends with the barrier of all nodes.  If the bounds are of two types, such as 0 and the
 * size() of a vector, i is of their common type; a negative bound that does not fit there is
 * ROAM_EINVAL.
 */
template <class I, class J, class Body> void parallel_for(I first, J last, Body body)
{
	static_assert(std::is_integral_v<I> && std::is_integral_v<J>,
		      "the bounds of parallel_for are integers");
	using T = std::common_type_t<I, J>;

	if constexpr (std::is_unsigned_v<T>)
		if (first < I() || last < J())
			throw error(ROAM_EINVAL);
	const auto low = static_cast<std::uint64_t>(static_cast<T>(first));
	const auto high = static_cast<std::uint64_t>(static_cast<T>(last));
	const std::uint64_t count = static_cast<T>(first) < static_cast<T>(last) ? high - low : 0;
	const std::uint64_t me = roam_node(), nodes = roam_nodes();
	const std::uint64_t each = count / nodes, more = count % nodes;
	const std::uint64_t from = me * each + (me < more ? me : more);
	const std::uint64_t to = from + each + (me < more ? 1 : 0);

	for (std::uint64_t i = from; i < to; i++)
		body(static_cast<T>(low + i));
	barrier();
}

/*
 * Called by all nodes, one thread of each (with ROAM_THREADS by all): the sum of their values, at
 * each.  Also a barrier.  A double of floating point numbers, else an integer of 64 bits, signed as T
 * is.
 */
template <class T> auto sum(T value)
{
	static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8,
		      "sum is of integers, float or double");

	if constexpr (std::is_floating_point_v<T>) {
		double all = value;

		detail::must(roam_reduce(&all, 1, ROAM_DOUBLE, ROAM_SUM));
		return all;
	} else {
		auto all = static_cast<std::int64_t>(value);

		detail::must(roam_reduce(&all, 1, ROAM_INT64, ROAM_SUM));
		return static_cast<std::conditional_t<std::is_unsigned_v<T>, std::uint64_t,
						      std::int64_t>>(all);
	}
}

} // namespace roam

#endif /* C++17 */
#endif
