//! Makes connections: starts the transport, finds out which era the target speaks, shakes hands.

use crate::connection::{AbortOnDrop, Connection, Link};
use crate::deadline::Deadline;
use crate::ears::Ears;
use crate::failure::Failure;
use crate::handshake::{self, Initialized, Server, Verdict};
use crate::http_client::HttpClient;
use crate::http_link::{Ask, HttpLink};
use crate::ident::Ident;
use crate::mux::{Audience, Mux};
use crate::road::Road;
use crate::spec::{ClientTls, EraChoice, Secret, Sessions, TargetSpec, Transport};
use crate::sse;
use crate::stdio::{self, Program};
use crate::tuning::Tuning;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use transom_protocol::error::METHOD_NOT_FOUND;

/// Knows how to reach one target, and what was learned about it.
pub(crate) struct Dialer {
    spec: Arc<TargetSpec>,
    ears: Arc<Ears>,
    tuning: Arc<Tuning>,
    client: OnceCell<HttpClient>,
    /// A child that did not survive being asked for its era, or kept silent, is not asked again.
    dislikes_probe: AtomicBool,
}

impl Dialer {
    pub(crate) fn new(spec: Arc<TargetSpec>, ears: Arc<Ears>, tuning: Arc<Tuning>) -> Dialer {
        Dialer { spec, ears, tuning, client: OnceCell::new(), dislikes_probe: AtomicBool::new(false) }
    }

    /// A connection ready for calls, or why there is none: for people, without secrets.
    pub(crate) async fn connect(&self, private: bool) -> Result<Connection, String> {
        let seconds = self.tuning.handshake.as_secs_f32();
        timeout(self.tuning.handshake, self.reach(private)).await.unwrap_or_else(|_| Err(format!("no handshake within {seconds} s")))
    }

    async fn reach(&self, private: bool) -> Result<Connection, String> {
        let questions = self.spec.allow_server_requests;
        let (server, link) = match &self.spec.transport {
            Transport::Stdio { cmd, args, env, cwd, limits } => {
                let program = || Program { cmd, args, env, cwd: cwd.as_ref(), limits };
                // Requests of a child can be answered only if it is clear whose they are.
                let private = private && self.spec.sessions == Sessions::PerSession;
                self.child(program, Audience { private, questions: questions && private }).await?
            }
            Transport::Http { url, headers, tls } => self.http(url, headers, tls.as_deref(), private).await?,
            Transport::Sse { url, headers, tls } => {
                let client = self.client(url, tls.as_deref())?;
                self.sse(client, url, &header_map(headers)?, private).await.map_err(|failure| failure.to_string())?
            }
        };
        Ok(Connection::new(server, link, questions, self.tuning.clone()))
    }

