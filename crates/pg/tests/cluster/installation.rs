//! A copy of the server's installation, with the extension in it.
//!
//! PostgreSQL finds its files relative to its executable, so an extension can be installed and
//! created without touching the installation of the machine: executables are copied, everything
//! else is linked.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;

use crate::leftovers;

/// The user that servers run as, if that is not who runs the tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    user: u32,
    group: u32,
}

/// The version of the extension.
pub(crate) const VERSION: &str = "0.2.0";

/// Programs that look for others, or for files, beside themselves.
const SERVER_PROGRAMS: [&str; 5] = ["initdb", "pg_basebackup", "pg_ctl", "pg_upgrade", "postgres"];

/// Programs that are asked for beside these.
const OTHER_PROGRAMS: [&str; 7] = [
    "pg_controldata",
    "pg_dump",
    "pg_dumpall",
    "pg_resetwal",
    "pg_restore",
    "psql",
    "vacuumdb",
];

/// Where the executables are, and the clusters.
pub(crate) struct Installation {
    /// Removed with the value, or by a later run of the tests if this one is killed.
    root: TempDir,
    /// Locked as long as this process lives.
    _lock: File,
    bin: PathBuf,
    owner: Option<Owner>,
}

impl Installation {
    /// The installation, with a cluster in it for others to copy; made unless somebody has it.
    pub(crate) fn get() -> Arc<Self> {
        static INSTALLATION: Mutex<Weak<Installation>> = Mutex::new(Weak::new());
        let mut shared = INSTALLATION.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let installation = Arc::new(Self::new());
            *shared = Arc::downgrade(&installation);
            installation
        })
    }

    fn new() -> Self {
        leftovers::remove(&std::env::temp_dir());
        let root = tempfile::Builder::new()
            .prefix(leftovers::PREFIX)
            .tempdir()
            .expect("a temporary directory");
        let lock = leftovers::claim(root.path());
        leftovers::watch(root.path().to_owned());
        fs::set_permissions(root.path(), Permissions::from_mode(0o755)).expect("readable for the server");
        let [bin, lib, share] = ["--bindir", "--pkglibdir", "--sharedir"].map(pg_config);
        let common = common_ancestor(&[&bin, &lib, &share]);
        let place = |path: &Path| {
            root.path()
                .join(path.strip_prefix(&common).expect("it is an ancestor"))
        };
        let copied_bin = place(&bin);
        fs::create_dir_all(&copied_bin).expect("a directory");
        for name in SERVER_PROGRAMS {
            fs::copy(bin.join(name), copied_bin.join(name)).expect("an executable");
        }
        for name in OTHER_PROGRAMS {
            symlink(bin.join(name), copied_bin.join(name)).expect("a link");
        }
        mirror(&lib, &place(&lib), None);
        mirror(&share, &place(&share), Some("extension"));
        let extension = place(&share).join("extension");
        mirror(&share.join("extension"), &extension, None);
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let scripts = fs::read_dir(manifest.join("sql")).expect("the extension's scripts");
        let scripts = scripts.map(|script| script.expect("a script").path());
        for file in scripts.chain([manifest.join("bedload.control")]) {
            fs::copy(&file, extension.join(file.file_name().expect("a name")))
                .expect("a file of the extension");
        }
        fs::copy(module(), place(&lib).join("bedload_pg.so")).expect("the module");
        let installation = Self {
            bin: copied_bin,
            owner: owner(),
            _lock: lock,
            root,
        };
        let template = installation.template();
        fs::create_dir(&template).expect("a directory");
        installation.give(&template);
        let mut initdb = installation.command("initdb");
        initdb.args([
            "--auth=trust",
            "--username=postgres",
            "--no-sync",
            "--encoding=UTF8",
        ]);
        if major_version() >= 18 {
            // The tests of damage change bytes of pages.
            initdb.arg("--no-data-checksums");
        }
        run(initdb.arg("--pgdata").arg(&template));
        installation
    }

    /// Where the executables are.
    pub(crate) fn programs(&self) -> &Path {
        &self.bin
    }

    /// An initialised cluster.
    pub(crate) fn template(&self) -> PathBuf {
        self.root.path().join("template")
    }

    /// A new directory for a cluster.
    pub(crate) fn cluster_directory(&self) -> TempDir {
        let directory = tempfile::Builder::new()
            .prefix("cluster-")
            .tempdir_in(self.root.path());
        let directory = directory.expect("a temporary directory");
        self.give(directory.path());
        directory
    }

    /// A call of an executable, as the owner of clusters.
    pub(crate) fn command(&self, name: &str) -> Command {
        self.owned(&self.bin.join(name))
    }

    /// A call of a program, as the owner of clusters.
    pub(crate) fn owned(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").env("LC_ALL", "C");
        // Errors of a server would have it in their details.
        command.env_remove("RUST_BACKTRACE");
        if let Some(owner) = self.owner {
            command.uid(owner.user).gid(owner.group);
        }
        command
    }

    /// Makes a path the servers' own.
    pub(crate) fn give(&self, path: &Path) {
        if let Some(owner) = self.owner {
            chown(path, Some(owner.user), Some(owner.group)).expect("root may do that");
        }
    }
}

