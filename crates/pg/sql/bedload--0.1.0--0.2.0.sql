-- Advice, the order of arrival, write amplification, and a check without the table.
\echo Use "ALTER EXTENSION bedload UPDATE TO '0.2.0'" to load this file. \quit

-- Everything that is wrong with an index; without heapallindexed its structure and order alone.
-- Writers wait meanwhile.
CREATE FUNCTION bedload_check(index regclass, heapallindexed boolean) RETURNS SETOF text
    AS 'MODULE_PATHNAME', 'bedload_check_parts_wrapper' LANGUAGE C STRICT VOLATILE;

REVOKE ALL ON FUNCTION bedload_check(regclass, boolean) FROM PUBLIC;

-- How far a sample of a table's rows, in the order of their arrival, is from the order of an index
-- of any ordered access method: K and L as shares of the rows. Nulls where the index has no order.
CREATE FUNCTION bedload_order(index regclass, OUT rows int8, OUT k_share float8, OUT l_share float8) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'bedload_order_wrapper' LANGUAGE C STRICT VOLATILE ROWS 1;

-- Whether a B-tree would gain by being a bedload index: 'none', 'some' or 'large', why, and the
-- statement to make it one.
CREATE FUNCTION bedload_advise(
    index regclass, OUT gain text, OUT reason text, OUT statement text, OUT bytes int8, OUT k_share float8,
    OUT l_share float8, OUT beyond_shared_buffers float8, OUT beyond_cache float8, OUT blocks_read_per_entry float8
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'bedload_advise_wrapper' LANGUAGE C STRICT VOLATILE ROWS 1;

-- How many entries were written into runs for the first time and by merges, and how often filters
-- say that a run may have a key that it has not got. Counts are not logged: a crash takes those since
-- the last checkpoint.
CREATE FUNCTION bedload_work(
    index regclass, OUT entries_published int8, OUT entries_merged int8, OUT write_amplification float8, OUT filters int8,
    OUT false_positives float8
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'bedload_work_wrapper' LANGUAGE C STRICT VOLATILE ROWS 1;

REVOKE ALL ON FUNCTION bedload_advise(regclass), bedload_order(regclass), bedload_work(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION bedload_advise(regclass), bedload_order(regclass), bedload_work(regclass) TO pg_monitor;
