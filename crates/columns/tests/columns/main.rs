//! Tests of leaves from outside: what comes back, what zone maps rule out, what damage does.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod damage;
mod fixture;
mod generate;
mod limits;
mod round_trip;
mod runs;
mod zone_maps;
