//! Whether a B-tree would be better off as a bedload index.
//!
//! An insertion into a B-tree costs more than one into this index where it meets a leaf that is not
//! in memory. Rows that arrive near the end of the order meet leaves that are: those of the last
//! rows. So the advice follows from the share of rows that lie further from their place in the
//! order than the part of the index that memory holds.

#![expect(unsafe_code, reason = "settings and catalogues are PostgreSQL's")]

use std::fmt::Write as _;

use pgrx::iter::TableIterator;
use pgrx::{PgSqlErrorCode, Spi, name, pg_extern, pg_sys, spi};

use crate::compat::attribute;
use crate::error::{fail, name_of};
use crate::list::pointers;
use crate::opened::{Opened, ServersNames};
use crate::order::Order;

/// The least share of rows beyond memory that an index gains by.
const GAINING_SHARE: f64 = 0.05;
/// Blocks read from outside of the server for each entry inserted, from which on insertions wait
/// for them.
const READS_PER_ENTRY: f64 = 0.2;
/// The fewest sampled rows that tell something.
const ROWS_MIN: u64 = 1000;

/// How much an index would gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gain {
    /// It would not, or it has to be a B-tree.
    None,
    /// Insertions meet pages that the server has to read from the system's cache, and logs whole
    /// after each checkpoint.
    Some,
    /// Insertions wait for the disk.
    Large,
}

impl Gain {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Some => "some",
            Self::Large => "large",
        }
    }
}

/// An index, as the catalogue and the statistics describe it.
struct Facts {
    method: String,
    bytes: u64,
    /// Why it has to be a B-tree, if it has.
    obstacle: Option<String>,
    is_unique: bool,
    /// Blocks of the index that were read from outside of the server's buffers.
    blocks_read: f64,
    /// Entries inserted since statistics were reset.
    entries: f64,
    /// The statement that rebuilds the index.
    statement: String,
}

/// The facts, in the order of [`Facts`]. `$2` has the collation of each column's values, `$3` the
/// class that a bedload index on it gets if none is named. An operator class has its like where
/// both have the same `<`.
///
/// The statement is put together from the parts of the index: names, expressions and the predicate
/// may contain any text, so nothing is searched for in them.
const FACTS: &str = "
    WITH columns AS (
        SELECT at, at <= indnkeyatts AS is_key, pg_get_indexdef(indexrelid, at, false) AS definition,
            CASE WHEN indcollation[at - 1] <> ($2::oid[])[at] THEN
                (SELECT format(' COLLATE %I.%I', nspname, collname) FROM pg_collation c
                    JOIN pg_namespace n ON n.oid = collnamespace WHERE c.oid = indcollation[at - 1])
                ELSE '' END AS collated,
            theirs.opcname AS theirs, own.opcname AS own,
            CASE WHEN own.oid <> ($3::oid[])[at] OR own.opcname <> theirs.opcname THEN
                format(' %I.%I', own.nspname, own.opcname) ELSE '' END AS class,
            CASE indoption[at - 1] WHEN 1 THEN ' DESC NULLS LAST' WHEN 2 THEN ' NULLS FIRST' WHEN 3 THEN ' DESC'
                ELSE '' END AS direction
        FROM pg_index CROSS JOIN generate_series(1, indnatts) at
            LEFT JOIN pg_opclass theirs ON theirs.oid = indclass[at - 1]
            LEFT JOIN LATERAL (
                SELECT own.oid, own.opcname, nspname
                FROM pg_opclass own JOIN pg_am ON pg_am.oid = own.opcmethod
                    JOIN pg_namespace n ON n.oid = own.opcnamespace
                    JOIN pg_amop o ON o.amopfamily = own.opcfamily
                    JOIN pg_amop t ON t.amopfamily = theirs.opcfamily AND t.amopopr = o.amopopr
                WHERE amname = 'bedload' AND own.opcintype = theirs.opcintype
                    AND o.amoplefttype = own.opcintype AND o.amoprighttype = own.opcintype
                    AND o.amopstrategy = 1 AND t.amopstrategy = 1
                    AND t.amoplefttype = theirs.opcintype AND t.amoprighttype = theirs.opcintype
                ORDER BY own.opcname LIMIT 1) own ON true
        WHERE indexrelid = $1)
    SELECT amname::text,
        pg_relation_size(i.indexrelid),
        (SELECT format('it belongs to constraint \"%s\", and constraints need B-trees', conname) FROM pg_constraint
            WHERE conindid = i.indexrelid AND contype IN ('p', 'u', 'x') LIMIT 1),
        (SELECT format('foreign key \"%s\" points to it, and keeps it from being dropped', conname) FROM pg_constraint
            WHERE conindid = i.indexrelid AND contype = 'f' LIMIT 1),
        (SELECT format('bedload has no operator class like %s of %s', quote_ident(theirs), definition)
            FROM columns WHERE is_key AND own IS NULL ORDER BY at LIMIT 1),
        indisunique,
        coalesce(pg_stat_get_blocks_fetched(i.indexrelid) - pg_stat_get_blocks_hit(i.indexrelid), 0)::float8,
        coalesce(pg_stat_get_tuples_inserted(i.indrelid) + pg_stat_get_tuples_updated(i.indrelid)
            - pg_stat_get_tuples_hot_updated(i.indrelid), 0)::float8,
        format('CREATE %sINDEX CONCURRENTLY %I ON %I.%I USING bedload (%s)%s%s%s',
            CASE WHEN indisunique THEN 'UNIQUE ' ELSE '' END,
            -- Names have 63 bytes.
            (SELECT left(c.relname, n) FROM generate_series(55, 1, -1) n
                WHERE octet_length(left(c.relname, n)) <= 55 LIMIT 1) || '_bedload',
            nspname, t.relname,
            (SELECT string_agg(definition || collated || class || direction, ', ' ORDER BY at)
                FROM columns WHERE is_key),
            (SELECT format(' INCLUDE (%s)', string_agg(definition, ', ' ORDER BY at))
                FROM columns WHERE NOT is_key HAVING count(*) > 0),
            CASE WHEN indnullsnotdistinct THEN ' NULLS NOT DISTINCT' END,
            ' WHERE ' || pg_get_expr(indpred, indrelid))
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am ON pg_am.oid = c.relam
        JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace ON pg_namespace.oid = t.relnamespace
    WHERE i.indexrelid = $1";

