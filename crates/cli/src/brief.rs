//! A gateway for as long as a verb needs one: nobody else can find it, and it leaves nothing behind.

use crate::client::{self, Endpoint};
use crate::failure::{Exit, Failure};
use crate::settings::{Meant, Settings};
use crate::terminal::{self, harmless};
use crate::verbs::run;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use transom_config::ProcessEnvironment;
use transom_gateway::{Handle, ListenAt};

/// How often it is looked whether targets are there.
const LOOK: Duration = Duration::from_millis(100);

/// A running gateway.
pub struct Brief {
    endpoint: Endpoint,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Brief {
    /// Starts what configs say, on loopback, for ourselves, and waits until every target is there or has failed. Those that failed are
    /// named on standard error.
    pub async fn start(files: &[PathBuf], patience: Duration) -> Result<Brief, Failure> {
        let args = run::Args { file: files.to_vec(), ..run::Args::default() };
        let Meant { mut config, warnings } = Settings::collect(&args, &ProcessEnvironment)?.config()?;
        if !warnings.is_empty() {
            terminal::note(&warnings.render(terminal::color()));
        }
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        config.listen = anywhere;
        config.admin = ListenAt::Exactly(anywhere);
        config.metrics = ListenAt::Exactly(anywhere);
        config.tls = None;
        config.state_dir = None;
        config.drain = Duration::ZERO;
        // Whoever has the config may see what it exposes.
        config.authentication = None;
        config.authorization = None;
        if let Ok(own) = std::env::current_exe() {
            transom_upstream::set_guard(own, vec!["guard".into()]);
        }
        let bound = transom_gateway::bind(config).await.map_err(|error| Failure::new(Exit::Negative, error))?;
        let endpoint = Endpoint { url: client::endpoint_url(&bound.url())?, headers: http::HeaderMap::new(), timeout: patience };
        let handle = bound.handle();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(bound.run(async move {
            let _ = stopped.await;
        }));
        handle.first_generation().await;
        Brief::settle(&handle, patience).await;
        Ok(Brief { endpoint, stop, serving })
    }

    /// How to reach it.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Ends it.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.serving.await;
        transom_upstream::dismiss_guard();
    }

    /// Waits until every target is part of what is exposed, or has failed.
    async fn settle(handle: &Handle, patience: Duration) {
        let start = Instant::now();
        while handle.missing().iter().any(|(_, why)| why.is_none()) && start.elapsed() < patience {
            tokio::time::sleep(LOOK).await;
        }
        for (name, why) in handle.missing() {
            let why = why.unwrap_or_else(|| "it is still connecting".into());
            terminal::note(&harmless(&format!("note: the tools of target `{name}` are missing: {why}")));
        }
    }
}
