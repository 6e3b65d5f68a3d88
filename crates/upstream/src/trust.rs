//! Whom to trust when connecting over TLS: one answer for targets, registries and key sets.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::sync::{Arc, OnceLock};

/// TLS towards a server. `ca`: the only authorities to trust, PEM; the system's if absent.
pub fn tls(ca: Option<&[u8]>) -> Result<ClientConfig, String> {
    static SYSTEM: OnceLock<Result<Arc<RootCertStore>, String>> = OnceLock::new();
    with_roots(match ca {
        Some(pem) => Arc::new(authorities(pem)?),
        None => SYSTEM.get_or_init(system_authorities).clone()?,
    })
}

/// TLS that trusts nobody, for clients that speak none.
pub fn no_tls() -> Result<ClientConfig, String> {
    with_roots(Arc::new(RootCertStore::empty()))
}

fn with_roots(roots: Arc<RootCertStore>) -> Result<ClientConfig, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("the CA file is not PEM: {error:?}"))?;
        roots.add(certificate).map_err(|error| format!("the CA file holds a certificate that cannot be used: {error}"))?;
    }
    if roots.is_empty() { Err("the CA file holds no certificate".into()) } else { Ok(roots) }
}

fn system_authorities() -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("the system has no trusted certificate authorities; install them or name a `ca` in the config".into());
    }
    Ok(Arc::new(roots))
}
