//! Links, pipes and directories in the place of each file of a store.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use bedload_testkit::stride;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::outcome::{Findings, Limited, orderly, run_limited};
use super::scenario::copy;
use crate::harness::{Place, near_sorted_csv};

/// The replacement for a file or directory of the store.
#[derive(Debug, Clone, Copy)]
enum Strange {
    /// A link to a file of somebody else.
    LinkToVictim,
    /// A link to the store's own file, moved elsewhere.
    LinkToItself,
    /// A link to nothing, so that creating the file would create it there.
    LinkToNothing,
    /// A link to a directory of somebody else.
    LinkToDirectory,
    Pipe,
    Directory,
    Socket,
}

const ALL: [Strange; 7] = [
    Strange::LinkToVictim,
    Strange::LinkToItself,
    Strange::LinkToNothing,
    Strange::LinkToDirectory,
    Strange::Pipe,
    Strange::Directory,
    Strange::Socket,
];

const COMMANDS: [&str; 8] = [
    "info s",
    "query s t",
    "verify s",
    "ingest s t more.csv --time-unit s",
    "delete s t --from 1970-01-12T14:00:00",
    "backup s copy",
    "salvage s copy",
    "convert s g h --layout indexed",
];

fn all_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all_below(&path, found);
        }
        found.push(path);
    }
}

/// Puts something strange in the place of `path`.
fn replace(path: &Path, strange: Strange, place: &Place) {
    let aside = place.path("aside");
    std::fs::rename(path, &aside).unwrap();
    match strange {
        Strange::LinkToVictim => symlink(place.path("victim"), path).unwrap(),
        Strange::LinkToItself => symlink(&aside, path).unwrap(),
        Strange::LinkToNothing => symlink(place.path("nothing"), path).unwrap(),
        Strange::LinkToDirectory => symlink(place.path("victims"), path).unwrap(),
        Strange::Pipe => mkfifo(path, Mode::S_IRWXU).unwrap(),
        Strange::Directory => std::fs::create_dir(path).unwrap(),
        Strange::Socket => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
    }
}

#[test]
fn nothing_is_read_or_written_through_what_is_no_file_of_the_store() {
    const VICTIM: &[u8] = b"somebody else's, and longer than a lock file\n";
    let origin = Place::new();
    origin.write("rows.csv", near_sorted_csv(500));
    origin.write("more.csv", near_sorted_csv(300));
    origin.write(
        "grid.csv",
        (0..400).fold("t,n\n".to_owned(), |csv, t| csv + &format!("{t},1\n")),
    );
    let schema = "--time t --schema t:timestamp(s),n:int64";
    origin.output(&format!("ingest s t rows.csv {schema}"));
    origin.output(&format!(
        "ingest s g grid.csv {schema} --layout sparse --interval 1s"
    ));
    let mut paths = Vec::new();
    all_below(&origin.path("s"), &mut paths);
    assert!(paths.len() >= 6, "{paths:?}");

    let mut findings = Findings::default();
    let cases = paths
        .iter()
        .flat_map(|path| ALL.into_iter().map(move |strange| (path, strange)))
        .flat_map(|(path, strange)| COMMANDS.into_iter().map(move |command| (path, strange, command)));
    for (path, strange, command) in cases.step_by(stride()) {
        let name = path.strip_prefix(origin.path("s")).unwrap();
        let place = Place::new();
        copy(&origin.path(""), &place.path(""));
        place.write("victim", VICTIM);
        std::fs::create_dir(place.path("victims")).unwrap();
        place.write("victims/data", VICTIM);
        replace(&place.path("s").join(name), strange, &place);
        let case = format!("{command}, {} is {strange:?}", name.display());
        let checked = run_limited(&mut place.command(command), |_| ()).and_then(|limited| {
            let Limited { code, stderr, .. } = limited;
            orderly(code, &stderr)?;
            let victim = std::fs::read(place.path("victim")).unwrap();
            let others = std::fs::read_dir(place.path("victims")).unwrap().count();
            let other = std::fs::read(place.path("victims/data")).unwrap();
            if victim != VICTIM || other != VICTIM || others != 1 {
                return Err(format!("changes what is not the store's, and says {stderr}"));
            }
            if place.path("nothing").exists() {
                return Err(format!("creates a file elsewhere, and says {stderr}"));
            }
            Ok(())
        });
        findings.note(&case, checked);
    }
    findings.assert_none();
}
