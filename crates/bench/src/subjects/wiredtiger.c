/* Buckets of rows in a B-tree of WiredTiger: what the Rust side cannot call, since WiredTiger's methods are macros. */

#include <stdlib.h>
#include <wiredtiger.h>

typedef struct {
    WT_CONNECTION *connection;
    WT_SESSION *session;
    WT_CURSOR *cursor;
} buckets;

int buckets_open(const char *dir, const char *config, buckets **opened) {
    buckets *b = calloc(1, sizeof *b);
    *opened = b;
    int error = wiredtiger_open(dir, NULL, config, &b->connection);
    if (!error) error = b->connection->open_session(b->connection, NULL, NULL, &b->session);
    if (!error) error = b->session->create(b->session, "table:buckets", "key_format=q,value_format=u");
    if (!error) error = b->session->open_cursor(b->session, "table:buckets", NULL, NULL, &b->cursor);
    return error;
}

void buckets_close(buckets *b) {
    if (b->connection) b->connection->close(b->connection, NULL);
    free(b);
}

int buckets_begin(buckets *b) { return b->session->begin_transaction(b->session, NULL); }
int buckets_commit(buckets *b) { return b->session->commit_transaction(b->session, "sync=on"); }
int buckets_checkpoint(buckets *b) { return b->session->checkpoint(b->session, NULL); }

int buckets_put(buckets *b, long long number, const void *bytes, size_t len) {
    WT_ITEM value = {.data = bytes, .size = len};
    b->cursor->set_key(b->cursor, (int64_t)number);
    b->cursor->set_value(b->cursor, &value);
    return b->cursor->insert(b->cursor);
}

/* The bytes are lent until the cursor moves; 1 if there is no such bucket. */
int buckets_get(buckets *b, long long number, const void **bytes, size_t *len) {
    WT_ITEM value;
    b->cursor->set_key(b->cursor, (int64_t)number);
    int error = b->cursor->search(b->cursor);
    if (error == WT_NOTFOUND) return 1;
    if (!error) error = b->cursor->get_value(b->cursor, &value);
    if (!error) *bytes = value.data, *len = value.size;
    return error;
}

/* Goes to the first bucket from a number on; 1 if there is none. */
int buckets_seek(buckets *b, long long number) {
    int way = 0;
    b->cursor->set_key(b->cursor, (int64_t)number);
    int error = b->cursor->search_near(b->cursor, &way);
    if (!error && way < 0) error = b->cursor->next(b->cursor);
    return error == WT_NOTFOUND ? 1 : error;
}

/* Where the cursor is. */
int buckets_at(buckets *b, long long *number, const void **bytes, size_t *len) {
    WT_ITEM value;
    int64_t key;
    int error = b->cursor->get_key(b->cursor, &key);
    if (!error) error = b->cursor->get_value(b->cursor, &value);
    if (!error) *number = key, *bytes = value.data, *len = value.size;
    return error;
}

int buckets_next(buckets *b) {
    int error = b->cursor->next(b->cursor);
    return error == WT_NOTFOUND ? 1 : error;
}

void buckets_reset(buckets *b) { b->cursor->reset(b->cursor); }
