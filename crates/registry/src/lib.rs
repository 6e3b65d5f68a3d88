//! The pure engine: what a virtual tool means, decided without runtime, clock, files or environment.
//!
//! The rooms, in the order a definition lives: [`file`] (what users write) · [`name`] · [`template`] (`${…}`) ·
//! [`compile`](mod@compile) (documents and an environment become a [`Plan`]) · [`list`] (a plan and a [`Catalog`] become
//! [`Tools`]) · [`schema`] (inherit, rename, hide) · [`call`] (arguments in, a [`Step`] out) · [`result`](mod@result) with
//! [`path`] and [`embedded`] (what clients get of a result) · [`secret`] and [`mask`] · [`pin`] (hash and drift) · [`local`] (tools
//! that stand on no target) · [`problem`] (place, message, hint).
//!
//! A call is a machine without input and output: the engine says which source to call with what, and is told the result.
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//! use transom_json::Json;
//! use transom_registry::template::Environment;
//! use transom_registry::{Catalog, ClientEra, Document, Offer, Options, Refusal, SourceTool, Step, compile};
//!
//! // What a platform team publishes.
//! let registry = r#"{"tools": [{
//!     "name": "get_weather",
//!     "source": {"target": "weather", "tool": "fetch_weather"},
//!     "defaults": {"api_key": "${WEATHER_API_KEY}", "units": "metric"},
//!     "hideFields": ["api_key", "debug_mode"],
//!     "outputSchema": {"type": "object", "properties": {
//!         "temperature": {"type": "number", "sourceField": "$.data.current.temp_f"},
//!         "conditions": {"type": "string", "sourceField": "$.data.current.condition.text"}}}
//! }]}"#;
//!
//! // The only environment the engine sees.
//! struct Variables;
//! impl Environment for Variables {
//!     fn variable(&self, name: &str) -> Option<String> {
//!         (name == "WEATHER_API_KEY").then(|| "k-1234567890".to_owned())
//!     }
//!     fn file(&self, _: &Path) -> Result<String, String> {
//!         Err("no files here".to_owned())
//!     }
//! }
//!
//! // What the target offers.
//! let fetch_weather = SourceTool::read(r#"{"name": "fetch_weather", "description": "Raw weather", "inputSchema": {"type": "object",
//!     "properties": {"city": {"type": "string"}, "units": {"type": "string"}, "api_key": {"type": "string"}, "debug_mode": {"type": "boolean"}},
//!     "required": ["city", "api_key"]}}"#)?;
//! let catalog = Catalog { targets: vec![Offer { target: "weather".into(), available: true, tools: vec![Arc::new(fetch_weather)] }] };
//!
//! let compiled = compile(&[Document { name: "registry.json", text: registry }], &Variables, &Options::default()).unwrap();
//! assert!(compiled.problems.is_empty());
//! let tools = compiled.plan.bind(&catalog);
//!
//! // The source is neither listed nor callable, and neither is its key.
//! let listed: Vec<&str> = tools.list().map(|tool| tool.name()).collect();
//! assert_eq!(listed, ["get_weather"]);
//! assert!(!tools.list().any(|tool| tool.json().contains("api_key")));
//! assert_eq!(tools.call("fetch_weather", None).unwrap_err(), Refusal::UnknownTool);
//!
//! // A call goes to the source with what the registry adds to it.
//! let Step::Call(call) = tools.call("get_weather", Some(Json::trusted(r#"{"city":"Seattle"}"#))).unwrap() else { unreachable!() };
//! assert_eq!((&*call.target, &*call.tool), ("weather", "fetch_weather"));
//! assert_eq!(call.arguments, br#"{"city":"Seattle","api_key":"k-1234567890","units":"metric"}"#);
//!
//! // What comes back is what the registry promises, and nothing else.
//! let result = r#"{"content":[{"type":"text","text":"{\"data\":{\"current\":{\"temp_f\":52.3,\"condition\":{\"text\":\"Cloudy\"},\"cost\":9}}}"}]}"#;
//! let reply = call.resume.resume(Json::trusted(result), ClientEra::Modern);
//! assert!(reply.json.starts_with(r#"{"structuredContent":{"temperature":52.3,"conditions":"Cloudy"},"#));
//! assert!(!reply.json.contains("cost"));
//! # Ok::<(), String>(())
//! ```

#![deny(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod call;
pub mod compile;
pub mod embedded;
pub mod file;
pub mod list;
pub mod local;
mod loosen;
pub mod mask;
pub mod name;
pub mod path;
pub mod pin;
pub mod problem;
pub mod published;
pub mod result;
pub mod schema;
pub mod secret;
pub mod source;
pub mod suite;
pub mod template;
#[cfg(test)]
mod testing;

pub use call::{ClientEra, LocalCall, Refusal, Rejected, Reply, Resume, SourceCall, Step, Takes, reads_as};
pub use compile::{Compiled, Options, Plan, Quarantined, Unlisted, VirtualTool, compile};
pub use file::{Document, Settings};
pub use list::{Listed, Tools};
pub use problem::{Code, Problem, Severity, position};
pub use source::{Catalog, Offer, SourceTool};
