#!/usr/bin/env python3
"""Shows that the benchmarks run and that their JSON has the rows and keys of the bench contract."""
import json
import subprocess
import sys

KEYS = {"name", "protocol", "transport", "engine", "us", "p10", "p90", "floor_us", "ratio", "n",
        "goal", "met"}
ROWS = {
    "diff": {"diff_same", "diff_sparse16"},
    "rtt": {"f_udp_64", "f_udp_4k", "rtt_64", "rtt_4k", "call_64", "page_4k", "call_64_seal",
            "page_4k_seal", "call_64_encrypt", "page_4k_encrypt"},
    "stream": {"f_udp_stream", "stream"},
    "lock": {"lock_remote", "lock_remote_busy", "lock_again"},
    "fault": {"shm_rtt", "read_fetch", "read_fetch_first", "read_fetch_busy_home", "read_stream",
              "read_stride", "write_fault", "own_home_write", "release_1", "release_1_msg",
              "release_64", "release_64_scattered", "release_hot", "protect_running_thread_1",
              "protect_running_thread_64", "release_sparse"},
}


def check(program, name):
    command = [program, name, "--json", "-n", "100", "--engine", "sigsegv"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=120)
    result = json.loads(done.stdout)
    assert result["bench"] == name and result["pin"] and result["wait"], result
    assert result["machine"], "no facts of the machine"
    missing = ROWS[name] - {row["name"] for row in result["rows"]}
    assert not missing, missing
    for row in result["rows"]:
        assert KEYS <= set(row), row
        assert row["n"] > 0 and row["us"] >= 0, row
        assert row["p10"] <= row["us"] <= row["p90"], row


def main():
    program = sys.argv[1]
    for name in sorted(ROWS):
        check(program, name)
    for wrong in (["nothing"], ["diff", "-n", "0"], ["diff", "--engine", "magic"], []):
        done = subprocess.run([program] + wrong, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
        assert done.returncode in (1, 2) and done.stderr, wrong
    print("ok")


if __name__ == "__main__":
    main()
