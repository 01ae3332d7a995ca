//! What fuzzers have found.

use std::path::PathBuf;

/// Gives each input in the corpus of a fuzz target to a function, which must return.
///
/// The corpora are in the repository, not in the package: tests that call this run only there.
///
/// ```
/// bedload_testkit::go_through_corpus("lock", |input| {
///     let _ = String::from_utf8_lossy(input);
/// });
/// ```
///
/// # Panics
///
/// If the target has no corpus, as is so outside of the repository, or one that cannot be read.
pub fn go_through_corpus(target: &str, run: impl Fn(&[u8])) {
    let corpora = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut inputs = 0;
    for entry in std::fs::read_dir(corpora.join(target)).expect("corpora are part of the repository") {
        run(&std::fs::read(entry.expect("reads").path()).expect("reads"));
        inputs += 1;
    }
    assert!(inputs > 0, "{target} has no corpus");
}
