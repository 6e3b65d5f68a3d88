//! Starting the gateway of a session, in the background.

use super::folder::{Folder, Place, SessionId};
use super::found::{Found, Record, birth, find};
use crate::failure::{Exit, Failure};
use crate::sys::{self, Held};
use crate::terminal::harmless;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How often a gateway that starts is looked at.
const GLANCE: Duration = Duration::from_millis(20);
/// How long one question whether it is there may take.
const ASKING: Duration = Duration::from_secs(2);
/// What one that did not come up in time gets to go away in order.
const GOODBYE: Duration = Duration::from_secs(3);
/// Of a log that has to be shown, this much is read, and so many lines are shown.
const TAIL: u64 = 16 << 10;
const TAIL_LINES: usize = 20;

/// What the gateway is to be: what `run` takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// Its config.
    pub files: Vec<PathBuf>,
    /// Its port.
    pub port: Option<u16>,
    /// Its address.
    pub listen: Option<SocketAddr>,
}

impl Wish {
    /// Which parts of it a gateway that was started with another wish does not fulfil, by their flags.
    fn beyond(&self, other: &Wish) -> Vec<&'static str> {
        let parts = [
            ("`-f`", !self.files.is_empty() && self.files != other.files),
            ("`--listen`", self.listen.is_some() && self.listen != other.listen),
            ("`--port`", self.port.is_some() && self.port != other.port),
        ];
        parts.into_iter().filter_map(|(flag, differs)| differs.then_some(flag)).collect()
    }

    /// With paths that mean the same everywhere.
    fn anywhere(&self) -> Wish {
        let whole = |file: &PathBuf| if file.as_os_str() == "-" { file.clone() } else { std::path::absolute(file).unwrap_or_else(|_| file.clone()) };
        Wish { files: self.files.iter().map(whole).collect(), ..self.clone() }
    }
}

/// A gateway that answers.
#[derive(Debug)]
pub struct Started {
    /// Its base URL.
    pub url: String,
    /// Its process.
    pub pid: u32,
    /// Whether it ran before we came.
    pub already: bool,
    /// Where its log is.
    pub log: PathBuf,
    /// Flags of the wish that it does not fulfil, since it was started with others.
    pub not_applied: Vec<&'static str>,
}

/// Makes sure that the gateway of this session runs and answers, within `patience`.
pub async fn start(folder: &Folder, id: &SessionId, wish: &Wish, patience: Duration) -> Result<Started, Failure> {
    let place = folder.place(id);
    // Whoever starts the same session holds it as long as we might.
    let _lock = place.lock(patience + GOODBYE).await?;
    let deadline = Instant::now() + patience;
    let wish = &wish.anywhere();
    if let Found::Running { held, pid, url, record } = find(&place)? {
        let gone = || if held.ends_within(Duration::ZERO) { Some("it has ended".to_owned()) } else { None };
        let url = match url {
            Some(url) => answers(&url, deadline, gone).await.map(|()| url),
            None => appears(&place, deadline, gone).await,
        };
        let silent = |why| failed(&place, &format!("the gateway of session `{}` runs as process {pid}, but {why}", id.shown()));
        let not_applied = wish.beyond(&record.map(|record| record.wish).unwrap_or_default());
        return Ok(Started { url: url.map_err(silent)?, pid, already: true, log: place.log_file(), not_applied });
    }
    place.clear();
    let mut child = spawn(&place, wish).map_err(|error| Failure::new(Exit::Negative, format!("cannot start a gateway: {error}")))?;
    let pid = child.id();
    let up = async {
        let (began, boot) = birth(pid).ok_or("it ended at once")?;
        let since = transom_gateway::logging::time_text(SystemTime::now());
        let record = Record { id: id.text().into(), pid, began, boot, since, log: place.log_file(), wish: wish.clone() };
        record.write(&place).map_err(|error| format!("its record cannot be written: {error}"))?;
        let mut ended = || child.try_wait().ok().flatten().map(|status| format!("it ended with {status}"));
        appears(&place, deadline, &mut ended).await
    };
    let up = up.await;
    match up {
        Ok(url) => Ok(Started { url, pid, already: false, log: place.log_file(), not_applied: Vec::new() }),
        Err(why) => {
            end(&mut child);
            place.clear();
            Err(failed(&place, &format!("the gateway of session `{}` did not start: {why}", id.shown())))
        }
    }
}

