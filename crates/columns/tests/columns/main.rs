//! Tests of the public interface of leaves: round trips, zone maps, damage.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod damage;
mod fixture;
mod generate;
mod limits;
mod round_trip;
mod runs;
mod zone_maps;
