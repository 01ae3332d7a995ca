//! The lock file: who has a store open. Format: docs/format.md, "Directory".

use std::path::Path;

use crate::disk::{Disk, DiskLock};
use crate::error::{Error, Result};

pub(super) const LOCK_FILE: &str = "lock";

/// Takes the lock of the store in `dir`, which is held until the value is dropped.
pub(super) fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskLock>> {
    let path = dir.join(LOCK_FILE);
    disk.lock(&path, &encode(std::process::id())).map_err(|source| {
        if source.kind() == std::io::ErrorKind::WouldBlock {
            let holder = decode(&disk.lock_holder(&path))
                .map_or("another process".into(), |pid| format!("process {pid}"));
            Error::Locked {
                path: dir.into(),
                holder,
            }
        } else {
            Error::io(&path, "lock", source)
        }
    })
}

fn encode(pid: u32) -> String {
    let text = format!("process {pid}");
    format!("{text} crc32c {:08x}\n", crc32c::crc32c(text.as_bytes()))
}

/// The process that the text of a lock file names; none if the text is damaged, or is being written.
pub(crate) fn decode(text: &str) -> Option<u32> {
    let pid = text.strip_prefix("process ")?.split(' ').next()?.parse().ok()?;
    (encode(pid) == text).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_text_names_nobody() {
        let text = encode(4711);
        assert_eq!(decode(&text), Some(4711));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(decode(&String::from_utf8_lossy(&bytes)), None, "byte {at}");
            assert_eq!(decode(&text[..at]), None, "{at} bytes");
        }
    }
}
