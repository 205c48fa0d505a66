#!/usr/bin/env python3
"""Shows that the benchmarks run and that their JSON has the rows and keys of the bench contract."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0:0] = [os.path.join(HERE, "..", "tests", "multi"), os.path.join(HERE, "..", "tools", "compare")]
from bpf import links, links_of  # noqa: E402, pylint: disable=wrong-import-position
from processes import session_pids  # noqa: E402, pylint: disable=wrong-import-position

DEBIAN = "/usr/bin/python3"  # which has the distribution's matplotlib
KEYS = {"name", "protocol", "transport", "engine", "us", "p10", "p90", "floor_us", "ratio", "n",
        "goal", "met"}
ROWS = {
    "diff": {"diff_same", "diff_sparse16"},
    "rtt": {"f_udp_64", "f_udp_4k", "rtt_64", "rtt_4k", "call_64", "page_4k", "call_64_seal",
            "page_4k_seal", "call_64_encrypt", "page_4k_encrypt"},
    "stream": {"f_udp_stream", "stream"},
    "past": {"move_local_1", "observe_local_31k", "move_remote_1", "observe_remote_1k",
             "move_remote_1_p99", "pingpong_ll", "pingpong_lr", "pingpong_rr", "pages_vs_server_31k", "pages_vs_server_crossover",
             "load_operation", "load_p99", "load_cpu",
             "load_lost_of_1000"},
    "tx": {"tx_read_1", "tx_read_64", "tx_write_1", "tx_write_1_copy", "tx_write_1_alone", "tx_token", "tx_fetch",
           "tx_disjoint_2", "tx_disjoint_2_pages", "tx_map_2", "tx_map_2_pages", "tx_map_2_hlrc", "tx_test_ta_1", "tx_test_ta_8"},
    "lock": {"lock_remote", "lock_remote_busy", "lock_again", "lock_mate_1x2", "lock_mate_1x2_asleep",
             "lock_mate_2x2", "lock_mate_2x2_asleep"},
    "fault": {"shm_rtt", "read_fetch", "read_fetch_first", "read_fetch_busy_home", "read_stream",
              "read_stride", "write_fault", "own_home_write", "release_1", "release_1_msg",
              "release_64", "release_64_scattered", "release_hot", "protect_running_thread_1",
              "protect_running_thread_64", "release_sparse", "sc_read_fault"},
}
# Rows against peers, and the peer that may be missing; then a note says so.
PEERS = {"redis": {"pingpong_vs_redis_1", "pingpong_vs_redis_1k", "pingpong_vs_redis_31k",
                   "move_vs_redis_1"},
         "mpi_2": {"allreduce_2_vs_mpi", "reduce_2_vs_mpi"}, "mpi_4": {"allreduce_4_vs_mpi"},
         "mpi_tcp_2": {"allreduce_2_udp_vs_mpi_tcp"}}
# Rows of protocols that a build may lack; then a note says so.
OPTIONAL = {"jump_migration"}
# The protocol of all rows that name none, and one that sends messages for a page.
DEFAULT, MESSAGES = sys.argv[2:4]


def run(program, name, *options, **env):
    """The rows, and the text on standard error."""
    command = [program, name, "--json", "-n", "100", "--engine", "sigsegv", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True,
                          timeout=120, env={**os.environ, "ROAM_PROTOCOL": MESSAGES, **env})
    result = json.loads(done.stdout)
    assert result["bench"] == name and result["pin"] and result["wait"], result
    assert result["machine"], "no facts of the machine"
    return result, done.stderr.decode()


def check_latency(program):
    """Its rows are a table of their own: every way that works here, with sound numbers."""
    done = subprocess.run([program, "latency", "--json", "-n", "20", "--only", "32 adaptive"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, timeout=120)
    result = json.loads(done.stdout)
    rows = {row["name"]: row for row in result["rows"]}
    ways = {"tcp", "udp", "unix", "roam/udp", "sealed udp", "roam/shm"}
    if "raw frames left out" not in done.stderr.decode():
        ways |= {"packet socket", "packet ring", "roam/packet", "sealed packet"}
        if "AF_XDP left out" not in done.stderr.decode():
            ways |= {"xdp socket", "roam/xdp", "sealed xdp"}
        if "tc programs left out" not in done.stderr.decode():
            ways.add("to kernel")
        if "XDP programs left out" not in done.stderr.decode():
            ways.add("to interrupt")
    assert set(rows) == ways, (set(rows), done.stderr)
    assert result["bench"] == "latency" and result["trips"] == 20, result
    for row in rows.values():
        assert 0 < row["shortest"] <= row["min"] <= row["average"] <= row["max"] <= row["longest"], row
        assert row["shortest"] <= row["p50"] <= row["p99"] <= row["longest"], row
        assert row["n"] == 100 and row["bytes"] == 32 and row["wait"] == "adaptive", row
    assert rows["udp"]["theirs"]["average"] == 141, rows["udp"]
    check_latency_inside(program, ways)
    check_latency_goals(program)
    check_latency_busy(program)


def check_latency_goals(program):
    """The shares that the goals are of, of what was measured; other sizes."""
    done = subprocess.run([program, "latency", "--json", "-n", "20", "--sizes", "64,100", "--only", "udp"],
                          stdout=subprocess.PIPE, check=True, timeout=120)
    result = json.loads(done.stdout)
    assert {row["bytes"] for row in result["rows"]} == {64, 100}, result
    goals = {goal["name"]: goal for goal in result["goals"]}
    assert set(goals) == {f"{way}, {size} bytes: adaptive by the better"
                          for way in ("roam/udp", "sealed udp") for size in (64, 100)}, goals
    assert all(goal["ratio"] > 0 and goal["limit"] == 1.1 for goal in goals.values()), goals


def check_latency_busy(program):
    """Rows beside which the processor that answers multiplies matrices."""
    done = subprocess.run([program, "latency", "--json", "-n", "20", "--busy", "--sizes", "32",
                           "--only", "cp 32 blocking"],
                          stdout=subprocess.PIPE, check=True, timeout=120)
    result = json.loads(done.stdout)
    row, = result["rows"]
    assert result["alone_us"] > 0 and row["work"] > .5 and row["per_s"] > 0 and row["n"] > 0, result
    assert row["theirs"]["per_s"] == 3494 and row["theirs"]["average"] == 286, row


def check_latency_inside(program, ways):
    """Frames that programs in the kernel send to and fro, and that nothing stays of them after SIGKILL."""
    inside = {"kernel": 67, "interrupt": 54}
    wanted = {name for name in inside if f"to {name}" in ways}
    if not wanted:
        return
    done = subprocess.run([program, "latency", "--json", "-n", "20", "--only", " none"],
                          stdout=subprocess.PIPE, check=True, timeout=120)
    rows = {(row["name"], row["bytes"]): row for row in json.loads(done.stdout)["rows"]}
    assert set(rows) == {(name, size) for name in wanted for size in (32, 64, 1024, 4096)}, set(rows)
    for name in wanted:
        row = rows[name, 32]
        assert row["theirs"]["average"] == inside[name] and row["n"] == 100, row
        assert 0 < row["shortest"] <= row["p50"] <= row["longest"] and row["min"] <= row["max"], row
    with tempfile.TemporaryDirectory(prefix="roam-bench-") as place, \
            subprocess.Popen([program, "latency", "-n", "60000", "--only", "to "], stdout=subprocess.DEVNULL,
                             env={**os.environ, "TMPDIR": place}, start_new_session=True) as bench:
        # The bench tries first, with one link, whether a program can be attached; both sides of a row have one.
        made = await_links(lambda: links_of(session_pids(bench.pid)), lambda own: len(own) > 1)
        bench.kill()
    await_links(lambda: made & links(), lambda left: not left)


def await_links(look, right):
    for _ in range(1000):
        found = look()
        if right(found):
            return found
        time.sleep(.01)
    raise AssertionError(f"links of BPF: {found}")


def check(program, name):
    result, said = run(program, name)
    assert "a process ended" not in said, said
    names = {row["name"] for row in result["rows"]}
    assert not ROWS[name] - names, ROWS[name] - names
    for row in OPTIONAL if name == "fault" else ():
        note = rf"roam bench: {row} left out: no protocol \w+ in this build"
        assert (row in names) != (re.search(note, said) is not None), (row, said)
    for peer, rows in PEERS.items() if name == "past" else ():
        missing = f"roam bench: {peer} left out: there was no " in said
        assert (rows <= names) != missing, (peer, said)
    for row in result["rows"]:
        assert KEYS <= set(row), row
        assert row["n"] > 0 and row["us"] >= 0, row
        assert row["p10"] <= row["us"] <= row["p90"], row


def check_series(program):
    """Each row's samples in their order; the picture that is made of them."""
    with tempfile.TemporaryDirectory(prefix="roam-bench-") as place:
        moves, picture = os.path.join(place, "moves.json"), os.path.join(place, "moves.png")
        result, _ = run(program, "past", "--only", "move_", "--series", moves)
        with open(moves, encoding="utf-8") as file:
            series = {(name, variant): us for name, variant, us in map(json.loads, file)}
        for row in result["rows"]:
            us = series.get((row["name"], row.get("variant", "")))
            assert us is None or len(us) == row["n"] and min(us) <= row["us"] <= max(us), row
        assert ("move_remote_31k", "asleep") in series, series.keys()
        waits = os.path.join(HERE, "waits.py")
        subprocess.run([DEBIAN if os.path.exists(DEBIAN) else sys.executable, waits, moves, picture],
                       check=True)
        with open(picture, "rb") as file:
            assert file.read(4) == b"\x89PNG"


