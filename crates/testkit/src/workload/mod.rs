//! Seeded keys: nearly sorted, time series from many sensors, delayed, scrambled.

mod ahead;
mod degrees;
mod delay;
mod nearly_sorted;
mod places;
mod scrambled;
mod time_series;

pub use degrees::{DEGREES, arrivals};
pub use delay::{Late, LateKey, Poisson, PoissonDelay};
pub use nearly_sorted::{Disordered, NearlySorted};
pub use scrambled::{scattered, scrambled};
pub use time_series::{SENSORS_PER_THREAD, SensorStream, TIME_BITS, key, key_parts};
