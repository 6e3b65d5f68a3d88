//! A target that is a child process: started without a shell and with a small environment, read line by line, stopped
//! in good order, with everything it started.

use crate::down::Down;
use crate::ears::Ears;
use crate::http_client::describe;
use crate::inlet::Inlet;
use crate::lines::{Line, Lines};
use crate::marked;
use crate::mux::{Audience, Mux, Pipe};
use crate::spawner;
use crate::spec::{ChildLimits, Secret};
use crate::sys::{self, Group};
use crate::text::Scrubber;
use crate::tuning::Tuning;
use crate::via;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

/// What a child sees of our environment.
const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];
const STDERR_LINE: usize = 8 << 10;
const STDERR_LINES_PER_SECOND: u32 = 100;
/// Between a child's last byte and its exit status, which says more.
const LAST_WORDS: Duration = Duration::from_millis(20);

/// How to start it.
pub(crate) struct Program<'p> {
    pub(crate) cmd: &'p str,
    pub(crate) args: &'p [String],
    pub(crate) env: &'p [(String, Secret)],
    pub(crate) cwd: Option<&'p PathBuf>,
    pub(crate) limits: &'p ChildLimits,
}

/// A running child. Dropping the handle kills it and its descendants; [`ChildHandle::stop`] asks first.
pub(crate) struct ChildHandle {
    stop: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
}

impl ChildHandle {
    /// Closes its input, then waits, terminates, waits, kills. Returns when it is gone.
    pub(crate) async fn stop(&self) {
        self.stop.send_replace(true);
        let mut ended = self.ended.clone();
        let _gone = ended.wait_for(|ended| *ended).await;
    }
}

/// Starts the child and the tasks around it.
pub(crate) async fn start(program: Program<'_>, audience: Audience, ears: Arc<Ears>, tuning: Arc<Tuning>) -> Result<(Arc<Mux>, ChildHandle), String> {
    let mut command = Command::new(program.cmd);
    command.args(program.args).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    let mark = marked::fresh();
    command.env(marked::NAME, &mark);
    if !ears.host.via().is_empty() {
        command.env(via::VARIABLE, ears.host.via());
    }
    command.envs(program.env.iter().map(|(name, value)| (name, value.expose())));
    if let Some(cwd) = program.cwd {
        command.current_dir(cwd);
    }
    sys::bind_to_parent(&mut command, program.limits);

    let mut child = spawner::spawn(command).await.map_err(|error| format!("cannot start `{}`: {}", program.cmd, describe(&error)))?;
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
        return Err(format!("cannot start `{}`: its standard streams are missing", program.cmd));
    };

    let down = Down::new();
    let inlet = Inlet::new(stdin).map_err(|error| format!("cannot start `{}`: {}", program.cmd, describe(&error)))?;
    let mux = Mux::new(Pipe::Stdio(inlet), audience, ears.clone(), down.clone(), tuning.clone());
    let (stop, stopping) = watch::channel(false);
    let (ending, ended) = watch::channel(false);
    tokio::spawn(write(mux.clone(), stopping.clone(), tuning.write));
    tokio::spawn(read(stdout, mux.clone(), tuning.message));
    tokio::spawn(drain(stderr, ears));
    tokio::spawn(attend(child, mark, mux.clone(), stopping, ending, tuning));
    Ok((mux, ChildHandle { stop, ended }))
}

/// Writes what the child was too slow for, and ends its input when it is to stop.
async fn write(mux: Arc<Mux>, mut stopping: watch::Receiver<bool>, patience: Duration) {
    let Some(inlet) = mux.inlet() else { return };
    let stuck = tokio::select! {
        reason = inlet.run(patience) => Some(reason),
        _ = stopping.wait_for(|stop| *stop) => None,
        _ = mux.down.gone() => None,
    };
    if let Some(reason) = stuck {
        mux.close(&reason);
    }
    inlet.close();
}

