//! Start-up and shutdown, in the order they happen.

use crate::config::Config;
use std::future::Future;
use std::net::SocketAddr;

/// A gateway whose sockets are bound and whose targets are being connected.
pub struct Bound {
    main: SocketAddr,
    admin: SocketAddr,
    metrics: SocketAddr,
    handle: Handle,
}

/// A way to reach a gateway while it runs. Cheap to clone.
#[derive(Clone)]
pub struct Handle {}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port is taken.
    #[error("port {port} is already in use ({what}); choose another port or stop the program that has it")]
    PortTaken {
        /// Which port.
        port: u16,
        /// Which listener.
        what: &'static str,
    },
    /// Another reason.
    #[error("{0}")]
    Other(String),
}

/// Binds the listeners and starts to connect every target.
pub async fn bind(_config: Config) -> Result<Bound, StartError> {
    Err(StartError::Other("not yet".into()))
}

impl Bound {
    /// Where the main listener is.
    pub fn main_addr(&self) -> SocketAddr {
        self.main
    }

    /// Where the admin listener is.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin
    }

    /// Where metrics are.
    pub fn metrics_addr(&self) -> SocketAddr {
        self.metrics
    }

    /// The base URL of the main listener, without a path: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.main)
    }

    /// A way to reach the gateway while it runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until `shutdown` is ready, then drains and closes every target.
    pub async fn run(self, _shutdown: impl Future<Output = ()> + Send + 'static) {}
}

impl Handle {
    /// Makes the running gateway look like this config: targets come, go and change; naming changes. Listeners stay
    /// where they are. Returns what could not be applied without a restart, in words, one per setting.
    pub fn reconfigure(&self, _config: Config) -> Vec<String> {
        Vec::new()
    }

    /// Waits until the first generation is live.
    pub async fn first_generation(&self) {}
}
