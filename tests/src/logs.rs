//! What the gateway logs, for tests that ask. Works on one thread: the default of `#[tokio::test]`.

use std::io::Write;
use std::sync::{Arc, Mutex};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// Collects log lines of this thread until it is dropped.
pub struct Logs {
    lines: Sink,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

/// Starts to collect, down to `debug`. Call it before the gateway starts.
pub fn capture() -> Logs {
    let lines = Sink::default();
    let subscriber = tracing_subscriber::fmt().json().with_max_level(tracing::Level::DEBUG).with_writer(lines.clone()).finish();
    Logs { lines, _guard: tracing::subscriber::set_default(subscriber) }
}

impl Logs {
    /// Everything so far, one JSON object per line.
    pub fn text(&self) -> String {
        self.lines.0.lock().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The lines that contain every one of these texts.
    pub fn lines(&self, texts: &[&str]) -> Vec<String> {
        self.text().lines().filter(|line| texts.iter().all(|text| line.contains(text))).map(str::to_owned).collect()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Ok(mut lines) = self.0.lock() {
            lines.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Sink;

    fn make_writer(&'a self) -> Sink {
        self.clone()
    }
}
