//! The task that keeps one target connected: connect, list, serve, and when it breaks say so at once and try again.

use crate::backoff::Backoff;
use crate::connection::{Connection, Pulse};
use crate::failure::Failure;
use crate::listing::{self, Listing};
use crate::state::{Status, TargetState};
use crate::target::Shared;
use crate::text::LONGEST_REASON;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Pings without an answer before a target counts as gone, while no call of ours keeps it busy.
const SILENT_PINGS: u32 = 3;
/// Between two pings, however suspect the target is.
const PING_PAUSE: Duration = Duration::from_millis(100);
const SWEEP: Duration = Duration::from_secs(30);

/// Runs until the target is closed.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut closing = shared.closing.subscribe();
    let mut backoff = Backoff::default();
    loop {
        let attempt = tokio::select! {
            attempt = connect(&shared) => attempt,
            () = asked_to_close(&mut closing) => break,
        };
        let reason = match attempt {
            Err(reason) => {
                shared.host().connected(&shared.spec.name, false);
                reason
            }
            Ok((connection, listing)) => {
                let since = Instant::now();
                let connection = Arc::new(connection);
                go_into_service(&shared, &connection, &listing);
                let reason = tokio::select! {
                    reason = serve(&shared, &connection, listing) => reason,
                    () = asked_to_close(&mut closing) => {
                        shared.current.store(None);
                        connection.close().await;
                        break;
                    }
                };
                shared.current.store(None);
                if since.elapsed() >= shared.tuning.settled_after {
                    backoff.reset();
                }
                retire(&shared, connection);
                reason
            }
        };
        let delay = backoff.next(&shared.tuning);
        go_out_of_service(&shared, reason, delay, backoff.circuit_open());
        tokio::select! {
            () = sleep(delay) => {}
            () = asked_to_close(&mut closing) => break,
        }
        shared.publish(|state| state.status = Status::Connecting);
    }
    shared.close_sessions().await;
    shared.publish(|state| {
        *state = TargetState { status: Status::Unavailable, offer: None, last_error: Some("closed".into()), next_retry: None, ..state.clone() };
    });
    shared.closed.send_replace(true);
}

async fn asked_to_close(closing: &mut watch::Receiver<bool>) {
    let _asked = closing.wait_for(|closing| *closing).await;
}

async fn connect(shared: &Shared) -> Result<(Connection, Listing), String> {
    let connection = shared.dialer.connect(false).await?;
    let listed = tokio::select! {
        listed = timeout(shared.tuning.listing, listing::fetch(&connection, None, &shared.ears, &shared.tuning)) => listed,
        reason = connection.gone() => return Err(reason),
    };
    match listed {
        Ok(Ok(listing)) => Ok((connection, listing)),
        Ok(Err(failure)) => {
            connection.close().await;
            Err(format!("connected, but its lists cannot be had: {failure}"))
        }
        Err(_) => {
            connection.close().await;
            Err(format!("connected, but its lists did not come within {} s", shared.tuning.listing.as_secs_f32()))
        }
    }
}

fn go_into_service(shared: &Shared, connection: &Arc<Connection>, listing: &Listing) {
    let offer = &listing.offer;
    tracing::info!(
        target = %shared.spec.name, era = offer.era.name(), revision = offer.revision.text(), tools = offer.tools.len(), prompts = offer.prompts.len(),
        resources = offer.resources.len() + offer.templates.len(), "target connected"
    );
    shared.timeouts.store(0, Ordering::Relaxed);
    shared.current.store(Some(connection.clone()));
    shared.host().connected(&shared.spec.name, true);
    shared.publish(|state| {
        state.status = Status::Connected;
        state.offer = Some(offer.clone());
        state.next_retry = None;
        state.settled = true;
    });
}

fn go_out_of_service(shared: &Shared, reason: String, delay: Duration, circuit_open: bool) {
    let was_connected = shared.state.load().status == Status::Connected;
    // Some of it is the target's own words.
    let reason = shared.ears.scrubber.clean(reason.as_bytes(), LONGEST_REASON);
    tracing::warn!(target = %shared.spec.name, %reason, retry_ms = delay.as_millis() as u64, circuit_open, "target unavailable");
    shared.publish(|state| {
        state.status = Status::Unavailable;
        state.offer = None;
        state.last_error = Some(reason);
        state.next_retry = Some(std::time::Instant::now() + delay);
        state.settled = true;
        state.restarts += u64::from(was_connected);
    });
    if was_connected {
        shared.host().lost(&shared.spec.name);
    }
}

