-- Bedload as an index access method.
\echo Use "CREATE EXTENSION bedload" to load this file. \quit

CREATE FUNCTION bedload_handler(internal) RETURNS index_am_handler
    AS 'MODULE_PATHNAME', 'bedload_handler' LANGUAGE C STRICT;

CREATE ACCESS METHOD bedload TYPE INDEX HANDLER bedload_handler;

-- The operators are the B-tree's, so that the planner knows the index's order. Constants of other integer types are
-- compared as they come: k = 5 on an int8 column is (int8, int4).
CREATE OPERATOR FAMILY integer_ops USING bedload;

CREATE OPERATOR CLASS int8_ops DEFAULT FOR TYPE int8 USING bedload FAMILY integer_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

CREATE OPERATOR CLASS int4_ops DEFAULT FOR TYPE int4 USING bedload FAMILY integer_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

CREATE OPERATOR CLASS int2_ops DEFAULT FOR TYPE int2 USING bedload FAMILY integer_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

ALTER OPERATOR FAMILY integer_ops USING bedload ADD
    OPERATOR 1 < (int8, int4), OPERATOR 2 <= (int8, int4), OPERATOR 3 = (int8, int4), OPERATOR 4 >= (int8, int4), OPERATOR 5 > (int8, int4),
    OPERATOR 1 < (int8, int2), OPERATOR 2 <= (int8, int2), OPERATOR 3 = (int8, int2), OPERATOR 4 >= (int8, int2), OPERATOR 5 > (int8, int2),
    OPERATOR 1 < (int4, int8), OPERATOR 2 <= (int4, int8), OPERATOR 3 = (int4, int8), OPERATOR 4 >= (int4, int8), OPERATOR 5 > (int4, int8),
    OPERATOR 1 < (int4, int2), OPERATOR 2 <= (int4, int2), OPERATOR 3 = (int4, int2), OPERATOR 4 >= (int4, int2), OPERATOR 5 > (int4, int2),
    OPERATOR 1 < (int2, int8), OPERATOR 2 <= (int2, int8), OPERATOR 3 = (int2, int8), OPERATOR 4 >= (int2, int8), OPERATOR 5 > (int2, int8),
    OPERATOR 1 < (int2, int4), OPERATOR 2 <= (int2, int4), OPERATOR 3 = (int2, int4), OPERATOR 4 >= (int2, int4), OPERATOR 5 > (int2, int4);

-- Types that the server keeps as integers, in their order.
CREATE OPERATOR CLASS date_ops DEFAULT FOR TYPE date USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

CREATE OPERATOR CLASS time_ops DEFAULT FOR TYPE time USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

CREATE OPERATOR CLASS timestamp_ops DEFAULT FOR TYPE timestamp USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

CREATE OPERATOR CLASS timestamptz_ops DEFAULT FOR TYPE timestamptz USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

CREATE OPERATOR CLASS char_ops DEFAULT FOR TYPE "char" USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

CREATE OPERATOR CLASS oid_ops DEFAULT FOR TYPE oid USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

CREATE OPERATOR CLASS money_ops DEFAULT FOR TYPE money USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

CREATE OPERATOR CLASS pg_lsn_ops DEFAULT FOR TYPE pg_lsn USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

-- Floating-point numbers, in the server's order: both zeros are equal, and NaN is greater than all others.
CREATE OPERATOR FAMILY float_ops USING bedload;

CREATE OPERATOR CLASS float8_ops DEFAULT FOR TYPE float8 USING bedload FAMILY float_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

CREATE OPERATOR CLASS float4_ops DEFAULT FOR TYPE float4 USING bedload FAMILY float_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

ALTER OPERATOR FAMILY float_ops USING bedload ADD
    OPERATOR 1 < (float8, float4), OPERATOR 2 <= (float8, float4), OPERATOR 3 = (float8, float4), OPERATOR 4 >= (float8, float4), OPERATOR 5 > (float8, float4),
    OPERATOR 1 < (float4, float8), OPERATOR 2 <= (float4, float8), OPERATOR 3 = (float4, float8), OPERATOR 4 >= (float4, float8), OPERATOR 5 > (float4, float8);

-- Types in the order of their B-tree comparison, which is support function 1. Text under a collation that compares bytes,
-- text_pattern_ops and bytea are compared as bytes, without a call.
CREATE OPERATOR CLASS text_ops DEFAULT FOR TYPE text USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 bttextcmp(text, text);

