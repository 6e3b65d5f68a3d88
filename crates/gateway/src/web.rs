//! The HTTP client for what the gateway fetches itself: registries and key sets. Redirects and proxies are off: a token goes
//! where the config says and nowhere else.

use reqwest::Client;
use std::time::Duration;
use transom_upstream::trust;

/// How long a connection may take.
pub const CONNECT: Duration = Duration::from_secs(5);

/// A client for this URL that gives up after this time. `ca`: the only authorities to trust, PEM; the system's if absent.
pub fn client(url: &http::Uri, ca: Option<&[u8]>, deadline: Duration) -> Result<Client, String> {
    let tls = if url.scheme_str() == Some("https") { trust::tls(ca)? } else { trust::no_tls()? };
    Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .referer(false)
        .connect_timeout(CONNECT)
        .timeout(deadline)
        .user_agent(concat!("transom/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| format!("the HTTP client cannot be set up: {error}"))
}