/// Ends a connection that broke, in the background: what is left of it may take its time.
fn retire(shared: &Arc<Shared>, connection: Arc<Connection>) {
    let patience = shared.tuning.stop_politely + shared.tuning.stop_firmly * 2;
    crate::connection::close_in_background(connection, &shared.runtime, patience);
}

/// Keeps a connection in service. Returns why it no longer is.
async fn serve(shared: &Arc<Shared>, connection: &Connection, listing: Listing) -> String {
    tokio::select! {
        // In this order, so that the end of the connection is never seen late.
        biased;
        reason = connection.gone() => reason,
        reason = keep_health(shared, connection) => reason,
        never = connection.keep_line(&shared.ears, shared.wanted.subscribe()) => match never {},
        never = connection.keep_subscriptions(shared.wanted.subscribe()) => match never {},
        never = keep_lists(shared, connection, listing) => match never {},
        never = keep_sessions_few(shared) => match never {},
    }
}

/// Pings a target that is suspect, and an HTTP target now and then. Returns when it is gone.
async fn keep_health(shared: &Shared, connection: &Connection) -> String {
    let mut silent = 0;
    loop {
        tokio::select! {
            () = shared.ears.suspect.notified() => {}
            () = sleep(shared.tuning.ping_every), if connection.is_http() => {}
        }
        match connection.ping().await {
            Pulse::Alive => {
                silent = 0;
                shared.timeouts.store(0, Ordering::Relaxed);
                // Many failing calls make one ping, not many.
                sleep(PING_PAUSE).await;
            }
            Pulse::Dead(reason) => return reason,
            Pulse::Silent => {
                silent += 1;
                let timeouts = shared.timeouts.load(Ordering::Relaxed) >= shared.tuning.timeouts;
                // A busy target may be too busy for pings; its calls have deadlines of their own.
                if timeouts || (silent >= SILENT_PINGS && shared.gate.in_use() == 0) {
                    return "it no longer answers".into();
                }
                shared.ears.suspect.notify_one();
            }
        }
    }
}

/// Asks for the lists again when they may have changed.
async fn keep_lists(shared: &Shared, connection: &Connection, first: Listing) -> std::convert::Infallible {
    let tuning = &shared.tuning;
    let due = |listing: &Listing| match (listing.fresh_for, listing.partial) {
        (_, true) => tuning.shortest_ttl,
        (fresh_for, false) => fresh_for.unwrap_or(tuning.refresh_backstop).min(tuning.refresh_backstop),
    };
    let mut asked = Instant::now();
    let mut next = asked + due(&first);
    let mut known = first.offer;
    loop {
        tokio::select! {
            () = shared.ears.stale.notified() => sleep_until(asked + tuning.refresh_pause).await,
            () = sleep_until(next) => {}
        }
        asked = Instant::now();
        let listed = timeout(tuning.listing, listing::fetch(connection, Some(&known), &shared.ears, tuning)).await;
        match listed.unwrap_or(Err(Failure::TimedOut)) {
            Ok(listing) => {
                next = Instant::now() + due(&listing);
                if !listing::same(&known, &listing.offer) {
                    known = listing.offer;
                    tracing::info!(target = %shared.spec.name, tools = known.tools.len(), "the target changed what it offers");
                    shared.publish(|state| state.offer = Some(known.clone()));
                }
            }
            Err(failure) => {
                let reason = shared.ears.scrubber.clean(failure.to_string().as_bytes(), LONGEST_REASON);
                tracing::warn!(target = %shared.spec.name, %reason, "the lists could not be refreshed; the last ones stay");
                next = Instant::now() + tuning.shortest_ttl;
            }
        }
    }
}

async fn keep_sessions_few(shared: &Arc<Shared>) -> std::convert::Infallible {
    loop {
        sleep(SWEEP.min(shared.tuning.session_idle)).await;
        for slot in shared.sessions.take_idle(shared.tuning.session_idle) {
            shared.close_slot(slot);
        }
    }
}

impl Shared {
    /// Changes the state and says so.
    pub(crate) fn publish(&self, change: impl FnOnce(&mut TargetState)) {
        let mut state = TargetState::clone(&self.state.load());
        let before = state.status;
        change(&mut state);
        if state.status != before {
            state.since = SystemTime::now();
        }
        self.state.store(Arc::new(state));
        self.host().changed();
    }
}
