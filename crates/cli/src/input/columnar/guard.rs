//! Readers of others that panic on damaged files, kept from ending the command.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is about to be caught, and so none of the user's business.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a reader; a panic becomes an error with its message. The data that the reader was working
/// on must not be used after it.
pub(super) fn guarded<T>(read: impl FnOnce() -> T) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                report(panic);
            }
        }));
    });
    IS_GUARDED.set(true);
    let result = catch_unwind(AssertUnwindSafe(read));
    IS_GUARDED.set(false);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        format!("its reader cannot go on ({})", text.unwrap_or("no reason given"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_that_says_why() {
        assert_eq!(guarded(|| 7), Ok(7));
        let failed: Result<(), String> = guarded(|| panic!("index {} out of bounds", 9));
        assert_eq!(
            failed,
            Err("its reader cannot go on (index 9 out of bounds)".to_owned())
        );
        assert!(guarded(|| -> () { std::panic::panic_any(7) }).is_err());
    }
}
