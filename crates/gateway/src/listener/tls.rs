//! TLS on the main listener. The files are read again when they change, so that a renewed certificate needs no restart.

use crate::config::TlsFiles;
use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(10);

/// The certificate in use.
pub struct Tls {
    files: TlsFiles,
    current: ArcSwap<ServerConfig>,
}

impl Tls {
    /// Reads the files.
    pub fn load(files: TlsFiles) -> Result<Arc<Tls>, String> {
        let current = read(&files)?;
        Ok(Arc::new(Tls { current: ArcSwap::from_pointee(current), files }))
    }

    /// For the next handshake.
    pub fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        self.current.load_full().into()
    }

    /// Reads the files again whenever they change. A bad file changes nothing.
    pub async fn keep_current(self: Arc<Self>) {
        let mut seen = stamp(&self.files);
        loop {
            tokio::time::sleep(LOOK).await;
            let now = stamp(&self.files);
            if now == seen {
                continue;
            }
            seen = now;
            match read(&self.files) {
                Ok(config) => {
                    self.current.store(Arc::new(config));
                    tracing::info!("TLS certificate reloaded");
                }
                Err(error) => tracing::warn!(error, "TLS certificate not reloaded; the old one stays"),
            }
        }
    }
}

fn stamp(files: &TlsFiles) -> [Option<SystemTime>; 2] {
    [&files.cert, &files.key].map(|path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok())
}

fn read(files: &TlsFiles) -> Result<ServerConfig, String> {
    let name = |path: &std::path::Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let cert_error = |error| format!("tls.cert: cannot read {}: {error}", name(&files.cert));
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(&files.cert).map_err(cert_error)?.collect::<Result<_, _>>().map_err(cert_error)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| format!("tls.key: cannot read {}: {error}", name(&files.key)))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| format!("tls: the certificate and the key do not fit: {error}"))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
