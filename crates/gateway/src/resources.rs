//! Resource URIs in results: a target's own become ours.

use crate::generation::Generation;
use bytes::Bytes;
use transom_protocol::json::{Json, Key, Kind};
use transom_protocol::write::{self, Edit};

/// A `resources/read` result whose `contents[].uri` are the URIs clients know.
pub fn exposed_contents(generation: &Generation, target: &str, result: &Bytes) -> Bytes {
    let Ok(text) = std::str::from_utf8(result) else { return result.clone() };
    let object = Json::trusted(text);
    let Some(contents) = object.get("contents").filter(|contents| contents.kind() == Kind::Array) else { return result.clone() };
    let mut list = Vec::with_capacity(contents.raw().len() + 64);
    list.push(b'[');
    for (at, item) in contents.elements().enumerate() {
        if at > 0 {
            list.push(b',');
        }
        list.extend_from_slice(&exposed_uri(generation, target, item));
    }
    list.push(b']');
    write::edited(object, |key: Key<'_>, _| if key.is("contents") { Edit::Set(&list) } else { Edit::Keep }, &[]).into()
}

/// An object whose `uri` is the URI clients know.
pub fn exposed_uri(generation: &Generation, target: &str, object: Json<'_>) -> Vec<u8> {
    let uri = object.get("uri").and_then(Json::string).map(|uri| write::quoted(&generation.expose_uri(target, &uri)));
    let Some(uri) = uri else { return object.raw().as_bytes().to_vec() };
    write::edited(object, |key: Key<'_>, _| if key.is("uri") { Edit::Set(uri.as_bytes()) } else { Edit::Keep }, &[])
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
