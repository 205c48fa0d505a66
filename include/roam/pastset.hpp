/*
 * PastSet in C++17, over roam/pastset.h, whose terms and rules apply here.  Header only.
 *
 *	roam::element<std::uint32_t, std::string, std::array<double, 3>> tasks("tasks");
 *
 *	tasks.move(7, "seven", {0.5, 1, 2});
 *	auto [number, name, place] = tasks.observe();
 *
 * The template follows from the types: integers, enumerations, float and double are numbers,
 * std::array is an array, std::vector and std::string are arrays whose length each tuple has,
 * std::pair and std::tuple are groups; all of them can be nested.
 *
 * Errors are exceptions of the class roam::error.  Operations that do not wait for ever return a
 * std::optional: those whose names end in _for give up after a time, those that begin with try_ at
 * once.
 *
 * For elements of a server to which the program attaches, see roam::server below.
 *
 * A binding is moved, not copied.  Threads may share one, but with an X-function each participant
 * has its own.
 */
#ifndef ROAM_PASTSET_HPP
#define ROAM_PASTSET_HPP

#if __cplusplus < 201703L
#error "roam/pastset.hpp needs C++17 or later: -std=c++17"
#else

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

/* A function may have the name of a struct in C; g++ -Wshadow does not like it. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include "roam/pastset.h"
#pragma GCC diagnostic pop

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tuples are little-endian");

namespace roam {

/* -------------------------------------------------------------------------------------- errors */

inline const std::error_category &category() noexcept
{
	struct texts final : std::error_category {
		const char *name() const noexcept override
		{
			return "roam";
		}
		std::string message(int value) const override
		{
			return roam_strerror(static_cast<roam_err>(value));
		}
	};
	static const texts all;

	return all;
}

class error : public std::system_error {
public:
	explicit error(roam_err err, const std::string &why = "", std::uint64_t moved = 0)
		: std::system_error(with(std::error_code(static_cast<int>(err), category()), why)),
		  moved_(moved)
	{
	}

	roam_err err() const noexcept
	{
		return static_cast<roam_err>(code().value());
	}

	/* Of a mob that ended in its second half: the number of the tuple that it moved; else 0. */
	std::uint64_t moved() const noexcept
	{
		return moved_;
	}

private:
	/* what() begins with `why`, if there is one. */
	static std::system_error with(std::error_code code, const std::string &why)
	{
		return why.empty() ? std::system_error(code) : std::system_error(code, why);
	}

	std::uint64_t moved_;
};

/* -------------------------------------------------------------------------------------- fields */

namespace detail {

struct reader {
	const std::uint8_t *at, *end;

