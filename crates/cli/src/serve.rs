//! One gateway from its first socket to its last: what `run` and `demo` share.

use crate::failure::{Exit, Failure};
use crate::published::Published;
use crate::settings::{Changes, Meant, Settings};
use crate::terminal;
use crate::verbs::run;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;
use transom_gateway::app::StartError;
use transom_gateway::{Bound, Config, Handle, ListenAt};

/// How long a gateway inside may take to end.
const GOODBYE: Duration = Duration::from_secs(5);
/// How long a guide waits for the tools it speaks of.
const GUIDE_PATIENCE: Duration = Duration::from_secs(2);

/// Serves until a signal says to stop, then drains. The `guide`, if there is one, is shown once there are tools to try.
pub async fn serve(args: &run::Args, settings: Settings, guide: impl FnOnce(&Bound) -> Option<String>) -> Result<(), Failure> {
    // Before the sockets, so that a signal during the start is a stop like any other.
    let mut stops = Stops::new()?;
    let hangups = listen_for(SignalKind::hangup())?;
    let changes = settings.changes()?;

    let Meant { config, warnings } = settings.config()?;
    if !warnings.is_empty() {
        terminal::note(&warnings.render(terminal::color()));
    }
    // Whatever happens to this process, nothing it started lives on.
    if let Ok(own) = std::env::current_exe() {
        transom_upstream::set_guard(own, vec!["guard".into()]);
    }
    let bound = transom_gateway::bind(config.clone()).await.map_err(|error| start_failure(error, &settings))?;
    let published = Published::write(args.url_file.as_deref(), args.pid_file.as_deref(), &bound.url())?;
    terminal::data(&format!("transom listening on {}/mcp", bound.url()));
    for line in elsewhere(&config, bound.admin_addr(), bound.metrics_addr()) {
        terminal::note(&line);
    }
    if let Some(guide) = guide(&bound) {
        let handle = bound.handle();
        tokio::spawn(async move {
            // A guide that comes too early is better than none.
            let _ = timeout(GUIDE_PATIENCE, handle.first_generation()).await;
            terminal::note(&guide);
        });
    }

    let follower = tokio::spawn(follow(settings, changes, hangups, bound.handle()));
    let (stop, stopped) = oneshot::channel::<()>();
    let files = published.clone();
    let stopper = tokio::spawn(async move {
        stops.next().await;
        tracing::info!("asked to stop; a second signal ends it at once");
        // The receiver is gone only if serving has ended by itself.
        let _ = stop.send(());
        let code = stops.next().await;
        files.remove();
        transom_gateway::logging::flush();
        std::process::exit(code);
    });
    bound
        .run(async move {
            let _ = stopped.await;
        })
        .await;
    follower.abort();
    stopper.abort();
    transom_upstream::dismiss_guard();
    published.remove();
    Ok(())
}

/// A gateway inside this process, for whoever else is in it.
pub struct Inside {
    /// The URL of its MCP endpoint.
    pub url: String,
    stop: oneshot::Sender<()>,
    server: tokio::task::JoinHandle<()>,
}

impl Inside {
    /// Starts it, on a free port of this machine whatever the config says: nobody else is meant to come.
    pub async fn start(settings: &Settings) -> Result<Inside, Failure> {
        let Meant { mut config, warnings } = settings.config()?;
        if !warnings.is_empty() {
            terminal::note(&warnings.render(terminal::color()));
        }
        (config.listen, config.tls) = (SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None);
        if let Ok(own) = std::env::current_exe() {
            transom_upstream::set_guard(own, vec!["guard".into()]);
        }
        let bound = transom_gateway::bind(config).await.map_err(|error| start_failure(error, settings))?;
        let url = format!("{}/mcp", bound.url());
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(bound.run(async move {
            let _ = stopped.await;
        }));
        Ok(Inside { url, stop, server })
    }

    /// Ends it in good order, within a moment; what it started goes with it.
    pub async fn end(self) {
        let _ = self.stop.send(());
        let _ = timeout(GOODBYE, self.server).await;
        transom_upstream::dismiss_guard();
    }
}

/// Applies every change of the config while the gateway runs. A bad config changes nothing.
async fn follow(settings: Settings, mut changes: Changes, mut hangups: Signal, handle: Handle) {
    loop {
        let asked = tokio::select! {
            () = changes.next() => {
                tracing::info!("config file changed, reloading");
                false
            }
            _ = hangups.recv() => {
                tracing::info!("asked to reload the config and the registry (SIGHUP)");
                true
            }
        };
        match settings.changed_config() {
            Ok(Meant { config, warnings }) => {
                if !warnings.is_empty() {
                    tracing::warn!("{warnings}");
                }
                for setting in handle.reconfigure(config) {
                    tracing::warn!(%setting, "takes effect after a restart");
                }
            }
            Err(rejected) => tracing::warn!("the changed config is not used, the old one stays: {rejected}"),
        }
        if asked && handle.store().is_configured() {
            // What came of it, good or bad, is in the log.
            let _ = handle.store().reload().await;
        }
    }
}

fn start_failure(error: StartError, settings: &Settings) -> Failure {
    let failure = Failure::new(Exit::Negative, &error);
    match error {
        StartError::PortTaken { port, .. } if settings.is_default_port(port) => failure.hint("`--port 0` takes a free port"),
        _ => failure,
    }
}

/// Where the side listeners are, if not where everybody looks for them.
fn elsewhere(config: &Config, admin: SocketAddr, metrics: SocketAddr) -> Vec<String> {
    let usual = Config::default();
    let line = |name: &str, wanted: ListenAt, usual: ListenAt, actual: SocketAddr| {
        let (ListenAt::Exactly(usual) | ListenAt::Preferred(usual)) = usual;
        match wanted {
            ListenAt::Preferred(wanted) if wanted != actual => Some(format!("{name} on http://{actual} (port {} is taken)", wanted.port())),
            _ if actual != usual => Some(format!("{name} on http://{actual}")),
            _ => None,
        }
    };
    let admin = line("admin", config.admin, usual.admin, admin);
    let metrics = line("metrics", config.metrics, usual.metrics, metrics);
    admin.into_iter().chain(metrics).collect()
}

/// The signals that mean stop.
pub struct Stops {
    terminate: Signal,
    interrupt: Signal,
}

impl Stops {
    /// From now on they are ours.
    pub fn new() -> Result<Stops, Failure> {
        Ok(Stops { terminate: listen_for(SignalKind::terminate())?, interrupt: listen_for(SignalKind::interrupt())? })
    }

    /// Waits for the next one; the exit code a shell expects of a process that it ended.
    pub async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => 128 + SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => 128 + SignalKind::interrupt().as_raw_value(),
        }
    }
}

fn listen_for(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::new(Exit::Unexpected, format!("cannot listen for signals: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_listeners_are_mentioned_when_they_are_not_where_everybody_looks() {
        let config = Config::default();
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        assert!(elsewhere(&config, at(15000), at(15020)).is_empty());
        assert_eq!(elsewhere(&config, at(41000), at(15020)), ["admin on http://127.0.0.1:41000 (port 15000 is taken)"]);
        let chosen = Config { metrics: ListenAt::Exactly(at(9100)), ..config };
        assert_eq!(elsewhere(&chosen, at(15000), at(9100)), ["metrics on http://127.0.0.1:9100"]);
    }
}
