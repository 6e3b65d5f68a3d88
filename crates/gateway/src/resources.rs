//! Resource URIs in results: a target's own become ours.

use crate::generation::Generation;
use bytes::Bytes;
use std::collections::HashMap;
use transom_protocol::json::{Json, Key, Kind};
use transom_protocol::uri;
use transom_protocol::write::{self, Edit};

/// A `resources/read` result whose `contents[].uri` are the URIs clients know.
pub fn exposed_contents(generation: &Generation, target: &str, result: &Bytes) -> Bytes {
    let Ok(text) = std::str::from_utf8(result) else { return result.clone() };
    let object = Json::trusted(text);
    let Some(contents) = object.get("contents").filter(|contents| contents.kind() == Kind::Array) else { return result.clone() };
    let mut list = Vec::with_capacity(contents.raw().len() + 64);
    let mut known: HashMap<String, String> = HashMap::new();
    // Each takes time; further ones are encoded as a whole.
    let most = generation.uris_to_try(target);
    list.push(b'[');
    for (at, item) in contents.elements().enumerate() {
        if at > 0 {
            list.push(b',');
        }
        let Some(own) = item.get("uri").and_then(Json::string) else {
            list.extend_from_slice(item.raw().as_bytes());
            continue;
        };
        let uri = match known.get(&*own) {
            Some(uri) => uri.clone(),
            None if known.len() < most => {
                let uri = write::quoted(&generation.expose_uri(target, &own));
                known.insert(own.into_owned(), uri.clone());
                uri
            }
            None => write::quoted(&uri::exposed(target, &own)),
        };
        let edit = |key: Key<'_>, _: Json<'_>| if key.is("uri") { Edit::Set(uri.as_bytes()) } else { Edit::Keep };
        list.extend_from_slice(&write::edited(item, edit, &[]));
    }
    list.push(b']');
    write::edited(object, |key: Key<'_>, _| if key.is("contents") { Edit::Set(&list) } else { Edit::Keep }, &[]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_carry_the_uri_that_was_asked_for() {
        let result = Bytes::from_static(br#"{"contents":[{"uri":"file:///a","text":"x"},{"text":"no uri"}],"_meta":{}}"#);
        let text = String::from_utf8(exposed_contents(&Generation::empty(), "t", &result).to_vec()).unwrap();
        assert_eq!(text, r#"{"contents":[{"uri":"mcp://t/file%3A%2F%2F%2Fa","text":"x"},{"text":"no uri"}],"_meta":{}}"#);
    }
}
