//! What an operator can ask and do on the admin listener: the versions of the registry, a reload, a way back.
//!
//! Reading is free on loopback. Writing needs `POST`, JSON and the admin token, so that no page and no form can do it.

use crate::listener::answer::{Reply, json};
use crate::logging::time_text;
use crate::runtime::Runtime;
use crate::store::{Outcome, Version};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json as value};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use transom_protocol::json::Json;
use transom_protocol::{Limits, json as scanner};
use transom_upstream::Secret;

/// The file that holds the token, under `stateDir`.
const TOKEN_FILE: &str = "admin-token";

/// The token that writes need: the configured one, else the one in `stateDir`, which is made at the first start.
pub fn token(configured: Option<&Secret>, state_dir: Option<&Path>) -> Secret {
    if let Some(token) = configured {
        return token.clone();
    }
    let fresh = || format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>());
    let Some(directory) = state_dir else { return Secret::new(fresh()) };
    match kept(directory, fresh) {
        Ok(token) => token,
        Err(error) => {
            tracing::warn!(%error, "the admin token cannot be kept in stateDir; nobody can reload or roll back over the admin listener");
            Secret::new(fresh())
        }
    }
}

fn kept(directory: &Path, fresh: impl Fn() -> String) -> std::io::Result<Secret> {
    let path = directory.join(TOKEN_FILE);
    std::fs::create_dir_all(directory)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(mut file) => {
            let token = fresh();
            file.write_all(token.as_bytes())?;
            file.sync_all()?;
            Ok(Secret::new(token))
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let mut token = String::new();
            std::fs::File::open(&path)?.take(1024).read_to_string(&mut token)?;
            let token = token.trim();
            if token.len() < 16 {
                return Err(std::io::Error::other("the token in the file is shorter than 16 characters"));
            }
            Ok(Secret::new(token))
        }
        Err(error) => Err(error),
    }
}

/// `GET /api/generations`: what was live, newest last.
pub fn generations(runtime: &Runtime) -> Reply {
    let versions: Vec<Value> = runtime.store.history().iter().map(version).collect();
    let body = value!({ "generation": runtime.generation_now().number, "version": runtime.store.status().version, "versions": versions });
    json(StatusCode::OK, body.to_string())
}

fn version(version: &Version) -> Value {
    value!({
        "version": version.version,
        "digest": version.digest,
        "loadedAt": time_text(version.loaded_at),
        "origin": version.origin.label(),
        "tools": version.tools,
        "added": version.difference.added,
        "removed": version.difference.removed,
        "changed": version.difference.changed,
    })
}

/// `POST /api/reload`: every source is read again, now.
pub async fn reload(runtime: &Arc<Runtime>) -> Reply {
    match runtime.store.reload().await {
        Ok(outcome) => done(&outcome),
        Err(reason) => refused(StatusCode::UNPROCESSABLE_ENTITY, "rejected", &reason),
    }
}

/// `POST /api/rollback` with `{"version": 3}`: that version is live again, until a source changes.
pub async fn rollback(runtime: &Arc<Runtime>, body: Bytes) -> Reply {
    let version =
        scanner::check(&body, &Limits::REQUEST).ok().and_then(|request| request.get("version").map(Json::raw).and_then(|raw| raw.parse().ok()));
    let Some(version) = version else {
        return refused(StatusCode::BAD_REQUEST, "invalid_request", "the body must be {\"version\": N}; GET /api/generations names the versions");
    };
    let store = runtime.store.clone();
    match tokio::task::spawn_blocking(move || store.rollback(version)).await {
        Ok(Ok(outcome)) => done(&outcome),
        Ok(Err(reason)) => refused(StatusCode::CONFLICT, "rejected", &reason),
        Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the rollback broke off; the log has the details"),
    }
}

fn done(outcome: &Outcome) -> Reply {
    let body = match outcome {
        Outcome::Unchanged => value!({ "result": "unchanged" }),
        Outcome::Adopted { version, added, removed, changed } => {
            value!({ "result": "adopted", "version": version, "added": added, "removed": removed, "changed": changed })
        }
    };
    json(StatusCode::OK, body.to_string())
}

/// A refusal, as JSON.
pub fn refused(status: StatusCode, code: &str, message: &str) -> Reply {
    json(status, value!({ "error": { "code": code, "message": message } }).to_string())
}

/// Why a write may not go on: it does not say that it is JSON, or it has no token.
pub fn objection(headers: &HeaderMap, token: &Secret) -> Option<Reply> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    if !kind.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/json") {
        return Some(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type", "Content-Type must be application/json"));
    }
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let bearer = match (sent.next(), sent.next()) {
        (Some(only), None) => only.to_str().ok().and_then(|value| value.strip_prefix("Bearer ")),
        _ => None,
    };
    let right = bearer.is_some_and(|bearer| verify_slices_are_equal(bearer.as_bytes(), token.expose().as_bytes()).is_ok());
    if right {
        return None;
    }
    let message = "the admin token is missing or wrong: send `Authorization: Bearer TOKEN`; the token is in the file admin-token under stateDir";
    Some(refused(StatusCode::UNAUTHORIZED, "unauthenticated", message))
}
