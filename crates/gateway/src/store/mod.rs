//! Where the registry comes from. (Interim: replaced by the store's own branch.)

use crate::config::Config;
use crate::metrics::Metrics;
use arc_swap::ArcSwapOption;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;
use transom_registry::Plan;

pub struct RegistryStore {
    current: ArcSwapOption<Loaded>,
    version: watch::Sender<u64>,
    configured: bool,
}

#[derive(Debug)]
pub struct Loaded {
    pub version: u64,
    pub digest: String,
    pub plan: Arc<Plan>,
    pub problems: Vec<String>,
    pub loaded_at: SystemTime,
    pub origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Source,
    Cache,
    Rollback,
}

impl RegistryStore {
    pub fn new(config: &Config, _targets: Vec<String>, _metrics: Arc<Metrics>) -> Arc<RegistryStore> {
        let configured = config.registry.is_some() || config.own_tools.is_some();
        Arc::new(RegistryStore { current: ArcSwapOption::empty(), version: watch::Sender::new(0), configured })
    }
    pub fn is_configured(&self) -> bool {
        self.configured
    }
    pub async fn start(self: &Arc<Self>) -> Result<(), String> {
        Ok(())
    }
    pub fn current(&self) -> Option<Arc<Loaded>> {
        self.current.load_full()
    }
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
    pub async fn reconfigure(self: &Arc<Self>, _config: &Config, _targets: Vec<String>) {}
}
