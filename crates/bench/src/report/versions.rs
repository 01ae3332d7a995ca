//! Versions of peers that are measured beside tables and sparse tables.

use std::process::Command;

use crate::subjects::tables::duckdb_python;

const LOCK: &str = include_str!("../../../../Cargo.lock");

/// Returns the version of the store that a subject is, if it is such a peer.
pub(super) fn version_of(subject: &str) -> Option<String> {
    match subject {
        "duckdb" => version_of_duckdb(),
        "fjall" | "parquet" | "redb" => version_of_crate(subject).map(str::to_owned),
        "lmdb" => {
            let version = heed::lmdb_version();
            Some(format!("{}.{}.{}", version.major, version.minor, version.patch))
        }
        // The crate's version has that of the library after a sign.
        "rocksdb" => {
            let (_, version) = version_of_crate("librocksdb-sys")?.split_once('+')?;
            Some(version.to_owned())
        }
        "sqlite" => Some(rusqlite::version().to_owned()),
        _ => None,
    }
}

fn version_of_duckdb() -> Option<String> {
    let mut print = Command::new(duckdb_python()?);
    print.args(["-c", "import duckdb; print(duckdb.__version__)"]);
    let printed = print.output().ok()?.stdout;
    Some(String::from_utf8(printed).ok()?.trim().to_owned())
}

fn version_of_crate(name: &str) -> Option<&'static str> {
    let line = format!("name = \"{name}\"");
    let mut lines = LOCK.lines().skip_while(|found| *found != line).skip(1);
    let version = lines.next()?.strip_prefix("version = \"")?;
    version.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::version_of;

    #[test]
    fn peers_have_versions() {
        for subject in ["fjall", "lmdb", "parquet", "redb", "rocksdb", "sqlite"] {
            let version = version_of(subject).unwrap_or_default();
            assert!(
                version.starts_with(|c: char| c.is_ascii_digit()),
                "{subject}: {version}"
            );
        }
        assert_eq!(version_of("bedload"), None);
    }
}
