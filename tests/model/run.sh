#!/bin/bash
#
# Checks the Spin models of the page header protocol, of sleep and wake, of a lock's word (rule 9.4)
# and of protocols: the models as they are must hold in every interleaving, each mutant must be
# found.  One line for each run, two at a time.  Needs spin and gcc; exit status 0: all as expected.
#
#	tests/model/run.sh [word ...]	only the runs whose line has one of the words
#	DEEP=1 tests/model/run.sh	also the search of minutes ("large"), and those too large for
#					memory: states are known by three bits, so some are missed;
#					minutes, and 1 GiB, each
#	KEEP=dir tests/model/run.sh	keeps the outputs and the trails (spin -t) there

here=$(cd "$(dirname "$0")" && pwd)

# expected	model	switches
runs() {
	cat <<'END'
holds	header	-DFETCHERS=2 -DINTERVALS=2 -DWRITES=2 -DBURST=1
holds	header	-DFETCHERS=1 -DINTERVALS=4 -DWRITES=4
found	header	-DFETCHERS=1 -DINTERVALS=3 -DWRITES=3 -DMUTANT_HOME_FENCE
found	header	-DFETCHERS=1 -DINTERVALS=3 -DWRITES=3 -DMUTANT_FETCH_FENCE
found	header	-DFETCHERS=1 -DINTERVALS=3 -DWRITES=3 -DMUTANT_LATE_VERSION
found	header	-DFETCHERS=1 -DINTERVALS=3 -DWRITES=3 -DMUTANT_BUMP_FIRST
found	header	-DFETCHERS=1 -DINTERVALS=3 -DWRITES=3 -DMUTANT_NO_RECHECK
found	header	-DFETCHERS=2 -DINTERVALS=2 -DWRITES=2 -DMUTANT_NO_GENERATION
found	header	-DFETCHERS=1 -DINTERVALS=3 -DWRITES=3 -DMUTANT_LATE_SHARED
found	header	-DFETCHERS=1 -DINTERVALS=3 -DWRITES=3 -DMUTANT_NO_NEED
found	header	-DFETCHERS=1 -DINTERVALS=3 -DWRITES=3 -DMUTANT_NO_PROTECT
found	header	-DFETCHERS=2 -DINTERVALS=2 -DWRITES=2 -DMUTANT_FLAG_FIRST
holds	ring	-DWAITERS=2 -DMESSAGES=2
holds	ring	-DSENDERS=2 -DMESSAGES=1
holds	ring	-DMESSAGES=1 -DHEAD_FIRST
holds	ring	-DMESSAGES=2 -DNO_SERVICE_FENCE
holds	ring	-DMESSAGES=2 -DLIVENESS
found	ring	-DMESSAGES=2 -DMUTANT_SEND_FENCE
found	ring	-DMESSAGES=1 -DHEAD_FIRST -DMUTANT_HANDLED_FENCE
found	ring	-DMESSAGES=2 -DMUTANT_SLEEP_CHECK
found	ring	-DMESSAGES=2 -DMUTANT_SLEEP_CONDITION
found	ring	-DMESSAGES=2 -DMUTANT_SERVICE_CHECK
found	ring	-DMESSAGES=2 -DMUTANT_LEAVE_CHECK
found	ring	-DMESSAGES=2 -DMUTANT_LATE_BELL
found	ring	-DMESSAGES=2 -DMUTANT_NO_BELL
holds	lock	-DNODES=2 -DTHREADS=2 -DTURNS=1
holds	lock	-DNODES=2 -DTURNS=2 -DDUE
holds	lock	-DNODES=2 -DTURNS=1 -DGIVES_UP -DDUE
holds	lock	-DNODES=3 -DTURNS=1 -DGIVES_UP
holds	lock	-DNODES=3 -DTURNS=1 -DDUE
holds	lock	-DNODES=2 -DTURNS=2 -DDUE -DNAPS
holds	lock	-DNODES=3 -DTURNS=1 -DNAPS
found	lock	-DNODES=2 -DMUTANT_LATE_CLOCK
found	lock	-DNODES=2 -DMUTANT_NO_LEARN
found	lock	-DNODES=2 -DMUTANT_NO_WAIT
found	lock	-DNODES=2 -DMUTANT_EARLY_FREE
found	lock	-DNODES=2 -DMUTANT_STALE_WORD
found	lock	-DNODES=2 -DMUTANT_NO_CALL
found	lock	-DNODES=2 -DMUTANT_CALLED_ASLEEP
found	lock	-DNODES=2 -DMUTANT_ASLEEP_AT_ONCE
found	lock	-DNODES=3 -DTURNS=1 -DGIVES_UP -DMUTANT_PLACE_KEPT
found	lock	-DNODES=3 -DTURNS=1 -DGIVES_UP -DMUTANT_LEFT_UNTOLD
found	lock	-DNODES=3 -DTURNS=1 -DGIVES_UP -DMUTANT_STAYS_UNCALLED
found	lock	-DNODES=2 -DDUE -DMUTANT_NOT_DUE
found	lock	-DNODES=2 -DNAPS -DMUTANT_NAPS_ON
holds	ivy	-DOPS=2
holds	ivy	-DOPS=2 -DFIXED
holds	ivy	-DOPS=1 -DEVICT -DSHORT
holds	ivy	-DNODES=2 -DOPS=3 -DEVICT -DSHORT
holds	ivy	-DOPS=1 -DSHORT -DTRIES=1
holds	ivy	-DOPS=1 -DSHORT -DTRIES=1 -DFIXED
holds	ivy	-DNODES=2 -DOPS=3 -DEVICT -DSHORT -DTRIES=2
found	ivy	-DOPS=1 -DEVICT -DMUTANT_OVERTAKEN
found	ivy	-DOPS=2 -DMUTANT_WRITES_ON
found	ivy	-DOPS=2 -DMUTANT_FORGOTTEN
found	ivy	-DOPS=2 -DFIXED -DMUTANT_FORGOTTEN
found	ivy	-DOPS=2 -DMUTANT_EARLY_WRITE
found	ivy	-DOPS=2 -DMUTANT_INVALIDATE_WAITS
found	ivy	-DOPS=2 -DEVICT -DMUTANT_SILENT_EVICTION
found	ivy	-DOPS=2 -DMUTANT_NOT_KEPT
found	ivy	-DNODES=2 -DOPS=1 -DSHORT -DTRIES=1 -DMUTANT_SAME_STAY
holds	hlrc	-DOPS=2 -DOTHERS=1
holds	hlrc	-DNODES=2 -DTHREADS=2 -DOPS=1 -DOTHERS=2
found	hlrc	-DOPS=1 -DMUTANT_EARLY_NOTICE
found	hlrc	-DOPS=2 -DMUTANT_HAVE_JUMPS
found	hlrc	-DOPS=2 -DMUTANT_LATE_VERSION
found	hlrc	-DOPS=2 -DMUTANT_WHOLE_PAGE
found	hlrc	-DNODES=2 -DTHREADS=2 -DOPS=2 -DOTHERS=1 -DMUTANT_DIRTY_DROPPED
found	hlrc	-DNODES=2 -DTHREADS=2 -DOPS=1 -DOTHERS=2 -DMUTANT_NO_NEED
found	hlrc	-DNODES=2 -DTHREADS=2 -DOPS=2 -DMUTANT_CLOCK_FIRST
holds	jump	-DOPS=1
holds	jump	-DNODES=2 -DOPS=2
holds	jump	-DNODES=2 -DOPS=2 -DASKS -DPUTS
holds	jump	-DOPS=2 -DOTHERS=1
large	jump	-DOPS=1 -DOTHERS=2
deep	jump	-DOPS=2
deep	hlrc	-DOPS=2
found	jump	-DOPS=1 -DMUTANT_TWO_HOMES
found	jump	-DOPS=1 -DMUTANT_NOT_KEPT
found	jump	-DOPS=2 -DOTHERS=1 -DMUTANT_NOT_OWED
found	jump	-DOPS=1 -DMUTANT_DIFF_DROPPED
found	jump	-DOPS=1 -DMUTANT_EARLY_NOTICE
found	jump	-DOPS=1 -DMUTANT_VERSION_ANEW
found	jump	-DOPS=2 -DOTHERS=1 -DASKS -DMUTANT_STALE_WRITER
found	jump	-DNODES=2 -DOPS=2 -DASKS -DMUTANT_HOME_DIRTY
found	jump	-DOPS=2 -DOTHERS=1 -DPUTS -DMUTANT_NOT_PINNED
holds	plurix	-DOPS=1
holds	plurix	-DNODES=2 -DOPS=3
holds	plurix	-DOPS=1 -DBY_PAGES
holds	plurix	-DNODES=2 -DOPS=3 -DBY_PAGES
found	plurix	-DOPS=1 -DBY_PAGES -DMUTANT_AT_ONCE
found	plurix	-DOPS=1 -DBY_PAGES -DMUTANT_SERVED_EARLY
found	plurix	-DOPS=1 -DBY_PAGES -DMUTANT_LOSS_UNSEEN
found	plurix	-DOPS=1 -DMUTANT_SERVED_EARLY
found	plurix	-DOPS=1 -DMUTANT_LOSS_UNSEEN
found	plurix	-DNODES=2 -DOPS=2 -DMUTANT_GOES_ON
found	plurix	-DNODES=2 -DOPS=1 -DMUTANT_LENT_OPEN
found	plurix	-DOPS=1 -DMUTANT_COPIES_KEPT
found	plurix	-DOPS=1 -DMUTANT_OVERTAKEN
found	plurix	-DOPS=1 -DMUTANT_TWO_COMMIT
found	plurix	-DOPS=1 -DMUTANT_TOKEN_KEPT
END
}

