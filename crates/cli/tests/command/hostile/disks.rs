//! Small file systems that fill up, and ones that cannot be written to.
//!
//! Mounting needs privileges. Without them the test runs itself in a namespace of its own, where it
//! has them for `tmpfs`; the file systems that need a block device are then left to machines on
//! which root runs the tests. A machine that allows neither says so.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use bedload_testkit::Rng;
use nix::sys::statvfs::statvfs;

use super::outcome::{Cases, Findings, Limited, orderly, run_limited, says_not_put_back};
use super::scenario::{Prepared, SCENARIOS};
use crate::harness::Place;

/// Set for the copy of this test that runs in a namespace of its own.
const INNER: &str = "BEDLOAD_HOSTILE_IN_NAMESPACE";

/// A file system that is unmounted when the value is dropped.
struct Mount<'a> {
    at: &'a Path,
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        // Lazily, as a process that another test is about to start may still share its files.
        Command::new("umount").arg("-l").arg(self.at).status().unwrap();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tmpfs,
    Ext4,
    Vfat,
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

impl Kind {
    /// Mounts a file system of `mebibytes` at `at`; `None` if the machine does not allow it.
    fn mount<'a>(self, at: &'a Path, image: &Path, mebibytes: u64) -> Option<Mount<'a>> {
        let mounted = match self {
            Self::Tmpfs => succeeds(
                Command::new("mount")
                    .args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "none"])
                    .arg(at),
            ),
            Self::Ext4 | Self::Vfat => {
                let file = std::fs::File::create(image).unwrap();
                file.set_len(mebibytes << 20).unwrap();
                let (make, options): (&str, &[&str]) = match self {
                    Self::Vfat => ("mkfs.vfat", &[]),
                    _ => ("mkfs.ext4", &["-q", "-F"]),
                };
                succeeds(Command::new(make).args(options).arg(image))
                    && succeeds(Command::new("mount").args(["-o", "loop"]).arg(image).arg(at))
            }
        };
        mounted.then(|| Mount { at })
    }
}

/// The kinds that can be mounted here.
fn kinds() -> Vec<Kind> {
    let disk = Place::new();
    std::fs::create_dir(disk.path("disk")).unwrap();
    [Kind::Tmpfs, Kind::Ext4, Kind::Vfat]
        .into_iter()
        .filter(|kind| kind.mount(&disk.path("disk"), &disk.path("image"), 64).is_some())
        .collect()
}

/// Takes all space but `free_kib`.
fn fill(filler: &Path, free_kib: u64) {
    let stat = statvfs(filler.parent().unwrap()).unwrap();
    let available = stat.blocks_available() * stat.fragment_size();
    let len = available.saturating_sub(free_kib << 10);
    let written = std::fs::write(filler, vec![1; usize::try_from(len).unwrap()]);
    // The file system needs some of it for itself.
    assert!(written.is_ok() || free_kib == 0, "{written:?}");
}

/// Runs a scenario on a disk on which `free_kib` are left.
fn on_full_disk(prepared: &Prepared, disk: &Path, free_kib: u64) -> Result<bool, String> {
    let place = prepared.place_within(disk);
    let filler = place.path("filler");
    fill(&filler, free_kib);
    let mut command = place.command(prepared.scenario.command);
    let Limited { code, stderr, .. } = run_limited(&mut command, |_| ())?;
    // Reading needs no space, so this comes before there is some again.
    let done = prepared.check(&place, code, &stderr)?;
    std::fs::remove_file(filler).unwrap();
    if !done && !says_not_put_back(&stderr) {
        let mut command = place.command(prepared.scenario.command);
        let Limited { code, stderr, .. } = run_limited(&mut command, |_| ())?;
        if !prepared.check(&place, code, &stderr)? {
            return Err(format!("fails when there is space again: {stderr}"));
        }
    }
    Ok(done)
}

/// Runs a test in a namespace in which it may mount; returns whether this process may do that
/// itself.
fn may_mount(test: &str) -> bool {
    if !kinds().is_empty() {
        return true;
    }
    assert!(
        std::env::var_os(INNER).is_none(),
        "a namespace of its own lets this test mount nothing"
    );
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount"]);
        command
    };
    if !succeeds(unshare().arg("true")) {
        // Some containers and distributions forbid both; nothing of the store depends on it.
        // Written past the test's own output, which is shown only if it fails.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {test}: this machine lets neither this user nor a namespace mount file systems"
        );
        return false;
    }
    let inner = unshare()
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(INNER, "1")
        .status();
    assert!(inner.unwrap().success(), "{test} fails in a namespace");
    false
}

#[test]
fn a_full_disk_is_an_error_and_leaves_the_store_as_it_was() {
    if !may_mount("hostile::disks::a_full_disk_is_an_error_and_leaves_the_store_as_it_was") {
        return;
    }
    let scenarios: Vec<Prepared> = SCENARIOS
        .iter()
        .map(|scenario| {
            Prepared::new(scenario, 20, |place| {
                place.output(scenario.command);
            })
        })
        .collect();
    let mut random = Rng::new(0x00f0_11d1);
    let mut findings = Findings::default();
    let (mut failed, mut done) = (0, 0);
    let kinds = kinds();
    for () in Cases::new(40) {
        let mut pick = |len: usize| usize::try_from(random.below(len as u64)).unwrap();
        let (prepared, kind) = (&scenarios[pick(scenarios.len())], kinds[pick(kinds.len())]);
        let free_kib = [0, 64, 256, 1024, 2048, 4096, 8192][pick(7)];
        let case = format!("{} on {kind:?} with {free_kib} KiB free", prepared.scenario.name);
        let disk = Place::new();
        let at = disk.path("disk");
        std::fs::create_dir(&at).unwrap();
        let _mount = kind.mount(&at, &disk.path("image"), 64).unwrap();
        match findings.note(&case, on_full_disk(prepared, &at, free_kib)) {
            Some(true) => done += 1,
            Some(false) => failed += 1,
            None => {}
        }
    }
    findings.assert_none();
    assert!(
        failed > 0 && done > 0,
        "{failed} runs failed, {done} did their work"
    );
}

#[test]
fn a_disk_that_cannot_be_written_to_is_an_error() {
    if !may_mount("hostile::disks::a_disk_that_cannot_be_written_to_is_an_error") {
        return;
    }
    let mut findings = Findings::default();
    for scenario in &SCENARIOS {
        let prepared = Prepared::new(scenario, 1, |place| {
            place.output(scenario.command);
        });
        let disk = Place::new();
        let at = disk.path("disk");
        std::fs::create_dir(&at).unwrap();
        let _mount = Kind::Tmpfs.mount(&at, &disk.path("image"), 64).unwrap();
        let place = prepared.place_within(&at);
        let remount = |how: &str| {
            assert!(
                succeeds(Command::new("mount").args(["-o", how]).arg(&at)),
                "{how}"
            );
        };
        // With `bind` the mount changes and not the file system, which an ordinary user may do too.
        remount("remount,bind,ro");
        let checked = run_limited(&mut place.command(scenario.command), |_| ())
            .and_then(|Limited { code, stderr, .. }| orderly(code, &stderr));
        remount("remount,bind,rw");
        let checked = checked.and_then(|done| match done {
            true => Err("writes to what cannot be written to".to_owned()),
            false => prepared.check_untouched(&place),
        });
        findings.note(scenario.name, checked);
    }
    findings.assert_none();
}
