//! What the gateway counts. Label values come from the config, the generation or a closed set, never from a client.
//!
//! Handles are looked up once per tool and outcome and then kept, so that a request touches no map of label sets.

mod registry;

pub use registry::{RegistryMetrics, Reload};

use crate::reply::{ErrorType, Reject};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabel, EncodeLabelSet, EncodeMetric, LabelEncoder};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use transom_protocol::{Method, Revision};
use transom_registry::result::Outcome;

const SECONDS: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
const OVERHEAD: [f64; 11] = [50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 100e-3, 250e-3];
/// Tools with series of their own; a scrape stays under 5,000 series. The rest share `_overflow`.
const TOOL_SETS: usize = 150;
const INFO_SETS: usize = 500;
const TARGET_SETS: usize = 60;
/// How long a tool that is gone keeps its series.
const RETAIN: Duration = Duration::from_secs(600);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Operation {
    mcp_method_name: &'static str,
    gen_ai_tool_name: String,
    error_type: &'static str,
    network_transport: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ClientOperation {
    mcp_method_name: &'static str,
    target: String,
    error_type: &'static str,
    network_transport: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ToolInfo {
    tool: String,
    target: String,
    source_tool: String,
    version: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ToolSide {
    tool: String,
    side: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ToolResult {
    tool: String,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TargetLabel {
    target: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TargetResult {
    target: String,
    result: &'static str,
}

/// A label and its value.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Pair(&'static str, &'static str);

impl EncodeLabel for Pair {
    fn encode(&self, encoder: LabelEncoder<'_>) -> Result<(), std::fmt::Error> {
        (self.0, self.1).encode(encoder)
    }
}

/// A label set of one.
type Single = [Pair; 1];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Everything that is counted.
pub struct Metrics {
    registry: Mutex<Registry>,
    operations: Histograms<Operation>,
    client_operations: Histograms<ClientOperation>,
    tool_info: Family<ToolInfo, Gauge>,
    response_bytes: Family<ToolSide, Counter>,
    target_up: Family<TargetLabel, Gauge>,
    target_in_flight: Family<TargetLabel, Gauge>,
    connects: Family<TargetResult, Counter>,
    restarts: Family<TargetResult, Counter>,
    protocol_errors: Family<TargetResult, Counter>,
    rejected: Family<Single, Counter>,
    projections: Family<ToolResult, Counter>,
    reflected: Family<TargetLabel, Counter>,
    virtual_tools: Family<Single, Gauge>,
    unsafe_options: Family<Single, Gauge>,
    /// How the registry was loaded and what is live.
    pub registry_loads: RegistryMetrics,
    /// Requests being worked on.
    pub in_flight: Gauge,
    /// Sessions this replica knows.
    pub sessions: Gauge,
    /// Open streams from server to client.
    pub streams: Gauge,
    /// Log lines that found no room.
    pub log_lines_dropped: Counter,
    /// Requests that ended in a panic.
    pub panics: Counter,
    /// How short memory is: 0 not, 1 calls are refused, 2 everything new.
    pub memory_pressure: Gauge,
    /// What the process may hold, 0 if there is no limit.
    pub memory_limit: Gauge,
    plain: Vec<[OnceLock<Histogram>; ErrorType::COUNT]>,
    overhead_call: Histogram,
    overhead_list: Histogram,
    decisions: [[Counter; 2]; Action::ALL.len()],
    /// Rules that could not be evaluated.
    pub authz_errors: Counter,
    revisions: [Counter; 5],
    tools: Mutex<HashMap<String, Known>>,
    tool_sets: AtomicUsize,
    scrape: Mutex<Option<(Instant, bool, Arc<str>)>>,
}

/// What somebody wants to do, as far as it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Action {
    /// See a list.
    List,
    /// Call a tool.
    Call,
    /// Get a prompt.
    Get,
    /// Read a resource.
    Read,
    /// Have an argument completed.
    Complete,
    /// Hear of changes of a resource.
    Subscribe,
}

impl Action {
    /// All of them, in the order of their numbers.
    pub const ALL: [Action; 6] = [Action::List, Action::Call, Action::Get, Action::Read, Action::Complete, Action::Subscribe];

    /// The label value.
    pub fn label(self) -> &'static str {
        match self {
            Action::List => "list",
            Action::Call => "call",
            Action::Get => "get",
            Action::Read => "read",
            Action::Complete => "complete",
            Action::Subscribe => "subscribe",
        }
    }
}

struct Known {
    series: Arc<ToolSeries>,
    gone_since: Option<Instant>,
}

/// The series of one tool, by outcome.
#[derive(Default)]
pub struct ToolSeries {
    tool: String,
    by_error: [OnceLock<Histogram>; ErrorType::COUNT],
    from_target: OnceLock<Counter>,
    to_client: OnceLock<Counter>,
    projected: OnceLock<Counter>,
}

/// The series of one target, by method and outcome.
#[derive(Default)]
pub struct TargetSeries {
    target: String,
    transport: &'static str,
    calls: [OnceLock<Histogram>; ErrorType::COUNT],
}

impl Metrics {
    /// Every family, registered.
    pub fn new() -> Arc<Metrics> {
        let mut registry = Registry::default();
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        let micro: fn() -> Histogram = || Histogram::new(OVERHEAD);
        macro_rules! register {
            ($name:literal, $help:literal, $metric:expr) => {{
                let metric = $metric;
                registry.register($name, $help, metric.clone());
                metric
            }};
            ($name:literal, $help:literal, $unit:expr, $metric:expr) => {{
                let metric = $metric;
                registry.register_with_unit($name, $help, $unit, metric.clone());
                metric
            }};
        }
        let overhead = register!(
            "transom_overhead",
            "Time a request spent inside the gateway",
            Unit::Seconds,
            Histograms::<Single>::new_with_constructor(micro)
        );
        let decisions: Family<[Pair; 2], Counter> =
            register!("transom_authz_decisions", "Decisions about who may see or call what", Family::default());
        let client_requests: Family<Single, Counter> =
            register!("transom_client_requests", "Requests by the protocol revision of the client", Family::default());
        let revision = |r: Revision| client_requests.get_or_create_owned(&[Pair("mcp_protocol_version", r.text())]);
        let metrics = Metrics {
            operations: register!(
                "mcp_server_operation_duration",
                "Duration of an MCP request as the client's server",
                Unit::Seconds,
                Histograms::<Operation>::new_with_constructor(seconds)
            ),
            client_operations: register!(
                "mcp_client_operation_duration",
                "Duration of an MCP request as a target's client",
                Unit::Seconds,
                Histograms::<ClientOperation>::new_with_constructor(seconds)
            ),
            overhead_call: overhead.get_or_create_owned(&[Pair("phase", "call")]),
            overhead_list: overhead.get_or_create_owned(&[Pair("phase", "list")]),
            tool_info: register!("transom_tool_info", "Tools that clients can see", Family::default()),
            response_bytes: register!(
                "transom_tool_response_bytes",
                "Bytes of tool results, as the target sent them and as the client got them",
                Family::default()
            ),
            target_up: register!("transom_target_up", "Whether a target is connected", Family::default()),
            target_in_flight: register!("transom_target_in_flight", "Calls under way at a target", Family::default()),
            connects: register!("transom_target_connects", "Attempts to connect a target", Family::default()),
            restarts: register!("transom_target_restarts", "Connections lost that had been in service", Family::default()),
            protocol_errors: register!("transom_target_protocol_errors", "Ways in which a target broke the protocol", Family::default()),
            unsafe_options: register!("transom_unsafe_option", "Settings that weaken a secure default", Family::default()),
            projections: register!("transom_projections", "Results of virtual tools that were reshaped, or could not be", Family::default()),
            reflected: register!(
                "transom_secret_reflected",
                "Answers of a target in which a secret was masked that it had been given",
                Family::default()
            ),
            virtual_tools: register!("transom_virtual_tools", "Tools of the registry, by what became of them", Family::default()),
            rejected: register!("transom_rejected", "Requests refused before they reached a target", Family::default()),
            decisions: Action::ALL.map(|action| {
                ["deny", "allow"].map(|decision| decisions.get_or_create_owned(&[Pair("action", action.label()), Pair("decision", decision)]))
            }),
            authz_errors: register!("transom_authz_errors", "Authorization rules that could not be evaluated", Counter::default()),
            revisions: Revision::ALL.map(revision),
            registry_loads: RegistryMetrics::default(),
            in_flight: register!("transom_requests_in_flight", "Requests being worked on", Gauge::default()),
            sessions: register!("transom_sessions", "Client sessions this replica knows", Gauge::default()),
            streams: register!("transom_streams_open", "Open streams from server to client", Gauge::default()),
            log_lines_dropped: register!("transom_log_lines_dropped", "Log lines that found no room", Counter::default()),
            panics: register!("transom_panics", "Requests that ended in a panic", Counter::default()),
            memory_pressure: register!(
                "transom_memory_pressure",
                "How short memory is: 0 not at all, 1 calls are refused, 2 everything new is",
                Gauge::default()
            ),
            memory_limit: register!("transom_memory_limit_bytes", "Memory that the process may hold, 0 without a limit", Gauge::default()),
            plain: (0..=Method::ALL.len()).map(|_| Default::default()).collect(),
            tools: Mutex::default(),
            tool_sets: AtomicUsize::new(0),
            scrape: Mutex::default(),
            registry: Mutex::default(),
        };
        let build: Family<Single, Gauge> = register!("transom_build_info", "The version that runs", Family::default());
        build.get_or_create(&[Pair("version", env!("CARGO_PKG_VERSION"))]).set(1);
        metrics.registry_loads.register(&mut registry);
        registry.register_collector(Box::new(Process { started: std::time::SystemTime::now() }));
        *metrics.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = registry;
        Arc::new(metrics)
    }

    /// The series of a tool, the same ones as long as somebody uses them.
    pub fn tool(&self, name: &str) -> Arc<ToolSeries> {
        let Ok(mut tools) = self.tools.lock() else { return Arc::default() };
        if let Some(known) = tools.get_mut(name) {
            known.gone_since = None;
            return known.series.clone();
        }
        let overflow = tools.len() >= TOOL_SETS;
        let key = if overflow { "_overflow" } else { name };
        let series = tools
            .entry(key.to_owned())
            .or_insert_with(|| Known { series: Arc::new(ToolSeries { tool: key.to_owned(), ..ToolSeries::default() }), gone_since: None });
        series.series.clone()
    }

    /// Drops the series of tools that nobody has offered for ten minutes.
    pub fn sweep(&self) {
        let Ok(mut tools) = self.tools.lock() else { return };
        tools.retain(|name, known| {
            if Arc::strong_count(&known.series) > 1 {
                known.gone_since = None;
                return true;
            }
            if known.gone_since.get_or_insert_with(Instant::now).elapsed() < RETAIN {
                return true;
            }
            for error in ERRORS {
                self.operations.remove(&operation(Method::CallTool, name, error));
            }
            for result in ["projected", "generic_error", "no_json", "wrong_shape", "missing_field", "invalid", "too_large"] {
                self.projections.remove(&ToolResult { tool: name.clone(), result });
            }
            for side in ["target", "client"] {
                self.response_bytes.remove(&ToolSide { tool: name.clone(), side });
            }
            false
        });
    }

    /// The series of a target.
    pub fn target(&self, name: &str, transport: &'static str) -> TargetSeries {
        let overflow = self.tool_sets.fetch_add(1, Relaxed) >= TARGET_SETS;
        TargetSeries { target: if overflow { "_overflow".to_owned() } else { name.to_owned() }, transport, ..TargetSeries::default() }
    }

    /// A request of a client ended.
    pub fn operation(&self, method: Method, series: Option<&ToolSeries>, error: ErrorType, took: Duration) {
        let create = |tool: &str| self.operations.get_or_create_owned(&operation(method, tool, error));
        let histogram = match series.filter(|_| method == Method::CallTool) {
            Some(series) => series.by_error.get(error as usize).map(|slot| slot.get_or_init(|| create(&series.tool))),
            None => {
                let tool = if method == Method::CallTool { "_unknown" } else { "" };
                self.plain.get(method as usize).and_then(|by_error| by_error.get(error as usize)).map(|slot| slot.get_or_init(|| create(tool)))
            }
        };
        if let Some(histogram) = histogram {
            histogram.observe(took.as_secs_f64());
        }
    }

    /// A request to a target ended.
    pub fn client_operation(&self, series: &TargetSeries, method: Method, error: ErrorType, took: Duration) {
        let create = || {
            self.client_operations.get_or_create_owned(&ClientOperation {
                mcp_method_name: method.name(),
                target: series.target.clone(),
                error_type: error.label(),
                network_transport: series.transport,
            })
        };
        let seconds = took.as_secs_f64();
        if method == Method::CallTool {
            if let Some(slot) = series.calls.get(error as usize) {
                slot.get_or_init(create).observe(seconds);
            }
        } else {
            create().observe(seconds);
        }
    }

    /// Time a call spent inside the gateway.
    pub fn overhead_of_call(&self, own: Duration) {
        self.overhead_call.observe(own.as_secs_f64());
    }

    /// Time a list spent inside the gateway.
    pub fn overhead_of_list(&self, own: Duration) {
        self.overhead_list.observe(own.as_secs_f64());
    }

    /// Bytes of a tool's result.
    pub fn response_bytes(&self, series: &ToolSeries, from_target: usize, to_client: usize) {
        let create = |side| self.response_bytes.get_or_create_owned(&ToolSide { tool: series.tool.clone(), side });
        series.from_target.get_or_init(|| create("target")).inc_by(from_target as u64);
        series.to_client.get_or_init(|| create("client")).inc_by(to_client as u64);
    }

    /// What became of a virtual tool's result; one that passed as it was is not counted.
    pub fn projection(&self, series: &ToolSeries, outcome: Outcome) {
        let count = |result| self.projections.get_or_create_owned(&ToolResult { tool: series.tool.clone(), result });
        match outcome {
            Outcome::Passed => {}
            Outcome::Projected => {
                series.projected.get_or_init(|| count("projected")).inc();
            }
            Outcome::Generic => {
                count("generic_error").inc();
            }
            Outcome::Refused(reason) => {
                count(reason.label()).inc();
            }
        }
    }

    /// A secret came back from the target it was given to, and was masked.
    pub fn secret_reflected(&self, target: &str) {
        self.reflected.get_or_create(&TargetLabel { target: target.to_owned() }).inc();
    }

    /// It was decided whether somebody may do something.
    pub fn decided(&self, action: Action, allowed: bool) {
        if let Some(counter) = self.decisions.get(action as usize).and_then(|decisions| decisions.get(usize::from(allowed))) {
            counter.inc();
        }
    }

    /// A request of a client of this revision.
    pub fn client_request(&self, revision: Revision) {
        let at = Revision::ALL.iter().position(|r| *r == revision).unwrap_or(0);
        if let Some(counter) = self.revisions.get(at) {
            counter.inc();
        }
    }

    /// A setting weakens a secure default.
    pub fn unsafe_option(&self, name: &'static str) {
        self.unsafe_options.get_or_create(&[Pair("name", name)]).set(1);
    }

    /// A request was refused by this rule.
    pub fn rejected(&self, reason: Reject) {
        self.rejected.get_or_create(&[Pair("reason", reason.label())]).inc();
    }

    /// An attempt to connect a target ended.
    pub fn connected(&self, target: &str, success: bool) {
        let result = if success { "success" } else { "failure" };
        self.connects.get_or_create(&TargetResult { target: target.to_owned(), result }).inc();
    }

    /// A connection was lost that had been in service.
    pub fn lost(&self, target: &str) {
        self.restarts.get_or_create(&TargetResult { target: target.to_owned(), result: "lost" }).inc();
    }

    /// A target broke the protocol.
    pub fn protocol_error(&self, target: &str, kind: &'static str) {
        self.protocol_errors.get_or_create(&TargetResult { target: target.to_owned(), result: kind }).inc();
    }

    /// The targets and tools of a new generation.
    pub fn generation(&self, generation: &crate::generation::Generation) {
        self.target_up.clear();
        for view in generation.views() {
            self.target_up.get_or_create(&TargetLabel { target: view.slot.name.to_string() }).set(i64::from(view.available()));
        }
        self.tool_info.clear();
        for entry in generation.listed(crate::generation::Kind::Tool).iter().take(INFO_SETS) {
            let info = ToolInfo {
                tool: entry.exposed().to_owned(),
                target: entry.target_name().to_owned(),
                source_tool: entry.source_name().to_owned(),
                version: entry.virtual_tool().and_then(|tool| tool.version()).unwrap_or_default().to_owned(),
            };
            self.tool_info.get_or_create(&info).set(1);
        }
        let is_virtual = |entry: &&std::sync::Arc<crate::generation::Entry>| entry.virtual_tool().is_some();
        let tools = crate::generation::Kind::Tool;
        for (state, count) in [
            ("listed", generation.listed(tools).iter().filter(is_virtual).count()),
            ("unavailable", generation.remembered(tools).iter().filter(is_virtual).count()),
            ("quarantined", generation.tools().map_or(0, |tools| tools.quarantined().len())),
        ] {
            self.virtual_tools.get_or_create(&[Pair("state", state)]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Calls under way, read when somebody asks.
    pub fn in_flight_at(&self, target: &str, calls: usize) {
        self.target_in_flight.get_or_create(&TargetLabel { target: target.to_owned() }).set(i64::try_from(calls).unwrap_or(i64::MAX));
    }

    /// Forgets a target that is no longer configured.
    pub fn forget_target(&self, target: &str) {
        let target = target.to_owned();
        self.target_up.remove(&TargetLabel { target: target.clone() });
        self.target_in_flight.remove(&TargetLabel { target });
        self.tool_sets.fetch_sub(1, Relaxed);
    }

    /// The page a scraper reads, at most a second old. `openmetrics` chooses the newer of the two text formats.
    pub fn page(&self, openmetrics: bool) -> Arc<str> {
        let Ok(mut cached) = self.scrape.lock() else { return Arc::from("") };
        if let Some((at, format, page)) = &*cached
            && *format == openmetrics
            && at.elapsed() < Duration::from_secs(1)
        {
            return page.clone();
        }
        let mut text = String::new();
        if let Ok(registry) = self.registry.lock()
            && encode(&mut text, &registry).is_err()
        {
            text.clear();
        }
        let page: Arc<str> = if openmetrics { text.into() } else { classic(&text).into() };
        *cached = Some((Instant::now(), openmetrics, page.clone()));
        page
    }
}

const ERRORS: [ErrorType; ErrorType::COUNT] = [
    ErrorType::None,
    ErrorType::ToolError,
    ErrorType::Rejected,
    ErrorType::TargetError,
    ErrorType::Unavailable,
    ErrorType::Lost,
    ErrorType::Timeout,
    ErrorType::Invalid,
    ErrorType::Cancelled,
    ErrorType::Internal,
];

fn operation(method: Method, tool: &str, error: ErrorType) -> Operation {
    Operation { mcp_method_name: method.name(), gen_ai_tool_name: tool.to_owned(), error_type: error.label(), network_transport: "tcp" }
}

/// OpenMetrics text in the older format: counters are named with their `_total`, units and the end mark go.
fn classic(openmetrics: &str) -> String {
    let mut out = String::with_capacity(openmetrics.len());
    let mut help = None;
    for line in openmetrics.lines() {
        if line.starts_with("# HELP ") {
            help = Some(line);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let suffix = if kind == "counter" { "_total" } else { "" };
            let text = help.take().and_then(|line| line.strip_prefix("# HELP ")?.split_once(' ')).map_or("", |(_, text)| text);
            out.push_str(&format!("# HELP {name}{suffix} {text}\n# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// The process itself, read when somebody asks.
#[derive(Debug)]
struct Process {
    started: std::time::SystemTime,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
        let field = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        let cpu = ConstCounter::new((field(11) + field(12)) / 100.0);
        cpu.encode(encoder.encode_descriptor("process_cpu", "CPU time used", Some(&Unit::Seconds), cpu.metric_type())?)?;
        let resident = ConstGauge::new(field(21) * 4096.0);
        resident.encode(encoder.encode_descriptor("process_resident_memory", "Memory in use", Some(&Unit::Bytes), resident.metric_type())?)?;
        let fds = ConstGauge::new(i64::try_from(std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)).unwrap_or(0));
        fds.encode(encoder.encode_descriptor("process_open_fds", "Open files and sockets", None, fds.metric_type())?)?;
        let since = self.started.duration_since(std::time::UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
        let started = ConstGauge::new(since);
        started.encode(encoder.encode_descriptor(
            "process_start_time",
            "When the process started, in unix time",
            Some(&Unit::Seconds),
            started.metric_type(),
        )?)
    }
}
