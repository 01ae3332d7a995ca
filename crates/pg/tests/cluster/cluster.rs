//! A server with a cluster of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use tempfile::TempDir;

use crate::installation::{Installation, run};

/// A cluster, and its server while that runs. Stopped and removed when dropped.
pub(crate) struct Cluster {
    directory: TempDir,
    installation: Arc<Installation>,
}

/// The settings of all clusters. Acknowledged rows must survive a crash of the server, not of the
/// machine.
const SETTINGS: &str = "
    listen_addresses = ''
    port = 5432
    fsync = off
    shared_buffers = 16MB
    max_connections = 20
    max_wal_senders = 4
    max_prepared_transactions = 4
    wal_level = replica
    autovacuum = off
    log_min_messages = warning
    restart_after_crash = off
    jit = off
    bedload.shrunk = 256
    bedload.max_workers = 0
";

impl Cluster {
    /// A new cluster with the extension, started.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// [`Cluster::start`] with further settings.
    pub(crate) fn start_with(settings: &str) -> Self {
        let cluster = Self::prepared(settings);
        cluster.launch();
        let mut client = cluster.client();
        client
            .batch_execute("CREATE EXTENSION bedload")
            .expect("the extension");
        cluster
    }

    /// A new cluster that has not been started, without the extension.
    pub(crate) fn prepared(settings: &str) -> Self {
        let cluster = Self::empty();
        let template = cluster.installation.template();
        run(Command::new("cp").arg("-a").arg(template).arg(cluster.data()));
        cluster.configure(settings);
        cluster
    }

    fn empty() -> Self {
        let installation = Installation::get();
        Self {
            directory: installation.cluster_directory(),
            installation,
        }
    }

    /// A streaming standby of the cluster, started.
    pub(crate) fn standby(&self) -> Self {
        self.standby_with("")
    }

    /// [`Cluster::standby`] with further settings.
    pub(crate) fn standby_with(&self, settings: &str) -> Self {
        let standby = Self::empty();
        let mut backup = self.installation.command("pg_basebackup");
        backup.args([
            "--username=postgres",
            "--write-recovery-conf",
            // The primary keeps the log that the standby has not got, however far it is behind.
            "--create-slot",
            "--slot=standby",
            "--checkpoint=fast",
            "--no-sync",
            "--host",
        ]);
        run(backup
            .arg(self.directory.path())
            .arg("--pgdata")
            .arg(standby.data()));
        standby.configure(&format!("hot_standby = on\n{settings}"));
        standby.launch();
        standby
    }

    /// The directory of the cluster's files.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn configure(&self, settings: &str) {
        let path = self.data().join("postgresql.conf");
        let mut text = fs::read_to_string(&path).expect("a configuration");
        text.push_str(SETTINGS);
        text.push_str(&format!(
            "unix_socket_directories = '{}'\n{settings}\n",
            self.directory.path().display()
        ));
        fs::write(&path, text).expect("written");
    }

    fn pg_ctl(&self) -> Command {
        let mut command = self.installation.command("pg_ctl");
        command
            .arg("--pgdata")
            .arg(self.data())
            .arg("--wait")
            .arg("--timeout=120");
        command
    }

    /// Starts the server.
    pub(crate) fn launch(&self) {
        let started = self.try_launch();
        assert!(started, "the server does not start:\n{}", self.log());
    }

    fn try_launch(&self) -> bool {
        let mut command = self.pg_ctl();
        command
            .arg("--silent")
            .arg("--log")
            .arg(self.directory.path().join("log"))
            .arg("start");
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// Returns the server's log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Stops the server as it should be stopped.
    pub(crate) fn stop(&self) {
        run(self.pg_ctl().arg("--mode=fast").arg("stop"));
    }

    /// The processes of the running server, the postmaster first.
    pub(crate) fn processes(&self) -> Vec<String> {
        self.processes_if_any().expect("a running server")
    }

    /// [`Cluster::processes`]; an error if there is no server.
    fn processes_if_any(&self) -> std::io::Result<Vec<String>> {
        let file = fs::read_to_string(self.data().join("postmaster.pid"))?;
        let postmaster = file.lines().next().expect("its process").to_owned();
        let children = children_of(&postmaster);
        Ok([postmaster].into_iter().chain(children).collect())
    }

    /// Kills the server as a whole, and starts it again: it recovers from its log.
    pub(crate) fn kill_and_recover(&self) {
        // Its children would finish what they are at when they notice: they are killed too. A
        // server of which a session has crashed may have ended by itself.
        for process in self.processes_if_any().unwrap_or_default() {
            // A child may be gone already.
            Command::new("kill")
                .args(["-KILL", &process])
                .stderr(Stdio::null())
                .status()
                .ok();
        }
        // Its shared memory is free when the last of its children is gone.
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.try_launch() {
            assert!(
                Instant::now() < deadline,
                "the server does not come back:\n{}",
                self.log()
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// A call of one of the server's programs, as the owner of the cluster.
    pub(crate) fn program(&self, name: &str) -> Command {
        self.installation.command(name)
    }

    /// Where the server's programs are.
    pub(crate) fn programs(&self) -> PathBuf {
        self.installation.programs().to_owned()
    }

    /// A call of a program, as the owner of the cluster.
    pub(crate) fn owned(&self, program: &Path) -> Command {
        self.installation.owned(program)
    }

    /// Makes a path the server's own.
    pub(crate) fn give(&self, path: &Path) {
        self.installation.give(path);
    }

    /// Makes a standby a primary.
    pub(crate) fn promote(&self) {
        run(self.pg_ctl().arg("promote"));
    }

    /// A session.
    pub(crate) fn client(&self) -> Client {
        self.try_client().expect("a session")
    }

    pub(crate) fn try_client(&self) -> Result<Client, postgres::Error> {
        connect(self.directory.path())
    }

    /// Where sessions connect to, for threads.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().to_owned()
    }
}

/// A session with the server that listens in a directory.
pub(crate) fn connect(socket: &Path) -> Result<Client, postgres::Error> {
    connect_to(socket, "postgres")
}

/// A session with a database of the server that listens in a directory.
pub(crate) fn connect_to(socket: &Path, database: &str) -> Result<Client, postgres::Error> {
    let host = socket.to_str().expect("a path in UTF-8");
    Client::connect(&format!("host={host} user=postgres dbname={database}"), NoTls)
}

fn children_of(process: &str) -> Vec<String> {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().map(ToOwned::to_owned).collect()
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.data().join("postmaster.pid").exists() {
            let mut command = self.pg_ctl();
            command.arg("--mode=immediate").arg("stop");
            command.stdout(Stdio::null()).stderr(Stdio::null()).status().ok();
        }
        if thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}
