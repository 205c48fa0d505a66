"""What the rules of tests/tidy.py must refuse, and what they must not: `tests/tidy.py --self-test`."""

# Files that the rules read.
INDEX = "tests/index.txt"
ALLOW = "tests/tidy_allow.txt"
RULES = "docs/rules.md"
UNPROVED = "## Rules without a mutant"
PICTURE = "docs/architecture.md"

# A tree in which no rule finds anything.
GOOD = {
    "src/os/os.h": "/* The room keeps no rule. */\nint roami_os_pin(unsigned cpu);\n",
    "src/os/os.c": '#include "os/os.h"\n\nstatic const char *const names[] = {"a", "b"};\n'
                   "static const int table[2] = {1, 2};\n"
                   "int roami_os_pin(unsigned cpu)\n{\n\tstatic const int zero = 0;\n\n"
                   "\treturn zero + (int)cpu;\n}\n",
    "src/base/node.h": '#include "os/os.h"\n#include "roam/protocol.h"\n'
                       "struct roami_node {\n\tint me;\n\tint (*fn)(void);\n};\n"
                       "extern int roami_shared;\n",
    "src/base/node_state.h": "/* Of a node; internal to src/base.\n * The room keeps\n * rule 6.4. */\n",
    "src/base/marks_state.h": "/* Of blocks; internal to src/base, but for what tests change. */\n",
    "src/base/marks.c": '#include "base/marks_state.h"\n#include "base/node_state.h"\n',
    "src/base/node.c": '#include "base/node.h"\n#include "protocols.def"\n'
                       "static struct roami_node *roami_default;\nstatic __thread int depth;\n"
                       "enum { ROAMI_A, ROAMI_B };\n"
                       "typedef int (*node_fn)(void);\n"
                       "__attribute__((noreturn)) static void node_fail(void);\n",
    "src/home/reach.h": "/* The home room keeps rules 6.4 and 6.5. */\n",
    "src/home/reach_near.c": '#include "base/node.h"\n/* A peer that is roami_near. */\n'
                             "static int loads(struct roami_node *node, unsigned peer)\n{\n"
                             "\treturn node->segments[peer].base != NULL && node->reach[peer] == &roami_reach_near;\n}\n",
    "src/fault/soft.c": '#include "os/os.h"\n/* no malloc() here */\n',
    "src/transport/shm.c": '#include "roam/transport.h"\n#include "os/os.h"\n',
    "src/transport/sim.c": '#include "roam/transport.h"\n',
    "src/stats/stats.c": '#include "os/os.h"\n#include <stdio.h>\n',
    "include/roam/roam.h": '#ifdef __cplusplus\nextern "C" {\n#endif\nint roam_node(void);\n'
                           "#ifdef __cplusplus\n}\n#endif\n",
    "include/roam/protocol.h": '#include "roam/roam.h"\n',
    "include/roam/transport.h": '#include "roam/roam.h"\n',
    "protocols/hlrc.c": '#include "home.h"\n\n#include <string.h>\n'
                        "const struct roam_protocol roami_protocol_hlrc = {\n\t.name = \"hlrc\",\n};\n",
    "protocols/home.c": '#include "home.h"\n',
    "protocols/home.h": '#include "roam/protocol.h"\n',
    "protocols/protocols.def.in": "@protocols@\n",
    "protocols/meson.build": "protocols = ['hlrc']\nprotocol_sources = files('home.c')\n",
    "src/meson.build": "files('base/marks.c', 'base/node.c', 'home/reach_near.c', 'os/os.c', 'stats/stats.c')\n",
    "src/transport/meson.build": "transports = ['shm']\n",
    "src/fault/meson.build": "fault_engines = ['soft']\n",
    "bench/floor_fault.c": '#include <sys/mman.h>\n#include "floor.h"\n',
    "bench/floor.h": "#include <stdint.h>\n",
    "apps/hello/hello.c": '#include <roam/roam.h>\n',
    "tests/meson.build": "unit_tests = ['diff']\nexecutable('x', '../src/transport/sim.c')\n",
    "tests/unit/diff_test.c": '#include "base/marks_state.h"\n#include "base/node.h"\n',
    "tests/mutants/late.mutant": "Breaks rules 6.4 and 6.5.\n \nsrc/os/os.c roami_os_pin\n-return zero + (int)cpu;\n+\n",
    PICTURE: "## Rooms\n\n```\nhome  x\nmsg\nbase\nfault\nstats\ntransport\nos\n```\n",
    RULES: "## 6. Homes\n4. x\n5. y\n6. z\n\n" + UNPROVED + "\n| 6.6 | because |\n",
    ALLOW: "# path name reason\nsrc/base/node.c roami_default the node behind the public API\n"
           "src/base/node.c depth each thread's own\n",
}


