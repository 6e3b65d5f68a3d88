//! Where log lines go: one bounded buffer, written by one thread.
//!
//! A request never waits for a disk or a terminal. When the reader of our standard error stops reading, lines are
//! dropped and counted, and the data path does not notice.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, SystemTime};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

impl LogFormat {
    /// Text on a terminal, JSON off it.
    pub fn detect() -> LogFormat {
        if std::io::stderr().is_terminal() { LogFormat::Text } else { LogFormat::Json }
    }
}

/// The most that waits to be written.
const CAPACITY: usize = 8 * 1024 * 1024;
const BATCH: Duration = Duration::from_millis(20);
/// What whoever does not read the log can hold up the end of the process by.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A log file that has grown to this is put aside; the one that was put aside before is gone.
const LARGEST_FILE: u64 = 8 * 1024 * 1024;

/// The buffer between whoever logs and the thread that writes.
pub struct Sink {
    /// Standard error if there is none.
    file: Option<Mutex<LogFile>>,
    buffer: Mutex<Vec<u8>>,
    filled: Condvar,
    idle: AtomicBool,
    dropped: AtomicU64,
    format: LogFormat,
}

static SINK: OnceLock<Arc<Sink>> = OnceLock::new();

/// Sends every log line to standard error. `level` is a level or a full filter (`info,transom_gateway=debug`).
/// Libraries stay at `info` whatever the level: at `debug` they print bodies and headers.
pub fn init(format: LogFormat, level: &str) {
    init_into(format, level, None);
}

/// As [`init`], into a file: at most 8 MiB of what was said last, and as much of what was said before beside it.
pub fn init_file(format: LogFormat, level: &str, path: &Path) -> std::io::Result<()> {
    init_into(format, level, Some(LogFile::open(path)?));
    Ok(())
}

fn init_into(format: LogFormat, level: &str, file: Option<LogFile>) {
    let sink = Sink {
        file: file.map(Mutex::new),
        buffer: Mutex::default(),
        filled: Condvar::new(),
        idle: AtomicBool::new(true),
        dropped: AtomicU64::new(0),
        format,
    };
    let sink = Arc::new(sink);
    if SINK.set(sink.clone()).is_err() {
        return;
    }
    let writer = sink.clone();
    let spawned = std::thread::Builder::new().name("log".into()).spawn(move || writer.write_forever());
    if spawned.is_err() {
        return;
    }
    let libraries = ["hyper", "hyper_util", "h2", "rustls", "rmcp", "tokio", "tower", "notify"];
    let known = matches!(level.to_ascii_lowercase().as_str(), "trace" | "debug" | "info" | "warn" | "error" | "off");
    let filter = if !known && !level.contains(['=', ',']) {
        EnvFilter::new("info")
    } else if level.contains(['=', ',']) {
        EnvFilter::new(level)
    } else {
        let quiet = match level.to_ascii_lowercase().as_str() {
            "debug" | "trace" => libraries.map(|name| format!("{name}=info")).join(","),
            _ => String::new(),
        };
        EnvFilter::try_new(format!("{level},{quiet}")).unwrap_or_else(|_| EnvFilter::new("info"))
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(Lines(sink));
    let set = match format {
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init(),
        LogFormat::Text => builder.with_ansi(std::env::var_os("NO_COLOR").is_none()).try_init(),
    };
    drop(set);
    log_panics();
    if !known && !level.contains(['=', ',']) {
        tracing::warn!(asked = level, "no such log level, using info; there are trace, debug, info, warn, error and off");
    }
}

/// The sink, if logging was set up.
pub fn sink() -> Option<&'static Arc<Sink>> {
    SINK.get()
}

/// Writes out what waits; called last. If nobody reads it, it stays unsaid: a stop is a stop.
pub fn flush() {
    let Some(sink) = SINK.get().cloned() else { return };
    let (say, said) = std::sync::mpsc::channel();
    let spawned = std::thread::Builder::new().name("log-end".into()).spawn(move || {
        sink.flush();
        // Nobody listens any more if it took too long.
        let _ = say.send(());
    });
    if spawned.is_ok() {
        let _ = said.recv_timeout(LAST_WORDS);
    }
}

/// A panic is a line of the log like any other: standard error itself may be blocked, and the words of a panic may hold a value of a request (D3).
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(|| "somewhere".to_owned(), ToString::to_string);
        tracing::error!(place, "a panic; what it happened in has failed, the rest goes on");
    }));
}

impl Sink {
    /// How lines look.
    pub fn format(&self) -> LogFormat {
        self.format
    }

    /// Appends a line that `write` puts into the buffer.
    pub fn line(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let Ok(mut buffer) = self.buffer.lock() else { return };
        if buffer.len() > CAPACITY {
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        write(&mut buffer);
        drop(buffer);
        if self.idle.swap(false, Relaxed) {
            self.filled.notify_one();
        }
    }

    /// Lines dropped since the last time somebody asked.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Relaxed)
    }