	const std::uint8_t *take(std::size_t bytes)
	{
		const std::uint8_t *taken = at;

		if (static_cast<std::size_t>(end - at) < bytes)
			throw error(ROAM_EPROTO);
		at += bytes;
		return taken;
	}
};

/*
 * What a type is in a template.  `fixed`: bytes of it, 0 if that varies; `item`: its text without a
 * number of items, `nested` if it has one; bytes, put and get: what a value of it takes.
 */
template <class T, class Enable = void> struct field {
	static_assert(!sizeof(T), "no field: integers, enumerations, float, double, std::array, "
				  "std::vector, std::string, std::pair and std::tuple are");
};

template <class T> constexpr bool is_number()
{
	return (std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8) ||
	       std::is_same_v<T, float> || std::is_same_v<T, double>;
}

template <class T> struct field<T, std::enable_if_t<is_number<T>()>> {
	static constexpr std::size_t fixed = sizeof(T);
	static constexpr bool nested = false;

	static std::string text()
	{
		const char *kind = std::is_floating_point_v<T> ? "f"
				   : std::is_signed_v<T>       ? "i"
							       : "u";

		return kind + std::to_string(8 * sizeof(T));
	}
	static std::size_t bytes(const T &)
	{
		return sizeof(T);
	}
	static std::uint8_t *put(std::uint8_t *at, const T &value)
	{
		std::memcpy(at, &value, sizeof(T));
		return at + sizeof(T);
	}
	static void get(reader &from, T &value)
	{
		std::memcpy(&value, from.take(sizeof(T)), sizeof(T));
	}
};

template <class T> struct field<T, std::enable_if_t<std::is_enum_v<T>>> {
	using whole = std::underlying_type_t<T>;
	static constexpr std::size_t fixed = sizeof(T);
	static constexpr bool nested = false;

	static std::string text()
	{
		return field<whole>::text();
	}
	static std::size_t bytes(const T &)
	{
		return sizeof(T);
	}
	static std::uint8_t *put(std::uint8_t *at, const T &value)
	{
		return field<whole>::put(at, static_cast<whole>(value));
	}
	static void get(reader &from, T &value)
	{
		whole got;

		field<whole>::get(from, got);
		value = static_cast<T>(got);
	}
};

/* Items in a row, which the containers have in common. */
template <class T> struct items {
	static std::string text(const std::string &count)
	{
		std::string one = field<T>::text();

		return (field<T>::nested ? "(" + one + ")" : one) + "[" + count + "]";
	}
	template <class C> static std::size_t bytes(const C &values)
	{
		std::size_t sum = 0;

		if constexpr (field<T>::fixed != 0)
			return values.size() * field<T>::fixed;
		for (const T &value : values)
			sum += field<T>::bytes(value);
		return sum;
	}
	template <class C> static std::uint8_t *put(std::uint8_t *at, const C &values)
	{
		if constexpr (is_number<T>()) {
			if (!values.empty())
				std::memcpy(at, values.data(), values.size() * sizeof(T));
			return at + values.size() * sizeof(T);
		} else {
			for (const T &value : values)
				at = field<T>::put(at, value);
			return at;
		}
	}
	template <class C> static void get(reader &from, C &values)
	{
		if constexpr (is_number<T>()) {
			if (!values.empty())
				std::memcpy(values.data(), from.take(values.size() * sizeof(T)),
					    values.size() * sizeof(T));
		} else {
			for (T &value : values)
				field<T>::get(from, value);
		}
	}
};

template <class T, std::size_t N> struct field<std::array<T, N>> : items<T> {
	static_assert(N > 0, "an array has at least one item");
	static constexpr std::size_t fixed = N * field<T>::fixed;
	static constexpr bool nested = true;

	static std::string text()
	{
		return items<T>::text(std::to_string(N));
	}
};

/* A count, then the items: std::vector and std::string. */
template <class C> struct counted {
	using item = typename C::value_type;
	static constexpr std::size_t fixed = 0;
	static constexpr bool nested = true;

	static std::string text()
	{
		return items<item>::text("");
	}
	static std::size_t bytes(const C &values)
	{
		return sizeof(std::uint32_t) + items<item>::bytes(values);
	}
	static std::uint8_t *put(std::uint8_t *at, const C &values)
	{
		at = field<std::uint32_t>::put(at, static_cast<std::uint32_t>(values.size()));
		return items<item>::put(at, values);
	}
	static void get(reader &from, C &values)
	{
		std::uint32_t count;

		field<std::uint32_t>::get(from, count);
		if (count > static_cast<std::size_t>(from.end - from.at)) /* a byte each at least */
			throw error(ROAM_EPROTO);
		values.resize(count);
		items<item>::get(from, values);
	}
};

template <class T> struct field<std::vector<T>> : counted<std::vector<T>> {
	static_assert(!std::is_same_v<T, bool>, "a bool is no field");
};

/* Bytes. */
template <> struct field<std::string> : counted<std::string> {
	static std::string text()
	{
		return "u8[]";
	}
};

/* One after the other: tuples, and groups in them. */
template <class... T> struct fields {
	static_assert(sizeof...(T) > 0, "a template has a field");
	static constexpr bool is_fixed = ((field<T>::fixed != 0) && ...);
	static constexpr std::size_t fixed = is_fixed ? (field<T>::fixed + ...) : 0;

	static std::string text()
	{
		std::string all;

		((all += (all.empty() ? "" : ",") + field<T>::text()), ...);
		return all;
	}
	static std::size_t bytes(const T &...values)
	{
		return (field<T>::bytes(values) + ...);
	}
	static std::uint8_t *put(std::uint8_t *at, const T &...values)
	{
		((at = field<T>::put(at, values)), ...);
		return at;
	}
	static void get(reader &from, T &...values)
	{
		(field<T>::get(from, values), ...);
	}
};

template <class G, class... T> struct group {
	static constexpr std::size_t fixed = fields<T...>::fixed;
	static constexpr bool nested = false;

	static std::string text()
	{
		return "(" + fields<T...>::text() + ")";
	}
	static std::size_t bytes(const G &value)
	{
		return std::apply(fields<T...>::bytes, value);
	}
	static std::uint8_t *put(std::uint8_t *at, const G &value)
	{
		return std::apply(
			[at](const T &...values) { return fields<T...>::put(at, values...); },
			value);
	}
	static void get(reader &from, G &value)
	{
		std::apply([&from](T &...values) { fields<T...>::get(from, values...); }, value);
	}
};

template <class... T> struct field<std::tuple<T...>> : group<std::tuple<T...>, T...> {
};
template <class T, class U> struct field<std::pair<T, U>> : group<std::pair<T, U>, T, U> {
};

inline std::uint64_t timeout(std::chrono::nanoseconds time)
{
	return time.count() <= 0 ? ROAM_PS_TRY : static_cast<std::uint64_t>(time.count());
}

} /* namespace detail */