/// The module, next to the directory of this test.
fn module() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let built = test.parent().and_then(Path::parent).expect("a target directory");
    built.join("libbedload_pg.so")
}

/// Asks the server's `pg_config`.
pub(crate) fn pg_config(question: &str) -> PathBuf {
    let pg_config = std::env::var("PGRX_PG_CONFIG_PATH").unwrap_or_else(|_| "pg_config".to_owned());
    output(Command::new(pg_config).arg(question)).into()
}

/// The server's major version.
pub(crate) fn major_version() -> u32 {
    let version = pg_config("--version");
    let version = version.to_str().and_then(|version| version.split(' ').nth(1));
    let major = version.and_then(|version| version.split(|c: char| !c.is_ascii_digit()).next());
    major.and_then(|major| major.parse().ok()).expect("a version")
}

/// The setting that has every query that can be executed in parallel be so.
pub(crate) fn always_parallel() -> &'static str {
    if major_version() < 16 {
        "force_parallel_mode"
    } else {
        "debug_parallel_query"
    }
}

fn common_ancestor(paths: &[&Path]) -> PathBuf {
    let first = paths.first().expect("a path");
    let mut ancestors = first.ancestors();
    let common = ancestors.find(|ancestor| paths.iter().all(|path| path.starts_with(ancestor)));
    common.expect("they have the root in common").to_owned()
}

/// Links everything in a directory into another one, but for files of an extension that is
/// installed already: ours would be written through their links.
fn mirror(from: &Path, to: &Path, except: Option<&str>) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory of PostgreSQL's") {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        if name.to_str() != except && !name.to_string_lossy().starts_with("bedload") {
            symlink(entry.path(), to.join(entry.file_name())).expect("a link");
        }
    }
}

/// Whatever is installed on the machine, the files of the extension are copies, which servers of
/// several test runs do not share.
#[test]
fn files_of_the_extension_are_no_links() {
    let installation = Installation::get();
    let mut directories = vec![installation.root.path().to_owned()];
    let mut found = 0;
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let entry = entry.expect("an entry");
            let (name, kind) = (entry.file_name(), entry.file_type().expect("a kind"));
            let name = name.to_string_lossy();
            if name.starts_with("cluster-") || name == "template" {
                continue;
            }
            if kind.is_dir() {
                directories.push(entry.path());
            } else if name.starts_with("bedload") {
                assert!(kind.is_file(), "{}", entry.path().display());
                found += 1;
            }
        }
    }
    assert!(found > 2, "a module, a control file and scripts");
}

fn owner() -> Option<Owner> {
    let id = |option: &str, user: &str| {
        let output = Command::new("id").args([option, user]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    let who = output(Command::new("id").arg("-u"));
    if who != "0" {
        return None;
    }
    ["postgres", "nobody"].into_iter().find_map(|user| {
        Some(Owner {
            user: id("-u", user)?,
            group: id("-g", user)?,
        })
    })
}

/// Says that a test is skipped, past its own output, which is shown only if it fails.
pub(crate) fn skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Runs a command that has to succeed.
pub(crate) fn run(command: &mut Command) {
    output(command);
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("a program that can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}
