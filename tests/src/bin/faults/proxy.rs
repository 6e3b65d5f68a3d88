//! A proxy that is as bad as networks are: late, cut, silent, slow, twice.

use crate::chance::Chance;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What may happen to a piece of a connection.
const HARMS: [Harm; 6] = [Harm::Late, Harm::Reset, Harm::HalfOpen, Harm::Trickle, Harm::Cut, Harm::Twice];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    /// Comes up to five seconds later.
    Late,
    /// The connection is reset.
    Reset,
    /// Nothing comes any more, and nobody is told.
    HalfOpen,
    /// Comes at a byte per second.
    Trickle,
    /// Half of it comes, then the end.
    Cut,
    /// Comes twice.
    Twice,
}

struct Shared {
    to: SocketAddr,
    harmful: AtomicBool,
    percent: usize,
    seed: u64,
    connections: AtomicU64,
    done: [AtomicUsize; HARMS.len()],
}

pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    pumps: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// A proxy to this address. Each piece that passes comes to harm so often, in percent, while it is harmful.
pub async fn proxy(to: SocketAddr, percent: usize, seed: u64) -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    let shared = Arc::new(Shared { to, harmful: AtomicBool::new(false), percent, seed, connections: AtomicU64::new(0), done: Default::default() });
    let pumps: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
    let task = tokio::spawn({
        let (shared, pumps) = (shared.clone(), pumps.clone());
        async move {
            while let Ok((near, _)) = listener.accept().await {
                let pump = tokio::spawn(connection(shared.clone(), near));
                let mut pumps = pumps.lock().expect("a lock");
                pumps.retain(|pump| !pump.is_finished());
                pumps.push(pump);
            }
        }
    });
    Proxy { address, shared, task, pumps }
}

impl Proxy {
    pub fn harmful(&self, harmful: bool) {
        self.shared.harmful.store(harmful, Relaxed);
    }

    /// Ends every connection that is there, also those that nobody hears from any more.
    pub fn cut(&self) {
        for pump in self.pumps.lock().expect("a lock").drain(..) {
            pump.abort();
        }
    }

    /// How often each harm was done.
    pub fn done(&self) -> Vec<(String, usize)> {
        HARMS.iter().zip(&self.shared.done).map(|(harm, done)| (format!("{harm:?}").to_lowercase(), done.load(Relaxed))).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

async fn connection(shared: Arc<Shared>, near: TcpStream) {
    let number = shared.connections.fetch_add(1, Relaxed);
    let Ok(far) = TcpStream::connect(shared.to).await else { return };
    near.set_nodelay(true).ok();
    far.set_nodelay(true).ok();
    let chance = |stream| Chance::new(shared.seed, number * 2 + stream);
    let reset = {
        let (mut near_in, mut near_out) = near.into_split();
        let (mut far_in, mut far_out) = far.into_split();
        // Requests are not doubled: that would be the network executing something twice, which no gateway can prevent.
        let reset = tokio::select! {
            reset = pump(&shared, chance(0), &mut near_in, &mut far_out, false) => reset,
            reset = pump(&shared, chance(1), &mut far_in, &mut near_out, true) => reset,
        };
        reset.then(|| (near_in.reunite(near_out), far_in.reunite(far_out)))
    };
    if let Some((Ok(near), Ok(far))) = reset {
        near.set_zero_linger().ok();
        far.set_zero_linger().ok();
    }
}

/// Passes on until either side ends; whether the connection is to be reset.
async fn pump<R, W>(shared: &Shared, mut chance: Chance, from: &mut R, to: &mut W, replies: bool) -> bool
where
    R: AsyncReadExt + Unpin,
    W: AsyncWriteExt + Unpin,
{
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return false };
        let piece = &buffer[..read];
        let harm = (shared.harmful.load(Relaxed) && chance.percent(shared.percent)).then(|| *chance.pick(&HARMS));
        let harm = harm.filter(|harm| replies || *harm != Harm::Twice);
        if let Some(place) = harm.and_then(|harm| HARMS.iter().position(|other| *other == harm)) {
            shared.done[place].fetch_add(1, Relaxed);
        }
        let written = match harm {
            None => to.write_all(piece).await,
            Some(Harm::Late) => {
                tokio::time::sleep(Duration::from_millis(chance.below(5000) as u64)).await;
                to.write_all(piece).await
            }
            Some(Harm::Reset) => return true,
            Some(Harm::HalfOpen) => {
                // What still comes is swallowed, so that the sender sees nothing either.
                while from.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
                return false;
            }
            Some(Harm::Trickle) => {
                for byte in piece.iter().copied() {
                    if to.write_all(&[byte]).await.is_err() {
                        return false;
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Ok(())
            }
            Some(Harm::Cut) => {
                to.write_all(&piece[..read / 2]).await.ok();
                return false;
            }
            Some(Harm::Twice) => match to.write_all(piece).await {
                Ok(()) => to.write_all(piece).await,
                failed => failed,
            },
        };
        if written.is_err() {
            return false;
        }
    }
}
