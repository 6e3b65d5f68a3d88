//! Whom to trust when connecting over TLS: one answer for targets, registries and key sets.

use crate::http_client::describe;
use crate::spec::ClientTls;
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// TLS towards a server. `ca`: the only authorities to trust, PEM; the system's if absent.
pub fn tls(ca: Option<&[u8]>) -> Result<ClientConfig, String> {
    Ok(trusting(roots(ca)?)?.with_no_client_auth())
}

fn roots(ca: Option<&[u8]>) -> Result<Arc<RootCertStore>, String> {
    static SYSTEM: OnceLock<Result<Arc<RootCertStore>, String>> = OnceLock::new();
    match ca {
        Some(pem) => Ok(Arc::new(authorities(pem)?)),
        None => SYSTEM.get_or_init(system_authorities).clone(),
    }
}

/// TLS towards a server as its files say.
pub(crate) fn with_files(files: Option<&ClientTls>) -> Result<ClientConfig, String> {
    let Some(files) = files else { return tls(None) };
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("the file {} cannot be read: {}", shown(path), describe(&error)));
    let ca = files.ca.as_deref().map(read).transpose()?;
    let Some((cert, key)) = &files.identity else { return tls(ca.as_deref()) };
    let bad = |path: &Path, error| format!("the file {} is not what it should be: {error:?}", shown(path));
    let chain = CertificateDer::pem_slice_iter(&read(cert)?).collect::<Result<Vec<_>, _>>().map_err(|error| bad(cert, error))?;
    let secret = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| bad(key, error))?;
    let with_roots = trusting(roots(ca.as_deref())?)?;
    with_roots.with_client_auth_cert(chain, secret).map_err(|error| format!("the certificate for the server cannot be used: {error}"))
}

/// When files for TLS were last written, and how long they are.
pub(crate) type Stamps = Vec<Option<(SystemTime, u64)>>;

pub(crate) fn stamps(files: &ClientTls) -> Stamps {
    let identity = files.identity.iter().flat_map(|(cert, key)| [cert, key]);
    files.ca.iter().chain(identity).map(|path| std::fs::metadata(path).and_then(|meta| Ok((meta.modified()?, meta.len()))).ok()).collect()
}

fn shown(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// TLS that trusts nobody, for clients that speak none.
pub fn no_tls() -> Result<ClientConfig, String> {
    Ok(trusting(Arc::new(RootCertStore::empty()))?.with_no_client_auth())
}

fn trusting(roots: Arc<RootCertStore>) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    Ok(config.with_root_certificates(roots))
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
