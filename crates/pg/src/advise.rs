//! Whether a B-tree would be better off as a bedload index.
//!
//! An insertion into a B-tree costs more than one into this index where it meets a leaf that is not
//! in memory. Rows that arrive near the end of the order meet leaves that are: those of the last
//! rows. So the advice follows from the share of rows that lie further from their place in the
//! order than the part of the index that memory holds.

#![expect(unsafe_code, reason = "settings are variables of the server")]

use std::fmt::Write as _;

use pgrx::iter::TableIterator;
use pgrx::{PgSqlErrorCode, Spi, name, pg_extern, pg_sys, spi};

use crate::error::{fail, name_of};
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

/// The facts, in the order of [`Facts`]. An operator class has its like where both have the same
/// `<`.
const FACTS: &str = "
    SELECT amname::text,
        pg_relation_size(i.indexrelid),
        (SELECT format('it belongs to constraint \"%s\", and constraints need B-trees', conname) FROM pg_constraint
            WHERE conindid = i.indexrelid AND contype IN ('p', 'u', 'x') LIMIT 1),
        (SELECT format('foreign key \"%s\" points to it, and keeps it from being dropped', conname) FROM pg_constraint
            WHERE conindid = i.indexrelid AND contype = 'f' LIMIT 1),
        (SELECT format('bedload has no operator class like %s of %s', quote_ident(class.opcname),
                pg_get_indexdef(i.indexrelid, at, false))
            FROM generate_series(1, i.indnkeyatts) at JOIN pg_opclass class ON class.oid = i.indclass[at - 1]
            WHERE NOT EXISTS (
                SELECT FROM pg_opclass own JOIN pg_am ON pg_am.oid = own.opcmethod
                    JOIN pg_amop ours ON ours.amopfamily = own.opcfamily
                    JOIN pg_amop theirs ON theirs.amopfamily = class.opcfamily AND theirs.amopopr = ours.amopopr
                WHERE pg_am.amname = 'bedload' AND own.opcintype = class.opcintype
                    AND ours.amoplefttype = own.opcintype AND ours.amoprighttype = own.opcintype
                    AND ours.amopstrategy = 1 AND theirs.amopstrategy = 1
                    AND theirs.amoplefttype = class.opcintype AND theirs.amoprighttype = class.opcintype)
            ORDER BY at LIMIT 1),
        indisunique,
        coalesce(pg_stat_get_blocks_fetched(i.indexrelid) - pg_stat_get_blocks_hit(i.indexrelid), 0)::float8,
        coalesce(pg_stat_get_tuples_inserted(i.indrelid) + pg_stat_get_tuples_updated(i.indrelid)
            - pg_stat_get_tuples_hot_updated(i.indrelid), 0)::float8,
        format('CREATE %sINDEX CONCURRENTLY %I ON %s',
            CASE WHEN indisunique THEN 'UNIQUE ' ELSE '' END,
            left(c.relname, 55) || '_bedload',
            regexp_replace(
                replace(
                    substring(
                        CASE WHEN c.reloptions IS NULL THEN pg_get_indexdef(i.indexrelid)
                            ELSE regexp_replace(pg_get_indexdef(i.indexrelid), ' WITH \\([^)]*\\)', '') END
                        FROM ' ON (.*)'),
                    ' USING btree (', ' USING bedload ('),
                -- Other names of classes of text, which B-trees alone have.
                '([^,(]) varchar_((?:pattern_)?ops)\\M', '\\1 text_\\2', 'g'))
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am ON pg_am.oid = c.relam
    WHERE i.indexrelid = $1";

impl Facts {
    fn of(opened: &Opened) -> spi::Result<Option<Self>> {
        let _names = ServersNames::new();
        // SAFETY: the index is open.
        let index = unsafe { (*opened.index).rd_id };
        Spi::connect(|client| {
            let row = client.select(FACTS, Some(1), &[index.into()])?.first();
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
    // SAFETY: the index is open.
    if unsafe { (*(*opened.index).rd_rel).relkind }.cast_unsigned() == pg_sys::RELKIND_PARTITIONED_INDEX {
        let hint = "Ask of the indexes of its partitions.".to_owned();
        let message = format!("\"{name}\" is partitioned");
        fail(PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE, message, Some(hint));
    }
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
