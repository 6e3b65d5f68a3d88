//! What is counted about the registry: how it was loaded, what is live and since when.

use super::Pair;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// How an attempt to load the registry ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// Another plan is live.
    Success,
    /// The source says what it said before.
    Unchanged,
    /// What the source says cannot go live.
    Rejected,
    /// The source could not be read.
    Failed,
}

/// The metrics of the registry. Series appear with the first attempt: a gateway without a registry has none to alert on.
#[derive(Clone, Default)]
pub struct RegistryMetrics {
    reloads: Family<[Pair; 1], Counter>,
    successful: Family<[Pair; 0], Gauge>,
    succeeded_at: Family<[Pair; 0], Gauge>,
    info: Family<[(&'static str, String); 1], Gauge>,
    loaded_at: Arc<Mutex<Option<SystemTime>>>,
}

impl RegistryMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("transom_registry_reloads", "Attempts to load the registry, by how they ended", self.reloads.clone());
        registry.register(
            "transom_registry_last_reload_successful",
            "Whether the last attempt left what the source says live",
            self.successful.clone(),
        );
        registry.register_with_unit(
            "transom_registry_last_reload_success_timestamp",
            "When the source was last read and what it says live, in unix time",
            Unit::Seconds,
            self.succeeded_at.clone(),
        );
        registry.register("transom_registry_info", "The registry that is live", self.info.clone());
        registry.register_collector(Box::new(PlanAge(self.loaded_at.clone())));
    }

    /// An attempt ended.
    pub fn ended(&self, how: Reload) {
        let label = match how {
            Reload::Success => "success",
            Reload::Unchanged => "unchanged",
            Reload::Rejected => "rejected",
            Reload::Failed => "failed",
        };
        self.reloads.get_or_create(&[Pair("result", label)]).inc();
        let successful = matches!(how, Reload::Success | Reload::Unchanged);
        self.well(successful);
        if successful {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            self.succeeded_at.get_or_create(&[]).set(i64::try_from(now).unwrap_or(i64::MAX));
        }
    }

    /// Whether every source was read and what it says is live.
    pub fn well(&self, well: bool) {
        self.successful.get_or_create(&[]).set(i64::from(well));
    }

    /// Another plan is live, or none.
    pub fn live(&self, plan: Option<(&str, SystemTime)>) {
        self.info.clear();
        if let Some((digest, _)) = plan {
            self.info.get_or_create(&[("digest", digest.to_owned())]).set(1);
        }
        *self.loaded_at.lock().unwrap_or_else(PoisonError::into_inner) = plan.map(|(_, at)| at);
    }
}

/// Read when somebody asks.
#[derive(Debug)]
struct PlanAge(Arc<Mutex<Option<SystemTime>>>);

impl Collector for PlanAge {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(loaded_at) = *self.0.lock().unwrap_or_else(PoisonError::into_inner) else { return Ok(()) };
        let age = ConstGauge::new(loaded_at.elapsed().map_or(0.0, |age| age.as_secs_f64()));
        age.encode(encoder.encode_descriptor(
            "transom_registry_plan_age",
            "How long the live registry has been live",
            Some(&Unit::Seconds),
            age.metric_type(),
        )?)
    }
}