def check_protocols(program):
    """The same rows under two protocols: one reads another node's memory, one sends messages."""
    asked = ["--protocol", MESSAGES]
    for protocol, options in ((DEFAULT, []), (MESSAGES, asked)):
        result, _ = run(program, "fault", "--only", "fetch", *options)
        rows = {row["name"]: row for row in result["rows"]}
        fetch = rows["read_fetch"]
        assert fetch["protocol"] == protocol and rows["f_get"]["protocol"] is None, fetch
        assert (fetch["messages"] > 0.9) == (protocol == MESSAGES), fetch
        assert (fetch["met"] is None) == (protocol == MESSAGES), fetch
    result, said = run(program, "fault", "--only", "sc_read", *asked)
    rows = [row for row in result["rows"] if row["name"] == "sc_read_fault"]
    assert [row["protocol"] for row in rows] == [MESSAGES] and "left out" not in said, (rows, said)
    assert rows[0]["met"] is not None and rows[0]["messages"] > 0.9, rows
    for name, row in (("lock", "lock_again"), ("barrier", "barrier_4")):
        result, _ = run(program, name, *asked, "--only", row)
        assert [found["protocol"] for found in result["rows"] if found["name"] == row] == [MESSAGES], \
            result


def check_save(program):
    """A quarter of the bytes is enough; nothing is left of them."""
    with tempfile.TemporaryDirectory(prefix="roam-bench-") as place:
        result, _ = run(program, "save", "--only", "256m", TMPDIR=place)
        rows = {row["name"]: row for row in result["rows"]}
        assert set(rows) == {"save_256m", "load_256m"} and not os.listdir(place), rows
        assert all(row["ratio"] > 0 for row in rows.values()), rows


