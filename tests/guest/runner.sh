# Sourced by the scripts that verbs.py makes: runs cases, and says of each whether it was right.
failed=0
most=${GUEST_CASE_SECONDS:-60}

# What a case printed, and that it was wrong.
wrong() {
	echo "FAILED $1: $2"
	tail -n 30 /tmp/said
	failed=$((failed + 1))
}

# judge NAME STATUS PATTERN GOT: of what is in /tmp/said.
judge() {
	if [ "$4" != "$2" ]; then
		wrong "$1" "status $4, not $2"
	elif ! grep -Eq -- "$3" /tmp/said; then
		wrong "$1" "no line matches $3"
	else
		echo "ok $1 ($(($(date +%s) - began)) s)"
	fi
	[ "${keep-}" = 1 ] && cat /tmp/said
	# Nothing may stay: neither processes nor what they registered with a device.
	for i in 1 2 3 4 5 6 7 8 9 10; do
		left=$(rdma resource show qp 2>/dev/null | grep -c 'type RC')
		[ "$left" = 0 ] && return
		sleep 0.2
	done
	wrong "$1" "$left queue pairs are left"
}

# run NAME STATUS PATTERN COMMAND...
run() {
	name=$1 status=$2 pattern=$3
	shift 3
	began=$(date +%s)
	timeout -s KILL "$most" env "$@" >/tmp/said 2>&1
	judge "$name" "$status" "$pattern" $?
}

# The node whose line "ready NODE PID" a command prints; waits for all of them.
await_ready() {
	for i in $(seq 1 200); do
		[ "$(grep -c '^ready' /tmp/said)" -ge "$1" ] && return 0
		sleep 0.1
	done
	return 1
}

# while_runs NAME STATUS PATTERN NODES DO COMMAND...: DO once all nodes are ready.
while_runs() {
	name=$1 status=$2 pattern=$3 nodes=$4 action=$5
	shift 5
	began=$(date +%s)
	timeout -s KILL "$most" env "$@" >/tmp/said 2>&1 &
	job=$!
	await_ready "$nodes" || echo "never ready"
	eval "$action"
	wait $job
	judge "$name" "$status" "$pattern" $?
}

pid_of() {
	sed -n "s/^ready $1 //p" /tmp/said
}
