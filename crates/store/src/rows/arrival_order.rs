//! The order in which the rows of a table arrived: how far from sorted, estimated as they are
//! flushed.

use std::sync::Arc;

use bedload_sortedness::{Estimate, Estimator, RunnerUp, SavedOrder};
use serde::{Deserialize, Serialize};

use super::lateness::Lateness;
use super::sorted_rows::SortedRows;

/// How far from sorted by time the rows of a table arrived, as [`TableInfo`](crate::TableInfo) has
/// it: all of them, and the last 65,536 or more that are a window. Rows that were deleted since
/// count too.
///
/// K and L are estimates: K is never too small and too large by 1 % of the rows at most, unless
/// more than 256 rows that come too early arrive together again and again, which may add some
/// 1,000 to K each time; L is right within 5 % of the rows where K is 20 % at most, and else within
/// 10 %, but too small while rows that came too early wait for those that they overtook. Late and
/// overlapping rows are counted exactly. Rows that overlap lay below the latest time in the table's
/// pages when they were flushed.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{RecordBatch, TimestampSecondArray};
/// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
/// # use bedload::{Store, TableSchema};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::create(dir.path().join("s"))?;
/// # let columns = Arc::new(Schema::new(vec![Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false)]));
/// # let table = store.create_table("readings", TableSchema::new(columns.clone(), "at")?)?;
/// let times = TimestampSecondArray::from(vec![10, 30, 40, 20, 50]);
/// table.append(&RecordBatch::try_new(columns, vec![Arc::new(times)])?)?;
/// let order = store.info()?.tables[0].order.expect("of a table that is indexed");
/// assert_eq!((order.total.rows, order.total.k, order.total.l), (5, 1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrivalOrder {
    /// The estimate over all rows that have arrived.
    pub total: Estimate,
    /// The estimate over the last complete window, or over all rows before there is one.
    pub window: Estimate,
}

/// Measures the rows of a table as they arrive.
#[derive(Debug, Clone, Default)]
pub(crate) struct ArrivalMeasure {
    estimator: Estimator,
    /// Not kept with the table: what is late is seen again after the next flush.
    lateness: Lateness,
}

/// The record in the catalogue. Ascending lists are written as their first number and differences.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OrderRecord {
    total: EstimateRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    window: Option<EstimateRecord>,
    since_window: EstimateRecord,
    max: i64,
    max_arrival: u64,
    /// The last of the runners-up.
    runner_up: (i64, u64),
    #[serde(default, skip_serializing_if = "RunnersUpRecord::is_empty")]
    runners_up: RunnersUpRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored_max: Option<i64>,
    piles: Vec<u64>,
    #[serde(default, skip_serializing_if = "OlderPilesRecord::is_empty")]
    older_piles: OlderPilesRecord,
    samples: Vec<u64>,
    stride: u64,
}

