//! A store in its own process, controlled by lines of JSON.
//!
//! So its memory, I/O and processor time are its own, and it can be killed.

mod deletions;
mod filter;
mod keyed;
mod sustained;

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bedload_testkit::Rng;

use super::arrival::{Arrival, Input};
use super::oracle::Oracle;
use super::process::{Usage, disk_bytes, forget_peak};
use super::protocol::{Reply, Request};
use super::waits::{microseconds, milliseconds, quantiles, stalls, tenths};
use crate::record::Figure;
use crate::subjects::tables::{Readings, TableOptions, TableStore, by_name, timed};
use crate::threads::on_threads;

/// The most rows generated in advance; further rows are generated while the clock is stopped.
const WINDOW_ROWS: usize = 4 << 20;
/// Rows of a batch appended during reads.
const SMALL_BATCH_ROWS: usize = 1000;
/// The longest time of reads beside a writer, if they are slow.
const READS_BESIDE_TIME: Duration = Duration::from_secs(3);

/// Serves requests from standard input on standard output until it ends.
///
/// # Errors
///
/// A request cannot be read, or a response cannot be written.
pub fn serve() -> io::Result<()> {
    let mut worker: Option<Worker> = None;
    for line in io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let figures = match request {
            Request::Open {
                store,
                dir,
                options,
                input,
            } => {
                let entrant =
                    by_name(&store).ok_or_else(|| io::Error::other(format!("no store is called {store}")))?;
                let (opened, seconds) = timed(|| (entrant.open)(&dir, &options));
                let mut figures = vec![Figure::new("open", "ms", milliseconds(seconds))];
                let (rows, counting) = timed(|| opened.count(None));
                if input.is_some() {
                    figures.push(Figure::new(
                        "open and count",
                        "ms",
                        milliseconds(seconds + counting),
                    ));
                    figures.push(Figure::new("rows found", "rows", rows as f64));
                }
                worker = Some(Worker {
                    name: store,
                    dir,
                    options,
                    store: Some(opened),
                    oracle: input.map(|input| Oracle::new(&input)),
                    loaded: input,
                });
                figures
            }
            request => worker
                .as_mut()
                .ok_or_else(|| io::Error::other("no store is open"))?
                .perform(&request),
        };
        let process = worker.as_ref().map_or(0, |worker| worker.store().process());
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &Reply { process, figures })?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(())
}

struct Worker {
    name: String,
    dir: PathBuf,
    options: TableOptions,
    /// `None` only while it is closed.
    store: Option<Box<dyn TableStore>>,
    loaded: Option<Input>,
    /// Created on first use, as it takes memory.
    oracle: Option<Oracle>,
}

