//! Every limit and every wait of this crate, in one place, so that tests need not wait as long as production does.

use std::time::Duration;

/// Limits and waits. The defaults are the documented ones.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Connecting and shaking hands, in all.
    pub handshake: Duration,
    /// How long a stdio target may be silent about `server/discover`.
    pub probe: Duration,
    /// All lists together.
    pub listing: Duration,
    /// The shortest time between two refreshes.
    pub refresh_pause: Duration,
    /// The shortest `ttlMs` that is honoured.
    pub shortest_ttl: Duration,
    /// Lists are asked for again after this long even if nothing was said.
    pub refresh_backstop: Duration,
    /// The first delay of a reconnect, before jitter.
    pub backoff_first: Duration,
    /// The longest delay of a reconnect.
    pub backoff_longest: Duration,
    /// The shortest delay once the circuit is open.
    pub circuit_delay: Duration,
    /// A connection in service for this long counts as a success.
    pub settled_after: Duration,
    /// Between two pings of an HTTP target.
    pub ping_every: Duration,
    /// How long a ping may take.
    pub ping_timeout: Duration,
    /// The shortest time between two idle connections that watch a host.
    pub watch_pause: Duration,
    /// The shortest time between two listening streams.
    pub stream_pause: Duration,
    /// A call with progress, in all.
    pub longest_call: Duration,
    /// Calls under way at one target.
    pub in_flight: usize,
    /// Calls that may wait for one of those places.
    pub queue: usize,
    /// How long they wait.
    pub queue_wait: Duration,
    /// Bytes of one message of a target.
    pub message: usize,
    /// Garbage lines in a row before a child is started anew.
    pub garbage: u32,
    /// Answers nobody asked for, within a minute, before the connection is made anew.
    pub strays: u32,
    /// Notifications per second towards the client of one call.
    pub notifications: u32,
    /// Timeouts in a row before the target is pinged.
    pub timeouts: u32,
    /// How long a child may take to read what it is sent.
    pub write: Duration,
    /// Between closing a child's input and SIGTERM.
    pub stop_politely: Duration,
    /// Between SIGTERM and SIGKILL.
    pub stop_firmly: Duration,
    /// Connections of client sessions at one target.
    pub sessions: usize,
    /// A session's connection without a call for this long is closed.
    pub session_idle: Duration,
    /// Pages of one list.
    pub pages: usize,
    /// Items of one list.
    pub items: usize,
    /// Bytes of one definition.
    pub definition: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Tuning {
            handshake: seconds(30),
            probe: seconds(10),
            listing: seconds(30),
            refresh_pause: seconds(1),
            shortest_ttl: seconds(5),
            refresh_backstop: seconds(300),
            backoff_first: Duration::from_millis(100),
            backoff_longest: seconds(30),
            circuit_delay: seconds(1),
            settled_after: seconds(1),
            ping_every: seconds(10),
            ping_timeout: seconds(20),
            watch_pause: seconds(5),
            stream_pause: seconds(1),
            longest_call: seconds(600),
            in_flight: 256,
            queue: 1024,
            queue_wait: seconds(1),
            message: 16 << 20,
            garbage: 1000,
            strays: 10,
            notifications: 50,
            timeouts: 10,
            write: seconds(10),
            stop_politely: seconds(3),
            stop_firmly: seconds(5),
            sessions: 1000,
            session_idle: seconds(30 * 60),
            pages: 100,
            items: 2000,
            definition: 64 << 10,
        }
    }
}
