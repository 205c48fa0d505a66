/*
 * Transactions in C++17 (roam/tx.h is the manual).  Header only.
 *
 *	roam::transaction([&] {
 *		from->money -= amount;
 *		to->money += amount;
 *	});
 *	long sum = roam::transaction([&] { return from->money + to->money; });
 *
 * The function may begin anew, at any access to the heap or instruction of the program's own code,
 * without a destructor being run: so it must have no local object whose destructor does more than
 * forget plain values, and neither may what it captures by value or returns, which is checked.  Nor
 * may it change private containers, touch the heap in a catch block, or compute there for long.
 *
 * An exception that leaves the function undoes the transaction, and goes on from
 * roam::transaction; it is not thrown by an attempt that must begin anew.  In a job of one node
 * nothing can be undone: there it ends the job.
 */
#ifndef ROAM_TX_HPP
#define ROAM_TX_HPP

#if __cplusplus < 201703L
#error "roam/tx.hpp needs C++17 or later: -std=c++17"
#else

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "roam/pastset.hpp"
#include "roam/tx.h"

namespace roam {

namespace detail {

template <class F> struct tx {
	using result = std::invoke_result_t<F &>;
	using kept = std::conditional_t<std::is_void_v<result>, bool, result>;

	static_assert(std::is_trivially_destructible_v<F>,
		      "what a transaction's function captures by value must have no destructor");
	static_assert(std::is_trivially_destructible_v<kept>,
		      "what a transaction's function returns must have no destructor");

	F *fn;
	std::optional<kept> value;
	std::exception_ptr thrown;

	void attempt()
	{
		thrown = nullptr;
		try {
			if constexpr (std::is_void_v<result>)
				(*fn)();
			else
				value.emplace((*fn)());
		} catch (...) {
			thrown = std::current_exception();
		}
		if (thrown)
			roam_tx_cancel();
	}
};

} // namespace detail

/*
 * Runs fn() as a transaction, and returns what it returns.  Within a transaction it just calls fn.
 * Errors, as roam::error: those of roam_tx.
 */
template <class F> auto transaction(F &&fn, const roam_tx_options *options = nullptr)
{
	using run = detail::tx<std::remove_reference_t<F>>;
	run one{&fn, std::nullopt, nullptr};

	if (roam_tx_inside())
		return fn();
	const roam_err err = roam_tx([](void *arg) { static_cast<run *>(arg)->attempt(); }, &one, options);
	if (err == ROAM_ECANCELED && one.thrown)
		std::rethrow_exception(one.thrown);
	if (err != ROAM_OK)
		throw error(err);
	if constexpr (!std::is_void_v<typename run::result>)
		return *one.value;
}

/* roam_tx_durable.  Errors, as roam::error: its. */
inline void durable()
{
	const roam_err err = roam_tx_durable();
	if (err != ROAM_OK)
		throw error(err);
}

/* roam_tx_retry. */
[[noreturn]] inline void retry()
{
	roam_tx_retry();
}

} // namespace roam

#endif
#endif
