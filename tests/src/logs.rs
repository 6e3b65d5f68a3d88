//! What gateways of this process log, for tests that ask.
//!
//! Work is done on several threads, so the lines of tests that run at the same time stand beside each other: look for
//! names that only your test uses.

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The lines since it was made.
pub struct Logs {
    lines: Sink,
    from: usize,
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

/// Starts to collect. Call it before the gateway starts.
pub fn capture() -> Logs {
    static SINK: OnceLock<Sink> = OnceLock::new();
    let sink = SINK.get_or_init(|| {
        let sink = Sink::default();
        let ours = EnvFilter::new("transom_gateway=trace,transom_upstream=trace");
        tracing_subscriber::fmt().json().with_env_filter(ours).with_writer(sink.clone()).init();
        sink
    });
    Logs { lines: sink.clone(), from: sink.0.lock().map_or(0, |bytes| bytes.len()) }
}

impl Logs {
    /// Everything since, one JSON object per line.
    pub fn text(&self) -> String {
        self.lines.0.lock().map(|bytes| String::from_utf8_lossy(bytes.get(self.from..).unwrap_or_default()).into_owned()).unwrap_or_default()
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