    fn write_forever(&self) {
        let mut full = Vec::new();
        loop {
            if let Ok(mut buffer) = self.buffer.lock() {
                while buffer.is_empty() {
                    self.idle.store(true, Relaxed);
                    let Ok(next) = self.filled.wait_timeout(buffer, Duration::from_secs(1)) else { return };
                    buffer = next.0;
                }
                std::mem::swap(&mut *buffer, &mut full);
            }
            self.write(&full);
            full.clear();
            std::thread::sleep(BATCH);
        }
    }

    fn flush(&self) {
        if let Ok(mut buffer) = self.buffer.lock() {
            self.write(&buffer);
            buffer.clear();
        }
    }

    /// A reader that is gone, or a disk that is full, is no reason to stop serving.
    fn write(&self, lines: &[u8]) {
        match &self.file {
            None => drop(std::io::stderr().write_all(lines)),
            Some(file) => {
                if let Ok(mut file) = file.lock() {
                    let _ = file.write(lines);
                }
            }
        }
    }
}

/// A file that does not grow for ever.
struct LogFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl LogFile {
    fn open(path: &Path) -> std::io::Result<LogFile> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let length = file.metadata()?.len();
        Ok(LogFile { path: path.to_owned(), file, length })
    }

    fn write(&mut self, lines: &[u8]) -> std::io::Result<()> {
        if self.length > 0 && self.length + lines.len() as u64 > LARGEST_FILE {
            let mut aside = self.path.clone().into_os_string();
            aside.push(".1");
            std::fs::rename(&self.path, aside)?;
            *self = LogFile::open(&self.path)?;
        }
        self.length += lines.len() as u64;
        self.file.write_all(lines)
    }
}

#[derive(Clone)]
struct Lines(Arc<Sink>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Sink;

    fn make_writer(&'a self) -> &'a Sink {
        &self.0
    }
}

impl Write for &Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.line(|buffer| buffer.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The time as `2026-11-16T03:19:45.123456Z`.
pub fn write_time(out: &mut Vec<u8>, time: SystemTime) {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days to a civil date, after Howard Hinnant's algorithm: eras of 400 years beginning in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let mut digits = |number: u64, width: u32, after: u8| {
        for place in (0..width).rev() {
            out.push(b'0' + u8::try_from(number / 10u64.pow(place) % 10).unwrap_or(0));
        }
        out.push(after);
    };
    digits(year, 4, b'-');
    digits(month, 2, b'-');
    digits(day, 2, b'T');
    digits(seconds / 3600, 2, b':');
    digits(seconds / 60 % 60, 2, b':');
    digits(seconds % 60, 2, b'.');
    digits(u64::from(since.subsec_micros()), 6, b'Z');
}

/// The time as text.
pub fn time_text(time: SystemTime) -> String {
    let mut out = Vec::with_capacity(27);
    write_time(&mut out, time);
    String::from_utf8(out).unwrap_or_default()
}

/// The first few lines of a kind in each second, then silence and a count.
#[derive(Default)]
pub struct Sampler {
    second: AtomicU64,
    seen: AtomicU64,
}

impl Sampler {
    /// Whether this one may be logged, and how many were passed over before it.
    pub fn admit(&self, per_second: u64) -> Option<u64> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let before = self.second.swap(now, Relaxed);
        if before != now {
            let seen = self.seen.swap(1, Relaxed);
            return Some(seen.saturating_sub(per_second));
        }
        (self.seen.fetch_add(1, Relaxed) < per_second).then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339() {
        for (seconds, text) in
            [(0, "1970-01-01T00:00:00.000007Z"), (951_782_400, "2000-02-29T00:00:00.000007Z"), (1_794_799_185, "2026-11-16T03:19:45.000007Z")]
        {
            assert_eq!(time_text(SystemTime::UNIX_EPOCH + Duration::new(seconds, 7_000)), text);
        }
    }

    #[test]
    fn a_log_file_is_put_aside_when_it_has_grown_and_the_one_before_goes() {
        let path = std::env::temp_dir().join(format!("transom-log-{}", std::process::id()));
        let aside = path.with_extension("1");
        let mut log = LogFile::open(&path).unwrap();
        let block = vec![b'x'; 1 << 20];
        for _ in 0..21 {
            log.write(&block).unwrap();
        }
        let length = |path: &Path| std::fs::metadata(path).unwrap().len();
        assert_eq!((length(&path), length(&aside)), (5 << 20, LARGEST_FILE));
        assert_eq!(LogFile::open(&path).unwrap().length, 5 << 20, "what is there counts");
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(aside).unwrap();
    }

    // M4
    #[test]
    fn a_flood_of_lines_is_sampled() {
        let sampler = Sampler::default();
        let admitted = (0..1000).filter(|_| sampler.admit(10).is_some()).count();
        assert!((10..=21).contains(&admitted), "{admitted}");
    }
}
