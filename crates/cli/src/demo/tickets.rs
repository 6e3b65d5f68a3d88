//! A ticket system in memory: four tools with good schemas, and state that lasts as long as the process.

use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Tickets kept at once; above it the system asks to close some rather than grow.
const MAX_TICKETS: usize = 1000;

/// The server.
#[derive(Clone, Default)]
pub struct Tickets {
    store: Arc<Mutex<Store>>,
}

#[derive(Default)]
struct Store {
    tickets: BTreeMap<u32, Ticket>,
    last: u32,
}

/// A ticket.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Ticket {
    /// Its name, such as `T-7`.
    id: String,
    /// What it is about.
    title: String,
    /// The whole story.
    description: String,
    /// How much it hurts.
    priority: Priority,
    /// Where it stands.
    status: Status,
    /// Words to find it by.
    labels: Vec<String>,
    /// How it ended, once it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Priority {
    Low,
    #[default]
    Normal,
    High,
    Urgent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Status {
    Open,
    Closed,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewTicket {
    /// What it is about, in one line.
    #[schemars(length(min = 1, max = 200))]
    title: String,
    /// The whole story.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    description: String,
    /// How much it hurts.
    #[serde(default)]
    priority: Priority,
    /// Words to find it by.
    #[serde(default)]
    #[schemars(length(max = 10), inner(length(min = 1, max = 50)))]
    labels: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TicketId {
    /// The ticket's name, such as `T-7`.
    #[schemars(regex(pattern = "^T-[0-9]+$"))]
    id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// Words that must all occur in title, description or labels, in any case. Left out, every ticket matches.
    #[serde(default)]
    #[schemars(length(max = 200))]
    query: String,
    /// Only tickets that stand here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Status")]
    status: Option<Status>,
    /// How many tickets to return at most, newest first.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Closing {
    /// The ticket's name, such as `T-7`.
    #[schemars(regex(pattern = "^T-[0-9]+$"))]
    id: String,
    /// How it ended, for those who read it later.
    #[schemars(length(min = 1, max = 2000))]
    resolution: String,
}

/// What a search found.
#[derive(Serialize, JsonSchema)]
struct Found {
    /// How many tickets match, returned or not.
    total: usize,
    /// The newest of them.
    tickets: Vec<Ticket>,
}

fn twenty() -> usize {
    20
}

#[tool_router]
impl Tickets {
    /// Open a new ticket. Returns the ticket with the id it was given.
    #[tool(annotations(title = "Create ticket", read_only_hint = false, destructive_hint = false, idempotent_hint = false, open_world_hint = false))]
    async fn create_ticket(&self, Parameters(new): Parameters<NewTicket>) -> Result<Json<Ticket>, String> {
        let title = new.title.trim();
        if title.is_empty() || title.len() > 200 {
            return Err("`title` must be 1 to 200 bytes".into());
        }
        if new.description.len() > 10_000 || new.labels.len() > 10 || new.labels.iter().any(|label| label.len() > 50) {
            return Err("too much text: at most 10000 bytes of `description` and 10 `labels` of 50 bytes each".into());
        }
        self.store().create(NewTicket { title: title.into(), ..new }).map(Json)
    }

    /// Read one ticket by its id, with its status and, once closed, how it ended.
    #[tool(annotations(title = "Get ticket", read_only_hint = true, open_world_hint = false))]
    async fn get_ticket(&self, Parameters(TicketId { id }): Parameters<TicketId>) -> Result<Json<Ticket>, String> {
        self.store().ticket(&id).map(|ticket| Json(ticket.clone()))
    }

    /// Find tickets by words and status, newest first.
    #[tool(annotations(title = "Search tickets", read_only_hint = true, open_world_hint = false))]
    async fn search_tickets(&self, Parameters(search): Parameters<Search>) -> Result<Json<Found>, String> {
        if !(1..=100).contains(&search.limit) {
            return Err("`limit` must be 1 to 100".into());
        }
        Ok(Json(self.store().search(&search)))
    }

    /// Close a ticket for good and say how it ended. A closed ticket cannot be opened again.
    #[tool(annotations(title = "Close ticket", read_only_hint = false, destructive_hint = true, idempotent_hint = false, open_world_hint = false))]
    async fn close_ticket(&self, Parameters(closing): Parameters<Closing>) -> Result<Json<Ticket>, String> {
        if closing.resolution.trim().is_empty() || closing.resolution.len() > 2000 {
            return Err("`resolution` must be 1 to 2000 bytes".into());
        }
        let mut store = self.store();
        let ticket = store.ticket(&closing.id)?;
        if ticket.status == Status::Closed {
            return Err(format!("ticket `{}` is already closed", ticket.id));
        }
        ticket.status = Status::Closed;
        ticket.resolution = Some(closing.resolution);
        Ok(Json(ticket.clone()))
    }
}

#[tool_handler(name = "transom-demo-tickets", instructions = "A ticket system in memory. Tickets are gone when the demo ends.")]
impl ServerHandler for Tickets {}

impl Tickets {
    /// A ticket system with something to find in it.
    pub fn with_samples() -> Tickets {
        let tickets = Tickets::default();
        for (title, description, priority, label) in [
            ("Login page shows a blank screen", "Since the last release, on Safari only.", Priority::High, "web"),
            ("Invoices round to the wrong cent", "0.005 becomes 0.00. It should be 0.01.", Priority::Normal, "billing"),
            ("Please add a dark theme", "My eyes.", Priority::Low, "web"),
        ] {
            let sample = NewTicket { title: title.into(), description: description.into(), priority, labels: vec![label.into()] };
            // Three tickets fit.
            let _ = tickets.store().create(sample);
        }
        tickets
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Store {
    fn create(&mut self, new: NewTicket) -> Result<Ticket, String> {
        if self.tickets.len() >= MAX_TICKETS {
            return Err(format!("this demo keeps at most {MAX_TICKETS} tickets; restart it to begin anew"));
        }
        self.last += 1;
        let ticket = Ticket {
            id: format!("T-{}", self.last),
            title: new.title,
            description: new.description,
            priority: new.priority,
            status: Status::Open,
            labels: new.labels,
            resolution: None,
        };
        self.tickets.insert(self.last, ticket.clone());
        Ok(ticket)
    }

    fn ticket(&mut self, id: &str) -> Result<&mut Ticket, String> {
        let number =
            id.strip_prefix("T-").and_then(|number| number.parse().ok()).ok_or_else(|| format!("`{id}` is no ticket id; they look like `T-7`"))?;
        self.tickets.get_mut(&number).ok_or_else(|| format!("no ticket `{id}`; `search_tickets` shows which there are"))
    }

    fn search(&self, search: &Search) -> Found {
        let words: Vec<String> = search.query.split_whitespace().map(str::to_lowercase).collect();
        let matches = |ticket: &&Ticket| {
            let text = format!("{} {} {}", ticket.title, ticket.description, ticket.labels.join(" ")).to_lowercase();
            search.status.is_none_or(|status| ticket.status == status) && words.iter().all(|word| text.contains(word))
        };
        let found: Vec<&Ticket> = self.tickets.values().rev().filter(matches).collect();
        Found { total: found.len(), tickets: found.into_iter().take(search.limit).cloned().collect() }
    }
}
