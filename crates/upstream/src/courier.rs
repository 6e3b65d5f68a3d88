//! Messages nobody waits for: cancellations and answers to servers' requests. A bounded number is on its way at a time.

use crate::body;
use crate::http_client::HttpClient;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

const ON_THE_WAY: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);
/// Longer than any receipt.
const RECEIPT: usize = 64 << 10;

pub(crate) struct Courier {
    client: HttpClient,
    places: Arc<Semaphore>,
    runtime: tokio::runtime::Handle,
}

impl Courier {
    pub(crate) fn new(client: HttpClient, runtime: tokio::runtime::Handle) -> Courier {
        Courier { client, places: Arc::new(Semaphore::new(ON_THE_WAY)), runtime }
    }

    /// Sends the request in the background; drops it if too many are on their way.
    pub(crate) fn dispatch(&self, request: Request<Full<Bytes>>) {
        let Ok(place) = self.places.clone().try_acquire_owned() else { return };
        let client = self.client.clone();
        self.runtime.spawn(async move {
            let _place = place;
            let delivered = async {
                if let Ok(response) = client.send(request).await {
                    let _receipt = body::whole(response.body, RECEIPT).await;
                }
            };
            let _in_time = tokio::time::timeout(PATIENCE, delivered).await;
        });
    }
}