/// What `CREATE INDEX … USING bedload` takes for the columns of an index if nothing is said: for
/// each, the collation of its values, and the operator class.
///
/// # Safety
///
/// Both are open.
unsafe fn defaults(opened: &Opened) -> (Vec<pg_sys::Oid>, Vec<pg_sys::Oid>) {
    // The server simplifies the expressions as it hands them over, and calls functions of constants
    // for that.
    let _owner = opened.as_owner();
    // SAFETY: the caller's; an index has `indnkeyatts` keys, and an expression for each that is
    // zero.
    unsafe {
        let method = pg_sys::get_am_oid(c"bedload".as_ptr(), true);
        let described = &*(*opened.index).rd_index;
        let count = usize::try_from(described.indnkeyatts).unwrap_or(0);
        let keys = described.indkey.values.as_slice(count);
        let expressions = pg_sys::RelationGetIndexExpressions(opened.index);
        let mut expressions = pointers(expressions).map(|node| pg_sys::exprCollation(node.cast()));
        let collation = |&key: &i16| match usize::try_from(key) {
            Ok(key) if key > 0 => attribute(opened.table, key - 1).attcollation,
            _ => expressions.next().unwrap_or(pg_sys::InvalidOid),
        };
        let class = |at| pg_sys::GetDefaultOpClass(attribute(opened.index, at).atttypid, method);
        (
            keys.iter().map(collation).collect(),
            (0..count).map(class).collect(),
        )
    }
}

impl Facts {
    fn of(opened: &Opened) -> spi::Result<Option<Self>> {
        let _names = ServersNames::new();
        // SAFETY: both are open.
        let (index, (collations, classes)) = unsafe { ((*opened.index).rd_id, defaults(opened)) };
        Spi::connect(|client| {
            let arguments = [index.into(), collations.into(), classes.into()];
            let row = client.select(FACTS, Some(1), &arguments)?.first();
            let (Some(method), Some(bytes), Some(is_unique), Some(statement)) =
                (row.get(1)?, row.get::<i64>(2)?, row.get(6)?, row.get(9)?)
            else {
                return Ok(None);
            };
            Ok(Some(Self {
                method,
                bytes: bytes.unsigned_abs(),
                obstacle: row.get(3)?.or(row.get(4)?).or(row.get(5)?),
                is_unique,
                blocks_read: row.get(7)?.unwrap_or_default(),
                entries: row.get(8)?.unwrap_or_default(),
                statement,
            }))
        })
    }

