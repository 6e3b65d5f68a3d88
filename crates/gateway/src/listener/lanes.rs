//! Threads that each serve connections of their own.
//!
//! A runtime that shares its work among threads moves a connection to whichever thread is free, and everything the connection touches has to
//! follow it from one core to the other. Here a connection stays where it was put. `architecture/decisions/0031-lanes.md` has the figures.

use std::future::Future;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Threads of one lane for work that blocks: files that are read, indexes that are built.
const BLOCKING: usize = 64;

/// The lanes of a listener. With the last clone they end, and with them what still runs on them.
#[derive(Clone)]
pub struct Lanes(Arc<[Lane]>);

struct Lane {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
    /// Dropped to end the thread.
    _running: oneshot::Sender<()>,
}

impl Lanes {
    /// One for every core.
    pub fn start() -> Lanes {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let started: io::Result<_> = (0..count).map(Lane::start).collect();
        started.map(Lanes).unwrap_or_else(|error| {
            tracing::warn!(%error, "the system gives no threads for connections; all share those there are");
            Lanes::shared()
        })
    }

    /// None: connections are served by the runtime that accepts them, whose threads share them.
    pub fn shared() -> Lanes {
        Lanes(Arc::from([]))
    }

    /// Serves a connection where there are fewest.
    pub fn serve<C>(&self, stream: TcpStream, connection: impl FnOnce(tokio::net::TcpStream) -> C + Send + 'static)
    where
        C: Future<Output = ()> + Send,
    {
        let lane = self.0.iter().min_by_key(|lane| lane.connections.load(Relaxed));
        let place = lane.map(|lane| Place::new(&lane.connections));
        let serve = async move {
            // Here, and not where it was accepted: this is the runtime that is to hear of it.
            if let Ok(stream) = tokio::net::TcpStream::from_std(stream) {
                connection(stream).await;
            }
            drop(place);
        };
        match lane {
            Some(lane) => drop(lane.runtime.spawn(serve)),
            None => drop(tokio::spawn(serve)),
        }
    }
}

impl Lane {
    fn start(number: usize) -> io::Result<Lane> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING).build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        std::thread::Builder::new().name(format!("lane-{number}")).spawn(move || {
            // Whoever compiles a registry must not make a request wait for its turn.
            transom_upstream::take_short_turns();
            // The threads of other runtimes are lane 0.
            transom_upstream::lane::enter(number + 1);
            let _ended = runtime.block_on(ended);
            runtime.shutdown_background();
        })?;
        Ok(Lane { runtime: handle, connections: Arc::default(), _running: running })
    }
}

/// A connection on a lane, for as long as it lasts.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn new(connections: &Arc<AtomicUsize>) -> Place {
        connections.fetch_add(1, Relaxed);
        Place(connections.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::sync::Mutex;
    use std::time::Duration;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn connections_are_spread_evenly_stay_on_their_thread_and_end_with_the_lanes() {
        let lanes = Lanes::start();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<HashMap<std::thread::ThreadId, usize>>> = Arc::default();
        let mut clients = Vec::new();
        let count = lanes.0.len() * 3;
        for _ in 0..count {
            clients.push(tokio::net::TcpStream::connect(address).await.unwrap());
            let (stream, _) = listener.accept().await.unwrap();
            let seen = seen.clone();
            lanes.serve(stream.into_std().unwrap(), |stream| async move {
                let thread = std::thread::current().id();
                *seen.lock().unwrap().entry(thread).or_default() += 1;
                for _ in 0..10 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    assert_eq!(std::thread::current().id(), thread);
                }
                std::future::pending::<()>().await;
                drop(stream);
            });
        }
        while seen.lock().unwrap().values().sum::<usize>() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(seen.lock().unwrap().values().all(|connections| *connections == 3), "{:?}", seen.lock().unwrap());
        drop(lanes);
        let mut byte = [0];
        let closed = tokio::time::timeout(Duration::from_secs(5), tokio::io::AsyncReadExt::read(&mut clients[0], &mut byte)).await;
        assert_eq!(closed.unwrap().unwrap(), 0);
    }

    #[tokio::test]
    async fn without_lanes_a_connection_is_served_where_it_was_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let (told, tell) = oneshot::channel();
        Lanes::shared().serve(stream.into_std().unwrap(), |_| async move { told.send(std::thread::current().id()).unwrap() });
        assert_eq!(tell.await.unwrap(), std::thread::current().id());
    }
}
