//! Numbers that the environment may set: how long tests go on, and seeds.

/// The number of this name, or what it is otherwise.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |number| number.parse().expect("a number"))
}