    /// Blocks read for each entry inserted, by insertions and scans together.
    fn reads_per_entry(&self) -> Option<f64> {
        (self.entries > 0.0).then(|| self.blocks_read / self.entries)
    }
}

/// The advice on an index, with what it rests on.
struct Advice {
    gain: Gain,
    reason: String,
    /// The share of rows beyond `shared_buffers` and beyond `effective_cache_size`.
    beyond: Option<[f64; 2]>,
}

impl Advice {
    fn none(reason: String) -> Self {
        Self {
            gain: Gain::None,
            reason,
            beyond: None,
        }
    }

    fn of(facts: &Facts, order: Option<&Order>) -> Self {
        if let Some(obstacle) = &facts.obstacle {
            return Self::none(obstacle.clone());
        }
        let Some(order) = order.filter(|order| order.rows() >= ROWS_MIN) else {
            return Self::none(format!("fewer than {ROWS_MIN} rows were sampled"));
        };
        // SAFETY: settings, in blocks.
        let memory = unsafe { [pg_sys::NBuffers, pg_sys::effective_cache_size] };
        let blocks = (facts.bytes / u64::from(pg_sys::BLCKSZ)).max(1) as f64;
        let beyond = memory.map(|memory| order.beyond(f64::from(memory) / blocks));
        let [beyond_buffers, beyond_cache] = beyond;
        let waits = facts
            .reads_per_entry()
            .is_some_and(|reads| reads >= READS_PER_ENTRY);
        let (gain, place) = if beyond_cache >= GAINING_SHARE {
            (
                Gain::Large,
                "neither in shared_buffers nor within effective_cache_size",
            )
        } else if beyond_buffers >= GAINING_SHARE && waits {
            (Gain::Large, "not in shared_buffers, and blocks are read for them")
        } else if beyond_buffers >= GAINING_SHARE {
            (Gain::Some, "not in shared_buffers")
        } else {
            (Gain::None, "in shared_buffers")
        };
        let share = match gain {
            Gain::None => 1.0 - beyond_buffers,
            _ if beyond_cache >= GAINING_SHARE => beyond_cache,
            _ => beyond_buffers,
        };
        let mut reason = format!(
            "{:.0} % of the rows belong into leaves that are {place}",
            share * 100.0
        );
        if gain != Gain::None && facts.is_unique && !cfg!(feature = "pg18") {
            let written = write!(
                reason,
                "; but INSERT ON CONFLICT is refused with a unique bedload index"
            );
            debug_assert!(written.is_ok(), "memory takes text");
        }
        Self {
            gain,
            reason,
            beyond: Some(beyond),
        }
    }
}

/// Whether a B-tree would gain by being a bedload index, and why.
#[pg_extern(sql = false)]
#[expect(clippy::type_complexity, reason = "pgrx reads the columns off the type")]
fn bedload_advise(
    index: pg_sys::Oid,
) -> TableIterator<
    'static,
    (
        name!(gain, String),
        name!(reason, String),
        name!(statement, Option<String>),
        name!(bytes, i64),
        name!(k_share, Option<f64>),
        name!(l_share, Option<f64>),
        name!(beyond_shared_buffers, Option<f64>),
        name!(beyond_cache, Option<f64>),
        name!(blocks_read_per_entry, Option<f64>),
    ),
> {
    let opened = Opened::new(index, pg_sys::AccessShareLock);
    let facts = match Facts::of(&opened) {
        Ok(Some(facts)) => facts,
        found => fail(
            PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
            format!("the catalogues do not tell of the index: {:?}", found.err()),
            None,
        ),
    };
    // SAFETY: the index is open.
    let name = unsafe { name_of(opened.index) };
    if facts.method != "btree" {
        let message = format!("\"{name}\" is not a B-tree");
        fail(PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE, message, None);
    }
    opened.refuse_partitioned();
    let order = Order::measure(&opened);
    let order = order.as_ref();
    let advice = Advice::of(&facts, order);
    let reads = facts.reads_per_entry();
    TableIterator::once((
        advice.gain.name().to_owned(),
        advice.reason,
        (advice.gain != Gain::None).then_some(facts.statement),
        i64::try_from(facts.bytes).unwrap_or(i64::MAX),
        order.map(Order::k_share),
        order.map(Order::l_share),
        advice.beyond.map(|[buffers, _]| buffers),
        advice.beyond.map(|[_, cache]| cache),
        reads,
    ))
}