/// All runners-up.
#[derive(Debug, Default, Serialize, Deserialize)]
struct RunnersUpRecord {
    keys: Vec<u64>,
    arrivals: Vec<u64>,
    below: Vec<u64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct OlderPilesRecord {
    numbers: Vec<u64>,
    ends: Vec<u64>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct EstimateRecord {
    rows: u64,
    k: u64,
    l: u64,
    below_running_max: u64,
    overlapping: u64,
}

/// A key that sorts as the time does.
const fn key(time: i64) -> u64 {
    time.cast_unsigned() ^ (1 << 63)
}

const fn time(key: u64) -> i64 {
    (key ^ (1 << 63)).cast_signed()
}

impl ArrivalMeasure {
    /// Observes rows of these times, in order of arrival.
    fn observe(&mut self, times: &[i64]) {
        for &time in times {
            self.estimator.observe(key(time));
        }
        self.lateness.observe(times);
    }

    /// By how much rows were late lately.
    pub(crate) fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// The latest time of a row that went into pages.
    pub(crate) fn stored(&self) -> Option<i64> {
        self.estimator.stored_max().map(time)
    }

    /// Observes the rows that arrived with these runs, in order of arrival. The runs go into pages:
    /// of a run that was split, some rows may be held back.
    pub(crate) fn observe_flush(&mut self, runs: &[Arc<SortedRows>]) {
        runs.iter().for_each(|run| self.observe(run.arrivals()));
        let last = |run: &Arc<SortedRows>| run.len().checked_sub(1).map(|last| run.place(last).0);
        if let Some(latest) = runs.iter().filter_map(last).max() {
            self.estimator.note_stored(key(latest));
        }
        self.lateness.age();
    }

    pub(crate) fn order(&self) -> ArrivalOrder {
        ArrivalOrder {
            total: self.estimator.total(),
            window: self.estimator.window(),
        }
    }

    pub(crate) fn record(&self) -> OrderRecord {
        let saved = self.estimator.save();
        OrderRecord {
            total: saved.total.into(),
            window: saved.window.map(EstimateRecord::from),
            since_window: saved.since_window.into(),
            max: time(saved.max),
            max_arrival: saved.max_arrival,
            runner_up: saved
                .runners_up
                .last()
                .map_or((time(0), 0), |last| (time(last.key), last.below)),
            runners_up: RunnersUpRecord::of(&saved.runners_up),
            stored_max: saved.stored_max.map(time),
            piles: differences(&saved.piles),
            older_piles: OlderPilesRecord::of(&saved.older_piles),
            samples: differences(&saved.samples),
            stride: saved.stride,
        }
    }

    /// Returns the measure that was recorded; `None` if the record is impossible.
    pub(crate) fn of_record(record: &OrderRecord) -> Option<Self> {
        let estimator = Estimator::restore(&SavedOrder {
            total: record.total.into(),
            window: record.window.map(Estimate::from),
            since_window: record.since_window.into(),
            window_rows: Estimator::WINDOW_ROWS,
            max: key(record.max),
            max_arrival: record.max_arrival,
            runners_up: record.runners_up()?,
            stored_max: record.stored_max.map(key),
            piles: sums(&record.piles)?,
            older_piles: record.older_piles.read()?,
            samples: sums(&record.samples)?,
            stride: record.stride,
        })?;
        Some(Self {
            estimator,
            lateness: Lateness::default(),
        })
    }
}

impl OrderRecord {
    /// Returns the runners-up; that which programs before them recorded alone, whose arrival is
    /// unknown, is taken for the first row.
    fn runners_up(&self) -> Option<Vec<RunnerUp>> {
        if !self.runners_up.is_empty() {
            return self.runners_up.read();
        }
        let (time, below) = self.runner_up;
        let known = (below > 0).then(|| RunnerUp {
            key: key(time),
            arrival: 1,
            below,
        });
        Some(known.into_iter().collect())
    }
}

impl RunnersUpRecord {
    fn of(runners_up: &[RunnerUp]) -> Self {
        let list = |of: fn(&RunnerUp) -> u64| runners_up.iter().map(of).collect::<Vec<_>>();
        Self {
            keys: differences(&list(|runner_up| runner_up.key)),
            arrivals: differences(&list(|runner_up| runner_up.arrival)),
            below: list(|runner_up| runner_up.below),
        }
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn read(&self) -> Option<Vec<RunnerUp>> {
        let (keys, arrivals) = (sums(&self.keys)?, sums(&self.arrivals)?);
        let are_complete = arrivals.len() == keys.len() && self.below.len() == keys.len();
        let lists = keys.into_iter().zip(arrivals).zip(&self.below);
        let runners_up = lists.map(|((key, arrival), &below)| RunnerUp { key, arrival, below });
        are_complete.then(|| runners_up.collect())
    }
}

impl OlderPilesRecord {
    fn of(piles: &[(u64, u64)]) -> Self {
        let (numbers, ends): (Vec<_>, Vec<_>) = piles.iter().copied().unzip();
        Self {
            numbers: differences(&numbers),
            ends: differences(&ends),
        }
    }

    fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    fn read(&self) -> Option<Vec<(u64, u64)>> {
        let (numbers, ends) = (sums(&self.numbers)?, sums(&self.ends)?);
        let are_complete = numbers.len() == ends.len();
        are_complete.then(|| numbers.into_iter().zip(ends).collect())
    }
}

fn differences(ascending: &[u64]) -> Vec<u64> {
    let before = std::iter::once(&0).chain(ascending);
    ascending
        .iter()
        .zip(before)
        .map(|(number, before)| number - before)
        .collect()
}

fn sums(differences: &[u64]) -> Option<Vec<u64>> {
    let mut sum = 0_u64;
    let mut add = |&difference| {
        sum = sum.checked_add(difference)?;
        Some(sum)
    };
    differences.iter().map(&mut add).collect()
}

impl From<Estimate> for EstimateRecord {
    fn from(estimate: Estimate) -> Self {
        Self {
            rows: estimate.rows,
            k: estimate.k,
            l: estimate.l,
            below_running_max: estimate.below_running_max,
            overlapping: estimate.overlapping,
        }
    }
}

impl From<EstimateRecord> for Estimate {
    fn from(record: EstimateRecord) -> Self {
        Self {
            rows: record.rows,
            k: record.k,
            l: record.l,
            below_running_max: record.below_running_max,
            overlapping: record.overlapping,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_goes_on_where_it_was_recorded() {
        let times: Vec<i64> = (0..9_000_i64).map(|number| number * 7 % 4_001 - 2_000).collect();
        let mut measure = ArrivalMeasure::default();
        let mut again = measure.clone();
        for times in times.chunks(1_000) {
            measure.observe(times);
            again.observe(times);
            let text = serde_json::to_string(&again.record()).expect("plain data");
            let record = serde_json::from_str(&text).expect("as it was written");
            again = ArrivalMeasure::of_record(&record).expect("as it was recorded");
            assert_eq!(serde_json::to_string(&again.record()).expect("plain data"), text);
            assert!(text.len() < 6_000, "{} bytes", text.len());
        }
        let (order, again) = (measure.order().total, again.order().total);
        assert_eq!(Estimate { l: 0, ..order }, Estimate { l: 0, ..again });
        assert!(order.l.abs_diff(again.l) <= 9_000 / 64, "{order:?} {again:?}");
    }

    #[test]
    fn a_record_with_a_single_runner_up_is_read() {
        let mut measure = ArrivalMeasure::default();
        measure.observe(&[9, 1, 12, 2]);
        let mut record = serde_json::to_value(measure.record()).expect("plain data");
        for later in ["runners_up", "older_piles"] {
            record
                .as_object_mut()
                .map(|members| members.remove(later))
                .expect("an object");
        }
        assert_eq!(record["runner_up"], serde_json::json!([9, 2]));
        let record: OrderRecord = serde_json::from_value(record).expect("complete");
        let mut again = ArrivalMeasure::of_record(&record).expect("as it was recorded");
        for measure in [&mut measure, &mut again] {
            measure.observe(&[3, 4, 5]);
        }
        assert_eq!(again.order().total, measure.order().total);
        assert_eq!(again.order().total.l, 5);
    }

    #[test]
    fn lists_of_different_lengths_are_refused() {
        let damages: [fn(&mut OrderRecord); 3] = [
            |record| record.runners_up.below.clear(),
            |record| record.runners_up.arrivals.clear(),
            |record| record.older_piles.ends.clear(),
        ];
        let mut measure = ArrivalMeasure::default();
        let times: Vec<i64> = (0..2_000).map(|time| time ^ 1).collect();
        measure.observe(&times);
        assert!(ArrivalMeasure::of_record(&measure.record()).is_some());
        for damage in damages {
            let mut record = measure.record();
            damage(&mut record);
            assert!(ArrivalMeasure::of_record(&record).is_none(), "{record:?}");
        }
    }

    #[test]
    fn sums_that_overflow_are_refused() {
        assert_eq!(
            sums(&differences(&[1, 1, 5, u64::MAX])),
            Some(vec![1, 1, 5, u64::MAX])
        );
        assert_eq!(sums(&[1, u64::MAX]), None);
    }
}