def check_store(program):
    """Nothing is left of it."""
    with tempfile.TemporaryDirectory(prefix="roam-bench-") as place:
        result, said = run(program, "store", "-n", "10", TMPDIR=place)
        rows = {row["name"]: row for row in result["rows"]}
        assert not os.listdir(place) and "left out" not in said, (os.listdir(place), said)
        assert set(rows) == {"store_commit_1", "store_commit_32", "store_commit_32_each", "store_commit_32_log", "store_recover",
                             "store_recover_cached", "store_tx_group", "store_tx_each", "store_tx_each_sync"}, rows
        assert all(row["ratio"] > 0 for row in rows.values()), rows
        assert rows["store_commit_32"]["us"] < rows["store_commit_1"]["us"], rows
        assert rows["store_tx_group"]["us"] < rows["store_tx_each"]["us"], rows


def check_hosts(program):
    """Runs the kernels between hosts; needs root, the command ip and the programs."""
    build = os.path.dirname(os.path.dirname(os.path.abspath(program)))
    if os.geteuid() != 0 or shutil.which("ip") is None or \
            not os.path.exists(os.path.join(build, "apps", "fft")):
        return
    script = os.path.join(HERE, "hosts.py")
    done = subprocess.run([script, "--build", build, "--runs", "1", "fft -m20"], check=True,
                          stdout=subprocess.PIPE, timeout=60)
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 2 and lines[1].startswith("fft -m20 "), lines
    assert float(lines[1].split()[4]) > 0, lines


def main():
    program = sys.argv[1]
    for name in sorted(ROWS):
        check(program, name)
    check_protocols(program)
    check_series(program)
    check_save(program)
    check_store(program)
    check_hosts(program)
    check_latency(program)
    for wrong in (["nothing"], ["diff", "-n", "0"], ["diff", "--engine", "magic"], [],
                  ["fault", "--protocol", "nosuch"], ["latency", "--mtu", "100"], ["diff", "--protocol", DEFAULT]):
        done = subprocess.run([program] + wrong, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
        assert done.returncode in (1, 2) and done.stderr, wrong
    print("ok")


if __name__ == "__main__":
    main()