/* ------------------------------------------------------------------------ what operations take */

/* Properties of a new element: roam::options().on(2).delta(10). */
class options {
public:
	options &here() /* at the node that enters it first, or that serves the program which does */
	{
		options_.place = ROAM_PS_CREATOR;
		return *this;
	}
	options &on(unsigned node)
	{
		options_.place = ROAM_PS_NODE;
		options_.node = node;
		return *this;
	}
	options &delta(std::uint64_t most)
	{
		options_.delta = most;
		return *this;
	}
	options &forget() /* observed tuples make room for new ones */
	{
		options_.forget = true;
		return *this;
	}
	options &in_pages(std::size_t memory = 0)
	{
		options_.storage = ROAM_PS_PAGES;
		options_.memory = memory;
		return *this;
	}
	options &function(std::string name, unsigned participants = 0)
	{
		function_ = std::move(name);
		options_.participants = participants;
		return *this;
	}
	/* The time in which a server must answer roam_ps_enter_at; 10 s by default. */
	options &within(std::chrono::nanoseconds time)
	{
		options_.timeout_ns = detail::timeout(time);
		return *this;
	}
	roam_ps_options c() const
	{
		roam_ps_options made = options_;

		made.function = function_.empty() ? nullptr : function_.c_str();
		return made;
	}

private:
	roam_ps_options options_ = {};
	std::string function_;
};

/* The tuple that an observe reads: roam::number(7), roam::newest().skip(), roam::after(n).peek(). */
class order {
public:
	explicit order(roam_ps_which which_one = ROAM_PS_FIFO, std::uint64_t of_number = 0)
		: which(which_one), number(of_number)
	{
	}
	order &peek() /* does not tag it */
	{
		flags |= ROAM_PS_PEEK;
		return *this;
	}
	order &skip() /* of the newest: tags all older ones too */
	{
		flags |= ROAM_PS_SKIP;
		return *this;
	}

	roam_ps_which which;
	std::uint64_t number;
	unsigned flags = 0;
};

inline order oldest() /* that has not been observed: what observe() reads */
{
	return order();
}
inline order newest()
{
	return order(ROAM_PS_LAST);
}
inline order number(std::uint64_t wanted)
{
	return order(ROAM_PS_NUMBER, wanted);
}
inline order after(std::uint64_t last)
{
	return order(ROAM_PS_NEXT, last);
}

/* Ends waiting operations, and later ones: see element::cancelled_by. */
class canceller {
public:
	canceller() = default;
	canceller(const canceller &) = delete;
	canceller &operator=(const canceller &) = delete;
	void cancel()
	{
		roam_ps_cancel(&cancel_);
	}

private:
	template <class... T> friend class element;
	struct roam_ps_cancel cancel_ = {};
};

/* A tuple that was observed: a std::tuple with further members. */
template <class... T> struct observed : std::tuple<T...> {
	std::uint64_t number = 0;
	bool skipped = false; /* roam::after: tuples in between have been truncated */
	std::uint64_t moved = 0; /* by mob: the number of the tuple that it moved */
};

/*
 * A server to which the program is attached: roam::element<int> tasks(server, "tasks").  Elements
 * may outlive this object; their operations fail then.
 */
class server {
public:
	/* Attaches like roam_ps_attach; without `key_file` the key is in the file of ROAM_PS_KEY. */
	explicit server(const std::string &address, const std::string &key_file = "")
	{
		roam_ps_server *made = nullptr;
		roam_err err = roam_ps_attach(address.c_str(),
					      key_file.empty() ? nullptr : key_file.c_str(), &made);

		if (err != ROAM_OK)
			throw error(err, roam_ps_why());
		server_.reset(made);
	}

	/* For roam/pastset.h.  Never NULL. */
	roam_ps_server *c() const
	{
		return server_.get();
	}

private:
	struct detach {
		void operator()(roam_ps_server *server) const
		{
			roam_ps_detach(server);
		}
	};

	std::unique_ptr<roam_ps_server, detach> server_;
};

/*
 * Lets programs attach to this node of a job, as roam_ps_serve does; returns the address for them.
 */
