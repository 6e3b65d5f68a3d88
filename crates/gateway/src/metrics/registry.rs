//! What is counted about the registry: how it was loaded, what is live and since when.

use super::Pair;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    info: Family<[(&'static str, String); 1], Gauge>,
    moments: Arc<Mutex<Moments>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    well: Option<bool>,
    succeeded_at: Option<SystemTime>,
    loaded_at: Option<SystemTime>,
}

impl RegistryMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("transom_registry_reloads", "Attempts to load the registry, by how they ended", self.reloads.clone());
        registry.register("transom_registry_info", "The registry that is live", self.info.clone());
        registry.register_collector(Box::new(Gauges(self.moments.clone())));
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
        let mut moments = self.moments();
        moments.well = Some(successful);
        if successful {
            moments.succeeded_at = Some(SystemTime::now());
        }
    }

    /// Whether every source was read and what it says is live.
    pub fn well(&self, well: bool) {
        self.moments().well = Some(well);
    }

    /// Another plan is live, or none.
    pub fn live(&self, plan: Option<(&str, SystemTime)>) {
        self.info.clear();
        if let Some((digest, _)) = plan {
            self.info.get_or_create(&[("digest", digest.to_owned())]).set(1);
        }
        let mut moments = self.moments();
        moments.loaded_at = plan.map(|(_, at)| at);
        if plan.is_none() {
            moments.well = None;
        }
    }

    fn moments(&self) -> MutexGuard<'_, Moments> {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What has one value or none, read when somebody asks.
#[derive(Debug)]
struct Gauges(Arc<Mutex<Moments>>);

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let moments = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(well) = moments.well {
            let gauge = ConstGauge::new(i64::from(well));
            let help = "Whether every source was read and what it says is live";
            gauge.encode(encoder.encode_descriptor("transom_registry_last_reload_successful", help, None, gauge.metric_type())?)?;
        }
        let seconds = [
            (
                "transom_registry_last_reload_success_timestamp",
                "When what a source says was last found to be live, in unix time",
                moments.succeeded_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()),
            ),
            ("transom_registry_plan_age", "How long the live registry has been live", moments.loaded_at.and_then(|at| at.elapsed().ok())),
        ];
        for (name, help, value) in seconds {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(value.as_secs_f64());
            gauge.encode(encoder.encode_descriptor(name, help, Some(&Unit::Seconds), gauge.metric_type())?)?;
        }
        Ok(())
    }
}
