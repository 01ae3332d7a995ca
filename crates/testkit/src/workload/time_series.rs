//! Keys of a time series from many sensors, as in papers on in-memory time-series indexes: from
//! high to low bits a time stamp, the number of a sensor, and the number of a thread.

/// Bits of the time stamp in a key. The stamp counts from the start of a run, as the absolute count
/// of a gigahertz counter may not fit.
pub const TIME_BITS: u32 = 48;

/// Each thread writes for this many sensors in turn.
pub const SENSORS_PER_THREAD: u16 = 1024;

const SENSOR_SHIFT: u32 = 6;
const TIME_SHIFT: u32 = 16;

/// Returns `(time << 16) | (sensor << 6) | thread`.
///
/// ```
/// use bedload_testkit::workload::{key, key_parts};
/// assert_eq!(key_parts(key(5, 1023, 63)), (5, 1023, 63));
/// ```
///
/// # Panics
///
/// If the time has more than [`TIME_BITS`] bits, the sensor is not below [`SENSORS_PER_THREAD`], or
/// the thread is not below 64.
#[must_use]
pub const fn key(time: u64, sensor: u16, thread: u8) -> u64 {
    assert!(time >> TIME_BITS == 0, "the time stamp overflows its bits");
    assert!(sensor < SENSORS_PER_THREAD && thread < 1 << SENSOR_SHIFT);
    (time << TIME_SHIFT) | ((sensor as u64) << SENSOR_SHIFT) | thread as u64
}

/// Returns the time, sensor and thread of a key.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "masked to the width of each field"
)]
pub const fn key_parts(key: u64) -> (u64, u16, u8) {
    let sensor = (key >> SENSOR_SHIFT) & (SENSORS_PER_THREAD as u64 - 1);
    let thread = key & ((1 << SENSOR_SHIFT) - 1);
    (key >> TIME_SHIFT, sensor as u16, thread as u8)
}

/// The keys of one thread, whose sensors take turns. The caller reads the time, from a clock or a
/// counter, just before it inserts.
///
/// ```
/// use bedload_testkit::workload::{SensorStream, key};
/// let mut stream = SensorStream::new(3);
/// assert_eq!(stream.key_at(100), key(100, 0, 3));
/// assert_eq!(stream.key_at(100), key(100, 1, 3));
/// ```
#[derive(Debug, Clone)]
pub struct SensorStream {
    thread: u8,
    sensor: u16,
}

impl SensorStream {
    /// Creates the stream of the `thread`-th thread, below 64.
    #[must_use]
    pub const fn new(thread: u8) -> Self {
        Self { thread, sensor: 0 }
    }

    /// Returns the key of the next sensor's reading at `time`.
    pub const fn key_at(&mut self, time: u64) -> u64 {
        let key = key(time, self.sensor, self.thread);
        self.sensor = (self.sensor + 1) % SENSORS_PER_THREAD;
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ascend_with_time_first() {
        assert!(key(2, 0, 0) > key(1, SENSORS_PER_THREAD - 1, 63));
        assert!(key(1, 1, 0) > key(1, 0, 63));
    }

    #[test]
    fn sensors_take_turns() {
        let mut stream = SensorStream::new(1);
        let sensors: Vec<u16> = (0..2050).map(|time| key_parts(stream.key_at(time)).1).collect();
        assert!(sensors.iter().zip((0..1024).cycle()).all(|(a, b)| *a == b));
    }
}