async fn read(mut stdout: ChildStdout, mux: Arc<Mux>, limit: usize) {
    let mut lines = Lines::new(limit);
    let gone = mux.down.gone();
    tokio::pin!(gone);
    loop {
        let read = tokio::select! {
            read = stdout.read_buf(lines.space()) => read,
            _ = &mut gone => break,
        };
        match read {
            Ok(0) | Err(_) => break,
            Ok(_) => {
                while let Some(line) = lines.next() {
                    match line {
                        Line::Whole(line) => mux.incoming(line),
                        Line::Overlong(began) => mux.overlong(began),
                    }
                }
                // A child that never stops talking must not keep others from the thread.
                tokio::task::consume_budget().await;
            }
        }
    }
    // The exit status, which comes now if the child died, is a better reason than this one.
    let _exit = timeout(LAST_WORDS, mux.down.gone()).await;
    mux.close("the child closed its output");
}

/// Waits for the child's end or brings it about, and ends what it left behind.
async fn attend(
    mut child: Child,
    mark: String,
    mux: Arc<Mux>,
    mut stopping: watch::Receiver<bool>,
    ending: watch::Sender<bool>,
    tuning: Arc<Tuning>,
) {
    // Also when this task is dropped with its runtime.
    let group = KillOnDrop(child.id().and_then(Group::led_by));
    let asked = tokio::select! {
        status = child.wait() => {
            let reason = match status {
                Ok(status) => format!("the child ended: {status}"),
                Err(error) => format!("the child is lost: {}", describe(&error)),
            };
            mux.close(&reason);
            false
        }
        stop = stopping.wait_for(|stop| *stop) => stop.is_ok(),
        _ = mux.down.gone() => true,
    };
    mux.close("closed");
    if asked {
        // The writer has dropped the child's input by now, or is about to.
        if timeout(tuning.stop_politely, child.wait()).await.is_err() {
            group.terminate();
            let _in_time = timeout(tuning.stop_firmly, child.wait()).await;
        }
    }
    drop(group);
    // Killed by now; this only fetches its status.
    let _status = timeout(tuning.stop_firmly, child.wait()).await;
    // What it started and sent out of its group carries its mark.
    let _killed = tokio::task::spawn_blocking(move || marked::kill(&mark)).await;
    ending.send_replace(true);
}

struct KillOnDrop(Option<Group>);

impl KillOnDrop {
    fn terminate(&self) {
        if let Some(group) = self.0 {
            group.terminate();
        }
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            group.kill();
        }
    }
}

/// A child's complaints go to our log, as many as a person could read; the child never waits for us.
async fn drain(mut stderr: ChildStderr, ears: Arc<Ears>) {
    let mut log = StderrLog { line: Vec::new(), skipping: false, window: Instant::now(), lines: 0, left_out: 0, ears };
    let mut chunk = vec![0; 8192];
    while let Ok(read) = stderr.read(&mut chunk).await {
        if read == 0 {
            break;
        }
        for piece in chunk.get(..read).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
            log.piece(piece);
        }
        tokio::task::consume_budget().await;
    }
    log.end_line(Scrubber::clean);
    log.summary();
}

struct StderrLog {
    line: Vec<u8>,
    skipping: bool,
    window: Instant,
    lines: u32,
    left_out: u64,
    ears: Arc<Ears>,
}

impl StderrLog {
    fn piece(&mut self, piece: &[u8]) {
        let ends = piece.ends_with(b"\n");
        let text = piece.strip_suffix(b"\n").unwrap_or(piece);
        if !self.skipping {
            let room = STDERR_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(text.get(..room).unwrap_or(text));
            if text.len() > room {
                self.end_line(Scrubber::clean_beginning);
                self.skipping = true;
            }
        }
        if ends {
            self.end_line(Scrubber::clean);
            self.skipping = false;
        }
    }

    fn end_line(&mut self, clean: fn(&Scrubber, &[u8], usize) -> String) {
        let line = std::mem::take(&mut self.line);
        let text = line.strip_suffix(b"\r").unwrap_or(&line);
        if text.is_empty() {
            return;
        }
        if self.window.elapsed() >= Duration::from_secs(1) {
            self.summary();
            self.window = Instant::now();
            self.lines = 0;
        }
        self.lines = self.lines.saturating_add(1);
        if self.lines > STDERR_LINES_PER_SECOND {
            self.left_out += 1;
            return;
        }
        tracing::info!(target = %self.ears.target, stream = "stderr", "{}", clean(&self.ears.scrubber, text, STDERR_LINE));
    }

    fn summary(&mut self) {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            tracing::warn!(target = %self.ears.target, stream = "stderr", left_out, "lines of the child were left out");
        }
    }
}