impl Worker {
    fn perform(&mut self, request: &Request) -> Vec<Figure> {
        if let Request::Load {
            input,
            batch_rows,
            writers,
            flushes,
            most,
        } = *request
        {
            let (mut figures, rows) = self.load(&input, batch_rows, writers, flushes, most);
            self.loaded = Some(Input { rows, ..input });
            if flushes {
                let bytes = self.bytes_at_rest() as f64 / rows as f64;
                figures.push(Figure::new("on the disk for a row", "bytes", bytes));
            }
            return figures;
        }
        if let Request::Sustain {
            arrival,
            batch_rows,
            milliseconds,
        } = *request
        {
            let time = Duration::from_millis(milliseconds);
            let (mut figures, rows) = sustained::append_and_read(self.store(), arrival, batch_rows, time);
            let bytes = self.bytes_at_rest() as f64 / rows as f64;
            figures.push(Figure::new("on the disk for a row", "bytes", bytes));
            return figures;
        }
        if let Request::Upsert(upserts) = request {
            let (mut figures, oracle) = keyed::load_and_upsert(self.store(), upserts, &self.name);
            let bytes = self.bytes_at_rest() as f64 / oracle.len() as f64;
            figures.push(Figure::new("on the disk for a row", "bytes", bytes));
            return figures;
        }
        if self.oracle.is_none() {
            self.oracle = self.loaded.as_ref().map(Oracle::new);
        }
        match *request {
            Request::Check => {
                self.oracle().check(self.store(), &self.name);
                Vec::new()
            }
            Request::Ranges { rows, ranges, seed } => self.ranges(rows, ranges, seed),
            Request::Points { rows, seed } => self.points(rows, seed),
            Request::Newest { rows, times } => self.newest(rows, times),
            Request::NewestBeside { rows, batches, reads } => self.newest_beside(rows, batches, reads),
            Request::Count { seed } => self.count(seed),
            Request::DeleteOlderHalf => self.delete_older_half(),
            Request::DeleteFew { ranges } => {
                let deleted = deletions::deleted(self.oracle(), ranges);
                let figures = deletions::delete_and_read(self.store(), self.oracle(), &deleted);
                self.oracle.as_mut().expect("rows were loaded").delete(&deleted);
                self.oracle().check(self.store(), &self.name);
                figures
            }
            Request::Filter => filter::read(self.store(), self.oracle(), &self.name),
            Request::Reopen => self.reopen(),
            Request::Open { .. } | Request::Load { .. } | Request::Sustain { .. } | Request::Upsert(_) => {
                unreachable!("done above")
            }
        }
    }

    fn store(&self) -> &dyn TableStore {
        self.store.as_deref().expect("it is open")
    }

    /// Closes the store, returns the bytes of its files, and opens it again. Open stores keep log
    /// files for the next rows.
    fn bytes_at_rest(&mut self) -> u64 {
        self.store = None;
        let bytes = disk_bytes(&self.dir);
        let entrant = by_name(&self.name).expect("it was opened by this name");
        self.store = Some((entrant.open)(&self.dir, &self.options));
        bytes
    }

    fn reopen(&mut self) -> Vec<Figure> {
        let bytes = self.bytes_at_rest();
        self.store = None;
        let entrant = by_name(&self.name).expect("it was opened by this name");
        let (opened, opening) = timed(|| (entrant.open)(&self.dir, &self.options));
        self.store = Some(opened);
        vec![
            Figure::new("open again", "ms", milliseconds(opening)),
            Figure::new("on the disk", "MiB", bytes as f64 / f64::from(1 << 20)),
        ]
    }

    fn oracle(&self) -> &Oracle {
        self.oracle.as_ref().expect("rows were loaded")
    }

