//! How far the rows of a table are from the order of an index, measured on a sample.
//!
//! Rows lie in a table in the order of their arrival, as long as no space is used again. The pages
//! of the sample are read in that order, so each sampled row has a rank of arrival and a rank by
//! the keys of the index. The distance between the two, as a share of the sample, is that of the
//! whole table within the error of sampling.

#![expect(unsafe_code, reason = "the size of a relation is asked of PostgreSQL")]

use bedload_sortedness::{Displacement, NotAPermutation};
use pgrx::iter::TableIterator;
use pgrx::{PgSqlErrorCode, Spi, name, pg_extern, pg_sys, spi};

use crate::error::fail;
use crate::opened::Opened;

/// Pages of a table that are sampled.
const SAMPLED_PAGES: f64 = 300.0;

/// The order of the sampled rows.
pub(crate) struct Order {
    /// Ranks of arrival by rank of key, both from zero.
    arrivals: Vec<u64>,
    k: u64,
    l: u64,
}

impl Order {
    /// The order of the rows that an open index has; `None` if its keys have no order.
    pub(crate) fn measure(opened: &Opened) -> Option<Self> {
        let arrivals = match ranks_of_arrival(opened) {
            Ok(arrivals) => arrivals?,
            Err(error) => fail(
                PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
                format!("the table cannot be sampled: {error}"),
                None,
            ),
        };
        match displacement_of(&arrivals) {
            Ok(displacement) => Some(Self {
                k: displacement.k(),
                l: displacement.l(),
                arrivals,
            }),
            Err(error) => fail(
                PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
                format!("the sample of the table has a row twice: {error}"),
                None,
            ),
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.arrivals.len() as u64
    }

    /// K as a share of the rows.
    pub(crate) fn k_share(&self) -> f64 {
        share(self.k, self.rows())
    }

    /// L as a share of the rows.
    pub(crate) fn l_share(&self) -> f64 {
        share(self.l, self.rows())
    }

    /// The share of rows that are further from their place than this share of the table.
    pub(crate) fn beyond(&self, reach: f64) -> f64 {
        let reach = reach * self.rows() as f64;
        let ranks = (0..).zip(&self.arrivals);
        let far = ranks.filter(|&(rank, &arrival): &(u64, _)| rank.abs_diff(arrival) as f64 > reach);
        share(far.count() as u64, self.rows())
    }
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

fn displacement_of(arrivals: &[u64]) -> Result<Displacement, NotAPermutation> {
    let mut displacement = Displacement::new();
    arrivals
        .iter()
        .try_for_each(|&arrival| displacement.push(arrival))?;
    Ok(displacement)
}

/// The `ORDER BY` of an index's keys, its condition, whether the keys have an order, and the table.
/// An operator class without `<` keeps a part of each value, in the type's own order; one without
/// `<=` keeps a hash.
const KEYS: &str = "
    SELECT string_agg(
            format('(%s)%s %s NULLS %s',
                pg_get_indexdef(i.indexrelid, at, false),
                (SELECT format(' COLLATE %I.%I', nspname, collname) FROM pg_collation
                    JOIN pg_namespace ON pg_namespace.oid = collnamespace WHERE pg_collation.oid = i.indcollation[at - 1]),
                coalesce(
                    (SELECT format('USING OPERATOR(%I.%s)', nspname, oprname) FROM pg_amop
                        JOIN pg_operator ON pg_operator.oid = amopopr JOIN pg_namespace ON pg_namespace.oid = oprnamespace
                        WHERE amopfamily = class.opcfamily AND amoplefttype = class.opcintype
                            AND amoprighttype = class.opcintype
                            AND amopstrategy = CASE i.indoption[at - 1] & 1 WHEN 0 THEN 1 ELSE 5 END
                            AND EXISTS (SELECT FROM pg_amop less WHERE less.amopfamily = class.opcfamily
                                AND less.amoplefttype = class.opcintype AND less.amoprighttype = class.opcintype
                                AND less.amopstrategy = 1)),
                    CASE i.indoption[at - 1] & 1 WHEN 0 THEN 'ASC' ELSE 'DESC' END),
                CASE i.indoption[at - 1] & 2 WHEN 0 THEN 'LAST' ELSE 'FIRST' END),
            ', ' ORDER BY at),
        pg_get_expr(i.indpred, i.indrelid),
        pg_indexam_has_property(c.relam, 'can_order') AND bool_and(EXISTS (SELECT FROM pg_amop WHERE amopfamily = class.opcfamily AND amoplefttype = class.opcintype
            AND amoprighttype = class.opcintype AND amopstrategy = 2)),
        format('%I.%I', nspname, pg_class.relname)
    FROM pg_index i
        CROSS JOIN generate_series(1, i.indnkeyatts) at
        JOIN pg_opclass class ON class.oid = i.indclass[at - 1]
        JOIN pg_class c ON c.oid = i.indexrelid
        JOIN pg_class ON pg_class.oid = i.indrelid JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE i.indexrelid = $1
    GROUP BY i.indexrelid, i.indpred, i.indrelid, nspname, pg_class.relname, c.relam";

/// The ranks of arrival of a table's sampled rows, in the order of an index.
fn ranks_of_arrival(opened: &Opened) -> spi::Result<Option<Vec<u64>>> {
    if opened.is_partitioned() {
        return Ok(None);
    }
    // The keys may be expressions. Names mean the server's, also where the catalogues are asked.
    let _owner = opened.as_owner();
    // SAFETY: both are open.
    let (index, pages) = unsafe {
        let pages = pg_sys::RelationGetNumberOfBlocksInFork(opened.table, pg_sys::ForkNumber::MAIN_FORKNUM);
        ((*opened.index).rd_id, pages)
    };
    Spi::connect(|client| {
        let keys = client.select(KEYS, Some(1), &[index.into()])?.first();
        let (Some(order), Some(true), Some(table)) =
            (keys.get::<String>(1)?, keys.get(3)?, keys.get::<String>(4)?)
        else {
            return Ok(None);
        };
        let condition = keys.get::<String>(2)?;
        let condition = condition.map_or(String::new(), |condition| format!("WHERE {condition}"));
        let percent = (100.0 * SAMPLED_PAGES / f64::from(pages.max(1))).min(100.0);
        let sample = client.select(
            &format!(
                "SELECT row_number() OVER (ORDER BY ctid) - 1 FROM {table} TABLESAMPLE SYSTEM ({percent}) REPEATABLE (1)
                 {condition} ORDER BY {order}, ctid"
            ),
            None,
            &[],
        )?;
        let ranks = sample.map(|row| row.get::<i64>(1));
        let ranks = ranks.map(|rank| Ok(rank?.unwrap_or_default().cast_unsigned()));
        ranks.collect::<spi::Result<_>>().map(Some)
    })
}

/// How far a sample of a table's rows, in the order of their arrival, is from the order of an
/// index. Nulls where the index has none.
#[pg_extern(sql = false)]
fn bedload_order(
    index: pg_sys::Oid,
) -> TableIterator<
    'static,
    (
        name!(rows, Option<i64>),
        name!(k_share, Option<f64>),
        name!(l_share, Option<f64>),
    ),
> {
    let order = Order::measure(&Opened::new(index, pg_sys::AccessShareLock));
    let order = order.as_ref();
    TableIterator::once((
        order.map(|order| i64::try_from(order.rows()).unwrap_or(i64::MAX)),
        order.map(Order::k_share),
        order.map(Order::l_share),
    ))
}
