//! The side listeners: metrics for a scraper, and the admin listener for operators. What an operator can do is in
//! [`crate::admin`].

use crate::admin;
use crate::listener::answer::{failed, json, not_allowed};
use crate::listener::body::{self, ReplyBody};
use crate::listener::gate::{Gate, Verdict};
use crate::listener::{Ends, Handler};
use crate::reply::{Failure, Reject};
use crate::runtime::Runtime;
use crate::surface;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Semaphore;
use transom_protocol::Era;
use transom_upstream::Secret;

/// Scrapes at once.
const SCRAPES: usize = 4;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// `/metrics`, `/health`, `/ready`.
    Metrics,
    /// The same, `/status` and `/api/…`.
    Admin,
}

/// A side listener.
pub struct Side {
    which: Which,
    runtime: Arc<Runtime>,
    gate: Gate,
    scrapes: Semaphore,
    token: Secret,
}

impl Side {
    /// For this listener, bound to this address; writes need this token.
    pub fn new(which: Which, runtime: Arc<Runtime>, hosts: &[String], bind: IpAddr, token: Secret) -> Side {
        Side { which, runtime, gate: Gate::new(hosts, &[], bind), scrapes: Semaphore::new(SCRAPES), token }
    }

    /// What changes something.
    async fn write(&self, request: Request<Incoming>) -> Response<ReplyBody> {
        if let Some(refusal) = admin::objection(request.headers(), &self.token) {
            self.runtime.rejected(Reject::AdminWrite);
            return refusal;
        }
        let Some(mut admitted) = self.runtime.admit() else { return self.refuse(Reject::Overloaded, "Too many requests in flight; try again later") };
        let (parts, body) = request.into_parts();
        let body = match body::collect(body, &mut admitted).await {
            Ok(body) => body,
            Err(failure) => return failed(&failure, Era::Legacy, None),
        };
        match parts.uri.path() {
            "/api/reload" => admin::reload(&self.runtime).await,
            "/api/rollback" => admin::rollback(&self.runtime, body).await,
            _ => self.refuse(Reject::UnknownPath, "Not found"),
        }
    }

    fn refuse(&self, reason: Reject, message: &str) -> Response<ReplyBody> {
        self.runtime.rejected(reason);
        failed(&Failure::rejected(reason, message), Era::Legacy, None)
    }
}

impl Handler for Side {
    fn unreadable(&self) {
        self.runtime.rejected(Reject::Framing);
    }

    async fn handle(&self, request: Request<Incoming>, ends: Ends) -> Response<ReplyBody> {
        let path = request.uri().path();
        let exempt = matches!(path, "/metrics" | "/health" | "/ready");
        // No page of any origin has business here.
        let no_origin = !request.headers().contains_key(header::ORIGIN);
        match self.gate.judge(request.uri(), request.headers(), ends.local, exempt) {
            Verdict::Pass(_) if no_origin => {}
            Verdict::BadHost => return self.refuse(Reject::Host, "This name is not ours"),
            Verdict::Pass(_) | Verdict::BadOrigin => return self.refuse(Reject::Origin, "Pages are not allowed here"),
        }
        if self.which == Which::Admin && matches!(path, "/api/reload" | "/api/rollback") {
            return if *request.method() == Method::POST { self.write(request).await } else { not_allowed("Method not allowed", "POST") };
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return not_allowed("Method not allowed", "GET");
        }
        match path {
            "/metrics" => {
                let Ok(_place) = self.scrapes.try_acquire() else {
                    return self.refuse(Reject::Overloaded, "Too many scrapes at once");
                };
                for slot in self.runtime.slots() {
                    self.runtime.metrics.in_flight_at(&slot.name, slot.handle.in_flight());
                }
                self.runtime.metrics.sessions.set(i64::try_from(self.runtime.sessions.count()).unwrap_or(i64::MAX));
                if let Some(sink) = crate::logging::sink() {
                    self.runtime.metrics.log_lines_dropped.inc_by(sink.take_dropped());
                }
                let openmetrics = request
                    .headers()
                    .get(header::ACCEPT)
                    .is_some_and(|accept| accept.to_str().unwrap_or("").contains("application/openmetrics-text"));
                let kind = if openmetrics {
                    "application/openmetrics-text; version=1.0.0; charset=utf-8"
                } else {
                    "text/plain; version=0.0.4; charset=utf-8"
                };
                let mut reply = json(StatusCode::OK, self.runtime.metrics.page(openmetrics).as_bytes().to_vec());
                reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
                reply
            }
            "/health" => surface::health(&self.runtime),
            "/ready" => surface::ready(&self.runtime, self.which == Which::Admin || !self.runtime.authentication.is_configured()),
            "/status" if self.which == Which::Admin => surface::status(&self.runtime, None, true),
            "/api/generations" if self.which == Which::Admin => admin::generations(&self.runtime),
            _ => self.refuse(Reject::UnknownPath, "Not found"),
        }
    }
}
