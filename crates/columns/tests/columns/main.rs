//! Tests of leaves from outside: what comes back, what zone maps rule out, what damage does.

mod damage;
mod fixture;
mod generate;
mod limits;
mod round_trip;
mod zone_maps;