fn spawn(place: &Place, wish: &Wish) -> io::Result<Child> {
    // What an earlier one said last may explain why it is gone.
    let _ = fs::rename(place.log_file(), place.old_log_file());
    let log = OpenOptions::new().create_new(true).append(true).mode(0o600).open(place.log_file())?;
    let mut command = Command::new(std::env::current_exe()?);
    // What it is known by comes first: of a very long line the system shows only the beginning.
    command.arg("run").arg("--pid-file").arg(place.pid_file());
    for file in &wish.files {
        command.arg("-f").arg(file);
    }
    if let Some(listen) = wish.listen {
        command.arg("--listen").arg(listen.to_string());
    }
    if let Some(port) = wish.port {
        command.arg("--port").arg(port.to_string());
    }
    command.arg("--url-file").arg(place.url_file()).arg("--log-file").arg(place.log_file());
    let reads_input = wish.files.iter().any(|file| file.as_os_str() == "-");
    command.stdin(if reads_input { Stdio::inherit() } else { Stdio::null() }).stdout(log.try_clone()?).stderr(log);
    sys::detach(&mut command);
    command.spawn()
}

/// Ends a child that is not to be.
fn end(child: &mut Child) {
    if let Ok(Some(held)) = Held::of(child.id()) {
        // That it has ended by itself is as good.
        let _ = held.signal(libc::SIGTERM);
        if !held.ends_within(GOODBYE) {
            let _ = child.kill();
        }
    }
    let _ = child.wait();
}

/// Waits until the gateway has said where it is and answers there; why it does not, as the end of a sentence.
async fn appears(place: &Place, deadline: Instant, mut ended: impl FnMut() -> Option<String>) -> Result<String, String> {
    loop {
        if let Ok(url) = fs::read_to_string(place.url_file())
            && !url.trim().is_empty()
        {
            let url = url.trim().to_owned();
            return answers(&url, deadline, ended).await.map(|()| url);
        }
        if let Some(why) = ended() {
            return Err(why);
        }
        if Instant::now() >= deadline {
            return Err("it took too long to listen".into());
        }
        tokio::time::sleep(GLANCE).await;
    }
}

async fn answers(url: &str, deadline: Instant, mut ended: impl FnMut() -> Option<String>) -> Result<(), String> {
    loop {
        if is_healthy(url).await {
            return Ok(());
        }
        if let Some(why) = ended() {
            return Err(why);
        }
        if Instant::now() >= deadline {
            return Err(format!("it does not answer at {url}/health"));
        }
        tokio::time::sleep(GLANCE).await;
    }
}

/// Whether `/health` answers. Behind TLS it is enough that somebody listens: the certificate is for clients, which know whom to trust.
async fn is_healthy(url: &str) -> bool {
    let Ok(url) = url.parse::<http::Uri>() else { return false };
    let Some(authority) = url.authority() else { return false };
    let secure = url.scheme_str() == Some("https");
    let asked = timeout(ASKING, async {
        let mut stream = TcpStream::connect(authority.as_str()).await?;
        if secure {
            return Ok(true);
        }
        let question = format!("GET /health HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
        stream.write_all(question.as_bytes()).await?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        Ok::<bool, io::Error>(head.ends_with(b" 200"))
    });
    matches!(asked.await, Ok(Ok(true)))
}

/// A failure with what the gateway said last.
fn failed(place: &Place, what: &str) -> Failure {
    let log = place.log_file();
    let lines = last_lines(&log);
    let said = if lines.is_empty() { String::new() } else { format!("\n\n{}", harmless(&lines)) };
    Failure::new(Exit::Negative, format!("{what}{said}")).hint(format!("its log is `{}`", log.display()))
}

fn last_lines(log: &std::path::Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default().join("\n")
}