def returns(value):
    """A function that returns a value, on its line 3."""
    return f"int f(void)\n{{\n\treturn {value};\n}}\n"


LONG_FUNCTION = "int roami_long(void)\n{\n" + "\tstep();\n" * 67 + "\treturn 0;\n}\n"

# Rule, file, contents, line at which it must fire.
BAD = [
    ("columns", "src/os/a.h", "/* " + "x" * 98 + " */\n", 1),
    ("columns", "tests/lib/a.h", "\n\t\t/* " + "x" * 80 + " */\n", 2),
    ("columns", "CHANGELOG.md", "- " + "x" * 119 + "\n", 1),
    ("space", "docs/a.md", "fine\nnot \n", 2),
    ("who", "docs/a.md", "A node.\n\nWho asks waits.\n\nIs it?\n", 3),
    ("who", "docs/a.md", "See a.b. Who\nasks for 1.5 pages waits.\n", 1),
    ("who", "include/roam/a.h", "/*\n * A node. Who\n * asks waits. Which?\n */\n", 2),
    ("who", "tools/a.c", returns('say("Who asks waits.")'), 3),
    ("who", "tools/a.py", '"""A tool.\n\nWho asks waits."""\n', 3),
    ("who", "tools/a.sh", "true\nfalse # Who asks waits\n", 2),
    ("who", "include/roam/a.h", "/*\n * A node, so that\n * who asks waits.\n */\n", 3),
    ("he", "docs/a.md", "A node\nknows its pages.\nAnd he\nwaits.\n", 3),
    ("he", "include/roam/a.h", "int f(void); /* himself */\n", 1),
    ("he", "tools/a.py", "he = 1\nname = f'of {he} and his'  # nothing\n", 2),
    ("he", "src/base/options.def", 'X("b", "What the node sends him.")\n', 1),
    ("stops", "include/roam/a.h", "/* A node..  It\n * waits. */\n", 1),
    ("stops", "docs/a.md", "Seeds 1..9 wait\nfor it..\n", 2),
    ("file", "src/home/a.h", "\n" * 801, 801),
    ("file", "protocols/a.h", "\n" * 601, 601),
    ("function", "src/home/a.h", "\n/* comment */\n" + LONG_FUNCTION, 3),
    ("function", "protocols/home.c",
     "\n" + LONG_FUNCTION.replace("int roami_long(void)", "static int\nf(int a,\n  int b)"), 2),
    ("mutable", "src/home/a.h", "\nstatic int counter;\n", 2),
    ("mutable", "src/home/a.h", "_Atomic(uint32_t) counter = 1;\n", 1),
    ("mutable", "src/home/a.h", "static const char *name = \"x\";\n", 1),
    ("mutable", "src/home/a.h", "struct { int x; } counters[4] = {{1}, {2}};\n", 1),
    ("mutable", "src/home/a.h", "static void (*hook)(int);\n", 1),
    ("mutable", "src/home/a.h", "static __thread unsigned number; /* x */\n", 1),
    ("mutable", "src/home/a.h", "static struct node *a, *const b = 0;\n", 1),
    ("mutable", "src/home/a.h", "static int a __attribute__((tls_model(\"x\")));\n", 1),
    ("mutable", "src/home/a.h", "MACRO(x, y)\n\nint counter;\n", 3),
    ("mutable", "protocols/home.c", "static int f(void)\n{\n\tstatic int n = 0;\n\treturn n++;\n}\n", 3),
    ("own", "src/base/node.c", GOOD["src/base/node.c"].replace("__thread ", ""), 4),
    ("allow", ALLOW, GOOD[ALLOW] + "src/base/node.c gone no longer there\n", 4),
    ("allow", ALLOW, GOOD[ALLOW] + "src/base/node.c roami_default\n", 4),
    ("include", "src/os/a.h", '#include "base/node.h"\n', 1),
    ("include", "src/os/a.h", '#include "roam/roam.h"\n', 1),
    ("include", "src/os/a.h", '#include "../base/node.h"\n', 1),
    ("include", "src/os/a.h", '#include "nowhere.h"\n', 1),
    ("include", "src/stats/a.h", '\n#include "base/node.h"\n', 2),
    ("include", "src/transport/shm.c", '#include "base/node.h"\n', 1),
    ("include", "src/transport/shm.c", '#include <roam/protocol.h>\n', 1),
    ("include", "src/fault/soft.c", '#include "base/node.h"\n', 1),
    ("include", "src/home/a.h", '#include "../transport/shm.c"\n', 1),
    ("include", "src/home/a.h", '#include "home.h"\n', 1),
    ("include", "src/base/a.h", '#include "home/a.h"\n', 1),
    ("include", "src/strange/a.h", '#include <stdint.h>\n', 1),
    ("include", "protocols/home.c", '#include <stdlib.h>\n', 1),
    ("include", "protocols/home.c", '#include "base/node.h"\n', 1),
    ("include", "protocols/home.h", '#include <pthread.h>\n', 1),
    ("include", "bench/floor_fault.c", '#include <roam/roam.h>\n', 1),
    ("include", "bench/floor_fault.c", '#include "os/os.h"\n', 1),
    ("include", "bench/floor.h", '#include "roam/protocol.h"\n', 1),
    ("include", "apps/hello/hello.c", '#include "base/node.h"\n', 1),
    ("path", "src/home/a.h", '/* see ' + '/wo' + 'rk/x */\n', 1),
    ("path", "tools/x.sh", 'cd /root/x\n', 1),
    ("path", "tests/lib/a.h", '/* ' + '/fa' + 'rm/x */\n', 1),
    ("path", "src/home/a.h", '#define LOG "/tmp/log"\n', 1),
    ("quiet", "src/fault/soft.c", "#include <stdio.h>\n", 1),
    ("quiet", "src/fault/soft.c", returns("malloc(4) != 0"), 3),
    ("quiet", "src/fault/soft.c", "void f(void)\n{\n\tdprintf(2, \"x\");\n}\n", 3),
    ("quiet", "protocols/home.c", "void f(void)\n{\n\tprintf(\"x\");\n}\n", 3),
    ("reach", "src/home/a.h", returns("roami_near(node, 0)"), 3),
    ("reach", "src/home/a.h", returns("!manager_near(node, 0)"), 3),
    ("reach", "src/home/a.h", returns("node->segments[peer].base == NULL"), 3),
    ("reach", "src/home/a.h", "int f(void)\n{\n\n\treturn roami_reach_far.word(node, 0, op);\n}\n", 4),
    ("kept", "src/home/reach.h", "/* The way to a home. */\n", 1),
    ("kept", "src/base/node_state.h", "/* Of a node; internal to src/base, which keeps it. */\n", None),
    ("reach", "src/home/a.h", returns("roami_reach_ctl(node, peer)"), 3),
    ("reach", "src/home/a.h", returns("roami_reach_choose(node, a, b) == a"), 3),
    ("reach", "src/home/a.h", returns("!roami_reach_told(node, peer)"), 3),
    ("reach", "src/home/a.h", returns("home_of(node)->near_all"), 3),
    ("reach", "src/home/a.h", returns("home_of(node)->records"), 3),
    ("reach", "src/home/a.h", returns("params->near >> peer & 1"), 3),
    ("reach", "src/home/a.h", "int f(void)\n{\n\tif (node->segments[peer].base)\n\t\treturn 1;\n}\n", 3),
    ("state", "src/home/near.c", '#include "base/node_state.h"\n', 1),
    ("state", "tests/unit/near_test.c", '#include "base/node_state.h"\n', 1),
    ("state", "bench/near.c", '#include "base/marks_state.h"\n', 1),
    ("reach", "protocols/home.c", returns("node->reach[home] != other"), 3),
    ("descriptor", "src/os/a.h", returns("open(\"x\", 0)"), 3),
    ("descriptor", "src/os/a.h", returns("(int)syscall(SYS_userfaultfd, 0)"), 3),
    ("central", "src/msg/a.h", "\nenum roami_message_type {\n\tA,\n};\n", 2),
    ("central", "src/home/a.h", "enum roami_msg { A };\n", 1),
    ("central", "src/home/a.h", "void roami_hlrc_fetch(void);\n", 1),
    ("mutant", "tests/mutants/a.mutant", "src/os/os.c roami_os_pin\n-return zero + (int)cpu;\n+\n", 1),
    ("mutant", "tests/mutants/a.mutant", "Rule 6.4.\n\nsrc/os/os.c roami_os_pin\n-return 1;\n+\n", 1),
    ("mutant", "tests/mutants/a.mutant", "Rule 6.4.\n\nsrc/os/other.c\n-return 1;\n+\n", 1),
    ("rule", "src/home/a.h", "\n/* rule 6.7 */\n", 2),
    ("rule", "src/home/a.h", "/* (rules 6.4,\n * 6.5 and 7.1) */\n", 1),
    ("rule", "src/home/a.h", "/* (rule\n * 12) */\n", 1),
    ("unproved", RULES, GOOD[RULES].replace("6. z", "6. z\n7. new"), 1),
    ("unproved", RULES, GOOD[RULES] + "| 6.4 | it has one |\n", 1),
    ("transport", "src/base/a.h", "\nint f(void)\n{\n\treturn find(\"shm\");\n}\n", 4),
    ("transport", "tools/a.c", returns("say(\"runs over shm: %d\")"), 3),
    ("transport", "src/msg/a.h", "int f(struct o *o)\n{\n\treturn o->shm;\n}\n", 3),
    ("transport", "src/home/a.h", "extern const struct roam_transport roami_transport_shm;\n", 1),
    ("unfinished", "src/home/a.h", "\n/* TODO: all */\n", 2),
    ("unfinished", "docs/a.md", "FIXME\n", 1),
    ("unfinished", "tests/lib/a.h", "/* XXX */\n", 1),
    ("list", "protocols/new.c", "", 1),
    ("list", "protocols/meson.build", "protocols = ['hlrc', 'ivy']\nfiles('home.c')\n", 1),
    ("list", "protocols/meson.build", "protocols = ['hlrc']\n", None),
    ("list", "src/transport/udp.c", "", 1),
    ("list", "src/fault/uffd.c", "", 1),
    ("list", "src/home/dead.c", "", 1),
    ("list", "tests/unit/page_test.c", "", 1),
    ("naming", "tests/unit/diff_test.c", '/* hlrc */\nint f(void)\n{\n\treturn is("a hlrc-rc b");\n}\n', 4),
    ("naming", "tests/multi/teams.py", '"""hlrc"""\nNAMES = [\n    f"{x},hlrc"]\n', 3),
    ("naming", "tests/multi/meson.build", "# 'hlrc'\nargs : ['--protocol', 'hlrc']\n", 2),
    ("naming", "docs/meson.build", "foreach name : ['hlrc']\n", 1),
    ("naming", "tests/unit/options_test.c", "int f(void);\n", None),
    ("index", INDEX, "# of\nsrc/core/no.c: a\n", 2),
    ("index", INDEX, "src/base/node.c: a\n", 1),
]

