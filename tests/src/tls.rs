//! Certificates made for a test, and a front that speaks TLS before a plain server.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A folder with authorities and certificates; `openssl` makes them.
pub struct Certificates(tempfile::TempDir);

impl Default for Certificates {
    fn default() -> Certificates {
        Certificates(tempfile::tempdir().expect("a folder"))
    }
}

impl Certificates {
    /// A file of this name.
    pub fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn openssl(&self, arguments: &[&str]) {
        let output = Command::new("openssl").args(arguments).current_dir(self.0.path()).stdin(Stdio::null()).output().expect("openssl runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// An authority: `NAME.pem` and `NAME.key`.
    pub fn authority(&self, name: &str) {
        let (pem, key, subject) = (format!("{name}.pem"), format!("{name}.key"), format!("/CN={name}"));
        let fresh = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"];
        self.openssl(&[&fresh[..], &["-subj", &subject, "-keyout", &key, "-out", &pem]].concat());
    }

    /// A certificate for localhost by this authority, good for so many days: `NAME.pem` and `NAME.key`.
    pub fn certificate(&self, name: &str, authority: &str, days: i32) {
        let [pem, key, request, extensions] = ["pem", "key", "csr", "ext"].map(|kind| format!("{name}.{kind}"));
        std::fs::write(self.path(&extensions), "subjectAltName=DNS:localhost\n").expect("a file is written");
        let fresh = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost"];
        self.openssl(&[&fresh[..], &["-keyout", &key, "-out", &request]].concat());
        let (ca, ca_key, days) = (format!("{authority}.pem"), format!("{authority}.key"), days.to_string());
        let signed = ["x509", "-req", "-in", &request, "-CA", &ca, "-CAkey", &ca_key, "-CAcreateserial", "-days", &days, "-extfile", &extensions];
        self.openssl(&[&signed[..], &["-out", &pem]].concat());
    }

    /// Gives a file another content, as a renewal does: a new file takes the place of the old.
    pub fn replace(&self, file: &str, by: &str) {
        let new = self.path("new");
        std::fs::copy(self.path(by), &new).expect("a copy");
        std::fs::rename(new, self.path(file)).expect("a new file in the place of the old");
    }
}

/// Speaks TLS on a port and passes everything on. Gone when dropped.
pub struct TlsFront(JoinHandle<()>);

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl TlsFront {
    /// Stops; the port is free afterwards.
    pub async fn stop(mut self) {
        self.0.abort();
        let _ended = (&mut self.0).await;
    }

    /// With the certificate of this name; `clients`: the authority that clients must have theirs from.
    pub fn start(at: SocketAddr, to: SocketAddr, certificates: &Certificates, name: &str, clients: Option<&str>) -> TlsFront {
        let acceptor = TlsAcceptor::from(Arc::new(config(certificates, name, clients)));
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).expect("SO_REUSEADDR");
        socket.bind(at).unwrap_or_else(|error| panic!("bind {at}: {error}"));
        let listener = socket.listen(64).expect("a listener");
        TlsFront(tokio::spawn(async move {
            // They end with the front.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    let (Ok(mut client), Ok(mut server)) = (acceptor.accept(stream).await, TcpStream::connect(to).await) else { return };
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        }))
    }
}

fn certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate")
}

fn config(certificates: &Certificates, name: &str, clients: Option<&str>) -> ServerConfig {
    let chain = vec![certificate(&certificates.path(&format!("{name}.pem")))];
    let key = PrivateKeyDer::from_pem_file(certificates.path(&format!("{name}.key"))).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().expect("TLS");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(certificate(&certificates.path(&format!("{authority}.pem")))).expect("an authority");
            builder.with_client_cert_verifier(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("a verifier"))
        }
    };
    builder.with_single_cert(chain, key).expect("a certificate and its key")
}
