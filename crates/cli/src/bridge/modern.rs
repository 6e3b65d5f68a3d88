//! The modern era: no session, but headers that repeat what stands in the body.

use super::Bridge;
use crate::client::{MCP_METHOD, MCP_NAME, PROTOCOL_VERSION, insert, param_headers};
use bytes::Bytes;
use http::{HeaderMap, Method as HttpMethod, StatusCode};
use serde_json::Value;
use std::sync::PoisonError;
use transom_protocol::error::HEADER_MISMATCH;
use transom_protocol::json::{Json, Key};
use transom_protocol::write::{self, Edit};
use transom_protocol::{Id, Limits, Message, Method, Request, Response, RpcError, header, meta};

/// The most tools whose schemas are remembered.
const MOST_SCHEMAS: usize = 1_000;
/// A list that has more pages than this does not end.
const MOST_PAGES: usize = 100;

/// Whether a request names its revision, as the modern era has it.
pub(super) fn is_modern(request: &Request) -> bool {
    request.params.get("_meta").is_some_and(|meta| meta.get(meta::PROTOCOL_VERSION).is_some())
}

impl Bridge {
    /// One request and its answer.
    pub(super) async fn ask_modern(&self, line: Bytes, request: &Request) -> Result<Bytes, RpcError> {
        let response = self.gateway.send(HttpMethod::POST, self.headers_for(request), line.clone()).await?;
        let is_refused = response.status() == StatusCode::BAD_REQUEST;
        let message = self.answer(response, &request.id, None).await?;
        if !is_refused || request.method != Method::CallTool || error_code(&message) != Some(HEADER_MISMATCH) {
            return Ok(message);
        }
        // Some arguments have to stand in headers too, and only the tool's schema says which. A call that was refused for that has not run.
        if !self.learn(request).await {
            return Ok(message);
        }
        let response = self.gateway.send(HttpMethod::POST, self.headers_for(request), line).await?;
        self.answer(response, &request.id, None).await
    }

    fn headers_for(&self, request: &Request) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let version = request.params.get("_meta").and_then(|meta| meta.get(meta::PROTOCOL_VERSION)).and_then(Json::string);
        insert(&mut headers, PROTOCOL_VERSION, &version.unwrap_or_default());
        insert(&mut headers, MCP_METHOD, request.method_name());
        let name = match request.method {
            Method::CallTool | Method::GetPrompt => request.params.string("name"),
            Method::ReadResource => request.params.string("uri"),
            Method::GetTask | Method::UpdateTask | Method::CancelTask => request.params.string("taskId"),
            _ => None,
        };
        if let Some(name) = &name {
            insert(&mut headers, MCP_NAME, &header::encode(name));
        }
        if request.method == Method::CallTool
            && let Some(arguments) = request.params.get("arguments")
        {
            let schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(schema) = name.and_then(|name| schemas.get(&name)) {
                param_headers(schema, arguments, &mut headers);
            }
        }
        headers
    }

    /// Asks for the schema of the tool that is called; whether there is one.
    async fn learn(&self, request: &Request) -> bool {
        let (Some(name), Some(meta)) = (request.params.string("name"), request.params.get("_meta")) else { return false };
        // Progress of the list is nobody's business.
        let edit = |key: Key<'_>, _: Json<'_>| if key.is(meta::PROGRESS_TOKEN) { Edit::Drop } else { Edit::Keep };
        let meta = write::edited(meta, edit, &[]);
        let id = Id::ours("\"transom-stdio\"".into());
        let mut headers = HeaderMap::new();
        headers.extend(self.headers_for(request).get(PROTOCOL_VERSION).cloned().map(|version| (PROTOCOL_VERSION, version)));
        insert(&mut headers, MCP_METHOD, Method::ListTools.name());
        let mut cursor: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let quoted = cursor.as_deref().map(write::quoted);
            let mut added = vec![("_meta", &meta[..])];
            added.extend(quoted.iter().map(|cursor| ("cursor", cursor.as_bytes())));
            let params = write::edited(Json::trusted("{}"), |_, _| Edit::Keep, &added);
            let body = write::request(Some(id.raw()), Method::ListTools.name(), Some(&params));
            let Ok(response) = self.gateway.send(HttpMethod::POST, headers.clone(), body.into()).await else { return false };
            let Ok(message) = self.answer(response, &id, None).await else { return false };
            let Ok(Message::Response(Response { outcome: Ok(result), .. })) = Message::read(&message, &Limits::REPLY) else { return false };
            let Ok(page) = std::str::from_utf8(&result).map(Json::trusted) else { return false };
            if let Some(schema) = schema_in(page, &name) {
                let mut schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
                if schemas.len() >= MOST_SCHEMAS {
                    schemas.clear();
                }
                schemas.insert(name, schema);
                return true;
            }
            cursor = page.get("nextCursor").and_then(Json::string).map(|cursor| cursor.into_owned());
            if cursor.is_none() {
                return false;
            }
        }
        false
    }
}

fn schema_in(page: Json<'_>, name: &str) -> Option<Value> {
    let tool = page.get("tools")?.elements().find(|tool| tool.get("name").and_then(Json::string).as_deref() == Some(name))?;
    serde_json::from_str(tool.get("inputSchema")?.raw()).ok()
}

fn error_code(message: &Bytes) -> Option<i64> {
    let Ok(Message::Response(Response { outcome: Err(error), .. })) = Message::read(message, &Limits::REPLY) else { return None };
    Json::trusted(std::str::from_utf8(&error).ok()?).get("code")?.raw().parse().ok()
}
