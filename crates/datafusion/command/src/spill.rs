//! Temporary files for the rows of a query that memory has no room for. They have no names, so
//! nothing is left of them however the program ends.

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};

/// Bytes that are read at a time.
const CHUNK: usize = 256 << 10;

/// Creates the files in a folder.
pub(crate) struct SpillFiles(pub(crate) PathBuf);

/// The folder for large temporary files: that of `TMPDIR`, or else `/var/tmp`, because many systems
/// keep `/tmp` in memory.
pub(crate) fn folder() -> PathBuf {
    let on_disk = Path::new("/var/tmp");
    if env::var_os("TMPDIR").is_none() && on_disk.is_dir() {
        on_disk.to_owned()
    } else {
        env::temp_dir()
    }
}

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        let file = tempfile::tempfile_in(&self.0)?;
        Ok(Arc::new(Unnamed(Arc::new(file))))
    }
}

struct Unnamed(Arc<File>);

impl SpillFile for Unnamed {
    fn size(&self) -> Option<u64> {
        Some(self.0.metadata().ok()?.len())
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let begin = (self.0.clone(), 0);
        Ok(Box::pin(stream::try_unfold(begin, async |(file, offset)| {
            let read = SpawnedTask::spawn_blocking(move || {
                let mut chunk = vec![0; CHUNK];
                let length = read_at(&file, &mut chunk, offset)?;
                chunk.truncate(length);
                io::Result::Ok((file, chunk))
            });
            let (file, chunk) = read.join_unwind().await.map_err(io::Error::other)??;
            let offset = offset + chunk.len() as u64;
            Ok((!chunk.is_empty()).then(|| (Bytes::from(chunk), (file, offset))))
        })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Appender(self.0.clone())))
    }
}

/// Reads what there is at an offset; nothing at the end of the file.
fn read_at(file: &File, chunk: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.read_at(chunk, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Writes at the end: the file's offset moves with writes alone.
struct Appender(Arc<File>);

impl Write for Appender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Appender {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    #[tokio::test]
    async fn a_file_gives_what_was_written_and_has_no_name() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let files = SpillFiles(dir.path().to_owned());
        let file = files.create_temp_file("a test").expect("creates");
        let written: Vec<u8> = (0..=250).cycle().take(3 * CHUNK + 5).collect();
        for part in written.chunks(CHUNK - 1) {
            file.open_writer()
                .expect("opens")
                .write_all(part)
                .expect("writes");
            let read: Vec<Bytes> = file
                .read_stream()
                .expect("opens")
                .try_collect()
                .await
                .expect("reads");
            let read = read.concat();
            assert_eq!(read, written[..read.len()]);
            assert_eq!(file.size(), Some(read.len() as u64));
        }
        assert_eq!(file.size(), Some(written.len() as u64));
        assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 0);
    }
}