# Runs one line in a directory of its own; prints what came of it.
check() {
	local expected=$1 model=$2 dir=$4 result cflags="-DSAFETY" flags="-E" start=$SECONDS states
	local wrong='assertion violated' limit=400 store=
	local -a switches
	read -ra switches <<<"$3"

	if [[ $3 == *LIVENESS* ]]; then
		cflags="-DNFAIR=4" flags="-a -f"
	elif [[ $3 == *TRIES* ]]; then
		cflags="-DNP" flags="-l" wrong='non-progress cycle'
	fi
	if [[ $expected == deep ]]; then
		store=-DBITSTATE flags+=" -w33" limit=1800
	elif [[ $expected == large ]]; then
		store=-DCOLLAPSE
	fi
	rm -f "$dir/passed"
	mkdir -p "$dir" && cp "$here"/*.pml "$dir" && cd "$dir" || return
	result="broken"
	# To optimise a protocol's model takes longer (jump's 12 s) than its search is shortened (by 2 s).
	[[ $expected == deep || $expected == large ]] && cflags="-O2 $cflags"
	[[ $expected == holds && $model =~ ^(header|ring|lock)$ ]] && cflags="-O1 $cflags"
	# shellcheck disable=SC2086
	if spin -a "${switches[@]}" "$model.pml" >out 2>&1 &&
		gcc -w $cflags $store -DVECTORSZ=512 -DMEMLIM=6000 -o pan pan.c >>out 2>&1; then
		timeout $limit ./pan $flags -m100000 >>out 2>&1
		if grep -Eq 'max search depth too small|Search not completed|out of memory' out &&
			! grep -q "pan:1: $wrong" out; then
			result="cut short"
		elif grep -q 'errors: 0$' out; then
			result=${expected/found/holds}
		elif grep -q "pan:1: $wrong" out && [[ -s $model.pml.trail ]]; then
			result="found"
		fi
	fi
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' out)
	if [[ $result == "$expected" ]]; then
		printf 'ok    %-6s %s %s: %s states, %d s\n' "$model" "$expected" "$3" \
			"${states:-?}" $((SECONDS - start))
		touch passed
		return
	fi
	printf 'FAIL  %-6s %s, expected %s: %s\n' "$model" "$result" "$expected" "$3"
	grep -E 'errors:|rror: |violated|non-progress|too small|out of memory' out | head -5
}

if ! command -v spin >/dev/null; then
	echo "FAIL  spin is not installed: apt-get install spin" >&2
	exit 1
fi

work=${KEEP:-$(mktemp -d)} || exit 1
mkdir -p "$work" && work=$(cd "$work" && pwd) || exit 1
[[ -n ${KEEP:-} ]] || trap 'rm -rf "$work"' EXIT
count=0
while IFS=$'\t' read -r expected model switches; do
	line="$expected $model $switches"
	[[ $expected != @(deep|large) || -n ${DEEP:-} ]] || continue
	if (($# > 0)); then
		wanted=0
		for word in "$@"; do
			[[ $line == *"$word"* ]] && wanted=1
		done
		((wanted)) || continue
	fi
	(($(jobs -rp | wc -l) < 2)) || wait -n
	count=$((count + 1))
	(check "$expected" "$model" "$switches" "$work/$count") &
done < <(runs)
wait
passed=$(find "$work" -name passed | wc -l)
echo "$passed passed, $((count - passed)) failed"
((count > 0 && passed == count))