# What must not be refused.
FINE = [
    ("docs/a.md", "A node is *it*, not *he*.\n"),
    ("docs/a.md", "Who is there?\n\nThe node who asks, whose page it is. Who then\nwaits for a\nreply? The rest.\n"),
    ("include/roam/a.h", "/* Who asks?\n * The other. */\nint he(int his);\n"),
    ("tools/a.py", "he = his  # Who asks for it: us?\n"),
    ("src/home/a.h", "/* " + "x" * 94 + " */\n"),
    ("src/home/a.h", LONG_FUNCTION.replace("\tstep();\n", "", 1)),
    ("src/home/a.h", "static const struct x *const list[] = {0};\nextern int a;\nint f(int b);\n"
                     "struct s {\n\tint mutable_looking;\n};\nint *g(void), *h(void);\n"),
    ("src/home/a.h", "static inline int f(int a)\n{\n\tint b = 1;\n\n\treturn a = b;\n}\n"
                     "_Static_assert(sizeof(int) == 4, \"int; x = 1;\");\n"),
    ("src/home/a.h", "char path[] = \"/tmp/roam-XXXXXX\";\n".replace("char", "static const char")),
    ("src/home/a.h", "#define A(x) \\\n\tstatic int x;\n/* static int y; */\nint f(void);\n"),
    ("src/home/a.h", "#define A 1 /* goes on\n * static int x; */\nint f(void);\n"),
    ("src/home/a.h", "enum roami_memory { ROAMI_MEMORY_FETCH };\n"),
    ("src/home/a.h", "void f(void)\n{\n\tif (a)\n\t\tb();\n}\nstruct x g(struct y (*h)(int));\n"),
    ("protocols/home.c", "/* calls no malloc() */\nvoid f(void)\n{\n\troami_free(\"malloc(1)\");\n}\n"),
    ("src/transport/shm.c", "const struct roam_transport roami_transport_shm = {\n\t.name = \"shm\",\n};\n"),
    ("src/base/a.h", "/* shm */\nint f(void)\n{\n\treturn open_shm(\"/dev/shmem\");\n}\n"),
    ("src/fault/soft.c", "#include <stdio.h>\nvoid f(void)\n{\n\tsnprintf(a, 1, \"x\");\n}\n"),
    ("src/os/a.h", "int f(void)\n{\n\treturn roami_os_fd((int)memfd_create(\"x\", 0)) + "
                   "roami_os_fd(\n\t\tsocket(1, 2, 3)) + way->open(1);\n}\n"),
    ("src/os/a.h", '/*\n#include "base/node.h"\n*/\n'),
    ("tests/unit/diff_test.c", "int f(int hlrc)\n{\n\treturn is('\"', \"hlrc_fetch jump-hlrc\"); /* \"hlrc\" */\n}\n"),
    ("tests/multi/teams.py", 'def f():\n    """Of hlrc."""\n    return "hlrcs", 1  # "hlrc"\n'),
]
