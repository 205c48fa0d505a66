"""Made by cdef.py from the C headers."""

VERSION = '0.1.0'
NUMBERS = {'ROAM_PS_TUPLE_MAX': 61184, 'ROAM_PS_NAME_MAX': 255, 'ROAM_PS_TEMPLATE_MAX': 511, 'ROAM_PS_FIELDS_MAX': 64, 'ROAM_PS_NESTED_MAX': 8, 'ROAM_PS_FUNCTION_MAX': 31, 'ROAM_PS_PEEK': 1, 'ROAM_PS_SKIP': 2}
CDEF = """
enum roam_err { ROAM_OK = 0, ROAM_EINVAL = 1, ROAM_ENOMEM = 2, ROAM_ENOTOURS = 3, ROAM_ENOTHELD = 4, ROAM_ENOTINIT = 5, ROAM_ENODES = 6, ROAM_ESTATE = 7, ROAM_EUNSUPPORTED = 8, ROAM_EUNKNOWN = 9, ROAM_EAGAIN = 10, ROAM_ESYSTEM = 11, ROAM_EPEER = 12, ROAM_EPROTO = 13, ROAM_ENOSPC = 14, ROAM_EGONE = 15, ROAM_ETIMEDOUT = 16, ROAM_ECANCELED = 17, ROAM_EMISMATCH = 18, ROAM_ETOOBIG = 19, ROAM_EKEY = 20, ROAM_ELOST = 21, ROAM_EBUSY = 22, ROAM_ECHECKPOINT = 23, ROAM_EREADONLY = 24 };
enum roam_access { ROAM_NONE, ROAM_READ, ROAM_WRITE };
enum roam_type { ROAM_INT32, ROAM_INT64, ROAM_DOUBLE };
enum roam_op { ROAM_SUM, ROAM_PRODUCT, ROAM_MIN, ROAM_MAX, ROAM_AND, ROAM_OR };
const char *roam_strerror(enum roam_err err);
const char *roam_version(void);
enum roam_err roam_start(void);
enum roam_err roam_finish(void);
unsigned roam_node(void);
unsigned roam_nodes(void);
enum roam_err roam_barrier_all(void);
enum roam_err roam_thread_init(void);
enum roam_err roam_thread_fini(void);
void *roam_alloc(size_t bytes);
void *roam_root(const char *name, size_t bytes, enum roam_access access);
enum roam_err roam_free(void *block);
enum roam_err roam_errno(void);
enum roam_err roam_touch(const void *addr, size_t bytes, enum roam_access access);
enum roam_err roam_lock(const void *lock);
enum roam_err roam_trylock(const void *lock);
enum roam_err roam_lock_until(const void *lock, uint64_t until_us);
enum roam_err roam_unlock(const void *lock);
enum roam_err roam_reduce(void *values, unsigned count, enum roam_type type, enum roam_op op);
uint64_t roam_clock_us(void);
struct roam_ps_cursor {
    uint8_t *begin, *at, *end;
};
void roam_ps_cursor_begin(struct roam_ps_cursor *cursor, void *tuple, size_t bytes);
enum roam_err roam_ps_cursor_end(const struct roam_ps_cursor *cursor, size_t *bytes_p);
void roam_ps_put(struct roam_ps_cursor *cursor, const void *fields, size_t bytes);
void roam_ps_get(struct roam_ps_cursor *cursor, void *fields, size_t bytes);
void roam_ps_put_items(struct roam_ps_cursor *cursor, const void *items, uint32_t count,
               size_t item_bytes);
const void *roam_ps_get_items(struct roam_ps_cursor *cursor, uint32_t *count_p, size_t item_bytes);
struct roam_ps_element;
enum roam_ps_place {
    ROAM_PS_HASH,
    ROAM_PS_CREATOR,
    ROAM_PS_NODE
};
enum roam_ps_storage {
    ROAM_PS_SERVER,
    ROAM_PS_PAGES
};
struct roam_ps_options {
    enum roam_ps_place place;
    unsigned node;
    uint64_t delta;
    bool forget;
    enum roam_ps_storage storage;
    size_t memory;
    const char *function;
    unsigned participants;
    uint64_t timeout_ns;
};
enum roam_err roam_ps_enter(const char *name, const char *template_text,
                const struct roam_ps_options *options,
                struct roam_ps_element **element_p);
void roam_ps_leave(struct roam_ps_element *element);
const char *roam_ps_template(const struct roam_ps_element *element);
unsigned roam_ps_node(const struct roam_ps_element *element);
const char *roam_ps_why(void);
struct roam_ps_server;
enum roam_err roam_ps_attach(const char *address, const char *key_file,
                 struct roam_ps_server **server_p);
enum roam_err roam_ps_serve(const char *address, const char *key_file, char *at, size_t at_bytes);
void roam_ps_detach(struct roam_ps_server *server);
enum roam_err roam_ps_enter_at(struct roam_ps_server *server, const char *name,
                   const char *template_text, const struct roam_ps_options *options,
                   struct roam_ps_element **element_p);
struct roam_ps_function {
    const char *name;
    void (*combine)(void *arg, void *sum, const void *tuple, size_t bytes);
    void *arg;
    bool (*match)(void *arg, uint64_t number, const void *pattern, size_t pattern_bytes,
              const void *tuple, size_t tuple_bytes);
};
enum roam_err roam_ps_register(const struct roam_ps_function *function);
enum roam_err roam_ps_move(struct roam_ps_element *element, const void *tuple, size_t bytes);
enum roam_err roam_ps_observe(struct roam_ps_element *element, void *tuple, size_t limit,
                  size_t *bytes_p);
enum roam_err roam_ps_mob(struct roam_ps_element *to, const void *tuple, size_t bytes,
              struct roam_ps_element *from, void *out, size_t limit, size_t *bytes_p);
enum roam_err roam_ps_delta(struct roam_ps_element *element, uint64_t delta);
enum roam_err roam_ps_truncate(struct roam_ps_element *element, uint64_t number);
struct roam_ps_state {
    uint64_t first;
    uint64_t last;
    uint64_t oldest;
    uint64_t delta;
    uint64_t bytes;
    uint64_t waiting;
};
enum roam_err roam_ps_state(struct roam_ps_element *element, struct roam_ps_state *state_p);
enum roam_ps_op {
    ROAM_PS_MOVE,
    ROAM_PS_OBSERVE,
    ROAM_PS_MOB,
    ROAM_PS_DELTA,
    ROAM_PS_TRUNCATE,
    ROAM_PS_STATE
};
enum roam_ps_which {
    ROAM_PS_FIFO,
    ROAM_PS_LAST,
    ROAM_PS_NUMBER,
    ROAM_PS_NEXT,
    ROAM_PS_MATCH
};
struct roam_ps_cancel {
    uint32_t cancelled;
};
void roam_ps_cancel(struct roam_ps_cancel *cancel);
struct roam_ps_request {
    enum roam_ps_op op;
    enum roam_ps_which which;
    unsigned flags;
    uint64_t number;
    const void *tuple;
    size_t bytes;
    struct roam_ps_element *from;
    void *buffer;
    size_t limit;
    uint64_t timeout_ns;
    struct roam_ps_cancel *cancel;
    uint64_t moved;
    uint64_t observed;
    size_t got;
    bool skipped;
    struct roam_ps_state state;
};
enum roam_err roam_ps_call(struct roam_ps_element *element, struct roam_ps_request *request);
"""
