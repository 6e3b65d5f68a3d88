//! Somebody who issues tokens: real keys, real signatures, and a server for the keys that counts who asks.

use aws_lc_rs::digest;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use transom_gateway::config::{ApiKey, Jwks, JwtIssuer};

/// A key that signs.
#[derive(Clone)]
pub struct SigningKey {
    pub kid: String,
    pub algorithm: Algorithm,
    key: EncodingKey,
}

impl SigningKey {
    /// A new key for this algorithm: RSA, P-256 or Ed25519.
    pub fn new(kid: &str, algorithm: Algorithm) -> SigningKey {
        let random = SystemRandom::new();
        let key = match algorithm {
            Algorithm::ES256 => {
                EncodingKey::from_ec_der(EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("an EC key").as_ref())
            }
            Algorithm::EdDSA => EncodingKey::from_ed_der(Ed25519KeyPair::generate_pkcs8v1(&random).expect("an Ed25519 key").as_ref()),
            _ => {
                let der = AsDer::as_der(&KeyPair::generate(KeySize::Rsa2048).expect("an RSA key")).expect("an RSA key as PKCS#8");
                let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = der;
                let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der.as_ref()));
                EncodingKey::from_rsa_pem(pem.as_bytes()).expect("an RSA key from PEM")
            }
        };
        SigningKey { kid: kid.into(), algorithm, key }
    }

    /// Its public half, as a set of keys has it.
    pub fn jwk(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).expect("a public key");
        jwk.common.key_id = Some(self.kid.clone());
        serde_json::to_value(&jwk).expect("a key is JSON")
    }

    /// A token with these claims, signed with this key.
    pub fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.kid.clone());
        self.sign_with(&header, claims)
    }

    /// The same with a header of one's own.
    pub fn sign_with(&self, header: &Header, claims: &Value) -> String {
        encode(header, claims, &self.key).expect("a token")
    }
}

/// Seconds since 1970, so many from now.
pub fn seconds_from_now(seconds: i64) -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()).unwrap_or_default() + seconds
}

/// Issues tokens for the audience `transom`. Cheap to clone; it stops with the runtime of the test.
#[derive(Clone)]
pub struct Issuer(Arc<Shared>);

struct Shared {
    name: String,
    addr: SocketAddr,
    keys: Mutex<Vec<SigningKey>>,
    down: AtomicBool,
    asked: AtomicUsize,
}

/// An issuer with one key and a server for it.
pub async fn issuer(algorithm: Algorithm) -> Issuer {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("an address");
    let keys = Mutex::new(vec![SigningKey::new("first", algorithm)]);
    let shared = Shared { name: "https://login.example".into(), addr, keys, down: AtomicBool::new(false), asked: AtomicUsize::new(0) };
    let issuer = Issuer(Arc::new(shared));
    let serving = issuer.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let serving = serving.clone();
            tokio::spawn(async move {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                serving.0.asked.fetch_add(1, Ordering::SeqCst);
                let (status, body) = if serving.0.down.load(Ordering::SeqCst) {
                    ("503 Service Unavailable", String::new())
                } else {
                    ("200 OK", serving.jwks().to_string())
                };
                let reply = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(reply.as_bytes()).await;
            });
        }
    });
    issuer
}

impl Issuer {
    /// As the gateway is told of it.
    pub fn config(&self) -> JwtIssuer {
        let url = format!("http://{}/keys", self.0.addr).parse().expect("a URL");
        JwtIssuer {
            issuer: self.0.name.clone(),
            audiences: vec!["transom".into()],
            jwks: Jwks::Url { url, ca: None },
            algorithms: Vec::new(),
            scopes: Vec::new(),
        }
    }

    /// The key it signs with now.
    pub fn key(&self) -> SigningKey {
        self.0.keys.lock().unwrap().last().cloned().expect("a key")
    }

    /// Its public keys.
    pub fn jwks(&self) -> Value {
        json!({"keys": self.0.keys.lock().unwrap().iter().map(SigningKey::jwk).collect::<Vec<_>>()})
    }

    /// From now on these keys count; it signs with the last.
    pub fn set_keys(&self, keys: Vec<SigningKey>) {
        *self.0.keys.lock().unwrap() = keys;
    }

    /// Whether its server answers.
    pub fn set_down(&self, down: bool) {
        self.0.down.store(down, Ordering::SeqCst);
    }

    /// How often it was asked for its keys.
    pub fn asked(&self) -> usize {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// What a good token of this subject claims.
    pub fn claims(&self, subject: &str) -> Value {
        json!({"iss": self.0.name, "aud": "transom", "sub": subject, "exp": seconds_from_now(3600)})
    }

    /// A good token of this subject.
    pub fn token(&self, subject: &str) -> String {
        self.key().sign(&self.claims(subject))
    }
}

/// A key for a program, as the gateway is told of it.
pub fn api_key(id: &str, key: &str) -> ApiKey {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, key.as_bytes()).as_ref());
    ApiKey { id: id.into(), hash, claims: Map::new() }
}