    async fn child<'p>(&self, program: impl Fn() -> Program<'p>, audience: Audience) -> Result<(Server, Link), String> {
        let start = || stdio::start(program(), audience, self.ears.clone(), self.tuning.clone());
        let (mut mux, mut child) = start().await?;
        let probes = self.spec.era == EraChoice::Modern || (self.spec.era == EraChoice::Auto && !self.dislikes_probe.load(Ordering::Relaxed));
        if probes {
            let reason = match self.discover(&mux).await {
                Ok(Verdict::Modern(server)) => return Ok((server, Link::Child(mux, child))),
                Ok(Verdict::Legacy(reason)) => reason,
                Err(failure) => {
                    if self.spec.era == EraChoice::Auto {
                        self.dislikes_probe.store(true, Ordering::Relaxed);
                    }
                    failure.to_string()
                }
            };
            if self.spec.era == EraChoice::Modern {
                child.stop().await;
                return Err(format!("it does not speak 2026-07-28: {reason}"));
            }
            if mux.down.reason().is_some() {
                drop(child);
                (mux, child) = start().await?;
            }
        }
        match self.initialize(&mux, audience.questions).await {
            Ok(server) => Ok((server, Link::Child(mux, child))),
            Err(failure) => {
                // Perhaps it was not the probe after all.
                let was_silent = self.dislikes_probe.swap(false, Ordering::Relaxed);
                // A child that took longer to start than the probe waits has read the probe first, and may know one era from then on. It is awake now.
                if was_silent
                    && probes
                    && matches!(failure, Failure::Invalid(_))
                    && let Ok(Verdict::Modern(server)) = self.discover(&mux).await
                {
                    return Ok((server, Link::Child(mux, child)));
                }
                Err(failure.to_string())
            }
        }
    }

    /// Asks for the era over a pair of streams.
    async fn discover(&self, mux: &Arc<Mux>) -> Result<Verdict, Failure> {
        let ident = Ident::fresh();
        let answer = mux.ask(ident, handshake::discover(ident), Road::nowhere(ident), Deadline::after(self.tuning.probe), false).await?;
        Ok(handshake::verdict(&answer))
    }

    /// The legacy handshake over a pair of streams.
    async fn initialize(&self, mux: &Arc<Mux>, questions: bool) -> Result<Server, Failure> {
        let ident = Ident::fresh();
        let body = handshake::initialize(ident, questions);
        let answer = mux.ask(ident, body, Road::nowhere(ident), Deadline::after(self.tuning.handshake), false).await?;
        let Initialized { server, .. } = handshake::read_initialized(answer).map_err(Failure::Invalid)?;
        mux.notify(handshake::initialized()).await?;
        Ok(server)
    }

    async fn http(&self, url: &Uri, headers: &[(HeaderName, Secret)], tls: Option<&ClientTls>, private: bool) -> Result<(Server, Link), String> {
        let client = self.client(url, tls)?;
        let headers = header_map(headers)?;
        let questions = self.spec.allow_server_requests;
        let link = HttpLink::new(client.clone(), url.clone(), &headers, questions, self.ears.clone(), self.tuning.clone());
        if self.spec.era != EraChoice::Legacy {
            match self.probe(&link).await? {
                Verdict::Modern(server) => return Ok((server, Link::Http(Box::new(link)))),
                Verdict::Legacy(reason) if self.spec.era == EraChoice::Modern => return Err(format!("it does not speak 2026-07-28: {reason}")),
                Verdict::Legacy(_) => {}
            }
        }
        match link.initialize(&mut Deadline::after(self.tuning.handshake)).await {
            Ok(Initialized { server, .. }) => Ok((server, Link::Http(Box::new(link)))),
            Err(failure @ Failure::Status { status, .. }) if status.is_client_error() && !matches!(status.as_u16(), 401 | 403 | 429) => {
                // Before Streamable HTTP there was SSE; such a server knows no POST at this URL.
                let sse = self.sse(client, url, &headers, private).await;
                sse.map_err(|other| format!("it {failure} to `initialize`; as legacy SSE: {other}"))
            }
            Err(failure @ Failure::Status { .. }) => Err(format!("it {failure} to `initialize`")),
            Err(failure) => Err(failure.to_string()),
        }
    }

    /// Asks an HTTP target for its era. `Err` if it cannot be reached at all.
    async fn probe(&self, link: &HttpLink) -> Result<Verdict, String> {
        link.speak_modern();
        let ident = Ident::fresh();
        let mut deadline = Deadline::after(self.tuning.probe);
        let ask = Ask::control(ident, "server/discover", handshake::discover(ident));
        match link.ask(&ask, &mut Road::nowhere(ident), &mut deadline, false).await {
            Ok(answer) => Ok(handshake::verdict(&answer)),
            Err(Failure::Status { status, error: Some(error), .. })
                if status == http::StatusCode::NOT_FOUND && handshake::code(&error) == Some(METHOD_NOT_FOUND) =>
            {
                self.probe_list(link).await
            }
            Err(Failure::Status { status, error: Some(error), .. }) if status.is_client_error() => Ok(handshake::verdict(&Err(error))),
            Err(failure @ Failure::Status { status, .. }) if !status.is_client_error() => Err(format!("it {failure}")),
            Err(failure @ Failure::NotSent(_)) => Err(failure.to_string()),
            Err(failure) => Ok(Verdict::Legacy(failure.to_string())),
        }
    }

    /// 404 with "method not found" is how modern servers refuse, so this one is modern but says nothing about itself;
    /// unless it refuses modern lists too.
    async fn probe_list(&self, link: &HttpLink) -> Result<Verdict, String> {
        let ident = Ident::fresh();
        let body = crate::outgoing::control(ident, "tools/list", "{}", transom_protocol::Era::Modern);
        let mut deadline = Deadline::after(self.tuning.probe);
        match link.ask(&Ask::control(ident, "tools/list", body), &mut Road::nowhere(ident), &mut deadline, false).await {
            Ok(Ok(_)) => Ok(Verdict::Modern(Server::silent())),
            Err(Failure::Status { error: Some(error), .. }) if handshake::code(&error) == Some(METHOD_NOT_FOUND) => {
                Ok(Verdict::Modern(Server::silent()))
            }
            Ok(Err(error)) => Ok(Verdict::Legacy(handshake::describe(&error))),
            Err(failure) => Ok(Verdict::Legacy(failure.to_string())),
        }
    }

    async fn sse(&self, client: HttpClient, url: &Uri, headers: &HeaderMap, private: bool) -> Result<(Server, Link), Failure> {
        let private = private && self.spec.sessions == Sessions::PerSession;
        let audience = Audience { private, questions: private && self.spec.allow_server_requests };
        let (mux, reader) = sse::open(client, url, headers, audience, self.ears.clone(), self.tuning.clone()).await?;
        let reader = AbortOnDrop(reader);
        let server = self.initialize(&mux, audience.questions).await?;
        Ok((server, Link::Sse(mux, reader)))
    }

    fn client(&self, url: &Uri, tls: Option<&ClientTls>) -> Result<HttpClient, String> {
        if let Some(client) = self.client.get() {
            client.renew(&self.spec.name);
            return Ok(client.clone());
        }
        let client = HttpClient::new(url, tls)?;
        let _first = self.client.set(client.clone());
        Ok(client)
    }
}

fn header_map(headers: &[(HeaderName, Secret)]) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::with_capacity(headers.len() + 8);
    for (name, value) in headers {
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| format!("the header `{name}` has a value HTTP cannot carry"))?;
        value.set_sensitive(true);
        map.append(name.clone(), value);
    }
    Ok(map)
}