inline std::string serve(const std::string &address, const std::string &key_file = "")
{
	char at[300];
	roam_err err = roam_ps_serve(address.c_str(), key_file.empty() ? nullptr : key_file.c_str(),
				     at, sizeof(at));

	if (err != ROAM_OK)
		throw error(err, roam_ps_why());
	return at;
}

/* ------------------------------------------------------------------------------------- element */

template <class... T> class element {
public:
	using tuple = std::tuple<T...>;

	/* The template's text. */
	static const std::string &text()
	{
		static const std::string all = detail::fields<T...>::text();

		return all;
	}

	/* Binds to the element with this name, as roam_ps_enter does. */
	explicit element(const std::string &name, const options &made_like = {})
	{
		const roam_ps_options wanted = made_like.c();
		roam_ps_element *made = nullptr;
		roam_err err = roam_ps_enter(name.c_str(), text().c_str(), &wanted, &made);

		bound(err, made);
	}
	/* Binds to an element of a server, as roam_ps_enter_at does. */
	element(const server &at, const std::string &name, const options &made_like = {})
	{
		const roam_ps_options wanted = made_like.c();
		roam_ps_element *made = nullptr;
		roam_err err = roam_ps_enter_at(at.c(), name.c_str(), text().c_str(), &wanted,
						&made);

		bound(err, made);
	}

	/* Appends a tuple; returns its number. */
	std::uint64_t move(const T &...values)
	{
		return *do_move(0, values...);
	}
	std::uint64_t move(const tuple &values)
	{
		return std::apply([this](const T &...each) { return move(each...); }, values);
	}
	std::optional<std::uint64_t> move_for(std::chrono::nanoseconds time, const T &...values)
	{
		return do_move(detail::timeout(time), values...);
	}
	std::optional<std::uint64_t> try_move(const T &...values)
	{
		return do_move(ROAM_PS_TRY, values...);
	}

	observed<T...> observe(const order &which = order())
	{
		return *do_observe(0, which);
	}
	std::optional<observed<T...>> observe_for(std::chrono::nanoseconds time,
						  const order &which = order())
	{
		return do_observe(detail::timeout(time), which);
	}
	std::optional<observed<T...>> try_observe(const order &which = order())
	{
		return do_observe(ROAM_PS_TRY, which);
	}

	/*
	 * In an element with the function "match", or a program's own filter: the oldest unobserved
	 * tuple that matches these values in those of the outermost fields whose bits are set in
	 * `fields`, bit 0 for the first one; a program's filter gets `fields` as any number.
	 */
	observed<T...> observe_like(std::uint64_t fields, const T &...values)
	{
		return *do_like(0, fields, values...);
	}
	std::optional<observed<T...>> observe_like_for(std::chrono::nanoseconds time,
						       std::uint64_t fields, const T &...values)
	{
		return do_like(detail::timeout(time), fields, values...);
	}
	std::optional<observed<T...>> try_observe_like(std::uint64_t fields, const T &...values)
	{
		return do_like(ROAM_PS_TRY, fields, values...);
	}

	/*
	 * Moves a tuple to this element, then observes one of `from`, or of this element.  When the
	 * time is up, error::err is ROAM_ETIMEDOUT, and error::moved says whether the tuple was
	 * moved.
	 */
	template <class... U> observed<U...> mob(element<U...> &from, const T &...values)
	{
		return do_mob(0, from, values...);
	}
	observed<T...> mob(const T &...values)
	{
		return do_mob(0, *this, values...);
	}
	template <class... U>
	observed<U...> mob_for(std::chrono::nanoseconds time, element<U...> &from,
			       const T &...values)
	{
		return do_mob(detail::timeout(time), from, values...);
	}

	void delta(std::uint64_t most)
	{
		must(roam_ps_delta(element_.get(), most));
	}
	/* Removes all tuples with lower numbers; without a number all tuples. */
	void truncate(std::uint64_t number = std::numeric_limits<std::uint64_t>::max())
	{
		must(roam_ps_truncate(element_.get(), number));
	}
	struct roam_ps_state state() const
	{
		struct roam_ps_state now;

		must(roam_ps_state(element_.get(), &now));
		return now;
	}
	/* The node at which the element lives. */
	unsigned node() const
	{
		return roam_ps_node(element_.get());
	}

	/* `by` ends the operations of this binding that begin from now on; NULL: nothing does. */
	void cancelled_by(canceller *by)
	{
		cancel_ = by != nullptr ? &by->cancel_ : nullptr;
	}

	/* For roam/pastset.h.  Never NULL. */
	roam_ps_element *c() const
	{
		return element_.get();
	}

private:
	template <class... U> friend class element;
	using all = detail::fields<T...>;
	static_assert(all::fixed <= ROAM_PS_TUPLE_MAX, "the tuple is too large");

	struct leave {
		void operator()(roam_ps_element *element) const
		{
			roam_ps_leave(element);
		}
	};

	/* A tuple's bytes: on the stack, unless they vary. */
	struct buffer {
		explicit buffer(std::size_t size) : bytes(size)
		{
			if constexpr (!all::is_fixed)
				far.reset(new std::uint8_t[size]);
		}
		std::uint8_t *data()
		{
			if constexpr (all::is_fixed)
				return near.data();
			else
				return far.get();
		}

		std::size_t bytes;
		std::array<std::uint8_t, all::is_fixed ? all::fixed : 1> near;
		std::unique_ptr<std::uint8_t[]> far;
	};
	static constexpr std::size_t limit = all::is_fixed ? all::fixed : ROAM_PS_TUPLE_MAX;

	void bound(roam_err err, roam_ps_element *made)
	{
		if (err != ROAM_OK)
			throw error(err, roam_ps_why());
		element_.reset(made);
	}

	static void must(roam_err err)
	{
		if (err != ROAM_OK)
			throw error(err);
	}

	/* false: the time is up. */
	bool call(roam_ps_request &request)
	{
		roam_err err;

		request.cancel = cancel_;
		err = roam_ps_call(element_.get(), &request);
		if (err == ROAM_ETIMEDOUT)
			return false;
		if (err != ROAM_OK)
			throw error(err, "", request.moved);
		return true;
	}

	static observed<T...> taken(buffer &from, const roam_ps_request &request)
	{
		detail::reader reader = {from.data(), from.data() + request.got};
		observed<T...> got;

		std::apply([&reader](T &...values) { all::get(reader, values...); },
			   static_cast<tuple &>(got));
		got.number = request.observed;
		got.skipped = request.skipped;
		got.moved = request.moved;
		return got;
	}

	std::optional<std::uint64_t> do_move(std::uint64_t timeout_ns, const T &...values)
	{
		buffer room(all::bytes(values...));
		roam_ps_request request = {};

		all::put(room.data(), values...);
		request.op = ROAM_PS_MOVE;
		request.tuple = room.data();
		request.bytes = room.bytes;
		request.timeout_ns = timeout_ns;
		return call(request) ? std::optional(request.moved) : std::nullopt;
	}

	/* What the request says by now. */
	std::optional<observed<T...>> do_request(std::uint64_t timeout_ns, roam_ps_request &request)
	{
		buffer room(limit);

		request.op = ROAM_PS_OBSERVE;
		request.buffer = room.data();
		request.limit = limit;
		request.timeout_ns = timeout_ns;
		return call(request) ? std::optional(taken(room, request)) : std::nullopt;
	}

	std::optional<observed<T...>> do_observe(std::uint64_t timeout_ns, const order &which)
	{
		roam_ps_request request = {};

		request.which = which.which;
		request.number = which.number;
		request.flags = which.flags;
		return do_request(timeout_ns, request);
	}

	std::optional<observed<T...>> do_like(std::uint64_t timeout_ns, std::uint64_t fields,
					      const T &...values)
	{
		buffer pattern(all::bytes(values...));
		roam_ps_request request = {};

		all::put(pattern.data(), values...);
		request.which = ROAM_PS_MATCH;
		request.number = fields;
		request.tuple = pattern.data();
		request.bytes = pattern.bytes;
		return do_request(timeout_ns, request);
	}

	template <class... U>
	observed<U...> do_mob(std::uint64_t timeout_ns, element<U...> &from, const T &...values)
	{
		typename element<U...>::buffer in(element<U...>::limit);
		buffer room(all::bytes(values...));
		roam_ps_request request = {};

		all::put(room.data(), values...);
		request.op = ROAM_PS_MOB;
		request.tuple = room.data();
		request.bytes = room.bytes;
		request.from = from.element_.get();
		request.buffer = in.data();
		request.limit = in.bytes;
		request.timeout_ns = timeout_ns;
		if (!call(request))
			throw error(ROAM_ETIMEDOUT, "", request.moved);
		return element<U...>::taken(in, request);
	}

	std::unique_ptr<roam_ps_element, leave> element_;
	struct roam_ps_cancel *cancel_ = nullptr;
};

} /* namespace roam */

/* auto [a, b] = element.observe(); */
template <class... T>
struct std::tuple_size<roam::observed<T...>> : std::tuple_size<std::tuple<T...>> {
};
template <std::size_t I, class... T>
struct std::tuple_element<I, roam::observed<T...>> : std::tuple_element<I, std::tuple<T...>> {
};

#endif /* C++17 */
#endif