    /// Appends rows, for at most so long; returns the figures and the number of rows.
    fn load(
        &self,
        input: &Input,
        batch_rows: usize,
        writers: usize,
        flushes: bool,
        most: Option<Duration>,
    ) -> (Vec<Figure>, usize) {
        let (store, times) = (self.store(), input.times());
        let process = store.process();
        let (mut waits, mut seconds, mut processor_seconds) = (Vec::new(), 0.0, 0.0);
        let (mut resident, mut peak) = (None, 0);
        let written = Usage::of(process).written_bytes;
        let window = WINDOW_ROWS.next_multiple_of(batch_rows);
        for (number, times) in times.chunks(window).enumerate() {
            let firsts = (number * window..).step_by(batch_rows);
            let batches: Vec<Readings> = firsts
                .zip(times.chunks(batch_rows))
                .map(|(first, times)| Readings::new(first, times))
                .collect();
            forget_peak(process);
            let before = Usage::of(process);
            let resident = *resident.get_or_insert(before.resident_bytes);
            let next = AtomicUsize::new(0);
            let (each, _) = on_threads(writers, |_| {
                let (mut waits, mut all) = (Vec::new(), Duration::ZERO);
                while most.is_none_or(|most| all < most) {
                    let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        break;
                    };
                    let ((), wait) = timed(|| store.append(batch));
                    waits.push((batch.len(), wait));
                    all += wait;
                }
                (waits, all)
            });
            seconds += each.iter().map(|(_, all)| all.as_secs_f64()).fold(0.0, f64::max);
            waits.extend(each.into_iter().flat_map(|(waits, _)| waits));
            let after = Usage::of(process);
            processor_seconds += after.processor_seconds - before.processor_seconds;
            peak = peak.max(after.peak_bytes.saturating_sub(resident));
            if most.is_some_and(|most| seconds >= most.as_secs_f64()) {
                break;
            }
        }
        let mut flush = 0.0;
        if flushes {
            forget_peak(process);
            let before = Usage::of(process);
            flush = timed(|| store.flush()).1.as_secs_f64();
            let after = Usage::of(process);
            processor_seconds += after.processor_seconds - before.processor_seconds;
            peak = peak.max(after.peak_bytes.saturating_sub(resident.unwrap_or(0)));
        }
        let loaded: usize = waits.iter().map(|(rows, _)| rows).sum();
        let rows = loaded as f64;
        let mut figures = vec![
            Figure::new("ingest", "krows/s", rows / (seconds + flush) / 1e3),
            Figure::new("flush at the end", "ms", flush * 1e3),
            Figure::new("processor time of a row", "ns", processor_seconds * 1e9 / rows),
        ];
        figures.extend(stalls(&waits));
        if writers == 1 {
            figures.extend(tenths(&waits));
        }
        let written = Usage::of(process).written_bytes - written;
        figures.extend([
            Figure::new("written for a row", "bytes", written as f64 / rows),
            Figure::new("peak memory", "MiB", peak as f64 / f64::from(1 << 20)),
        ]);
        (figures, loaded)
    }

    fn ranges(&self, rows: usize, ranges: usize, seed: u64) -> Vec<Figure> {
        let (oracle, rng) = (self.oracle(), &mut Rng::new(seed));
        let (mut all, mut expected) = (Duration::ZERO, 0);
        for _ in 0..ranges {
            let ((from, to), rows) = oracle.range(rows, rng);
            let mut found = 0;
            let ((), time) = timed(|| {
                self.store()
                    .range(from, to, &mut |batch| found += batch.num_rows() as u64)
            });
            assert_eq!(found, rows, "{}: rows from {from} to {to}", self.name);
            all += time;
            expected += rows;
        }
        let name = if rows >= oracle.len() {
            "all rows into Arrow".to_owned()
        } else {
            format!("ranges of {rows} into Arrow")
        };
        let each = Figure::new(format!("{name}, each"), "us", microseconds(all) / ranges as f64);
        vec![
            each,
            Figure::new(name, "krows/s", expected as f64 / all.as_secs_f64() / 1e3),
        ]
    }

    fn points(&self, rows: usize, seed: u64) -> Vec<Figure> {
        let (oracle, rng) = (self.oracle(), &mut Rng::new(seed));
        let ids: Vec<_> = (0..rows).map(|_| oracle.row(rng)).collect();
        let all: Duration = ids
            .into_iter()
            .map(|id| {
                let (found, time) = timed(|| self.store().point(id));
                assert!(found.is_some(), "{}: the row at {}", self.name, id.time);
                time
            })
            .sum();
        vec![Figure::new("read a row", "us", microseconds(all) / rows as f64)]
    }

    /// Returns the time of reading the newest rows once.
    fn newest_once(&self, rows: usize) -> Duration {
        let mut found = 0;
        let ((), time) = timed(|| self.store().newest(rows, &mut |batch| found += batch.num_rows()));
        assert_eq!(found, rows, "{}: newest rows", self.name);
        time
    }

    fn newest(&self, rows: usize, times: usize) -> Vec<Figure> {
        let all: Duration = (0..times).map(|_| self.newest_once(rows)).sum();
        vec![Figure::new(
            format!("newest {rows}"),
            "us",
            microseconds(all) / times as f64,
        )]
    }

    /// Reads the newest rows while a thread appends batches, each made just before it, until there
    /// are as many of both as asked for, or reads are slow.
    fn newest_beside(&mut self, rows: usize, batches: usize, reads: usize) -> Vec<Figure> {
        let oracle = self.oracle();
        let (first, from) = (oracle.len(), oracle.time(oracle.len()));
        let batch = |number: usize| {
            let after = number * SMALL_BATCH_ROWS;
            let input = Input {
                arrival: Arrival::InOrder,
                rows: SMALL_BATCH_ROWS,
                seed: 1,
            };
            let mut times = input.times();
            let shift = from - times[0] + input.arrival.advance(after);
            times.iter_mut().for_each(|time| *time += shift);
            Readings::new(first + after, &times)
        };
        let (done, begun) = (AtomicUsize::new(0), Instant::now());
        let (mut waits, (ids, writing)) = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let (mut ids, mut all) = (Vec::new(), Duration::ZERO);
                let is_read =
                    || done.load(Ordering::Acquire) >= reads || begun.elapsed() >= READS_BESIDE_TIME;
                for number in 0.. {
                    if number >= batches && is_read() {
                        break;
                    }
                    let batch = batch(number);
                    all += timed(|| self.store().append(&batch)).1;
                    ids.extend(batch.ids());
                }
                (ids, all)
            });
            let mut waits = Vec::new();
            while waits.is_empty() || !writer.is_finished() {
                waits.push(self.newest_once(rows));
                done.store(waits.len(), Ordering::Release);
            }
            (waits, writer.join().expect("the writer does not panic"))
        });
        waits.sort_unstable();
        let rate = ids.len() as f64 / writing.as_secs_f64() / 1e3;
        let oracle = self.oracle.as_mut().expect("rows were loaded");
        oracle.extend(ids.into_iter());
        let mut figures = quantiles(&format!("newest {rows} beside a writer"), "us", &waits);
        figures.push(Figure::new(
            format!("written beside, batches of {SMALL_BATCH_ROWS}"),
            "krows/s",
            rate,
        ));
        figures
    }

    fn count(&self, seed: u64) -> Vec<Figure> {
        let (oracle, rng) = (self.oracle(), &mut Rng::new(seed));
        let (rows, all) = timed(|| self.store().count(None));
        assert_eq!(rows, oracle.len() as u64, "{}: rows", self.name);
        let (times, expected) = oracle.range((oracle.len() / 3).max(1), rng);
        let (rows, third) = timed(|| self.store().count(Some(times)));
        assert_eq!(rows, expected, "{}: rows of a third", self.name);
        vec![
            Figure::new("count all", "us", microseconds(all)),
            Figure::new("count a third", "us", microseconds(third)),
        ]
    }

    fn delete_older_half(&mut self) -> Vec<Figure> {
        let before = self.bytes_at_rest() as f64;
        let oracle = self.oracle();
        let middle = oracle.time(oracle.len() / 2);
        let ((), deleting) = timed(|| self.store().delete(i64::MIN, middle));
        let ((), flushing) = timed(|| self.store().flush());
        let flushed = self.bytes_at_rest() as f64;
        let ((), reclaiming) = timed(|| self.store().reclaim());
        let reclaimed = self.bytes_at_rest() as f64;
        let oracle = self.oracle.as_mut().expect("rows were loaded");
        oracle.delete(&[(i64::MIN, middle)]);
        self.oracle().check(self.store(), &self.name);
        vec![
            Figure::new("commit of the deletion", "ms", milliseconds(deleting)),
            Figure::new("flush after that", "ms", milliseconds(flushing)),
            Figure::new("disk left of before", "%", flushed / before * 100.0),
            Figure::new("give its space back", "ms", milliseconds(reclaiming)),
            Figure::new("disk left of before, given back", "%", reclaimed / before * 100.0),
        ]
    }
}