CREATE OPERATOR CLASS text_pattern_ops FOR TYPE text USING bedload AS
    OPERATOR 1 ~<~, OPERATOR 2 ~<=~, OPERATOR 3 =, OPERATOR 4 ~>=~, OPERATOR 5 ~>~, FUNCTION 1 bttext_pattern_cmp(text, text);

CREATE OPERATOR CLASS bpchar_ops DEFAULT FOR TYPE bpchar USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 bpcharcmp(bpchar, bpchar);

CREATE OPERATOR CLASS bytea_ops DEFAULT FOR TYPE bytea USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 byteacmp(bytea, bytea);

CREATE OPERATOR CLASS numeric_ops DEFAULT FOR TYPE numeric USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 numeric_cmp(numeric, numeric);

CREATE OPERATOR CLASS interval_ops DEFAULT FOR TYPE interval USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 interval_cmp(interval, interval);

CREATE OPERATOR CLASS timetz_ops DEFAULT FOR TYPE timetz USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 timetz_cmp(timetz, timetz);

CREATE OPERATOR CLASS inet_ops DEFAULT FOR TYPE inet USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 network_cmp(inet, inet);

CREATE OPERATOR CLASS enum_ops DEFAULT FOR TYPE anyenum USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 enum_cmp(anyenum, anyenum);

CREATE OPERATOR CLASS bool_ops DEFAULT FOR TYPE bool USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

-- Of uuid_ops entries of one column have the first half of an identifier: without the operator < the planner takes the index
-- for one without order, which it is where halves are equal, and rows are looked at again. uuid_ordered_ops has all of it.
CREATE OPERATOR CLASS uuid_ops DEFAULT FOR TYPE uuid USING bedload AS
    OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;

CREATE OPERATOR CLASS uuid_ordered_ops FOR TYPE uuid USING bedload AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 uuid_cmp(uuid, uuid);

-- Entries have a hash (support function 7), which answers for equality alone; rows are looked at again. To be asked for by name.
CREATE OPERATOR CLASS text_hash_ops FOR TYPE text USING bedload AS
    OPERATOR 3 =, FUNCTION 7 hashtextextended(text, int8);

CREATE OPERATOR CLASS bytea_hash_ops FOR TYPE bytea USING bedload AS
    OPERATOR 3 =, FUNCTION 7 hashvarlenaextended(internal, int8);

CREATE OPERATOR CLASS numeric_hash_ops FOR TYPE numeric USING bedload AS
    OPERATOR 3 =, FUNCTION 7 hash_numeric_extended(numeric, int8);

-- Everything that is wrong with an index, a line each. Writers wait meanwhile.
CREATE FUNCTION bedload_check(index regclass) RETURNS SETOF text
    AS 'MODULE_PATHNAME', 'bedload_check_wrapper' LANGUAGE C STRICT VOLATILE;

-- How an index is built, and how many entries wait for it in this session.
CREATE FUNCTION bedload_info(
    index regclass, OUT entries int8, OUT height int4, OUT nodes int8, OUT leaves int8, OUT runs_above int8,
    OUT leaf_runs int8, OUT pages int8, OUT pending int8
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'bedload_info_wrapper' LANGUAGE C STRICT VOLATILE;

-- How much an index has, and where, from its nodes alone: one page a node, so it may be asked often. The arrays are of the
-- levels of the tree, the leaves first. `entries` counts what is on its way from one level to the next twice.
CREATE FUNCTION bedload_stats(
    index regclass, OUT entries int8, OUT head_entries int8, OUT head_pages int8, OUT pending int8, OUT nodes_by_level int8[],
    OUT runs_by_level int8[], OUT entries_by_level int8[], OUT pages_by_level int8[], OUT bytes int8, OUT bulk_deletions int8
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'bedload_stats_wrapper' LANGUAGE C STRICT VOLATILE ROWS 1;

-- Merges all that an index has into its leaves: for a table that is going to be read rather than written.
CREATE FUNCTION bedload_drain(index regclass) RETURNS void
    AS 'MODULE_PATHNAME', 'bedload_drain_wrapper' LANGUAGE C STRICT VOLATILE;

-- Makes pages that were lost in a crash available again; returns how many. Writers wait meanwhile.
CREATE FUNCTION bedload_sweep(index regclass) RETURNS int8
    AS 'MODULE_PATHNAME', 'bedload_sweep_wrapper' LANGUAGE C STRICT VOLATILE;

REVOKE ALL ON FUNCTION bedload_check(regclass), bedload_drain(regclass), bedload_info(regclass), bedload_sweep(regclass) FROM PUBLIC;

REVOKE ALL ON FUNCTION bedload_stats(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION bedload_stats(regclass) TO pg_monitor;
